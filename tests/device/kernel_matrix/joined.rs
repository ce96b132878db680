//! Copies and attentions of several texts, which a device of many cores does in one kernel when they follow each other:
//! what they write is what float64 computes, or what they write in command buffers of their own.

use std::collections::BTreeSet;

use ironbridge::ops::{Attention, CopyRows};
use ironbridge::{Commands, DType, Device, Result, Tensor};
use serial_test::serial;

use crate::kernel_matrix::fused::devices_of_many_cores;
use crate::kernel_matrix::rows::copied;
use crate::kernel_matrix::typed::{FLOATS, Typed, floats};
use crate::kernel_matrix::ways::{Output, Ways, within};
use crate::oracle::{self, Cache};
use crate::support::{f64s, numbers};

/// Command buffers of as many operations as there are, and of one, where nothing can be joined.
const JOINED_AND_APART: [u32; 2] = [0, 1];

/// A new one of many cores.
fn device() -> Device {
    devices_of_many_cores().remove(0)
}

/// Runs what is recorded, and says which kernels the device has had by then.
pub fn kernels_of(
    device: &Device,
    operations: u32,
    record: impl FnOnce(&mut Commands),
) -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernels");
    device.open_pipeline_cache(&path).expect("it is new");
    let options = device.commands_options().max_operations(operations);
    let mut commands = options.begin().expect("the device is open");
    record(&mut commands);
    commands.run().expect("they can be computed");
    device.save_pipeline_cache().expect("there are kernels");
    let names = std::fs::read_to_string(path).expect("it was written");
    names.lines().map(str::to_owned).collect()
}

const HEADS: usize = 8;
const KV_HEADS: usize = 4;
/// Of the newest keys of the texts: one piece, one that is full, and several; one text has all pieces.
const POSITIONS: [usize; 6] = [63, 0, 299, 64, 129, 31];
const CONTEXT: usize = 300;

/// Several texts in common buffers.
struct Texts {
    cache: DType,
    head_dim: usize,
    window: Option<usize>,
    /// Of each text.
    positions: Vec<usize>,
    q: (Typed, Vec<f64>),
    k: Vec<Typed>,
    v: Vec<Typed>,
}

impl Texts {
    fn new(cache: DType, head_dim: usize, window: Option<usize>, positions: &[usize]) -> Texts {
        let count = positions.len();
        let caches = |seed| {
            let seeds = (0..count).map(|text| seed + text as u64);
            let cache = |seed| Typed::made_up(cache, CONTEXT * KV_HEADS * head_dim, seed);
            seeds.map(cache).collect()
        };
        Texts {
            cache,
            head_dim,
            window,
            positions: positions.to_vec(),
            q: floats(count * HEADS * head_dim, 1),
            k: caches(100),
            v: caches(200),
        }
    }

    fn count(&self) -> usize {
        self.positions.len()
    }

    /// Which row of the queries is a text's, and which of the output: not in the texts' order.
    fn rows(&self, text: usize) -> [usize; 2] {
        [self.count() - 1 - text, (text + 2) % self.count()]
    }

    /// From a text's cache to the next one's, in bytes.
    fn part(&self) -> usize {
        self.k[0].bytes.len().next_multiple_of(256)
    }

    fn in_a_row(&self, caches: &[Typed]) -> Typed {
        let mut bytes = vec![0; caches.len() * self.part()];
        for (part, cache) in bytes.chunks_mut(self.part()).zip(caches) {
            part[..cache.bytes.len()].copy_from_slice(&cache.bytes);
        }
        Typed {
            dtype: self.cache,
            bytes,
            values: Vec::new(),
        }
    }

    fn expected(&self, text: usize) -> Vec<f64> {
        let width = HEADS * self.head_dim;
        let shape = oracle::Attention {
            tokens: 1,
            heads: HEADS,
            kv_heads: KV_HEADS,
            head_dim: self.head_dim,
            first_position: self.positions[text],
            window: self.window,
        };
        let [k, v] = [&self.k, &self.v].map(|caches| Cache {
            values: caches[text].values.clone(),
            position_stride: KV_HEADS * self.head_dim,
            head_stride: self.head_dim,
        });
        let scale = 1.0 / (self.head_dim as f64).sqrt();
        let q = &self.q.1[self.rows(text)[0] * width..][..width];
        oracle::attention(&shape, q, &k, &v, scale)
    }

    /// Queries, keys and values.
    fn inputs(&self) -> [Typed; 3] {
        let q = Typed {
            dtype: DType::F32,
            bytes: self.q.0.bytes.clone(),
            values: Vec::new(),
        };
        [q, self.in_a_row(&self.k), self.in_a_row(&self.v)]
    }

