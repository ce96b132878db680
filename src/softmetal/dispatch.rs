//! One dispatch's bindings, typed and checked against the memory that is bound.
//!
//! The memory belongs to Metal buffers: the host, other kernels of the same queue and, where a contract allows it, an input and the output of
//! one kernel share it. So no reference into it is ever made; kernels read and write through [`View`]s, which are checked pointers.
//! What makes that sound is Metal's own rule, kept by the device and the bridge: while a dispatch runs, nobody else writes what it touches
//! or reads what it writes.

use std::marker::PhantomData;

use super::bindings::args;
use super::bindings::executor::soft_dispatch;

/// Why a dispatch did not run to its end. The text is for the user.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The arguments reach outside the bound memory.
    PageFault(String),
    /// A binding is missing or the arguments contradict each other.
    Invalid(String),
    /// Scratch memory could not be had.
    OutOfMemory(String),
}

/// What a buffer can hold.
pub trait Stored: Copy + Send + Sync + 'static {
    /// How many elements one stored value stands for: more than one in block-quantised types.
    const ELEMENTS: u64 = 1;
}

impl Stored for f32 {}
impl Stored for u32 {}
impl Stored for half::f16 {}
impl Stored for half::bf16 {}

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
arguments!(matmul_args embedding_args rms_norm_args rope_args attention_args elementwise_args softmax_args copy_args argmax_args);

/// The elements of a strided block: `counts` steps of a stride each, then `width` contiguous ones.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    steps: [(u64, u64); 2],
    width: u64,
}

impl Extent {
    /// `count` contiguous elements.
    pub fn packed(count: u64) -> Extent {
        Extent {
            steps: [(1, 0); 2],
            width: count,
        }
    }

    /// `rows` rows of `width` elements, `stride` apart.
    pub fn rows(rows: u32, stride: u64, width: u32) -> Extent {
        Extent::batches(1, 0, rows, stride, width)
    }

    /// `batch` such blocks, `batch_stride` apart.
    pub fn batches(batch: u32, batch_stride: u64, rows: u32, stride: u64, width: u32) -> Extent {
        Extent {
            steps: [(batch.into(), batch_stride), (rows.into(), stride)],
            width: width.into(),
        }
    }

    /// The elements from the first to the last one, or `None` when there are more than 2^64.
    fn span(&self) -> Option<u64> {
        if self.width == 0 || self.steps.iter().any(|(count, _)| *count == 0) {
            return Some(0);
        }
        self.steps
            .iter()
            .try_fold(self.width, |span, (count, stride)| {
                span.checked_add((count - 1).checked_mul(*stride)?)
            })
    }
}

/// A dispatch of one kernel.
pub struct Dispatch<'a> {
    kernel: &'a str,
    raw: &'a soft_dispatch,
}

impl<'a> Dispatch<'a> {
    /// # Safety
    /// Each binding of `raw` that is not NULL must point to `length` bytes that stay valid for reads while the `Dispatch` and the views made
    /// from it live, and for writes where `kernel` writes; nobody else may write them meanwhile, nor read what the kernel writes.
    pub unsafe fn new(kernel: &'a str, raw: &'a soft_dispatch) -> Dispatch<'a> {
        Dispatch { kernel, raw }
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
        let bytes = extent
            .span()
            .map(|span| u128::from(span.div_ceil(T::ELEMENTS)) * size_of::<T>() as u128);
        match bytes {
            Some(bytes) if bytes <= u128::from(length) => Ok(View {
                pointer: pointer.cast(),
                // At most the memory bound here, so it fits the address space.
                length: (bytes / size_of::<T>() as u128) as usize,
                memory: PhantomData,
            }),
            _ => Err(Fault::PageFault(format!(
                "kernel {}: {name} (binding {index}) needs {} bytes and {length} are bound",
                self.kernel,
                bytes.map_or_else(|| String::from("more than 2^64"), |bytes| bytes.to_string()),
            ))),
        }
    }

    /// A fault whose text names the kernel.
    pub fn invalid(&self, text: impl std::fmt::Display) -> Fault {
        Fault::Invalid(format!("kernel {}: {text}", self.kernel))
    }

    fn binding(&self, index: u32, name: &str) -> Result<(*mut u8, u64), Fault> {
        let binding = &self.raw.bindings[index as usize];
        match binding.pointer.is_null() {
            true => Err(self.invalid(format!("nothing is bound for {name} (binding {index})"))),
            false => Ok((binding.pointer.cast(), binding.length)),
        }
    }
}

/// `length` values of a buffer, readable, and writable where the kernel's contract says so.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    pointer: *mut T,
    length: usize,
    memory: PhantomData<&'a soft_dispatch>,
}

// SAFETY: a view is a pointer to plain data; `Dispatch::new` says who may access it, and kernels partition what they write between
// their threads.
unsafe impl<T: Stored> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Stored> Sync for View<'_, T> {}

impl<T: Stored> View<'_, T> {
    /// A pointer to `count` values from `start` on, all inside the view.
    ///
    /// # Panics
    /// When they are not: a bug of the kernel.
    #[inline(always)]
    pub fn at(&self, start: usize, count: usize) -> *mut T {
        assert!(
            start <= self.length && count <= self.length - start,
            "a kernel left its view"
        );
        self.pointer.wrapping_add(start)
    }
}
