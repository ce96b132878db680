//! Handles may be dropped at any time: what still needs an object keeps it alive, and nothing is left over.
//!
//! The first five tests are the five strategies with which RusTorch's third projection crashed (`objc: bad weak table`,
//! or freed while the GPU still used it): TinyLlama's Q, K and V projections of 15 tokens, each matmul with buffers of
//! its own.

use std::ptr::null;
use std::sync::Arc;
use std::thread;

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::pool::autoreleasepool;

// ------------------------------------------------------------------------------------------ the five failing patterns

const TOKENS: usize = 15;
const MODEL: usize = 2048;
const KV: usize = 256;
const LAYERS: usize = 2;

/// One projection: `activations` (15 × 2048) times `weights` (2048 × `width`).
struct Projection {
    weights: Vec<f32>,
    width: usize,
    expected: Vec<f64>,
}

/// Q, K and V of one layer, and what they must give.
struct Layer {
    activations: Vec<f32>,
    projections: Vec<Projection>,
}

impl Layer {
    fn new() -> Layer {
        let activations = random(TOKENS * MODEL, 1);
        let projections = [MODEL, KV, KV]
            .into_iter()
            .enumerate()
            .map(|(index, width)| {
                let weights = random(MODEL * width, 2 + index as u64);
                let expected = product(&activations, &weights, (TOKENS, width, MODEL));
                Projection {
                    weights,
                    width,
                    expected,
                }
            })
            .collect();
        Layer {
            activations,
            projections,
        }
    }

    /// Runs `matmul` for every projection of every layer and checks all values.
    fn check(&self, mut matmul: impl FnMut(&Buffers) -> Vec<f32>, device: *mut iron_device) {
        for _ in 0..LAYERS {
            for projection in &self.projections {
                let buffers = Buffers {
                    a: buffer_of(device, &self.activations),
                    b: buffer_of(device, &projection.weights),
                    c: buffer(device, (TOKENS * projection.width * 4) as u64),
                    device,
                    width: projection.width,
                };
                close(&matmul(&buffers), &projection.expected, MODEL);
            }
        }
    }
}

/// The three data buffers of one matmul, and nothing else: no parameter buffers.
struct Buffers {
    device: *mut iron_device,
    a: *mut iron_buffer,
    b: *mut iron_buffer,
    c: *mut iron_buffer,
    width: usize,
}

impl Buffers {
    fn encode(&self) -> *mut iron_commands {
        let commands = begin(self.device);
        let shape = (TOKENS as u64, self.width as u64, MODEL as u64);
        ok(encode_matmul(
            commands,
            &matmul_of((self.a, self.b, self.c), shape),
        ));
        commands
    }

    fn result(&self) -> Vec<f32> {
        read(self.c, TOKENS * self.width)
    }

    fn release(&self) {
        for buffer in [self.a, self.b, self.c] {
            release_buffer(buffer);
        }
    }
}

/// A device for `body`, after which nothing may be left.
fn with_device(body: impl FnOnce(*mut iron_device)) {
    let baseline = Baseline::take();
    let device = open("cpu");
    let before = memory(device);
    body(device);
    // A read waits for the buffer that it reads and not for what else its commands used.
    ok(call!(iron_device_sync(device, FOREVER)));
    let after = memory(device);
    assert_eq!(
        (after.active_bytes, after.pool_bytes),
        (before.active_bytes, before.pool_bytes)
    );
    settles(before.device_bytes, || memory(device).device_bytes);
    release_device(device);
    baseline.holds();
}

#[test]
#[serial]
fn a_pool_after_the_matmul() {
    let layer = Layer::new();
    with_device(|device| {
        layer.check(
            |buffers| {
                let commands = buffers.encode();
                commit(commands);
                autoreleasepool(|| {
                    ok(wait(commands));
                    release_commands(commands);
                    let result = buffers.result();
                    buffers.release();
                    result
                })
            },
            device,
        );
    });
}

#[test]
#[serial]
fn a_pool_round_the_command_buffer() {
    let layer = Layer::new();
    with_device(|device| {
        layer.check(
            |buffers| {
                autoreleasepool(|| {
                    let commands = buffers.encode();
                    commit_and_wait(commands);
                    release_commands(commands);
                });
                let result = buffers.result();
                buffers.release();
                result
            },
            device,
        );
    });
}

