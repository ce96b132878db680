//! Q, K, V and O of grouped-query attention.

use ironbridge::projections::{AttentionProjections, Projected, Projection, WeightLayout};
use ironbridge::{DType, Device};

use crate::oracle::{self, transpose};
use crate::support::{assert_close, device, f64s, numbers};

const TOKENS: usize = 15;
const D_MODEL: usize = 96;
const HEADS: usize = 6;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 16;
const KV_DIM: usize = KV_HEADS * HEAD_DIM;

fn check(device: &Device, layout: WeightLayout) {
    let x = numbers(TOKENS * D_MODEL, 1);
    let outputs = [
        (Projection::Q, D_MODEL),
        (Projection::K, KV_DIM),
        (Projection::V, KV_DIM),
        (Projection::O, D_MODEL),
    ];
    let weights: Vec<Vec<f32>> = outputs
        .iter()
        .enumerate()
        .map(|(index, (_, outputs))| numbers(D_MODEL * outputs, 2 + index as u64))
        .collect();
    let stored: Vec<_> = weights
        .iter()
        .map(|weight| match layout {
            WeightLayout::InputByOutput => device.buffer_from(weight).unwrap(),
            WeightLayout::OutputByInput => {
                let outputs = weight.len() / D_MODEL;
                let transposed = transpose(weight, D_MODEL, outputs);
                device.buffer_from(&transposed).unwrap()
            }
        })
        .collect();
    let projections = AttentionProjections {
        d_model: D_MODEL,
        heads: HEADS,
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        layout,
        wq: stored[0].tensor(),
        wk: stored[1].tensor(),
        wv: stored[2].tensor(),
        wo: stored[3].tensor(),
    };
    let input = device.buffer_from(&x).unwrap();
    let buffer = |width: usize| device.buffer::<f32>(TOKENS * width).unwrap();

    let together = [buffer(D_MODEL), buffer(KV_DIM), buffer(KV_DIM)];
    let pending = projections
        .qkv(
            device,
            TOKENS,
            input.tensor(),
            Projected {
                q: together[0].tensor(),
                k: together[1].tensor(),
                v: together[2].tensor(),
            },
        )
        .unwrap();
    pending.wait().unwrap();
    let info = pending.info().unwrap();
    assert_eq!((info.operations, info.command_buffers), (3, 1));

    for (index, (which, width)) in outputs.into_iter().enumerate() {
        let alone = buffer(width);
        projections
            .project(device, which, TOKENS, input.tensor(), alone.tensor())
            .unwrap()
            .wait()
            .unwrap();
        let alone = alone.to_vec().unwrap();
        let want = oracle::matmul(&f64s(&x), &f64s(&weights[index]), TOKENS, D_MODEL, width);
        assert_close(&alone, &want, 1e-5);
        if let Some(together) = together.get(index) {
            assert_eq!(together.to_vec().unwrap(), alone, "{which:?}");
        }
    }
}

#[test]
fn together_and_each_alone_are_equal_in_both_layouts() {
    let device = device();
    check(&device, WeightLayout::InputByOutput);
    check(&device, WeightLayout::OutputByInput);
}

#[test]
fn an_output_of_the_wrong_width_is_refused() {
    let device = device();
    let weights = device.buffer::<f32>(D_MODEL * D_MODEL).unwrap();
    let x = device.buffer::<f32>(TOKENS * D_MODEL).unwrap();
    let short = device.buffer::<f32>(TOKENS * KV_DIM).unwrap();
    let projections = AttentionProjections {
        d_model: D_MODEL,
        heads: HEADS,
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        layout: WeightLayout::OutputByInput,
        wq: weights.tensor(),
        wk: weights.tensor(),
        wv: weights.tensor(),
        wo: weights.tensor(),
    };
    let project = |which| projections.project(&device, which, TOKENS, x.tensor(), short.tensor());
    assert!(project(Projection::Q).is_err());
    assert!(project(Projection::O).is_err());
    project(Projection::K).unwrap().wait().unwrap();

    let huge = AttentionProjections {
        heads: usize::MAX,
        ..projections
    };
    let overflow = huge.project(&device, Projection::Q, TOKENS, x.tensor(), short.tensor());
    assert!(overflow.is_err());
}

/// What is wrong is named as the caller knows it: x, wq, out and d_model, not a, b, c and k.
#[test]
fn errors_name_the_arguments_of_projections() {
    let device = device();
    let weights = device.buffer::<f32>(D_MODEL * D_MODEL).unwrap();
    let x = device.buffer::<f32>(TOKENS * D_MODEL).unwrap();
    let short = device.buffer::<f32>(1).unwrap();
    let right = AttentionProjections {
        d_model: D_MODEL,
        heads: HEADS,
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        layout: WeightLayout::InputByOutput,
        wq: weights.tensor(),
        wk: weights.tensor(),
        wv: weights.tensor(),
        wo: weights.tensor(),
    };
    let out = device.buffer::<f32>(TOKENS * D_MODEL).unwrap();
    let message = |of: AttentionProjections<'_>, which, tokens, x, out| -> String {
        let made = of.project(&device, which, tokens, x, out);
        made.unwrap_err().to_string()
    };
    let (x, out, short) = (x.tensor(), out.tensor(), short.tensor());
    let needs = |name: &str| format!("{name}: ");
    for (which, weight) in [
        (Projection::Q, "wq"),
        (Projection::K, "wk"),
        (Projection::V, "wv"),
        (Projection::O, "wo"),
    ] {
        let wrong = AttentionProjections {
            wq: short,
            wk: short,
            wv: short,
            wo: short,
            ..right
        };
        let text = message(wrong, which, TOKENS, x, out);
        assert!(text.starts_with(&needs(weight)), "{text}");
        let text = message(right, which, TOKENS, short, out);
        assert!(text.starts_with("x: "), "{text}");
        let text = message(right, which, TOKENS, x, short);
        assert!(text.starts_with("out: "), "{text}");
        assert_eq!(message(right, which, 0, x, out), "tokens: is 0");
        let text = message(right, which, TOKENS, x, x);
        assert_eq!(text, "out: overlaps x");
    }
    let none = AttentionProjections {
        d_model: 0,
        ..right
    };
    assert_eq!(
        message(none, Projection::K, TOKENS, x, out),
        "d_model: is 0"
    );
    let none = AttentionProjections {
        kv_heads: 0,
        ..right
    };
    let text = message(none, Projection::K, TOKENS, x, out);
    assert_eq!(text, "kv_heads · head_dim: is 0");
    let uneven = AttentionProjections {
        heads: 8,
        kv_heads: 3,
        ..right
    };
    let text = message(uneven, Projection::Q, TOKENS, x, out);
    assert_eq!(text, "heads: 8 is no multiple of kv_heads, which is 3");
    let blocks = device.buffer::<u8>(34 * D_MODEL * D_MODEL / 32).unwrap();
    let blocks = AttentionProjections {
        wk: blocks.tensor_at(0, DType::Q8_0),
        ..right
    };
    let text = message(blocks, Projection::K, TOKENS, x, out);
    assert!(
        text.starts_with("wk: Q8_0 ") && !text.contains("transpose_b"),
        "{text}"
    );

    let mut commands = device.commands().unwrap();
    let projected = Projected {
        q: out,
        k: out,
        v: short,
    };
    let refused = right
        .record_qkv(&mut commands, TOKENS, x, projected)
        .unwrap_err();
    assert!(refused.to_string().starts_with("v: "), "{refused}");
}
