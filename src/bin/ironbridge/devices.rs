//! `ironbridge devices`

use std::error::Error;
use std::io::{self, Write};

use clap::Args;
use ironbridge::{Device, DeviceInfo, DeviceKind};
use serde_json::{Value as Json, json};

use crate::output;
use crate::terminal::{STRONG, bytes};

#[derive(Args)]
pub struct DevicesArguments {
    /// Write one JSON array; sizes in bytes
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &DevicesArguments) -> Result<(), Box<dyn Error>> {
    let devices = Device::list()?;
    let mut out = output::styled();
    let processor = devices
        .iter()
        .find(|info| info.kind == DeviceKind::Software)
        .map_or(0, |info| info.index);
    let named = devices.iter().map(|info| (info, selector(info, processor)));
    match arguments.json {
        true => {
            let described = named.map(|(info, selector)| describe(info, &selector));
            writeln!(out, "{}", described.collect::<Json>())?;
        }
        false => named
            .into_iter()
            .try_for_each(|(info, selector)| print(&mut out, info, &selector))?,
    }
    Ok(())
}

/// What `--device` can name it. `processor`: the index of the processor, behind which NVIDIA's GPUs are listed.
fn selector(info: &DeviceInfo, processor: u32) -> String {
    match info.kind {
        DeviceKind::Metal => String::from("metal"),
        DeviceKind::Software if info.index == processor => String::from("cpu"),
        DeviceKind::Software => format!("nvidia:{}", info.index - processor - 1),
        _ => String::from("?"),
    }
}

fn print(out: &mut impl Write, info: &DeviceInfo, selector: &str) -> io::Result<()> {
    writeln!(
        out,
        "{}  {STRONG}{selector:<8}{STRONG:#}  {}",
        info.index, info.name
    )?;
    writeln!(
        out,
        "   memory: {} recommended, buffers up to {}{}",
        bytes(info.recommended_working_set),
        bytes(info.max_buffer_length),
        if info.unified_memory {
            ", unified with the host"
        } else {
            ""
        }
    )?;
    writeln!(
        out,
        "   threadgroups: up to {} threads and {} of memory",
        info.max_threads_per_threadgroup,
        bytes(info.max_threadgroup_memory.into())
    )
}

fn describe(info: &DeviceInfo, selector: &str) -> Json {
    json!({
        "index": info.index,
        "selector": selector,
        "name": info.name,
        "recommended_working_set": info.recommended_working_set,
        "max_buffer_length": info.max_buffer_length,
        "unified_memory": info.unified_memory,
        "max_threads_per_threadgroup": info.max_threads_per_threadgroup,
        "max_threadgroup_memory": info.max_threadgroup_memory,
    })
}
