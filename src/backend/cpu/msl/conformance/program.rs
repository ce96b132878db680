//! A small Metal program under test: it runs in every lane order, with and without bounds checks, and must give one
//! result. Where `IRONBRIDGE_DEVICE` names a GPU it runs there instead.

mod elsewhere;

use std::time::Duration;

use crate::backend::cpu::limits::THREADGROUP_MEMORY;
use crate::backend::cpu::msl::abi::{BUFFERS, Images, Sampler, Texture};
use crate::backend::cpu::msl::counter::{Counter, Work};
use crate::backend::cpu::msl::dispatch::{Dispatch, Failure};
use crate::backend::cpu::msl::lane_order::LaneOrder;
use crate::backend::cpu::range::Range;
use crate::msl::library::Library;
use crate::msl::{Instrumentation, Setting};

/// What every program begins with, on one line so that the program's own lines count from 2.
const PROLOGUE: &str = "#include <metal_stdlib>\nusing namespace metal;";

pub const ORDERS: [LaneOrder; 4] = [
    LaneOrder::Forward,
    LaneOrder::Reverse,
    LaneOrder::Random(1),
    LaneOrder::Random(2),
];

pub fn source(body: &str) -> String {
    format!("{PROLOGUE}\n{body}\n")
}

/// A kernel and what it is run on. Buffer 0 is the output.
pub struct Program<'a> {
    body: &'a str,
    kernel: &'a str,
    inputs: Vec<(usize, Vec<u8>)>,
    constants: Vec<(u32, u32, Vec<u8>)>,
    memory: [u32; BUFFERS],
    /// By index; what a texture has before each run.
    textures: Vec<(usize, Texture, Vec<u8>)>,
    samplers: Vec<(usize, Sampler)>,
    /// The texture whose texels are the output, in the place of buffer 0.
    output: Option<usize>,
    grid: [u32; 3],
    threadgroup: [u32; 3],
    threads: bool,
    limit: Option<Duration>,
    /// Why no other device than the processor gives its result.
    only_here: Option<&'static str>,
}

/// Elements of buffers.
pub trait Element: Copy + PartialEq + std::fmt::Debug {
    const POISON: Self;
}
macro_rules! elements {
    ($($ty:ty = $poison:expr),*) => { $(impl Element for $ty { const POISON: $ty = $poison; })* };
}
elements!(
    f32 = f32::MAX,
    u32 = u32::MAX,
    i32 = i32::MIN,
    u64 = u64::MAX,
    half::f16 = half::f16::MAX,
    u8 = 0xa5,
    half::bf16 = half::bf16::MAX,
    u16 = 0xa5a5,
    i16 = 0x5a5a
);

pub fn bytes<T: Element>(values: &[T]) -> Vec<u8> {
    // SAFETY: elements are numbers: as many initialised bytes as their size says.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }.to_vec()
}

