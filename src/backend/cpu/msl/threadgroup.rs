//! One threadgroup on one CPU thread. Its threads run one at a time, each until it returns or waits, and are fibers
//! only as far as they have to be: a fiber runs one thread after another, and only when one waits does the next get a
//! fiber of its own. A kernel without barriers therefore runs as a plain loop.
//!
//! Turns go SIMD-group by SIMD-group. When every thread of a SIMD-group that has not returned waits at the same
//! operation, the operation is done and the SIMD-group takes another round; when every thread of the threadgroup waits
//! at the same barrier, the threadgroup does. Anything else that leaves no thread to run is divergent control flow,
//! which Metal leaves undefined and which is an error here.

use std::ffi::{CStr, c_char};
use std::ptr::{self, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use super::abi::{
    BUFFERS, Combine, Counts, Group, Images, LANE_BELOW_TOP, Lane, Runtime, SIMD_WIDTH, SimdGroup,
};
use super::counter::Counter;
use super::fiber::{self, Context};
use super::lane_order::{LaneOrder, Turns};
use super::stacks::Stacks;
use super::traps;
use super::traps::Trap;
use super::watchdog::Alarm;
use crate::backend::cpu::range::Range;

/// Threads of a threadgroup at most.
pub const MAX_THREADS: usize = 1024;
const SIMDGROUPS: usize = MAX_THREADS / SIMD_WIDTH;

/// Why a threadgroup could not be run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Threads that should have waited for each other did not meet.
    Divergence(String),
    /// An access outside every bound buffer.
    OutOfBounds(String),
    /// No memory for another stack.
    OutOfMemory(String),
    /// A thread used more stack than there is.
    StackOverflow(String),
    /// What has no defined result: an integer divided by zero.
    Undefined(String),
    /// It took longer than it may.
    Timeout,
}

/// How far the threads of one SIMD-group are. Each mask has a bit per thread.
#[derive(Clone, Copy, Default)]
struct Progress {
    threads: usize,
    /// Those that have not returned.
    live: u32,
    at_operation: u32,
    operation_site: u32,
    combine: Option<Combine>,
}

enum Step {
    Run(usize),
    End,
}

/// The state of a threadgroup, used for one after another. Compiled code holds pointers into it, so it stays where it
/// is.
#[repr(C)]
pub struct Threadgroup {
    /// What compiled code sees; first, so that a thread's pointer to it is a pointer to all of this.
    group: Group,
    bindings: [Range; BUFFERS],
    arguments: [*mut u8; BUFFERS],
    argument_bytes: [u32; BUFFERS],
    variable_bytes: u32,
    lanes: [Lane; MAX_THREADS],
    simdgroups: [SimdGroup; SIMDGROUPS],
    /// Null before a thread's first turn.
    contexts: [Context; MAX_THREADS],
    progress: [Progress; SIMDGROUPS],
    turns: Turns,
    order: LaneOrder,
    phase: u64,
    threads: usize,
    /// The SIMD-group whose turn it is, its place in the order, and the next turn within it.
    simdgroup: usize,
    simd_turn: usize,
    lane_turn: usize,
    at_barrier: usize,
    barrier_site: u32,
    returned: usize,
    starting: usize,
    main: Context,
    run: Option<unsafe extern "C" fn(*mut Lane)>,
    fault: Option<Fault>,
    /// Whether a fiber is in the kernel's own code, which owns nothing, and not in this module's.
    in_kernel: AtomicBool,
    /// Why, by which thread's fiber and at which stack pointer the kernel was interrupted.
    trapped: Option<(Trap, usize)>,
    alarm: Arc<Alarm>,
    stacks: Stacks,
    memory: Vec<u64>,
    accessible: Vec<Range>,
    counts: Counts,
    /// That threadgroups of this dispatch passed.
    barriers: u64,
}

static RUNTIME: Runtime = Runtime {
    threadgroup_barrier,
    simd_barrier,
    out_of_bounds,
    out_of_array,
};

