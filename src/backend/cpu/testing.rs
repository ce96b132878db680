//! What the kernels' tests share: calls of a kernel by name on every instruction set, poisoned outputs, and float64
//! values of what buffers hold.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::ops;
use std::sync::{Arc, Mutex, OnceLock};

use half::{bf16, f16};

use super::bindings::{Arguments, Launch, Range};
use super::machine::Machine;
use super::quants::*;
use super::registry::{Kernel, kernels};
use super::simd::{Amx, Isa, Tuning};
use crate::backend::cpu::msl::lane_order::LaneOrder;
use crate::backend::fault::Fault;
use crate::msl::builtin::own_metal_sources;
use crate::msl::{self, Instrumentation};

/// Sizes around the widths of vectors, groups and tiles.
pub const EDGES: [usize; 9] = [1, 3, 31, 32, 33, 63, 65, 100, 257];

/// Every instruction set of this processor with each tuning that it may have, and AMX, each with one thread and then
/// with three that share even the smallest work.
pub fn machines() -> &'static [Machine] {
    static MACHINES: OnceLock<Vec<Machine>> = OnceLock::new();
    MACHINES.get_or_init(|| {
        let plain = Isa::available().into_iter().flat_map(|isa| {
            let tunings = Tuning::all(isa).iter();
            tunings.map(move |tuning| (isa, None, tuning))
        });
        let amx = Amx::new().map(|amx| (Isa::best(), Some(amx), &Tuning::INTEL));
        let machine = |(isa, amx, tuning), threads| Machine {
            isa,
            amx,
            tuning,
            grain_work: 1,
            ..Machine::new(threads)
        };
        plain
            .chain(amx)
            .flat_map(|kind| [1, 3].map(|threads| machine(kind, threads)))
            .collect()
    })
}

/// A call of one kernel.
pub struct Call<'a> {
    kernel: &'static Kernel,
    raw: Launch,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Call<'a> {
    /// Covers at least 65535 points in each dimension.
    pub fn new(name: &'static str) -> Call<'a> {
        let kernel = kernels().find(|kernel| kernel.name.to_str() == Ok(name));
        let kernel = kernel.unwrap_or_else(|| panic!("no kernel {name}"));
        let threads = kernel.geometry.threads;
        let raw = Launch {
            grid: [65535; 3],
            threadgroup: if threads == 0 {
                [32, 8, 1]
            } else {
                [threads, 1, 1]
            },
            threads: threads == 0,
            ..Default::default()
        };
        Call {
            kernel,
            raw,
            memory: PhantomData,
        }
    }

    pub fn grid(mut self, grid: [u32; 3]) -> Call<'a> {
        self.raw.grid = grid;
        self
    }

    /// Covers that many points and no more.
    pub fn covering(mut self, points: [usize; 3]) -> Call<'a> {
        let tile = self.kernel.geometry.tile;
        self.raw.grid =
            std::array::from_fn(|axis| points[axis].div_ceil(tile[axis].max(1) as usize) as u32);
        self
    }

    pub fn threadgroup(mut self, threadgroup: [u32; 3]) -> Call<'a> {
        self.raw.threadgroup = threadgroup;
        self
    }

    pub fn bind<T>(mut self, index: u32, memory: &'a mut [T]) -> Call<'a> {
        self.raw.bindings[index as usize].pointer = memory.as_mut_ptr().cast();
        self.raw.bindings[index as usize].length = size_of_val(memory) as u64;
        self
    }

    /// Binds the memory that is already bound at `other`.
    pub fn bind_same(self, index: u32, other: u32) -> Call<'a> {
        self.bind_offset(index, other, 0)
    }

    /// Binds the memory that is already bound at `other`, from byte `offset` on.
    pub fn bind_offset(mut self, index: u32, other: u32, offset: usize) -> Call<'a> {
        let mut binding = self.raw.bindings[other as usize];
        binding.pointer = binding.pointer.wrapping_byte_add(offset);
        binding.length -= offset as u64;
        self.raw.bindings[index as usize] = binding;
        self
    }

    /// Says how many rows of the weights lie in x16 panels.
    pub fn x16_rows(mut self, rows: usize) -> Call<'a> {
        self.raw.x16_rows = rows as u64;
        self
    }

    pub fn unbind(mut self, index: u32) -> Call<'a> {
        self.raw.bindings[index as usize] = Range::NONE;
        self
    }

    pub fn arguments<A: Arguments>(mut self, index: u32, arguments: &'a A) -> Call<'a> {
        self.raw.bindings[index as usize].pointer = (&raw const *arguments).cast_mut().cast();
        self.raw.bindings[index as usize].length = size_of::<A>() as u64;
        self
    }

    pub fn run_on(&self, executor: Executor) -> Result<(), Fault> {
        match executor {
            Executor::Native(machine) => self.run(machine),
            Executor::Metal(order, validate) => self.run_metal(order, validate),
        }
    }

    pub fn run(&self, machine: &Machine) -> Result<(), Fault> {
        note(self.kernel, Way::Native);
        // SAFETY: the bindings are borrowed for as long as the call lives; the arguments are only read.
        unsafe { self.kernel.run(&self.raw, machine) }
    }

    /// Runs the Metal kernel of that name; `validate` checks each access to memory.
    pub fn run_metal(&self, order: LaneOrder, validate: bool) -> Result<(), Fault> {
        note(
            self.kernel,
            match order {
                LaneOrder::Forward => Way::Forward,
                LaneOrder::Reverse => Way::Reverse,
                LaneOrder::Random(_) => Way::Random,
            },
        );
        if validate {
            note(self.kernel, Way::Checked);
        }
        let instrumentation = match validate {
            true => Instrumentation::Bounds,
            false => Instrumentation::None,
        };
        let function = metal_library(self.kernel.family)
            .function(self.kernel.display_name(), &[], instrumentation)
            .unwrap_or_else(|error| panic!("{error}"));
        let dispatch = crate::backend::cpu::msl::dispatch::Dispatch {
            bindings: self.raw.bindings,
            images: &crate::backend::cpu::msl::abi::NO_IMAGES,
            threadgroup_memory: self.raw.threadgroup_memory,
            most_threadgroup_memory: crate::backend::cpu::limits::THREADGROUP_MEMORY,
            grid: self.raw.grid,
            threadgroup: self.raw.threadgroup,
            threads: self.raw.threads,
            order,
            counter: None,
            limit: None,
            flush_subnormals: false,
            deadline: None,
            workers: 1,
            parallel: &|count, task| (0..count).for_each(task),
        };
        // SAFETY: the bindings are borrowed for as long as the call lives; our own kernels stay within them.
        unsafe { function.dispatch(&dispatch) }.map_err(Fault::from)
    }
}

