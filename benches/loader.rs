//! From a file to a model: the header alone, a model whose weights are used where they are mapped, and its first
//! scores. The file is in the page cache, as it is when a program starts again.
//!
//! `cargo bench --bench loader`; `IRONBRIDGE_DEVICE` picks another device.

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ironbridge::llama::gguf::GgufFile;
use ironbridge::llama::{LlamaError, Model};
use ironbridge::{Device, Error};

fn header(path: &Path) -> Result<usize, LlamaError> {
    Ok(GgufFile::open(path)?.header().tensors().len())
}

/// The model is closed as well: the time between the scores and the next model counts.
fn first_scores(device: &Device, path: &Path) -> Result<f32, Error> {
    let model = Model::open(device, path)?;
    let mut session = model.session()?;
    session.feed(&[1])?;
    Ok(session.logits()?[0])
}

fn loader(criterion: &mut Criterion) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny-rustbook-q8_0.gguf");
    let bytes = path.metadata().expect("the model is in assets/").len();
    let device = Device::open("default").expect("there is always the software device");
    let mut group = criterion.benchmark_group("loader");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("header", |bencher| {
        bencher.iter(|| header(&path).expect("a good file"));
    });
    group.bench_function("model", |bencher| {
        bencher.iter(|| Model::open(&device, &path).expect("a good model"));
    });
    group.bench_function("first_scores", |bencher| {
        bencher.iter(|| first_scores(&device, &path).expect("a good model"));
    });
    group.finish();
}

criterion_group!(benches, loader);
criterion_main!(benches);
