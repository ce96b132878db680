//! Attention, by each of its kernels: query by query, in tiles for heads of each size, and in pieces.

use ironbridge::DType;
use ironbridge::ops::Attention;
use serial_test::serial;

use crate::kernel_matrix::EDGES;
use crate::kernel_matrix::typed::{FLOATS, Typed, floats};
use crate::kernel_matrix::ways::{Output, Want, Ways, within};
use crate::oracle::{self, Cache};

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub cache: DType,
    pub tokens: usize,
    pub kv_heads: usize,
    /// Heads of the queries that share one of the keys.
    pub group: usize,
    pub head_dim: usize,
    pub first_position: usize,
    pub window: usize,
    /// One head after the other in the cache, not one position after the other.
    pub head_major: bool,
    /// Of the scores, beside the usual one.
    pub scale: f64,
}

/// One query and one key.
pub const PLAIN: Case = Case {
    cache: DType::F32,
    tokens: 1,
    kv_heads: 1,
    group: 2,
    head_dim: 64,
    first_position: 0,
    window: 0,
    head_major: false,
    scale: 1.0,
};

pub fn check(ways: &Ways, case: Case) {
    let Case {
        tokens,
        kv_heads,
        head_dim,
        ..
    } = case;
    let heads = kv_heads * case.group;
    let positions = case.first_position + tokens;
    let (position_stride, head_stride) = match case.head_major {
        true => (head_dim, positions * head_dim),
        false => (kv_heads * head_dim, head_dim),
    };
    let (q, q_values) = floats(tokens * heads * head_dim, 1);
    let cache = |seed| Typed::made_up(case.cache, positions * kv_heads * head_dim, seed);
    let (k, v) = (cache(2), cache(3));
    let shape = oracle::Attention {
        tokens,
        heads,
        kv_heads,
        head_dim,
        first_position: case.first_position,
        window: (case.window > 0).then_some(case.window),
    };
    let laid_out = |typed: &Typed| Cache {
        values: typed.values.clone(),
        position_stride,
        head_stride,
    };
    let scale = case.scale / (head_dim as f64).sqrt();
    let values = oracle::attention(&shape, &q_values, &laid_out(&k), &laid_out(&v), scale);
    // Scores below head_dim · scale lose some 1e-5, values are below 1.
    let want: Vec<Want> = (values.into_iter())
        .map(|value| within(value, 2e-5 * case.scale))
        .collect();
    let gap = tokens % 3;
    let width = heads * head_dim;
    let output = Output::strided(DType::F32, tokens, width, width + gap);
    ways.check(
        &format!("{case:?}"),
        &[&q, &k, &v],
        &output,
        &want,
        |commands, inputs, out| {
            let [k, v] = [inputs[1], inputs[2]].map(|of| {
                let rows = of.matrix(positions, kv_heads * head_dim);
                rows.row_stride(position_stride)
            });
            commands.attention(
                &Attention::new(
                    inputs[0].matrix(tokens, width),
                    k,
                    v,
                    out.matrix(tokens, width),
                    head_dim,
                )
                .with_window(shape.window)
                .with_scale(scale as f32)
                .with_k_head_stride(head_stride)
                .with_v_head_stride(head_stride),
            )
        },
    );
}

fn check_type(cache: DType) {
    let ways = Ways::open();
    let dim = |head_dim: usize| head_dim.next_multiple_of(cache.block_elements());
    let plain = Case {
        cache,
        tokens: 3,
        head_dim: dim(40),
        ..PLAIN
    };
    for (index, edge) in EDGES.into_iter().enumerate() {
        let head_major = index % 2 == 1;
        check(
            &ways,
            Case {
                tokens: edge,
                head_major,
                ..plain
            },
        );
        check(
            &ways,
            Case {
                first_position: edge,
                kv_heads: 2,
                window: if head_major { 30 } else { 0 },
                ..plain
            },
        );
        check(
            &ways,
            Case {
                first_position: 20,
                head_dim: dim(edge.min(256)),
                ..plain
            },
        );
    }
    // Tiles for larger heads, and pieces of many keys.
    for (tokens, head_dim, first_position, window) in [
        (33, 100, 0, 0),
        (63, 128, 3, 20),
        (9, 200, 31, 0),
        (32, 256, 0, 7),
        (1, 64, 700, 0),
        (3, 40, 900, 600),
        (8, 256, 511, 0),
    ] {
        check(
            &ways,
            Case {
                tokens,
                head_dim: dim(head_dim),
                first_position,
                window,
                kv_heads: 2,
                ..plain
            },
        );
    }
}

#[test]
#[serial]
fn attention_over_floats() {
    FLOATS.into_iter().for_each(check_type);
}

#[test]
#[serial]
fn attention_over_blocks() {
    check_type(DType::Q8_0);
}