/// What runs a kernel.
#[derive(Clone, Copy)]
pub enum Executor<'a> {
    Native(&'a Machine),
    /// From its Metal source, in that lane order, and with each access to memory checked or not.
    Metal(LaneOrder, bool),
}

/// The ways in which the Metal kernels are run. A race or an access outside of the bindings shows in one of them.
pub const METAL: [(LaneOrder, bool); 3] = [
    (LaneOrder::Forward, false),
    (LaneOrder::Reverse, true),
    (LaneOrder::Random(1), false),
];

/// A family's source, read by the compiler once.
fn metal_library(family: &'static str) -> Arc<msl::Library> {
    static LIBRARIES: Mutex<Option<HashMap<&str, Arc<msl::Library>>>> = Mutex::new(None);
    let mut libraries = LIBRARIES.lock().unwrap_or_else(|error| error.into_inner());
    let library = libraries
        .get_or_insert_default()
        .entry(family)
        .or_insert_with(|| {
            let source = own_metal_sources().find(|(own, _)| *own == family);
            let (_, source) = source.expect("every family has its source");
            Arc::new(msl::Library::new(&source, 1).unwrap_or_else(|error| panic!("{error}")))
        });
    Arc::clone(library)
}

/// How a kernel was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    Native,
    Forward,
    Reverse,
    Random,
    /// In any lane order, with each access to memory checked.
    Checked,
}

thread_local! {
    static RUNS: RefCell<HashSet<(&'static str, Way)>> = RefCell::default();
}

fn note(kernel: &'static Kernel, way: Way) {
    RUNS.with_borrow_mut(|runs| runs.insert((kernel.display_name(), way)));
}

/// Whether the calling thread has run the kernel that way.
pub fn was_run(kernel: &'static Kernel, way: Way) -> bool {
    RUNS.with_borrow(|runs| runs.contains(&(kernel.display_name(), way)))
}

/// Numbers that look random and are the same in every run.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// From -1 to 1.
    pub fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn vec<T: Sample>(&mut self, elements: usize) -> Vec<T> {
        (0..elements.div_ceil(T::ELEMENTS))
            .map(|_| T::sample(self))
            .collect()
    }
}

/// Stored types as test data.
pub trait Sample: Stored {
    fn sample(numbers: &mut Numbers) -> Self;
    fn value(memory: &[Self], element: usize) -> f64;
}

impl Sample for f32 {
    fn sample(numbers: &mut Numbers) -> f32 {
        numbers.next()
    }
    fn value(memory: &[f32], element: usize) -> f64 {
        memory[element].into()
    }
}

