//! The other operations, against double precision.

use half::{bf16, f16};
use ironbridge::ops::{
    Activation, AddBias, Argmax, Attention, CopyBytes, CopyRows, Elementwise, Embedding, Fill,
    Matmul, RmsNorm, Rope, RopePairing, Softmax, Transpose,
};
use ironbridge::{Commands, DType, Error, Status};

use crate::oracle;
use crate::support::{
    assert_close, assert_status, device, f64s, f64s_of_halves, halves, numbers, run,
};

#[test]
fn embedding_from_tables_of_every_type() {
    let device = device();
    let (vocab, width) = (50, 64);
    let ids = [3u32, 0, 49, 3];
    let table = numbers(vocab * width, 1);
    let as_f16 = halves(&table);
    let as_bf16: Vec<bf16> = table.iter().map(|&v| bf16::from_f32(v)).collect();
    let (as_q8, q8_means) = oracle::q8_0(&table);
    let f32_buffer = device.buffer_from(&table).unwrap();
    let f16_buffer = device.buffer_from(&as_f16).unwrap();
    let bf16_buffer = device.buffer_from(&as_bf16).unwrap();
    let q8_buffer = device.buffer_from(&as_q8).unwrap();
    let ids_buffer = device.buffer_from(&ids).unwrap();
    for (table, means) in [
        (f32_buffer.tensor(), f64s(&table)),
        (f16_buffer.tensor(), f64s_of_halves(&as_f16)),
        (
            bf16_buffer.tensor(),
            as_bf16.iter().map(|v| v.to_f64()).collect(),
        ),
        (q8_buffer.tensor_at(0, DType::Q8_0), q8_means),
    ] {
        let out = device.buffer::<f32>(ids.len() * width).unwrap();
        run(&device, |commands| {
            commands.embedding(
                &Embedding::new(
                    table.matrix(vocab, width),
                    ids_buffer.tensor().vector(ids.len()),
                    out.matrix(ids.len(), width),
                )
                .with_scale(2.5),
            )
        })
        .unwrap();
        let want: Vec<f64> = ids
            .iter()
            .flat_map(|&id| {
                means[id as usize * width..][..width]
                    .iter()
                    .map(|mean| 2.5 * mean)
            })
            .collect();
        assert_close(&out.to_vec().unwrap(), &want, 1e-6);
    }
}

#[test]
fn an_id_outside_the_table_is_nan_and_not_another_token() {
    let device = device();
    let table = device.buffer_from(&[1.0f32; 8]).unwrap();
    let ids = device.buffer_from(&[1u32, 4, u32::MAX]).unwrap();
    let out = device.buffer::<f32>(6).unwrap();
    run(&device, |commands| {
        commands.embedding(&Embedding::new(
            table.matrix(4, 2),
            ids.tensor().vector(3),
            out.matrix(3, 2),
        ))
    })
    .unwrap();
    let got = out.to_vec().unwrap();
    assert_eq!(got[..2], [1.0, 1.0]);
    assert!(got[2..].iter().all(|value| value.is_nan()));
}

#[test]
fn rms_norm_of_rows_and_in_place() {
    let device = device();
    for (rows, width, eps) in [(1, 1, 0.0f32), (5, 64, 1e-5), (3, 1000, 1e-6)] {
        let (x, weight) = (numbers(rows * width, 1), numbers(width, 2));
        let want = oracle::rms_norm(&f64s(&x), &f64s(&weight), eps.into());
        let x = device.buffer_from(&x).unwrap();
        let weight = device.buffer_from(&weight).unwrap();
        let out = device.buffer::<f32>(rows * width).unwrap();
        let norm = RmsNorm::new(
            x.matrix(rows, width),
            weight.tensor().vector(width),
            out.matrix(rows, width),
            eps,
        );
        run(&device, |commands| {
            let x = x.matrix(rows, width);
            commands.rms_norm(&norm)?;
            commands.rms_norm(&RmsNorm::new(x, weight.tensor(), x, eps))
        })
        .unwrap();
        assert_close(&out.to_vec().unwrap(), &want, 1e-5);
        assert_close(&x.to_vec().unwrap(), &want, 1e-5);
    }
}

