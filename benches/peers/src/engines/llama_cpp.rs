//! llama.cpp as `llama-cpp-2` builds it: for this processor, with OpenMP.

use std::num::NonZeroU32;
use std::path::Path;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::{LogOptions, send_logs_to_tracing};

use super::{CONTEXT, Engine, Result};

pub struct LlamaCpp {
    context: LlamaContext<'static>,
    position: usize,
}

/// Tokens of one batch: llama.cpp's own default for what is computed together.
const BATCH: usize = 512;

impl LlamaCpp {
    pub fn load(file: &Path, threads: usize) -> Result<Box<dyn Engine>> {
        send_logs_to_tracing(LogOptions::default().with_logs_enabled(false));
        // A context borrows both; the process ends with them.
        let backend: &'static LlamaBackend = Box::leak(Box::new(LlamaBackend::init()?));
        let model = LlamaModel::load_from_file(backend, file, &LlamaModelParams::default())?;
        let model: &'static LlamaModel = Box::leak(Box::new(model));
        let parameters = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(CONTEXT as u32))
            .with_n_batch(BATCH as u32)
            .with_n_ubatch(BATCH as u32)
            .with_n_threads(threads as i32)
            .with_n_threads_batch(threads as i32);
        let context = model.new_context(backend, parameters)?;
        Ok(Box::new(LlamaCpp {
            context,
            position: 0,
        }))
    }
}

impl Engine for LlamaCpp {
    fn reset(&mut self) -> Result<()> {
        self.context.clear_kv_cache();
        self.position = 0;
        Ok(())
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let mut last = 0;
        for part in tokens.chunks(BATCH) {
            let mut batch = LlamaBatch::new(part.len(), 1);
            for (i, token) in part.iter().enumerate() {
                let is_last = i + 1 == part.len();
                let place = (self.position + i) as i32;
                batch.add(LlamaToken(*token as i32), place, &[0], is_last)?;
            }
            self.context.decode(&mut batch)?;
            self.position += part.len();
            last = part.len() - 1;
        }
        Ok(self.context.get_logits_ith(last as i32).to_vec())
    }
}