/// What the threadgroups of one dispatch have in common.
pub struct Shape<'a> {
    pub run: unsafe extern "C" fn(*mut Lane),
    pub bindings: [Range; BUFFERS],
    /// Bytes of threadgroup memory by argument index, and of the kernel's own variables.
    pub arguments: [u32; BUFFERS],
    pub variables: u32,
    pub images: &'a Images,
    pub threads: [u32; 3],
    pub groups: [u32; 3],
    pub grid: [u32; 3],
    pub order: LaneOrder,
    pub counter: Option<&'a Counter>,
    pub validate: bool,
}

// SAFETY: its pointers are to the buffers of a dispatch, which the caller of the dispatch lends to all its workers.
unsafe impl Sync for Shape<'_> {}

impl Threadgroup {
    pub fn new() -> Box<Threadgroup> {
        let no_lane = || Lane {
            group: null(),
            simdgroup: null_mut(),
            position: [0; 3],
            index: 0,
        };
        let no_simdgroup = || SimdGroup {
            area: [[0; 512]; 2],
            operations: 0,
            lanes: 0,
        };
        Box::new(Threadgroup {
            group: Group {
                runtime: &RUNTIME,
                bindings: null(),
                threadgroup: null(),
                textures: null(),
                samplers: null(),
                variables: null_mut(),
                accessible: null(),
                counts: null_mut(),
                accessible_count: 0,
                position: [0; 3],
                threads: [0; 3],
                dispatched_threads: [0; 3],
                groups: [0; 3],
                grid: [0; 3],
                simdgroups: 0,
                dispatched_simdgroups: 0,
            },
            bindings: [Range::NONE; BUFFERS],
            arguments: [null_mut(); BUFFERS],
            argument_bytes: [0; BUFFERS],
            variable_bytes: 0,
            lanes: std::array::from_fn(|_| no_lane()),
            simdgroups: std::array::from_fn(|_| no_simdgroup()),
            contexts: [null_mut(); MAX_THREADS],
            progress: [Progress::default(); SIMDGROUPS],
            turns: Turns::new(),
            order: LaneOrder::Forward,
            phase: 0,
            threads: 0,
            simdgroup: 0,
            simd_turn: 0,
            lane_turn: 0,
            at_barrier: 0,
            barrier_site: 0,
            returned: 0,
            starting: 0,
            main: null_mut(),
            run: None,
            fault: None,
            in_kernel: AtomicBool::new(false),
            trapped: None,
            alarm: Arc::default(),
            stacks: Stacks::default(),
            memory: Vec::new(),
            accessible: Vec::new(),
            counts: Counts::NONE,
            barriers: 0,
        })
    }

    /// Hands over what was counted since `begin`.
    pub fn add_counts(&self, counter: &Counter) {
        counter.add(&self.counts, self.barriers);
    }

    pub fn alarm(&self) -> &Arc<Alarm> {
        &self.alarm
    }

