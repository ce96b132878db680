//! Metal sources that are compiled: what the backend's libraries and launches are to the code that runs them.

use std::ffi::CString;

use super::bindings::Launch;
use super::limits;
use super::machine::Machine;
use super::msl::dispatch::{Dispatch, Failure};
use super::msl::function::Function;
use super::msl::lane_order::LaneOrder;
use super::rules::Rules;
use crate::backend::fault::Fault;
use crate::msl;

/// Compiles `source` as far as finding its errors and its kernels, whose names come with it.
pub fn compile(source: &str, rules: Rules) -> Result<(Box<msl::Library>, Vec<CString>), String> {
    // A wrong wish is reported here, where Metal has an error to report it with, and not only when a kernel runs.
    LaneOrder::from_environment()?;
    msl::validation_from_environment()?;
    limits::THREADGROUP.of_environment()?;
    let library = match rules {
        Rules::Own => msl::Library::new(source),
        Rules::Apple => msl::Library::as_apple(source),
    };
    let library = library.map_err(|error| error.to_string())?;
    // A name is a C++ identifier or a string literal of the source; neither holds a NUL.
    let names = library
        .names()
        .filter_map(|name| CString::new(name).ok())
        .collect();
    Ok((Box::new(library), names))
}

/// Runs a kernel to its end.
///
/// # Safety
/// What `Function::dispatch` asks for.
pub unsafe fn execute(
    function: &Function,
    launch: &Launch,
    machine: &Machine,
    flush_subnormals: bool,
) -> Result<(), Fault> {
    let dispatch = Dispatch {
        bindings: launch.bindings,
        threadgroup_memory: launch.threadgroup_memory,
        grid: launch.grid,
        threadgroup: launch.threadgroup,
        threads: launch.threads,
        order: LaneOrder::from_environment().map_err(Fault::Invalid)?,
        limit: limits::THREADGROUP
            .of_environment()
            .map_err(Fault::Invalid)?,
        flush_subnormals,
        deadline: machine.deadline,
        workers: machine.pool.threads(),
        parallel: &|chunks, body| machine.pool.parallel_for(chunks, body),
    };
    // SAFETY: the caller's promise.
    unsafe { function.dispatch(&dispatch) }.map_err(Fault::from)
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        match failure {
            Failure::Invalid(text) => Fault::Invalid(text),
            Failure::PageFault(text) => Fault::OutOfBounds(text),
            Failure::OutOfMemory(text) => Fault::OutOfMemory(text),
            Failure::StackOverflow(text) => Fault::StackOverflow(text),
            Failure::Timeout(text) => Fault::Timeout(text),
        }
    }
}
