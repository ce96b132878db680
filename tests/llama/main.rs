//! Models, tokenizers, chat templates and files: what is read, what is refused, and what comes out.

mod chat_jinja;
mod exact;
mod golden;
mod hostile_files;
mod llama_chat;
mod llama_generation;
mod llama_golden;
mod llama_golden_f16;
mod llama_session;
mod synthetic_models;
mod tokenizers_package;
mod transformers_models;
mod weight_storage;
