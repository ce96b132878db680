//! What needs a process to itself, because it counts what the whole process holds, changes what is the whole process's,
//! or ends it. Each case is one ([`harness`]).

#[path = "../abi/mod.rs"]
mod abi;
#[path = "../cargo_environment/mod.rs"]
mod cargo_environment;
mod harness;

mod apple_rules;
mod captures;
mod chat_limits;
mod compute_threads;
#[cfg(target_os = "linux")]
mod copied_weights;
mod default_device;
#[cfg(feature = "cli")]
mod detector;
mod diagnostics;
#[cfg(feature = "cli")]
mod faults;
mod first_use;
#[cfg(unix)]
mod forked;
#[cfg(target_os = "linux")]
mod gpu;
#[cfg(feature = "cli")]
mod hostile_surroundings;
mod kernel_faults;
mod leak_hook;
mod memory_processes;
mod memory_trace;
mod metal_compiler;
#[cfg(feature = "cli")]
mod metal_kernels;
#[cfg(feature = "cli")]
mod monitor;
mod resident_memory;
mod schedules;
mod stress;
#[cfg(feature = "train")]
mod training;

use harness::Group;

/// Those that measure time or wait for other processes run alone.
const GROUPS: &[Group] = &[
    Group::together(apple_rules::CASES),
    Group::together(captures::CASES),
    Group::together(chat_limits::CASES),
    #[cfg(target_os = "linux")]
    Group::together(copied_weights::CASES),
    Group::together(default_device::CASES),
    Group::together(diagnostics::CASES),
    #[cfg(feature = "cli")]
    Group::together(faults::CASES),
    #[cfg(unix)]
    Group::together(forked::CASES),
    Group::together(kernel_faults::CASES),
    Group::together(leak_hook::CASES),
    Group::together(memory_trace::counters::CASES),
    #[cfg(feature = "tracing")]
    Group::together(memory_trace::events::CASES),
    Group::together(metal_compiler::CASES),
    #[cfg(feature = "cli")]
    Group::together(metal_kernels::CASES),
    Group::together(resident_memory::CASES),
    Group::together(schedules::CASES),
    Group::together(stress::CASES),
    #[cfg(feature = "train")]
    Group::together(training::CASES),
    Group::alone(compute_threads::CASES),
    #[cfg(feature = "cli")]
    Group::alone(detector::CASES),
    Group::alone(first_use::CASES),
    #[cfg(target_os = "linux")]
    Group::alone(gpu::CASES),
    #[cfg(feature = "cli")]
    Group::alone(hostile_surroundings::CASES),
    Group::alone(memory_processes::leaks::CASES),
    Group::alone(memory_processes::models::CASES),
    Group::alone(memory_processes::publication::CASES),
    #[cfg(feature = "cli")]
    Group::alone(monitor::CASES),
];

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [play, part] if play == "--play" => {
            memory_processes::parts::play(part);
            std::process::ExitCode::SUCCESS
        }
        _ => harness::run(GROUPS, &arguments),
    }
}
