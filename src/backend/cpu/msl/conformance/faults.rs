//! Kernels with planted mistakes: each is found, and the next kernel runs as if nothing had happened.

use std::time::Duration;

use super::program::Program;
use crate::backend::cpu::msl::dispatch::Failure;
use crate::backend::cpu::msl::lane_order::LaneOrder;

fn text(failure: Failure) -> String {
    match failure {
        Failure::Invalid(text)
        | Failure::PageFault(text)
        | Failure::OutOfMemory(text)
        | Failure::StackOverflow(text)
        | Failure::Timeout(text) => text,
    }
}

const MISSING_BARRIER: &str = "kernel void f(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {\n\
      threadgroup float s[64]; s[i] = i; out[i] = s[n - 1 - i]; }";

#[test]
fn a_missing_barrier_shows_as_poison_and_as_a_difference_between_orders() {
    let program = Program::new("f", MISSING_BARRIER).groups([1, 1, 1], [64, 1, 1]);
    let forward = program
        .try_run::<f32>(64, LaneOrder::Forward, false)
        .expect("it runs");
    let reverse = program
        .try_run::<f32>(64, LaneOrder::Reverse, false)
        .expect("it runs");
    assert!(
        forward[..32].iter().all(|value| value.is_nan()),
        "{forward:?}"
    );
    assert!(
        reverse[32..].iter().all(|value| value.is_nan()),
        "{reverse:?}"
    );
    let random = program
        .try_run::<f32>(64, LaneOrder::Random(3), false)
        .expect("it runs");
    assert!(random.iter().any(|value| value.is_nan()));
}

#[test]
fn threadgroup_memory_is_poisoned_for_each_threadgroup() {
    let body = "kernel void f(device float *out [[buffer(0)]], threadgroup half *d [[threadgroup(1)]], uint g [[threadgroup_position_in_grid]]) {\n\
                  threadgroup float a[8]; threadgroup bfloat b[8];\n\
                  out[g] = isnan(a[3]) && isnan(float(b[7])) && isnan(float(d[0])); a[3] = 1; b[7] = 1; d[0] = 1; }";
    assert_eq!(
        Program::new("f", body)
            .memory(1, 16)
            .groups([20, 1, 1], [1, 1, 1])
            .only_here("a GPU's threadgroup memory starts as anything")
            .run::<f32>(20),
        [1.0; 20]
    );
}

#[test]
fn a_divergent_simd_sum_is_an_error_with_both_lines() {
    let body = "kernel void f(device float *out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {\n\
                  float v = 1;\n  if (lane < 10) {\n    v = simd_sum(v);\n  } else {\n    v = 100 + simd_sum(v);\n  }\n  out[lane] = v; }";
    for order in super::program::ORDERS {
        let failure = Program::new("f", body).fail(order, false);
        assert!(matches!(failure, Failure::Invalid(_)), "{failure:?}");
        let text = text(failure);
        assert!(
            text.contains("kernel `f`: divergent SIMD-group operation"),
            "{text}"
        );
        assert!(text.contains("line 6") && text.contains("line 8"), "{text}");
    }
}

#[test]
fn a_simd_sum_that_some_lanes_skip_for_a_barrier_is_an_error() {
    let body = "kernel void f(device float *out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {\n\
                  if (lane != 3)\n    out[lane] = simd_sum(1.0f);\n  threadgroup_barrier(mem_flags::mem_none); }";
    let text = text(Program::new("f", body).fail(LaneOrder::Forward, false));
    assert!(
        text.contains("divergent control flow")
            && text.contains("line 5")
            && text.contains("thread 3"),
        "{text}"
    );
}

#[test]
fn a_barrier_that_some_threads_miss_is_an_error() {
    let body = "kernel void f(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n\
                  if (i < 5)\n    threadgroup_barrier(mem_flags::mem_threadgroup);\n  out[i] = 1; }";
    for order in super::program::ORDERS {
        let text = text(Program::new("f", body).fail(order, false));
        assert!(
            text.contains("divergent threadgroup_barrier at line 5: 27 of 32 threads returned"),
            "{text}"
        );
    }
}

