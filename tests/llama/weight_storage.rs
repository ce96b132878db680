//! Weights that leave the mapped file while the model is used.

use std::fs;
#[cfg(target_os = "linux")]
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::thread;

use ironbridge::Device;
use ironbridge::llama::{LoadOptions, Model, ModelFile, WeightStorage};
#[cfg(target_os = "linux")]
use ironbridge::memory::Category;
use tempfile::TempDir;

const TOKENS: [u32; 12] = [1, 40, 300, 7, 55, 201, 9, 77, 130, 18, 2, 90];

/// A copy of the model that comes with the crate.
struct Copy {
    folder: TempDir,
}

impl Copy {
    fn new() -> Copy {
        let folder = tempfile::tempdir().unwrap();
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny-rustbook-q8_0.gguf");
        fs::copy(model, folder.path().join("model.gguf")).unwrap();
        Copy { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("model.gguf")
    }

    fn load(&self, device: &Device, weights: WeightStorage) -> Model {
        let file = ModelFile::open(self.path()).unwrap();
        Model::load(device, &file, LoadOptions { weights }, &mut |_| ()).unwrap()
    }

    /// Whether this process has the file mapped. Elsewhere than on Linux the system need not say.
    #[cfg(target_os = "linux")]
    fn is_mapped(&self) -> bool {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let path = self.path().canonicalize().unwrap();
        maps.contains(path.to_str().unwrap())
    }

    /// Whoever still reads the mapped file ends with SIGBUS from here on.
    #[cfg(target_os = "linux")]
    fn cut(&self) {
        let file = OpenOptions::new().write(true).open(self.path()).unwrap();
        file.set_len(0).unwrap();
    }
}

/// The logits after each token of a text.
fn logits(model: &Model) -> Vec<Vec<f32>> {
    let mut session = model.session().unwrap();
    let after = |token: &u32| {
        session.feed(&[*token]).unwrap();
        session.logits().unwrap().to_vec()
    };
    TOKENS.iter().map(after).collect()
}

fn expected() -> Vec<Vec<f32>> {
    logits(&Copy::new().load(&Device::open("cpu").unwrap(), WeightStorage::Mapped))
}

/// Fails unless these are the expected logits but for the order in which sums are rounded: what moved is laid out anew.
/// That decides at some places to which of two 15-bit integers an activation is rounded, so the bound is twice the one
/// that `tests/llama/golden.rs` has for rounding.
#[track_caller]
fn assert_same(logits: &[Vec<f32>], expected: &[Vec<f32>]) {
    for (logits, expected) in logits.iter().zip(expected) {
        let pairs = logits.iter().zip(expected);
        let differences: f64 = pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum();
        let norm: f64 = expected.iter().map(|b| f64::from(*b).powi(2)).sum();
        let distance = (differences / norm).sqrt();
        assert!(distance < 1e-3, "{distance}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn passes_move_weights_until_the_file_is_unmapped() {
    let expected = expected();
    let (copy, device) = (Copy::new(), Device::open("cpu").unwrap());
    let model = copy.load(&device, WeightStorage::Moved);
    let bytes = |category| device.memory().unwrap().category(category).bytes;
    let weights = || bytes(Category::Weights);
    let mapped = weights();
    assert!(copy.is_mapped());
    let mut texts = 0;
    while copy.is_mapped() {
        assert_same(&logits(&model), &expected);
        texts += 1;
        assert!(texts < 500, "the weights stay in the file");
    }
    // A pass moves a 64th, and all of the matrix that it begins.
    assert!((4..=6).contains(&texts), "{texts}");
    copy.cut();
    assert_same(&logits(&model), &expected);
    // The file's header and what lies between tensors stayed behind; buffers are whole pages.
    let slack = 4096 * 100;
    assert!(weights().abs_diff(mapped) < slack, "{mapped} {}", weights());
}

#[test]
#[cfg(target_os = "linux")]
fn the_same_texts_give_the_same_numbers_in_every_run() {
    let run = || {
        let (copy, device) = (Copy::new(), Device::open("cpu").unwrap());
        let model = copy.load(&device, WeightStorage::Moved);
        let texts: Vec<_> = (0..7).map(|_| logits(&model)).collect();
        assert!(!copy.is_mapped());
        texts
    };
    let first = run();
    assert_eq!(run(), first);
    // Moving is seen in them: the texts differ in their last bits.
    assert_ne!(first[0], first[6]);
}

#[test]
#[cfg(target_os = "linux")]
fn settling_moves_all_at_once() {
    let (copy, device) = (Copy::new(), Device::open("cpu").unwrap());
    let model = copy.load(&device, WeightStorage::Moved);
    model.settle();
    assert!(!copy.is_mapped());
    copy.cut();
    assert_same(&logits(&model), &expected());
    model.settle(); // there is nothing left to do
}

#[test]
fn texts_in_several_threads_go_on_while_weights_move() {
    let expected = expected();
    let (copy, device) = (Copy::new(), Device::open("cpu").unwrap());
    let model = copy.load(&device, WeightStorage::Moved);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..10).for_each(|_| assert_same(&logits(&model), &expected)));
        }
        model.settle();
    });
}

#[test]
#[cfg(target_os = "linux")]
fn what_there_is_no_memory_for_stays_in_the_file() {
    let copy = Copy::new();
    let used = {
        let device = Device::open("cpu").unwrap();
        let model = copy.load(&device, WeightStorage::Moved);
        let _session = model.session().unwrap();
        device.info().unwrap().allocated
    };
    let limit = used + 2_500_000;
    let device = Device::open(&format!("cpu:memory_limit={limit}")).unwrap();
    let model = copy.load(&device, WeightStorage::Moved);
    let mut session = model.session().unwrap();
    let before = device.info().unwrap().allocated;
    model.settle();
    let after = device.info().unwrap().allocated;
    assert!(before < after && after <= limit, "{before} {after} {limit}");
    assert!(copy.is_mapped());
    let expected = expected();
    for (token, expected) in TOKENS.iter().zip(expected) {
        session.feed(&[*token]).unwrap();
        assert_same(&[session.logits().unwrap().to_vec()], &[expected]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn small_models_stay_mapped_unless_told() {
    let (copy, device) = (Copy::new(), Device::open("cpu").unwrap());
    let model = copy.load(&device, WeightStorage::default());
    model.settle();
    assert!(copy.is_mapped());
    assert_eq!(logits(&model), expected());
}
