//! The native kernels, by family, and the table of their names.
//!
//! `native/kernels/*.metal` defines what a kernel means and `args.h` how it is called; a native kernel does the whole
//! operation that the arguments describe. Its results do not depend on the number of threads: every output element is
//! computed by one thread, in one order.

use std::ffi::CStr;

use half::{bf16, f16};

use super::attention;
use super::bindings::{Dispatch, Geometry, Launch};
use super::gemm::matmul::{self, matmul_integers};
use super::kernels::{
    accumulate, activation, activation_backward, adam, add_bias, argmax, clip_norm, copy,
    cross_entropy, elementwise, embedding, embedding_backward, gated_backward, mse, rms_norm,
    rms_norm_backward, rope, sgd, softmax, softmax_backward, sum_rows, sum_squares, transpose,
};
use super::machine::Machine;
use super::quants::x16::x16_types;
use super::quants::*;
use crate::backend::fault::Fault;
use crate::backend::ffi::args::{EMBEDDING_TABLE, MATMUL_B};
use crate::tables::{block_dtypes, operations};

/// A native kernel.
#[derive(Debug)]
pub struct Kernel {
    pub name: &'static CStr,
    /// The stem of the `.metal` file that defines it.
    pub family: &'static str,
    /// That of the Metal kernel, which a native one has no use for but to tell whether the caller dispatched it
    /// rightly.
    pub geometry: Geometry,
    plain: Run,
    /// For weights of which some rows lie in x16 panels, if it can read them.
    pub x16: Option<X16>,
}

/// A kernel that reads weights in x16 panels.
#[derive(Clone, Copy, Debug)]
pub struct X16 {
    /// The buffer index of the weights.
    pub operand: u32,
    run: Run,
}

type Run = fn(&Dispatch, &Machine) -> Result<(), Fault>;

impl Kernel {
    pub fn display_name(&self) -> &'static str {
        self.name.to_str().expect("the names are ASCII")
    }

    /// Runs it to its end.
    ///
    /// # Safety
    /// That of [`Dispatch::new`].
    pub unsafe fn run(&self, launch: &Launch, machine: &Machine) -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        let dispatch = unsafe { Dispatch::new(self.display_name(), self.geometry, launch) };
        match self.x16.filter(|_| launch.x16_rows > 0) {
            Some(x16) => (x16.run)(&dispatch, machine),
            None => (self.plain)(&dispatch, machine),
        }
    }
}

/// The kernels of weights in x16 panels: the end of the name of those for plain weights, and what runs instead.
const X16_KERNELS: &[(&str, X16)] = {
    macro_rules! x16_kernels {
        ($($class:ident $block:ident $name:literal $constant:ident,)*) => {
            &[$(
                (concat!("_", $name, "_f32"), X16 { operand: MATMUL_B, run: x16_product!($class $block f32) }),
                (concat!("_", $name, "_f16"), X16 { operand: MATMUL_B, run: x16_product!($class $block f16) }),
                (concat!("embedding_", $name), X16 { operand: EMBEDDING_TABLE, run: embedding::embedding_x16::<$block> }),
            )*]
        };
    }
    macro_rules! x16_product {
        (float $block:ident $t:ident) => {
            matmul::matmul_x16::<$block, $t>
        };
        (block $block:ident $t:ident) => {
            matmul::matmul_integers_x16::<$block, $t>
        };
    }
    x16_types!(x16_kernels)
};

/// Of the kernel that has this name.
const fn x16_of(name: &str) -> Option<X16> {
    let mut index = 0;
    while index < X16_KERNELS.len() {
        let (end, x16) = X16_KERNELS[index];
        if ends_with(name.as_bytes(), end.as_bytes()) {
            return Some(x16);
        }
        index += 1;
    }
    None
}

const fn ends_with(text: &[u8], end: &[u8]) -> bool {
    if text.len() < end.len() {
        return false;
    }
    let mut index = 0;
    while index < end.len() {
        if text[text.len() - end.len() + index] != end[index] {
            return false;
        }
        index += 1;
    }
    true
}

macro_rules! kernels {
    ($($family:ident($geometry:expr) { $($name:literal => $run:expr,)* })*) => {
        &[$($(kernel($name, stringify!($family), $geometry, $run),)*)*]
    };
}