#[test]
fn two_different_barriers_are_an_error() {
    let body = "kernel void f(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n\
                  if (i < 5) threadgroup_barrier(mem_flags::mem_threadgroup);\n  else threadgroup_barrier(mem_flags::mem_threadgroup);\n  out[i] = 1; }";
    let text = text(Program::new("f", body).fail(LaneOrder::Forward, false));
    assert!(
        text.contains("divergent threadgroup_barrier: thread 5 is at the one at line 5"),
        "{text}"
    );
}

#[test]
fn an_index_outside_a_threads_own_array_is_a_page_fault() {
    let body = "struct s { float a[4]; int n; };\n\
                kernel void f(device float *o [[buffer(0)]], device const int *n [[buffer(1)]]) {\n\
                  float t[4] = {1, 2, 3, 4}; s v = {{1, 2, 3, 4}, 5}; array<float, 2> w = {1, 2};\n\
                  threadgroup float g[2][3]; threadgroup float *p = g[0]; threadgroup float k[3];\n\
                  for (int i = n[0]; i < 4; i++) t[i] = 7;\n\
                  o[0] = t[n[1]] + v.a[n[2]];\n\
                  p[n[3]] = 1; o[1] = g[0][n[4]] + k[n[4]] + w[uchar(n[5])] + *(&t[0] + n[1]); }";
    let run = |values: [i32; 6], validate| {
        let program = Program::new("f", body)
            .input(1, &values)
            .groups([1, 1, 1], [1, 1, 1]);
        program.try_run::<f32>(2, LaneOrder::Forward, validate)
    };
    run([0, 3, 3, 2, 2, 1], true).expect("what is inside");
    // A pointer into an array may go where memory is.
    run([4, 3, 0, 5, 2, 0], true).expect("a pointer");
    for (values, line, place) in [
        ([-40, 0, 0, 0, 0, 0], 7, "index -40 of a float[4]"),
        ([4, 4, 0, 0, 0, 0], 8, "index 4 of a float[4]"),
        ([4, 0, -1, 0, 0, 0], 8, "index -1 of a float[4]"),
        ([4, 0, 0, 0, 3, 0], 9, "index 3 of a float[3]"),
    ] {
        let Err(failure) = run(values, true) else {
            panic!("it ran: {values:?}");
        };
        assert!(matches!(failure, Failure::PageFault(_)), "{failure:?}");
        let text = text(failure);
        let want = format!("kernel `f`: line {line}: {place} by thread [0, 0, 0]");
        assert!(text.contains(&want), "{text}");
    }
    let Err(failure) = run([4, 0, 0, 0, 0, 200], true) else {
        panic!("it ran");
    };
    let text = text(failure);
    assert!(text.contains("index 200 of a float[2]"), "{text}");
}

