//! Operands that do not fit their operation or each other.

use std::ptr::{dangling_mut, null_mut};

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::descriptions::*;
use crate::fixture::*;
use crate::rowwise::{Given, OPERATIONS};

/// Tries one wrong description after another. Each starts from one that is right and has one thing wrong.
macro_rules! wrong {
    ($fixture:expr, $encode:ident, $right:expr; $( |$it:ident| $change:expr => $status:ident, $subject:expr; )*) => {
        $( {
            let mut description = $right;
            let $it = &mut description;
            $change;
            fails(call!($encode($fixture.commands, &description)), $status, $subject);
        } )*
    };
}

#[test]
#[serial]
fn matmuls_that_do_not_fit() {
    let fixture = Fixture::new();
    let device = fixture.device;
    let (a, b, c) = (
        buffer(device, 4096),
        buffer(device, 4096),
        buffer(device, 4096),
    );
    let other = open("cpu");
    let foreign = buffer(other, 4096);
    let read_only = {
        let mut wrapped = null_mut();
        let options = iron_buffer_options {
            read_only: 1,
            ..buffer_options()
        };
        ok(call!(iron_buffer_wrap(
            device,
            page(),
            page_size(),
            None,
            null_mut(),
            &options,
            &mut wrapped
        )));
        wrapped
    };
    let right = matmul_of((a, b, c), (16, 16, 16));
    wrong! { fixture, iron_encode_matmul, right;
        |it| it.m = 0 => IRON_ERROR_INVALID_ARGUMENT, "m: is 0";
        |it| it.n = 0 => IRON_ERROR_INVALID_ARGUMENT, "n: is 0";
        |it| it.k = 0 => IRON_ERROR_INVALID_ARGUMENT, "k: is 0";
        |it| it.m = 1 << 32 => IRON_ERROR_INVALID_ARGUMENT, "m: 4294967296";
        |it| it.n = u64::MAX => IRON_ERROR_INVALID_ARGUMENT, "n: ";
        |it| it.k = u64::MAX => IRON_ERROR_INVALID_ARGUMENT, "k: ";
        |it| it.m = 65
            => IRON_ERROR_OUT_OF_RANGE, "a: 65 rows of 16 F32 from offset 0 need 4160 bytes, the buffer has 4096";
        |it| (it.n, it.c.dtype) = (65, IRON_F32) => IRON_ERROR_OUT_OF_RANGE, "b: 16 rows of 65 F32";
        |it| it.alpha = f32::NAN => IRON_ERROR_INVALID_ARGUMENT, "alpha: is nan";
        |it| it.beta = f32::INFINITY => IRON_ERROR_INVALID_ARGUMENT, "beta: is inf";
        |it| it.a.offset = 2 => IRON_ERROR_INVALID_ARGUMENT, "a: offset 2";
        |it| it.a.offset = 4096 - 1020 => IRON_ERROR_OUT_OF_RANGE, "a: ";
        |it| it.a.offset = u64::MAX - 3 => IRON_ERROR_INVALID_ARGUMENT, "a: its size overflows";
        |it| it.a.row_stride = u64::MAX => IRON_ERROR_INVALID_ARGUMENT, "a: its size overflows";
        |it| it.b.row_stride = 1 << 61 => IRON_ERROR_INVALID_ARGUMENT, "b: its size overflows";
        |it| it.c.row_stride = 15 => IRON_ERROR_SHAPE, "c: row_stride 15";
        |it| it.c.row_stride = 70 => IRON_ERROR_OUT_OF_RANGE, "c: ";
        |it| it.a.dtype = 0 => IRON_ERROR_INVALID_ARGUMENT, "a: dtype 0";
        |it| it.a.dtype = 99 => IRON_ERROR_INVALID_ARGUMENT, "a: dtype 99";
        |it| it.a.dtype = IRON_BF16 => IRON_ERROR_SHAPE, "a: BF16";
        |it| it.a.dtype = IRON_F16 => IRON_ERROR_SHAPE, "c: is F32, a is F16";
        |it| it.b.dtype = IRON_U32 => IRON_ERROR_SHAPE, "b: U32";
        |it| it.b.dtype = IRON_Q8_0 => IRON_ERROR_SHAPE, "b: rows and strides of Q8_0 are multiples of 32";
        |it| (it.b.dtype, it.n) = (IRON_Q8_0, 32) => IRON_ERROR_SHAPE, "b: Q8_0 weights are stored n × k";
        |it| (it.b.dtype, it.transpose_b) = (IRON_Q8_0, 1) => IRON_ERROR_SHAPE, "b: rows and strides of Q8_0";
        |it| it.c.dtype = IRON_F16 => IRON_ERROR_SHAPE, "c: is F16, a is F32";
        |it| it.bias = tensor(b, IRON_F16) => IRON_ERROR_SHAPE, "bias: is F16, a is F32";
        |it| it.bias = iron_tensor { offset: 4096 - 60, ..tensor(b, IRON_F32) } => IRON_ERROR_OUT_OF_RANGE, "bias: ";
        |it| it.bias = tensor(c, IRON_F32) => IRON_ERROR_INVALID_ARGUMENT, "c: overlaps bias";
        |it| it.c.buffer = a => IRON_ERROR_INVALID_ARGUMENT, "c: overlaps a";
        |it| (it.c.buffer, it.c.offset) = (b, 1020) => IRON_ERROR_INVALID_ARGUMENT, "c: overlaps b";
        |it| it.batch = 2 => IRON_ERROR_SHAPE, "c: batch_stride is needed";
        |it| (it.batch, it.c.batch_stride) = (2, 255) => IRON_ERROR_SHAPE, "c: with batch_stride 255";
        |it| (it.batch, it.c.batch_stride) = (5, 256) => IRON_ERROR_OUT_OF_RANGE, "c: 80 rows";
        |it| (it.batch, it.c.batch_stride, it.a.batch_stride) = (2, 256, u64::MAX)
            => IRON_ERROR_INVALID_ARGUMENT, "a: its size overflows";
        |it| it.a.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "a: ";
        |it| it.b.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "b: ";
        |it| it.c.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "c: ";
        |it| it.bias = tensor(foreign, IRON_F32) => IRON_ERROR_WRONG_DEVICE, "bias: ";
        |it| it.bias = tensor(dangling_mut(), IRON_F32) => IRON_ERROR_INVALID_HANDLE, "bias: ";
        |it| it.c.buffer = read_only => IRON_ERROR_READ_ONLY, "c: ";
    }
    for buffer in [a, b, c, foreign, read_only] {
        release_buffer(buffer);
    }
    release_device(other);
    fixture.finish();
}