    /// Takes over what a dispatch's threadgroups share. Must be called before `run_group`.
    pub fn begin(&mut self, shape: &Shape) {
        self.run = Some(shape.run);
        self.order = shape.order;
        self.bindings = shape.bindings;
        self.argument_bytes = shape.arguments;
        self.variable_bytes = shape.variables;
        let align = |bytes: u32| bytes.next_multiple_of(64) as usize;
        let total: usize = shape
            .arguments
            .iter()
            .map(|bytes| align(*bytes))
            .sum::<usize>()
            + align(shape.variables);
        // Room to align the first byte as the strictest type wants it.
        self.memory.resize(total.div_ceil(8) + 8, 0);
        let start = self.memory.as_mut_ptr().cast::<u8>();
        let mut next = start.wrapping_add(start.align_offset(64));
        self.accessible.clear();
        for (pointer, bytes) in self.arguments.iter_mut().zip(shape.arguments) {
            *pointer = if bytes == 0 { null_mut() } else { next };
            self.accessible.push(Range {
                pointer: next,
                length: bytes.into(),
            });
            next = next.wrapping_add(align(bytes));
        }
        self.group.variables = next;
        self.accessible.push(Range {
            pointer: next,
            length: shape.variables.into(),
        });
        self.accessible.extend(shape.bindings);
        self.accessible.retain(|range| range.length > 0);
        self.barriers = 0;
        self.group.counts = null_mut();
        if let Some(counter) = shape.counter {
            self.counts = counter.begin(Range {
                pointer: start,
                length: (self.memory.len() * 8) as u64,
            });
            self.group.counts = &raw mut self.counts;
        }
        let own = Range {
            pointer: (&raw mut *self).cast(),
            length: size_of::<Threadgroup>() as u64,
        };
        let table = Range {
            pointer: (&raw const RUNTIME).cast_mut().cast(),
            length: size_of::<Runtime>() as u64,
        };
        let images = Range {
            pointer: ptr::from_ref(shape.images).cast_mut().cast(),
            length: size_of::<Images>() as u64,
        };
        self.accessible.extend([own, table, images]);
        let textures = shape.images.textures.iter();
        self.accessible
            .extend(textures.filter(|it| it.length > 0).map(|it| Range {
                pointer: it.texels,
                length: it.length,
            }));
        self.group.textures = shape.images.textures.as_ptr();
        self.group.samplers = shape.images.samplers.as_ptr();

        self.group.bindings = self.bindings.as_ptr();
        self.group.threadgroup = self.arguments.as_ptr();
        self.group.accessible = self.accessible.as_ptr();
        self.group.accessible_count = if shape.validate {
            self.accessible.len() as u32
        } else {
            0
        };
        self.group.dispatched_threads = shape.threads;
        self.group.groups = shape.groups;
        self.group.grid = shape.grid;
        let whole: u32 = shape.threads.iter().product();
        self.group.dispatched_simdgroups = whole.div_ceil(SIMD_WIDTH as u32);
        self.group.threads = [0; 3]; // no threads are laid out for this dispatch yet
    }

    /// Runs the threadgroup at `position` of the grid.
    ///
    /// # Safety
    /// The kernel of `begin` must be sound for the bindings that were given with it.
    pub unsafe fn run_group(&mut self, position: [u32; 3]) -> Result<(), Fault> {
        let whole = self.group.dispatched_threads;
        // The last threadgroup of a row may be a partial one.
        let threads = std::array::from_fn(|axis| {
            whole[axis].min(self.group.grid[axis] - position[axis] * whole[axis])
        });
        self.group.position = position;
        if threads != self.group.threads {
            self.lay_out(threads);
        }
        let linear = |axis: usize| u64::from(position[axis]);
        let groups = self.group.groups.map(u64::from);
        self.phase = (linear(0) + groups[0] * (linear(1) + groups[1] * linear(2))) << 24;
        let unwritten = self.order.unwritten();
        self.memory_bytes().fill(unwritten);
        self.contexts[..self.threads].fill(null_mut());
        let count = self.simdgroup_count();
        for (index, progress) in self.progress[..count].iter_mut().enumerate() {
            let threads = (self.threads - index * SIMD_WIDTH).min(SIMD_WIDTH);
            *progress = Progress {
                threads,
                live: u32::MAX >> (SIMD_WIDTH - threads),
                ..Progress::default()
            };
        }
        (self.at_barrier, self.returned) = (0, 0);
        self.alarm.next_turn();
        self.begin_phase();

        let Step::Run(first) = self.advance() else {
            return Ok(()); // a threadgroup has at least one thread
        };
        let this = &raw mut *self;
        // SAFETY: `this` is a live Threadgroup at a fixed address, which nothing else uses until the switch returns;
        // the fibers it runs are on this worker's own stacks and all of them are done with, or given up, when they
        // switch to `main`.
        unsafe {
            let context = Threadgroup::context_of(this, first);
            if !context.is_null() {
                traps::set_running(this);
                fiber::switch(&raw mut (*this).main, context);
                traps::set_running(null_mut());
            }
        }
        self.set_in_kernel(false);
        if let Some((trap, stack)) = self.trapped.take() {
            self.fault = Some(self.fault_of(trap, stack));
        }
        match self.fault.take() {
            None => Ok(()),
            Some(fault) => {
                self.stacks.reclaim();
                Err(fault)
            }
        }
    }

