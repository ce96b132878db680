//! Barriers, SIMD-group functions, matrices and atomics.

use half::{bf16, f16};

use super::program::{Element, Program};

/// One threadgroup of 64 threads; `expression` is in `i` (index in the threadgroup), `lane`, and `x` (i squared).
fn lanes(expression: &str) -> Vec<i32> {
    let body = format!(
        "kernel void f(device int *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {{\n\
           int x = int(i * i); out[i] = int({expression}); }}"
    );
    Program::new("f", &body)
        .groups([1, 1, 1], [64, 1, 1])
        .run::<i32>(64)
}

/// The same in Rust: `value` of (lane, squares of the SIMD-group).
fn expected(value: impl Fn(usize, &[i64]) -> i64) -> Vec<i32> {
    (0..64usize)
        .map(|i| {
            let squares: Vec<i64> = (0..32)
                .map(|lane| ((i / 32 * 32 + lane) as i64).pow(2))
                .collect();
            value(i % 32, &squares) as i32
        })
        .collect()
}

#[test]
fn reductions() {
    assert_eq!(lanes("simd_sum(x)"), expected(|_, x| x.iter().sum()));
    assert_eq!(lanes("simd_max(x)"), expected(|_, x| x[31]));
    assert_eq!(lanes("simd_min(x)"), expected(|_, x| x[0]));
    assert_eq!(
        lanes("simd_and(x | 1)"),
        expected(|_, x| x.iter().fold(-1, |all, v| all & (v | 1)))
    );
    assert_eq!(
        lanes("simd_or(x)"),
        expected(|_, x| x.iter().fold(0, |all, v| all | v))
    );
    assert_eq!(
        lanes("simd_xor(x)"),
        expected(|_, x| x.iter().fold(0, |all, v| all ^ v))
    );
    assert_eq!(lanes("simd_product(lane < 3 ? 3 : 1)"), expected(|_, _| 27));
    assert_eq!(lanes("simd_sum(half2(x % 7, 1)).y"), expected(|_, _| 32));
    assert_eq!(
        lanes("quad_sum(x)"),
        expected(|lane, x| x[lane / 4 * 4..lane / 4 * 4 + 4].iter().sum())
    );
    assert_eq!(lanes("quad_max(-x)"), expected(|lane, x| -x[lane / 4 * 4]));
}

#[test]
fn prefixes() {
    assert_eq!(
        lanes("simd_prefix_inclusive_sum(x)"),
        expected(|lane, x| x[..=lane].iter().sum())
    );
    assert_eq!(
        lanes("simd_prefix_exclusive_sum(x)"),
        expected(|lane, x| x[..lane].iter().sum())
    );
    assert_eq!(
        lanes("simd_prefix_exclusive_product(lane < 5 ? 2 : 1)"),
        expected(|lane, _| 1 << lane.min(5))
    );
    assert_eq!(
        lanes("simd_prefix_inclusive_product(lane < 5 ? 2 : 1)"),
        expected(|lane, _| 1 << (lane + 1).min(5))
    );
}

#[test]
fn shuffles() {
    assert_eq!(
        lanes("simd_shuffle(x, 31 - lane)"),
        expected(|lane, x| x[31 - lane])
    );
    assert_eq!(lanes("simd_broadcast(x, 5)"), expected(|_, x| x[5]));
    assert_eq!(lanes("simd_broadcast_first(x)"), expected(|_, x| x[0]));
    assert_eq!(
        lanes("simd_shuffle_xor(x, 3)"),
        expected(|lane, x| x[lane ^ 3])
    );
    assert_eq!(
        lanes("simd_shuffle_down(x, 3)"),
        expected(|lane, x| x[if lane + 3 < 32 { lane + 3 } else { lane }])
    );
    assert_eq!(
        lanes("simd_shuffle_up(x, 3)"),
        expected(|lane, x| x[if lane >= 3 { lane - 3 } else { lane }])
    );
    assert_eq!(
        lanes("simd_shuffle_rotate_down(x, 3)"),
        expected(|lane, x| x[(lane + 3) % 32])
    );
    assert_eq!(
        lanes("simd_shuffle_rotate_up(x, 3)"),
        expected(|lane, x| x[(lane + 29) % 32])
    );
    assert_eq!(
        lanes("simd_shuffle_and_fill_down(x, -x, 3)"),
        expected(|lane, x| if lane + 3 < 32 {
            x[lane + 3]
        } else {
            -x[lane + 3 - 32]
        })
    );
    assert_eq!(
        lanes("simd_shuffle_and_fill_up(x, -x, 3)"),
        expected(|lane, x| if lane >= 3 {
            x[lane - 3]
        } else {
            -x[lane + 32 - 3]
        })
    );
    assert_eq!(
        lanes("quad_broadcast(x, 2)"),
        expected(|lane, x| x[lane / 4 * 4 + 2])
    );
    assert_eq!(
        lanes("quad_shuffle_xor(x, 1)"),
        expected(|lane, x| x[lane ^ 1])
    );
    assert_eq!(
        lanes("simd_shuffle(float4(x), lane).w"),
        expected(|lane, x| x[lane])
    );
}

