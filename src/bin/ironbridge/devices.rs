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
    match arguments.json {
        true => writeln!(out, "{}", devices.iter().map(describe).collect::<Json>())?,
        false => devices.iter().try_for_each(|info| print(&mut out, info))?,
    }
    Ok(())
}

/// What `--device` can name it.
fn selector(info: &DeviceInfo) -> &'static str {
    match info.kind {
        DeviceKind::Metal => "metal",
        DeviceKind::Software => "cpu",
        _ => "?",
    }
}

fn print(out: &mut impl Write, info: &DeviceInfo) -> io::Result<()> {
    let selector = selector(info);
    writeln!(
        out,
        "{}  {STRONG}{selector:<5}{STRONG:#}  {}",
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

fn describe(info: &DeviceInfo) -> Json {
    json!({
        "index": info.index,
        "selector": selector(info),
        "name": info.name,
        "recommended_working_set": info.recommended_working_set,
        "max_buffer_length": info.max_buffer_length,
        "unified_memory": info.unified_memory,
        "max_threads_per_threadgroup": info.max_threads_per_threadgroup,
        "max_threadgroup_memory": info.max_threadgroup_memory,
    })
}
