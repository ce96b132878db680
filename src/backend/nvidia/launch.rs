//! Commands as launches. A dispatch becomes one launch, or several when its grid has threadgroups of different sizes,
//! or more of them in one direction than a launch may have.

use std::slice;

use super::backend::Nvidia;
use super::context::Context;
use super::driver;
use super::graph::{Graphs, Launches};
use super::stream::Staging;
use crate::backend::fault::Fault;
use crate::backend::vtable::{Action, Binding, Buffer as _, Command, Dispatch};
use crate::msl::ptx::ArgumentSource;

/// Threadgroups of a launch along y and z (CUDA C++ programming guide, technical specifications).
const MOST_GROUPS: u32 = 65535;
/// Bytes of a kernel's parameter before CUDA 12.1 (developer.nvidia.com, "CUDA 12.1 Supports Large Kernel Parameters").
const MOST_PACKET_BYTES: usize = 4096;

/// Puts the commands of a submission into a stream. Whether they start together, when this returns. The context is the
/// calling thread's.
pub fn enqueue_all<'a>(
    context: &Context,
    stream: driver::Stream,
    staging: &mut Staging,
    graphs: &mut Graphs,
    commands: impl Iterator<Item = Command<'a, Nvidia>>,
) -> Result<bool, Fault> {
    let mut alone = true;
    for command in commands {
        if let Action::Dispatch(_) = command.action {
            enqueue(
                context,
                stream,
                staging,
                &mut graphs.launches,
                command.action,
            )?;
        } else {
            alone = false;
            graphs.start_each(context, stream)?;
            enqueue(
                context,
                stream,
                staging,
                &mut graphs.launches,
                command.action,
            )?;
        }
    }
    match alone {
        true => graphs.start(context, stream),
        false => graphs.start_each(context, stream).map(|()| false),
    }
}

/// Puts a copy or a fill into a stream, and a dispatch into a list of launches.
fn enqueue(
    context: &Context,
    stream: driver::Stream,
    staging: &mut Staging,
    launches: &mut Launches,
    action: Action<Nvidia>,
) -> Result<(), Fault> {
    let driver = &context.driver;
    match action {
        Action::Dispatch(dispatch) => {
            dispatch_all(context, staging, launches, &dispatch).map_err(|fault| {
                let name = &dispatch.function().name;
                match fault {
                    Fault::Invalid(text) => Fault::Invalid(format!("kernel `{name}`: {text}")),
                    Fault::OutOfBounds(text) => {
                        Fault::OutOfBounds(format!("kernel `{name}`: {text}"))
                    }
                    Fault::DeviceLost(text) => {
                        Fault::DeviceLost(format!("kernel `{name}`: {text}"))
                    }
                    other => other,
                }
            })
        }
        Action::Copy {
            source,
            source_offset,
            destination,
            destination_offset,
            length,
        } => {
            let (from, to) = (
                source.address() + source_offset,
                destination.address() + destination_offset,
            );
            // SAFETY: ranges inside two live buffers, which the submission keeps.
            let status = unsafe { (driver.copy_on_stream)(to, from, length as usize, stream) };
            context.check("cuMemcpyAsync", status)
        }
        Action::Fill {
            destination,
            offset,
            length,
            value,
        } => {
            let to = destination.address() + offset;
            // SAFETY: a range inside a live buffer, which the submission keeps.
            let status = unsafe { (driver.set_on_stream)(to, value, length as usize, stream) };
            context.check("cuMemsetD8Async", status)
        }
    }
}

/// A part of a grid whose threadgroups have one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub origin: [u32; 3],
    pub groups: [u32; 3],
    pub threads: [u32; 3],
}

/// The parts of a grid: nearly always one, which needs no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    One(Part),
    Several(Vec<Part>),
}

impl Parts {
    pub fn iter(&self) -> slice::Iter<'_, Part> {
        match self {
            Parts::One(part) => slice::from_ref(part).iter(),
            Parts::Several(parts) => parts.iter(),
        }
    }
}

/// The threadgroups of a grid and the launches that it takes. `threads`: the grid counts threads.
pub fn parts(grid: [u32; 3], threadgroup: [u32; 3], threads: bool) -> ([u32; 3], Parts) {
    let groups = match threads {
        false => grid,
        true => [0, 1, 2].map(|i| grid[i].div_ceil(threadgroup[i])),
    };
    let whole = Part {
        origin: [0; 3],
        groups,
        threads: threadgroup,
    };
    // A smaller threadgroup's threads have the same indices when no direction below varies with them; then those too
    // many leave at once.
    let is_cut = |i: usize| {
        let keeps_indices = threadgroup[i + 1..].iter().all(|threads| *threads == 1);
        threads && !keeps_indices && !grid[i].is_multiple_of(threadgroup[i])
    };
    let fits = groups[1] <= MOST_GROUPS && groups[2] <= MOST_GROUPS;
    if fits && !groups.contains(&0) && ![0, 1, 2].into_iter().any(is_cut) {
        return (groups, Parts::One(whole));
    }
    let mut parts = vec![whole];
    for i in (0..3).filter(|i| is_cut(*i)) {
        parts = cut_edge(&parts, i, grid[i] % threadgroup[i]);
    }
    for i in 1..3 {
        parts = parts.iter().flat_map(|part| cut_length(part, i)).collect();
    }
    parts.retain(|part| part.groups.iter().all(|groups| *groups > 0));
    (groups, Parts::Several(parts))
}