#[test]
fn rope_in_both_pairings_with_factors_and_a_part_of_the_head() {
    let device = device();
    let (tokens, heads, head_dim) = (4, 3, 16);
    let positions = [0u32, 5, 6, 1000];
    let x = numbers(tokens * heads * head_dim, 1);
    let factors: Vec<f32> = (0..8).map(|i| 1.0 + i as f32 / 4.0).collect();
    for (pairing, rotary_dim, has_factors, frequency_scale) in [
        (RopePairing::Interleaved, 16, false, 1.0f32),
        (RopePairing::Half, 16, false, 0.25),
        (RopePairing::Interleaved, 8, true, 1.0),
        (RopePairing::Half, 8, true, 0.5),
    ] {
        let rope = oracle::Rope {
            heads,
            head_dim,
            rotary_dim,
            pairing,
            frequency_base: 10_000.0,
            frequency_scale,
        };
        let divisors = has_factors.then_some(&factors[..]);
        let want = oracle::rope(&rope, &f64s(&x), &positions, divisors);
        let buffer = device.buffer_from(&x).unwrap();
        let positions = device.buffer_from(&positions).unwrap();
        let factors = device.buffer_from(&factors).unwrap();
        run(&device, |commands| {
            let x = buffer.matrix(tokens, heads * head_dim);
            let rope = Rope::new(x, positions.tensor(), head_dim, rope.frequency_base)
                .with_rotary_dim((rotary_dim < head_dim).then_some(rotary_dim))
                .with_factors(has_factors.then_some(factors.tensor().vector(rotary_dim / 2)))
                .with_pairing(pairing)
                .with_frequency_scale(frequency_scale);
            commands.rope(&rope)
        })
        .unwrap();
        // An f32 angle of 1000 radians is good to 1000 · 2⁻²⁴.
        assert_close(&buffer.to_vec().unwrap(), &want, 2e-4);
    }
}

#[test]
fn attention_over_caches_of_every_float_and_order() {
    let device = device();
    for (tokens, heads, kv_heads, head_dim, first_position, window) in [
        (1, 1, 1, 8, 0, 0),
        (7, 4, 4, 16, 0, 0),
        (1, 8, 2, 64, 30, 0),
        (5, 6, 3, 32, 11, 4),
        (3, 2, 1, 256, 20, 100),
        // Many queries, in tiles; then many keys, in pieces.
        (40, 4, 2, 64, 9, 0),
        (33, 2, 1, 100, 0, 20),
        (9, 2, 2, 200, 3, 0),
        (1, 4, 2, 64, 700, 0),
        (3, 2, 1, 40, 900, 600),
    ] {
        let capacity = first_position + tokens + 4;
        let q = numbers(tokens * heads * head_dim, 1);
        // Numbers that every type has.
        let short = |seed| {
            let numbers = numbers(capacity * kv_heads * head_dim, seed);
            let brain = numbers.into_iter().map(bf16::from_f32);
            halves(&brain.map(bf16::to_f32).collect::<Vec<_>>())
        };
        let (k, v) = (short(2), short(3));
        let widen = |values: &[f16]| values.iter().map(|v| v.to_f32()).collect::<Vec<f32>>();
        let q_buffer = device.buffer_from(&q).unwrap();
        let (k16, v16) = (
            device.buffer_from(&k).unwrap(),
            device.buffer_from(&v).unwrap(),
        );
        let (k32, v32) = (
            device.buffer_from(&widen(&k)).unwrap(),
            device.buffer_from(&widen(&v)).unwrap(),
        );
        let brains = |values: &[f16]| {
            let wide = widen(values).into_iter();
            wide.map(bf16::from_f32).collect::<Vec<_>>()
        };
        let (kb16, vb16) = (
            device.buffer_from(&brains(&k)).unwrap(),
            device.buffer_from(&brains(&v)).unwrap(),
        );
        for (k_tensor, v_tensor) in [
            (k32.tensor(), v32.tensor()),
            (k16.tensor(), v16.tensor()),
            (kb16.tensor(), vb16.tensor()),
        ] {
            // Position-major, then head-major.
            for (position_stride, head_stride) in [
                (kv_heads * head_dim, head_dim),
                (head_dim, capacity * head_dim),
            ] {
                let out = device.buffer::<f32>(tokens * heads * head_dim).unwrap();
                let attention = Attention::new(
                    q_buffer.matrix(tokens, heads * head_dim),
                    k_tensor
                        .row_stride(position_stride)
                        .matrix(first_position + tokens, kv_heads * head_dim),
                    v_tensor
                        .row_stride(position_stride)
                        .matrix(first_position + tokens, kv_heads * head_dim),
                    out.matrix(tokens, heads * head_dim),
                    head_dim,
                )
                .with_window((window > 0).then_some(window))
                .with_k_head_stride(head_stride)
                .with_v_head_stride(head_stride);
                let shape = oracle::Attention {
                    tokens,
                    heads,
                    kv_heads,
                    head_dim,
                    first_position,
                    window: (window > 0).then_some(window),
                };
                let cache = |values: &[f16]| oracle::Cache {
                    values: f64s_of_halves(values),
                    position_stride,
                    head_stride,
                };
                let (keys, values) = (cache(&k), cache(&v));
                run(&device, |commands| commands.attention(&attention)).unwrap();
                let scale = 1.0 / (head_dim as f64).sqrt();
                let want = oracle::attention(&shape, &f64s(&q), &keys, &values, scale);
                assert_close(&out.to_vec().unwrap(), &want, 1e-5);

                run(&device, |commands| {
                    commands.attention(&attention.with_scale(0.5))
                })
                .unwrap();
                let want = oracle::attention(&shape, &f64s(&q), &keys, &values, 0.5);
                assert_close(&out.to_vec().unwrap(), &want, 1e-5);
            }
        }
    }
}

