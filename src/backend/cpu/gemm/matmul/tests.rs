//! Every type, layout and edge of matmul against a float64 oracle, on every instruction set.

use half::{bf16, f16};
use proptest::prelude::*;

use crate::backend::cpu::msl::lane_order::LaneOrder;
use crate::backend::cpu::quants::*;
use crate::backend::cpu::registry::{Kernel, kernels};
use crate::backend::cpu::testing::*;
use crate::backend::ffi::args::*;
use crate::tables::block_dtypes;

#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    transpose_a: bool,
    transpose_b: bool,
    has_bias: bool,
    /// Elements between the rows of every operand; and between its matrices, of a and c.
    gap: usize,
    /// One b for all batches.
    share_b: bool,
}

const PLAIN: Case = Case {
    m: 1,
    n: 1,
    k: 1,
    batch: 1,
    transpose_a: false,
    transpose_b: false,
    has_bias: false,
    gap: 0,
    share_b: false,
};

/// Rows, row stride and batch stride of an operand of `rows` × `columns` elements as it is stored.
fn layout(rows: usize, columns: usize, transposed: bool, gap: usize) -> (usize, usize, usize) {
    let (rows, width) = if transposed {
        (columns, rows)
    } else {
        (rows, columns)
    };
    (rows, width + gap, rows * (width + gap) + gap)
}

/// The native kernel, on every instruction set.
fn check<B: Sample, T: Output>(name: &'static str, case: Case) {
    check_on::<B, T>(name, case, On::Native);
}

fn check_on<B: Sample, T: Output>(name: &'static str, case: Case, on: On) {
    check_packed::<B, T>(name, case, on, None);
}

/// The native kernel with weights of which all rows but the last, that fill no panel, lie in x16 panels.
fn check_x16<B: Sample + Interleaved, T: Output>(name: &'static str, case: Case) {
    check_packed::<B, T>(name, case, On::Native, Some(in_x16_panels::<B>));
}

/// Puts this many rows, of this many weights each, into x16 panels.
type Pack<B> = fn(&[B], usize, usize) -> Vec<B>;

fn check_packed<B: Sample, T: Output>(
    name: &'static str,
    case: Case,
    on: On,
    pack: Option<Pack<B>>,
) {
    let Case { m, n, k, batch, .. } = case;
    let mut numbers = Numbers::new((m * 1_000_000 + n * 1000 + k) as u64);
    let (_, a_row, a_batch) = layout(m, k, case.transpose_a, case.gap);
    let b_gap = if pack.is_some() { 0 } else { case.gap };
    let b_gap = b_gap.next_multiple_of(B::ELEMENTS);
    let (_, b_row, b_batch) = layout(k, n, case.transpose_b, b_gap);
    let b_batch = if case.share_b { 0 } else { b_batch };
    let (_, c_row, c_batch) = layout(m, n, false, case.gap);
    let a: Vec<T> = numbers.vec(a_batch * batch);
    let b: Vec<B> = numbers.vec(if case.share_b {
        b_row * k.max(n)
    } else {
        b_batch * batch
    });
    let bias: Vec<T> = numbers.vec(n);
    let args = matmul_args {
        a_row_stride: a_row as u64,
        a_batch_stride: a_batch as u64,
        b_row_stride: b_row as u64,
        b_batch_stride: b_batch as u64,
        c_row_stride: c_row as u64,
        c_batch_stride: c_batch as u64,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        batch: batch as u32,
        transpose_a: case.transpose_a.into(),
        transpose_b: case.transpose_b.into(),
        has_bias: case.has_bias.into(),
        written: 0,
    };

    // Decoded once, as rows of k values: a product reads each of them many times.
    let a_values: Vec<f64> = (0..batch * m * k)
        .map(|index| {
            let (z, i, x) = (index / (m * k), index / k % m, index % k);
            let (row, column) = if case.transpose_a { (x, i) } else { (i, x) };
            T::value(&a, z * a_batch + row * a_row + column)
        })
        .collect();
    let matrices_of_b = if case.share_b { 1 } else { batch };
    let b_values: Vec<f64> = (0..matrices_of_b * n * k)
        .map(|index| {
            let (z, j, x) = (index / (n * k), index / k % n, index % k);
            let (row, column) = if case.transpose_b { (j, x) } else { (x, j) };
            B::value(&b, z * b_batch + row * b_row + column)
        })
        .collect();
    // Half a step of the integers that the largest of 32 activations becomes.
    let levels = if m <= 8 { 127.0 * 128.0 } else { 127.0 };
    let half_step = |group: &[f64]| {
        let largest = group
            .iter()
            .fold(0.0, |most: f64, value| most.max(value.abs()));
        largest / (2.0 * levels)
    };

    let mut expected = Vec::new(); // (index in c, value, sum of magnitudes, error of rounded activations)
    for (z, i) in (0..batch).flat_map(|z| (0..m).map(move |i| (z, i))) {
        let activations = &a_values[(z * m + i) * k..][..k];
        let half_steps: Vec<f64> = activations.chunks(32).map(half_step).collect();
        for j in 0..n {
            let weights = &b_values[(z % matrices_of_b * n + j) * k..][..k];
            let (mut sum, mut magnitude) = match case.has_bias {
                true => (T::value(&bias, j), T::value(&bias, j).abs()),
                false => (0.0, 0.0),
            };
            let mut rounding = 0.0;
            for (x, (value, weight)) in activations.iter().zip(weights).enumerate() {
                sum += value * weight;
                magnitude += (value * weight).abs();
                if B::ELEMENTS > 1 {
                    rounding += half_steps[x / 32] * weight.abs();
                }
            }
            expected.push((z * c_batch + i * c_row + j, sum, magnitude, rounding));
        }
    }

    let rows = if case.share_b { n } else { n * batch };
    let b = pack.map_or_else(|| b.clone(), |pack| pack(&b, rows, k));
    let x16_rows = pack.map_or(0, |_| rows - rows % X16_ROWS);
    let run = |executor: Executor| {
        let mut c = vec![T::POISON; c_batch * batch];
        let (mut a, mut b, mut bias) = (a.clone(), b.clone(), bias.clone());
        let call = Call::new(name)
            .bind(MATMUL_A, &mut a)
            .bind(MATMUL_B, &mut b)
            .bind(MATMUL_BIAS, &mut bias)
            .bind(MATMUL_C, &mut c)
            .covering([n, m, batch])
            .x16_rows(x16_rows)
            .arguments(MATMUL_ARGS, &args);
        call.run_on(executor)
            .unwrap_or_else(|fault| panic!("{name} {case:?}: {fault:?}"));
        c
    };
    let verify = |c: &[T]| {
        for (index, value, magnitude, rounding) in &expected {
            // Any order of summation keeps within this bound (Higham 2002, section 3.1); then one rounding to T.
            let tolerance = (k + 2) as f64 * f32::ROUNDING * magnitude
                + T::ROUNDING * (value.abs() + rounding)
                + 1.01 * rounding
                + f64::from(f16::MIN_POSITIVE_SUBNORMAL);
            assert_close(
                T::value(c, *index),
                *value,
                tolerance,
                format_args!("{name} {case:?}"),
            );
        }
        let rows = (0..batch).flat_map(|z| {
            row_ranges(m, c_row, n).map(move |row| row.start + z * c_batch..row.end + z * c_batch)
        });
        assert_untouched(c, rows);
    };
    on.each(run, verify);
}