    fn simdgroup_count(&self) -> usize {
        self.threads.div_ceil(SIMD_WIDTH)
    }

    fn memory_bytes(&mut self) -> &mut [u8] {
        let length = self.memory.len() * 8;
        // SAFETY: the vector's initialised words are as many bytes, which have no alignment or invalid values.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), length) }
    }

    fn lay_out(&mut self, threads: [u32; 3]) {
        self.threads = threads.iter().product::<u32>() as usize;
        self.group.threads = threads;
        self.group.simdgroups = self.simdgroup_count() as u32;
        let group = &raw const self.group;
        for index in 0..self.threads {
            let linear = index as u32;
            self.lanes[index] = Lane {
                group,
                simdgroup: &raw mut self.simdgroups[index / SIMD_WIDTH],
                position: [
                    linear % threads[0],
                    linear / threads[0] % threads[1],
                    linear / threads[0] / threads[1],
                ],
                index: linear,
            };
        }
        self.turns.arrange(self.order, self.threads, self.phase);
    }

    /// Gives every thread a turn again.
    fn begin_phase(&mut self) {
        if let LaneOrder::Random(_) = self.order {
            self.turns.arrange(self.order, self.threads, self.phase);
        }
        self.phase += 1;
        self.simd_turn = 0;
        self.lane_turn = 0;
        self.simdgroup = self.turns.simdgroup(0);
    }

    /// Whose turn is next.
    fn advance(&mut self) -> Step {
        if self.alarm.is_late() {
            return self.fail(Fault::Timeout);
        }
        loop {
            let progress = &mut self.progress[self.simdgroup];
            while self.lane_turn < progress.threads {
                let lane = self.turns.lane(self.simdgroup, self.lane_turn);
                self.lane_turn += 1;
                if progress.live >> lane & 1 == 1 {
                    return Step::Run(self.simdgroup * SIMD_WIDTH + lane);
                }
            }
            // Every thread of this SIMD-group waits or has returned.
            if progress.at_operation != 0 {
                if progress.at_operation != progress.live {
                    let missing = progress.live & !progress.at_operation;
                    let site = progress.operation_site;
                    return self.diverged(
                        missing.trailing_zeros(),
                        "wait at a barrier",
                        "a SIMD-group operation",
                        site,
                    );
                }
                let simdgroup = &mut self.simdgroups[self.simdgroup];
                if let Some(combine) = progress.combine {
                    let area = &raw mut simdgroup.area[(simdgroup.operations & 1) as usize];
                    // SAFETY: the threads of this SIMD-group, all of one kernel, gave the same function for this area.
                    unsafe { combine(area.cast(), progress.at_operation) };
                }
                simdgroup.lanes = progress.at_operation;
                simdgroup.operations = simdgroup.operations.wrapping_add(1);
                progress.at_operation = 0;
                self.lane_turn = 0;
                continue;
            }
            self.simd_turn += 1;
            if self.simd_turn < self.simdgroup_count() {
                self.simdgroup = self.turns.simdgroup(self.simd_turn);
                self.lane_turn = 0;
                continue;
            }
            // Every thread of the threadgroup waits at the barrier or has returned.
            if self.at_barrier == 0 {
                return Step::End;
            }
            if self.at_barrier != self.threads {
                return self.missed_barrier();
            }
            self.at_barrier = 0;
            self.barriers += 1;
            self.begin_phase();
        }
    }

    fn missed_barrier(&mut self) -> Step {
        let lost = |(index, progress): (usize, &Progress)| {
            let gone = !progress.live & (u32::MAX >> (SIMD_WIDTH - progress.threads));
            (gone != 0).then(|| index * SIMD_WIDTH + gone.trailing_zeros() as usize)
        };
        let first = self.progress[..self.simdgroup_count()]
            .iter()
            .enumerate()
            .find_map(lost)
            .unwrap_or(0);
        let (count, threads) = (self.returned, self.threads);
        self.fail(Fault::Divergence(format!(
            "divergent threadgroup_barrier at {}: {count} of {threads} threads returned without reaching it, the first of them {first}",
            place(self.barrier_site)
        )))
    }

