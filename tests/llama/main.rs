//! Models, tokenizers, chat templates and files: what is read, what is refused, and what comes out.

mod chat_jinja;
mod exact;
#[cfg(feature = "train")]
mod finetune;
mod golden;
mod hostile_files;
mod llama_chat;
mod llama_generation;
mod llama_golden;
mod llama_golden_f16;
mod llama_session;
mod sentencepiece_models;
mod synthetic_models;
mod tokenizer_folder;
mod tokenizer_json;
mod tokenizers_package;
mod transformers_models;
mod weight_storage;
