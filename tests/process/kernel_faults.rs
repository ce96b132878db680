//! Kernels that go wrong on the software device: each ends with an error of its kind, and the device goes on. In a
//! process of its own, whose limits of time are short.

use std::sync::Once;
use std::time::{Duration, Instant};

use ironbridge::kernel::{Argument, Dispatch, Grid, Library};
use ironbridge::ops::Matmul;
use ironbridge::{Device, Error, Status};

crate::harness::cases! {
    memory_that_is_not_there,
    a_stack_that_is_too_small,
    a_kernel_without_end,
    a_grid_without_end,
    a_fault_in_a_grid_without_end,
    a_product_without_end,
    a_barrier_that_some_threads_miss,
}

const SOURCE: &str = r#"
#include <metal_stdlib>
using namespace metal;

kernel void stray(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  if (i == 5) out[1l << 40] = 1;
}

kernel void deep(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float many[100000];
  for (uint j = 0; j < 100000; ++j) many[(j * 7 + i) % 100000] = float(j);
  out[i] = many[uint(out[i]) % 100000];
}

kernel void endless(device atomic_uint *out [[buffer(0)]]) {
  while (atomic_load_explicit(out, memory_order_relaxed) != 1u) {}
}

kernel void split(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  if (i < 3) threadgroup_barrier(mem_flags::mem_none);
  out[i] = 1;
}

kernel void good_everywhere(device float *out [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
  out[i] = 1;
}

kernel void first_only(device float *out [[buffer(0)]], uint3 group [[threadgroup_position_in_grid]]) {
  if (group.x == 0 && group.y == 0) out[1l << 40] = 1;
}

kernel void good(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = float(i); }
"#;

fn device() -> Device {
    static LIMIT: Once = Once::new();
    LIMIT.call_once(|| {
        for (variable, seconds) in [
            ("IRONBRIDGE_SOFT_TIMEOUT", "1"),
            ("IRONBRIDGE_SOFT_DISPATCH_TIMEOUT", "3"),
        ] {
            // SAFETY: the tests of this process run one after another, and no device has made a thread yet.
            unsafe { std::env::set_var(variable, seconds) };
        }
    });
    Device::open("cpu").expect("the software device is everywhere")
}

/// What a kernel of SOURCE gives with 64 threads.
fn run(device: &Device, kernel: &str) -> Result<Vec<f32>, Error> {
    run_grid(device, kernel, Grid::Threads([64, 1, 1]))
}

fn run_grid(device: &Device, kernel: &str, grid: Grid) -> Result<Vec<f32>, Error> {
    let kernel = Library::from_source(device, SOURCE)?.kernel(kernel)?;
    let out = device.buffer::<f32>(64)?;
    let mut commands = device.commands()?;
    let dispatch = Dispatch {
        arguments: &[Argument::read_write(0, &out)],
        grid,
        threadgroup: [32, 1, 1],
    };
    // SAFETY: the kernels write to `out`, but for the one whose access goes to where no memory is.
    unsafe { commands.dispatch(&kernel, &dispatch)? };
    commands.commit()?.wait()?;
    out.to_vec()
}

fn fails(kernel: &str, status: Status, text: &str) {
    let device = device();
    is(run(&device, kernel), &device, status, text);
}

/// The error is that one, and the device goes on.
fn is(result: Result<Vec<f32>, Error>, device: &Device, status: Status, text: &str) {
    let error = result.expect_err(text);
    assert_eq!(error.status(), Some(status), "{error}");
    assert!(error.to_string().contains(text), "{error}");
    let good = run(device, "good").expect("the device goes on");
    assert!(good.into_iter().eq((0..64).map(|i| i as f32)));
}

/// More threadgroups than a processor gets done in a lifetime.
const ENDLESS: Grid = Grid::Threadgroups([1 << 26, 1 << 31, 1]);

fn memory_that_is_not_there() {
    fails("stray", Status::DevicePageFault, "thread [5, 0, 0]");
}

fn a_stack_that_is_too_small() {
    fails("deep", Status::DeviceInvalid, "256 KiB");
}

fn a_kernel_without_end() {
    fails("endless", Status::DeviceTimeout, "IRONBRIDGE_SOFT_TIMEOUT");
}

fn a_grid_without_end() {
    let device = device();
    let start = Instant::now();
    let result = run_grid(&device, "good_everywhere", ENDLESS);
    let limit = "took more than 3s (IRONBRIDGE_SOFT_DISPATCH_TIMEOUT)";
    is(result, &device, Status::DeviceTimeout, limit);
    assert!(start.elapsed() < Duration::from_secs(60));
}

/// The threadgroups that are left are not run to their ends first.
fn a_fault_in_a_grid_without_end() {
    let device = device();
    let result = run_grid(&device, "first_only", ENDLESS);
    is(result, &device, Status::DevicePageFault, "first_only");
}

/// A matrix whose rows overlap makes a product of 2^48 multiply-adds out of little memory.
fn a_product_without_end() {
    let device = device();
    let (m, k) = (1 << 22, 1 << 26);
    let endless = || -> Result<Vec<f32>, Error> {
        let a = device.buffer::<f32>(m + k)?;
        let c = device.buffer::<f32>(m)?;
        let mut commands = device.commands()?;
        commands.matmul(&Matmul::new(
            a.tensor().row_stride(1).matrix(m, k),
            a.matrix(k, 1),
            c.matrix(m, 1),
        ))?;
        commands.commit()?.wait()?;
        c.to_vec()
    };
    let start = Instant::now();
    let limit = "took more than 3s (IRONBRIDGE_SOFT_DISPATCH_TIMEOUT)";
    is(endless(), &device, Status::DeviceTimeout, limit);
    assert!(start.elapsed() < Duration::from_secs(120));
}

fn a_barrier_that_some_threads_miss() {
    fails("split", Status::DeviceInvalid, "divergent");
}