#[test]
fn votes() {
    assert_eq!(
        lanes("ulong(simd_vote::vote_t(simd_ballot(lane % 3 == 0)))"),
        expected(|_, _| 0x4924_9249)
    );
    assert_eq!(
        lanes("simd_all(lane < 32) * 2 + simd_all(lane < 31)"),
        expected(|_, _| 2)
    );
    assert_eq!(
        lanes("simd_any(lane == 31) * 2 + simd_any(lane > 31)"),
        expected(|_, _| 2)
    );
    assert_eq!(
        lanes("simd_is_first()"),
        expected(|lane, _| (lane == 0).into())
    );
    assert_eq!(
        lanes("quad_any(lane == 5)"),
        expected(|lane, _| (lane / 4 == 1).into())
    );
    assert_eq!(
        lanes("quad_all(lane != 5)"),
        expected(|lane, _| (lane / 4 != 1).into())
    );
    assert_eq!(
        lanes("popcount(ulong(simd_vote::vote_t(simd_active_threads_mask())))"),
        expected(|_, _| 32)
    );
}

#[test]
fn threads_that_returned_take_no_part() {
    let body = "kernel void f(device int *out [[buffer(0)]], uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {\n\
                  if (i >= 40) { out[i] = -1; return; } out[i] = simd_sum(1) * 100 + simd_max(int(lane)); }";
    let expected: Vec<i32> = (0..64)
        .map(|i| {
            if i < 32 {
                3231
            } else if i < 40 {
                807
            } else {
                -1
            }
        })
        .collect();
    assert_eq!(
        Program::new("f", body)
            .groups([1, 1, 1], [64, 1, 1])
            .run::<i32>(64),
        expected
    );
}

#[test]
fn a_partial_simdgroup_has_fewer_threads() {
    let body = "kernel void f(device int *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = simd_sum(1); }";
    let expected: Vec<i32> = (0..70)
        .map(|i| match i {
            0..32 => 32,
            32..40 => 8,
            _ => 30,
        })
        .collect();
    assert_eq!(
        Program::new("f", body)
            .threads([70, 1, 1], [40, 1, 1])
            .run::<i32>(70),
        expected
    );
}

#[test]
fn a_reduction_over_a_whole_threadgroup_in_many_groups() {
    let body = "kernel void f(device float *out [[buffer(0)]], device const float *in [[buffer(1)]], constant uint &n [[buffer(2)]],\n\
                  uint t [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],\n\
                  uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]], uint row [[threadgroup_position_in_grid]]) {\n\
                  threadgroup float part[32]; float s = 0; for (uint i = t; i < n; i += threads) s += in[row * n + i];\n\
                  s = simd_sum(s); if (lane == 0) part[simd] = s; threadgroup_barrier(mem_flags::mem_threadgroup);\n\
                  if (simd == 0) { float v = lane < simds ? part[lane] : 0; v = simd_sum(v); if (lane == 0) out[row] = v; } }";
    let (rows, n) = (37usize, 1000u32);
    let input: Vec<f32> = (0..rows * n as usize).map(|i| (i % 17) as f32).collect();
    let sums: Vec<f32> = input
        .chunks(n as usize)
        .map(|row| row.iter().sum())
        .collect();
    let out = Program::new("f", body)
        .input(1, &input)
        .input(2, &[n])
        .groups([rows as u32, 1, 1], [256, 1, 1])
        .run::<f32>(rows);
    assert_eq!(out, sums);
}

#[test]
fn barriers_in_loops_with_1024_threads() {
    let body = "kernel void f(device uint *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n\
                  const uint n = 1024; threadgroup uint a[2][n]; a[0][i] = i;\n\
                  for (uint step = 0; step < 20; step++) { threadgroup_barrier(mem_flags::mem_threadgroup);\n\
                    a[(step + 1) % 2][i] = a[step % 2][(i + 1) % n] + 1; }\n\
                  threadgroup_barrier(mem_flags::mem_none); out[i] = a[0][i]; }";
    let expected: Vec<u32> = (0..1024).map(|i| (i + 20) % 1024 + 20).collect();
    assert_eq!(
        Program::new("f", body)
            .groups([1, 1, 1], [32, 8, 4])
            .run::<u32>(1024),
        expected
    );
}

