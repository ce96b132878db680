//! What may help when a command fails.

use std::io;

use ironbridge::Error;
use ironbridge::finetune::FinetuneError;
use ironbridge::llama::gguf::GgufErrorKind;
use ironbridge::llama::{ChatError, LlamaError, QuantizeError};
use ironbridge::train::TrainError;

/// Half a sentence that goes behind the error's own, where there is something to say.
pub fn hint(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return of_the_crate(error);
    }
    if let Some(error) = error.downcast_ref::<FinetuneError>() {
        return of_fine_tuning(error);
    }
    of_a_model(error.downcast_ref::<LlamaError>()?)
}

fn of_fine_tuning(error: &FinetuneError) -> Option<&'static str> {
    match error {
        FinetuneError::Llama(error) => of_a_model(error),
        FinetuneError::Exists(_) => Some("--force replaces it"),
        FinetuneError::Train(TrainError::OtherModel { .. }) => {
            Some("without --resume a run starts anew")
        }
        FinetuneError::Train(TrainError::Device(Error::OutOfMemory(_)))
        | FinetuneError::Device(Error::OutOfMemory(_)) => {
            Some("--recompute takes less memory, and so does a smaller --batch or --sequence")
        }
        FinetuneError::TooShort { .. } => Some("--sequence N makes them shorter"),
        _ => None,
    }
}

fn of_the_crate(error: &Error) -> Option<&'static str> {
    match error {
        Error::Llama(error) => of_a_model(error),
        Error::NoDevice(_) => Some("`ironbridge devices` lists what is here"),
        Error::OutOfMemory(_) => Some(
            "a smaller --context or --cache q8_0 takes less memory, and so does a model of fewer bits",
        ),
        _ => None,
    }
}

fn of_a_model(error: &LlamaError) -> Option<&'static str> {
    match error {
        LlamaError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Some("a model is a .gguf file, or a folder with config.json and .safetensors files")
        }
        LlamaError::Gguf { source, .. } => match source.kind {
            GgufErrorKind::Magic { .. } => Some(
                "other formats than GGUF are read as a whole Hugging Face folder, not as one file",
            ),
            GgufErrorKind::Truncated { .. } | GgufErrorKind::TensorOutsideFile { .. } => {
                Some("the download may not be complete")
            }
            _ => None,
        },
        LlamaError::ContextFull { .. } => Some(
            "--context makes more room up to what the model was trained on, --rope-scaling yarn with --rope-scale beyond",
        ),
        LlamaError::ContextTooLong { .. } => {
            Some("--rope-scaling yarn with --rope-scale stretches a model to a longer one")
        }
        LlamaError::CacheType { .. } => Some("--cache f16 fits every model"),
        LlamaError::Chat(ChatError::NoTemplate) => {
            Some("--template FILE gives it one; `ironbridge generate` goes on from any text")
        }
        LlamaError::Quantize(QuantizeError::Exists(_)) => Some("--force replaces it"),
        LlamaError::Quantize(QuantizeError::PartialBlock { .. }) => {
            Some("--tensor NAME=TYPE gives this one another type, say Q8_0 or F16")
        }
        _ => None,
    }
}