    fn diverged(&mut self, lane: u32, state: &str, what: &str, site: u32) -> Step {
        let thread = self.simdgroup * SIMD_WIDTH + lane as usize;
        self.fail(Fault::Divergence(format!(
            "divergent control flow: some threads of a SIMD-group are at {what} at {} while others, thread {thread} among them, {state}",
            place(site)
        )))
    }

    fn fail(&mut self, fault: Fault) -> Step {
        self.fault.get_or_insert(fault);
        Step::End
    }

    /// What to switch to for `thread` to run: its suspended fiber, or a fresh one. Null when there is no memory for
    /// that.
    unsafe fn context_of(this: *mut Threadgroup, thread: usize) -> Context {
        // SAFETY: `this` is the live Threadgroup that the caller runs, and the stack's top has the room that `prepare`
        // needs.
        unsafe {
            let context = (*this).contexts[thread];
            if !context.is_null() {
                return context;
            }
            (*this).starting = thread;
            match (*this).stacks.take() {
                Ok(top) => fiber::prepare(first_frame(top), run_threads, this.cast()),
                Err(error) => {
                    (*this).fail(Fault::OutOfMemory(format!(
                        "no stack for a thread of a threadgroup: {error}"
                    )));
                    null_mut()
                }
            }
        }
    }

    /// Suspends `thread` until it may go on. Returns at once when it is the next to run.
    unsafe fn suspend(this: *mut Threadgroup, thread: usize) {
        // SAFETY: called on `thread`'s own fiber, with `this` its Threadgroup; what is switched to is suspended or
        // fresh.
        unsafe {
            let context = match (*this).advance() {
                Step::Run(next) if next == thread => return,
                Step::Run(next) => Threadgroup::context_of(this, next),
                Step::End => null_mut(),
            };
            let context = if context.is_null() {
                (*this).main
            } else {
                context
            };
            fiber::switch(&raw mut (*this).contexts[thread], context);
        }
    }
}

// SAFETY: every pointer in it leads to itself, to its own mappings, or to what a dispatch lends it for the dispatch's
// duration; one thread uses it at a time.
unsafe impl Send for Threadgroup {}

/// Stacks of one size and alignment would put the same frames of all fibers into the same cache sets; this spreads
/// them.
fn first_frame(top: *mut u8) -> *mut u8 {
    let colour = (top as usize / super::abi::STACK) % 32;
    top.wrapping_sub(64 + colour * 5 * 64)
}

/// The body of every fiber: runs threads that have not begun until the next turn is that of a suspended one.
unsafe extern "C" fn run_threads(this: *mut u8) -> ! {
    let this = this.cast::<Threadgroup>();
    let here = &raw const this as usize;
    let top = (here | (super::abi::STACK - 1)) + 1;
    let running = (top - LANE_BELOW_TOP) as *mut *mut Lane;
    // SAFETY: `this` is the Threadgroup that switched here, alive until its `main` is resumed. `running` is the top
    // word of this stack, which no frame uses. Only one fiber of a Threadgroup runs at a time, so its fields are read
    // and written in turn.
    unsafe {
        loop {
            let thread = (*this).starting;
            let lane = &raw mut (*this).lanes[thread];
            running.write(lane);
            if let Some(run) = (*this).run {
                (*this).set_in_kernel(true);
                run(lane);
                (*this).set_in_kernel(false);
            }
            (*this).returned += 1;
            (*this).progress[thread / SIMD_WIDTH].live &= !(1 << (thread % SIMD_WIDTH));
            let context = match (*this).advance() {
                Step::Run(next) if (*this).contexts[next].is_null() => {
                    (*this).starting = next;
                    continue;
                }
                Step::Run(next) => (*this).contexts[next],
                Step::End => (*this).main,
            };
            (*this).stacks.give_back(top as *mut u8);
            let mut never_resumed = null_mut();
            fiber::switch(&raw mut never_resumed, context);
        }
    }
}