/// c = a b + c for 8x8 matrices of type T, b transposed in memory, accumulated in float.
fn multiply<T: Element>(ty: &str, from: impl Fn(f32) -> T) {
    let body = format!(
        "kernel void f(device float *out [[buffer(0)]], device const {ty} *a [[buffer(1)]], device const {ty} *b [[buffer(2)]]) {{\n\
           threadgroup {ty} t[64 * 2];\n\
           simdgroup_matrix<{ty}, 8, 8> x, y; simdgroup_float8x8 c = make_filled_simdgroup_matrix<float, 8>(0.5f);\n\
           simdgroup_load(x, a, 12, ulong2(2, 1)); simdgroup_load(y, b, 8, 0, true);\n\
           simdgroup_store(x, t, 16); simdgroup_barrier(mem_flags::mem_threadgroup); simdgroup_load(x, t, 16);\n\
           simdgroup_multiply_accumulate(c, x, y, c); simdgroup_store(c, out, 8);\n\
           simdgroup_{ty}8x8 d(2), e; simdgroup_multiply(e, d, x); simdgroup_store(e, t, 8); simdgroup_barrier(mem_flags::mem_threadgroup);\n\
           out[64] = t[9]; out[65] = (x * d).thread_elements().x == e.thread_elements()[0]; }}"
    );
    let a: Vec<f32> = (0..12 * 10).map(|i| (i % 11) as f32 - 5.0).collect();
    let b: Vec<f32> = (0..64).map(|i| (i % 7) as f32 * 0.5).collect();
    let convert = |values: &[f32]| values.iter().map(|value| from(*value)).collect::<Vec<T>>();
    let out = Program::new("f", &body)
        .input(1, &convert(&a))
        .input(2, &convert(&b))
        .run::<f32>(66);
    for row in 0..8 {
        for column in 0..8 {
            let product: f32 = (0..8)
                .map(|k| a[(row + 1) * 12 + k + 2] * b[column * 8 + k])
                .sum();
            assert_eq!(out[row * 8 + column], product + 0.5, "{ty} {row} {column}");
        }
    }
    assert_eq!(out[64..], [2.0 * a[2 * 12 + 3], 1.0]);
}

#[test]
fn simdgroup_matrices() {
    multiply("float", |value| value);
    multiply("half", f16::from_f32);
    multiply("bfloat", bf16::from_f32);
}

#[test]
fn atomics_count_across_threadgroups() {
    let body = "kernel void f(device atomic_uint *out [[buffer(0)]], device atomic_int *low [[buffer(1)]], device atomic_float *sum [[buffer(2)]],\n\
                  uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {\n\
                  threadgroup atomic_int local; if (t == 0) atomic_store_explicit(&local, 0, memory_order_relaxed);\n\
                  threadgroup_barrier(mem_flags::mem_threadgroup); atomic_fetch_add_explicit(&local, 1, memory_order_relaxed);\n\
                  threadgroup_barrier(mem_flags::mem_threadgroup);\n\
                  if (t == 0) atomic_fetch_add_explicit(&out[0], atomic_load_explicit(&local, memory_order_relaxed), memory_order_relaxed);\n\
                  atomic_fetch_max_explicit(&out[1], i, memory_order_relaxed); atomic_fetch_min_explicit(low, -int(i), memory_order_relaxed);\n\
                  atomic_fetch_or_explicit(&out[2], 1u << (i % 32), memory_order_relaxed); atomic_fetch_xor_explicit(&out[3], i, memory_order_relaxed);\n\
                  atomic_fetch_sub_explicit(&out[4], 1u, memory_order_relaxed); atomic_fetch_and_explicit(&out[5], i | 3u, memory_order_relaxed);\n\
                  atomic_fetch_add_explicit(sum, 0.5f, memory_order_relaxed);\n\
                  uint seen = atomic_load_explicit(&out[6], memory_order_relaxed);\n\
                  while (!atomic_compare_exchange_weak_explicit(&out[6], &seen, seen + 2, memory_order_relaxed, memory_order_relaxed)) {}\n\
                  if (i == 0) { atomic_exchange_explicit(&out[7], 5u, memory_order_relaxed); } }";
    let program = Program::new("f", body)
        .input(1, &[0i32])
        .input(2, &[0.0f32])
        .groups([50, 1, 1], [128, 1, 1]);
    let out = program.run::<u32>(8);
    let n = 50 * 128u32;
    let xor = (0..n).fold(0, |all, i| all ^ i);
    // The output starts as all ones.
    let start = u32::MAX;
    let expected = [
        start.wrapping_add(n),
        start,
        start,
        start ^ xor,
        start - n,
        3,
        start.wrapping_add(2 * n),
        5,
    ];
    assert_eq!(out, expected);
}
