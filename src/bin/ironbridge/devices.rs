//! `ironbridge devices`

use std::error::Error;

use ironbridge::{Device, DeviceKind};

use crate::terminal::bytes;

pub fn run() -> Result<(), Box<dyn Error>> {
    for info in Device::list()? {
        let selector = match info.kind {
            DeviceKind::Metal => "metal",
            DeviceKind::Software => "cpu",
            _ => "?",
        };
        println!("{}  {selector:<5}  {}", info.index, info.name);
        println!(
            "   memory: {} recommended, buffers up to {}{}",
            bytes(info.recommended_working_set),
            bytes(info.max_buffer_length),
            if info.unified_memory {
                ", unified with the host"
            } else {
                ""
            }
        );
        println!(
            "   threadgroups: up to {} threads and {} of memory",
            info.max_threads_per_threadgroup,
            bytes(info.max_threadgroup_memory.into())
        );
    }
    Ok(())
}