/// Rows of `k` weights, of which those that fill panels lie in them.
fn in_x16_panels<B: Interleaved>(b: &[B], rows: usize, k: usize) -> Vec<B> {
    let (mut panels, blocks) = (b.to_vec(), k / B::ELEMENTS);
    for panel in 0..rows / X16_ROWS {
        let range = panel * X16_ROWS * blocks..(panel + 1) * X16_ROWS * blocks;
        let (from, to) = (b[range.clone()].as_ptr(), panels[range].as_mut_ptr());
        // SAFETY: 16 rows of blocks each.
        unsafe { packing::pack::<B>(from.cast(), to.cast(), blocks) };
    }
    panels
}

/// Metal's kernels of one pair of types: that for every shape, and by rows when the shape is theirs.
fn check_metal<B: Sample, T: Output>(types: &str, case: Case, ways: &[(LaneOrder, bool)]) {
    let by_rows = case.transpose_b && !case.transpose_a;
    for (prefix, fits) in [
        ("matvec_", by_rows && case.m == 1),
        ("matvec_narrow_", by_rows && case.m <= 8),
        ("matmul_tiled_", true),
        ("matmul_", B::ELEMENTS == 1),
    ] {
        if fits {
            check_on::<B, T>(product_of(prefix, types), case, On::Metal(ways));
        }
    }
}

fn product_of(prefix: &str, types: &str) -> &'static str {
    let name = kernels()
        .map(Kernel::display_name)
        .find(|name| *name == format!("{prefix}{types}"));
    name.expect("in the table")
}

/// Products of x16 panels, of every type that has them, with `k` rounded up to what that needs.
fn check_panels(case: Case) {
    let of_blocks = |unit: usize| Case {
        k: case.k.next_multiple_of(unit),
        transpose_b: true,
        ..case
    };
    let (small, large) = (of_blocks(32), of_blocks(256));
    let floats = of_blocks(1);
    check_x16::<f16, f32>("matmul_f16_f32", floats);
    check_x16::<f16, f16>("matmul_f16_f16", floats);
    check_x16::<bf16, f32>("matmul_bf16_f32", floats);
    check_x16::<bf16, f16>("matmul_bf16_f16", floats);
    check_x16::<BlockQ8_0, f32>("matmul_tiled_q8_0_f32", small);
    check_x16::<BlockQ8_0, f16>("matmul_tiled_q8_0_f16", small);
    check_x16::<BlockQ4_0, f32>("matmul_tiled_q4_0_f32", small);
    check_x16::<BlockQ4_0, f16>("matmul_tiled_q4_0_f16", small);
    check_x16::<BlockQ4_1, f32>("matmul_tiled_q4_1_f32", small);
    check_x16::<BlockQ4_1, f16>("matmul_tiled_q4_1_f16", small);
    check_x16::<BlockQ5_0, f32>("matmul_tiled_q5_0_f32", small);
    check_x16::<BlockQ5_0, f16>("matmul_tiled_q5_0_f16", small);
    check_x16::<BlockQ5_1, f32>("matmul_tiled_q5_1_f32", small);
    check_x16::<BlockQ5_1, f16>("matmul_tiled_q5_1_f16", small);
    check_x16::<BlockQ2K, f32>("matmul_tiled_q2_k_f32", large);
    check_x16::<BlockQ2K, f16>("matmul_tiled_q2_k_f16", large);
    check_x16::<BlockQ3K, f32>("matmul_tiled_q3_k_f32", large);
    check_x16::<BlockQ3K, f16>("matmul_tiled_q3_k_f16", large);
    check_x16::<BlockQ4K, f32>("matmul_tiled_q4_k_f32", large);
    check_x16::<BlockQ4K, f16>("matmul_tiled_q4_k_f16", large);
    check_x16::<BlockQ5K, f32>("matmul_tiled_q5_k_f32", large);
    check_x16::<BlockQ5K, f16>("matmul_tiled_q5_k_f16", large);
    check_x16::<BlockQ6K, f32>("matmul_tiled_q6_k_f32", large);
    check_x16::<BlockQ6K, f16>("matmul_tiled_q6_k_f16", large);
    check_x16::<BlockIq4Nl, f32>("matmul_tiled_iq4_nl_f32", small);
    check_x16::<BlockIq4Nl, f16>("matmul_tiled_iq4_nl_f16", small);
    check_x16::<BlockIq4Xs, f32>("matmul_tiled_iq4_xs_f32", large);
    check_x16::<BlockIq4Xs, f16>("matmul_tiled_iq4_xs_f16", large);
    check_x16::<BlockMxfp4, f32>("matmul_tiled_mxfp4_f32", small);
    check_x16::<BlockMxfp4, f16>("matmul_tiled_mxfp4_f16", small);
}

