//! From a GGUF file to tokens: `cargo run --example generate -- model.gguf "Once upon a time"`.

use std::env::args;
use std::io::{Write, stdout};

use ironbridge::llama::{Model, Sampler, SamplerOptions};
use ironbridge::{Device, Error};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = args()
        .nth(1)
        .unwrap_or("assets/tiny-rustbook-q8_0.gguf".into());
    let prompt = args().nth(2).unwrap_or("Ownership is".into());

    let model = Model::open(&Device::open("default")?, path)?;
    let mut session = model.session()?;
    let sampler = Sampler::new(SamplerOptions::default()).map_err(Error::from)?;
    print!("{prompt}");
    for piece in session.generate(&model.encode_prompt(&prompt), sampler, 24) {
        print!("{}", piece?.text);
        stdout().flush()?;
    }
    println!();
    Ok(())
}
