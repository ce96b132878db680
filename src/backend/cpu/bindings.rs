//! One dispatch's bindings, typed and checked against the memory that is bound.
//!
//! The memory belongs to Metal buffers: other kernels, the host and, where a contract allows it, an input and the
//! output of one kernel share it. So no reference into it is ever made; kernels read and write through [`View`]s, which
//! are checked pointers. Two things make that sound. Between dispatches it is Metal's own rule, kept by the device and
//! the bridge: while a dispatch runs, nobody else writes what it touches or reads what it writes. Within one, kernels
//! share their work between threads only when no thread writes what another touches ([`View::writes_once`],
//! [`View::is_apart_from`], [`View::aliases_rows_of`]); else one thread does it all.

use std::fmt::Display;
use std::marker::PhantomData;

use super::quants::Stored;
use crate::backend::fault::Fault;
use crate::backend::ffi::args;
use crate::backend::ffi::backend::SOFT_MAX_BINDINGS;

pub use crate::backend::cpu::range::Range;

const MAX_BINDINGS: usize = SOFT_MAX_BINDINGS as usize;

/// A dispatch whose bindings are memory.
#[derive(Clone)]
pub struct Launch {
    /// By buffer index; a null pointer where nothing is bound.
    pub bindings: [Range; MAX_BINDINGS],
    /// Bytes of threadgroup memory by argument index.
    pub threadgroup_memory: [u32; MAX_BINDINGS],
    /// Threadgroups, or threads when `threads` is set.
    pub grid: [u32; 3],
    /// Threads per threadgroup.
    pub threadgroup: [u32; 3],
    pub threads: bool,
    /// Rows of the kernel's weights, from the first on, that lie in x16 panels.
    pub x16_rows: u64,
}

impl Default for Launch {
    fn default() -> Launch {
        Launch {
            bindings: [Range::NONE; MAX_BINDINGS],
            threadgroup_memory: [0; MAX_BINDINGS],
            grid: [0; 3],
            threadgroup: [0; 3],
            threads: false,
            x16_rows: 0,
        }
    }
}

/// An argument struct of `args.h`.
///
/// # Safety
/// Every bit pattern is a valid value.
pub unsafe trait Arguments: Copy {}

macro_rules! arguments {
    ($($name:ident)*) => {
        // SAFETY: args.h allows scalars only, bindgen made them integers and floats.
        $(unsafe impl Arguments for args::$name {})*
    };
}
arguments! {
    matmul_args embedding_args rms_norm_args rope_args attention_args elementwise_args activation_args
    add_bias_args transpose_args softmax_args copy_args argmax_args sum_rows_args mse_args cross_entropy_args
    sgd_args adam_args sum_squares_args clip_norm_args
    accumulate_args gated_args rms_norm_backward_args softmax_backward_args embedding_backward_args
    attention_backward_args
}

/// The elements of a strided block: `count` steps of a stride each, twice nested, of `width` contiguous elements.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// (count, stride), the outer one first
    steps: [(u64, u64); 2],
    width: u64,
}

impl Extent {
    /// `count` contiguous elements.
    pub fn packed(count: impl Into<u64>) -> Extent {
        Extent::rows(1u32, 0, count)
    }

    /// `rows` rows of `width` elements, `stride` apart.
    pub fn rows(rows: impl Into<u64>, stride: u64, width: impl Into<u64>) -> Extent {
        Extent::nested((1u32, 0), (rows, stride), width)
    }

    /// `outer` (count, stride) such blocks of `inner` (count, stride) rows of `width` elements.
    pub fn nested(
        outer: (impl Into<u64>, u64),
        inner: (impl Into<u64>, u64),
        width: impl Into<u64>,
    ) -> Extent {
        Extent {
            steps: [(outer.0.into(), outer.1), (inner.0.into(), inner.1)],
            width: width.into(),
        }
    }

