//! Several texts from one model, each on a thread of its own, and what the memory goes to:
//! `cargo run --example sessions`.

use std::thread;

use ironbridge::llama::{CacheType, Model, Sampler, SamplerOptions, Session, SessionOptions};
use ironbridge::memory::Category;
use ironbridge::{Device, Result};

const PROMPTS: [&str; 3] = ["Ownership is", "Unsafe Rust", "The Drop trait"];

fn main() -> Result<()> {
    let device = Device::open("default")?;
    let model = Model::open(&device, "assets/tiny-rustbook-q8_0.gguf")?;
    show(&device, "the model alone")?;

    let options = SessionOptions {
        context: Some(128),
        batch: Some(32),
        cache: CacheType::F16,
        ..Default::default()
    };
    // The weights are there once. A session may move to another thread, and its memory is all made here.
    let sessions = PROMPTS.map(|_| Session::new(&model, options));
    show(&device, "with three sessions")?;

    let texts = thread::scope(|scope| {
        let write = |(session, prompt): (Result<Session>, &'static str)| {
            let model = &model;
            scope.spawn(move || -> Result<String> {
                let (mut session, mut text) = (session?, prompt.to_owned());
                let sampler = Sampler::new(SamplerOptions::default())?;
                for piece in session.generate(&model.encode_prompt(prompt), sampler, 12) {
                    text.push_str(&piece?.text);
                }
                Ok(text)
            })
        };
        let threads: Vec<_> = sessions.into_iter().zip(PROMPTS).map(write).collect();
        let texts = threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"));
        texts.collect::<Result<Vec<_>>>()
    })?;
    for text in texts {
        println!("{text}");
    }

    show(&device, "the sessions dropped")?;
    drop(model);
    show(&device, "the model dropped")
}

fn show(device: &Device, when: &str) -> Result<()> {
    let memory = device.memory()?;
    let bytes = |category| memory.category(category).bytes;
    println!(
        "{when:<21} weights {:>8}  cache {:>8}  activations {:>8}",
        bytes(Category::Weights),
        bytes(Category::KvCache),
        bytes(Category::Activations)
    );
    Ok(())
}
