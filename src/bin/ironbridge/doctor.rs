//! `ironbridge doctor`

mod built_with;
mod machine;
mod self_test;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ironbridge::diagnostics::SoftwareDevice;
use ironbridge::monitor::{Process, processes, remove_stale};
use ironbridge::{Device, DeviceInfo};
use serde_json::{Value, json};

use crate::terminal::bytes;
use built_with::BuiltWith;
use machine::Machine;
use self_test::SelfTest;

#[derive(Args)]
pub struct DoctorArguments {
    /// How long to test the bridge; 0: not at all
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    seconds: u16,
    /// The device to test: default, metal, cpu, or an index of `ironbridge devices`
    #[arg(long, default_value = "default")]
    device: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

struct Report {
    machine: Machine,
    built_with: BuiltWith,
    devices: Vec<DeviceInfo>,
    software: SoftwareDevice,
    processes: Vec<Process>,
    stale_files_removed: usize,
    test: Option<SelfTest>,
}

pub fn run(arguments: &DoctorArguments) -> Result<ExitCode, Box<dyn Error>> {
    let stale_files_removed = remove_stale()?;
    let mut report = Report {
        machine: Machine::look()?,
        built_with: BuiltWith::read(),
        devices: Device::list()?,
        software: SoftwareDevice::find(),
        processes: processes()?,
        stale_files_removed,
        test: None,
    };
    if !arguments.json {
        report.print();
    }
    if arguments.seconds > 0 {
        let limit = Duration::from_secs(arguments.seconds.into());
        let test = self_test::run(&arguments.device, limit, report.software.compiler.is_ok())?;
        if !arguments.json {
            test.print();
        }
        report.test = Some(test);
    }
    let problems = report.problems();
    if arguments.json {
        println!("{:#}", report.json(&problems));
    } else if problems.is_empty() {
        println!("\nverdict     all is well");
    } else {
        println!();
        for problem in &problems {
            println!("PROBLEM     {problem}");
        }
    }
    Ok(match problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Report {
    /// What keeps ironbridge from working as it should, a sentence each.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.devices.is_empty() {
            problems.push("there is no device".into());
        }
        problems.extend(self.software.threads.clone().err());
        if let Some(test) = &self.test {
            problems.extend(test.problems.iter().cloned());
        }
        problems
    }

    fn print(&self) {
        let Machine {
            system,
            processor,
            processors,
            memory_bytes,
            available_bytes,
            ..
        } = &self.machine;
        println!("ironbridge  {}", env!("CARGO_PKG_VERSION"));
        println!("system      {system}");
        println!("processor   {processor}, {processors} for this process");
        let available =
            available_bytes.map_or_else(String::new, |free| format!(", {} available", bytes(free)));
        println!("memory      {}{available}", bytes(*memory_bytes));
        println!("runtime     {}", self.machine.runtime);
        self.built_with.print();
        for device in &self.devices {
            println!(
                "device {}    {}: buffers up to {}, working set {}, {} threads and {} in a threadgroup",
                device.index,
                device.name,
                bytes(device.max_buffer_length),
                bytes(device.recommended_working_set),
                device.max_threads_per_threadgroup,
                bytes(device.max_threadgroup_memory.into()),
            );
        }
        match &self.software.threads {
            Ok(threads) => println!(
                "software    {threads} threads, {} kernels",
                self.software.instruction_set
            ),
            Err(error) => println!("software    {error}"),
        }
        match &self.software.compiler {
            Ok(compiler) => println!(
                "compiler    {} ({}), {} of compiled kernels in {}",
                compiler.path.display(),
                compiler.version,
                bytes(compiler.cache_bytes),
                compiler.cache.display()
            ),
            // Only kernels of the user's own need it.
            Err(error) => println!(
                "compiler    none: {}",
                error.replace('\n', "\n            ")
            ),
        }
        match self.stale_files_removed {
            0 => println!("cleaned     nothing was left by dead processes"),
            1 => println!("cleaned     what 1 dead process left"),
            more => println!("cleaned     what {more} dead processes left"),
        }
        if self.processes.is_empty() {
            println!("processes   none of yours has a device open");
        }
        for process in &self.processes {
            let active = process
                .devices
                .iter()
                .map(|device| device.active_bytes)
                .sum();
            let cached = process
                .devices
                .iter()
                .map(|device| device.cached_bytes)
                .sum();
            println!(
                "process     {} {}: {} active, {} cached, {} resident",
                process.pid,
                process.program,
                bytes(active),
                bytes(cached),
                process.resident_bytes.map_or_else(|| "?".into(), bytes)
            );
        }
    }

    fn json(&self, problems: &[String]) -> Value {
        let devices = self.devices.iter().map(|device| {
            json!({
                "index": device.index,
                "name": device.name,
                "max_buffer_length": device.max_buffer_length,
                "recommended_working_set": device.recommended_working_set,
                "max_threads_per_threadgroup": device.max_threads_per_threadgroup,
                "max_threadgroup_memory": device.max_threadgroup_memory,
                "unified_memory": device.unified_memory,
            })
        });
        let processes = self.processes.iter().map(|process| {
            json!({
                "pid": process.pid,
                "program": process.program,
                "active_bytes": process.devices.iter().map(|device| device.active_bytes).sum::<u64>(),
                "cached_bytes": process.devices.iter().map(|device| device.cached_bytes).sum::<u64>(),
                "resident_bytes": process.resident_bytes,
            })
        });
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "machine": self.machine.json(),
            "built_with": self.built_with.json(),
            "devices": devices.collect::<Vec<_>>(),
            "software": {
                "threads": self.software.threads.as_ref().ok(),
                "instruction_set": self.software.instruction_set,
            },
            "compiler": self.software.compiler.as_ref().ok().map(|compiler| json!({
                "path": compiler.path,
                "version": compiler.version,
                "cache": compiler.cache,
                "cache_bytes": compiler.cache_bytes,
            })),
            "processes": processes.collect::<Vec<_>>(),
            "stale_files_removed": self.stale_files_removed,
            "test": self.test.as_ref().map(SelfTest::json),
            "problems": problems,
        })
    }
}