#[test]
#[serial]
fn operations_that_do_not_fit() {
    let fixture = Fixture::new();
    let device = fixture.device;
    let (x, y, z, ids) = (
        buffer(device, 1024),
        buffer(device, 1024),
        buffer(device, 1024),
        buffer(device, 64),
    );
    let other = open("cpu");
    let foreign = buffer(other, 1024);
    let f32s = |buffer| tensor(buffer, IRON_F32);

    wrong! { fixture, iron_encode_embedding, embedding(x, ids, y);
        |it| it.rows = 0 => IRON_ERROR_INVALID_ARGUMENT, "rows: is 0";
        |it| it.width = 0 => IRON_ERROR_INVALID_ARGUMENT, "width: is 0";
        |it| it.vocab = 0 => IRON_ERROR_INVALID_ARGUMENT, "vocab: is 0";
        |it| it.vocab = 1 << 33 => IRON_ERROR_INVALID_ARGUMENT, "vocab: ";
        |it| it.vocab = 33 => IRON_ERROR_OUT_OF_RANGE, "table: ";
        |it| it.rows = 17 => IRON_ERROR_OUT_OF_RANGE, "ids: ";
        |it| it.table.dtype = IRON_U32 => IRON_ERROR_SHAPE, "table: ";
        |it| it.table.dtype = IRON_Q8_0 => IRON_ERROR_SHAPE, "table: ";
        |it| it.ids.dtype = IRON_F32 => IRON_ERROR_SHAPE, "ids: ";
        |it| it.ids.offset = 2 => IRON_ERROR_INVALID_ARGUMENT, "ids: offset";
        |it| it.out.dtype = IRON_F16 => IRON_ERROR_SHAPE, "out: ";
        |it| it.out.buffer = x => IRON_ERROR_INVALID_ARGUMENT, "out: overlaps table";
        |it| it.out.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "out: ";
    }
    wrong! { fixture, iron_encode_rope, rope(x, ids);
        |it| it.tokens = 0 => IRON_ERROR_INVALID_ARGUMENT, "tokens: is 0";
        |it| it.heads = 0 => IRON_ERROR_INVALID_ARGUMENT, "heads: is 0";
        |it| it.head_dim = 0 => IRON_ERROR_INVALID_ARGUMENT, "head_dim: is 0";
        |it| it.head_dim = 7 => IRON_ERROR_SHAPE, "rotary_dim: 7 is odd";
        |it| it.rotary_dim = 10 => IRON_ERROR_SHAPE, "rotary_dim: 10 is more";
        |it| it.pairing = 2 => IRON_ERROR_INVALID_ARGUMENT, "pairing";
        |it| it.frequency_base = 0.0 => IRON_ERROR_INVALID_ARGUMENT, "frequency_base";
        |it| it.frequency_scale = f32::INFINITY => IRON_ERROR_INVALID_ARGUMENT, "frequency_scale";
        |it| it.tokens = 17 => IRON_ERROR_OUT_OF_RANGE, "x: ";
        |it| (it.heads, it.head_dim) = (u64::from(u32::MAX), u64::from(u32::MAX) - 1)
            => IRON_ERROR_INVALID_ARGUMENT, "x: its size overflows";
        |it| it.positions.offset = 60 => IRON_ERROR_OUT_OF_RANGE, "positions: ";
        |it| it.x.row_stride = 15 => IRON_ERROR_SHAPE, "x: row_stride";
        |it| it.factors = iron_tensor { offset: 1012, ..f32s(y) } => IRON_ERROR_OUT_OF_RANGE, "factors: ";
        |it| it.factors = f32s(x) => IRON_ERROR_INVALID_ARGUMENT, "x: overlaps factors";
        |it| it.x.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "x: ";
    }
    wrong! { fixture, iron_encode_attention,
        iron_attention { v: iron_tensor { offset: 512, ..f32s(y) }, ..attention(x, y, y, z) };
        |it| it.tokens = 0 => IRON_ERROR_INVALID_ARGUMENT, "tokens: is 0";
        |it| it.heads = 0 => IRON_ERROR_INVALID_ARGUMENT, "heads: is 0";
        |it| it.kv_heads = 0 => IRON_ERROR_INVALID_ARGUMENT, "kv_heads: is 0";
        |it| it.head_dim = 0 => IRON_ERROR_INVALID_ARGUMENT, "head_dim: is 0";
        |it| it.head_dim = 257 => IRON_ERROR_SHAPE, "head_dim: 257";
        |it| it.kv_heads = 3 => IRON_ERROR_SHAPE, "heads: 4 is not a multiple of kv_heads, 3";
        |it| it.first_position = u64::MAX => IRON_ERROR_INVALID_ARGUMENT, "first_position";
        |it| it.first_position = 15 => IRON_ERROR_OUT_OF_RANGE, "k: ";
        |it| it.v.offset = 900 => IRON_ERROR_OUT_OF_RANGE, "v: ";
        |it| it.k.dtype = IRON_F16 => IRON_ERROR_SHAPE, "v: is F32, k is F16";
        |it| it.k.dtype = IRON_Q8_0 => IRON_ERROR_SHAPE, "k: ";
        |it| it.k_head_stride = u64::MAX => IRON_ERROR_INVALID_ARGUMENT, "k: its size overflows";
        |it| it.v_head_stride = 1 << 40 => IRON_ERROR_OUT_OF_RANGE, "v: ";
        |it| it.scale = f32::NAN => IRON_ERROR_INVALID_ARGUMENT, "scale";
        |it| it.softcap = f32::NAN => IRON_ERROR_INVALID_ARGUMENT, "softcap";
        |it| it.softcap = -1.0 => IRON_ERROR_INVALID_ARGUMENT, "softcap";
        |it| it.out.buffer = x => IRON_ERROR_INVALID_ARGUMENT, "out: overlaps q";
        |it| it.out.buffer = y => IRON_ERROR_INVALID_ARGUMENT, "out: overlaps k";
        |it| it.q.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "q: ";
    }
    wrong! { fixture, iron_encode_attention_backward, attention_backward([x, x, x, x, x, y, y, y]);
        |it| it.tokens = 0 => IRON_ERROR_INVALID_ARGUMENT, "tokens: is 0";
        |it| it.heads = 0 => IRON_ERROR_INVALID_ARGUMENT, "heads: is 0";
        |it| it.kv_heads = 0 => IRON_ERROR_INVALID_ARGUMENT, "kv_heads: is 0";
        |it| it.head_dim = 0 => IRON_ERROR_INVALID_ARGUMENT, "head_dim: is 0";
        |it| it.head_dim = 257 => IRON_ERROR_SHAPE, "head_dim: 257";
        |it| it.kv_heads = 3 => IRON_ERROR_SHAPE, "heads: 4 is not a multiple of kv_heads, 3";
        |it| it.tokens = 17 => IRON_ERROR_OUT_OF_RANGE, "q: ";
        |it| it.v.offset = 980 => IRON_ERROR_OUT_OF_RANGE, "v: ";
        |it| it.k.dtype = IRON_F16 => IRON_ERROR_SHAPE, "k: ";
        |it| it.scale = f32::NAN => IRON_ERROR_INVALID_ARGUMENT, "scale";
        |it| it.q_gradient = f32s(x) => IRON_ERROR_INVALID_ARGUMENT, "q_gradient: overlaps q";
        |it| it.v_gradient = it.k_gradient => IRON_ERROR_INVALID_ARGUMENT, "v_gradient: overlaps k_gradient";
        |it| it.gradient.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "gradient: ";
    }
    wrong! { fixture, iron_encode_linear_backward, linear_backward([x, x, x, y, y, z]);
        |it| it.rows = 0 => IRON_ERROR_INVALID_ARGUMENT, "rows: is 0";
        |it| it.inputs = 0 => IRON_ERROR_INVALID_ARGUMENT, "inputs: is 0";
        |it| it.outputs = 1 << 32 => IRON_ERROR_INVALID_ARGUMENT, "outputs: 4294967296";
        |it| (it.x_gradient, it.weight_gradient, it.bias_gradient) = Default::default()
            => IRON_ERROR_INVALID_ARGUMENT, "linear: no x_gradient";
        |it| it.rows = 33 => IRON_ERROR_OUT_OF_RANGE, "x: ";
        |it| it.weight.offset = 1020 => IRON_ERROR_OUT_OF_RANGE, "weight: ";
        |it| it.gradient.dtype = IRON_F16 => IRON_ERROR_SHAPE, "gradient: F16";
        |it| it.x_gradient.row_stride = 7 => IRON_ERROR_SHAPE, "x_gradient: row_stride 7";
        |it| it.weight_gradient = it.x_gradient => IRON_ERROR_INVALID_ARGUMENT, "weight_gradient: overlaps x_gradient";
        |it| it.x_gradient = it.x => IRON_ERROR_INVALID_ARGUMENT, "x_gradient: overlaps x";
        |it| it.bias_gradient = it.gradient => IRON_ERROR_INVALID_ARGUMENT, "bias_gradient: overlaps gradient";
        |it| it.bias_gradient.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "bias_gradient: ";
        |it| it.x_gradient.buffer = dangling_mut() => IRON_ERROR_INVALID_HANDLE, "x_gradient: ";
        |it| it.weight_gradient.buffer = dangling_mut() => IRON_ERROR_INVALID_HANDLE, "weight_gradient: ";
        |it| it.bias_gradient.buffer = dangling_mut() => IRON_ERROR_INVALID_HANDLE, "bias_gradient: ";
    }
    wrong! { fixture, iron_encode_copy, copy(x, y);
        |it| it.rows = 0 => IRON_ERROR_INVALID_ARGUMENT, "rows: is 0";
        |it| it.width = 0 => IRON_ERROR_INVALID_ARGUMENT, "width: is 0";
        |it| it.rows = 33 => IRON_ERROR_OUT_OF_RANGE, "src: ";
        |it| it.dst.offset = 1000 => IRON_ERROR_OUT_OF_RANGE, "dst: ";
        |it| it.src.dtype = IRON_U32 => IRON_ERROR_SHAPE, "dst: is F32, src is U32";
        |it| it.dst.dtype = IRON_Q8_0 => IRON_ERROR_SHAPE, "dst: ";
        |it| it.dst.buffer = x => IRON_ERROR_INVALID_ARGUMENT, "dst: overlaps src";
        |it| it.dst.buffer = foreign => IRON_ERROR_WRONG_DEVICE, "dst: ";
    }
    for (source, destination, subject) in [(foreign, x, "source: "), (x, foreign, "destination: ")]
    {
        fails(
            call!(iron_encode_copy_bytes(
                fixture.commands,
                source,
                0,
                destination,
                0,
                16
            )),
            IRON_ERROR_WRONG_DEVICE,
            subject,
        );
    }
    fails(
        call!(iron_encode_fill(fixture.commands, foreign, 0, 16, 0)),
        IRON_ERROR_WRONG_DEVICE,
        "buffer: ",
    );
    for buffer in [x, y, z, ids, foreign] {
        release_buffer(buffer);
    }
    release_device(other);
    fixture.finish();
}

