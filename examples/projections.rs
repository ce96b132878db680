//! The queries, keys and values of one attention layer with TinyLlama's shapes, in one submission and one by one:
//! `cargo run --example projections`.

use ironbridge::memory::Category;
use ironbridge::projections::{AttentionProjections, Projected, Projection, WeightLayout};
use ironbridge::{Buffer, Device, Result};

const TOKENS: usize = 15;
const D_MODEL: usize = 2048;
const HEADS: usize = 32;
const KV_HEADS: usize = 4;
const HEAD_DIM: usize = 64;
const KV_DIM: usize = KV_HEADS * HEAD_DIM;

fn main() -> Result<()> {
    let device = Device::open("default")?;
    let weight = |label: &str, outputs: usize| -> Result<Buffer<f32>> {
        // Each output is the mean of the inputs times its number: easy to check by eye.
        let row = |output: usize| [(output + 1) as f32 / D_MODEL as f32; D_MODEL];
        device
            .buffer_options()
            .label(label)
            .category(Category::Weights)
            .create_from((0..outputs).map(row).collect::<Vec<_>>().as_flattened())
    };
    let (wq, wk) = (weight("wq", D_MODEL)?, weight("wk", KV_DIM)?);
    let (wv, wo) = (weight("wv", KV_DIM)?, weight("wo", D_MODEL)?);
    let projections = AttentionProjections {
        d_model: D_MODEL,
        heads: HEADS,
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        layout: WeightLayout::OutputByInput,
        wq: wq.tensor(),
        wk: wk.tensor(),
        wv: wv.tensor(),
        wo: wo.tensor(),
    };

    let x = device.buffer_from(&[1.0f32; TOKENS * D_MODEL])?;
    let q = device.buffer::<f32>(TOKENS * D_MODEL)?;
    let k = device.buffer::<f32>(TOKENS * KV_DIM)?;
    let v = device.buffer::<f32>(TOKENS * KV_DIM)?;
    let out = Projected {
        q: q.tensor(),
        k: k.tensor(),
        v: v.tensor(),
    };
    let together = projections.qkv(&device, TOKENS, x.tensor(), out)?;
    together.wait()?;
    println!(
        "Q, K and V together: {:?} of device time",
        together.info()?.device_time
    );
    println!("the first keys of the first token: {:?}", &k.map()?[..4]);

    for (which, out) in [
        (Projection::Q, &q),
        (Projection::K, &k),
        (Projection::V, &v),
    ] {
        let alone = projections.project(&device, which, TOKENS, x.tensor(), out.tensor())?;
        alone.wait()?;
        println!("{which:?} alone: {:?}", alone.info()?.device_time);
    }

    let memory = device.memory()?;
    println!(
        "{} bytes in {} weights, {} bytes on the device in all",
        memory.category(Category::Weights).bytes,
        memory.category(Category::Weights).count,
        memory.device_bytes
    );
    Ok(())
}
