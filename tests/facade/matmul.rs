//! Matrix multiplication in every variant, against double precision.

use half::{bf16, f16};
use ironbridge::ops::{Activation, Embedding, Matmul};
use ironbridge::{BufferUsage, DType, Element, Error, Status, WeightMatrix};

use crate::oracle::{self, transpose};
use crate::support::{
    assert_close, assert_status, device, f64s, f64s_of_halves, halves, numbers, run,
};

const SHAPES: [(usize, usize, usize); 6] = [
    (1, 1, 1),
    (1, 64, 33),
    (3, 5, 7),
    (15, 128, 96),
    (33, 17, 129),
    (64, 256, 64),
];

#[test]
fn f32_with_either_operand_transposed() {
    let device = device();
    for (m, k, n) in SHAPES {
        let (x, w) = (numbers(m * k, 1), numbers(k * n, 2));
        let want = oracle::matmul(&f64s(&x), &f64s(&w), m, k, n);
        for (transpose_a, transpose_b) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let a = match transpose_a {
                true => device.buffer_from(&transpose(&x, m, k)).unwrap(),
                false => device.buffer_from(&x).unwrap(),
            };
            let b = match transpose_b {
                true => device.buffer_from(&transpose(&w, k, n)).unwrap(),
                false => device.buffer_from(&w).unwrap(),
            };
            let c = device.buffer::<f32>(m * n).unwrap();
            run(&device, |commands| {
                commands.matmul(&Matmul::new(
                    a.tensor().oriented(m, k, transpose_a),
                    b.tensor().oriented(k, n, transpose_b),
                    c.matrix(m, n),
                ))
            })
            .unwrap();
            assert_close(&c.to_vec().unwrap(), &want, 1e-5);
        }
    }
}

#[test]
fn f16_with_bias() {
    let device = device();
    for (m, k, n) in SHAPES {
        let (x, w) = (halves(&numbers(m * k, 1)), halves(&numbers(k * n, 2)));
        let bias = halves(&numbers(n, 3));
        let mut want = oracle::matmul(&f64s_of_halves(&x), &f64s_of_halves(&w), m, k, n);
        for row in want.chunks_mut(n) {
            for (value, bias) in row.iter_mut().zip(&bias) {
                *value += bias.to_f64();
            }
        }
        let (a, b) = (
            device.buffer_from(&x).unwrap(),
            device.buffer_from(&w).unwrap(),
        );
        let bias = device.buffer_from(&bias).unwrap();
        let c = device.buffer::<f16>(m * n).unwrap();
        run(&device, |commands| {
            commands.matmul(
                &Matmul::new(a.matrix(m, k), b.matrix(k, n), c.matrix(m, n))
                    .with_bias(bias.tensor().vector(n)),
            )
        })
        .unwrap();
        let got: Vec<f32> = c.to_vec().unwrap().iter().map(|v| v.to_f32()).collect();
        // Half a unit in the last of f16's 11 bits.
        assert_close(&got, &want, 1.0 / 2048.0);
    }
}

#[test]
fn f32_activations_with_weights_of_every_type() {
    let device = device();
    let (m, k, n) = (5, 96, 40);
    let x = numbers(m * k, 1);
    let w = numbers(n * k, 2); // stored [n][k]
    let a = device.buffer_from(&x).unwrap();

    let as_f16 = halves(&w);
    let as_bf16: Vec<bf16> = w.iter().map(|&v| bf16::from_f32(v)).collect();
    let (as_q8, q8_means) = oracle::q8_0(&w);
    let f16_buffer = device.buffer_from(&as_f16).unwrap();
    let bf16_buffer = device.buffer_from(&as_bf16).unwrap();
    let q8_buffer = device.buffer_from(&as_q8).unwrap();
    let bf16_means: Vec<f64> = as_bf16.iter().map(|v| v.to_f64()).collect();

    // With blocks the software device multiplies activations of 15 bits.
    for (b, means, tolerance) in [
        (f16_buffer.tensor(), f64s_of_halves(&as_f16), 1e-5),
        (bf16_buffer.tensor(), bf16_means, 1e-5),
        (q8_buffer.tensor_at(0, DType::Q8_0), q8_means, 1e-4),
    ] {
        let c = device.buffer::<f32>(m * n).unwrap();
        run(&device, |commands| {
            commands.matmul(&Matmul::new(
                a.matrix(m, k),
                b.matrix(n, k).transposed(),
                c.matrix(m, n),
            ))
        })
        .unwrap();
        let want = oracle::matmul(&f64s(&x), &transpose(&means, n, k), m, k, n);
        assert_close(&c.to_vec().unwrap(), &want, tolerance);
    }
}

