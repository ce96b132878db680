//! What must hold for any bytes in the place of a file: an error or something that is consistent and can be used, and
//! no panic. The fuzz targets in `fuzz/` call the same functions.

#[path = "c_calls.rs"]
mod c_calls;

use std::fmt::Display;
use std::fs::{File, remove_file};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;

use ironbridge::Device;
use ironbridge::llama::gguf::{GgufHeader, Metadata};
use ironbridge::llama::safetensors::SafetensorsHeader;
use ironbridge::llama::tokenizer::EncodeOptions;
use ironbridge::llama::{
    ChatError, ChatMessage, ChatTemplate, ChatTemplateLimits, Config, ImportanceMatrix, Model,
    ModelFile, Session, SessionOptions, Tokenizer,
};
use tempfile::TempDir;

pub use c_calls::c_calls;

/// Reads bytes as one kind of file. Says whether it was one, for tests of good files.
pub type Check = fn(&[u8]) -> bool;

/// A name of each kind, which is that of its fuzz target and of its folder of seeds.
pub const CHECKS: [(&str, Check); 11] = [
    ("c_calls", c_calls),
    ("chat_template", chat_template),
    ("folder_settings", folder_settings),
    ("gguf", gguf),
    ("importance", importance),
    ("model", model),
    ("msl_source", msl_source),
    ("safetensors", safetensors),
    ("split_gguf", split_gguf),
    ("tokenizer_json", tokenizer_json),
    ("tokenizer_model", tokenizer_model),
];

/// A chat template, which may refuse the conversation.
pub fn chat_template(bytes: &[u8]) -> bool {
    let source = String::from_utf8_lossy(bytes);
    // Small enough that the slowest of all takes milliseconds.
    let limits = ChatTemplateLimits::default()
        .with_output(1 << 20)
        .with_memory(8 << 20)
        .with_steps(200_000);
    let template = match ChatTemplate::parse_with(&source, limits.clone()) {
        Ok(template) => template,
        Err(error) => {
            check_chat_error(&error);
            return false;
        }
    };
    let messages = [
        ChatMessage::system("Be brief."),
        ChatMessage::user("Who was Ada? \u{e9}\u{1f980}"),
        ChatMessage::assistant("<think>\nhm\n</think>\n\nA 1st programmer."),
        ChatMessage::user("{{ 1 }}"),
    ];
    let tools = serde_json::json!([{"name": "f", "parameters": {"items": [1, null, 2.5]}}]);
    let template = template
        .with("bos_token", "<s>")
        .with("eos_token", "</s>")
        .with("tools", tools);
    for add_generation_prompt in [false, true] {
        match template.render(&messages, add_generation_prompt) {
            Ok(text) => assert!(text.len() <= limits.output),
            Err(error) => check_chat_error(&error),
        }
    }
    true
}

fn check_chat_error(error: &ChatError) {
    check_message(error);
    assert!(!matches!(error, ChatError::Thread { .. }), "{error}");
}

/// One line, however long the text is that it speaks of, and nothing that a terminal would obey.
fn check_message(error: &dyn Display) {
    let message = error.to_string();
    let length = message.chars().count();
    assert!((1..1100).contains(&length), "{length}: {message}");
    assert!(!message.contains(char::is_control), "{message:?}");
}

/// A GGUF file's header, and the tokenizer and the hyper-parameters in it.
pub fn gguf(bytes: &[u8]) -> bool {
    let header = match GgufHeader::parse(bytes) {
        Ok(header) => header,
        Err(error) => {
            assert!(error.offset <= bytes.len() as u64, "{error}");
            check_message(&error);
            return false;
        }
    };
    let mut tensors: Vec<_> = header.tensors().iter().collect();
    tensors.sort_by_key(|tensor| tensor.bytes().start);
    let mut end = 0;
    for tensor in tensors {
        let range = tensor.bytes();
        assert!(end <= range.start && range.start <= range.end);
        end = range.end;
        let kind = tensor.tensor_type();
        let blocks = tensor.elements() / kind.block_length();
        assert_eq!(range.end - range.start, blocks * kind.block_size());
        assert_eq!(header.tensor(tensor.name()), Some(tensor));
    }
    assert!(end <= bytes.len() as u64);
    use_tokenizer(header.metadata());
    true
}

/// A GGUF file as a model that computes.
pub fn model(bytes: &[u8]) -> bool {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::open("cpu").unwrap());
    let model = match Model::open(&DEVICE, file.path()) {
        Ok(model) => model,
        Err(error) => {
            check_message(&error);
            return false;
        }
    };
    let options = SessionOptions {
        context: Some(8),
        batch: Some(4),
        ..SessionOptions::default()
    };
    let mut session = Session::new(&model, options).unwrap();
    let last = model.tokenizer().vocabulary_size() - 1;
    // Numbers may be none, but there are as many as there should be.
    session.feed(&[0, last, 0]).unwrap();
    session.feed(&[last]).unwrap();
    assert_eq!(session.logits().unwrap().len(), last as usize + 1);
    true
}

/// An importance matrix, in either form.
pub fn importance(bytes: &[u8]) -> bool {
    match ImportanceMatrix::parse(bytes) {
        Ok(matrix) => {
            for name in matrix.names() {
                let columns = matrix.columns(name).unwrap();
                assert!(columns.iter().all(|it| *it >= 0.0 && it.is_finite()));
                assert!(columns.len() <= bytes.len() / 4);
            }
            true
        }
        Err(error) => {
            check_message(&error);
            false
        }
    }
}

