//! Buffers of weights: what may be done with them, and what not.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Barrier;
use std::thread;

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::descriptions::*;
use crate::fixture::*;

/// A buffer of weights of that many bytes and the label "gate".
pub fn weights_buffer(device: *mut iron_device, bytes: u64) -> *mut iron_buffer {
    buffer_with(
        device,
        bytes,
        &iron_buffer_options {
            label: c"gate".as_ptr(),
            usage: IRON_USAGE_WEIGHTS,
            category: IRON_CATEGORY_WEIGHTS,
            ..buffer_options()
        },
    )
}

/// Writes rows of F32 from row `first` on.
fn write_rows(
    buffer: *mut iron_buffer,
    matrix: &iron_weights,
    first: u64,
    values: &[f32],
) -> iron_status {
    let count = values.len() as u64 / matrix.width;
    call!(iron_weights_write(
        buffer,
        matrix,
        first,
        count,
        values.as_ptr().cast()
    ))
}

/// A buffer with one matrix of 32 rows of 32 F32, all of them `value`.
fn written(device: *mut iron_device, value: f32) -> *mut iron_buffer {
    let buffer = weights_buffer(device, 4096);
    ok(write_rows(buffer, &weights(), 0, &[value; 1024]));
    buffer
}

/// m rows of A times the 32 rows of weights.
fn product_with(
    (a, w, c): (*mut iron_buffer, *mut iron_buffer, *mut iron_buffer),
    m: u64,
) -> iron_matmul {
    iron_matmul {
        transpose_b: 1,
        ..matmul_of((a, w, c), (m, 32, 32))
    }
}

#[test]
#[serial]
fn rows_come_in_order_and_once() {
    let fixture = Fixture::new();
    let buffer = weights_buffer(fixture.device, 1 << 16);
    let matrix = iron_weights {
        rows: 100,
        ..weights()
    };
    let values: Vec<f32> = (0..3200).map(|i| i as f32).collect();
    let rows = |first: usize, count: usize| &values[first * 32..][..count * 32];
    let write = |first, count| write_rows(buffer, &matrix, first as u64, rows(first, count));
    let mut back = [0f32; 3200];
    let mut read = |first, count, matrix: &iron_weights| {
        call!(iron_weights_read(
            buffer,
            matrix,
            first,
            count,
            back.as_mut_ptr().cast()
        ))
    };

    fails(
        read(0, 1, &matrix),
        IRON_ERROR_STATE,
        "count: 1 rows from row 0, and 0 are written",
    );
    fails(
        write(32, 32),
        IRON_ERROR_STATE,
        "first: is 32, and 0 rows are written",
    );
    fails(
        write(0, 33),
        IRON_ERROR_INVALID_ARGUMENT,
        "count: 33 rows do not end the matrix of 100",
    );
    ok(write(0, 32));
    fails(
        write(0, 32),
        IRON_ERROR_STATE,
        "first: is 0, and 32 rows are written",
    );
    fails(
        read(0, 33, &matrix),
        IRON_ERROR_STATE,
        "count: 33 rows from row 0, and 32",
    );
    ok(write(32, 64));
    ok(write(96, 4));
    fails(
        write(96, 4),
        IRON_ERROR_STATE,
        "matrix: all its rows are written",
    );
    // Another matrix may not lie there, and another description is another matrix.
    for (offset, rows) in [(4, 32), (0, 32), (100 * 128 - 4, 32)] {
        let other = iron_weights {
            offset,
            rows,
            ..matrix
        };
        fails(
            write_rows(buffer, &other, 0, &[0.0; 1024]),
            IRON_ERROR_INVALID_ARGUMENT,
            "matrix: overlaps another one",
        );
        fails(read(0, 1, &other), IRON_ERROR_STATE, "count: ");
    }
    ok(read(0, 100, &matrix));
    assert_eq!(back[..], values[..]);
    release_buffer(buffer);
    fixture.finish();
}