    /// Rows of `out` are `stride` elements apart.
    fn record(
        &self,
        commands: &mut Commands,
        [q, k, v]: [Tensor<'_>; 3],
        out: Tensor<'_>,
        stride: usize,
    ) -> Result<()> {
        let (width, kv_dim) = (HEADS * self.head_dim, KV_HEADS * self.head_dim);
        for (text, position) in self.positions.iter().enumerate() {
            let [from, to] = self.rows(text);
            let [k, v] = [k, v].map(|caches| {
                let cache = caches.skip_bytes(text * self.part());
                cache.matrix(position + 1, kv_dim)
            });
            let q = q.skip(from * width).matrix(1, width);
            let out = out.skip(to * stride).matrix(1, width);
            let attention = Attention::new(q, k, v, out, self.head_dim);
            commands.attention(&attention.with_window(self.window))?;
        }
        Ok(())
    }

    /// The output, and the kernels.
    fn run(&self, device: &Device, operations: u32) -> (Vec<f32>, BTreeSet<String>) {
        let width = HEADS * self.head_dim;
        let buffer = |input: &Typed| device.buffer_from(&input.bytes).expect("memory");
        let inputs = self.inputs();
        let buffers = inputs.each_ref().map(buffer);
        let out = device.buffer_from(&vec![7.0f32; self.count() * width]);
        let out = out.expect("memory");
        let kernels = kernels_of(device, operations, |commands| {
            let [q, k, v] = buffers.each_ref();
            let inputs = [
                q.tensor_at(0, DType::F32),
                k.tensor_at(0, self.cache),
                v.tensor_at(0, self.cache),
            ];
            self.record(commands, inputs, out.tensor(), width)
                .expect("they fit");
        });
        (out.to_vec().expect("it is complete"), kernels)
    }
}

fn cache_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F16 => "f16",
        DType::Bf16 => "bf16",
        DType::Q8_0 => "q8_0",
        other => panic!("{other:?} is no cache's"),
    }
}

#[test]
#[serial]
fn attentions_of_several_texts() {
    for cache in FLOATS.into_iter().chain([DType::Q8_0]) {
        for (head_dim, window, positions, in_pieces, grouped) in [
            (64, None, &POSITIONS[..], true, false),
            (128, None, &POSITIONS, true, false),
            (64, Some(200), &POSITIONS, true, false),
            (128, Some(40), &POSITIONS[2..], false, false),
            // Of one piece each.
            (64, None, &[5, 63], false, false),
            // More than a kernel takes, and enough keys to be read once for the heads of a group.
            (64, None, &[150; 35], true, true),
            (128, None, &[299; 8], true, true),
        ] {
            let texts = Texts::new(cache, head_dim, window, positions);
            for operations in JOINED_AND_APART {
                let (out, kernels) = texts.run(&device(), operations);
                let what = format!("{cache:?}, {head_dim}, {window:?}, {positions:?}");
                for text in 0..texts.count() {
                    let width = HEADS * head_dim;
                    let found = f64s(&out[texts.rows(text)[1] * width..][..width]);
                    for (found, wanted) in found.iter().zip(texts.expected(text)) {
                        let close = (found - wanted).abs() <= 2e-5;
                        assert!(close, "{what}: text {text}: {found}, not {wanted}");
                    }
                }
                for (name, is_used) in [("", true), ("grouped_", grouped)] {
                    let name = format!("attention_texts_{name}{head_dim}_{}", cache_name(cache));
                    assert_eq!(
                        kernels.contains(&name),
                        operations == 0 && is_used,
                        "{what}: {kernels:?}"
                    );
                }
                let merge = format!("attention_texts_merge_{head_dim}");
                assert_eq!(
                    kernels.contains(&merge),
                    operations == 0 && in_pieces,
                    "{what}: {kernels:?}"
                );
            }
        }
    }
}

/// In every order of lanes, and with nothing written beside the rows.
#[test]
#[serial]
fn attentions_of_several_texts_lane_by_lane() {
    let ways = Ways::of_many_cores();
    for (cache, head_dim, window, positions) in [
        (DType::F16, 64, None, &POSITIONS[..]),
        (DType::Q8_0, 128, Some(200), &POSITIONS),
        (DType::F16, 128, None, &[299; 8]),
    ] {
        let texts = Texts::new(cache, head_dim, window, positions);
        let width = HEADS * head_dim;
        let mut want = vec![within(0.0, 0.0); texts.count() * width];
        for text in 0..texts.count() {
            let row = &mut want[texts.rows(text)[1] * width..][..width];
            for (want, value) in row.iter_mut().zip(texts.expected(text)) {
                *want = within(value, 2e-5);
            }
        }
        let inputs = texts.inputs();
        ways.check(
            &format!("attentions over {cache:?}"),
            &inputs.each_ref(),
            &Output::strided(DType::F32, texts.count(), width, width + 3),
            &want,
            |commands, inputs, out| {
                let inputs = [inputs[0], inputs[1], inputs[2]];
                texts.record(commands, inputs, out, width + 3)
            },
        );
    }
}