impl<'a> Program<'a> {
    /// `kernel` of the program with one threadgroup of 32 threads.
    pub fn new(kernel: &'a str, body: &'a str) -> Program<'a> {
        Program {
            body,
            kernel,
            inputs: Vec::new(),
            constants: Vec::new(),
            memory: [0; BUFFERS],
            textures: Vec::new(),
            samplers: Vec::new(),
            output: None,
            grid: [1, 1, 1],
            threadgroup: [32, 1, 1],
            threads: false,
            limit: Some(Duration::from_secs(60)),
            only_here: None,
        }
    }

    pub fn input<T: Element>(mut self, index: usize, values: &[T]) -> Self {
        self.inputs.push((index, bytes(values)));
        self
    }

    /// A function constant of an MTLDataType.
    pub fn constant<T: Element>(mut self, index: u32, data_type: u32, values: &[T]) -> Self {
        self.constants.push((index, data_type, bytes(values)));
        self
    }

    /// A texture of these texels, level by level; its pointer and length are set for each run.
    pub fn texture<T: Element>(mut self, index: usize, texture: Texture, texels: &[T]) -> Self {
        self.textures.push((index, texture, bytes(texels)));
        self
    }

    /// The output is what a texture has after the run.
    pub fn output(mut self, texture: usize) -> Self {
        self.output = Some(texture);
        self
    }

    pub fn sampler(mut self, index: usize, sampler: Sampler) -> Self {
        self.samplers.push((index, sampler));
        self
    }

    pub fn memory(mut self, index: usize, bytes: u32) -> Self {
        self.memory[index] = bytes;
        self
    }

    pub fn groups(mut self, grid: [u32; 3], threadgroup: [u32; 3]) -> Self {
        (self.grid, self.threadgroup) = (grid, threadgroup);
        self
    }

    /// How long a threadgroup may take.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// It tests what the processor alone does, for this reason.
    pub fn only_here(mut self, reason: &'static str) -> Self {
        self.only_here = Some(reason);
        self
    }

    /// dispatchThreads.
    pub fn threads(mut self, grid: [u32; 3], threadgroup: [u32; 3]) -> Self {
        self.threads = true;
        self.groups(grid, threadgroup)
    }

    /// Runs it once.
    pub fn try_run<T: Element>(
        &self,
        count: usize,
        order: LaneOrder,
        validate: bool,
    ) -> Result<Vec<T>, Failure> {
        let instrumentation = match validate {
            true => Instrumentation::Bounds,
            false => Instrumentation::None,
        };
        self.launch(count, order, instrumentation)
            .map(|(values, _)| values)
    }

    /// Runs it once, counting. Inputs of indices below 16 are device memory.
    pub fn count<T: Element>(&self, count: usize) -> Work {
        self.launch::<T>(count, LaneOrder::Forward, Instrumentation::Work)
            .unwrap_or_else(|failure| panic!("{failure:?}"))
            .1
    }

    fn launch<T: Element>(
        &self,
        count: usize,
        order: LaneOrder,
        instrumentation: Instrumentation,
    ) -> Result<(Vec<T>, Work), Failure> {
        let library = Library::new(&source(self.body), 1).unwrap_or_else(|error| panic!("{error}"));
        let settings: Vec<Setting> = self
            .constants
            .iter()
            .map(|(index, data_type, value)| {
                let mut bytes = [0; 32];
                bytes[..value.len()].copy_from_slice(value);
                Setting {
                    name: None,
                    index: *index,
                    data_type: *data_type,
                    bytes,
                }
            })
            .collect();
        let function = library
            .function(self.kernel, &settings, instrumentation)
            .unwrap_or_else(|error| panic!("{error}"));
        // What is not written keeps its poison, and there is some on both sides to see what is written beside it.
        const MARGIN: usize = 64;
        let mut output = vec![T::POISON; count + 2 * MARGIN];
        let mut inputs: Vec<(usize, Vec<u128>, u64)> = self
            .inputs
            .iter()
            .map(|(index, bytes)| {
                let words = bytes.chunks(16).map(|chunk| {
                    let mut word = [0; 16];
                    word[..chunk.len()].copy_from_slice(chunk);
                    u128::from_ne_bytes(word)
                });
                (*index, words.collect(), bytes.len() as u64)
            })
            .collect();
        let mut bindings = [Range::NONE; BUFFERS];
        for (index, words, length) in &mut inputs {
            bindings[*index] = Range {
                pointer: words.as_mut_ptr().cast(),
                length: *length,
            };
        }
        bindings[0] = Range {
            pointer: output[MARGIN..].as_mut_ptr().cast(),
            length: (count * size_of::<T>()) as u64,
        };
        let mut texels: Vec<Vec<u8>> = self.textures.iter().map(|it| it.2.clone()).collect();
        let mut images = Images::NONE;
        for ((index, texture, _), bytes) in self.textures.iter().zip(&mut texels) {
            let length = bytes.len() as u64;
            bytes.extend([0xa5; MARGIN]);
            images.textures[*index] = Texture {
                texels: bytes.as_mut_ptr(),
                length,
                ..*texture
            };
        }
        for (index, sampler) in &self.samplers {
            images.samplers[*index] = *sampler;
        }
        let counter = Counter::new(bindings[..16].iter().copied());
        let counts = instrumentation == Instrumentation::Work;
        let dispatch = Dispatch {
            bindings,
            images: &images,
            threadgroup_memory: self.memory,
            most_threadgroup_memory: THREADGROUP_MEMORY,
            grid: self.grid,
            threadgroup: self.threadgroup,
            threads: self.threads,
            order,
            counter: counts.then_some(&counter),
            limit: self.limit,
            flush_subnormals: false,
            deadline: None,
            workers: 2,
            parallel: &|count, task| {
                std::thread::scope(|scope| {
                    (0..count).for_each(|index| {
                        scope.spawn(move || task(index));
                    });
                });
            },
        };
        // SAFETY: the buffers live for the call, and the programs of these tests stay within them, or run validated.
        unsafe { function.dispatch(&dispatch) }?;
        assert!(
            output[..MARGIN]
                .iter()
                .chain(&output[MARGIN + count..])
                .all(|value| *value == T::POISON)
        );
        for ((index, ..), bytes) in self.textures.iter().zip(&texels) {
            let (inside, behind) = bytes.split_at(bytes.len() - MARGIN);
            assert!(
                behind.iter().all(|byte| *byte == 0xa5),
                "behind texture {index}"
            );
            if self.output == Some(*index) {
                let whole = output[MARGIN..MARGIN + count].as_mut_ptr().cast::<u8>();
                assert_eq!(inside.len(), count * size_of::<T>());
                // SAFETY: as many bytes of numbers, of which any are values.
                unsafe { whole.copy_from_nonoverlapping(inside.as_ptr(), inside.len()) };
            }
        }
        Ok((output[MARGIN..MARGIN + count].to_vec(), counter.work()))
    }

    /// Runs it in every way and returns the one result.
    #[track_caller]
    pub fn run<T: Element>(&self, count: usize) -> Vec<T> {
        if let Some(device) = elsewhere::device()
            && let Some(output) = elsewhere::run(self, device, count)
        {
            return output;
        }
        let first = self
            .try_run::<T>(count, LaneOrder::Forward, false)
            .unwrap_or_else(|failure| panic!("{failure:?}"));
        for order in ORDERS {
            for validate in [false, true] {
                let other = self
                    .try_run::<T>(count, order, validate)
                    .unwrap_or_else(|failure| panic!("{failure:?}"));
                assert!(
                    bytes(&first) == bytes(&other),
                    "{order:?}, validate {validate}: {other:?} is not {first:?}"
                );
            }
        }
        first
    }

    /// Runs it once where it must fail.
    #[track_caller]
    pub fn fail(&self, order: LaneOrder, validate: bool) -> Failure {
        match self.try_run::<f32>(64, order, validate) {
            Ok(values) => panic!("it ran: {values:?}"),
            Err(failure) => failure,
        }
    }
}

/// The errors of a program that must not compile.
#[track_caller]
pub fn errors(body: &str) -> String {
    match Library::new(&source(body), 1) {
        Ok(library) => panic!("it compiled: {library:?}"),
        Err(error) => error.to_string(),
    }
}