#[test]
fn an_access_outside_a_buffer_is_a_page_fault() {
    let body = "struct block { half scale; char quants[32]; };\n\
                kernel void read(device float *out [[buffer(0)]], device const float *in [[buffer(5)]], uint i [[thread_position_in_grid]]) { out[i] = in[i + 1]; }\n\
                kernel void below(device float *out [[buffer(0)]], device const float *in [[buffer(5)]], uint i [[thread_position_in_grid]]) { out[i] = in[int(i) - 1]; }\n\
                kernel void write(device float *out [[buffer(0)]], device float *in [[buffer(5)]], uint i [[thread_position_in_grid]]) { out[i + 33] = in[i]; }\n\
                kernel void whole(device float *out [[buffer(0)]], device block *in [[buffer(5)]], uint i [[thread_position_in_grid]]) { block b = in[i]; in[0] = b; out[i] = b.quants[i]; }\n\
                kernel void vector(device float *out [[buffer(0)]], device const float4 *in [[buffer(5)]], uint i [[thread_position_in_grid]]) { out[i] = in[i / 4 + 1].w; }\n\
                kernel void count(device float *out [[buffer(0)]], device atomic_uint *in [[buffer(5)]], uint i [[thread_position_in_grid]]) {\n\
                  out[i] = atomic_fetch_add_explicit(&in[i + 1], 1u, memory_order_relaxed); }\n\
                kernel void load(device float *out [[buffer(0)]], device const float *in [[buffer(5)]]) {\n\
                  simdgroup_float8x8 m; simdgroup_load(m, in, 8); simdgroup_store(m, out); }";
    let cases = [
        (
            "read",
            "a read of 4 bytes by thread [31, 0, 0] at byte 128 of the 128 bytes of buffer index 5",
        ),
        (
            "below",
            "a read of 4 bytes by thread [0, 0, 0] at byte -4 of the 128 bytes of buffer index 5",
        ),
        (
            "write",
            "a write of 4 bytes by thread [31, 0, 0] at byte 256 of the 256 bytes of buffer index 0",
        ),
        ("whole", "of the 128 bytes of buffer index 5"),
        ("vector", "at byte 140 of the 128 bytes of buffer index 5"),
        (
            "count",
            "by thread [31, 0, 0] at byte 128 of the 128 bytes of buffer index 5",
        ),
        ("load", "of the 128 bytes of buffer index 5"),
    ];
    for (kernel, expected) in cases {
        let failure = Program::new(kernel, body)
            .input(5, &[0.0f32; 32])
            .fail(LaneOrder::Forward, true);
        assert!(matches!(failure, Failure::PageFault(_)), "{failure:?}");
        let text = text(failure);
        assert!(
            text.starts_with(&format!("kernel `{kernel}`: ")) && text.contains(expected),
            "{text}"
        );
    }
}

#[test]
fn a_null_pointer_is_a_page_fault_that_is_named() {
    let body = "kernel void f(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n\
                  const device float *none = nullptr; out[i] = none[i + 3]; }";
    for validate in [false, true] {
        let failure = Program::new("f", body).fail(LaneOrder::Forward, validate);
        assert!(matches!(failure, Failure::PageFault(_)), "{failure:?}");
        let text = text(failure);
        assert!(
            text.contains("thread [0, 0, 0] at byte 12 from a null pointer"),
            "{text}"
        );
    }
}

/// What is loaded through it is dropped, and so is the load, unless accesses are checked.
#[test]
fn a_null_pointer_whose_values_go_nowhere() {
    let body = "#define UNROLL _Pragma(\"clang loop unroll(full)\")\n\
     void swap(thread uint &a, thread uint &b) { uint kept = a; a = b; b = kept; }\n\
     void order(thread uint (&v)[4], thread uint (&p)[4]) {\n\
       UNROLL for (short i = 0; i < 4; i++) UNROLL for (short j = i & 1; j < 3; j += 2)\n\
         if (v[j + 1] < v[j]) { swap(v[j + 1], v[j]); swap(p[j + 1], p[j]); } }\n\
     template <bool PLACES> void merge(const threadgroup uint *values, const threadgroup uint *places,\n\
                                       thread uint (&v)[4], thread uint (&p)[4]) {\n\
       int low = 0, high = 4;\n\
       while (low < high) { int m = (low + high) / 2; if (values[m] > 8) high = m; else low = m + 1; }\n\
       const threadgroup uint *from = PLACES ? places + low : nullptr;\n\
       int a = 0;\n\
       for (int i = 0; i < 4; i++) { v[i] = values[a] + low; p[i] = from[a]; a += values[i] > 3; } }\n\
     kernel void f(device float *o [[buffer(0)]], device uint *n [[buffer(1)]]) {\n\
       threadgroup uint shared[4]; uint v[4], p[4];\n\
       for (int i = 0; i < 4; i++) v[i] = i * 3 % 4 + n[0];\n\
       order(v, p); for (int i = 0; i < 4; i++) shared[i] = v[i];\n\
       merge<false>(shared, nullptr, v, p); order(v, p);\n\
       UNROLL for (int i = 0; i < 4; i++) o[i] = v[i]; }";
    let run = |validate| {
        let program = Program::new("f", body).input(1, &[7u32]);
        let program = program.groups([1, 1, 1], [1, 1, 1]);
        program.try_run::<f32>(4, LaneOrder::Forward, validate)
    };
    assert_eq!(run(false).expect("it runs"), [9.0, 10.0, 11.0, 12.0]);
    let failure = run(true).expect_err("it loads from nowhere");
    assert!(matches!(failure, Failure::PageFault(_)), "{failure:?}");
}