#[test]
fn strides_leave_what_lies_between_rows_alone() {
    let device = device();
    let (m, k, n) = (4, 6, 5);
    let (a_stride, b_stride, c_stride) = (9, 8, 11);
    let (x, w) = (numbers(3 + m * a_stride, 1), numbers(k * b_stride, 2));
    let pick = |all: &[f32], start: usize, rows: usize, columns: usize, stride: usize| {
        let at = |row: usize| &all[start + row * stride..][..columns];
        f64s(&(0..rows).flat_map(at).copied().collect::<Vec<_>>())
    };
    let want = oracle::matmul(
        &pick(&x, 3, m, k, a_stride),
        &pick(&w, 0, k, n, b_stride),
        m,
        k,
        n,
    );
    let a = device.buffer_from(&x).unwrap();
    let b = device.buffer_from(&w).unwrap();
    let c = device.buffer_from(&vec![-7.0f32; m * c_stride]).unwrap();
    run(&device, |commands| {
        commands.matmul(&Matmul::new(
            a.tensor().skip(3).row_stride(a_stride).matrix(m, k),
            b.tensor().row_stride(b_stride).matrix(k, n),
            c.tensor().row_stride(c_stride).matrix(m, n),
        ))
    })
    .unwrap();
    let got = c.to_vec().unwrap();
    for (row, want) in got.chunks(c_stride).zip(want.chunks(n)) {
        assert_close(&row[..n], want, 1e-5);
        assert!(row[n..].iter().all(|&gap| gap == -7.0));
    }
}

#[test]
fn a_batch_shares_an_operand_without_a_stride() {
    let device = device();
    let (m, k, n, batch) = (3, 8, 4, 5);
    let (x, w) = (numbers(batch * m * k, 1), numbers(k * n, 2));
    let a = device.buffer_from(&x).unwrap();
    let b = device.buffer_from(&w).unwrap();
    let c = device.buffer::<f32>(batch * m * n).unwrap();
    run(&device, |commands| {
        commands.matmul(
            &Matmul::new(
                a.tensor().batch_stride(m * k).matrix(m, k),
                b.matrix(k, n),
                c.tensor().batch_stride(m * n).matrix(m, n),
            )
            .with_batch(batch as u32),
        )
    })
    .unwrap();
    let want: Vec<f64> = x
        .chunks(m * k)
        .flat_map(|x| oracle::matmul(&f64s(x), &f64s(&w), m, k, n))
        .collect();
    assert_close(&c.to_vec().unwrap(), &want, 1e-5);
}

