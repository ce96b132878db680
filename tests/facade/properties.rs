//! Properties over made-up shapes: what fits is right, and what does not is refused before it can reach the device.

use half::f16;
use ironbridge::ops::{
    Activation, AddBias, Argmax, Attention, CopyBytes, CopyRows, Elementwise, Embedding, Fill,
    Matmul, RmsNorm, Rope, RopePairing, Softmax, Transpose,
};
use ironbridge::{Buffer, Commands, DType, Device, Error, Result, Tensor};
use proptest::prelude::*;
use proptest::sample::select;

use crate::oracle;
use crate::support::{assert_close, device, f64s, numbers, run};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any shape, with gaps between rows and batches and an offset before the first, in both orientations.
    #[test]
    fn any_matmul_that_fits_is_right(
        (m, k, n) in (1usize..40, 1usize..70, 1usize..40),
        batch in 1usize..4,
        gaps in prop::array::uniform6(0usize..5),
        start in 0usize..9,
        (transpose_a, transpose_b) in any::<(bool, bool)>(),
    ) {
        let (a_rows, a_columns) = if transpose_a { (k, m) } else { (m, k) };
        let (b_rows, b_columns) = if transpose_b { (n, k) } else { (k, n) };
        let (a_row, b_row, c_row) = (a_columns + gaps[0], b_columns + gaps[1], n + gaps[2]);
        let (a_plane, b_plane, c_plane) =
            (a_rows * a_row + gaps[3], b_rows * b_row + gaps[4], m * c_row + gaps[5]);
        let x = numbers(start + batch * a_plane, 1);
        let w = numbers(start + batch * b_plane, 2);

        let device = device();
        let a = device.buffer_from(&x).unwrap();
        let b = device.buffer_from(&w).unwrap();
        let c = device.buffer_from(&vec![-7.0f32; start + batch * c_plane]).unwrap();
        fn view(buffer: &Buffer<f32>, start: usize, row: usize, plane: usize) -> Tensor<'_> {
            buffer.tensor().skip(start).row_stride(row).batch_stride(plane)
        }
        let matmul = Matmul::new(
            view(&a, start, a_row, a_plane).oriented(m, k, transpose_a),
            view(&b, start, b_row, b_plane).oriented(k, n, transpose_b),
            view(&c, start, c_row, c_plane).matrix(m, n),
        );
        run(&device, |commands| commands.matmul(&matmul.with_batch(batch as u32))).unwrap();

        // The untouched gaps are part of what is wanted.
        let mut want = vec![-7.0; start + batch * c_plane];
        for z in 0..batch {
            let matrix = |all: &[f32], plane, rows, columns, row, transposed| {
                let at = |i: usize| &all[start + z * plane + i * row..][..columns];
                let packed = f64s(&(0..rows).flat_map(at).copied().collect::<Vec<_>>());
                match transposed {
                    true => oracle::transpose(&packed, rows, columns),
                    false => packed,
                }
            };
            let left = matrix(&x, a_plane, a_rows, a_columns, a_row, transpose_a);
            let right = matrix(&w, b_plane, b_rows, b_columns, b_row, transpose_b);
            let product = oracle::matmul(&left, &right, m, k, n);
            for (i, row) in product.chunks(n).enumerate() {
                want[start + z * c_plane + i * c_row..][..n].copy_from_slice(row);
            }
        }
        assert_close(&c.to_vec().unwrap(), &want, 1e-5);
    }

    #[test]
    fn any_part_of_a_buffer_is_read_and_written(
        len in 1usize..3000,
        start in 0usize..3500,
        count in 0usize..3500,
    ) {
        let device = device();
        let mut buffer = device.buffer_from(&vec![1u32; len]).unwrap();
        let fits = count > 0 && start + count <= len;
        prop_assert_eq!(buffer.write_at(start, &vec![2; count]).is_ok(), fits);
        let mut part = vec![0; count];
        prop_assert_eq!(buffer.read_at(start, &mut part).is_ok(), fits);
        let all = buffer.to_vec().unwrap();
        let written = all.iter().filter(|&&element| element == 2).count();
        prop_assert_eq!(written, if fits { count } else { 0 });
        if fits {
            prop_assert!(all[start..start + count].iter().all(|&element| element == 2));
            prop_assert!(part.iter().all(|&element| element == 2));
        }
    }
}

