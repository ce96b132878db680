//! What kernels ask memory for, in numbers that can be told from their sources.

use super::program::Program;
use crate::backend::cpu::msl::counter::Work;

const BYTES: u64 = 4 * 256;

/// The lines that 256 floats may lie in: one more when they do not begin at a line.
fn is_each_line_once(bytes: u64) -> bool {
    (BYTES..=BYTES + 64).contains(&bytes)
}

#[test]
fn a_copy_reads_and_writes_each_byte_once() {
    let body =
        "kernel void f(device float *to [[buffer(0)]], const device float *from [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) { to[i] = from[i]; }";
    let program = Program::new("f", body).input(1, &[1f32; 256]);
    let work = program.threads([256, 1, 1], [64, 1, 1]).count::<f32>(256);
    assert!(is_each_line_once(work.read) && is_each_line_once(work.written));
    let expected = Work {
        threadgroups: 4,
        threads: 256,
        loaded: BYTES,
        stored: BYTES,
        read: work.read,
        written: work.written,
        ..Work::default()
    };
    assert_eq!(work, expected);
}

#[test]
fn what_is_stored_where_it_was_loaded_counts_as_both() {
    let body = "kernel void f(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] += 1; }";
    let program = Program::new("f", body).threads([256, 1, 1], [32, 1, 1]);
    let work = program.count::<f32>(256);
    assert_eq!((work.loaded, work.stored), (BYTES, BYTES));
    assert_eq!(work.read, work.written);
}

#[test]
fn all_threads_that_load_a_byte_count_and_its_line_is_read_once() {
    let body =
        "kernel void f(device float *to [[buffer(0)]], const device float4 *from [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) { to[i] = from[0].w; }";
    let program = Program::new("f", body).input(1, &[1f32; 4]);
    let work = program.threads([256, 1, 1], [64, 1, 1]).count::<f32>(256);
    assert!(
        work.loaded == 256 * 4 || work.loaded == 256 * 16,
        "{work:?}"
    );
    assert_eq!(work.read, 64);
}

#[test]
fn a_vector_is_loaded_as_a_whole() {
    let body =
        "kernel void f(device float4 *to [[buffer(0)]], const device float4 *from [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) { to[i] = 2 * from[i]; }";
    let program = Program::new("f", body).input(1, &[1f32; 256]);
    let work = program.threads([64, 1, 1], [64, 1, 1]).count::<f32>(256);
    assert_eq!((work.loaded, work.stored), (BYTES, BYTES));
}

/// Each of 64 threads stores a float and loads its neighbor's, between two barriers, in 3 threadgroups.
#[test]
fn threadgroup_memory_and_barriers_are_counted_apart() {
    let body =
        "kernel void f(device float *to [[buffer(0)]], uint i [[thread_position_in_threadgroup]],
                  uint g [[threadgroup_position_in_grid]]) {
                  threadgroup float shared[64];
                  shared[i] = i;
                  threadgroup_barrier(mem_flags::mem_threadgroup);
                  float other = shared[(i + 1) % 64];
                  threadgroup_barrier(mem_flags::mem_threadgroup);
                  to[64 * g + i] = other; }";
    let program = Program::new("f", body).groups([3, 1, 1], [64, 1, 1]);
    let work = program.count::<f32>(192);
    assert_eq!(
        (work.threadgroup_loaded, work.threadgroup_stored),
        (768, 768)
    );
    assert_eq!((work.loaded, work.stored), (0, 768));
    assert_eq!((work.barriers, work.threadgroups), (6, 3));
}

/// The struct is at an index that [`Program::count`] does not take for device memory, as `setBytes` binds it.
#[test]
fn arguments_are_no_device_memory() {
    let body = "struct Args { uint count; float factor; };
                kernel void f(device float *to [[buffer(0)]], constant Args &args [[buffer(16)]],
                  uint i [[thread_position_in_grid]]) { if (i < args.count) to[i] = args.factor; }";
    let program = Program::new("f", body).input(16, &[100u32, 0x3f80_0000]);
    let work = program.threads([256, 1, 1], [64, 1, 1]).count::<f32>(256);
    assert_eq!((work.loaded, work.read, work.stored), (0, 0, 400));
}

/// What a thread keeps in an array of its own is no traffic.
#[test]
fn private_memory_is_not_counted() {
    let body = "kernel void f(device float *to [[buffer(0)]], uint i [[thread_position_in_grid]]) {
                  float own[64];
                  for (uint j = 0; j < 64; j++) own[j * 7 % 64] = i + j;
                  to[i] = own[i % 64]; }";
    let work = Program::new("f", body).threads([256, 1, 1], [64, 1, 1]);
    let work = work.count::<f32>(256);
    assert_eq!((work.loaded, work.stored), (0, BYTES));
    assert_eq!((work.threadgroup_loaded, work.threadgroup_stored), (0, 0));
}