#[test]
fn what_does_not_fit_is_refused_by_name_and_nothing_is_recorded() {
    let device = device();
    let (a, b) = (
        device.buffer::<f32>(6).unwrap(),
        device.buffer::<f32>(12).unwrap(),
    );
    let c = device.buffer::<f32>(8).unwrap();
    let halves = device.buffer::<f16>(64).unwrap();
    let fits = Matmul::new(a.matrix(2, 3), b.matrix(3, 4), c.matrix(2, 4));
    let mut commands = device.commands().unwrap();
    let [x, w, y] = [a.matrix(2, 3), b.matrix(3, 4), c.matrix(2, 4)];
    let cases = [
        ("m is zero", Matmul::new(a.matrix(0, 3), w, c.matrix(0, 4))),
        ("k is zero", Matmul::new(a.matrix(2, 0), b.matrix(0, 4), y)),
        (
            "a is too short",
            Matmul::new(a.matrix(3, 3), w, c.matrix(3, 4)),
        ),
        (
            "b is too short",
            Matmul::new(x, b.matrix(3, 5), c.matrix(2, 5)),
        ),
        (
            "c is too short",
            Matmul::new(x, w, c.tensor().skip(1).matrix(2, 4)),
        ),
        (
            "sizes overflow",
            Matmul::new(
                a.matrix(usize::MAX, usize::MAX),
                b.matrix(usize::MAX, 4),
                c.matrix(usize::MAX, 4),
            ),
        ),
        (
            "a stride overflows",
            Matmul::new(x.row_stride(usize::MAX), w, y),
        ),
        ("rows overlap", Matmul::new(x, w, y.row_stride(1))),
        (
            "an offset is off the element",
            Matmul::new(a.tensor().skip_bytes(2).vector(3), w, c.matrix(1, 4)),
        ),
        (
            "c has another type than a",
            Matmul::new(x, w, halves.matrix(2, 4)),
        ),
        ("there is no a", Matmul::new(Default::default(), w, y)),
        ("there is no b", Matmul::new(x, Default::default(), y)),
        ("there is no c", Matmul::new(x, w, Default::default())),
        ("c is a", Matmul::new(a.matrix(1, 3), w, a.matrix(1, 4))),
        (
            "quantised and not transposed",
            Matmul::new(x, halves.tensor_at(0, DType::Q8_0).matrix(3, 4), y),
        ),
        ("many products into one", fits.with_batch(3)),
        ("c has other rows than a", Matmul::new(x, w, c.matrix(1, 4))),
        (
            "c has other columns than b",
            Matmul::new(x, w, c.matrix(2, 3)),
        ),
        (
            "a's columns are not b's rows",
            Matmul::new(x, b.matrix(4, 3), y),
        ),
        (
            "c is transposed",
            Matmul::new(x, w, c.matrix(4, 2).transposed()),
        ),
        (
            "a bias of another length",
            fits.with_bias(b.tensor().vector(3)),
        ),
    ];
    for (case, matmul) in cases {
        let error = commands.matmul(&matmul);
        assert!(
            matches!(error, Err(Error::InvalidArgument(_))),
            "{case}: {error:?}"
        );
    }
    assert_eq!(commands.info().unwrap().operations, 0);
    commands.matmul(&fits).unwrap();
    commands.commit().unwrap().wait().unwrap();

    let error = assert_status(
        device
            .commands()
            .unwrap()
            .matmul(&Matmul::new(a.tensor().skip(2).matrix(2, 3), w, y)),
        Status::OutOfRange,
    );
    assert!(error.to_string().contains('a'), "{error}");
}

/// Multiplies matrices of `heights` rows with n × k weights that are written by rows, `means` of them exactly, and
/// looks rows of them up.
fn check_weights<T: Element>(
    weights: &[T],
    means: &[f64],
    dtype: DType,
    (n, k): (usize, usize),
    heights: &[usize],
    tolerance: impl Fn(usize) -> f64,
) {
    let device = device();
    // Behind another matrix of the same width, which is multiplied with it where it can be.
    let before = WeightMatrix::new(32, k, dtype);
    let matrix = WeightMatrix::new(n, k, dtype).at(before.bytes().unwrap());
    let row = matrix.bytes().unwrap() / n;
    let (head, bytes, tail) = bytes_of(weights);
    assert!(head.is_empty() && tail.is_empty() && bytes.len() == n * row);
    let options = device.buffer_options().usage(BufferUsage::Weights);
    let buffer = options
        .create::<u8>(matrix.offset + matrix.bytes().unwrap())
        .unwrap();
    for (index, rows) in bytes.chunks(32 * row).enumerate() {
        buffer.write_weights(&matrix, 32 * index, rows).unwrap();
    }
    buffer
        .write_weights(&before, 0, &bytes[..32 * row])
        .unwrap();
    let mut back = vec![0; 5 * row];
    buffer.read_weights(&matrix, n - 5, &mut back).unwrap();
    assert_eq!(back, bytes[(n - 5) * row..]);

    for &m in heights {
        let x = numbers(m * k, 1);
        let a = device.buffer_from(&x).unwrap();
        for joined in [false, true] {
            let (rows, offset) = match joined {
                true => (n + 32, 0),
                false => (n, matrix.offset),
            };
            let mut all = means[..(rows - n) * k].to_vec();
            all.extend(means);
            let want = oracle::matmul(&f64s(&x), &transpose(&all, rows, k), m, k, rows);
            let c = device.buffer::<f32>(m * rows).unwrap();
            run(&device, |commands| {
                commands.matmul(&Matmul::new(
                    a.matrix(m, k),
                    buffer.tensor_at(offset, dtype).matrix(rows, k).transposed(),
                    c.matrix(m, rows),
                ))
            })
            .unwrap();
            assert_close(&c.to_vec().unwrap(), &want, tolerance(m));
        }
    }

    let ids = device.buffer_from(&[n as u32 - 1, 0, 17]).unwrap();
    let out = device.buffer::<f32>(3 * k).unwrap();
    run(&device, |commands| {
        commands.embedding(&Embedding::new(
            buffer.tensor_at(matrix.offset, dtype).matrix(n, k),
            ids.tensor().vector(3),
            out.matrix(3, k),
        ))
    })
    .unwrap();
    let rows = [n - 1, 0, 17]
        .into_iter()
        .flat_map(|row| &means[row * k..][..k]);
    let want: Vec<f64> = rows.copied().collect();
    assert_close(&out.to_vec().unwrap(), &want, 1e-6);
}

