//! One command of a list, on the calling thread and the compute threads.

#[cfg(feature = "msl")]
use std::sync::Arc;

use super::backend::Cpu;
use super::bindings::{Launch, Range};
use super::deadline;
use super::library::Code;
#[cfg(feature = "msl")]
use super::metal_source;
#[cfg(feature = "msl")]
use super::msl::abi::NO_IMAGES;
#[cfg(feature = "msl")]
use super::msl::counter::Counter;
#[cfg(feature = "msl")]
use super::msl::function::Function;
use super::process_machine::usable_machine;
#[cfg(feature = "msl")]
use super::rules::Rules;
#[cfg(feature = "msl")]
use super::work;
use crate::backend::fault::Fault;
use crate::backend::vtable::{self, Action, Binding, Command};

/// Executes a command to its end.
pub fn execute(command: Command<Cpu>) -> Result<(), Fault> {
    match command.action {
        Action::Dispatch(dispatch) => execute_dispatch(dispatch),
        Action::Copy {
            source,
            source_offset,
            destination,
            destination_offset,
            length,
        } => {
            let from = source.range(source_offset, length);
            let to = destination.range(destination_offset, length);
            // SAFETY: `range` stays inside the buffers, which live until the list is complete; backend.h: the two do
            // not overlap.
            unsafe {
                let count = from.length.min(to.length) as usize;
                to.pointer.copy_from_nonoverlapping(from.pointer, count);
            }
            Ok(())
        }
        Action::Fill {
            destination,
            offset,
            length,
            value,
        } => {
            let to = destination.range(offset, length);
            // SAFETY: as above.
            unsafe { to.pointer.write_bytes(value, to.length as usize) };
            Ok(())
        }
    }
}

/// Whether a thread that is not the device's own may execute the dispatch. A kernel of the caller's own needs signals,
/// which such a thread may block.
pub fn runs_on_any_thread(command: &Command<Cpu>) -> bool {
    match &command.action {
        Action::Dispatch(dispatch) => matches!(dispatch.function().code, Code::Native(_)),
        Action::Copy { .. } | Action::Fill { .. } => true,
    }
}

fn execute_dispatch(dispatch: vtable::Dispatch<Cpu>) -> Result<(), Fault> {
    let machine = usable_machine()?;
    machine.pool.place_caller();
    let grid = grid(dispatch).map_err(|fault| named(dispatch, fault))?;
    if dispatch.indirect().is_some() && grid.contains(&0) {
        return Ok(());
    }
    let launch = launch(dispatch, grid);
    let launch = &with_weights(launch, dispatch)?;
    match &dispatch.function().code {
        Code::Native(kernel) => {
            // SAFETY: the bindings are of buffers that live until the list is complete, and Metal's rules forbid
            // concurrent access.
            deadline::run(machine.deadline, || unsafe { kernel.run(launch, machine) })
        }
        // SAFETY: as above; that a kernel of the caller's own is sound is for the caller to know, as on any device.
        #[cfg(feature = "msl")]
        Code::Msl(function, rules) => unsafe {
            let images = metal_source::images(dispatch.textures(), dispatch.samplers())?;
            let images = images.as_deref().unwrap_or(&NO_IMAGES);
            let flush = *rules == Rules::Apple;
            let run = |function: &_, counter: Option<&Counter>| {
                metal_source::execute(function, launch, images, machine, flush, counter)
            };
            match dispatch.function().counts() && work::is_recorded() {
                true => record(dispatch, launch, function, run),
                false => run(function, None),
            }
        },
    }
    .map_err(|fault| named(dispatch, fault))
}