impl Sample for f16 {
    fn sample(numbers: &mut Numbers) -> f16 {
        f16::from_f32(numbers.next())
    }
    fn value(memory: &[f16], element: usize) -> f64 {
        memory[element].into()
    }
}

impl Sample for bf16 {
    fn sample(numbers: &mut Numbers) -> bf16 {
        bf16::from_f32(numbers.next())
    }
    fn value(memory: &[bf16], element: usize) -> f64 {
        memory[element].into()
    }
}

impl Sample for BlockQ8_0 {
    fn sample(numbers: &mut Numbers) -> BlockQ8_0 {
        BlockQ8_0 {
            scale: f16::from_f32(numbers.next() / 127.0),
            quants: std::array::from_fn(|_| (numbers.next() * 127.0) as i8),
        }
    }
    fn value(memory: &[BlockQ8_0], element: usize) -> f64 {
        let block = &memory[element / 32];
        f64::from(block.scale) * f64::from(block.quants[element % 32])
    }
}

impl Sample for BlockMxfp4 {
    fn sample(numbers: &mut Numbers) -> BlockMxfp4 {
        let mut bits = || (numbers.next() * 1000.0) as i32 as u8;
        BlockMxfp4 {
            scale: 122 + bits() % 4, // weights of 3/8 at most
            quants: std::array::from_fn(|_| bits()),
        }
    }
    fn value(memory: &[BlockMxfp4], element: usize) -> f64 {
        assert!(element / 32 < memory.len());
        // SAFETY: just checked.
        unsafe { BlockMxfp4::element(memory.as_ptr(), element) }.into()
    }
}

/// Random bits with scales (and minima) that make weights of about 1; what a weight is, elements/blocks.rs holds
/// against another implementation.
macro_rules! sample_blocks {
    ($($block:ident { $($field:ident: $size:expr),* })*) => {$(
        impl Sample for $block {
            fn sample(numbers: &mut Numbers) -> $block {
                // SAFETY: blocks are integers and f16, of which every pattern of bits is a value.
                let mut block: $block = unsafe { std::mem::zeroed() };
                for byte in 0..size_of::<$block>() {
                    let bits = (numbers.next() * 1000.0) as i32 as u8;
                    // SAFETY: the byte is one of the block's.
                    unsafe { (&raw mut block).cast::<u8>().add(byte).write(bits) };
                }
                $(block.$field = f16::from_f32(numbers.next() / $size);)*
                block
            }
            fn value(memory: &[$block], element: usize) -> f64 {
                assert!(element / $block::ELEMENTS < memory.len());
                // SAFETY: just checked.
                unsafe { $block::element(memory.as_ptr(), element) }.into()
            }
        }
    )*};
}

sample_blocks! {
    BlockQ4_0 { scale: 8.0 }
    BlockQ4_1 { scale: 15.0, minimum: 1.0 }
    BlockQ5_0 { scale: 16.0 }
    BlockQ5_1 { scale: 31.0, minimum: 1.0 }
    BlockIq4Nl { scale: 127.0 }
    BlockIq4Xs { scale: 4064.0 }
    BlockTq1_0 { scale: 1.0 }
    BlockTq2_0 { scale: 2.0 }
    BlockQ2K { scale: 45.0, minimum: 15.0 }
    BlockQ3K { scale: 128.0 }
    BlockQ4K { scale: 945.0, minimum: 63.0 }
    BlockQ5K { scale: 1953.0, minimum: 63.0 }
    BlockQ6K { scale: 4096.0 }
}

impl Sample for u32 {
    fn sample(numbers: &mut Numbers) -> u32 {
        numbers.next().to_bits()
    }
    fn value(memory: &[u32], element: usize) -> f64 {
        memory[element].into()
    }
}

/// Types of outputs: what an element holds before the kernel runs, and how exact it can be.
pub trait Output: Sample + std::fmt::Debug {
    const POISON: Self;
    /// The largest relative error of rounding to this type.
    const ROUNDING: f64;
    fn bits(self) -> u32;
}