    /// The elements from the first to the last one, or `None` when there are 2^64 or more.
    fn span(&self) -> Option<u64> {
        if self.width == 0 || self.steps.iter().any(|(count, _)| *count == 0) {
            return Some(0);
        }
        let mut steps = self.steps.iter();
        steps.try_fold(self.width, |span, (count, stride)| {
            span.checked_add((count - 1).checked_mul(*stride)?)
        })
    }
}

/// How a kernel's threads share out the points of its grid: `IronGeometry` of the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Points that one threadgroup does, width first; 0: a thread for each point.
    pub tile: [u32; 3],
    /// Of a threadgroup, in one dimension; 0 for a thread for each point.
    pub threads: u32,
}

impl Geometry {
    pub const THREAD_PER_POINT: Geometry = Geometry::new([0; 3], 0);
    pub const SIMDGROUP_PER_POINT: Geometry = Geometry::new([1; 3], 32);
    pub const COLUMNS_OF_32: Geometry = Geometry::new([32, 1, 1], 256);

    pub const fn new(tile: [u32; 3], threads: u32) -> Geometry {
        Geometry { tile, threads }
    }
}

/// A dispatch of one kernel.
pub struct Dispatch<'a> {
    kernel: &'a str,
    geometry: Geometry,
    raw: &'a Launch,
}