#[test]
#[serial]
fn explicit_drops_right_after_the_commit() {
    let layer = Layer::new();
    with_device(|device| {
        layer.check(
            |buffers| {
                let commands = buffers.encode();
                commit(commands);
                release_commands(commands);
                release_buffer(buffers.a);
                release_buffer(buffers.b);
                let result = buffers.result(); // waits for the device
                release_buffer(buffers.c);
                result
            },
            device,
        );
    });
}

#[test]
#[serial]
fn a_pool_round_everything() {
    let layer = Layer::new();
    autoreleasepool(|| {
        with_device(|device| {
            layer.check(
                |buffers| {
                    let commands = buffers.encode();
                    commit_and_wait(commands);
                    release_commands(commands);
                    let result = buffers.result();
                    buffers.release();
                    result
                },
                device,
            );
        });
    });
}

#[test]
#[serial]
fn no_pool() {
    let layer = Layer::new();
    with_device(|device| {
        layer.check(
            |buffers| {
                let commands = buffers.encode();
                commit_and_wait(commands);
                release_commands(commands);
                let result = buffers.result();
                buffers.release();
                result
            },
            device,
        );
    });
}

// -------------------------------------------------------------------------------------------- dropped while in flight

const SHAPE: (usize, usize, usize) = (15, 32, 64);

/// A matmul on a device of its own or a shared one; every handle but the output's is dropped right after the commit.
fn matmul_and_drop(device: *mut iron_device, seed: u64, drop_device: bool) {
    let (m, n, k) = SHAPE;
    let (a, b) = (random(m * k, seed), random(k * n, seed + 1));
    let c_buffer = buffer(device, (m * n * 4) as u64);
    let (a_buffer, b_buffer) = (buffer_of(device, &a), buffer_of(device, &b));
    let commands = begin(device);
    let shape = (m as u64, n as u64, k as u64);
    ok(encode_matmul(
        commands,
        &matmul_of((a_buffer, b_buffer, c_buffer), shape),
    ));
    commit(commands);
    release_commands(commands);
    release_buffer(a_buffer);
    release_buffer(b_buffer);
    if drop_device {
        release_device(device);
    }
    close(&read(c_buffer, m * n), &product(&a, &b, SHAPE), k);
    release_buffer(c_buffer);
}

#[test]
#[serial]
fn every_handle_is_dropped_right_after_the_commit() {
    let baseline = Baseline::take();
    for selector in ["cpu", "cpu:delay_us=20000"] {
        matmul_and_drop(open(selector), 5, true);
    }
    baseline.holds();
}

/// Not even the output is kept: the last references go on the queue's own thread.
#[test]
#[serial]
fn nobody_waits() {
    let baseline = Baseline::take();
    for delay in [1, 1000, 20000] {
        for _ in 0..20 {
            let device = open(&format!("cpu:delay_us={delay}"));
            let target = buffer(device, 4096);
            let commands = begin(device);
            ok(fill(commands, target, 4096, 1));
            commit(commands);
            release_buffer(target);
            release_commands(commands);
            release_device(device);
        }
    }
    baseline.holds();
}

#[test]
#[serial]
fn commands_that_are_never_committed() {
    with_device(|device| {
        let target = buffer(device, 4096);
        for _ in 0..100 {
            let commands = begin(device);
            ok(fill(commands, target, 4096, 1));
            release_commands(commands);
        }
        assert!(read(target, 1024).iter().all(|value| *value == 0.0));

        // What was flushed before runs on.
        let commands = begin(device);
        ok(fill(commands, target, 4096, 0));
        ok(call!(iron_commands_flush(commands)));
        ok(fill(commands, target, 4096, 1));
        release_commands(commands);
        assert!(read(target, 1024).iter().all(|value| *value == 0.0));
        release_buffer(target);
    });
}

// ------------------------------------------------------------------------------------------------------------ threads

/// A handle for another thread: handles may be used by any thread.
struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: a handle is a number that the bridge checks, and ironbridge.h allows every thread to use it.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