#[test]
fn add_silu_mul_and_gelu_mul_also_in_place() {
    let device = device();
    for count in [1, 7, 64, 10_007] {
        let (x, y) = (numbers(count, 1), numbers(count, 2));
        let y: Vec<f32> = y.iter().map(|v| v * 20.0).collect();
        let a = device.buffer_from(&x).unwrap();
        let b = device.buffer_from(&y).unwrap();
        let sum = device.buffer::<f32>(count).unwrap();
        let by_gelu = device.buffer::<f32>(count).unwrap();
        run(&device, |commands| {
            commands.gelu_mul(&Elementwise::new(
                b.tensor().vector(count),
                a.tensor().vector(count),
                by_gelu.tensor().vector(count),
            ))?;
            commands.add(&Elementwise::new(
                a.tensor().vector(count),
                b.tensor().vector(count),
                sum.tensor().vector(count),
            ))?;
            commands.silu_mul(&Elementwise::new(
                b.tensor().vector(count),
                a.tensor().vector(count),
                b.tensor().vector(count),
            ))
        })
        .unwrap();
        let plain: Vec<f64> = x.iter().zip(&y).map(|(x, y)| f64::from(x + y)).collect();
        assert_close(&sum.to_vec().unwrap(), &plain, 0.0);
        let gated: Vec<f64> = f64s(&x)
            .iter()
            .zip(f64s(&y))
            .map(|(x, y)| oracle::silu(y) * x)
            .collect();
        assert_close(&b.to_vec().unwrap(), &gated, 1e-6);
        let gated: Vec<f64> = f64s(&x)
            .iter()
            .zip(f64s(&y))
            .map(|(x, y)| oracle::gelu(y) * x)
            .collect();
        assert_close(&by_gelu.to_vec().unwrap(), &gated, 2e-6);
    }
}

