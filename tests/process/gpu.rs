//! What other processes and old files do to a program that uses an NVIDIA GPU. Without a GPU each case says so.

use std::fs;
use std::path::{Path, PathBuf};

use ironbridge::kernel::{Argument, Dispatch, Grid, Library};
use ironbridge::llama::{LoadOptions, Model, ModelFile};
use ironbridge::memory::Storage;
use ironbridge::ops::Elementwise;
use ironbridge::{Device, Error, Status};

use crate::copied_weights::write_deep_model;
use crate::memory_processes::parts::next_step;
use crate::memory_processes::{Player, command};

crate::harness::cases! {
    memory_that_another_process_takes_in_the_middle_of_a_load,
    caches_that_are_corrupt_or_another_drivers,
}

const GPU: &str = "nvidia";

fn gpu() -> Option<Device> {
    Device::open(GPU)
        .inspect_err(|error| println!("skipped: {error}"))
        .ok()
}

/// Takes all memory of the GPU until its input ends.
pub fn take_all_memory() {
    let device = Device::open(GPU).unwrap();
    let mut taken = Vec::new();
    for bytes in (20..=33).rev().map(|power| 1_usize << power) {
        let options = device.buffer_options().storage(Storage::Private);
        while let Ok(buffer) = options.clone().create::<u8>(bytes) {
            taken.push(buffer);
        }
    }
    while next_step() {}
}

fn memory_that_another_process_takes_in_the_middle_of_a_load() {
    let Some(device) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    write_deep_model(&path);
    let file = ModelFile::open(&path).unwrap();
    let mut other = None;
    let error = Model::load(&device, &file, LoadOptions::default(), &mut |loaded| {
        if loaded.done > 0 && other.is_none() {
            other = Some(Player::start("take_all_memory", &[]));
        }
    })
    .expect_err("there is no memory for the rest");
    assert_eq!(error.status(), Some(Status::OutOfMemory), "{error}");
    other.expect("a load says how far it is").end();
    assert_eq!(device.memory().unwrap().active_bytes, 0);

    let model = Model::load(&device, &file, LoadOptions::default(), &mut |_| ()).unwrap();
    let mut session = model.session().unwrap();
    session.feed(&[1, 40, 300]).unwrap();
    let logits = session.logits().unwrap();
    assert!(logits.iter().all(|logit| logit.is_finite()));
}

const SCALE: &str =
    "kernel void scale(device float *x [[buffer(0)]], constant float &by [[buffer(1)]],
                                      uint i [[thread_position_in_grid]]) { x[i] *= by; }";

/// Fails unless one of ironbridge's own kernels and, where there is a compiler, a user's are right.
pub fn compute() {
    let device = Device::open(GPU).unwrap();
    let x = device.buffer_from(&[3.5_f32; 1000]).unwrap();
    let mut commands = device.commands().unwrap();
    let elements = x.tensor().vector(1000);
    let sum = Elementwise::new(elements, elements, elements);
    commands.add(&sum).unwrap();
    commands.run().unwrap();
    assert_eq!(x.to_vec().unwrap(), [7.0; 1000]);

    let library = match Library::from_source(&device, SCALE) {
        Err(Error::Unsupported(text)) => return println!("no kernel of a user's: {text}"),
        library => library.unwrap(),
    };
    let scale = library.kernel("scale").unwrap();
    let dispatch = Dispatch {
        arguments: &[Argument::read_write(0, &x), Argument::values(1, &[2.0_f32])],
        grid: Grid::Threads([1000, 1, 1]),
        threadgroup: [128, 1, 1],
    };
    let mut commands = device.commands().unwrap();
    // SAFETY: thread i touches x[i] and nothing else, and there are as many threads as elements.
    unsafe { commands.dispatch(&scale, &dispatch) }.unwrap();
    commands.run().unwrap();
    assert_eq!(x.to_vec().unwrap(), [14.0; 1000]);
}

/// The files of a folder and of those inside it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let each = paths.flat_map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    each.collect()
}

fn caches_that_are_corrupt_or_another_drivers() {
    if gpu().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let compute = || {
        let variables = [("CUDA_CACHE_PATH", place), ("XDG_CACHE_HOME", place)];
        let output = command("compute", &variables).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    };
    compute();
    let cached = files(folder.path());
    assert!(cached.len() > 1, "{cached:?}");
    // Of another driver each entry has other bytes.
    let contents: Vec<Vec<u8>> = cached.iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, other) in cached.iter().zip(contents.iter().cycle().skip(1)) {
        fs::write(path, other).unwrap();
    }
    compute();
    for (path, bytes) in files(folder.path()).iter().zip(contents.iter().cycle()) {
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }
    compute();
    for path in files(folder.path()) {
        let length = fs::metadata(&path).unwrap().len() as usize;
        fs::write(&path, vec![0xa5; length]).unwrap();
    }
    compute();
}