#[test]
#[serial]
fn descriptions_that_are_wrong() {
    let fixture = Fixture::new();
    let buffer = weights_buffer(fixture.device, 4096);
    let mut rows = [0f32; 2048];
    macro_rules! wrong {
        ($( |$it:ident| $change:expr => $status:ident, $subject:expr; )*) => {$(
            let mut matrix = weights();
            let $it = &mut matrix;
            $change;
            let write = call!(iron_weights_write(buffer, &matrix, 0, 32, rows.as_ptr().cast()));
            fails(write, $status, $subject);
            let read = call!(iron_weights_read(buffer, &matrix, 0, 32, rows.as_mut_ptr().cast()));
            fails(read, $status, $subject);
        )*};
    }
    wrong! {
        |it| it.rows = 0 => IRON_ERROR_INVALID_ARGUMENT, "matrix.rows: is 0";
        |it| it.rows = u64::MAX => IRON_ERROR_INVALID_ARGUMENT, "matrix.rows: ";
        |it| it.width = 0 => IRON_ERROR_INVALID_ARGUMENT, "matrix.width: is 0";
        |it| it.width = u64::MAX => IRON_ERROR_INVALID_ARGUMENT, "matrix.width: ";
        |it| it.dtype = 0 => IRON_ERROR_INVALID_ARGUMENT, "matrix: dtype 0";
        |it| it.dtype = 99 => IRON_ERROR_INVALID_ARGUMENT, "matrix: dtype 99";
        |it| it.dtype = IRON_U32 => IRON_ERROR_SHAPE, "matrix: U32";
        |it| it.offset = 2 => IRON_ERROR_INVALID_ARGUMENT, "matrix: offset 2";
        |it| (it.dtype, it.width) = (IRON_Q8_0, 33) => IRON_ERROR_SHAPE, "matrix.width: 33 is no multiple of the 32";
        |it| it.rows = 33 => IRON_ERROR_OUT_OF_RANGE, "matrix: 33 rows of 128 bytes from offset 0, the buffer has 4096";
        |it| it.offset = 4 => IRON_ERROR_OUT_OF_RANGE, "matrix: 32 rows of 128 bytes from offset 4";
        |it| it.offset = u64::MAX - 3 => IRON_ERROR_OUT_OF_RANGE, "matrix: ";
        |it| (it.rows, it.width) = (u64::from(u32::MAX), u64::from(u32::MAX)) => IRON_ERROR_OUT_OF_RANGE, "matrix: ";
    }
    let write = |first, count, rows: *const c_void| {
        call!(iron_weights_write(buffer, &weights(), first, count, rows))
    };
    let data = rows.as_ptr().cast();
    fails(
        write(0, 0, data),
        IRON_ERROR_INVALID_ARGUMENT,
        "count: is 0",
    );
    fails(
        write(0, 33, data),
        IRON_ERROR_OUT_OF_RANGE,
        "count: 33 rows from row 0, the matrix has 32",
    );
    fails(write(33, 1, data), IRON_ERROR_OUT_OF_RANGE, "count: ");
    fails(
        write(u64::MAX, u64::MAX, data),
        IRON_ERROR_OUT_OF_RANGE,
        "count: ",
    );
    fails(
        write(0, 32, null()),
        IRON_ERROR_INVALID_ARGUMENT,
        "rows: is NULL",
    );
    fails(
        call!(iron_weights_write(fixture.buffer, &weights(), 0, 32, data)),
        IRON_ERROR_INVALID_ARGUMENT,
        "buffer: it was not made for weights",
    );
    // Nothing of that made a matrix.
    ok(write(0, 32, data));
    release_buffer(buffer);
    fixture.finish();
}

