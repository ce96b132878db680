//! A sine, learned by a network of 1, 64, 64 and 1 units, which draws its curve.
//!
//! `cargo run --features train --example sine [-- FILE.svg]`. It ends with an error if the loss does not fall below
//! 0.0001.

use std::f32::consts::PI;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use ironbridge::Device;
use ironbridge::train::{Adam, Linear, Schedule, Tape};

const STEPS: u64 = 800;
const POINTS: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut tape = Tape::new(1);
    let x = tape.input("x", POINTS, 1)?;
    let wanted = tape.input("wanted", POINTS, 1)?;
    let mut layer = x;
    for (name, inputs) in [("first", 1), ("second", 64)] {
        let sum = Linear::new(&mut tape, name, inputs, 64)?.forward(&mut tape, layer)?;
        layer = tape.tanh(&format!("{name}.tanh"), sum)?;
    }
    let curve = Linear::new(&mut tape, "curve", 64, 1)?.forward(&mut tape, layer)?;
    tape.keep(curve)?;
    let loss = tape.mse("loss", curve, wanted)?;

    // From -π to π, as numbers from -1 to 1.
    let points: Vec<f32> = (0..POINTS)
        .map(|i| 2.0 * i as f32 / (POINTS - 1) as f32 - 1.0)
        .collect();
    let sine: Vec<f32> = points.iter().map(|x| (x * PI).sin()).collect();
    let device = Device::open("default")?;
    let schedule = Schedule::cosine(0.01, 0.0, STEPS).warmup(20);
    let mut trainer = tape
        .plan(loss)?
        .trainer(&device, Adam::default(), schedule)?;
    trainer.write(x, &points)?;
    trainer.write(wanted, &sine)?;
    let memory = trainer.memory();
    println!(
        "{} bytes of device memory; activations and gradients share {} bytes instead of {}",
        memory.total(),
        memory.activations,
        memory.unshared_activations
    );

    let start = Instant::now();
    for step in 1..=STEPS {
        let loss = trainer.step()?;
        if step % 200 == 0 {
            println!("step {step:4}  loss {loss:.6}");
        }
        show(step, STEPS, loss, start)?;
    }
    let loss = trainer.forward()?;
    println!("loss {loss:.6}");
    if let Some(path) = std::env::args().nth(1) {
        std::fs::write(&path, svg(&sine, &trainer.read(curve)?))?;
        println!("{path} shows both curves");
    }
    match loss < 0.0001 {
        true => Ok(()),
        false => Err("the network has not learned it".into()),
    }
}

/// The sine as a broad line, and the network's curve on it.
fn svg(sine: &[f32], curve: &[f32]) -> String {
    let line = |values: &[f32], color: &str, width: u32| {
        let mut points = String::new();
        for (i, y) in values.iter().enumerate() {
            let x = 20.0 + 600.0 * i as f32 / (values.len() - 1) as f32;
            let _ = write!(points, "{x:.1},{:.1} ", 120.0 - 100.0 * y);
        }
        let points = points.trim_end();
        format!(
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" points=\"{points}\"/>\n"
        )
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 240\">\n{}{}</svg>\n",
        line(sine, "#bbb", 8),
        line(curve, "#c30", 2)
    )
}

/// A progress bar with the time that is left, on a terminal.
fn show(done: u64, all: u64, loss: f32, start: Instant) -> std::io::Result<()> {
    let mut terminal = std::io::stderr();
    if !terminal.is_terminal() {
        return Ok(());
    }
    let filled = (done * 40 / all) as usize;
    let left = start.elapsed().as_secs_f64() / done as f64 * (all - done) as f64;
    write!(
        terminal,
        "\r[{:-<40}] {loss:.6}, {left:4.1} s left",
        "#".repeat(filled)
    )?;
    if done == all {
        writeln!(terminal)?;
    }
    Ok(())
}