unsafe extern "C" fn threadgroup_barrier(lane: *mut Lane, site: u32) {
    // SAFETY: compiled code passes the lane it was given, whose group is the first field of the Threadgroup that runs
    // it.
    unsafe {
        let (this, thread) = ((*lane).group as *mut Threadgroup, (*lane).index as usize);
        (*this).set_in_kernel(false);
        if (*this).at_barrier > 0 && (*this).barrier_site != site {
            let (one, other) = (place((*this).barrier_site), place(site));
            (*this).give_up(Fault::Divergence(format!(
                "divergent threadgroup_barrier: thread {thread} is at the one at {other} while others wait at the one at {one}"
            )));
        }
        (*this).at_barrier += 1;
        (*this).barrier_site = site;
        Threadgroup::suspend(this, thread);
        (*this).set_in_kernel(true);
    }
}

unsafe extern "C" fn simd_barrier(lane: *mut Lane, combine: Option<Combine>, site: u32) {
    // SAFETY: as in `threadgroup_barrier`.
    unsafe {
        let (this, thread) = ((*lane).group as *mut Threadgroup, (*lane).index as usize);
        (*this).set_in_kernel(false);
        let progress = &mut (*this).progress[thread / SIMD_WIDTH];
        if progress.at_operation != 0 && progress.operation_site != site {
            let (one, other) = (place(progress.operation_site), place(site));
            (*this).give_up(Fault::Divergence(format!(
                "divergent SIMD-group operation: thread {thread} is at the one at {other} while others of its SIMD-group wait \
                 at the one at {one}"
            )));
        }
        let progress = &mut (*this).progress[thread / SIMD_WIDTH];
        progress.at_operation |= 1 << (thread % SIMD_WIDTH);
        progress.operation_site = site;
        progress.combine = combine;
        Threadgroup::suspend(this, thread);
        (*this).set_in_kernel(true);
    }
}

unsafe extern "C" fn out_of_bounds(lane: *mut Lane, address: u64, size: u64, write: bool) {
    // SAFETY: as in `threadgroup_barrier`.
    unsafe {
        let this = (*lane).group as *mut Threadgroup;
        (*this).set_in_kernel(false);
        let thread = (*this).position_of(lane);
        let access = if write { "write" } else { "read" };
        let place = (*this).place_of(address);
        (*this).give_up(Fault::OutOfBounds(format!(
            "a {access} of {size} bytes by thread {thread:?} {place}"
        )));
    }
}

unsafe extern "C" fn out_of_array(lane: *mut Lane, index: i64, array: *const c_char, line: u32) {
    // SAFETY: as in `threadgroup_barrier`; the name of the array's type is the compiler's, which ends it with a NUL.
    unsafe {
        let this = (*lane).group as *mut Threadgroup;
        (*this).set_in_kernel(false);
        let thread = (*this).position_of(lane);
        // 'float[4]', or a name of it and (aka 'float[4]').
        let array = CStr::from_ptr(array).to_string_lossy();
        let array = array.rsplit('\'').nth(1).unwrap_or(&array);
        (*this).give_up(Fault::OutOfBounds(format!(
            "line {line}: index {index} of a {array} by thread {thread:?}"
        )));
    }
}

impl Threadgroup {
    /// For the signal handler: whether the signal is one of a kernel's, and then what to resume in its place.
    ///
    /// # Safety
    /// `this` is the Threadgroup that the interrupted thread runs.
    pub unsafe fn trap(this: *mut Threadgroup, trap: Trap, stack: usize) -> Option<Context> {
        // SAFETY: the interrupted thread is the only one that uses `this`, and it does not go on before this has
        // returned.
        unsafe {
            let on_fiber = (*this).stacks.has(top_of(stack) as *mut u8);
            let in_kernel = (*this).in_kernel.load(Ordering::Relaxed);
            let ours = match trap {
                // A stack ends anywhere, in this module's code too.
                Trap::Access(address) => in_kernel || (*this).stacks.guards(address),
                Trap::Arithmetic | Trap::Undefined => in_kernel,
                Trap::Late => in_kernel && (*this).alarm.is_late(),
            };
            if !on_fiber || !ours {
                return None;
            }
            (*this).trapped = Some((trap, stack));
            Some((*this).main)
        }
    }