/// The same of copies.
#[test]
#[serial]
fn copies_to_several_texts_lane_by_lane() {
    let ways = Ways::of_many_cores();
    let (count, width) = (5, 96);
    for cache in [DType::F32, DType::F16, DType::Q8_0] {
        let src = Typed::made_up(DType::F32, count * width, 5);
        let output = Output::strided(cache, count, width, width + 64);
        ways.check(
            &format!("copies to {cache:?}"),
            &[&src],
            &output,
            &copied(&src.values, cache),
            |commands, inputs, dst| {
                for row in 0..count {
                    commands.copy(&CopyRows::new(
                        inputs[0].skip(row * width).matrix(1, width),
                        dst.skip(row * (width + 64)).matrix(1, width),
                    ))?;
                }
                Ok(())
            },
        );
    }
}

/// Attentions that one kernel must not do: where one reads what another writes, where both write the same, and where
/// heads, scales or buffers differ. Each pair writes what it writes apart.
#[test]
#[serial]
fn attentions_that_are_not_joined() {
    let (head_dim, keys) = (64, 70);
    let width = HEADS * head_dim;
    let inputs = numbers(4 * width, 1);
    let caches = numbers(2 * keys * width, 2);
    for what in [
        "reads the output",
        "writes the same",
        "other heads",
        "other scale",
        "other buffer",
    ] {
        let results = JOINED_AND_APART.map(|operations| {
            let device = device();
            let x = device.buffer_from(&inputs).expect("memory");
            let out = device.buffer_from(&inputs).expect("memory");
            let cache = device.buffer_from(&caches).expect("memory");
            let other = device.buffer_from(&caches[keys * width..]).expect("memory");
            let kernels = kernels_of(&device, operations, |commands| {
                for second in [false, true] {
                    let kv_heads = if second && what == "other heads" {
                        HEADS
                    } else {
                        KV_HEADS
                    };
                    let kv_dim = kv_heads * head_dim;
                    let row = usize::from(second && what != "writes the same");
                    let q = match (second, what) {
                        (true, "reads the output") => out.tensor(),
                        _ => x.tensor().skip(usize::from(second) * width),
                    };
                    let v = match (second, what) {
                        (true, "other buffer") => other.tensor(),
                        _ => cache.tensor().skip(keys * width),
                    };
                    let attention = Attention::new(
                        q.matrix(1, width),
                        cache.matrix(keys, kv_dim),
                        v.matrix(keys, kv_dim),
                        out.tensor().skip(row * width).matrix(1, width),
                        head_dim,
                    );
                    let scale = if second && what == "other scale" {
                        0.5
                    } else {
                        0.125
                    };
                    commands
                        .attention(&attention.with_scale(scale))
                        .expect("it fits");
                }
            });
            (out.to_vec().expect("it is complete"), kernels)
        });
        let [(joined, kernels), (apart, _)] = results;
        assert!(joined == apart, "{what}: other bits");
        assert!(
            joined[..width] != inputs[..width],
            "{what}: nothing was written"
        );
        assert!(
            !kernels.iter().any(|name| name.contains("texts")),
            "{what}: {kernels:?}"
        );
    }
}

/// Rows of keys and values to the caches of several texts, up to more than a kernel takes. One is written over another,
/// and the last one goes to a third buffer. The same bits.
#[test]
#[serial]
fn copies_to_several_texts() {
    let width = 64;
    for cache in [DType::F32, DType::F16, DType::Q8_0, DType::Bf16] {
        for rows in [2, 5, 140] {
            let what = format!("{cache:?}, {rows} rows");
            let inputs = numbers(rows * width, 4);
            let part = (3 * cache.bytes(width).expect("whole blocks")).next_multiple_of(256);
            let [(joined, kernels), (apart, other_kernels)] = JOINED_AND_APART.map(|operations| {
                let device = device();
                let x = device.buffer_from(&inputs).expect("memory");
                let caches = [0, 1, 2].map(|_| {
                    let start = vec![0xaau8; rows * part];
                    device.buffer_from(&start).expect("memory")
                });
                let kernels = kernels_of(&device, operations, |commands| {
                    let mut copy = |row: usize, buffer: usize, text: usize| {
                        let place = caches[buffer].tensor_at(text * part, cache);
                        let copy = CopyRows::new(
                            x.tensor().skip(row * width).matrix(1, width),
                            place.skip(width).matrix(1, width),
                        );
                        commands.copy(&copy).expect("it fits");
                    };
                    for row in 0..rows - 1 {
                        copy(row, row % 2, row / 2);
                    }
                    copy(0, 0, 0);
                    copy(1, 0, 0);
                    copy(rows - 1, 2, rows - 1);
                });
                let bytes = caches.map(|cache| cache.to_vec().expect("it is complete"));
                (bytes, kernels)
            });
            assert!(joined == apart, "{what}: other bits");
            let name =
                |kernels: &BTreeSet<String>| kernels.iter().any(|name| name.starts_with("copies_"));
            assert_eq!(name(&kernels), cache != DType::Bf16, "{what}: {kernels:?}");
            assert!(!name(&other_kernels), "{what}: {other_kernels:?}");
        }
    }
}
