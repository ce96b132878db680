//! The pool against a model of it, and in the patterns that broke other pools.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use ironbridge::memory::{Category, IdlePolicy};
use ironbridge::ops::{CopyBytes, Matmul};
use ironbridge::{Buffer, DType, Device};
use proptest::prelude::*;

use crate::memory::{open, report};

/// The smallest size class of at least `length`: four to the power of two.
fn class(length: u64) -> u64 {
    let mut power = 1;
    while power * 2 <= length {
        power *= 2;
    }
    let step = (power / 4).max(1);
    length.div_ceil(step) * step
}

#[derive(Default)]
struct Model {
    idle: VecDeque<u64>, // the newest first
    hits: u64,
    misses: u64,
    bypasses: u64,
    evictions: u64,
}

const MAX_BYTES: u64 = 64 << 10;
const MAX_BUFFERS: usize = 6;
const LARGEST: u64 = 24 << 10;

impl Model {
    fn take(&mut self, length: u64) {
        let bytes = class(length);
        if bytes > LARGEST {
            self.bypasses += 1;
        } else if let Some(at) = self.idle.iter().position(|&idle| idle == bytes) {
            self.idle.remove(at);
            self.hits += 1;
        } else {
            self.misses += 1;
        }
    }

    fn give(&mut self, length: u64) {
        let bytes = class(length);
        if bytes > LARGEST {
            return;
        }
        self.idle.push_front(bytes);
        while self.idle.iter().sum::<u64>() > MAX_BYTES || self.idle.len() > MAX_BUFFERS {
            self.idle.pop_back();
            self.evictions += 1;
        }
    }
}

fn fill_with(device: &Device, buffer: &Buffer<u8>, value: u8) {
    let mut commands = device.commands().unwrap();
    let fill =
        ironbridge::ops::Fill::new(buffer.tensor_at(0, DType::U32), buffer.len()).with_value(value);
    commands.fill(&fill).unwrap();
    commands.commit().unwrap().wait().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_does_what_the_model_does(
        steps in proptest::collection::vec((0u8..8, 1u64..9000, any::<usize>()), 1..120),
    ) {
        let options = Device::options().pool_max_bytes(MAX_BYTES).pool_max_buffers(MAX_BUFFERS as u32);
        let device = options.pool_max_buffer_bytes(LARGEST).open("cpu").unwrap();
        let mut model = Model::default();
        let mut held: Vec<(Buffer<u8>, u8)> = Vec::new();
        for (step, size, pick) in steps {
            match step {
                0..=3 => {
                    let length = size * 4; // whole words, for the fill
                    model.take(length);
                    let before = report(&device).device_bytes;
                    let buffer = device.buffer_options().pooled().create::<u8>(length as usize).unwrap();
                    let bytes = device.allocations().unwrap().iter().map(|one| one.bytes).sum::<u64>();
                    prop_assert_eq!(bytes, report(&device).active_bytes);
                    // The waste: at most a quarter, and none where the pool is bypassed.
                    let grown = report(&device).device_bytes - before;
                    let bound = if class(length) > LARGEST { length } else { length + length / 4 };
                    prop_assert!(grown <= bound + 16384, "{} for {}", grown, length);
                    held.push((buffer, 0));
                    let value = pick as u8;
                    let last = held.last_mut().unwrap();
                    fill_with(&device, &last.0, value);
                    last.1 = value;
                }
                4..=6 if !held.is_empty() => {
                    let (buffer, value) = held.swap_remove(pick % held.len());
                    // Nobody else was given its memory.
                    prop_assert!(buffer.map().unwrap().iter().all(|&byte| byte == value));
                    let length = buffer.len() as u64;
                    device.sync().unwrap();
                    drop(buffer);
                    model.give(length);
                }
                _ => {}
            }
            let now = report(&device);
            prop_assert_eq!(now.pool_buffers as usize, model.idle.len());
            prop_assert_eq!(now.pool_bytes, model.idle.iter().sum::<u64>());
            prop_assert_eq!(
                (now.pool_hits, now.pool_misses, now.pool_bypasses, now.pool_evictions),
                (model.hits, model.misses, model.bypasses, model.evictions)
            );
        }
        for (buffer, value) in held {
            prop_assert!(buffer.map().unwrap().iter().all(|&byte| byte == value));
        }
    }
}

