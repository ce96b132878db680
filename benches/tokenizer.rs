//! Text to tokens and back: SentencePiece's, of the model in `assets/`, and a byte-level one with Llama 3's
//! pre-tokenizer, of the tests, whose vocabulary is small: more pairs are merged for each word than in published ones.
//!
//! `cargo bench --bench tokenizer`

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ironbridge::llama::gguf::{GgufFile, Metadata, Value};
use ironbridge::llama::{LlamaError, Tokenizer};
use serde_json::Value as Json;

const TEXT: &str = include_str!("../README.md");

fn sentencepiece() -> Result<Tokenizer, LlamaError> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/assets/tiny-rustbook-q8_0.gguf"
    );
    Tokenizer::from_metadata(GgufFile::open(path)?.header().metadata())
}

fn byte_level() -> Result<Tokenizer, LlamaError> {
    let fixtures: Json =
        serde_json::from_str(include_str!("../tests/data/tokenizers_package.json"))
            .expect("the fixtures are JSON");
    let fixtures = fixtures["tokenizers"].as_array().expect("a list").iter();
    let mut llama = fixtures.filter(|fixture| fixture["pre"] == "llama-bpe");
    let llama = &llama.next().expect("Llama 3's is there")["tokenizer"]["model"];
    let text = |json: &Json| json.as_str().expect("text").to_owned();
    let mut pieces: Vec<(u64, String)> = llama["vocab"]
        .as_object()
        .expect("pieces and their numbers")
        .iter()
        .map(|(piece, id)| (id.as_u64().expect("a number"), piece.clone()))
        .collect();
    pieces.sort_unstable();
    let pieces = pieces.into_iter().map(|(_, piece)| piece);
    let pieces: Vec<Box<[u8]>> = pieces.map(|piece| piece.into_bytes().into()).collect();
    let merges = llama["merges"].as_array().expect("a list").iter();
    let merges: Vec<Box<[u8]>> = merges
        .map(|pair| format!("{} {}", text(&pair[0]), text(&pair[1])))
        .map(|merge| merge.into_bytes().into())
        .collect();
    let mut metadata = Metadata::default();
    let entries: [(&str, Value); 5] = [
        ("model", "gpt2".into()),
        ("pre", "llama-bpe".into()),
        ("token_type", vec![1i32; pieces.len()].into()),
        ("tokens", pieces.into()),
        ("merges", merges.into()),
    ];
    for (key, value) in entries {
        metadata.set(format!("tokenizer.ggml.{key}"), value)?;
    }
    Tokenizer::from_metadata(&metadata)
}

fn tokenizer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tokenizer");
    for (name, tokenizer) in [
        ("sentencepiece", sentencepiece()),
        ("byte_level", byte_level()),
    ] {
        let tokenizer = tokenizer.expect("a tokenizer that the tests read as well");
        let tokens = tokenizer.encode(TEXT);
        group.throughput(Throughput::Bytes(TEXT.len() as u64));
        group.bench_function(BenchmarkId::new("encode", name), |bencher| {
            bencher.iter(|| tokenizer.encode(TEXT));
        });
        group.throughput(Throughput::Elements(tokens.len() as u64));
        group.bench_function(BenchmarkId::new("decode", name), |bencher| {
            bencher.iter(|| tokenizer.decode(&tokens).expect("its own tokens"));
        });
    }
    group.finish();
}

criterion_group!(benches, tokenizer);
criterion_main!(benches);
