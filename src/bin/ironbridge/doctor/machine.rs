//! The machine, as the operating system tells.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use serde_json::{Value, json};

pub struct Machine {
    /// "linux x86_64".
    pub system: String,
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    pub memory_bytes: u64,
    /// What could be had without swapping; not every system tells.
    pub available_bytes: Option<u64>,
    /// Whose Objective-C this program was built with.
    pub runtime: &'static str,
}

impl Machine {
    pub fn look() -> std::io::Result<Machine> {
        Ok(Machine {
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            processor: system::processor(),
            processors: available_parallelism().map_or(1, NonZeroUsize::get),
            memory_bytes: system::memory_bytes()?,
            available_bytes: system::available_bytes(),
            runtime: system::RUNTIME,
        })
    }

    pub fn json(&self) -> Value {
        json!({
            "system": self.system,
            "processor": self.processor,
            "processors": self.processors,
            "memory_bytes": self.memory_bytes,
            "available_bytes": self.available_bytes,
            "runtime": self.runtime,
        })
    }
}

#[cfg(not(target_vendor = "apple"))]
mod system {
    use std::{fs, io};

    pub const RUNTIME: &str = "Objective-C of GNUstep, software Metal only";

    pub fn processor() -> String {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut lines = text.lines();
        let name = lines.find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        name.map_or_else(|| "unknown".into(), |(_, name)| name.trim().to_owned())
    }

    pub fn memory_bytes() -> io::Result<u64> {
        meminfo("MemTotal:").ok_or_else(|| io::Error::other("/proc/meminfo has no MemTotal"))
    }

    pub fn available_bytes() -> Option<u64> {
        meminfo("MemAvailable:")
    }

    /// proc_meminfo(5): in KiB.
    fn meminfo(field: &str) -> Option<u64> {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix(field))?;
        let kibibytes: u64 = value.split_ascii_whitespace().next()?.parse().ok()?;
        kibibytes.checked_mul(1024)
    }
}

#[cfg(target_vendor = "apple")]
mod system {
    use std::io;
    use std::process::Command;

    pub const RUNTIME: &str = "Apple's Objective-C and Metal";

    pub fn processor() -> String {
        sysctl("machdep.cpu.brand_string").unwrap_or_else(|_| "unknown".into())
    }

    pub fn memory_bytes() -> io::Result<u64> {
        sysctl("hw.memsize")?.parse().map_err(io::Error::other)
    }

    pub fn available_bytes() -> Option<u64> {
        None
    }

    fn sysctl(name: &str) -> io::Result<String> {
        let output = Command::new("/usr/sbin/sysctl")
            .args(["-n", name])
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