/// A buffer that commands in flight read is dropped, and one of its size asked for at once.
#[test]
fn what_is_in_flight_is_never_handed_out_nor_purged() {
    const LENGTH: usize = 1 << 16;
    let device = Device::open("cpu:delay_us=3000").unwrap();
    let options = device.buffer_options().category(Category::Scratch).pooled();
    for round in 1..=20u8 {
        let source = options.create_from(&[round; LENGTH]).unwrap();
        let copy = options.create::<u8>(LENGTH).unwrap();
        let mut commands = device.commands().unwrap();
        commands
            .copy_bytes(&CopyBytes::new(
                source.tensor_at(0, DType::U32),
                copy.tensor_at(0, DType::U32),
                LENGTH,
            ))
            .unwrap();
        let pending = commands.commit().unwrap();
        drop(source);
        device.purge().unwrap();
        let junk = options.create_from(&[255u8; LENGTH]).unwrap();
        pending.wait().unwrap();
        assert_eq!(copy.to_vec().unwrap(), [round; LENGTH]);
        drop((copy, junk));
    }
    device.sync().unwrap();
    device.purge().unwrap();
    assert_eq!(report(&device).device_bytes, 0);
}

/// As a decoder does: the same temporaries for every token.
#[test]
fn a_steady_decode_loop_hits() {
    let device = open();
    let options = device
        .buffer_options()
        .category(Category::Activations)
        .pooled();
    for _ in 0..200 {
        let x = options.create::<f32>(2048).unwrap();
        for _ in 0..4 {
            let q = options.create::<f32>(2048).unwrap();
            let k = options.create::<f32>(256).unwrap();
            let hidden = options.create::<f32>(5632).unwrap();
            fill_with(&device, &options.create::<u8>(64).unwrap(), 1);
            drop((q, k, hidden));
        }
        drop(x);
        device.sync().unwrap();
    }
    let report = report(&device);
    let rate = report.reuse_rate().unwrap();
    assert!(rate > 0.95, "{rate}");
    assert!(rate > 0.99, "only the first token allocates: {report:?}");
}

/// A prompt's layers need scratch memory for one product, then for longer ones. From the second prompt on one buffer
/// serves all of them, and tokens in between, which need far less, have one of their own.
#[test]
fn scratch_memory_that_grows_is_one_buffer() {
    const ROWS: usize = 16;
    let longest = class((ROWS * 1000 * size_of::<f32>()) as u64);
    let options = Device::options().pool_max_bytes(longest + longest / 4);
    let device = options.open("cpu").unwrap();
    let [a, b, c] = [ROWS * 32, 32 * 1000, ROWS * 1000].map(|n| device.buffer::<f32>(n).unwrap());
    let run = |products: &[usize]| {
        let mut commands = device.commands().unwrap();
        for &columns in products {
            let product = Matmul::new(
                a.matrix(ROWS, 32),
                b.matrix(32, columns),
                c.matrix(ROWS, columns),
            );
            commands.matmul(&product.with_beta(0.5)).unwrap();
        }
        commands.commit().unwrap().wait().unwrap();
        device.sync().unwrap();
    };
    let prompt_and_token = || {
        run(&[400, 700, 1000]);
        run(&[8]);
    };
    prompt_and_token();
    prompt_and_token();
    let before = report(&device);
    for _ in 0..5 {
        prompt_and_token();
    }
    let after = report(&device);
    assert_eq!(after.pool_hits, before.pool_hits + 2 * 5, "{after:?}");
    assert_eq!(after.pool_misses, before.pool_misses, "{after:?}");
    assert_eq!(after.pool_evictions, before.pool_evictions, "{after:?}");
}

