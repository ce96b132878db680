//! The parts that a process plays for the tests.

use std::io::BufRead;

use ironbridge::memory::Category;
use ironbridge::{Device, ops::Fill};

const MIB: usize = 1 << 20;

pub fn play(part: &str) {
    match part {
        "holder" => holder(),
        _ => panic!("there is no part {part:?}"),
    }
}

/// Says that a step is done and waits for the next one; false at the end.
fn next_step() -> bool {
    println!("ready");
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .expect("readable")
        > 0
}

/// Holds 8 MiB, then 3 MiB more, then 3 MiB idle in the pool after two operations.
fn holder() {
    let device = Device::open("cpu").unwrap();
    let options = device.buffer_options().category(Category::Weights);
    let held = options.create::<u8>(8 * MIB).unwrap();
    if next_step() {
        let scratch = device
            .buffer_options()
            .pooled()
            .create::<u8>(3 * MIB)
            .unwrap();
        if next_step() {
            let mut commands = device.commands().unwrap();
            for value in 0..2 {
                let out = held.tensor_at(0, ironbridge::Dtype::U32);
                let length = 4096;
                commands.fill(&Fill { length, out, value }).unwrap();
            }
            commands.commit().unwrap().wait().unwrap();
            drop(scratch);
            while next_step() {}
        }
    }
}
