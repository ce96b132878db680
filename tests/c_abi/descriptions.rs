//! Descriptions of operations that are right, for tests that make one thing wrong. Every operand fits into 1024 bytes.

use ironbridge::ffi::*;

use crate::abi::*;

type Buffer = *mut iron_buffer;

fn f32s(buffer: Buffer) -> iron_tensor {
    tensor(buffer, IRON_F32)
}

fn u32s(buffer: Buffer) -> iron_tensor {
    tensor(buffer, IRON_U32)
}

pub fn embedding(table: Buffer, ids: Buffer, out: Buffer) -> iron_embedding {
    iron_embedding {
        size: size_of::<iron_embedding>(),
        rows: 4,
        width: 8,
        vocab: 16,
        table: f32s(table),
        ids: u32s(ids),
        out: f32s(out),
        scale: 0.0,
    }
}

pub fn rms_norm(x: Buffer, weight: Buffer, out: Buffer) -> iron_rms_norm {
    iron_rms_norm {
        size: size_of::<iron_rms_norm>(),
        rows: 4,
        width: 8,
        x: f32s(x),
        weight: f32s(weight),
        out: f32s(out),
        eps: 1e-5,
    }
}

pub fn rope(x: Buffer, positions: Buffer) -> iron_rope {
    iron_rope {
        size: size_of::<iron_rope>(),
        tokens: 2,
        heads: 2,
        head_dim: 8,
        x: f32s(x),
        positions: u32s(positions),
        frequency_base: 1e4,
        ..Default::default()
    }
}

pub fn attention(q: Buffer, k: Buffer, v: Buffer, out: Buffer) -> iron_attention {
    iron_attention {
        size: size_of::<iron_attention>(),
        tokens: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        first_position: 3,
        q: f32s(q),
        k: f32s(k),
        v: f32s(v),
        out: f32s(out),
        ..Default::default()
    }
}

pub fn transpose(x: Buffer, out: Buffer) -> iron_transpose {
    iron_transpose {
        size: size_of::<iron_transpose>(),
        rows: 4,
        width: 8,
        x: f32s(x),
        out: f32s(out),
    }
}

/// x, weight, the gradient, and the results in their order, each 192 bytes behind the one before in its buffer.
pub fn linear_backward(buffers: [Buffer; 6]) -> iron_linear_backward {
    let mut offset = 0;
    let [
        x,
        weight,
        gradient,
        x_gradient,
        weight_gradient,
        bias_gradient,
    ] = buffers.map(|buffer| {
        offset += 192;
        iron_tensor {
            offset: offset - 192,
            ..f32s(buffer)
        }
    });
    iron_linear_backward {
        size: size_of::<iron_linear_backward>(),
        rows: 4,
        inputs: 8,
        outputs: 5,
        x,
        weight,
        gradient,
        x_gradient,
        weight_gradient,
        bias_gradient,
    }
}

/// q, k, v, out, the gradient, and the results in their order, each 128 bytes behind the one before in its buffer.
pub fn attention_backward(buffers: [Buffer; 8]) -> iron_attention_backward {
    let mut offset = 0;
    let [q, k, v, out, gradient, q_gradient, k_gradient, v_gradient] = buffers.map(|buffer| {
        offset += 128;
        iron_tensor {
            offset: offset - 128,
            ..f32s(buffer)
        }
    });
    iron_attention_backward {
        size: size_of::<iron_attention_backward>(),
        tokens: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 4,
        q,
        k,
        v,
        out,
        gradient,
        q_gradient,
        k_gradient,
        v_gradient,
        ..Default::default()
    }
}

/// 32 rows of 32 F32 at the start of a buffer of weights.
pub fn weights() -> iron_weights {
    iron_weights {
        size: size_of::<iron_weights>(),
        offset: 0,
        rows: 32,
        width: 32,
        dtype: IRON_F32,
    }
}

pub fn copy(src: Buffer, dst: Buffer) -> iron_copy {
    iron_copy {
        size: size_of::<iron_copy>(),
        rows: 4,
        width: 8,
        src: f32s(src),
        dst: f32s(dst),
    }
}

/// One thread over `arguments`, which must live as long as the result is used.
pub fn dispatch(arguments: &[iron_argument]) -> iron_dispatch {
    iron_dispatch {
        size: size_of::<iron_dispatch>(),
        arguments: arguments.as_ptr(),
        argument_count: arguments.len(),
        grid: [1; 3],
        threadgroup: [1; 3],
        threads: 1,
    }
}

/// `buffer`, read through `[[buffer(index)]]`.
pub fn buffer_argument(index: u32, buffer: Buffer) -> iron_argument {
    iron_argument {
        kind: IRON_ARGUMENT_BUFFER,
        index,
        buffer,
        access: IRON_ACCESS_READ,
        ..Default::default()
    }
}

pub fn library_options() -> iron_library_options {
    iron_library_options {
        size: size_of::<iron_library_options>(),
        ..Default::default()
    }
}