/// Takes the last threadgroups along a direction apart: they have `rest` threads there.
fn cut_edge(parts: &[Part], direction: usize, rest: u32) -> Vec<Part> {
    let cut = |part: &Part| {
        let (mut whole, mut edge) = (*part, *part);
        whole.groups[direction] -= 1;
        edge.origin[direction] += whole.groups[direction];
        edge.groups[direction] = 1;
        edge.threads[direction] = rest;
        [whole, edge]
    };
    parts.iter().flat_map(cut).collect()
}

fn cut_length(part: &Part, direction: usize) -> Vec<Part> {
    let starts = (0..part.groups[direction]).step_by(MOST_GROUPS as usize);
    let cut = starts.map(|start| {
        let mut piece = *part;
        piece.origin[direction] += start;
        piece.groups[direction] = (part.groups[direction] - start).min(MOST_GROUPS);
        piece
    });
    cut.collect()
}

fn dispatch_all(
    context: &Context,
    staging: &mut Staging,
    launches: &mut Launches,
    dispatch: &Dispatch<Nvidia>,
) -> Result<(), Fault> {
    let function = dispatch.function();
    let threadgroup = dispatch.threadgroup();
    let (groups, parts) = parts(dispatch.grid(), threadgroup, dispatch.counts_threads());
    let grid = match dispatch.counts_threads() {
        true => dispatch.grid(),
        false => [0, 1, 2].map(|i| groups[i].saturating_mul(threadgroup[i])),
    };

    let packet_bytes = function.description.packet_bytes;
    if packet_bytes > MOST_PACKET_BYTES {
        return Err(Fault::Invalid(String::from("it has too many arguments")));
    }
    let parameter = launches.add_parameter(packet_bytes);
    let packet = launches.bytes_of(parameter);
    put(packet, 0, grid);
    put(packet, 12, groups);
    put(packet, 36, threadgroup);
    let shared = put_arguments(context, staging, dispatch, packet)?;
    for (number, part) in parts.iter().enumerate() {
        let own = match number {
            0 => parameter,
            _ => launches.add_copy(parameter),
        };
        put(launches.bytes_of(own), 24, part.origin);
        launches.push(function, part.groups, part.threads, shared, own);
    }
    Ok(())
}

/// Writes what the arguments are into the packet. Returns the bytes of threadgroup memory.
fn put_arguments(
    context: &Context,
    staging: &mut Staging,
    dispatch: &Dispatch<Nvidia>,
    packet: &mut [u8],
) -> Result<u32, Fault> {
    let description = &dispatch.function().description;
    let mut shared = 0;
    for (number, argument) in description.arguments.iter().enumerate() {
        let mut address = 0;
        match argument.source {
            ArgumentSource::None => {}
            ArgumentSource::Threadgroup { index } => {
                address = u64::from(shared);
                let length = dispatch
                    .threadgroup_memory()
                    .get(index)
                    .copied()
                    .unwrap_or(0);
                shared += length.next_multiple_of(16);
            }
            ArgumentSource::Value {
                index,
                bytes: least,
                offset,
            } => match dispatch.binding(index) {
                Binding::Bytes(bytes) if bytes.len() >= least => {
                    let at = description.values + offset;
                    packet[at..at + least].copy_from_slice(&bytes[..least]);
                }
                _ => {
                    return Err(Fault::Invalid(format!(
                        "buffer {index} is {least} bytes that are passed by value"
                    )));
                }
            },
            ArgumentSource::Buffer {
                index,
                least,
                value,
            } => {
                let short = |length: u64| {
                    Fault::OutOfBounds(format!(
                        "buffer {index} has {length} bytes, and its argument needs {least}"
                    ))
                };
                match dispatch.binding(index) {
                    Binding::Nothing => {
                        return Err(Fault::Invalid(format!(
                            "nothing is bound at buffer {index}"
                        )));
                    }
                    Binding::Buffer { length, .. } if length < least as u64 => {
                        return Err(short(length));
                    }
                    Binding::Bytes(bytes) if bytes.len() < least => {
                        return Err(short(bytes.len() as u64));
                    }
                    Binding::Buffer { buffer, offset, .. } => address = buffer.address() + offset,
                    Binding::Bytes(bytes) => match value {
                        Some(offset) => {
                            let at = description.values + offset;
                            packet[at..at + least].copy_from_slice(&bytes[..least]);
                        }
                        None => address = staging.keep(context, bytes)?,
                    },
                }
            }
        }
        let at = description.memory + 8 * number;
        packet[at..at + 8].copy_from_slice(&address.to_le_bytes());
    }
    Ok(shared)
}

fn put(packet: &mut [u8], at: usize, values: [u32; 3]) {
    for (place, value) in packet[at..at + 12].chunks_mut(4).zip(values) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}
