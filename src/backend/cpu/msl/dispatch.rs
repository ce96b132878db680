//! A grid of threadgroups, spread over the compute threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::abi::{
    ARGUMENT_BUFFER, ARGUMENT_SAMPLER, ARGUMENT_TEXTURE, ARGUMENT_THREADGROUP, BUFFERS, Images,
};
use super::counter::Counter;
use super::function::Function;
use super::images;
use super::lane_order::LaneOrder;
use super::subnormals::Flush;
use super::threadgroup::{self, Fault, Shape, Threadgroup};
use super::{traps, watchdog};
use crate::backend::cpu::limits;
use crate::backend::cpu::range::Range;
use crate::backend::time_limit;

/// Threads of all threadgroups that run at once. Each may need a stack, which is two mappings, and Linux gives a
/// process 65,530.
const FIBERS: usize = 16 * threadgroup::MAX_THREADS;

/// What each compute thread is to do.
pub type Body<'a> = &'a (dyn Fn(usize) + Sync);

/// What a kernel is run on.
pub struct Dispatch<'a> {
    /// By buffer index; a null pointer where nothing is bound.
    pub bindings: [Range; BUFFERS],
    /// Bytes of threadgroup memory by argument index.
    pub threadgroup_memory: [u32; BUFFERS],
    /// Bytes of it that there are, for variables, too.
    pub most_threadgroup_memory: u32,
    pub images: &'a Images,
    /// Threadgroups, or threads when `threads` is set.
    pub grid: [u32; 3],
    /// Threads per threadgroup.
    pub threadgroup: [u32; 3],
    pub threads: bool,
    pub order: LaneOrder,
    /// What adds up the work of a function that counts.
    pub counter: Option<&'a Counter>,
    /// Whether subnormal numbers count as zero.
    pub flush_subnormals: bool,
    /// How long a threadgroup may take; `None`: for ever.
    pub limit: Option<Duration>,
    /// How long all of them may take; `None`: for ever.
    pub deadline: Option<Duration>,
    /// How many compute threads there are, and how to run a task on each: it calls the closure that often, in parallel,
    /// and returns when all calls have.
    pub workers: usize,
    pub parallel: &'a dyn Fn(usize, Body),
}

/// Why a dispatch failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The dispatch does not fit the kernel: a missing binding, a short argument struct, too many threads.
    Invalid(String),
    /// The kernel touched memory that was not bound to it.
    PageFault(String),
    OutOfMemory(String),
    StackOverflow(String),
    /// A threadgroup, or all of them together, took longer than they may.
    Timeout(String),
}

impl Function {
    /// Runs the kernel over a grid, to its end.
    ///
    /// # Safety
    /// Every binding must be memory that nothing else writes meanwhile, and, unless the function validates, the kernel
    /// must stay within the bindings: its code is as trusted as this program's own.
    pub unsafe fn dispatch(&self, dispatch: &Dispatch) -> Result<(), Failure> {
        let invalid = |what: String| Failure::Invalid(format!("kernel `{}`: {what}", self.name()));
        let shape = self.shape(dispatch).map_err(invalid)?;
        let Some(groups) = shape
            .groups
            .iter()
            .try_fold(1usize, |product, &axis| product.checked_mul(axis as usize))
        else {
            return Err(invalid(format!(
                "a grid of {:?} threadgroups is too large",
                shape.groups
            )));
        };
        if let Some(counter) = shape.counter {
            let threads = shape.grid.iter().map(|&axis| u64::from(axis)).product();
            counter.launched(groups as u64, threads);
        }
        let threads: usize = shape.threads.iter().product::<u32>() as usize;
        let workers = dispatch
            .workers
            .min(groups)
            .min((FIBERS / threads.max(1)).max(1));
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let fault = Mutex::new(None);
        let overdue = AtomicBool::new(false);
        let limit = dispatch.limit;
        let flush = dispatch.flush_subnormals;
        let end = dispatch
            .deadline
            .and_then(|deadline| Instant::now().checked_add(deadline));
        // Few enough that taking one costs nothing, many enough that the workers end together.
        let chunk = (groups / (workers.max(1) * 8)).max(1);
        (dispatch.parallel)(workers, &|_| {
            let mut threadgroup = borrow_threadgroup();
            threadgroup.begin(&shape);
            traps::prepare_thread();
            let _zeroes = flush.then(Flush::begin);
            let alarm = Arc::clone(threadgroup.alarm());
            let watch = watchdog::watch(&alarm, limit, end);
            while !stop.load(Ordering::Relaxed) {
                let first = next.fetch_add(chunk, Ordering::Relaxed);
                if first >= groups {
                    break;
                }
                for index in first..groups.min(first.saturating_add(chunk)) {
                    // A chunk of a large grid is long.
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let [x, y, _] = shape.groups.map(|axis| axis as usize);
                    let position =
                        [index % x, index / x % y, index / x / y].map(|axis| axis as u32);
                    // SAFETY: the caller vouches for the kernel and its bindings, which `begin` was given.
                    let result = unsafe { threadgroup.run_group(position) };
                    if watch.is_some() && alarm.is_overdue() {
                        overdue.store(true, Ordering::Relaxed);
                        stop.store(true, Ordering::Relaxed);
                    } else if let Err(found) = result {
                        stop.store(true, Ordering::Relaxed);
                        fault
                            .lock()
                            .unwrap_or_else(|poisoned| poisoned.into_inner())
                            .get_or_insert(found);
                    }
                }
            }
            drop(watch);
            if let Some(counter) = shape.counter {
                threadgroup.add_counts(counter);
            }
            return_threadgroup(threadgroup);
        });
        let named = |what: String| format!("kernel `{}`: {what}", self.name());
        match fault
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
        {
            None if overdue.into_inner() => {
                let deadline = dispatch.deadline.unwrap_or_default();
                let variable = time_limit::DISPATCH.variable;
                let took = format!("a dispatch of {groups} threadgroups");
                Err(Failure::Timeout(named(format!(
                    "{took} took more than {deadline:?} ({variable})"
                ))))
            }
            None => Ok(()),
            Some(Fault::Divergence(what) | Fault::Undefined(what)) => Err(invalid(what)),
            Some(Fault::OutOfMemory(what)) => Err(Failure::OutOfMemory(named(what))),
            Some(Fault::OutOfBounds(what)) => {
                let unset = self.unset_threadgroup_memory(dispatch);
                Err(Failure::PageFault(named(what + &unset)))
            }
            Some(Fault::StackOverflow(what)) => Err(Failure::StackOverflow(named(what))),
            Some(Fault::Timeout) => {
                let limit = limit.unwrap_or_default();
                let variable = limits::THREADGROUP.variable;
                Err(Failure::Timeout(named(format!(
                    "a threadgroup took more than {limit:?} ({variable})"
                ))))
            }
        }
    }