#[test]
fn x16_panels_of_every_shape_on_every_instruction_set() {
    for m in [1, 2, 3, 4, 5, 8, 9, 15, 33, 300] {
        for (n, k) in [(16, 32), (48, 256), (80, 512 + 32), (160, 35)] {
            let case = Case {
                m,
                n,
                k,
                batch: 1 + m % 2,
                has_bias: m > 2 || n == 80,
                gap: m % 3,
                share_b: m > 3,
                transpose_a: m == 5,
                ..PLAIN
            };
            if m < 300 || k == 256 {
                check_panels(case);
            }
        }
    }
    // More columns than are computed together, of more rows than fill tiles.
    let wide = Case {
        m: 17,
        n: 560,
        k: 288,
        ..PLAIN
    };
    check_panels(wide);
}

/// The product of m rows of A and x16 panels of n rows, both of k values.
fn multiply_x16<B: Sample>(
    name: &'static str,
    executor: Executor,
    a: &[f32],
    panels: &[B],
    [m, n, k]: [usize; 3],
) -> Vec<f32> {
    let args = matmul_args {
        b_row_stride: k as u64,
        transpose_b: 1,
        ..args(m as u32, n as u32, k as u32)
    };
    let mut c = vec![0f32; m * n];
    let (mut a, mut b) = (a.to_vec(), panels.to_vec());
    let call = Call::new(name)
        .bind(MATMUL_A, &mut a)
        .bind(MATMUL_B, &mut b)
        .bind(MATMUL_C, &mut c)
        .covering([n, m, 1])
        .x16_rows(n)
        .arguments(MATMUL_ARGS, &args);
    call.run_on(executor).expect("valid");
    c
}

/// Many rows round activations to 8 bits of integers, or with tiles both operands to bf16. Of floats without outliers
/// the relative error of the norm stays below a bound for each type (docs/perf, Xeon with AMX).
#[test]
fn many_rows_of_x16_panels_round_little() {
    check_rounding::<BlockQ8_0>("matmul_tiled_q8_0_f32", 4.2e-3);
    check_rounding::<BlockQ4_0>("matmul_tiled_q4_0_f32", 4.2e-3);
    check_rounding::<BlockQ4_1>("matmul_tiled_q4_1_f32", 4.2e-3);
    check_rounding::<BlockQ5_0>("matmul_tiled_q5_0_f32", 4.2e-3);
    check_rounding::<BlockQ5_1>("matmul_tiled_q5_1_f32", 4.2e-3);
    check_rounding::<BlockQ2K>("matmul_tiled_q2_k_f32", 4.2e-3);
    check_rounding::<BlockQ3K>("matmul_tiled_q3_k_f32", 4.2e-3);
    check_rounding::<BlockQ4K>("matmul_tiled_q4_k_f32", 4.2e-3);
    check_rounding::<BlockQ5K>("matmul_tiled_q5_k_f32", 4.2e-3);
    check_rounding::<BlockQ6K>("matmul_tiled_q6_k_f32", 4.2e-3);
    check_rounding::<BlockIq4Nl>("matmul_tiled_iq4_nl_f32", 4.2e-3);
    check_rounding::<BlockIq4Xs>("matmul_tiled_iq4_xs_f32", 4.2e-3);
    check_rounding::<BlockMxfp4>("matmul_tiled_mxfp4_f32", 4.2e-3);
    check_rounding::<f16>("matmul_f16_f32", 5e-7);
}

fn check_rounding<B: Sample + Interleaved>(name: &'static str, most: f64) {
    let (m, n, k) = (17, 2 * X16_ROWS, 2048);
    let mut numbers = Numbers::new(7);
    let a: Vec<f32> = numbers.vec(m * k);
    let b: Vec<B> = numbers.vec(n * k);
    let b = &b[..n * k / B::ELEMENTS];
    let panels = in_x16_panels(b, n, k);
    let exact = |i: usize, j: usize| -> f64 {
        let product = |x| f64::from(a[i * k + x]) * B::value(b, j * k + x);
        (0..k).map(product).sum()
    };
    let exact: Vec<f64> = (0..m * n).map(|i| exact(i / n, i % n)).collect();
    let run = |executor: Executor| multiply_x16(name, executor, &a, &panels, [m, n, k]);
    On::Native.each(run, |c| {
        let norm =
            |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
        let errors = &mut c.iter().zip(&exact).map(|(c, exact)| f64::from(*c) - exact);
        let error = norm(errors) / norm(&mut exact.iter().copied());
        assert!(error <= most, "{name}: {error:e}");
    });
}