#[test]
fn an_access_outside_threadgroup_memory_is_a_page_fault() {
    let body = "kernel void f(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { threadgroup float s[32]; threadgroup float *p = s; p[i + 1] = 1; out[i] = s[i]; }";
    let text = text(Program::new("f", body).fail(LaneOrder::Forward, true));
    assert!(
        text.contains("at byte 128 of the 128 bytes of the kernel's threadgroup memory"),
        "{text}"
    );
}

#[test]
fn an_unchecked_access_to_memory_that_is_not_there_is_a_page_fault_as_well() {
    let body = "kernel void f(device float *out [[buffer(0)]], device const float *in [[buffer(5)]], uint i [[thread_position_in_grid]]) {\n\
                  if (i == 7) out[i] = in[-(1l << 38)]; else out[i] = simd_sum(1.0f); }\n\
                kernel void g(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n\
                  out[i] = simd_sum(1.0f); }";
    for order in super::program::ORDERS {
        let program = Program::new("f", body).input(5, &[0.0f32; 32]);
        let failure = program.fail(order, false);
        assert!(matches!(failure, Failure::PageFault(_)), "{failure:?}");
        let text = text(failure);
        let expected =
            "kernel `f`: an access to memory that is not there by thread [7, 0, 0] at byte -1";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(Program::new("g", body).run::<f32>(32), [32.0; 32]);
    }
}

#[test]
fn a_stack_that_is_too_small_is_an_error() {
    let body = "kernel void f(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n\
                  float many[70000]; for (uint j = 0; j < 70000; j++) many[(j * 7 + i) % 70000] = j;\n\
                  out[i] = many[uint(out[i + 1]) % 70000]; }";
    for validate in [false, true] {
        let failure = Program::new("f", body).fail(LaneOrder::Forward, validate);
        assert!(matches!(failure, Failure::StackOverflow(_)), "{failure:?}");
        let text = text(failure);
        assert!(
            text.contains("kernel `f`: thread [0, 0, 0] needs more than 256 KiB"),
            "{text}"
        );
    }
}

#[test]
fn a_division_of_an_integer_by_zero_does_not_end_the_process() {
    let body = "kernel void f(device float *out [[buffer(0)]], device const int *in [[buffer(5)]], uint i [[thread_position_in_grid]]) {\n\
                  out[i] = in[i] / in[i + 1]; }";
    let program = Program::new("f", body).input(5, &[0i32; 64]);
    let result = program.try_run::<f32>(64, LaneOrder::Forward, false);
    // An aarch64 processor gives 0, as a GPU gives something.
    assert_eq!(result.is_ok(), cfg!(target_arch = "aarch64"), "{result:?}");
    if let Err(failure) = result {
        let text = text(failure);
        assert!(text.contains("thread [0, 0, 0] divided"), "{text}");
    }
}