    /// Tells the signal handler, which runs on this thread, whose code comes next.
    fn set_in_kernel(&self, value: bool) {
        compiler_fence(Ordering::SeqCst);
        self.in_kernel.store(value, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    fn fault_of(&self, trap: Trap, stack: usize) -> Fault {
        let running = (top_of(stack) - LANE_BELOW_TOP) as *const *const Lane;
        // SAFETY: `trap` made sure that it is one of our stacks, whose top word says which thread's it is.
        let thread = self.position_of(unsafe { running.read() });
        match trap {
            Trap::Access(address) if self.stacks.guards(address) => {
                const KIB: usize = super::abi::STACK / 1024;
                Fault::StackOverflow(format!(
                    "thread {thread:?} needs more than {KIB} KiB for its variables"
                ))
            }
            // Some processors do not tell the address when there can be no memory at it.
            Trap::Access(0) => Fault::OutOfBounds(format!(
                "an access to memory that is not there by thread {thread:?}"
            )),
            Trap::Access(address) => Fault::OutOfBounds(format!(
                "an access to memory that is not there by thread {thread:?} {}",
                self.place_of(address as u64)
            )),
            Trap::Arithmetic => Fault::Undefined(format!(
                "thread {thread:?} divided an integer by zero, or the least one by -1"
            )),
            Trap::Undefined => Fault::Undefined(format!(
                "thread {thread:?} came to code without a defined meaning"
            )),
            Trap::Late => Fault::Timeout,
        }
    }

    /// thread_position_in_grid.
    fn position_of(&self, lane: *const Lane) -> [u32; 3] {
        let whole = self.group.dispatched_threads;
        // SAFETY: the lane is one of this Threadgroup's.
        let position = unsafe { (*lane).position };
        std::array::from_fn(|axis| self.group.position[axis] * whole[axis] + position[axis])
    }

    /// Where an address that belongs to nothing is, by what it is nearest to.
    fn place_of(&self, address: u64) -> String {
        const NULL_PAGES: u64 = 64 << 10; // what no program has, where it is Linux's default
        if address < NULL_PAGES {
            return format!("at byte {address} from a null pointer");
        }
        let buffers = self
            .bindings
            .iter()
            .enumerate()
            .map(|(index, range)| (*range, format!("buffer index {index}")));
        let dynamic = self
            .arguments
            .iter()
            .zip(&self.argument_bytes)
            .enumerate()
            .map(|(index, (pointer, bytes))| {
                (
                    Range {
                        pointer: *pointer,
                        length: u64::from(*bytes),
                    },
                    format!("threadgroup memory index {index}"),
                )
            });
        let variables = Range {
            pointer: self.group.variables,
            length: self.variable_bytes.into(),
        };
        let all = buffers
            .chain(dynamic)
            .chain([(variables, String::from("the kernel's threadgroup memory"))]);
        let distance = |range: &Range| {
            let start = range.pointer as u64;
            start
                .saturating_sub(address)
                .max((address + 1).saturating_sub(start + range.length))
        };
        let bound = all.filter(|(range, _)| !range.pointer.is_null() && range.length > 0);
        match bound.min_by_key(|(range, _)| distance(range)) {
            None => format!("at address {address:#x}, with nothing bound"),
            Some((range, what)) => {
                let offset = address.wrapping_sub(range.pointer as u64) as i64;
                format!("at byte {offset} of the {} bytes of {what}", range.length)
            }
        }
    }

    /// Ends the threadgroup from within one of its fibers, leaving every fiber where it is.
    fn give_up(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
        let mut never_resumed = null_mut();
        // SAFETY: called on a fiber of this Threadgroup, whose `main` is suspended in `run_group`. The fibers own
        // nothing but their stacks, which `run_group` reclaims.
        unsafe { fiber::switch(&raw mut never_resumed, self.main) };
    }
}

/// The top of the stack that a stack pointer points into.
fn top_of(stack: usize) -> usize {
    (stack | (super::abi::STACK - 1)) + 1
}

/// A site in words: line * 1024 + column.
fn place(site: u32) -> String {
    format!("line {}", site >> 10)
}