/// Weights near the largest number of f32 are multiplied as others are.
#[test]
fn x16_panels_of_large_powers_of_two() {
    const TINY: f32 = 1e-30;
    let (n, k) = (2 * X16_ROWS, 64);
    for m in [1, 5, 20] {
        let mut numbers = Numbers::new(m as u64);
        let a: Vec<f32> = numbers.vec(m * k);
        let a: Vec<f32> = a.into_iter().map(|a| a * TINY).collect();
        let mut b: Vec<BlockMxfp4> = numbers.vec(n * k);
        for block in &mut b {
            block.scale = 252;
        }
        let panels = in_x16_panels(&b, n, k);
        let name = "matmul_tiled_mxfp4_f32";
        let run = |executor: Executor| multiply_x16(name, executor, &a, &panels, [m, n, k]);
        On::Native.each(run, |c| {
            for (index, value) in c.iter().enumerate() {
                let (i, j) = (index / n, index % n);
                let weight = |x: usize| BlockMxfp4::value(&b, j * k + x);
                let exact: f64 = (0..k).map(|x| f64::from(a[i * k + x]) * weight(x)).sum();
                let size: f64 = (0..k).map(|x| f64::from(TINY) * weight(x).abs()).sum();
                let error = (f64::from(*value) - exact).abs();
                assert!(error <= size / 128.0, "{m} rows: {value} is not {exact}");
            }
        });
    }
}

/// The columns of weights that are no numbers are none, and no others.
#[test]
fn x16_panels_that_are_no_numbers() {
    const INFINITY: u16 = 0x7c00;
    const NANS: [u16; 3] = [0x7e00, 0x7fff, 0xffff];
    for m in [1, 5, 9, 20] {
        for bits in NANS.into_iter().chain([INFINITY]) {
            let bad = f16::from_bits(bits);
            check_no_numbers::<f16>("matmul_f16_f32", m, |number| *number = bad);
            check_no_numbers::<BlockQ8_0>("matmul_tiled_q8_0_f32", m, |it| it.scale = bad);
            check_no_numbers::<BlockQ4_0>("matmul_tiled_q4_0_f32", m, |it| it.scale = bad);
            check_no_numbers::<BlockQ4_1>("matmul_tiled_q4_1_f32", m, |it| it.minimum = bad);
            check_no_numbers::<BlockQ5_0>("matmul_tiled_q5_0_f32", m, |it| it.scale = bad);
            check_no_numbers::<BlockQ2K>("matmul_tiled_q2_k_f32", m, |it| it.minimum = bad);
            check_no_numbers::<BlockQ3K>("matmul_tiled_q3_k_f32", m, |it| it.scale = bad);
            check_no_numbers::<BlockQ4K>("matmul_tiled_q4_k_f32", m, |it| {
                it.minimum = bad;
                it.scale = bad;
            });
            check_no_numbers::<BlockQ6K>("matmul_tiled_q6_k_f32", m, |it| it.scale = bad);
            check_no_numbers::<BlockIq4Xs>("matmul_tiled_iq4_xs_f32", m, |it| it.scale = bad);
        }
    }
}

fn check_no_numbers<B: Sample + Interleaved>(name: &'static str, m: usize, spoil: impl Fn(&mut B)) {
    const ROWS: [usize; 2] = [3, 20];
    let (n, k) = (2 * X16_ROWS, 512);
    let mut numbers = Numbers::new(m as u64);
    let a: Vec<f32> = numbers.vec(m * k);
    let mut b: Vec<B> = numbers.vec(n * k);
    for row in ROWS {
        spoil(&mut b[row * k / B::ELEMENTS + 1]);
    }
    let b = in_x16_panels(&b, n, k);
    let run = |executor: Executor| multiply_x16(name, executor, &a, &b, [m, n, k]);
    On::Native.each(run, |c| {
        for (i, value) in c.iter().enumerate() {
            let expected = !ROWS.contains(&(i % n));
            assert_eq!(
                value.is_finite(),
                expected,
                "{name} {m} rows: {i} is {value}"
            );
        }
    });
}

/// The last rows of a matrix may fill no panel.
#[test]
fn rows_that_fill_no_panel() {
    for (m, n) in [(1, 17), (5, 35), (20, 63), (2, 31)] {
        for (batch, has_bias) in [(1, true), (2, false)] {
            check_panels(Case {
                m,
                n,
                k: 64,
                batch,
                has_bias,
                gap: m % 3,
                share_b: true,
                transpose_a: m == 5,
                ..PLAIN
            });
        }
    }
}

#[test]
fn panels_that_do_not_fit_are_faults() {
    let machine = &machines()[0];
    let run = |args: &matmul_args, x16_rows: usize| {
        let (mut a, mut c) = (vec![0f32; 128], vec![0f32; 128]);
        let mut b = Numbers::new(1).vec::<BlockQ8_0>(64 * 32);
        let call = Call::new("matmul_tiled_q8_0_f32")
            .bind(MATMUL_A, &mut a)
            .bind(MATMUL_B, &mut b)
            .bind(MATMUL_C, &mut c)
            .bind_same(MATMUL_BIAS, MATMUL_C)
            .x16_rows(x16_rows)
            .arguments(MATMUL_ARGS, args);
        fault(call.run(machine)).0
    };
    let good = matmul_args {
        transpose_b: 1,
        b_row_stride: 32,
        ..args(1, 32, 32)
    };
    assert_eq!((run(&good, 32), run(&good, 16)), ("ok", "ok"));
    let columns = matmul_args {
        transpose_b: 0,
        ..good
    };
    let gaps = matmul_args {
        b_row_stride: 64,
        ..good
    };
    let batches = matmul_args {
        batch: 2,
        b_batch_stride: 32 * 32,
        c_batch_stride: 32,
        ..good
    };
    assert_eq!(run(&batches, 64), "ok");
    for (args, x16_rows) in [(columns, 32), (gaps, 32), (good, 8), (batches, 48)] {
        assert_eq!(run(&args, x16_rows), "invalid", "{args:?} {x16_rows}");
    }
}