#[rustfmt::skip]
static SINGLES: &[Kernel] = kernels! {
    embedding(Geometry::THREAD_PER_POINT) {
        c"embedding_f32" => embedding::embedding::<f32>,
        c"embedding_f16" => embedding::embedding::<f16>,
        c"embedding_bf16" => embedding::embedding::<bf16>,
    }
    rope(Geometry::THREAD_PER_POINT) { c"rope" => rope::rope, }
    attention(Geometry::SIMDGROUP_PER_POINT) {
        c"attention_f32" => attention::attention::<f32>,
        c"attention_f16" => attention::attention::<f16>,
        c"attention_bf16" => attention::attention::<bf16>,
        c"attention_q8_0" => attention::attention::<BlockQ8_0>,
    }
    attention_tiled(Geometry::new([1, 32, 1], 128)) {
        c"attention_tiled_64_f32" => attention::attention_up_to::<f32, 64>,
        c"attention_tiled_64_f16" => attention::attention_up_to::<f16, 64>,
        c"attention_tiled_64_bf16" => attention::attention_up_to::<bf16, 64>,
        c"attention_tiled_64_q8_0" => attention::attention_up_to::<BlockQ8_0, 64>,
        c"attention_tiled_128_f32" => attention::attention_up_to::<f32, 128>,
        c"attention_tiled_128_f16" => attention::attention_up_to::<f16, 128>,
        c"attention_tiled_128_bf16" => attention::attention_up_to::<bf16, 128>,
        c"attention_tiled_128_q8_0" => attention::attention_up_to::<BlockQ8_0, 128>,
        c"attention_tiled_256_f32" => attention::attention::<f32>,
        c"attention_tiled_256_f16" => attention::attention::<f16>,
        c"attention_tiled_256_bf16" => attention::attention::<bf16>,
        c"attention_tiled_256_q8_0" => attention::attention::<BlockQ8_0>,
    }
    attention_split(Geometry::new([1; 3], 128)) {
        c"attention_split_f32" => attention::attention_split::<f32>,
        c"attention_split_f16" => attention::attention_split::<f16>,
        c"attention_split_bf16" => attention::attention_split::<bf16>,
        c"attention_split_q8_0" => attention::attention_split::<BlockQ8_0>,
    }
    attention_split(Geometry::SIMDGROUP_PER_POINT) {
        c"attention_merge" => attention::attention_merge,
    }
    attention_backward(Geometry::SIMDGROUP_PER_POINT) {
        c"attention_backward_q" => attention::backward::attention_backward_q,
        c"attention_backward_kv" => attention::backward::attention_backward_kv,
    }
    accumulate(Geometry::THREAD_PER_POINT) {
        c"accumulate_f32" => accumulate::accumulate::<f32>,
        c"accumulate_f16" => accumulate::accumulate::<f16>,
    }
    transpose(Geometry::new([32, 32, 1], 256)) {
        c"transpose_32" => transpose::transpose::<u32>,
        c"transpose_16" => transpose::transpose::<f16>,
    }
    copy(Geometry::THREAD_PER_POINT) {
        c"copy_f32_f32" => copy::copy_same::<f32>,
        c"copy_f32_f16" => copy::copy::<f32, f16>,
        c"copy_f32_bf16" => copy::copy::<f32, bf16>,
        c"copy_f16_f32" => copy::copy::<f16, f32>,
        c"copy_f16_f16" => copy::copy_same::<f16>,
        c"copy_f16_bf16" => copy::copy::<f16, bf16>,
        c"copy_bf16_f32" => copy::copy::<bf16, f32>,
        c"copy_bf16_f16" => copy::copy::<bf16, f16>,
        c"copy_bf16_bf16" => copy::copy_same::<bf16>,
        c"copy_q8_0_f32" => copy::copy::<BlockQ8_0, f32>,
        c"copy_u32_u32" => copy::copy_same::<u32>,
    }
    copy(Geometry::new([32, 1, 1], 32)) {
        c"copy_f32_q8_0" => copy::quantize::<f32>,
        c"copy_f16_q8_0" => copy::quantize::<f16>,
        c"copy_bf16_q8_0" => copy::quantize::<bf16>,
    }
};

const fn kernel(
    name: &'static CStr,
    family: &'static str,
    geometry: Geometry,
    plain: Run,
) -> Kernel {
    let Ok(text) = name.to_str() else {
        panic!("the names are ASCII");
    };
    Kernel {
        name,
        family,
        geometry,
        plain,
        x16: match family.as_bytes() {
            b"copy" => None, // from and to types, and no weights
            _ => x16_of(text),
        },
    }
}

/// A kernel whose name is made of parts.
const fn named(name: &'static str, family: &'static str, geometry: Geometry, run: Run) -> Kernel {
    let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
        panic!("the name ends with its only NUL");
    };
    kernel(name, family, geometry, run)
}

const MATVEC: Geometry = Geometry::new([8, 1, 1], 64);
const NARROW: Geometry = Geometry::new([8, 8, 1], 128);
const TILES: Geometry = Geometry::new([64, 32, 1], 128);
const BLOCKS_OF_A_ROW: Geometry = Geometry::new([512, 1, 1], 32);