impl<'a> Dispatch<'a> {
    /// # Safety
    /// Each binding of `raw` that is not NULL must point to `length` bytes that stay valid for reads while the
    /// `Dispatch` and the views made from it live, and for writes where `kernel` writes; nobody else may write them
    /// meanwhile, nor read what the kernel writes.
    pub unsafe fn new(kernel: &'a str, geometry: Geometry, raw: &'a Launch) -> Dispatch<'a> {
        Dispatch {
            kernel,
            geometry,
            raw,
        }
    }

    /// Rows of the weights, from the first on, that lie in x16 panels.
    pub fn x16_rows(&self) -> u64 {
        self.raw.x16_rows
    }

    /// A launch of the same with other arguments, bound at `index`, and other operands: each of `skips` begins some
    /// bytes later.
    pub fn part<T: Arguments>(
        &self,
        index: u32,
        arguments: &T,
        skips: &[(u32, u64)],
    ) -> Result<Launch, Fault> {
        let mut launch = self.raw.clone();
        launch.bindings[index as usize] = Range {
            pointer: (&raw const *arguments).cast_mut().cast(),
            length: size_of::<T>() as u64,
        };
        for (operand, bytes) in skips {
            let binding = &mut launch.bindings[*operand as usize];
            let left = binding.length.checked_sub(*bytes);
            binding.length = left.ok_or_else(|| self.invalid("an operand ends too early"))?;
            binding.pointer = binding.pointer.wrapping_add(*bytes as usize);
        }
        Ok(launch)
    }

    /// The same kernel over that part of its operands.
    ///
    /// # Safety
    /// `launch` is what [`part`](Dispatch::part) of this dispatch returned, and its arguments still live.
    pub unsafe fn over<'b>(&self, launch: &'b Launch) -> Dispatch<'b>
    where
        'a: 'b,
    {
        Dispatch {
            kernel: self.kernel,
            geometry: self.geometry,
            raw: launch,
        }
    }

    /// The argument struct at binding `index`.
    pub fn arguments<T: Arguments>(&self, index: u32) -> Result<T, Fault> {
        let (pointer, length) = self.binding(index, "args")?;
        if length < size_of::<T>() as u64 {
            return Err(self.invalid(format!(
                "its argument struct (binding {index}) has {length} bytes of {}",
                size_of::<T>()
            )));
        }
        // SAFETY: `new` promises `length` readable bytes, any bits are a `T`, and setBytes copies need not be aligned.
        Ok(unsafe { pointer.cast::<T>().read_unaligned() })
    }

    /// The memory of operand `name` at binding `index`, which the arguments say reaches over `extent`.
    pub fn view<T: Stored>(
        &self,
        index: u32,
        name: &str,
        extent: Extent,
    ) -> Result<View<'a, T>, Fault> {
        let (pointer, length) = self.binding(index, name)?;
        if pointer.addr() % align_of::<T>() != 0 {
            return Err(self.invalid(format!(
                "{name} (binding {index}) is not aligned to {} bytes",
                align_of::<T>()
            )));
        }
        let per_value = T::ELEMENTS as u64;
        let mut strides = extent.steps.iter().filter(|(count, _)| *count > 1);
        if let Some((_, stride)) = strides.find(|(_, stride)| stride % per_value != 0) {
            return Err(self.invalid(format!(
                "{name} (binding {index}) has a stride of {stride} elements, which is not a multiple of its block of \
                 {per_value}"
            )));
        }
        let bytes = extent
            .span()
            .map(|span| u128::from(span.div_ceil(per_value)) * size_of::<T>() as u128);
        match bytes {
            Some(bytes) if bytes <= u128::from(length) => Ok(View {
                pointer: pointer.cast(),
                // At most the memory bound here, so it fits the address space.
                length: (bytes / size_of::<T>() as u128) as usize,
                extent,
                memory: PhantomData,
            }),
            _ => Err(Fault::OutOfBounds(format!(
                "kernel {}: {name} (binding {index}) needs {} bytes and {length} are bound",
                self.kernel,
                bytes.map_or_else(|| String::from("2^64 or more"), |bytes| bytes.to_string()),
            ))),
        }
    }

    /// Checks that the grid, in the kernel's geometry, covers `needed` points in each dimension. A native kernel would
    /// do the whole operation anyway; the Metal one would leave the rest undone.
    pub fn expect_points(&self, needed: [u64; 3]) -> Result<(), Fault> {
        let Geometry { tile, threads } = self.geometry;
        if threads == 0 {
            return self.expect_threads(needed);
        }
        if self.raw.threadgroup != [threads, 1, 1] {
            return Err(self.invalid(format!(
                "its threadgroups have {:?} threads and must have {:?}",
                self.raw.threadgroup,
                [threads, 1, 1]
            )));
        }
        let groups: [u64; 3] = std::array::from_fn(|axis| needed[axis].div_ceil(tile[axis].into()));
        self.expect_threads([
            groups[0].saturating_mul(threads.into()),
            groups[1],
            groups[2],
        ])
    }

    /// Checks that the grid has a thread for each of `needed` points in each dimension.
    fn expect_threads(&self, needed: [u64; 3]) -> Result<(), Fault> {
        let threads: [u64; 3] = std::array::from_fn(|axis| {
            let grid = u64::from(self.raw.grid[axis]);
            match self.raw.threads {
                true => grid,
                false => grid * u64::from(self.raw.threadgroup[axis]),
            }
        });
        match (0..3).all(|axis| threads[axis] >= needed[axis]) {
            true => Ok(()),
            false => Err(self.invalid(format!(
                "a grid of {threads:?} threads does not cover the {needed:?} of its work"
            ))),
        }
    }

    /// A fault whose text names the kernel.
    pub fn invalid(&self, text: impl Display) -> Fault {
        Fault::Invalid(format!("kernel {}: {text}", self.kernel))
    }

    /// `count` zeros of scratch memory.
    pub fn scratch(&self, count: usize) -> Result<Vec<f32>, Fault> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(count).map_err(|_| {
            Fault::OutOfMemory(format!(
                "kernel {}: no memory for {count} floats of scratch",
                self.kernel
            ))
        })?;
        memory.resize(count, 0.0);
        Ok(memory)
    }

    fn binding(&self, index: u32, name: &str) -> Result<(*mut u8, u64), Fault> {
        let binding = &self.raw.bindings[index as usize];
        match binding.pointer.is_null() {
            true => Err(self.invalid(format!("nothing is bound for {name} (binding {index})"))),
            false => Ok((binding.pointer, binding.length)),
        }
    }
}

/// Values in memory that threads of a kernel share: readable, and writable where the kernel's contract says so.
/// Positions and counts are in elements.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    pointer: *mut T,
    /// stored values, not elements
    length: usize,
    extent: Extent,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: a view is a pointer to plain data; the module's comment says who may follow it when.