#[test]
#[serial]
fn options_that_weights_cannot_have() {
    let fixture = Fixture::new();
    let device = fixture.device;
    let options = iron_buffer_options {
        usage: IRON_USAGE_WEIGHTS,
        ..buffer_options()
    };
    let mut made = null_mut();
    let pooled = iron_buffer_options {
        pooled: 1,
        ..options
    };
    let unknown = iron_buffer_options {
        usage: 2,
        ..options
    };
    for (options, subject) in [
        (pooled, "options: weights cannot be pooled"),
        (unknown, "options: usage 2 is none"),
    ] {
        fails(
            call!(iron_buffer_create(device, 64, &options, &mut made)),
            IRON_ERROR_INVALID_ARGUMENT,
            subject,
        );
    }
    fails(
        call!(iron_buffer_create_with_bytes(
            device,
            page(),
            64,
            &options,
            &mut made
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "options: a buffer of weights is made empty",
    );
    fails(
        call!(iron_buffer_wrap(
            device,
            page(),
            page_size(),
            None,
            null_mut(),
            &options,
            &mut made
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "options: wrapped memory cannot be used for weights",
    );
    fixture.finish();
}

/// Every argument of every function that takes a buffer, but matmul's b and embedding's table.
#[test]
#[serial]
fn weights_are_nothing_else() {
    let fixture = Fixture::new();
    let (device, commands, kernel) = (fixture.device, fixture.commands, fixture.kernel);
    let w = written(device, 1.0);
    let [x, y, z] = [(); 3].map(|()| buffer(device, 4096));
    let refused = |status: iron_status, argument: &str| {
        let subject = format!("{argument}: buffer 'gate' holds weights");
        fails(status, IRON_ERROR_INVALID_ARGUMENT, &subject);
    };

    let mut rows = [0f32; 32];
    let bytes: *mut c_void = rows.as_mut_ptr().cast();
    let mut pointer = null_mut();
    refused(call!(iron_buffer_read(w, 0, bytes, 128)), "buffer");
    refused(call!(iron_buffer_write(w, 0, bytes, 128)), "buffer");
    refused(
        call!(iron_buffer_map(w, IRON_ACCESS_READ, &mut pointer)),
        "buffer",
    );
    refused(call!(iron_buffer_contents(w, &mut pointer)), "buffer");
    assert!(pointer.is_null());

    let of = |a, b, bias, c| iron_matmul {
        bias,
        ..matmul_of((a, b, c), (8, 8, 8))
    };
    let none = iron_tensor::default();
    refused(encode_matmul(commands, &of(w, x, none, y)), "a");
    refused(encode_matmul(commands, &of(x, y, none, w)), "c");
    let bias = tensor(w, IRON_F32);
    refused(encode_matmul(commands, &of(x, y, bias, z)), "bias");
    macro_rules! refuses {
        ($($encode:ident($description:expr), $argument:literal;)*) => {
            $(refused(call!($encode(commands, &$description)), $argument);)*
        };
    }
    refuses! {
        iron_encode_embedding(embedding(x, w, y)), "ids";
        iron_encode_embedding(embedding(x, y, w)), "out";
        iron_encode_rms_norm(rms_norm(w, x, y)), "x";
        iron_encode_rms_norm(rms_norm(x, w, y)), "weight";
        iron_encode_rms_norm(rms_norm(x, y, w)), "out";
        iron_encode_rope(rope(w, x)), "x";
        iron_encode_rope(rope(x, w)), "positions";
        iron_encode_attention(attention(w, x, y, z)), "q";
        iron_encode_attention(attention(x, w, y, z)), "k";
        iron_encode_attention(attention(x, y, w, z)), "v";
        iron_encode_attention(attention(x, y, z, w)), "out";
        iron_encode_transpose(transpose(w, x)), "x";
        iron_encode_transpose(transpose(x, w)), "out";
        iron_encode_copy(copy(w, x)), "src";
        iron_encode_copy(copy(x, w)), "dst";
    }
    refused(
        call!(iron_encode_copy_bytes(commands, w, 0, x, 0, 64)),
        "source",
    );
    refused(
        call!(iron_encode_copy_bytes(commands, x, 0, w, 0, 64)),
        "destination",
    );
    refused(call!(iron_encode_fill(commands, w, 0, 64, 0)), "buffer");
    let arguments = [buffer_argument(0, x), buffer_argument(1, w)];
    refused(
        call!(iron_encode_kernel(commands, kernel, &dispatch(&arguments))),
        "arguments[1]",
    );
    for buffer in [w, x, y, z] {
        release_buffer(buffer);
    }
    fixture.finish();
}

#[test]
#[serial]
fn uses_that_do_not_fit_the_weights() {
    let fixture = Fixture::new();
    let (device, commands) = (fixture.device, fixture.commands);
    let w = weights_buffer(device, 1 << 16);
    let [a, c] = [(); 2].map(|()| buffer(device, 1 << 16));
    let right = product_with((a, w, c), 2);
    // 128 bytes a row: two matrices that are one, one of 40 rows and what follows, another width, and a half.
    let at = |row: u64, rows: u64| iron_weights {
        offset: row * 128,
        rows,
        ..weights()
    };
    let wide = iron_weights {
        width: 64,
        ..at(136, 32)
    };
    for matrix in [at(0, 32), at(32, 32), at(64, 40), at(104, 32), wide] {
        let values = vec![1f32; (matrix.rows * matrix.width) as usize];
        ok(write_rows(w, &matrix, 0, &values));
    }
    let half = at(300, 64);
    ok(write_rows(w, &half, 0, &[1.0; 1024]));

    let use_of = |row: u64, rows: u64| iron_matmul {
        n: rows,
        b: iron_tensor {
            offset: row * 128,
            ..tensor(w, IRON_F32)
        },
        ..right
    };
    let tries = |matmul: iron_matmul, status, subject: &str| {
        let subject = format!("b: {subject}");
        fails(encode_matmul(commands, &matmul), status, &subject);
    };
    let gate = "buffer 'gate': ";
    let not =
        |row, rows, status, text: &str| tries(use_of(row, rows), status, &format!("{gate}{text}"));
    let (state, shape) = (IRON_ERROR_STATE, IRON_ERROR_SHAPE);
    not(250, 32, state, "there are no weights at this offset");
    not(300, 64, state, "the weights there are not all written");
    not(300, 32, state, "the weights there are not all written");
    not(5, 32, shape, "a use begins at a multiple of 32 rows");
    not(
        0,
        40,
        shape,
        "a use ends with a matrix or at a multiple of 32",
    );
    not(64, 72, shape, "a use goes on after a multiple of 32 rows");
    not(
        104,
        64,
        shape,
        "the weights there have another type or width",
    );
    not(
        136,
        32,
        shape,
        "the weights there have another type or width",
    );
    let strided = iron_matmul {
        b: iron_tensor {
            row_stride: 64,
            ..right.b
        },
        ..right
    };
    tries(strided, shape, "weights have no gaps, row_stride is 64");
    let columns = iron_matmul {
        transpose_b: 0,
        ..right
    };
    tries(columns, shape, "weights are stored n × k, set transpose_b");
    let halves = iron_matmul {
        b: tensor(w, IRON_F16),
        ..right
    };
    tries(
        halves,
        shape,
        "buffer 'gate': the weights there have another",
    );
    let batches = iron_matmul {
        batch: 2,
        c: iron_tensor {
            batch_stride: 64,
            ..right.c
        },
        ..right
    };
    let apart = iron_matmul {
        b: iron_tensor {
            batch_stride: 1025,
            ..right.b
        },
        ..batches
    };
    tries(
        apart,
        shape,
        "weights have no gaps, row_stride is 32 and batch_stride 1025",
    );
    let short = iron_matmul {
        n: 16,
        b: iron_tensor {
            batch_stride: 512,
            ..right.b
        },
        ..batches
    };
    tries(
        short,
        shape,
        "batches of weights are multiples of 32 rows, not 16",
    );
    let table = iron_embedding {
        width: 32,
        vocab: 40,
        ..embedding(w, a, c)
    };
    fails(
        call!(iron_encode_embedding(commands, &table)),
        IRON_ERROR_SHAPE,
        "table: buffer 'gate': a use ends",
    );

    // And those that fit.
    let device_too = begin(device);
    for matmul in [
        use_of(0, 32),
        use_of(0, 64),
        use_of(0, 96),
        use_of(0, 104),
        use_of(64, 40),
        use_of(104, 32),
        batches,
        iron_matmul {
            b: iron_tensor {
                batch_stride: 1024,
                ..right.b
            },
            ..batches
        },
    ] {
        ok(encode_matmul(device_too, &matmul));
    }
    commit_and_wait(device_too);
    release_commands(device_too);
    for buffer in [w, a, c] {
        release_buffer(buffer);
    }
    fixture.finish();
}

/// Weights that commands use, recorded or in flight, do not change; others of their buffer come meanwhile.
#[test]
#[serial]
fn weights_in_use_never_change() {
    let fixture = Fixture::new();
    let device = fixture.device;
    let w = weights_buffer(device, 8192);
    let next = iron_weights {
        offset: 4096,
        ..weights()
    };
    ok(write_rows(w, &weights(), 0, &[0.5; 1024]));
    let (a, c) = (buffer_of(device, &[1.0; 32 * 32]), buffer(device, 1 << 16));
    let commands = begin(device);
    ok(encode_matmul(commands, &product_with((a, w, c), 32)));
    let unchanged = || {
        fails(
            write_rows(w, &weights(), 0, &[9.0; 1024]),
            IRON_ERROR_STATE,
            "matrix: all its rows are written, and weights never change",
        );
    };
    unchanged();
    commit(commands);
    unchanged();
    ok(write_rows(w, &next, 0, &[0.25; 1024]));
    ok(wait(commands));
    unchanged();
    assert_eq!(read(c, 32 * 32), [16.0; 32 * 32]);
    release_commands(commands);

    let both = iron_matmul {
        n: 64,
        ..product_with((a, w, c), 1)
    };
    let commands = begin(device);
    ok(encode_matmul(commands, &both));
    commit_and_wait(commands);
    let row = read(c, 64);
    assert_eq!((&row[..32], &row[32..]), (&[16.0; 32][..], &[8.0; 32][..]));
    release_commands(commands);
    for buffer in [w, a, c] {
        release_buffer(buffer);
    }
    fixture.finish();
}

/// Threads that write one matrix at once: each row is one thread's.
#[test]
#[serial]
fn one_thread_at_a_time_writes_a_matrix() {
    const THREADS: usize = 4;
    let fixture = Fixture::new();
    let matrix = iron_weights {
        rows: 256,
        ..weights()
    };
    let w = weights_buffer(fixture.device, 256 * 128);
    let (shared, barrier) = (w as usize, Barrier::new(THREADS));
    let write = |value: f32| {
        let values = [value; 1024];
        let mut written = Vec::new();
        barrier.wait();
        loop {
            let rows = (0..256).step_by(32).find(|first| {
                let buffer = shared as *mut iron_buffer;
                match write_rows(buffer, &matrix, *first, &values) {
                    IRON_OK => true,
                    IRON_ERROR_BUSY | IRON_ERROR_STATE => false,
                    status => panic!("{}: {}", name(status), last_error()),
                }
            });
            match rows {
                Some(first) => written.push(first),
                None => {
                    let mut row = [0f32; 32];
                    let all = call!(iron_weights_read(
                        shared as *mut iron_buffer,
                        &matrix,
                        255,
                        1,
                        row.as_mut_ptr().cast()
                    ));
                    if all == IRON_OK {
                        break;
                    }
                }
            }
        }
        written
    };
    let written: Vec<Vec<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|index| scope.spawn(move || write(index as f32)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    let mut all: Vec<u64> = written.concat();
    all.sort_unstable();
    assert_eq!(all, (0..256).step_by(32).collect::<Vec<_>>());
    for (index, rows) in written.iter().enumerate() {
        for first in rows {
            let mut back = [-1f32; 1024];
            let place = back.as_mut_ptr().cast();
            ok(call!(iron_weights_read(w, &matrix, *first, 32, place)));
            assert_eq!(back, [index as f32; 1024]);
        }
    }
    release_buffer(w);
    fixture.finish();
}

#[test]
#[serial]
fn an_allocation_that_fails_leaves_nothing() {
    let baseline = Baseline::take();
    let device = open("cpu:fail_allocation=1");
    let options = iron_buffer_options {
        usage: IRON_USAGE_WEIGHTS,
        ..buffer_options()
    };
    let mut made = null_mut();
    // There is nothing in flight and nothing idle that could make room.
    fails(
        call!(iron_buffer_create(device, 4096, &options, &mut made)),
        IRON_ERROR_OUT_OF_MEMORY,
        "no memory for a buffer of 4096 bytes",
    );
    assert!(made.is_null());
    let info = memory(device);
    assert_eq!((info.active_bytes, info.device_bytes), (0, 0));
    release_buffer(weights_buffer(device, 4096));
    release_device(device);
    baseline.holds();
}