/// Matrix products. For Metal there are several kernels, each for shapes of its own; one native one does them all.
macro_rules! products_of_numbers {
    ($($types:literal => $run:expr,)*) => {
        &[$([
            named(concat!("matvec_", $types, "\0"), "matvec", MATVEC, $run),
            named(concat!("matvec_narrow_", $types, "\0"), "matvec", NARROW, $run),
            named(concat!("matmul_tiled_", $types, "\0"), "matmul_tiled", TILES, $run),
            named(concat!("matmul_", $types, "\0"), "matmul", Geometry::THREAD_PER_POINT, $run),
        ]),*]
    };
}

static PRODUCTS_OF_NUMBERS: &[[Kernel; 4]] = products_of_numbers! {
    "f32_f32" => matmul::matmul::<f32, f32>,
    "f16_f32" => matmul::matmul::<f16, f32>,
    "bf16_f32" => matmul::matmul::<bf16, f32>,
    "f32_f16" => matmul::matmul::<f32, f16>,
    "f16_f16" => matmul::matmul::<f16, f16>,
    "bf16_f16" => matmul::matmul::<bf16, f16>,
};

/// The products and the embedding of each block type.
macro_rules! kernels_of_blocks {
    ($($variant:ident { block $block:ident, name $name:literal, $($rest:tt)* })*) => {
        &[$([
            named(concat!("matvec_", $name, "_f32\0"), "matvec_blocks", MATVEC, matmul_integers::<$block, f32>),
            named(concat!("matvec_", $name, "_f16\0"), "matvec_blocks", MATVEC, matmul_integers::<$block, f16>),
            named(concat!("matvec_narrow_", $name, "_f32\0"), "matvec_blocks", NARROW, matmul_integers::<$block, f32>),
            named(concat!("matvec_narrow_", $name, "_f16\0"), "matvec_blocks", NARROW, matmul_integers::<$block, f16>),
            named(concat!("matmul_tiled_", $name, "_f32\0"), "matmul_blocks", TILES, matmul_integers::<$block, f32>),
            named(concat!("matmul_tiled_", $name, "_f16\0"), "matmul_blocks", TILES, matmul_integers::<$block, f16>),
            named(concat!("embedding_", $name, "\0"), "embedding", BLOCKS_OF_A_ROW, embedding::embedding::<$block>),
        ]),*]
    };
}

static KERNELS_OF_BLOCKS: &[[Kernel; 7]] = block_dtypes!(kernels_of_blocks);

/// The kernel of each row-wise operation, which is a function of that name in its family's module.
macro_rules! kernels_of_operations {
    ($($name:ident {
        form $form:ident $argument:literal,
        encoder $encode:ident($given:ident),
        values [$($values:tt)*],
        operands [$($operands:tt)*],
        kernel [$($family:ident $geometry:ident)?]
    })*) => {
        &[$($(
            named(concat!(stringify!($name), "\0"), stringify!($family), Geometry::$geometry, $family::$name),
        )?)*]
    };
}

static KERNELS_OF_OPERATIONS: &[Kernel] = operations!(kernels_of_operations);

/// All native kernels.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    SINGLES
        .iter()
        .chain(PRODUCTS_OF_NUMBERS.as_flattened())
        .chain(KERNELS_OF_BLOCKS.as_flattened())
        .chain(KERNELS_OF_OPERATIONS)
}

/// The kernels of one family.
pub fn family(family: &str) -> impl Iterator<Item = &'static Kernel> {
    kernels().filter(move |kernel| kernel.family == family)
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::machine::Ranges;

    #[test]
    fn ranges_follow_one_another_from_the_first_item_to_the_last() {
        for items in [1, 7, 12, 13, 78, 1000, usize::MAX / 2] {
            for (count, falling) in [(1, false), (5, false), (1, true), (12, true), (6144, true)] {
                let ranges = Ranges {
                    items,
                    count,
                    falling,
                };
                let mut next = 0;
                for index in 0..count {
                    let range = ranges.get(index);
                    assert_eq!(range.start, next, "{index} of {count} of {items}");
                    assert!(range.end >= range.start);
                    next = range.end;
                }
                assert_eq!(next, items);
            }
        }
    }

    #[test]
    fn ranges_get_smaller() {
        let ranges = Ranges {
            items: 1000,
            count: 4,
            falling: true,
        };
        let lengths: Vec<usize> = (0..4).map(|index| ranges.get(index).len()).collect();
        assert_eq!(lengths, [400, 300, 200, 100]);
    }
}