impl Output for f32 {
    const POISON: f32 = f32::from_bits(0x7fc5_a5a5);
    const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Output for f16 {
    const POISON: f16 = f16::from_bits(0x7e5a);
    const ROUNDING: f64 = 1.0 / (1u64 << 11) as f64;
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

impl Output for bf16 {
    const POISON: bf16 = bf16::from_bits(0x7fda);
    const ROUNDING: f64 = 1.0 / (1u64 << 8) as f64;
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

impl Output for u32 {
    const POISON: u32 = 0x5a5a_5a5a;
    const ROUNDING: f64 = 0.0;
    fn bits(self) -> u32 {
        self
    }
}

/// Calls `check` with what `run` gives on every instruction set, after making sure that three threads give the same
/// bits as one.
pub fn on_every_machine<T: Output>(run: impl Fn(&Machine) -> Vec<T>, mut check: impl FnMut(&[T])) {
    for pair in machines().chunks(2) {
        let [alone, shared] = [run(&pair[0]), run(&pair[1])];
        let differs = (0..alone.len()).find(|i| alone[*i].bits() != shared[*i].bits());
        assert_eq!(
            differs, None,
            "{:?} depends on the number of threads",
            pair[0].isa
        );
        println!("{:?}", pair[0].isa); // shown with a failure
        check(&alone);
    }
}

/// On what a check runs a kernel.
#[derive(Clone, Copy, Debug)]
pub enum On<'a> {
    /// Native, on every instruction set.
    Native,
    /// From its Metal source, in these ways.
    Metal(&'a [(LaneOrder, bool)]),
    /// Both, and from the Metal source in every way.
    Everything,
}

impl On<'_> {
    /// Calls `check` with what `run` gives on each.
    pub fn each<T: Output>(self, run: impl Fn(Executor) -> Vec<T>, mut check: impl FnMut(&[T])) {
        let ways = match (self, TURN.get()) {
            (On::Native, _) => &[],
            (On::Metal(ways), _) => ways,
            (On::Everything, None) => &METAL[..],
            (On::Everything, Some(turn)) => {
                TURN.set(Some(turn + 1));
                &METAL[turn % METAL.len()..][..1]
            }
        };
        if matches!(self, On::Native | On::Everything) {
            on_every_machine(|machine| run(Executor::Native(machine)), &mut check);
        }
        for (order, validate) in ways.iter().copied() {
            println!("Metal, {order:?}, checked {validate}"); // shown with a failure
            check(&run(Executor::Metal(order, validate)));
        }
    }
}

thread_local! {
    static TURN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether every shape is run in every way: `make test-msl` sets this.
pub fn in_all_ways() -> bool {
    std::env::var_os("IRONBRIDGE_TEST_KERNEL_WAYS").is_some_and(|ways| ways == "all")
}

/// Has each of the `checks` that run everything run the Metal kernel in one way, in turn from way `first` on, unless
/// all ways are wanted.
pub fn in_turns(first: usize, checks: impl FnOnce()) {
    TURN.set((!in_all_ways()).then_some(first));
    checks();
    TURN.set(None);
}

/// Calls `check` with what `run` gives on every instruction set and from the Metal source, in every way.
pub fn on_every_executor<T: Output>(run: impl Fn(Executor) -> Vec<T>, check: impl FnMut(&[T])) {
    On::Everything.each(run, check);
}

/// `rows` rows of `width` elements `stride` apart, as ranges.
pub fn row_ranges(
    rows: usize,
    stride: usize,
    width: usize,
) -> impl Iterator<Item = ops::Range<usize>> {
    (0..rows).map(move |row| row * stride..row * stride + width)
}

/// Fails unless the elements of `out` outside of `written` still hold poison.
pub fn assert_untouched<T: Output>(out: &[T], written: impl Iterator<Item = ops::Range<usize>>) {
    let mut inside = vec![false; out.len()];
    written.for_each(|range| inside[range].fill(true));
    for (index, (value, inside)) in out.iter().zip(inside).enumerate() {
        assert!(
            inside || value.bits() == T::POISON.bits(),
            "element {index} was written: {value:?}"
        );
    }
}

/// Fails unless `value` is within `tolerance` of `expected`.
#[track_caller]
pub fn assert_close(value: f64, expected: f64, tolerance: f64, what: impl std::fmt::Display) {
    let close = (value - expected).abs() <= tolerance || value == expected;
    assert!(close, "{what}: {value} is not {expected} ± {tolerance}");
}

/// The outcome's kind, for tests of faults: ("out of bounds" or "invalid", text).
pub fn fault(result: Result<(), Fault>) -> (&'static str, String) {
    match result {
        Ok(()) => ("ok", String::new()),
        Err(Fault::OutOfBounds(text)) => ("out of bounds", text),
        Err(Fault::Invalid(text)) => ("invalid", text),
        Err(Fault::OutOfMemory(text)) => ("out of memory", text),
        Err(Fault::StackOverflow(text)) => ("stack overflow", text),
        Err(Fault::Timeout(text)) => ("timeout", text),
        Err(Fault::Unsupported(text)) => ("unsupported", text),
        Err(Fault::DeviceLost(text)) => ("device lost", text),
        Err(Fault::Internal(text)) => ("internal", text),
    }
}