/// Runs a dispatch and records its work. One that does the same as another before it runs uncounted.
#[cfg(feature = "msl")]
fn record(
    dispatch: vtable::Dispatch<Cpu>,
    launch: &Launch,
    function: &Arc<Function>,
    run: impl Fn(&Function, Option<&Counter>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let bytes = dispatch.bindings().enumerate();
    let key = work::Key {
        function: Arc::as_ptr(function).addr(),
        grid: launch.grid,
        threadgroup: launch.threadgroup,
        threads: launch.threads,
        threadgroup_memory: launch.threadgroup_memory.to_vec(),
        bytes: bytes
            .filter_map(|(index, binding)| match binding {
                Binding::Bytes(bytes) => Some((index, bytes.to_vec())),
                Binding::Buffer { .. } | Binding::Nothing => None,
            })
            .collect(),
    };
    let counted = match work::is_known(&key) {
        true => {
            run(function, None)?;
            None
        }
        false => {
            let counting = dispatch.function().counting().map_err(Fault::Invalid)?;
            let memory = launch.bindings.iter().zip(dispatch.bindings());
            let memory = memory
                .filter(|(_, binding)| matches!(binding, Binding::Buffer { .. }))
                .map(|(range, _)| *range);
            let counter = Counter::new(memory);
            run(&counting, Some(&counter))?;
            Some(counter.work())
        }
    };
    work::add(key, function.name(), counted);
    Ok(())
}

/// The dispatch's grid, which may be in a buffer. There its threads must have numbers of 32 bits, as elsewhere.
fn grid(dispatch: vtable::Dispatch<Cpu>) -> Result<[u32; 3], Fault> {
    let Some((buffer, offset)) = dispatch.indirect() else {
        return Ok(dispatch.grid());
    };
    let range = buffer.range(offset, size_of::<[u32; 3]>() as u64);
    if range.length < size_of::<[u32; 3]>() as u64 {
        return Err(Fault::Invalid(String::from(
            "its indirect arguments leave their buffer",
        )));
    }
    // SAFETY: the range is as long, and lives until the list is complete. Metal's rules forbid concurrent writes.
    let grid = unsafe { range.pointer.cast::<[u32; 3]>().read_unaligned() };
    let threadgroup = dispatch.threadgroup();
    let fits = (0..3).all(|axis| grid[axis].checked_mul(threadgroup[axis]).is_some());
    match fits {
        true => Ok(grid),
        false => Err(Fault::Invalid(format!(
            "its indirect arguments {grid:?}, of {threadgroup:?} threads each, are more than 32 bits of threads"
        ))),
    }
}

/// The dispatch with its buffers as memory.
fn launch(dispatch: vtable::Dispatch<Cpu>, grid: [u32; 3]) -> Launch {
    let mut launch = Launch {
        grid,
        threadgroup: dispatch.threadgroup(),
        threads: dispatch.counts_threads(),
        ..Launch::default()
    };
    for (place, binding) in launch.bindings.iter_mut().zip(dispatch.bindings()) {
        *place = match binding {
            Binding::Nothing => Range::NONE,
            Binding::Buffer {
                buffer,
                offset,
                length,
            } => buffer.range(offset, length),
            // Kernels take pointers that they may write through; their `constant` arguments are never written.
            Binding::Bytes(bytes) => Range {
                pointer: bytes.as_ptr().cast_mut(),
                length: bytes.len() as u64,
            },
        };
    }
    let memory = dispatch.threadgroup_memory();
    for (place, bytes) in launch.threadgroup_memory.iter_mut().zip(memory) {
        *place = *bytes;
    }
    launch
}

/// The launch with what it needs to know of weights that are packed.
fn with_weights(launch: Launch, dispatch: vtable::Dispatch<Cpu>) -> Result<Launch, Fault> {
    let operand = match &dispatch.function().code {
        Code::Native(kernel) => kernel.x16.map(|x16| x16.operand as usize),
        #[cfg(feature = "msl")]
        Code::Msl(..) => None,
    };
    let mut x16_rows = 0;
    for (index, binding) in dispatch.bindings().enumerate() {
        let Binding::Buffer { buffer, offset, .. } = binding else {
            continue;
        };
        match buffer.x16_rows(offset) {
            0 => {}
            rows if operand == Some(index) => x16_rows = rows,
            _ => {
                return Err(Fault::Invalid(format!(
                    "binding {index} has weights in a layout that only native products and look-ups know"
                )));
            }
        }
    }
    Ok(Launch { x16_rows, ..launch })
}

/// The fault, with the kernel's name before its text.
fn named(dispatch: vtable::Dispatch<Cpu>, fault: Fault) -> Fault {
    let name = match &dispatch.function().code {
        Code::Native(kernel) => kernel.display_name(),
        #[cfg(feature = "msl")]
        Code::Msl(function, _) => function.name(),
    };
    fault.map_text(|text| format!("kernel '{name}': {text}"))
}