fn bytes_of<T: Element>(values: &[T]) -> (&[T], &[u8], &[T]) {
    // SAFETY: elements are plain old data, and any bytes are bytes.
    unsafe { values.align_to::<u8>() }
}

#[test]
fn weights_of_blocks() {
    for (n, k) in [(64, 96), (75, 32), (33, 64)] {
        let (blocks, means) = oracle::q8_0(&numbers(n * k, 2));
        let tolerance = |m| if m <= 8 { 1e-4 } else { 1e-2 };
        check_weights(&blocks, &means, DType::Q8_0, (n, k), &[1, 4, 20], tolerance);
    }
}

#[test]
fn weights_of_floats() {
    for (n, k) in [(64, 35), (49, 7)] {
        let values: Vec<f16> = numbers(n * k, 2).into_iter().map(f16::from_f32).collect();
        let means: Vec<f64> = values.iter().map(|value| value.to_f64()).collect();
        // NVIDIA's GPUs, whose memory is their own, multiply many rows in tensor cores (docs/NVIDIA.md).
        let exact = device().info().unwrap().unified_memory;
        let tolerance = |m| if exact || m <= 8 { 1e-5 } else { 1e-3 };
        check_weights(&values, &means, DType::F16, (n, k), &[1, 3, 20], tolerance);
        let values = numbers(n * k, 3);
        check_weights(&values, &f64s(&values), DType::F32, (n, k), &[1, 9], |_| {
            1e-5
        });
    }
}

#[test]
fn weights_have_no_other_use() {
    let device = device();
    let matrix = WeightMatrix::new(32, 4, DType::F32);
    let options = device
        .buffer_options()
        .label("gate")
        .usage(BufferUsage::Weights);
    let mut weights = options.create::<f32>(128).unwrap();
    weights.write_weights(&matrix, 0, &[0; 512]).unwrap();
    let x = device.buffer::<f32>(128).unwrap();
    let activation = Activation::new(weights.tensor().vector(128), x.tensor().vector(128));
    let mut commands = device.commands().unwrap();
    for (error, argument) in [
        (commands.relu(&activation).unwrap_err(), "x"),
        (weights.to_vec().unwrap_err(), "buffer"),
        (weights.map().map(drop).unwrap_err(), "buffer"),
        (weights.write(&[0.0; 128]).unwrap_err(), "buffer"),
    ] {
        let text = error.to_string();
        assert!(matches!(error, Error::InvalidArgument(_)), "{text}");
        assert!(
            text.contains(&format!("{argument}: buffer 'gate' holds weights")),
            "{text}"
        );
    }
    let odd = assert_status(weights.write_weights(&matrix, 0, &[0; 17]), Status::Shape);
    assert!(
        odd.to_string().contains("17 bytes are not whole rows"),
        "{odd}"
    );
    let late = assert_status(weights.write_weights(&matrix, 0, &[0; 512]), Status::State);
    assert!(late.to_string().contains("never change"), "{late}");
    assert_status(
        x.write_weights(&matrix, 0, &[0; 512]),
        Status::InvalidArgument,
    );
}