#[test]
fn activations_also_in_place() {
    let device = device();
    let x: Vec<f32> = numbers(1003, 1).iter().map(|v| v * 20.0).collect();
    type Record = fn(&mut Commands, &Activation<'_>) -> ironbridge::Result<()>;
    type Function = fn(f64) -> f64;
    let functions: [(Record, Function); 3] = [
        (|commands, operands| commands.relu(operands), oracle::relu),
        (
            |commands, operands| commands.sigmoid(operands),
            oracle::sigmoid,
        ),
        (|commands, operands| commands.tanh(operands), f64::tanh),
    ];
    for (record, function) in functions {
        let want: Vec<f64> = f64s(&x).into_iter().map(function).collect();
        let x = device.buffer_from(&x).unwrap();
        let out = device.buffer::<f32>(1003).unwrap();
        let operands = Activation::new(x.tensor().vector(1003), out.tensor().vector(1003));
        run(&device, |commands| {
            record(commands, &operands)?;
            record(commands, &Activation::new(x.tensor(), x.tensor()))
        })
        .unwrap();
        assert_close(&out.to_vec().unwrap(), &want, 1e-6);
        assert_close(&x.to_vec().unwrap(), &want, 1e-6);
    }
}

#[test]
fn a_bias_for_every_row_and_a_transpose() {
    let device = device();
    let (rows, width) = (5, 33);
    let (x, bias) = (numbers(rows * width, 1), numbers(width, 2));
    let biased: Vec<f64> = x
        .iter()
        .enumerate()
        .map(|(i, x)| f64::from(x + bias[i % width]))
        .collect();
    let want = oracle::transpose(&biased, rows, width);
    let x = device.buffer_from(&x).unwrap();
    let bias = device.buffer_from(&bias).unwrap();
    let out = device.buffer::<f32>(rows * width).unwrap();
    run(&device, |commands| {
        commands.add_bias(&AddBias::new(
            x.matrix(rows, width),
            bias.tensor().vector(width),
            x.matrix(rows, width),
        ))?;
        commands.transpose(&Transpose::new(
            x.matrix(rows, width),
            out.matrix(width, rows),
        ))
    })
    .unwrap();
    assert_close(&x.to_vec().unwrap(), &biased, 0.0);
    assert_close(&out.to_vec().unwrap(), &want, 0.0);
}

/// Keys and values go into a cache of Q8_0, row by row, and attention reads them from there.
#[test]
fn attention_over_a_quantised_cache() {
    let device = device();
    let (positions, kv_heads, heads, head_dim) = (40, 2, 4, 64);
    let width = kv_heads * head_dim;
    let (k, v) = (numbers(positions * width, 2), numbers(positions * width, 3));
    let q = numbers(heads * head_dim, 1);
    let bytes = DType::Q8_0.bytes(positions * width).unwrap();
    let (k_cache, v_cache) = (
        device.buffer::<u8>(bytes).unwrap(),
        device.buffer::<u8>(bytes).unwrap(),
    );
    let dequantised = device.buffer::<f32>(positions * width).unwrap();
    let q_buffer = device.buffer_from(&q).unwrap();
    let out = device.buffer::<f32>(heads * head_dim).unwrap();
    let (k_new, v_new) = (
        device.buffer_from(&k).unwrap(),
        device.buffer_from(&v).unwrap(),
    );
    let blocks = |cache| ironbridge::Buffer::tensor_at(cache, 0, DType::Q8_0);
    let attention = Attention::new(
        q_buffer.matrix(1, heads * head_dim),
        blocks(&k_cache).matrix(positions, kv_heads * head_dim),
        blocks(&v_cache).matrix(positions, kv_heads * head_dim),
        out.matrix(1, heads * head_dim),
        head_dim,
    );
    let mut means = Vec::new();
    for (new, cache) in [(&k_new, &k_cache), (&v_new, &v_cache)] {
        run(&device, |commands| {
            // The last position apart from the others, as decoding would write it.
            for (first, rows) in [(0, positions - 1), (positions - 1, 1)] {
                commands.copy(&CopyRows::new(
                    new.tensor().skip(first * width).matrix(rows, width),
                    blocks(cache).skip(first * width).matrix(rows, width),
                ))?;
            }
            commands.copy(&CopyRows::new(
                blocks(cache).matrix(positions, width),
                dequantised.matrix(positions, width),
            ))
        })
        .unwrap();
        let values = f64s(&dequantised.to_vec().unwrap());
        // Half of a step of 1 / 127, and the rounding of the scale.
        assert_close(&new.to_vec().unwrap(), &values, 0.5 / 127.0 + 1.0 / 2048.0);
        means.push(oracle::Cache {
            values,
            position_stride: width,
            head_stride: head_dim,
        });
    }
    run(&device, |commands| commands.attention(&attention)).unwrap();
    let scale = 1.0 / (head_dim as f64).sqrt();
    let shape = oracle::Attention {
        tokens: 1,
        heads,
        kv_heads,
        head_dim,
        first_position: positions - 1,
        window: None,
    };
    let want = oracle::attention(&shape, &f64s(&q), &means[0], &means[1], scale);
    assert_close(&out.to_vec().unwrap(), &want, 1e-5);
}

#[test]
fn softmax_of_rows_and_in_place() {
    let device = device();
    for (rows, width, scale) in [(1, 1, 1.0f32), (4, 33, 0.125), (3, 1000, 80.0)] {
        let x = numbers(rows * width, 1);
        let want: Vec<f64> = x
            .chunks(width)
            .flat_map(|row| oracle::softmax(&f64s(row), scale.into()))
            .collect();
        let x = device.buffer_from(&x).unwrap();
        let out = device.buffer::<f32>(rows * width).unwrap();
        let softmax =
            Softmax::new(x.matrix(rows, width), out.matrix(rows, width)).with_scale(scale);
        run(&device, |commands| {
            commands.softmax(&softmax)?;
            let x = x.matrix(rows, width);
            commands.softmax(&Softmax::new(x, x).with_scale(scale))
        })
        .unwrap();
        assert_close(&out.to_vec().unwrap(), &want, 1e-5);
        assert_close(&x.to_vec().unwrap(), &want, 1e-5);
    }
}

#[test]
fn softmax_takes_a_scale_of_one_by_default_and_masks_by_infinity() {
    let device = device();
    let x = device
        .buffer_from(&[
            f32::NEG_INFINITY,
            0.0,
            1.0,
            f32::NEG_INFINITY,
            f32::NEG_INFINITY,
            f32::NEG_INFINITY,
        ])
        .unwrap();
    run(&device, |commands| {
        commands.softmax(&Softmax::new(x.matrix(2, 3), x.matrix(2, 3)))
    })
    .unwrap();
    let got = x.to_vec().unwrap();
    assert_close(
        &got[..3],
        &oracle::softmax(&[f64::NEG_INFINITY, 0.0, 1.0], 1.0),
        1e-6,
    );
    assert!(got[3..].iter().all(|value| value.is_nan()));
}

#[test]
fn argmax_takes_the_lowest_index_and_no_nan() {
    let device = device();
    let rows = [
        [1.0, 3.0, 3.0, 2.0],
        [f32::NAN, -5.0, f32::NAN, -5.0],
        [f32::NEG_INFINITY; 4],
        [0.0, f32::INFINITY, f32::NAN, 1.0],
    ];
    let x = device.buffer_from(rows.as_flattened()).unwrap();
    let out = device.buffer::<u32>(4).unwrap();
    let long = numbers(100_003, 5);
    let long_buffer = device.buffer_from(&long).unwrap();
    let long_out = device.buffer::<u32>(1).unwrap();
    run(&device, |commands| {
        commands.argmax(&Argmax::new(x.matrix(4, 4), out.tensor().vector(4)))?;
        commands.argmax(&Argmax::new(
            long_buffer.matrix(1, long.len()),
            long_out.tensor().vector(1),
        ))
    })
    .unwrap();
    assert_eq!(out.to_vec().unwrap(), [1, 1, 0, 1]);
    let largest = (0..long.len()).fold(0, |best, i| if long[i] > long[best] { i } else { best });
    assert_eq!(long_out.to_vec().unwrap(), [largest as u32]);
}

#[test]
fn copies_convert_to_the_nearest() {
    let device = device();
    let x: Vec<f32> = numbers(60, 1).iter().map(|v| v * 1e3).collect();
    let src = device.buffer_from(&x).unwrap();
    let as_f16 = device.buffer::<f16>(60).unwrap();
    let as_bf16 = device.buffer::<bf16>(60).unwrap();
    let back = device.buffer::<f32>(60).unwrap();
    // Six rows of ten, of which five columns move, into packed rows.
    run(&device, |commands| {
        let whole = CopyRows::new(src.matrix(6, 10), as_f16.matrix(6, 10));
        commands.copy(&whole)?;
        commands.copy(&CopyRows::new(src.matrix(6, 10), as_bf16.matrix(6, 10)))?;
        commands.copy(&CopyRows::new(
            as_f16.tensor().skip(5).row_stride(10).matrix(6, 5),
            back.matrix(6, 5),
        ))
    })
    .unwrap();
    assert_eq!(as_f16.to_vec().unwrap(), halves(&x));
    let want: Vec<bf16> = x.iter().map(|&v| bf16::from_f32(v)).collect();
    assert_eq!(as_bf16.to_vec().unwrap(), want);
    let want: Vec<f32> = halves(&x)
        .chunks(10)
        .flat_map(|row| row[5..].iter().map(|v| v.to_f32()))
        .collect();
    let got = back.to_vec().unwrap();
    assert_eq!(got[..30], want);
    assert_eq!(got[30..], [0.0; 30]);
}

#[test]
fn bytes_are_copied_and_filled_exactly() {
    let device = device();
    let src = device.buffer_from(&[1u32, 2, 3, 4, 5]).unwrap();
    let dst = device.buffer_from(&[9u32; 5]).unwrap();
    run(&device, |commands| {
        commands.copy_bytes(&CopyBytes::new(
            src.tensor().skip(2),
            dst.tensor().skip(1),
            8,
        ))?;
        commands.copy_bytes(&CopyBytes::new(src.tensor(), src.tensor().skip(4), 4))?;
        commands.fill(&Fill::new(dst.tensor().skip(4), 4).with_value(0xAB))
    })
    .unwrap();
    assert_eq!(dst.to_vec().unwrap(), [9, 3, 4, 9, 0xABAB_ABAB]);
    assert_eq!(src.to_vec().unwrap(), [1, 2, 3, 4, 1]);

    let mut commands = device.commands().unwrap();
    for (case, result) in [
        (
            "overlap",
            commands.copy_bytes(&CopyBytes::new(src.tensor(), src.tensor().skip(1), 8)),
        ),
        (
            "past the end",
            commands.copy_bytes(&CopyBytes::new(src.tensor().skip(4), dst.tensor(), 8)),
        ),
        (
            "odd length",
            commands.fill(&Fill::new(dst.tensor(), 3).with_value(0)),
        ),
        (
            "no buffer",
            commands.fill(&Fill::new(Default::default(), 4)),
        ),
    ] {
        assert!(
            matches!(result, Err(Error::InvalidArgument(_))),
            "{case}: {result:?}"
        );
    }
}

#[test]
fn the_defaults_are_refused_by_every_operation() {
    let device = device();
    let mut commands = device.commands().unwrap();
    let results = [
        commands.matmul(&Default::default()),
        commands.embedding(&Default::default()),
        commands.rms_norm(&Default::default()),
        commands.rope(&Default::default()),
        commands.attention(&Default::default()),
        commands.add(&Default::default()),
        commands.silu_mul(&Default::default()),
        commands.softmax(&Default::default()),
        commands.argmax(&Default::default()),
        commands.tanh_backward(&Default::default()),
        commands.linear_backward(&Default::default()),
        commands.silu_mul_backward(&Default::default()),
        commands.gelu_mul_backward(&Default::default()),
        commands.rms_norm_backward(&Default::default()),
        commands.softmax_backward(&Default::default()),
        commands.embedding_backward(&Default::default()),
        commands.attention_backward(&Default::default()),
        commands.sum_rows(&Default::default()),
        commands.sum_squares(&Default::default()),
        commands.clip_norm(&Default::default()),
        commands.mse(&Default::default()),
        commands.cross_entropy(&Default::default()),
        commands.sgd_step(&Default::default()),
        commands.adam_step(&Default::default()),
        commands.copy(&Default::default()),
        commands.copy_bytes(&Default::default()),
        commands.fill(&Default::default()),
    ];
    for (index, result) in results.into_iter().enumerate() {
        assert!(
            matches!(result, Err(Error::InvalidArgument(_))),
            "{index}: {result:?}"
        );
    }
    assert_eq!(commands.info().unwrap().operations, 0);
}

/// What is left out has a default; a zero that somebody gives is none.
#[test]
fn numbers_that_are_given_are_not_zero() {
    let device = device();
    let mut commands = device.commands().unwrap();
    let buffer = device.buffer::<f32>(64).unwrap();
    let ids = device.buffer::<u32>(1).unwrap();
    let row = buffer.matrix(1, 8);
    let matmul = Matmul::new(buffer.matrix(1, 1), row, row);
    let rope = Rope::new(row, ids.tensor(), 8, 1e4);
    let attention = Attention::new(row, row, row, row, 8);
    let embedding = Embedding::new(row, ids.tensor(), row);
    for (result, name) in [
        (commands.matmul(&matmul.with_batch(0)), "batch"),
        (commands.matmul(&matmul.with_alpha(0.0)), "alpha"),
        (commands.rope(&rope.with_rotary_dim(0)), "rotary_dim"),
        (
            commands.rope(&rope.with_frequency_scale(0.0)),
            "frequency_scale",
        ),
        (
            commands.softmax(&Softmax::new(row, row).with_scale(0.0)),
            "scale",
        ),
        (commands.embedding(&embedding.with_scale(0.0)), "scale"),
        (commands.attention(&attention.with_window(0)), "window"),
        (
            commands.attention(&attention.with_k_head_stride(0)),
            "k_head_stride",
        ),
        (
            commands.attention(&attention.with_v_head_stride(0)),
            "v_head_stride",
        ),
        (commands.attention(&attention.with_scale(-0.0)), "scale"),
    ] {
        let error = assert_status(result, Status::InvalidArgument);
        assert!(
            error.to_string().contains(&format!("{name}: is 0")),
            "{error}"
        );
    }
    assert_eq!(commands.info().unwrap().operations, 0);
}

/// Sizes follow from shapes, so that these must fit each other; the error names the operand.
#[test]
fn shapes_that_do_not_fit_are_refused_by_name() {
    let device = device();
    let mut commands = device.commands().unwrap();
    let (floats, ids) = (
        device.buffer::<f32>(64).unwrap(),
        device.buffer::<u32>(8).unwrap(),
    );
    let of = |rows, columns| floats.matrix(rows, columns);
    let (wide, tall) = (of(2, 6), of(6, 2));
    for (result, message) in [
        (
            commands.matmul(&Matmul::new(wide, wide, wide)),
            "b: is 2 × 6, and 6 × 6 is needed",
        ),
        (
            commands.matmul(&Matmul::new(wide, wide.transposed(), wide)),
            "c: is 2 × 6, and 2 × 2 is needed",
        ),
        (
            commands.softmax(&Softmax::new(wide, tall)),
            "out: is 6 × 2, and 2 × 6 is needed",
        ),
        (
            commands.softmax(&Softmax::new(wide.transposed(), tall)),
            "x: is transposed, which this operation does not take",
        ),
        (
            commands.add(&Elementwise::new(wide, of(2, 5), wide)),
            "b: has 10 elements, and 12 are needed",
        ),
        (
            commands.embedding(&Embedding::new(wide, ids.tensor(), wide)),
            "out: is 2 × 6, and 8 × 6 is needed",
        ),
        (
            commands.rope(&Rope::new(wide, ids.tensor().vector(2), 4, 1e4)),
            "x: a row has 6 elements, and heads have 4",
        ),
        (
            commands.rope(&Rope::new(wide, ids.tensor().vector(2), 0, 1e4)),
            "head_dim: is 0",
        ),
        (
            commands.attention(&Attention::new(wide, of(1, 6), of(1, 6), wide, 6)),
            "k: has 1 positions, and q has 2",
        ),
        (
            commands.argmax(&Argmax::new(of(usize::MAX, 2), ids.tensor())),
            "out: has 8 elements",
        ),
        (
            commands.relu(&Activation::new(of(usize::MAX, 2), wide)),
            "x: 18446744073709551615 × 2 elements overflow",
        ),
    ] {
        let error = assert_status(result, Status::InvalidArgument);
        assert!(error.to_string().contains(message), "{error}");
    }
    assert_eq!(commands.info().unwrap().operations, 0);
}