#[test]
#[serial]
fn from_four_threads_on_one_device_and_on_four() {
    let baseline = Baseline::take();
    let shared = Shared(open("cpu"));
    thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                let shared = shared;
                for round in 0..50 {
                    matmul_and_drop(shared.0, 1000 * thread + round, false);
                    matmul_and_drop(open("cpu"), 1000 * thread + round, true);
                }
            });
        }
    });
    release_device(shared.0);
    baseline.holds();
}

/// One thread's release cannot take an object away from under another's call.
#[test]
#[serial]
fn a_handle_is_released_while_others_use_it() {
    let baseline = Baseline::take();
    let device = open("cpu");
    for _ in 0..200 {
        let shared = Shared(buffer_of(device, &[1.0; 64]));
        let start = Arc::new(std::sync::Barrier::new(4));
        thread::scope(|scope| {
            for _ in 0..3 {
                let start = start.clone();
                scope.spawn(move || {
                    let shared = shared;
                    start.wait();
                    loop {
                        let mut values = [0f32; 64];
                        match try_read(shared.0, &mut values) {
                            IRON_OK => assert_eq!(values, [1.0; 64]),
                            IRON_ERROR_INVALID_HANDLE => break,
                            other => panic!("{}: {}", name(other), last_error()),
                        }
                    }
                });
            }
            start.wait();
            release_buffer(shared.0);
        });
    }
    release_device(device);
    baseline.holds();
}

/// Several threads record, each its own commands, over the same buffers; and one at a time the same commands.
#[test]
#[serial]
fn commands_are_recorded_by_one_thread_at_a_time() {
    let baseline = Baseline::take();
    let device = Shared(open("cpu"));
    let target = Shared(buffer(device.0, 4096));
    let commands = Shared(begin(device.0));
    let recorded: u32 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let (device, target, commands) = (device, target, commands);
                    let mut recorded = 0;
                    for _ in 0..500 {
                        match fill(commands.0, target.0, 4096, 3) {
                            IRON_OK => recorded += 1,
                            status => fails(status, IRON_ERROR_BUSY, "commands"),
                        }
                        let own = begin(device.0);
                        ok(fill(own, target.0, 4096, 3));
                        commit_and_wait(own);
                        release_commands(own);
                    }
                    recorded
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    assert_eq!(describe(commands.0).operations, recorded);
    commit_and_wait(commands.0);
    assert_eq!(read(target.0, 1024)[0].to_bits(), 0x0303_0303);
    release_commands(commands.0);
    release_buffer(target.0);
    release_device(device.0);
    baseline.holds();
}

/// Results pass from commands to commands in the order of the commits, whichever thread they come from.
#[test]
#[serial]
fn commands_take_effect_in_the_order_of_their_commits() {
    with_device(|device| {
        let (source, target) = (buffer(device, 1 << 20), buffer(device, 1 << 20));
        for round in 0..50u8 {
            let first = begin(device);
            let second = begin(device);
            // Recorded the other way round.
            ok(call!(iron_encode_copy_bytes(
                second,
                source,
                0,
                target,
                0,
                1 << 20
            )));
            ok(fill(first, source, 1 << 20, round));
            commit(first);
            commit(second);
            release_commands(first);
            release_commands(second);
            let expected = f32::from_bits(u32::from_ne_bytes([round; 4]));
            assert_eq!(
                read(target, 1 << 18)
                    .iter()
                    .position(|value| value.to_bits() != expected.to_bits()),
                None
            );
        }
        release_buffer(source);
        release_buffer(target);
    });
}

/// What a thread leaves behind when it ends is nothing.
#[test]
#[serial]
fn threads_come_and_go() {
    let baseline = Baseline::take();
    let device = Shared(open("cpu"));
    for round in 0..200 {
        thread::spawn(move || {
            let device = device;
            matmul_and_drop(device.0, round, false);
            // A failing call leaves a message, which goes with the thread.
            let mut missing = std::ptr::null_mut();
            let status = call!(iron_device_open(c"none".as_ptr(), null(), &mut missing));
            fails(status, IRON_ERROR_NO_DEVICE, "none");
        })
        .join()
        .expect("no panic");
    }
    release_device(device.0);
    baseline.holds();
}