/// Mostly small numbers, that operations fit together from, and some around every limit there is.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        12 => 1usize..6,
        4 => select(vec![8, 32, 64, 96]),
        1 => 0usize..300,
        1 => select(vec![1024, 4096, u32::MAX as usize, 1 << 32, 1 << 62, usize::MAX / 2, usize::MAX - 1, usize::MAX]),
    ]
}

/// Buffers to choose operands from.
struct Stock {
    device: Device,
    floats: [Buffer<f32>; 5],
    halves: Buffer<f16>,
    integers: Buffer<u32>,
}

impl Stock {
    fn new() -> Stock {
        let device = device();
        Stock {
            // The last one is too short for most.
            floats: [8192, 8192, 8192, 8192, 50]
                .map(|len| device.buffer_from(&numbers(len, 3)).unwrap()),
            halves: device.buffer(8192).unwrap(),
            integers: device.buffer(4096).unwrap(),
            device,
        }
    }

    /// Operand number `slot` of an operation.
    fn tensor(&self, operation: usize, slot: usize, choice: &Choice) -> Tensor<'_> {
        let takes_integers = matches!((operation, slot), (EMBEDDING | ROPE | ARGMAX, 1));
        let typed = match choice.buffer {
            Some(index @ 0..=4) => self.floats[index].tensor(),
            Some(5) => self.halves.tensor(),
            Some(6) => self.integers.tensor(),
            Some(7) => self.floats[0].tensor_at(0, DType::Q8_0),
            Some(8) => self.halves.tensor_at(0, DType::Bf16),
            Some(_) => Tensor::default(),
            None if takes_integers => self.integers.tensor(),
            None => self.floats[slot].tensor(),
        };
        typed
            .skip_bytes(choice.offset)
            .row_stride(choice.row_stride)
            .batch_stride(choice.batch_stride)
    }
}

#[derive(Debug, Clone)]
struct Choice {
    /// `None`: one that the operation can use.
    buffer: Option<usize>,
    offset: usize,
    row_stride: usize,
    batch_stride: usize,
}

fn choice() -> impl Strategy<Value = Choice> {
    (
        prop_oneof![8 => Just(None), 1 => (0usize..10).prop_map(Some)],
        prop_oneof![8 => Just(0), 1 => size()],
        prop_oneof![8 => Just(0), 1 => size()],
        prop_oneof![8 => Just(1024), 1 => size()],
    )
        .prop_map(|(buffer, offset, row_stride, batch_stride)| Choice {
            buffer,
            offset,
            row_stride,
            batch_stride,
        })
}

const OPERATIONS: usize = 17;
const EMBEDDING: usize = 1;
const ROPE: usize = 3;
const ARGMAX: usize = 8;

