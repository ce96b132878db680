//! Kernels with mistakes on a GPU of NVIDIA's. Each test is a process of its own, for all that use a GPU in one process
//! share what a mistake ends. Without a GPU they say so.

use std::process::{Command, exit};
use std::time::{Duration, Instant};
use std::{env, thread};

use ironbridge::kernel::{Argument, Dispatch, Grid, Kernel, Library};
use ironbridge::{Buffer, Device, Pending, Result, Status};

use crate::support::assert_status;

const INSIDE: &str = "IRONBRIDGE_TEST_INSIDE";
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `body` in a process of its own when there is a GPU. `name` is the test's.
fn alone(name: &str, body: impl FnOnce(Device)) {
    alone_with(name, &[], body);
}

/// The same, with variables of the environment.
fn alone_with(name: &str, variables: &[(&str, &str)], body: impl FnOnce(Device)) {
    if env::var_os(INSIDE).is_some_and(|inside| inside == *name) {
        body(Device::open("nvidia").unwrap());
        // What still runs on the GPU ends with the process.
        exit(0);
    }
    if let Err(error) = Device::open("nvidia") {
        println!("skipped: {error}");
        return;
    }
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("nvidia::{name}"), "--nocapture"])
        .env(INSIDE, name)
        .envs(variables.iter().copied())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
    // The GPU is another process's again.
    fills(&Device::open("nvidia").unwrap());
}

const SOURCE: &str = "
#include <metal_stdlib>
using namespace metal;
kernel void fill(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 7; }
kernel void stray(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[(1ul << 44) + i] = 7; }
kernel void endless(device atomic_uint *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  while (atomic_load_explicit(out, memory_order_relaxed) != 5) atomic_fetch_or_explicit(out, 8u, memory_order_relaxed);
}
kernel void shares(device float *out [[buffer(0)]], threadgroup float *t [[threadgroup(0)]],
                   uint i [[thread_position_in_grid]]) { t[i] = i; out[i] = t[i]; }
";

fn kernel(device: &Device, name: &str) -> Kernel {
    let library = Library::from_source(device, SOURCE).unwrap();
    library.kernel(name).unwrap()
}

fn started(
    device: &Device,
    kernel: &Kernel,
    out: &Buffer<f32>,
    threads: u32,
    memory: usize,
) -> Result<Pending> {
    let arguments = [
        Argument::read_write(0, out),
        Argument::threadgroup(0, memory),
    ];
    let dispatch = Dispatch {
        arguments: match memory {
            0 => &arguments[..1],
            _ => &arguments,
        },
        grid: Grid::Threadgroups([1, 1, 1]),
        threadgroup: [threads, 1, 1],
    };
    let mut commands = device.commands()?;
    // SAFETY: `fill` and `shares` touch an element for each thread, which there are where they run. What the others do
    // ends in this process, which has no memory that anybody else uses.
    unsafe { commands.dispatch(kernel, &dispatch) }?;
    commands.commit()
}

fn fills(device: &Device) {
    let out = device.buffer::<f32>(32).unwrap();
    started(device, &kernel(device, "fill"), &out, 32, 0)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(out.to_vec().unwrap(), [7.0; 32]);
}

#[test]
fn a_kernel_that_strays_loses_the_gpu_for_the_process() {
    alone(
        "a_kernel_that_strays_loses_the_gpu_for_the_process",
        |device| {
            fills(&device);
            let out = device.buffer::<f32>(32).unwrap();
            let fill = kernel(&device, "fill");
            let other = device.buffer::<f32>(32).unwrap();
            let pending = started(&device, &kernel(&device, "stray"), &out, 32, 0).unwrap();
            let error = assert_status(pending.wait(), Status::DeviceLost);
            assert!(
                error.to_string().contains("start the process again"),
                "{error}"
            );
            // What was to be written cannot be read, and nothing else runs.
            assert_status(out.to_vec(), Status::Poisoned);
            let again = started(&device, &fill, &other, 32, 0).and_then(|pending| pending.wait());
            assert_status(again, Status::DeviceLost);
            assert_status(device.buffer::<f32>(32), Status::DeviceLost);
            // Other devices go on.
            fills(&Device::open("cpu").unwrap());
            drop((pending, out, other, fill, device));
            // The driver gives this process no other context (CUDA driver API, CUDA_ERROR_ILLEGAL_ADDRESS).
            let error = assert_status(Device::open("nvidia"), Status::DeviceLost);
            assert!(
                error.to_string().contains("start the process again"),
                "{error}"
            );
        },
    );
}

#[test]
fn a_kernel_without_end_fails_in_time() {
    // The limit is read from the environment when a device is opened.
    let limit = [("IRONBRIDGE_SOFT_DISPATCH_TIMEOUT", "2")];
    alone_with("a_kernel_without_end_fails_in_time", &limit, |device| {
        fills(&device);
        let [out, other] = [(); 2].map(|()| device.buffer::<f32>(32).unwrap());
        let fill = kernel(&device, "fill");
        let endless = kernel(&device, "endless");
        let pending = started(&device, &endless, &out, 32, 0).unwrap();
        let error = assert_status(pending.wait(), Status::DeviceTimeout);
        assert!(
            error.to_string().contains("start the process again"),
            "{error}"
        );
        let again = started(&device, &fill, &other, 32, 0).and_then(|pending| pending.wait());
        assert_status(again, Status::DeviceLost);
        assert_status(device.buffer::<f32>(32), Status::DeviceLost);
        fills(&Device::open("cpu").unwrap());
        drop((pending, out, other, fill, endless, device));
        assert_status(Device::open("nvidia"), Status::DeviceLost);
    });
}

#[test]
fn a_wait_for_a_kernel_without_end_has_one() {
    alone("a_wait_for_a_kernel_without_end_has_one", |device| {
        let out = device.buffer::<f32>(32).unwrap();
        let pending = started(&device, &kernel(&device, "endless"), &out, 32, 0).unwrap();
        for _ in 0..2 {
            let start = Instant::now();
            let limit = Duration::from_millis(300);
            assert_status(pending.wait_timeout(limit), Status::Timeout);
            assert!(start.elapsed() >= limit && start.elapsed() < Duration::from_secs(5));
        }
        assert!(!pending.is_complete().unwrap());
        fills(&Device::open("cpu").unwrap());
    });
}

#[test]
fn more_than_a_threadgroup_can_have_is_refused_and_the_device_goes_on() {
    alone(
        "more_than_a_threadgroup_can_have_is_refused_and_the_device_goes_on",
        |device| {
            let out = device.buffer::<f32>(4096).unwrap();
            for (name, threads, memory) in [("fill", 1025, 0), ("shares", 32, 1 << 20)] {
                let refused = started(&device, &kernel(&device, name), &out, threads, memory)
                    .and_then(|pending| pending.wait());
                assert_status(refused, Status::OutOfRange);
                fills(&device);
            }
        },
    );
}
