//! Files and sources from strangers: cut at every byte, changed at every byte, and those that fuzzing found. None of
//! them makes a reader panic, hang or believe what is not there.
//!
//! `tests/data/hostile` has a folder for each kind of file. `scripts/hostile_seeds.py` made the good ones, whose names
//! are in [`GOOD`], but for the chat templates, which are those of `chat_templates.json`. The others are what `make
//! fuzz` found, and are replayed here.

mod checks;

use std::fs;
use std::path::PathBuf;

use checks::CHECKS;

/// Where `checks` finds a folder's other files.
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/models");

/// The kind of each whole and consistent file, and its name.
const GOOD: [(&str, &str); 43] = [
    ("c_calls", "chats"),
    ("c_calls", "sessions"),
    ("chat_template", "chatml"),
    ("chat_template", "deepseek-r1-distill"),
    ("chat_template", "extensions"),
    ("chat_template", "llama2"),
    ("chat_template", "llama3"),
    ("chat_template", "llama3.1"),
    ("chat_template", "llama3.2"),
    ("chat_template", "mistral"),
    ("chat_template", "mistral-nemo"),
    ("chat_template", "qwen2"),
    ("chat_template", "qwen2.5"),
    ("chat_template", "qwen3"),
    ("chat_template", "zephyr"),
    ("folder_settings", "gemma3"),
    ("folder_settings", "llama3"),
    ("folder_settings", "qwen2"),
    ("gguf", "byte-level"),
    ("gguf", "sentencepiece"),
    ("gguf", "types"),
    ("gguf", "unigrams"),
    ("gguf", "values"),
    ("gguf", "word-pieces"),
    ("importance", "gguf"),
    ("importance", "table"),
    ("model", "gemma2"),
    ("model", "llama"),
    ("model", "qwen2"),
    ("model", "qwen3"),
    ("msl_source", "attention"),
    ("msl_source", "features"),
    ("safetensors", "metadata"),
    ("safetensors", "plain"),
    ("split_gguf", "two-parts"),
    ("tokenizer_json", "converted"),
    ("tokenizer_json", "gpt-2"),
    ("tokenizer_json", "metaspace"),
    ("tokenizer_json", "qwen2"),
    ("tokenizer_json", "unigram"),
    ("tokenizer_json", "word-piece"),
    ("tokenizer_model", "bpe"),
    ("tokenizer_model", "unigram"),
];

fn folder(kind: &str) -> PathBuf {
    let hostile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/hostile");
    PathBuf::from(hostile).join(kind)
}

fn read(kind: &str, name: &str) -> Vec<u8> {
    fs::read(folder(kind).join(name)).unwrap()
}

/// Calls `test` with the bytes of each good file and what checks them, and adds up how many inputs it says it tried.
fn each_good_file(kinds: &[&str], test: impl Fn(&str, Vec<u8>, checks::Check) -> usize) -> usize {
    let good = GOOD.iter().filter(|(kind, _)| kinds.contains(kind));
    good.map(|(kind, name)| {
        let (_, check) = CHECKS.iter().find(|(other, _)| other == kind).unwrap();
        test(&format!("{kind}/{name}"), read(kind, name), *check)
    })
    .sum()
}

const EVERY_KIND: [&str; 11] = [
    "c_calls",
    "chat_template",
    "folder_settings",
    "gguf",
    "importance",
    "model",
    "msl_source",
    "safetensors",
    "split_gguf",
    "tokenizer_json",
    "tokenizer_model",
];

#[test]
fn good_files_are_read() {
    each_good_file(&EVERY_KIND, |name, bytes, check| {
        assert!(check(&bytes), "{name}");
        1
    });
}

#[test]
fn what_fuzzing_found_is_harmless() {
    for (kind, check) in CHECKS {
        let mut files = 0;
        for entry in fs::read_dir(folder(kind)).unwrap() {
            check(&fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        let good = GOOD.iter().filter(|(other, _)| *other == kind).count();
        assert!(files >= good, "{kind}: {files} files");
    }
}

/// Readers name what they found where they wanted something else.
#[test]
fn of_a_text_without_end_an_error_quotes_the_beginning() {
    let text = "\u{e9}\u{1b}[2J\n".repeat(1_000_000);
    let json = serde_json::to_string(&text).unwrap();
    let object = format!("{{{json}: {json}, \"model\": {json}}}");
    let sized = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    // A key of that name, of a type that there is not.
    let gguf = [
        &b"GGUF"[..],
        &3_u32.to_le_bytes(),
        &0_u64.to_le_bytes(),
        &1_u64.to_le_bytes(),
        &sized(&text),
        &99_u32.to_le_bytes(),
    ]
    .concat();
    let cases: [(checks::Check, Vec<u8>); 7] = [
        (checks::tokenizer_json, json.clone().into()),
        (checks::tokenizer_json, object.clone().into()),
        (checks::safetensors, sized(&object)),
        (checks::gguf, gguf.clone()),
        (checks::model, gguf),
        (checks::chat_template, format!("{{% {text} %}}").into()),
        (
            checks::chat_template,
            format!("{{{{ raise_exception({json}) }}}}").into(),
        ),
    ];
    for (check, bytes) in cases {
        check(&bytes);
    }
}

#[test]
fn files_cut_at_any_byte_are_refused() {
    // A protocol buffer that ends between two fields is a shorter one, and so is a template that ends between tags.
    let kinds = [
        "gguf",
        "model",
        "safetensors",
        "split_gguf",
        "tokenizer_json",
    ];
    let refused = each_good_file(&kinds, |name, bytes, check| {
        for length in 0..bytes.len() {
            assert!(!check(&bytes[..length]), "{name}, {length} bytes");
        }
        bytes.len()
    });
    // And a source that ends between two declarations as well, a table of importance without the text's name,
    // settings of which the last files are not there, and calls that are fewer.
    let read = each_good_file(
        &[
            "c_calls",
            "chat_template",
            "folder_settings",
            "importance",
            "msl_source",
            "tokenizer_model",
        ],
        |_, bytes, check| {
            for length in 0..bytes.len() {
                check(&bytes[..length]);
            }
            bytes.len()
        },
    );
    println!("{} files that end early", refused + read);
}

/// Every field of every header is spoilt by this, since every byte is.
#[test]
fn files_with_any_byte_changed_do_no_harm() {
    // Whole models, folders and conversations take a millisecond each.
    let kinds: [(&[&str], &[u8]); 3] = [
        (
            &[
                "gguf",
                "importance",
                "msl_source",
                "safetensors",
                "split_gguf",
                "tokenizer_model",
            ],
            &[0x01, 0x80, 0xff],
        ),
        (&["model"], &[0x80]),
        (
            &[
                "c_calls",
                "chat_template",
                "folder_settings",
                "tokenizer_json",
            ],
            &[0x01],
        ),
    ];
    let mut tried = 0;
    for (kinds, flips) in kinds {
        tried += each_good_file(kinds, |_, bytes, check| {
            // Weights may be any numbers: what is behind the last page of the header is theirs.
            let positions = bytes.len().min(3_000);
            for position in 0..positions {
                for flip in flips {
                    let mut changed = bytes.clone();
                    changed[position] ^= flip;
                    check(&changed);
                }
            }
            positions * flips.len()
        });
    }
    println!("{tried} files with a byte changed");
}
