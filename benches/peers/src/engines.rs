//! The three programs, behind one interface.

mod candle;
mod ironbridge;
mod llama_cpp;

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use crate::matmul;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Positions that every engine makes room for.
pub const CONTEXT: usize = 2304;

/// A loaded model with one text.
pub trait Engine {
    /// Forgets the text.
    fn reset(&mut self) -> Result<()>;
    /// Computes the next tokens of the text and gives the logits after the last.
    fn feed(&mut self, tokens: &[u32]) -> Result<Vec<f32>>;
    /// Finishes at once what would be done by and by while the engine is used.
    fn settle(&mut self) {}
}

/// The names of the engines, ironbridge first.
pub const NAMES: [&str; 3] = ["ironbridge", "llama.cpp", "candle"];

/// Loads a GGUF file with the engine of that name, to run on `threads` threads.
pub fn load(name: &str, file: &Path, threads: usize) -> Result<Box<dyn Engine>> {
    match name {
        "ironbridge" => ironbridge::Ironbridge::load(file),
        "llama.cpp" => llama_cpp::LlamaCpp::load(file, threads),
        "candle" => candle::Candle::load(file),
        _ => Err(format!("there is no engine {name:?}").into()),
    }
}

/// Before each turn: by then the threads of the one before, which look for more work for some milliseconds, sleep.
pub const REST: Duration = Duration::from_millis(20);

/// What tells engines whose number of threads is the process's; and for how many milliseconds LLVM's OpenMP looks for
/// more work: by itself for 200, on the processors that the next in turn needs.
pub fn environment(threads: usize) -> Vec<(&'static str, String)> {
    let names = [
        "IRONBRIDGE_THREADS",
        "RAYON_NUM_THREADS",
        "OMP_NUM_THREADS",
        matmul::THREADS_VARIABLE,
    ];
    let mut variables = names.map(|name| (name, threads.to_string())).to_vec();
    variables.push(("KMP_BLOCKTIME", "5".to_owned()));
    variables
}