unsafe impl<T: Stored> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Stored> Sync for View<'_, T> {}

impl<'a, T: Stored> View<'a, T> {
    /// A view of scratch memory.
    pub fn of(memory: &'a mut [T]) -> View<'a, T> {
        View {
            pointer: memory.as_mut_ptr(),
            length: memory.len(),
            extent: Extent::packed((memory.len() * T::ELEMENTS) as u64),
            memory: PhantomData,
        }
    }

    /// The same view where `T` is f32.
    pub fn as_f32(self) -> Option<View<'a, f32>> {
        T::IS_F32.then_some(View {
            pointer: self.pointer.cast(),
            length: self.length,
            extent: self.extent,
            memory: PhantomData,
        })
    }

    /// A pointer to `count` elements from element `start` on, all inside the view. `start` is a multiple of the type's
    /// block.
    ///
    /// # Panics
    /// When they are not: a bug of the kernel.
    #[inline(always)]
    pub fn at(&self, start: usize, count: usize) -> *mut T {
        let (first, count) = (start / T::ELEMENTS, count.div_ceil(T::ELEMENTS));
        assert!(
            first <= self.length && count <= self.length - first,
            "a kernel left its view"
        );
        self.pointer.wrapping_add(first)
    }

    /// The address of element `start`, which may be outside the view: for prefetching, not to be followed.
    #[inline(always)]
    pub fn prefetch_address(&self, start: usize) -> *const T {
        self.pointer.wrapping_add(start / T::ELEMENTS)
    }

    /// Whether every element of the extent is one of its own, so that threads may write different ones at once.
    pub fn writes_once(&self) -> bool {
        let mut steps = self.extent.steps;
        steps.sort_by_key(|(_, stride)| *stride);
        let mut reach = self.extent.width;
        steps
            .iter()
            .filter(|(count, _)| *count > 1)
            .all(|(count, stride)| {
                let apart = *stride >= reach;
                reach += (count - 1) * stride; // a part of the span, which fits
                apart
            })
    }

    /// Whether no byte of the one extent belongs to the other. Says `false` for some that are apart in a complicated
    /// way.
    pub fn is_apart_from<U: Stored>(&self, other: &View<U>) -> bool {
        let (start, end) = self.bytes();
        let (other_start, other_end) = other.bytes();
        end <= other_start || other_end <= start || self.lies_between_columns_of(other)
    }

    /// Whether row i of the one is row i of the other, so that the thread that has a row has it in both.
    pub fn aliases_rows_of<U: Stored>(&self, other: &View<U>) -> bool {
        self.pointer.addr() == other.pointer.addr()
            && size_of::<T>() == size_of::<U>()
            && self.extent.steps == other.extent.steps
            && self.extent.width == other.extent.width
    }

    fn bytes(&self) -> (usize, usize) {
        let start = self.pointer.addr();
        (start, start + self.length * size_of::<T>())
    }

    /// Two column ranges of one row-major matrix: their rows alternate in memory.
    fn lies_between_columns_of<U: Stored>(&self, other: &View<U>) -> bool {
        let (Some((row, width)), Some((other_row, other_width))) =
            (self.row_bytes(), other.row_bytes())
        else {
            return false;
        };
        let shift = (other.pointer.addr() as i128 - self.pointer.addr() as i128).rem_euclid(row);
        row == other_row && width <= shift && shift + other_width <= row
    }