    /// What a fault's message says of arguments in threadgroup memory that have no length: they are null pointers.
    fn unset_threadgroup_memory(&self, dispatch: &Dispatch) -> String {
        let memory = dispatch.threadgroup_memory;
        let of_memory = |kind| kind == ARGUMENT_THREADGROUP;
        self.arguments()
            .iter()
            .filter(|it| of_memory(it.kind) && memory.get(it.index as usize) == Some(&0))
            .map(|it| format!("; threadgroup memory index {} has no length", it.index))
            .collect()
    }

    /// What the threadgroups share, once the dispatch is known to fit the kernel.
    fn shape<'a>(&self, dispatch: &Dispatch<'a>) -> Result<Shape<'a>, String> {
        let threads = dispatch.threadgroup;
        let total = threads.iter().map(|&axis| u64::from(axis)).product::<u64>();
        let most = self
            .max_total_threads()
            .min(threadgroup::MAX_THREADS as u32);
        if total == 0 || total > u64::from(most) {
            return Err(format!(
                "a threadgroup of {threads:?} threads, where 1 to {most} are allowed"
            ));
        }
        for argument in self.arguments() {
            let index = argument.index as usize;
            match argument.kind {
                ARGUMENT_BUFFER => {
                    let binding = dispatch
                        .bindings
                        .get(index)
                        .ok_or_else(|| format!("there is no buffer index {index}"))?;
                    if binding.pointer.is_null() {
                        return Err(format!("nothing is bound to buffer index {index}"));
                    }
                    if binding.length < argument.size {
                        let (bound, size) = (binding.length, argument.size);
                        return Err(format!(
                            "the argument at buffer index {index} takes {size} bytes, and {bound} are bound"
                        ));
                    }
                    if !(binding.pointer as u64).is_multiple_of(argument.alignment) {
                        let alignment = argument.alignment;
                        return Err(format!(
                            "what is bound to buffer index {index} is not aligned to {alignment} bytes"
                        ));
                    }
                }
                // One without a length is a null pointer, which a kernel may have and not use.
                ARGUMENT_THREADGROUP if index >= dispatch.threadgroup_memory.len() => {
                    return Err(format!("there is no threadgroup memory index {index}"));
                }
                ARGUMENT_TEXTURE => images::check_textures(argument, dispatch.images)?,
                ARGUMENT_SAMPLER => images::check_samplers(argument, dispatch.images)?,
                _ => {}
            }
        }
        let dynamic: u64 = dispatch
            .threadgroup_memory
            .iter()
            .map(|bytes| u64::from(*bytes))
            .sum();
        let memory = dynamic + u64::from(self.variable_bytes());
        let most = dispatch.most_threadgroup_memory;
        if memory > u64::from(most) {
            return Err(format!(
                "{memory} bytes of threadgroup memory, where {most} are available"
            ));
        }
        let overflow = || {
            format!(
                "a grid of {:?} threadgroups of {threads:?} threads is too large",
                dispatch.grid
            )
        };
        let (groups, grid) = match dispatch.threads {
            true => (
                std::array::from_fn(|axis| dispatch.grid[axis].div_ceil(threads[axis])),
                dispatch.grid,
            ),
            false => {
                let mut grid = [0; 3];
                for axis in 0..3 {
                    grid[axis] = dispatch.grid[axis]
                        .checked_mul(threads[axis])
                        .ok_or_else(overflow)?;
                }
                (dispatch.grid, grid)
            }
        };
        Ok(Shape {
            run: self.run(),
            bindings: dispatch.bindings,
            arguments: dispatch.threadgroup_memory,
            images: dispatch.images,
            variables: self.variable_bytes(),
            threads,
            groups,
            grid,
            order: dispatch.order,
            counter: dispatch.counter,
            validate: self.validates(),
        })
    }
}

/// Threadgroups that no worker uses at the moment, with their stacks.
static IDLE: Mutex<Vec<Box<Threadgroup>>> = Mutex::new(Vec::new());

fn borrow_threadgroup() -> Box<Threadgroup> {
    let idle = IDLE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .pop();
    idle.unwrap_or_else(Threadgroup::new)
}

fn return_threadgroup(threadgroup: Box<Threadgroup>) {
    IDLE.lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .push(threadgroup);
}
