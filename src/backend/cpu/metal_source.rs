//! Metal sources that are compiled: what the backend's libraries and launches are to the code that runs them.

use std::ffi::CString;

use super::bindings::Launch;
use super::limits;
use super::machine::Machine;
use super::memory::Memory;
use super::msl::abi::{Component, Images, Sampler, Texture};
use super::msl::counter::Counter;
use super::msl::dispatch::{Dispatch, Failure};
use super::msl::function::Function;
use super::msl::lane_order::LaneOrder;
use super::process_machine::working_machine;
use super::rules::Rules;
use crate::backend::fault::Fault;
use crate::backend::ffi::backend::{
    SOFT_FLOAT, SOFT_SINT, SOFT_SNORM, SOFT_SRGB, SOFT_UINT, SOFT_UNORM, soft_sampler, soft_texture,
};
use crate::msl;

/// Compiles `source` as far as finding its errors and its kernels, whose names come with it.
pub fn compile(source: &str, rules: Rules) -> Result<(Box<msl::Library>, Vec<CString>), String> {
    // A wrong wish is reported here, where Metal has an error to report it with, and not only when a kernel runs.
    LaneOrder::from_environment()?;
    msl::validation_from_environment()?;
    limits::THREADGROUP.of_environment()?;
    let processes = working_machine().map_or(1, |machine| machine.pool.threads());
    let library = match rules {
        Rules::Own | Rules::Nvptx => msl::Library::new(source, processes),
        Rules::Apple => msl::Library::as_apple(source, processes),
    };
    let library = library.map_err(|error| error.to_string())?;
    // A name is a C++ identifier or a string literal of the source; neither holds a NUL.
    let names = library
        .names()
        .filter_map(|name| CString::new(name).ok())
        .collect();
    Ok((Box::new(library), names))
}

/// The textures and samplers of a dispatch, as kernels see them; `None`: there are none.
pub fn images<'a>(
    textures: impl ExactSizeIterator<Item = Option<(&'a soft_texture, &'a Memory)>>,
    samplers: &[soft_sampler],
) -> Result<Option<Box<Images>>, Fault> {
    if textures.len() == 0 && samplers.is_empty() {
        return Ok(None);
    }
    let mut images = Box::new(Images::NONE);
    for (index, (place, texture)) in images.textures.iter_mut().zip(textures).enumerate() {
        if let Some((layout, buffer)) = texture {
            *place = in_memory(layout, buffer)
                .map_err(|what| Fault::Invalid(format!("the texture at index {index} {what}")))?;
        }
    }
    for (place, sampler) in images.samplers.iter_mut().zip(samplers) {
        *place = Sampler {
            bound: sampler.bound,
            pixels: sampler.pixels,
            address: sampler.address,
            magnify: sampler.magnify,
            minify: sampler.minify,
            mip: sampler.mip,
            border: sampler.border,
            compare: sampler.compare,
            lod_min: sampler.lod_min,
            lod_max: sampler.lod_max,
        };
    }
    Ok(Some(images))
}

fn in_memory(layout: &soft_texture, buffer: &Memory) -> Result<Texture, &'static str> {
    let range = buffer.range(layout.offset, layout.length);
    if range.length < layout.length {
        return Err("leaves its buffer");
    }
    Ok(Texture {
        texels: range.pointer,
        length: range.length,
        row_bytes: layout.row_bytes,
        slice_bytes: layout.slice_bytes,
        width: layout.width,
        height: layout.height,
        depth: layout.depth,
        slices: layout.array_length,
        levels: layout.levels,
        kind: layout.type_,
        component: match layout.component {
            SOFT_UNORM => Component::Unorm,
            SOFT_SNORM => Component::Snorm,
            SOFT_SRGB => Component::Srgb,
            SOFT_FLOAT => Component::Float,
            SOFT_UINT => Component::Uint,
            SOFT_SINT => Component::Sint,
            _ => return Err("has components of a kind that nobody knows"),
        },
        component_bytes: layout.component_bytes,
        components: layout.components,
        is_bgra: layout.is_bgra,
    })
}

/// Runs a kernel to its end.
///
/// # Safety
/// What `Function::dispatch` asks for.
pub unsafe fn execute(
    function: &Function,
    launch: &Launch,
    images: &Images,
    machine: &Machine,
    flush_subnormals: bool,
    counter: Option<&Counter>,
) -> Result<(), Fault> {
    let dispatch = Dispatch {
        bindings: launch.bindings,
        images,
        threadgroup_memory: launch.threadgroup_memory,
        // Encoders hold what they are given against their device's.
        most_threadgroup_memory: limits::MOST_THREADGROUP_MEMORY,
        grid: launch.grid,
        threadgroup: launch.threadgroup,
        threads: launch.threads,
        order: LaneOrder::from_environment().map_err(Fault::Invalid)?,
        limit: limits::THREADGROUP
            .of_environment()
            .map_err(Fault::Invalid)?,
        counter,
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
