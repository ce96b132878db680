//! `ironbridge doctor`

mod built_with;
mod machine;
mod self_test;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ironbridge::diagnostics::{KernelRule, SoftwareDevice};
use ironbridge::monitor::{Survey, remove_stale, survey};
use ironbridge::{Device, DeviceInfo};
use serde_json::{Value, json};

use crate::output;
use crate::terminal::{bytes, printable};
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
    survey: Survey,
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
        survey: survey()?,
        stale_files_removed,
        test: None,
    };
    let mut out = output::stdout();
    if !arguments.json {
        report.print(&mut out)?;
    }
    if arguments.seconds > 0 {
        let limit = Duration::from_secs(arguments.seconds.into());
        let test = self_test::run(&arguments.device, limit, report.software.compiler.is_ok())?;
        if !arguments.json {
            test.print(&mut out)?;
        }
        report.test = Some(test);
    }
    let problems = report.problems();
    if arguments.json {
        writeln!(out, "{:#}", report.json(&problems))?;
    } else if problems.is_empty() {
        writeln!(out, "\nverdict     all is well")?;
    } else {
        writeln!(out)?;
        for problem in &problems {
            writeln!(out, "PROBLEM     {problem}")?;
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

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Machine {
            system,
            processor,
            processors,
            memory_bytes,
            available_bytes,
            ..
        } = &self.machine;
        writeln!(out, "ironbridge  {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "system      {system}")?;
        writeln!(
            out,
            "processor   {processor}, {processors} for this process"
        )?;
        let available =
            available_bytes.map_or_else(String::new, |free| format!(", {} available", bytes(free)));
        writeln!(out, "memory      {}{available}", bytes(*memory_bytes))?;
        writeln!(out, "runtime     {}", self.machine.runtime)?;
        self.built_with.write(out)?;
        for device in &self.devices {
            writeln!(
                out,
                "device {}    {}: buffers up to {}, working set {}, {} threads and {} in a threadgroup",
                device.index,
                device.name,
                bytes(device.max_buffer_length),
                bytes(device.recommended_working_set),
                device.max_threads_per_threadgroup,
                bytes(device.max_threadgroup_memory.into()),
            )?;
        }
        match &self.software.threads {
            Ok(threads) => writeln!(
                out,
                "software    {threads} threads, {} kernels, tuned for: {}",
                self.software.instruction_set, self.software.tuning
            )?,
            Err(error) => writeln!(out, "software    {error}")?,
        }
        for (index, rule) in self.software.kernels.iter().enumerate() {
            let title = if index == 0 { "products" } else { "" };
            let b = format!("b {}", rule.b);
            let rows = format!("{} rows of a", rule.rows);
            let line = format!(
                "{title:11} {b:24} {rows:22} {:20} {}",
                rule.strategy,
                needs(rule)
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        match &self.software.compiler {
            Ok(compiler) => writeln!(
                out,
                "compiler    {} ({}), {} of compiled kernels in {}",
                compiler.path.display(),
                compiler.version,
                bytes(compiler.cache_bytes),
                compiler.cache.display()
            )?,
            // Only kernels of the user's own need it.
            Err(error) => writeln!(
                out,
                "compiler    none: {}",
                error.replace('\n', "\n            ")
            )?,
        }
        match self.stale_files_removed {
            0 => writeln!(out, "cleaned     nothing was left by dead processes")?,
            1 => writeln!(out, "cleaned     what 1 dead process left")?,
            more => writeln!(out, "cleaned     what {more} dead processes left")?,
        }
        for skipped in &self.survey.skipped {
            let path = skipped.path.to_string_lossy();
            writeln!(out, "skipped     {}: {}", printable(&path), skipped.reason)?;
        }
        if self.survey.processes.is_empty() {
            writeln!(out, "processes   none of yours has a device open")?;
        }
        for process in &self.survey.processes {
            writeln!(
                out,
                "process     {} {}: {} active, {} cached, {} resident",
                process.pid,
                process.program,
                bytes(process.active_bytes()),
                bytes(process.cached_bytes()),
                process.resident_bytes.map_or_else(|| "?".into(), bytes)
            )?;
        }
        Ok(())
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
        let processes = self.survey.processes.iter().map(|process| {
            json!({
                "pid": process.pid,
                "program": process.program,
                "active_bytes": process.active_bytes(),
                "cached_bytes": process.cached_bytes(),
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
                "tuning": self.software.tuning,
                "kernels": self.software.kernels.iter().map(|rule| json!({
                    "b": rule.b,
                    "rows": rule.rows,
                    "needs": rule.needs,
                    "strategy": rule.strategy,
                    "used": rule.used,
                })).collect::<Vec<_>>(),
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

/// What the kernel of a row needs, and whether it is here.
fn needs(rule: &KernelRule) -> String {
    match (rule.needs, rule.used) {
        ("", _) => String::new(),
        (needs, true) => format!("needs {needs}"),
        (needs, false) => format!("needs {needs}: not here"),
    }
}
