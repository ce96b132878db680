//! A matrix multiplication on this machine's default device: `cargo run --example quickstart`.

use ironbridge::ops::Matmul;
use ironbridge::{Device, Result};

fn main() -> Result<()> {
    let device = Device::open("default")?;
    println!("on {}", device.info()?.name);

    let (m, k, n) = (2, 3, 2);
    let a = device.buffer_from(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?; // m × k
    let b = device.buffer_from(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0])?; // k × n
    let c = device.buffer::<f32>(m * n)?;

    let mut commands = device.commands()?;
    commands.matmul(&Matmul::new(a.matrix(m, k), b.matrix(k, n), c.matrix(m, n)))?;
    let pending = commands.commit()?;
    drop((a, b)); // the commands keep what they use
    pending.wait()?;

    for row in c.map()?.chunks(n) {
        println!("{row:?}");
    }
    Ok(())
}
