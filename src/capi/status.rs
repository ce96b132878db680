//! The C status of each error.

use std::io;

use super::call::Failure;
use crate::error::{Error, Status};
#[cfg(feature = "chat")]
use crate::llama::ChatError;
use crate::llama::tokenizer::TokenizerError;
use crate::llama::{LlamaError, QuantizeError, SamplerError};

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match &error {
            Error::Llama(error) => of_model(error),
            Error::Text { .. } => Status::InvalidArgument,
            Error::System { .. } => Status::File,
            other => other.status().unwrap_or(Status::Internal),
        };
        Failure::new(status, error.to_string())
    }
}

impl From<LlamaError> for Failure {
    fn from(error: LlamaError) -> Failure {
        Failure::new(of_model(&error), error.to_string())
    }
}

impl From<TokenizerError> for Failure {
    fn from(error: TokenizerError) -> Failure {
        LlamaError::from(error).into()
    }
}

impl From<SamplerError> for Failure {
    fn from(error: SamplerError) -> Failure {
        LlamaError::from(error).into()
    }
}

impl From<QuantizeError> for Failure {
    fn from(error: QuantizeError) -> Failure {
        LlamaError::from(error).into()
    }
}

#[cfg(feature = "chat")]
impl From<ChatError> for Failure {
    fn from(error: ChatError) -> Failure {
        LlamaError::from(error).into()
    }
}

fn of_model(error: &LlamaError) -> Status {
    match error {
        LlamaError::Open { source, .. } => of_file(source),
        LlamaError::Split { .. }
        | LlamaError::Gguf { .. }
        | LlamaError::Importance { .. }
        | LlamaError::Adapter { .. }
        | LlamaError::Safetensors { .. }
        | LlamaError::HuggingFace { .. }
        | LlamaError::Metadata(_)
        | LlamaError::Hyperparameter { .. }
        | LlamaError::MissingTensor(_)
        | LlamaError::UnexpectedTensor(_)
        | LlamaError::TensorShape { .. }
        | LlamaError::TensorType { .. }
        | LlamaError::Snapshot(_)
        | LlamaError::Embedding(_) => Status::Model,
        LlamaError::Tokenizer(TokenizerError::OutOfRange { .. }) => Status::OutOfRange,
        LlamaError::Tokenizer(_) => Status::Model,
        LlamaError::Sampler(error) => match error {
            SamplerError::Empty => Status::InvalidArgument,
            SamplerError::NotFinite { .. } | SamplerError::NothingAllowed => Status::Model,
            _ => Status::InvalidArgument,
        },
        LlamaError::Quantize(error) => of_quantizer(error),
        #[cfg(feature = "chat")]
        LlamaError::Chat(ChatError::NoTemplate) => Status::NotFound,
        #[cfg(feature = "chat")]
        LlamaError::Chat(ChatError::Thread { .. }) => Status::OutOfMemory,
        #[cfg(feature = "chat")]
        LlamaError::Chat(_) => Status::Chat,
        LlamaError::NoTokens => Status::State,
        LlamaError::ContextFull { .. } => Status::ContextFull,
        LlamaError::TokenOutOfRange { .. }
        | LlamaError::Sequence { .. }
        | LlamaError::Forget { .. }
        | LlamaError::ContextTooLong { .. } => Status::OutOfRange,
        LlamaError::NothingToPredict(_)
        | LlamaError::NoWholeChunk { .. }
        | LlamaError::NoSequences
        | LlamaError::ZeroOption(_) => Status::InvalidArgument,
        LlamaError::CacheType { .. } => Status::Unsupported,
        LlamaError::Cancelled(_) => Status::Cancelled,
    }
}

fn of_quantizer(error: &QuantizeError) -> Status {
    match error {
        QuantizeError::Target(_) | QuantizeError::Source { .. } => Status::Unsupported,
        QuantizeError::PartialBlock { .. } | QuantizeError::Importance { .. } => Status::Shape,
        QuantizeError::Number { .. } | QuantizeError::NoImportance => Status::Model,
        QuantizeError::Cancelled(_) => Status::Cancelled,
        QuantizeError::Exists(_) | QuantizeError::Write { .. } => Status::File,
    }
}

pub(super) fn of_file(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Status::OutOfMemory,
        _ => Status::File,
    }
}