/// A GGUF file in two parts, behind each other and behind the length of the first in 4 bytes.
pub fn split_gguf(bytes: &[u8]) -> bool {
    let Some((length, parts)) = bytes.split_first_chunk() else {
        return false;
    };
    let first = (u32::from_le_bytes(*length) as usize).min(parts.len());
    let folder = TempDir::new().unwrap();
    let path = |number| folder.path().join(format!("m-0000{number}-of-00002.gguf"));
    std::fs::write(path(1), &parts[..first]).unwrap();
    std::fs::write(path(2), &parts[first..]).unwrap();
    // Either part leads to the whole, or to an error.
    let found = [1, 2].map(|number| match ModelFile::open(path(number)) {
        Ok(file) => {
            for tensor in file.tensors() {
                assert_eq!(file.bytes(tensor).len() as u64, tensor.byte_length());
            }
            Some(file.tensors().len())
        }
        Err(error) => {
            check_message(&error);
            None
        }
    });
    // A part that says that it is whole is a model of its own.
    found[0].is_some() && found[0] == found[1] && found[0] == Some(2)
}

/// Preprocessed Metal source, to what clang would get. Text that is no UTF-8 is refused before.
pub fn msl_source(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(ironbridge::read_metal_source)
}

/// A safetensors file's header.
pub fn safetensors(bytes: &[u8]) -> bool {
    let header = match SafetensorsHeader::parse(bytes) {
        Ok(header) => header,
        Err(error) => {
            assert!(error.offset <= bytes.len() as u64, "{error}");
            check_message(&error);
            return false;
        }
    };
    let mut end = header.tensors().first().map(|tensor| tensor.bytes.start);
    for tensor in header.tensors() {
        assert_eq!(Some(tensor.bytes.start), end, "no hole and no overlap");
        let elements: u64 = tensor.shape.iter().product();
        assert_eq!(
            tensor.bytes.end - tensor.bytes.start,
            elements * tensor.dtype.size()
        );
        end = Some(tensor.bytes.end);
    }
    assert!(end.is_none_or(|end| end == bytes.len() as u64));
    true
}

/// A folder's `tokenizer.json`.
pub fn tokenizer_json(bytes: &[u8]) -> bool {
    WITHOUT_TOKENIZER.with(|folder| folder_with(folder, &[("tokenizer.json", bytes)]))
}

/// A folder's `tokenizer.model`.
pub fn tokenizer_model(bytes: &[u8]) -> bool {
    WITHOUT_TOKENIZER.with(|folder| folder_with(folder, &[("tokenizer.model", bytes)]))
}

/// What else a folder may have beside its weights and its tokenizer, with a zero byte between the files: no text that
/// is JSON has one.
pub fn folder_settings(bytes: &[u8]) -> bool {
    const NAMES: [&str; 5] = [
        "config.json",
        "generation_config.json",
        "tokenizer_config.json",
        "model.safetensors.index.json",
        "chat_template.jinja",
    ];
    let parts = bytes.split(|byte| *byte == 0);
    let files: Vec<(&str, &[u8])> = NAMES.into_iter().zip(parts).collect();
    WITHOUT_SETTINGS.with(|folder| folder_with(folder, &files))
}

/// A folder that is good but for some files. It is kept, as making one takes longer than reading it.
fn folder_of(links: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, from) in links {
        let from = format!("{}/{from}", super::MODELS);
        symlink(from, folder.path().join(name)).unwrap();
    }
    folder
}

thread_local! {
    static WITHOUT_TOKENIZER: TempDir = folder_of(&[
        ("config.json", "llama-grouped-tied/config.json"),
        ("model.safetensors", "llama-grouped-tied/model.safetensors"),
    ]);
    /// With a small tokenizer, which is read quickly.
    static WITHOUT_SETTINGS: TempDir = folder_of(&[
        ("model.safetensors", "llama-grouped-tied/model.safetensors"),
        ("tokenizer.json", "../hostile/tokenizer_json/converted"),
    ]);
}

fn folder_with(folder: &TempDir, files: &[(&str, &[u8])]) -> bool {
    for (name, bytes) in files {
        // In the place of what is there: some file systems wait for the disk where a file is emptied first.
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let mut file = options.open(folder.path().join(name)).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
    }
    let read = match ModelFile::open(folder.path()) {
        Ok(file) => use_tokenizer(file.metadata()),
        Err(error) => {
            check_message(&error);
            false
        }
    };
    for (name, _) in files {
        remove_file(folder.path().join(name)).unwrap();
    }
    read
}

/// Text becomes tokens of the vocabulary, and tokens text.
fn use_tokenizer(metadata: &Metadata) -> bool {
    let tokenizer = match Tokenizer::from_metadata(metadata) {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            check_message(&error);
            return false;
        }
    };
    let special = EncodeOptions {
        add_special: true,
        parse_special: true,
    };
    let size = tokenizer.vocabulary_size();
    for text in [
        "",
        " aabab  Ab\n",
        "<s>a<|end|> <tool>\u{301}1234 it's",
        "\u{1f980}\0",
    ] {
        for options in [EncodeOptions::default(), special] {
            let tokens = tokenizer.encode_with(text, options);
            assert!(tokens.iter().all(|token| *token < size));
            tokenizer.decode(&tokens).unwrap();
        }
    }
    let some: Vec<u32> = (0..size.min(512)).chain([size - 1]).collect();
    tokenizer.decode(&some).unwrap();
    assert!(tokenizer.decode(&[size]).is_err());
    // It has its own errors.
    if let Err(error) = Config::from_metadata(metadata, size) {
        check_message(&error);
    }
    true
}
