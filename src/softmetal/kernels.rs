//! The native kernels, by family, and the table of their names.
//!
//! `native/kernels/*.metal` defines what a kernel means and `args.h` how it is called; a native kernel does the whole operation that the
//! arguments describe. Its results do not depend on the number of threads.

mod matmul;

use std::ffi::CStr;

use super::compute_pool::ComputePool;
use super::dispatch::{Dispatch, Fault};

/// What kernels compute with.
pub struct Machine {
    pub pool: ComputePool,
}

/// A native kernel.
#[derive(Debug)]
pub struct Kernel {
    pub name: &'static CStr,
    /// The stem of the `.metal` file that defines it.
    pub family: &'static str,
    pub run: fn(&Dispatch, &Machine) -> Result<(), Fault>,
}

impl Kernel {
    pub fn display_name(&self) -> &'static str {
        self.name.to_str().expect("the names are ASCII")
    }
}

static KERNELS: &[Kernel] = &[Kernel {
    name: c"matmul_f32_f32",
    family: "matmul",
    run: matmul::matmul,
}];

/// The kernels of one family.
pub fn family(family: &str) -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter().filter(move |kernel| kernel.family == family)
}
