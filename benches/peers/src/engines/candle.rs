//! candle's quantised LLaMA.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;

use super::{Engine, Result};

pub struct Candle {
    model: ModelWeights,
    position: usize,
}

impl Candle {
    pub fn load(file: &Path) -> Result<Box<dyn Engine>> {
        let mut reader = BufReader::new(File::open(file)?);
        let content = Content::read(&mut reader)?;
        let model = ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)?;
        Ok(Box::new(Candle { model, position: 0 }))
    }
}

impl Engine for Candle {
    fn reset(&mut self) -> Result<()> {
        self.model.clear_kv_cache();
        self.position = 0;
        Ok(())
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let input = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let logits = self.model.forward(&input, self.position)?;
        self.position += tokens.len();
        Ok(logits.flatten_all()?.to_vec1()?)
    }
}