/// Columns side by side in one wide matrix share rows and no element.
#[test]
#[serial]
fn columns_of_one_matrix_do_not_overlap() {
    let fixture = Fixture::new();
    let wide = buffer_of(fixture.device, &[1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
    let swap = buffer_of(fixture.device, &[0.0, 1.0, 1.0, 0.0]);
    let commands = begin(fixture.device);
    let columns = |offset| iron_tensor {
        offset,
        row_stride: 4,
        ..tensor(wide, IRON_F32)
    };
    let mut matmul = matmul_of((wide, swap, wide), (2, 2, 2));
    (matmul.a, matmul.c) = (columns(0), columns(8));
    ok(encode_matmul(commands, &matmul));
    matmul.c = columns(4);
    fails(
        encode_matmul(commands, &matmul),
        IRON_ERROR_INVALID_ARGUMENT,
        "c: overlaps a",
    );
    commit_and_wait(commands);
    assert_eq!(read(wide, 8), [1.0, 2.0, 2.0, 1.0, 3.0, 4.0, 4.0, 3.0]);
    release_commands(commands);
    release_buffer(wide);
    release_buffer(swap);
    fixture.finish();
}

/// What weights are stored as: the floats and the blocks of the table.
fn weights() -> Vec<iron_dtype> {
    let rows = include_str!("../../native/kernels/dtypes.def").lines();
    let weights = rows.filter_map(|row| {
        let row = row
            .strip_prefix("DTYPE_FLOAT(")
            .or(row.strip_prefix("DTYPE_BLOCK("));
        row?.split(',').next()?.trim().parse().ok()
    });
    weights.collect()
}

/// The kernel behind every operation and every combination of types that the header allows.
#[test]
#[serial]
fn every_type_of_every_operation_has_its_kernel() {
    let fixture = Fixture::new();
    let device = fixture.device;
    let [x, y, z, w, v] = [(); 5].map(|()| buffer(device, 1 << 17));
    let commands = begin(device);
    let floats = [IRON_F32, IRON_F16, IRON_BF16];
    let weights = weights();
    let mut recorded = 0;
    let mut runs = |status| {
        ok(status);
        recorded += 1;
    };
    for kind in [IRON_F32, IRON_F16] {
        for &b in &weights {
            let matmul = iron_matmul {
                a: tensor(x, kind),
                b: tensor(y, b),
                c: tensor(z, kind),
                transpose_b: 1,
                ..matmul_of((x, y, z), (3, 5, 256))
            };
            runs(call!(iron_encode_matmul(commands, &matmul)));
        }
        // The kernel of the product is counted already.
        let added = iron_matmul {
            a: tensor(x, kind),
            b: tensor(y, IRON_F32),
            c: tensor(z, kind),
            transpose_b: 1,
            beta: 1.0,
            ..matmul_of((x, y, z), (3, 5, 256))
        };
        runs(call!(iron_encode_matmul(commands, &added)));
    }
    let backward = attention_backward([x, x, x, x, x, y, y, y]);
    runs(call!(iron_encode_attention_backward(commands, &backward)));
    for &table in &weights {
        let embedding = iron_embedding {
            width: 256,
            table: tensor(x, table),
            ..embedding(x, y, z)
        };
        runs(call!(iron_encode_embedding(commands, &embedding)));
    }
    for src in floats {
        for dst in floats {
            let copy = iron_copy {
                src: tensor(x, src),
                dst: tensor(y, dst),
                ..copy(x, y)
            };
            runs(call!(iron_encode_copy(commands, &copy)));
        }
    }
    for src in floats {
        let copy = iron_copy {
            width: 64,
            src: tensor(x, src),
            dst: tensor(y, IRON_Q8_0),
            ..copy(x, y)
        };
        runs(call!(iron_encode_copy(commands, &copy)));
    }
    let from_blocks = iron_copy {
        width: 64,
        src: tensor(x, IRON_Q8_0),
        ..copy(x, y)
    };
    runs(call!(iron_encode_copy(commands, &from_blocks)));
    for cache in [IRON_F32, IRON_F16, IRON_BF16, IRON_Q8_0] {
        // Few queries and keys; many queries, with heads for each size of tile; many keys.
        for (tokens, head_dim, first_position) in [
            (2, 32, 3),
            (16, 64, 0),
            (16, 96, 0),
            (16, 160, 0),
            (1, 32, 600),
        ] {
            let attention = iron_attention {
                tokens,
                heads: 1,
                kv_heads: 1,
                head_dim,
                first_position,
                k: tensor(y, cache),
                v: tensor(y, cache),
                ..attention(x, y, y, z)
            };
            runs(call!(iron_encode_attention(commands, &attention)));
        }
    }
    for element in [IRON_F32, IRON_F16, IRON_BF16, IRON_U32] {
        let transpose = iron_transpose {
            x: tensor(x, element),
            out: tensor(y, element),
            ..transpose(x, y)
        };
        runs(call!(iron_encode_transpose(commands, &transpose)));
    }
    let integers = iron_copy {
        src: tensor(x, IRON_U32),
        dst: tensor(y, IRON_U32),
        ..copy(x, y)
    };
    runs(call!(iron_encode_copy(commands, &integers)));
    runs(call!(iron_encode_rope(commands, &rope(x, y))));
    let of_one_type = OPERATIONS
        .iter()
        .filter(|operation| !operation.is_of_types());
    for operation in of_one_type.clone() {
        let buffers = &[x, y, z, w, v][..operation.operands.len()];
        runs(Given::new(operation, buffers).call(commands));
    }
    let (of_weights, rows) = (3 * weights.len(), of_one_type.count());
    assert_eq!(recorded, of_weights + rows + 2 + 1 + 9 + 4 + 4 * 5 + 4 + 2);
    commit_and_wait(commands);
    release_commands(commands);
    ok(call!(iron_memory_reclaim(
        device,
        IRON_RECLAIM_PURGE,
        0,
        null_mut()
    ))); // the scratch memory of attention in pieces

    let pipelines = memory(device).categories[IRON_CATEGORY_PIPELINES as usize];
    assert_eq!(
        pipelines.count,
        2 + 29 + (of_weights + rows) as u64 + 44,
        "the fixture's own, families, kernels"
    );
    for buffer in [x, y, z, w, v] {
        release_buffer(buffer);
    }
    fixture.finish();
}