#[test]
fn a_kernel_without_end_is_ended() {
    let body = "kernel void spin(device atomic_uint *flag [[buffer(0)]]) {\n\
                  while (atomic_load_explicit(flag, memory_order_relaxed) != 1u) {} }\n\
                kernel void wait(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n\
                  for (uint j = 0; out[0] != 1; j++) threadgroup_barrier(mem_flags::mem_device); }\n\
                kernel void sum(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n\
                  float s = 1; while (s != 0.5f) s = min(simd_sum(s), 1.0f); out[i] = s; }\n\
                kernel void count(device int *out [[buffer(0)]]) { while (true) { out[0] = out[0] + 1; } }\n\
                kernel void nothing(device int *out [[buffer(0)]]) { for (;;) {} }\n\
                kernel void g(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }";
    for kernel in ["spin", "wait", "sum", "count", "nothing"] {
        for validate in [false, true] {
            let program = Program::new(kernel, body).limit(Duration::from_millis(100));
            let failure = program
                .groups([3, 1, 1], [32, 1, 1])
                .fail(LaneOrder::Forward, validate);
            assert!(matches!(failure, Failure::Timeout(_)), "{failure:?}");
            let text = text(failure);
            let expected = format!("kernel `{kernel}`: a threadgroup took more than 100ms");
            assert!(text.starts_with(&expected), "{text}");
        }
        assert_eq!(Program::new("g", body).run::<f32>(32), [1.0; 32]);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_that_is_never_reached_does_not_run_on_into_the_next() {
    let body = "kernel void f(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { __builtin_unreachable(); }\n\
                kernel void g(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }";
    for validate in [false, true] {
        let program = Program::new("f", body).limit(Duration::from_millis(300));
        let failure = program.fail(LaneOrder::Forward, validate);
        // clang makes an instruction of it that is none, or a loop.
        assert!(
            matches!(failure, Failure::Invalid(_) | Failure::Timeout(_)),
            "{failure:?}"
        );
        assert_eq!(Program::new("g", body).run::<f32>(32), [1.0; 32]);
    }
}

#[test]
fn dispatches_that_do_not_fit_the_kernel() {
    let body = "struct args { uint n; float4 v; };\n\
                [[max_total_threads_per_threadgroup(32)]] kernel void f(device float *out [[buffer(0)]], constant args &a [[buffer(1)]],\n\
                threadgroup float *t [[threadgroup(0)]]) { threadgroup float big[8000]; big[0] = a.n; t[0] = 0; out[0] = big[0] + t[0]; }";
    let program = || Program::new("f", body).input(1, &[0u32; 8]);
    let cases = [
        (
            Program::new("f", body).memory(0, 64),
            "nothing is bound to buffer index 1",
        ),
        (
            Program::new("f", body).memory(0, 64).input(1, &[0u32; 4]),
            "the argument at buffer index 1 takes 32 bytes, and 16 are bound",
        ),
        (
            program().memory(0, 768 + 16),
            "bytes of threadgroup memory, where 32768 are available",
        ),
        (
            program().memory(0, 64).groups([1, 1, 1], [33, 1, 1]),
            "a threadgroup of [33, 1, 1] threads, where 1 to 32 are allowed",
        ),
        (
            program().memory(0, 64).groups([1, 1, 1], [0, 1, 1]),
            "a threadgroup of [0, 1, 1] threads",
        ),
        (
            program().memory(0, 64).groups([1 << 31, 1, 1], [2, 1, 1]),
            "is too large",
        ),
    ];
    for (program, expected) in cases {
        let failure = program.fail(LaneOrder::Forward, false);
        assert!(
            matches!(&failure, Failure::Invalid(text) if text.contains(expected)),
            "{failure:?}, not {expected}"
        );
    }
}

/// As on Apple's GPUs, where a kernel that does not touch it runs.
#[test]
fn threadgroup_memory_without_a_length_is_a_null_pointer() {
    let kernel = |body: &str| {
        format!(
            "kernel void f(device float *out [[buffer(0)]], threadgroup char *t [[threadgroup(0)]],\n\
                           uint i [[thread_position_in_grid]]) {{ {body} }}"
        )
    };
    let untouched = kernel("out[i] = 1;");
    let program = Program::new("f", &untouched).only_here("the facade wants a length");
    assert_eq!(program.run::<f32>(32), [1.0; 32]);
    let touching = kernel("if (i == 3) t[0] = 1; out[i] = 1;");
    for validate in [false, true] {
        let text = text(Program::new("f", &touching).fail(LaneOrder::Forward, validate));
        assert!(
            text.contains("; threadgroup memory index 0 has no length"),
            "{text}"
        );
    }
}

#[test]
fn an_empty_grid_runs_nothing() {
    let body = "kernel void f(device float *out [[buffer(0)]]) { out[0] = 1; }";
    for threads in [false, true] {
        let program = Program::new("f", body);
        let program = if threads {
            program.threads([0, 1, 1], [8, 1, 1])
        } else {
            program.groups([1, 0, 1], [8, 1, 1])
        };
        assert_eq!(program.run::<f32>(1), [f32::MAX]);
    }
}
