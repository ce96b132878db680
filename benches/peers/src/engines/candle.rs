//! candle's quantised LLaMA.
//!
//! It has a thread of its own: where the processor has AMX, candle configures the registers of the thread that it runs
//! on for itself, and llama.cpp, which did so once before, would meet instructions that are no longer defined.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;

use super::{Engine, Result};

pub struct Candle {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
}

enum Request {
    Reset,
    Feed(Vec<u32>),
}

/// Logits after a text, none after a reset or when the model is loaded; else what went wrong.
type Answer = std::result::Result<Vec<f32>, String>;

impl Candle {
    pub fn load(file: &Path) -> Result<Box<dyn Engine>> {
        let (requests, from_us) = channel();
        let (to_us, answers) = channel();
        let file = file.to_owned();
        thread::spawn(move || serve(file, from_us, to_us));
        let engine = Candle { requests, answers };
        engine.answer()?;
        Ok(Box::new(engine))
    }

    fn answer(&self) -> Result<Vec<f32>> {
        Ok(self.answers.recv()??)
    }
}

impl Engine for Candle {
    fn reset(&mut self) -> Result<()> {
        self.requests.send(Request::Reset)?;
        self.answer().map(drop)
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        self.requests.send(Request::Feed(tokens.to_vec()))?;
        self.answer()
    }
}

/// Loads the model and answers requests until there can be no more.
fn serve(file: PathBuf, requests: Receiver<Request>, answers: Sender<Answer>) {
    let mut text = match Text::load(&file) {
        Ok(text) => text,
        Err(error) => {
            // Who asked may be gone.
            let _ = answers.send(Err(error.to_string()));
            return;
        }
    };
    let mut answer = Ok(Vec::new());
    while answers.send(answer).is_ok()
        && let Ok(request) = requests.recv()
    {
        answer = match request {
            Request::Reset => {
                text.reset();
                Ok(Vec::new())
            }
            Request::Feed(tokens) => text.feed(&tokens).map_err(|error| error.to_string()),
        };
    }
}

struct Text {
    model: ModelWeights,
    position: usize,
}

impl Text {
    fn load(file: &Path) -> Result<Text> {
        let mut reader = BufReader::new(File::open(file)?);
        let content = Content::read(&mut reader)?;
        let model = ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)?;
        Ok(Text { model, position: 0 })
    }

    fn reset(&mut self) {
        self.model.clear_kv_cache();
        self.position = 0;
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let input = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let logits = self.model.forward(&input, self.position)?;
        self.position += tokens.len();
        Ok(logits.flatten_all()?.to_vec1()?)
    }
}
