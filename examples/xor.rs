//! Exclusive or, learned by a network of 2, 4 and 1 units.
//!
//! `cargo run --features train --example xor`. It ends with an error if the loss does not fall below 0.001.

use std::io::{IsTerminal, Write};

use ironbridge::Device;
use ironbridge::train::{Adam, Linear, Schedule, Tape};

const STEPS: u64 = 600;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut tape = Tape::new(7);
    let pairs = tape.input("pairs", 4, 2)?;
    let wanted = tape.input("wanted", 4, 1)?;
    let hidden = Linear::new(&mut tape, "hidden", 2, 4)?.forward(&mut tape, pairs)?;
    let hidden = tape.tanh("hidden.tanh", hidden)?;
    let answers = Linear::new(&mut tape, "answers", 4, 1)?.forward(&mut tape, hidden)?;
    let answers = tape.sigmoid("answers.sigmoid", answers)?;
    tape.keep(answers)?;
    let loss = tape.mse("loss", answers, wanted)?;

    let device = Device::open("default")?;
    let plan = tape.plan(loss)?;
    let mut trainer = plan.trainer(&device, Adam::default(), Schedule::constant(0.05))?;
    trainer.write(pairs, &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])?;
    trainer.write(wanted, &[0.0, 1.0, 1.0, 0.0])?;
    println!("{} bytes of device memory", trainer.memory().total());
    for step in 1..=STEPS {
        let loss = trainer.step()?;
        if step % 100 == 0 {
            println!("step {step:4}  loss {loss:.6}");
        }
        show(step, STEPS, loss)?;
    }
    let loss = trainer.forward()?;
    println!("answers {:.2?}, loss {loss:.6}", trainer.read(answers)?);
    match loss < 0.001 {
        true => Ok(()),
        false => Err("the network has not learned it".into()),
    }
}

/// A progress bar, on a terminal.
fn show(done: u64, all: u64, loss: f32) -> std::io::Result<()> {
    let mut terminal = std::io::stderr();
    if !terminal.is_terminal() {
        return Ok(());
    }
    let filled = (done * 40 / all) as usize;
    write!(terminal, "\r[{:-<40}] {loss:.6}", "#".repeat(filled))?;
    if done == all {
        writeln!(terminal)?;
    }
    Ok(())
}