fn check_metal_of_all_types(case: Case, ways: &[(LaneOrder, bool)]) {
    check_metal::<f32, f32>("f32_f32", case, ways);
    check_metal::<f16, f32>("f16_f32", case, ways);
    check_metal::<bf16, f32>("bf16_f32", case, ways);
    check_metal::<f32, f16>("f32_f16", case, ways);
    check_metal::<f16, f16>("f16_f16", case, ways);
    check_metal::<bf16, f16>("bf16_f16", case, ways);
    if !case.transpose_b {
        return;
    }
    macro_rules! check_blocks {
        ($($variant:ident { block $block:ident, name $name:literal, $($rest:tt)* })*) => {$(
            let k = case.k.next_multiple_of($block::ELEMENTS);
            check_metal::<$block, f32>(concat!($name, "_f32"), Case { k, ..case }, ways);
        )*};
    }
    block_dtypes!(check_blocks);
    let of_blocks = |unit: usize| Case {
        k: case.k.next_multiple_of(unit),
        ..case
    };
    check_metal::<BlockQ8_0, f16>("q8_0_f16", of_blocks(32), ways);
    check_metal::<BlockQ4K, f16>("q4_k_f16", of_blocks(256), ways);
}

/// One kernel with an edge in each dimension that its shapes leave open.
pub fn at_edge(name: &'static str, edge: usize) {
    type Check = fn(&'static str, Case, On);
    let prefixes = ["matvec_narrow_", "matvec_", "matmul_tiled_", "matmul_"];
    let (prefix, types) = prefixes
        .into_iter()
        .find_map(|prefix| Some((prefix, name.strip_prefix(prefix)?)))
        .unwrap_or_else(|| panic!("{name} is of another family"));
    macro_rules! check_of_types {
        ($($variant:ident { block $block:ident, name $name:literal, $($rest:tt)* })*) => {
            match types {
                "f32_f32" => (check_on::<f32, f32>, 1),
                "f32_f16" => (check_on::<f32, f16>, 1),
                "f16_f32" => (check_on::<f16, f32>, 1),
                "f16_f16" => (check_on::<f16, f16>, 1),
                "bf16_f32" => (check_on::<bf16, f32>, 1),
                "bf16_f16" => (check_on::<bf16, f16>, 1),
                $(concat!($name, "_f32") => (check_on::<$block, f32>, $block::ELEMENTS),
                concat!($name, "_f16") => (check_on::<$block, f16>, $block::ELEMENTS),)*
                _ => panic!("{name}: types that no test knows"),
            }
        };
    }
    let (check, unit): (Check, usize) = block_dtypes!(check_of_types);
    let shapes: &[(usize, usize, usize)] = match prefix {
        "matvec_" => &[(1, edge, 65), (1, 9, edge)],
        "matvec_narrow_" => &[(8.min(edge), edge, 65), (3, 9, edge)],
        _ => &[(edge, 5, 64), (3, edge, 33), (9, 34, edge)],
    };
    for (m, n, k) in shapes.iter().copied() {
        for transpose_b in [false, true] {
            let by_rows = prefix.starts_with("matvec") || unit > 1;
            if by_rows && !transpose_b {
                continue;
            }
            let case = Case {
                m,
                n,
                k: k.next_multiple_of(unit),
                transpose_b,
                ..PLAIN
            };
            check(name, case, On::Everything);
        }
    }
}

#[test]
fn metal_layouts_batches_and_bias_in_every_lane_order_and_within_bounds() {
    for bits in 0..16 {
        let [transpose_a, transpose_b, has_bias, share_b] =
            std::array::from_fn(|bit| bits >> bit & 1 == 1);
        for (index, m) in [1, 7, 34].into_iter().enumerate() {
            let case = Case {
                m,
                n: 67,
                k: 40,
                batch: 2,
                transpose_a,
                transpose_b,
                has_bias,
                gap: 5,
                share_b,
            };
            // Each layout in every way, with another number of rows.
            let ways = [
                (LaneOrder::Forward, true),
                (LaneOrder::Reverse, false),
                (LaneOrder::Random(u64::from(bits + 1u32)), false),
            ];
            let turn = (index + bits as usize) % ways.len();
            match in_all_ways() {
                true => check_metal_of_all_types(case, &ways),
                false => check_metal_of_all_types(case, &ways[turn..][..1]),
            }
        }
    }
}

/// Every type of B for which `case` is allowed.
fn check_all_types(case: Case) {
    check::<f32, f32>("matmul_f32_f32", case);
    check::<f16, f32>("matmul_f16_f32", case);
    check::<bf16, f32>("matmul_bf16_f32", case);
    check::<f32, f16>("matmul_f32_f16", case);
    check::<f16, f16>("matmul_f16_f16", case);
    check::<bf16, f16>("matmul_bf16_f16", case);
    macro_rules! check_blocks {
        ($($variant:ident { block $block:ident, name $name:literal, $($rest:tt)* })*) => {$(
            if case.transpose_b && case.k.is_multiple_of($block::ELEMENTS) {
                check::<$block, f32>(concat!("matmul_tiled_", $name, "_f32"), case);
            }
        )*};
    }
    block_dtypes!(check_blocks);
    if case.transpose_b && case.k.is_multiple_of(32) {
        check::<BlockQ8_0, f16>("matmul_tiled_q8_0_f16", case);
    }
}

#[test]
fn edges_of_every_dimension() {
    for edge in EDGES {
        for (m, n, k) in [
            (edge, 5, 64),
            (5, edge, 64),
            (5, 7, edge),
            (1, edge, 96),
            (9, edge, 512),
        ] {
            for transpose_b in [false, true] {
                check_all_types(Case {
                    m,
                    n,
                    k,
                    transpose_b,
                    ..PLAIN
                });
            }
        }
    }
}

/// Rows of B that are many units of whole vectors long, and those that end within one.
#[test]
fn few_long_rows() {
    for (k, gap) in [(256, 0), (512, 0), (1024 + 512, 3), (2048 + 256 + 32, 0)] {
        for m in 1..=5 {
            check_all_types(Case {
                m,
                n: 19,
                k,
                batch: 1 + m % 2,
                transpose_b: true,
                has_bias: m > 2,
                gap,
                share_b: m > 3,
                ..PLAIN
            });
        }
        // Types whose blocks are of 256 weights.
        check_all_types(Case {
            m: 2,
            n: 3,
            k: k.next_multiple_of(256),
            transpose_b: true,
            ..PLAIN
        });
    }
}

/// B as it is, swept over in more than one part, and steps that are left over.
#[test]
fn few_rows_and_many_columns() {
    for m in 1..=7 {
        check_all_types(Case {
            m,
            n: 512 + 70,
            k: 19 + m,
            batch: 1 + m % 2,
            transpose_a: m == 3,
            has_bias: m > 2,
            gap: m % 3,
            share_b: m > 3,
            ..PLAIN
        });
    }
}

#[test]
fn layouts_batches_and_bias() {
    for bits in 0..16 {
        let [transpose_a, transpose_b, has_bias, share_b] =
            std::array::from_fn(|bit| bits >> bit & 1 == 1);
        check_all_types(Case {
            m: 9,
            n: 34,
            k: 64,
            batch: 3,
            transpose_a,
            transpose_b,
            has_bias,
            gap: 5,
            share_b,
        });
    }
}

/// As many rows as a vector has lanes, and fewer: in each number of tiles, for sums that are kept for several pieces
/// and groups of columns.
#[test]
fn rows_of_a_vector_in_pieces_and_groups() {
    for (m, n, k) in [
        (7, 70, 1030),
        (9, 129, 2080),
        (11, 3, 1024),
        (15, 66, 2100),
        (16, 64, 1),
        (13, 261, 400),
        (14, 520, 385),
        // More than a cache holds.
        (8, 2605, 820),
    ] {
        for has_bias in [false, true] {
            let case = Case {
                m,
                n,
                k,
                batch: 2,
                has_bias,
                transpose_b: true,
                transpose_a: has_bias,
                gap: 3,
                ..PLAIN
            };
            check::<f32, f32>("matmul_f32_f32", case);
        }
    }
}

/// A transposed A and one column of B, read as a row and what is stored.
#[test]
fn a_column_is_multiplied_as_a_row() {
    for (m, k) in [(1, 1), (64, 300), (301, 17), (70, 2080)] {
        for (transpose_b, batch) in [(false, 1), (true, 1), (false, 3), (true, 2)] {
            let case = Case {
                m,
                k,
                batch,
                transpose_a: true,
                transpose_b,
                share_b: batch == 3,
                ..PLAIN
            };
            check::<f32, f32>("matmul_f32_f32", case);
        }
    }
}

/// B as it is stored has at most a quarter of A's rows.
#[test]
fn a_small_b_is_transposed() {
    for (m, n, k) in [
        (17, 4, 9),
        (64, 16, 33),
        (300, 70, 40),
        (65, 1, 257),
        (90, 16, 520),
    ] {
        for has_bias in [false, true] {
            let case = Case {
                m,
                n,
                k,
                batch: 2,
                transpose_b: true,
                has_bias,
                gap: 3,
                share_b: !has_bias,
                ..PLAIN
            };
            check_all_types(case);
        }
    }
}

/// C is summed in its own memory where it is whole vectors of an even number of rows, and in scratch memory elsewhere:
/// in one piece and in several, of one block and of two.
#[test]
fn whole_vectors_of_rows_and_others() {
    for (m, n, k) in [
        (8, 16, 1),
        (10, 48, 17),
        (14, 160, 16),
        (9, 32, 300),
        (12, 40, 257),
        (258, 64, 300),
        (257, 144, 520),
    ] {
        for bits in 0..4 {
            let [transpose_a, has_bias] = std::array::from_fn(|bit| bits >> bit & 1 == 1);
            let case = Case {
                m,
                n,
                k,
                batch: 2,
                transpose_a,
                has_bias,
                gap: 3,
                ..PLAIN
            };
            check::<f32, f32>("matmul_f32_f32", case);
            check::<f16, f32>("matmul_f16_f32", case);
        }
    }
}

#[test]
fn sizes_beyond_one_block() {
    // More rows than a block, more columns than a row of panels, deeper than a panel, more than one thread's share.
    for transpose_b in [false, true] {
        check::<f32, f32>(
            "matmul_f32_f32",
            Case {
                m: 300,
                n: 150,
                k: 600,
                transpose_b,
                ..PLAIN
            },
        );
        check::<f16, f16>(
            "matmul_f16_f16",
            Case {
                m: 300,
                n: 150,
                k: 600,
                transpose_b,
                ..PLAIN
            },
        );
    }
    let case = Case {
        m: 65,
        n: 200,
        k: 2048,
        transpose_b: true,
        has_bias: true,
        ..PLAIN
    };
    check::<BlockQ8_0, f32>("matmul_tiled_q8_0_f32", case);
}

#[test]
fn nothing_to_sum_gives_the_bias_or_zero() {
    for bits in 0..4 {
        let [transpose_b, has_bias] = std::array::from_fn(|bit| bits >> bit & 1 == 1);
        for m in [1, 2, 9] {
            let case = Case {
                m,
                n: 3,
                k: 0,
                has_bias,
                transpose_b,
                ..PLAIN
            };
            check::<f32, f32>("matmul_f32_f32", case);
            check_metal::<f32, f32>("f32_f32", case, &METAL);
            check_metal::<bf16, f16>("bf16_f16", case, &METAL);
            if transpose_b {
                check::<BlockQ8_0, f32>("matmul_tiled_q8_0_f32", case);
                check_metal::<BlockQ8_0, f32>("q8_0_f32", case, &METAL);
                check_metal::<BlockQ4K, f16>("q4_k_f16", case, &METAL);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_shape(
        m in 1usize..40, n in 1usize..80, k in 1usize..140, batch in 1usize..3, gap in 0usize..9,
        transpose_a: bool, transpose_b: bool, has_bias: bool, share_b: bool,
    ) {
        let case = Case { m, n, k, batch, transpose_a, transpose_b, has_bias, gap, share_b };
        check::<f32, f32>("matmul_f32_f32", case);
        check::<bf16, f16>("matmul_bf16_f16", case);
        if transpose_b {
            let k = k.next_multiple_of(32);
            check::<BlockQ8_0, f32>("matmul_tiled_q8_0_f32", Case { k, ..case });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_shape_and_stride_by_metal_kernels(
        m in 1usize..40, n in 1usize..80, k in 1usize..140, batch in 1usize..3, gap in 0usize..9,
        transpose_a: bool, transpose_b: bool, has_bias: bool, share_b: bool, way in 0..METAL.len(),
    ) {
        let case = Case { m, n, k, batch, transpose_a, transpose_b, has_bias, gap, share_b };
        let ways = [METAL[way]];
        check_metal::<f32, f32>("f32_f32", case, &ways);
        check_metal::<bf16, f16>("bf16_f16", case, &ways);
        if transpose_b {
            let case = Case { k: k.next_multiple_of(32), ..case };
            check_metal::<BlockQ8_0, f32>("q8_0_f32", case, &ways);
            let case = Case { k: k.next_multiple_of(256), ..case };
            check_metal::<BlockQ6K, f16>("q6_k_f16", case, &ways);
        }
    }
}

fn args(m: u32, n: u32, k: u32) -> matmul_args {
    matmul_args {
        a_row_stride: k.into(),
        b_row_stride: n.into(),
        c_row_stride: n.into(),
        m,
        n,
        k,
        batch: 1,
        ..Default::default()
    }
}

#[test]
fn arguments_that_reach_outside_are_faults() {
    let machine = &machines()[0];
    let good = args(4, 5, 6);
    let run = |args: &matmul_args, lengths: [usize; 4]| {
        let [mut a, mut b, mut bias, mut c] = lengths.map(|length| vec![0f32; length]);
        let call = Call::new("matmul_f32_f32")
            .bind(MATMUL_A, &mut a)
            .bind(MATMUL_B, &mut b)
            .bind(MATMUL_BIAS, &mut bias)
            .bind(MATMUL_C, &mut c);
        fault(call.arguments(MATMUL_ARGS, args).run(machine))
    };
    assert_eq!(run(&good, [24, 30, 1, 20]).0, "ok");
    for (operand, name) in ["a ", "b ", "bias", "c "].into_iter().enumerate() {
        let mut lengths = [24, 30, 5, 20];
        lengths[operand] -= 1;
        let (kind, text) = run(
            &matmul_args {
                has_bias: 1,
                ..good
            },
            lengths,
        );
        assert_eq!(kind, "out of bounds", "{name}");
        assert!(
            text.contains("matmul_f32_f32") && text.contains(name),
            "{text}"
        );
    }
    for args in [
        matmul_args {
            a_row_stride: u64::MAX,
            ..good
        },
        matmul_args {
            b_row_stride: u64::MAX / 4,
            ..good
        },
        matmul_args {
            batch: 2,
            c_batch_stride: u64::MAX - 3,
            ..good
        },
        matmul_args {
            m: u32::MAX,
            n: u32::MAX,
            ..good
        },
    ] {
        let (kind, text) = run(&args, [24, 30, 5, 20]);
        assert_eq!(kind, "out of bounds", "{args:?}: {text}");
    }
    // Rows that lie on one another need less memory; one thread then computes them all.
    assert_eq!(
        run(
            &matmul_args {
                c_row_stride: 0,
                ..good
            },
            [24, 30, 5, 5]
        )
        .0,
        "ok"
    );
    // Nor does a stride matter that nobody takes.
    let single = matmul_args {
        transpose_b: 1,
        b_row_stride: u64::MAX - 3,
        ..args(9, 1, 6)
    };
    assert_eq!(run(&single, [54, 6, 1, 9]).0, "ok");
    // Not even to say which row may be needed next.
    for m in [1, 3, 9] {
        let single = matmul_args {
            transpose_b: 0,
            b_row_stride: u64::MAX - 3,
            batch: 2,
            a_batch_stride: m.into(),
            b_batch_stride: 6,
            c_batch_stride: 6 * u64::from(m),
            ..args(m, 6, 1)
        };
        let rows = 2 * m as usize;
        let (kind, text) = run(&single, [rows, 12, 6, 6 * rows]);
        assert_eq!(kind, "ok", "{m}: {text}");
    }
    let (kind, text) = run(
        &matmul_args {
            m: 70_000,
            a_row_stride: 0,
            c_row_stride: 0,
            ..good
        },
        [6, 30, 5, 5],
    );
    assert_eq!(kind, "invalid", "{text}");
    assert!(text.contains("grid"), "{text}");
}

#[test]
fn the_stride_of_a_single_row_of_blocks_does_not_matter() {
    let mut a = vec![1f32; 20 * 32];
    let mut b = Numbers::new(1).vec::<BlockQ8_0>(32);
    let mut c = vec![0f32; 20];
    let far = matmul_args {
        transpose_b: 1,
        b_row_stride: u64::MAX - 31,
        ..args(20, 1, 32)
    };
    let call = Call::new("matmul_tiled_q8_0_f32")
        .covering([1, 20, 1])
        .bind(MATMUL_A, &mut a)
        .bind(MATMUL_B, &mut b)
        .bind(MATMUL_C, &mut c)
        .bind_same(MATMUL_BIAS, MATMUL_C)
        .arguments(MATMUL_ARGS, &far);
    assert_eq!(fault(call.run(&machines()[0])).0, "ok");
    assert!(c[0] != 0.0 && c.iter().all(|value| *value == c[0]));
}

#[test]
fn missing_bindings_and_wrong_arguments_are_invalid() {
    let machine = &machines()[0];
    let good = args(1, 32, 32);
    let (mut a, mut c) = (vec![0f32; 32], vec![0f32; 32]);
    let mut b = Numbers::new(1).vec::<BlockQ8_0>(32 * 64);
    let mut run = |args: &matmul_args, missing: Option<u32>| {
        let mut call = Call::new("matmul_tiled_q8_0_f32")
            .bind(MATMUL_A, &mut a)
            .bind(MATMUL_B, &mut b)
            .bind(MATMUL_C, &mut c)
            .bind_same(MATMUL_BIAS, MATMUL_C)
            .arguments(MATMUL_ARGS, args);
        if let Some(missing) = missing {
            call = call.unbind(missing);
        }
        fault(call.run(machine))
    };
    let good = matmul_args {
        transpose_b: 1,
        ..good
    };
    assert_eq!(run(&good, None).0, "ok");
    for missing in [MATMUL_A, MATMUL_B, MATMUL_C, MATMUL_ARGS] {
        let (kind, text) = run(&good, Some(missing));
        assert_eq!(kind, "invalid");
        assert!(text.contains(&format!("binding {missing}")), "{text}");
    }
    for args in [
        matmul_args {
            transpose_b: 0,
            ..good
        },
        matmul_args { k: 31, ..good },
        matmul_args {
            b_row_stride: 33,
            ..good
        },
    ] {
        assert_eq!(run(&args, None).0, "invalid", "{args:?}");
    }

    let mut short = [0u8; 40];
    let call = Call::new("matmul_f32_f32").bind(MATMUL_ARGS, &mut short);
    assert_eq!(fault(call.run(machine)).0, "invalid");
    let mut bytes = [0u32; 33];
    // SAFETY: any bytes are bytes.
    let odd = unsafe { bytes.align_to_mut::<u8>().1 };
    let call = Call::new("matmul_f32_f32")
        .bind(MATMUL_A, &mut odd[1..])
        .arguments(MATMUL_ARGS, &good);
    let (kind, text) = fault(call.run(machine));
    assert_eq!(kind, "invalid");
    assert!(text.contains("aligned"), "{text}");
}

#[test]
fn operands_may_be_columns_of_one_matrix() {
    // a is columns 0..3 and c columns 3..8 of the same rows.
    let args = matmul_args {
        a_row_stride: 8,
        c_row_stride: 8,
        ..args(300, 5, 3)
    };
    let mut shared: Vec<f32> = Numbers::new(7).vec(300 * 8);
    let mut b: Vec<f32> = Numbers::new(8).vec(15);
    let before = shared.clone();
    for machine in machines() {
        let mut call = Call::new("matmul_f32_f32")
            .bind(MATMUL_A, &mut shared)
            .bind(MATMUL_B, &mut b)
            .arguments(MATMUL_ARGS, &args);
        call = call
            .bind_offset(MATMUL_C, MATMUL_A, 3 * 4)
            .bind_same(MATMUL_BIAS, MATMUL_C);
        call.run(machine).expect("columns do not overlap");
        for (i, row) in shared.chunks(8).enumerate() {
            assert_eq!(row[..3], before[i * 8..i * 8 + 3]);
            for j in 0..5 {
                let expected: f64 = (0..3)
                    .map(|x| f64::from(row[x]) * f64::from(b[x * 5 + j]))
                    .sum();
                assert_close(row[3 + j].into(), expected, 1e-6, format_args!("row {i}"));
            }
        }
    }
}