fn record(
    commands: &mut Commands,
    operation: usize,
    sizes: [usize; 7],
    tensors: [Tensor<'_>; 4],
    flag: bool,
) -> Result<()> {
    let [s0, s1, s2, s3, s4, s5, s6] = sizes;
    let [t0, t1, t2, t3] = tensors;
    let elementwise = Elementwise::new(t0.vector(s0), t1.vector(s0), t2.vector(s0));
    let activation = Activation::new(t0.vector(s0), t2.vector(s0));
    let heads = usize::saturating_mul;
    match operation {
        0 => commands.matmul(
            &Matmul::new(
                t0.oriented(s0, s2, s4 % 2 == 1),
                t1.oriented(s2, s1, s5 % 2 == 1),
                t2.matrix(s0, s1),
            )
            .with_bias(flag.then_some(t3.vector(s1)))
            .with_batch((s3 % 3 > 0).then_some(u32::try_from(s3).unwrap_or(1)))
            .with_alpha((s4 % 3 == 0).then_some(s5 as f32))
            .with_beta((s5 % 3) as f32),
        ),
        EMBEDDING => commands.embedding(
            &Embedding::new(t0.matrix(s2, s1), t1.vector(s0), t2.matrix(s0, s1))
                .with_scale(flag.then_some(s3 as f32)),
        ),
        2 => commands.rms_norm(&RmsNorm::new(
            t0.matrix(s0, s1),
            t1.vector(s1),
            t2.matrix(s0, s1),
            if flag { 1e-5 } else { -1.0 },
        )),
        ROPE => commands.rope(
            &Rope::new(t0.matrix(s0, heads(s1, s2)), t1.vector(s0), s2, s5 as f32)
                .with_rotary_dim((s3 % 3 > 0).then_some(s3))
                .with_factors(flag.then_some(t2))
                .with_pairing(if s4 % 2 == 0 {
                    RopePairing::Half
                } else {
                    RopePairing::Interleaved
                })
                .with_frequency_scale(flag.then_some(1.0)),
        ),
        4 => commands.attention(
            &Attention::new(
                t0.matrix(s0, heads(s1, s3)),
                t1.matrix(s4.saturating_add(s0), heads(s2, s3)),
                t3.matrix(s4.saturating_add(s0), heads(s2, s3)),
                t2.matrix(s0, heads(s1, s3)),
                s3,
            )
            .with_window((s5 % 3 > 0).then_some(s5))
            .with_k_head_stride(flag.then_some(s6)),
        ),
        5 => commands.add(&elementwise),
        6 => commands.silu_mul(&elementwise),
        7 => commands.softmax(
            &Softmax::new(t0.matrix(s0, s1), t2.matrix(s0, s1)).with_scale(if flag {
                f32::NAN
            } else {
                0.5
            }),
        ),
        ARGMAX => commands.argmax(&Argmax::new(t0.matrix(s0, s1), t1.vector(s0))),
        9 => commands.copy(&CopyRows::new(t0.matrix(s0, s1), t1.matrix(s0, s1))),
        10 => commands.copy_bytes(&CopyBytes::new(t0, t1, s0)),
        11 => commands.relu(&activation),
        12 => commands.sigmoid(&activation),
        13 => commands.tanh(&activation),
        14 => commands.add_bias(&AddBias::new(
            t0.matrix(s0, s1),
            t1.vector(s1),
            t2.matrix(s0, s1),
        )),
        15 => commands.transpose(&Transpose::new(t0.matrix(s0, s1), t2.matrix(s1, s0))),
        _ => commands.fill(&Fill::new(t0, s0).with_value(1)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the fields say, an operation is refused with a sentence, or it runs to its end: the device, which
    /// watches its bounds, never has to stop one.
    #[test]
    fn no_arguments_get_past_the_checks_and_fail_on_the_device(
        operations in prop::collection::vec(
            (0..OPERATIONS, prop::array::uniform7(size()), prop::array::uniform4(choice()), any::<bool>()),
            1..12,
        ),
    ) {
        let stock = Stock::new();
        let mut commands = stock.device.commands().unwrap();
        let mut recorded = 0;
        for (operation, sizes, choices, flag) in &operations {
            let tensors = std::array::from_fn(|slot| stock.tensor(*operation, slot, &choices[slot]));
            match record(&mut commands, *operation, *sizes, tensors, *flag) {
                Ok(()) => recorded += 1,
                Err(Error::InvalidArgument(failure)) => prop_assert!(failure.message().contains(": ")),
                Err(Error::Unsupported(_)) => {}
                Err(other) => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(commands.info().unwrap().operations, recorded);
        commands.commit().unwrap().wait().unwrap();
        for buffer in &stock.floats {
            buffer.to_vec().unwrap();
        }
    }
}
