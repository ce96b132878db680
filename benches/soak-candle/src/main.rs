//! `soak-candle COUNT FILE`: COUNT multiplications of 784 × 100 by 100 × 10, and lines of `share done,resident bytes`.

use std::error::Error;
use std::fmt::Write;

use candle_core::{Device, Tensor};

const SAMPLES: usize = 200;

/// proc(5): the second number of statm, in pages of 4 KiB.
fn resident() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split_whitespace().nth(1).ok_or("statm has two numbers")?.parse()?;
    Ok(pages * 4096)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(count), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("soak-candle COUNT FILE".into());
    };
    let count: usize = count.parse()?;
    let (a, b) = (vec![0.5f32; 784 * 100], vec![0.25f32; 100 * 10]);
    let mut csv = String::new();
    let mut done = 0;
    for sample in 0..=SAMPLES {
        while done < count * sample / SAMPLES {
            let a = Tensor::from_slice(&a, (784, 100), &Device::Cpu)?;
            let b = Tensor::from_slice(&b, (100, 10), &Device::Cpu)?;
            let c = a.matmul(&b)?.flatten_all()?.to_vec1::<f32>()?;
            assert_eq!(c[0], 12.5);
            done += 1;
        }
        writeln!(csv, "{},{}", sample as f64 / SAMPLES as f64, resident()?)?;
    }
    std::fs::write(file, csv)?;
    Ok(())
}