/// Bytes.
fn page_size() -> u64 {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// MLX issue 3350: a cache that grows with every token defeats reuse by size.
#[test]
fn growing_sizes_stay_within_the_bound() {
    const BOUND: u64 = 1 << 20;
    let options = Device::options().pool_max_bytes(BOUND).pool_max_buffers(16);
    let device = options.open("cpu").unwrap();
    let options = device.buffer_options().category(Category::KvCache).pooled();
    let mut cache = options.create::<u8>(64).unwrap();
    let mut most = 0;
    for tokens in 2..2000 {
        let larger = options.create::<u8>(64 * tokens).unwrap();
        cache = larger;
        let now = report(&device);
        most = most.max(now.device_bytes - now.active_bytes);
        assert!(now.pool_bytes <= BOUND && now.pool_buffers <= 16);
    }
    drop(cache);
    // Of 16 idle buffers and the live one, each up to a page.
    assert!(
        most <= BOUND + 17 * page_size(),
        "idle and rounding: {most}"
    );
}

#[test]
fn weights_and_large_buffers_bypass_it() {
    let options = Device::options().pool_max_buffer_bytes(1 << 20);
    let device = options.open("cpu").unwrap();
    let options = device.buffer_options().pooled();
    let weights = options
        .clone()
        .category(Category::Weights)
        .create::<u8>(1000)
        .unwrap();
    let large = options.create::<u8>((1 << 20) + 1).unwrap();
    let now = report(&device);
    assert_eq!(now.active_bytes, 1000 + (1 << 20) + 1, "no size classes");
    assert_eq!(
        (now.pool_bypasses, now.pool_hits, now.pool_misses),
        (2, 0, 0)
    );
    drop((weights, large));
    assert_eq!(report(&device).device_bytes, 0);
}

#[test]
fn limits_change_while_the_device_is_open() {
    let device = open();
    let options = device.buffer_options().pooled();
    let idle: Vec<_> = (1..=8)
        .map(|n| options.create::<u8>(n << 16).unwrap())
        .collect();
    drop(idle);
    assert_eq!(report(&device).pool_buffers, 8);
    let mut settings = device.memory_settings().unwrap();
    assert_eq!(
        (settings.pool_max_bytes, settings.pool_max_buffers),
        (Some(256 << 20), Some(64))
    );
    assert_eq!(settings.memory_limit, None);
    settings.pool_max_buffers = Some(3);
    device.set_memory_settings(&settings).unwrap();
    let now = report(&device);
    assert_eq!((now.pool_buffers, now.pool_evictions), (3, 5));
    settings.pool_policy = IdlePolicy::Release;
    device.set_memory_settings(&settings).unwrap();
    assert_eq!(report(&device).device_bytes, 0);
    assert_eq!(device.memory_settings().unwrap(), settings);
    drop(options.create::<u8>(100).unwrap());
    assert_eq!(
        report(&device).pool_bypasses,
        1,
        "there is no pool any more"
    );
}

/// The largest number means no limit, and no time means at once, whoever is told: the options or the settings.
#[test]
fn no_limit_and_no_time_mean_the_same_to_options_and_settings() {
    let unlimited = Device::options()
        .pool_max_bytes(u64::MAX)
        .pool_idle_time(Duration::MAX)
        .open("cpu")
        .unwrap();
    let settings = unlimited.memory_settings().unwrap();
    assert_eq!(
        (settings.pool_max_bytes, settings.pool_idle_time),
        (None, None)
    );
    drop(
        unlimited
            .buffer_options()
            .pooled()
            .create::<u8>(1 << 16)
            .unwrap(),
    );
    assert_eq!(report(&unlimited).pool_buffers, 1);

    let by_options = Device::options()
        .pool_idle_time(Duration::ZERO)
        .open("cpu")
        .unwrap();
    let by_settings = open();
    let mut settings = by_settings.memory_settings().unwrap();
    settings.pool_idle_time = Some(Duration::ZERO);
    by_settings.set_memory_settings(&settings).unwrap();
    assert_eq!(
        by_options.memory_settings().unwrap(),
        by_settings.memory_settings().unwrap()
    );
    for device in [&by_options, &by_settings] {
        wait_until_nothing_is_idle(device);
    }
}

fn wait_until_nothing_is_idle(device: &Device) {
    drop(
        device
            .buffer_options()
            .pooled()
            .create::<u8>(1 << 16)
            .unwrap(),
    );
    let start = Instant::now();
    while report(device).pool_buffers > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "still idle");
        thread::yield_now();
    }
}

/// The thread that gives idle memory back takes it out of the accounts first: a report waits until it is gone.
#[test]
fn the_accounts_are_exact_while_memory_expires() {
    let device = Device::options()
        .pool_idle_time(Duration::ZERO)
        .open("cpu")
        .unwrap();
    for _ in 0..300 {
        wait_until_nothing_is_idle(&device);
    }
}