    /// The bytes from row to row and in a row, when there is one stride and no block that spreads over several
    /// elements.
    fn row_bytes(&self) -> Option<(i128, i128)> {
        let size = size_of::<T>() as i128;
        let [(outer, _), (_, stride)] = self.extent.steps;
        (outer == 1 && T::ELEMENTS == 1 && stride > 0).then(|| {
            (
                i128::from(stride) * size,
                i128::from(self.extent.width) * size,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_exact_or_none() {
        assert_eq!(Extent::packed(5u32).span(), Some(5));
        assert_eq!(Extent::rows(3u32, 10, 4u32).span(), Some(24));
        assert_eq!(
            Extent::nested((2u32, 100), (3u32, 10), 4u32).span(),
            Some(124)
        );
        assert_eq!(Extent::rows(0u32, 10, 4u32).span(), Some(0));
        assert_eq!(Extent::rows(3u32, 10, 0u32).span(), Some(0));
        assert_eq!(Extent::rows(1u32, u64::MAX, 4u32).span(), Some(4));
        assert_eq!(Extent::rows(2u32, u64::MAX - 3, 4u32).span(), None);
        assert_eq!(
            Extent::rows(2u32, u64::MAX - 4, 4u32).span(),
            Some(u64::MAX)
        );
        assert_eq!(Extent::rows(u32::MAX, u64::MAX / 2, 4u32).span(), None);
    }

    fn view(memory: &mut [f32], extent: Extent) -> View<'_, f32> {
        let length = extent.span().expect("small") as usize;
        View {
            length,
            extent,
            ..View::of(memory)
        }
    }

    #[test]
    fn only_distinct_elements_are_written_once() {
        let mut memory = [0f32; 64];
        let mut once = |extent| view(&mut memory, extent).writes_once();
        assert!(once(Extent::packed(64u32)));
        assert!(once(Extent::rows(4u32, 4, 4u32)));
        assert!(!once(Extent::rows(4u32, 3, 4u32)));
        assert!(!once(Extent::rows(2u32, 0, 4u32)));
        assert!(once(Extent::rows(1u32, 0, 4u32)));
        assert!(once(Extent::nested((2u32, 16), (4u32, 4), 4u32)));
        assert!(once(Extent::nested((4u32, 4), (2u32, 16), 4u32)));
        assert!(!once(Extent::nested((2u32, 15), (4u32, 4), 4u32)));
        assert!(!once(Extent::nested((2u32, 0), (4u32, 4), 4u32)));
    }

    #[test]
    fn views_that_share_nothing_are_apart() {
        let mut memory = [0f32; 64];
        let whole = view(&mut memory, Extent::packed(64u32));
        let at = |start: usize, extent: Extent| View {
            pointer: whole.pointer.wrapping_add(start),
            length: extent.span().expect("small") as usize,
            extent,
            ..whole
        };
        let apart = |first: (usize, Extent), second: (usize, Extent)| {
            let (first, second) = (at(first.0, first.1), at(second.0, second.1));
            (first.is_apart_from(&second), second.is_apart_from(&first))
        };
        let ten = Extent::packed(10u32);
        assert_eq!(apart((0, ten), (10, ten)), (true, true));
        assert_eq!(apart((0, ten), (9, ten)), (false, false));
        assert_eq!(apart((0, ten), (0, ten)), (false, false));
        // Columns 0..3 and 3..8 of rows of 8; then of too narrow rows, and of rows that differ.
        let (left, right) = (Extent::rows(4u32, 8, 3u32), Extent::rows(4u32, 8, 5u32));
        assert_eq!(apart((0, left), (3, right)), (true, true));
        assert_eq!(apart((0, left), (2, right)), (false, false));
        assert_eq!(apart((0, left), (4, right)), (false, false));
        assert_eq!(
            apart((0, left), (3, Extent::rows(4u32, 9, 5u32))),
            (false, false)
        );
    }

    #[test]
    fn rows_are_shared_when_all_of_their_layout_is_the_same() {
        let mut memory = [0f32; 64];
        let first = view(&mut memory, Extent::rows(4u32, 8, 3u32));
        assert!(first.aliases_rows_of(&first));
        for extent in [Extent::rows(4u32, 9, 3u32), Extent::rows(4u32, 8, 4u32)] {
            assert!(!first.aliases_rows_of(&View { extent, ..first }));
        }
        let pointer = first.pointer.wrapping_add(1);
        assert!(!first.aliases_rows_of(&View { pointer, ..first }));
    }
}
