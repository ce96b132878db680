//! The figures: one identity, baselines, peaks, lists, JSON.

use std::sync::Arc;
use std::time::Duration;

use ironbridge::memory::{Category, IdlePolicy, Reclaim};
use ironbridge::{Device, Storage};
use proptest::prelude::*;

use crate::memory::{open, report};

const PAGE: usize = 16384;

pub struct Pages(memmap2::MmapMut);

// SAFETY: an anonymous mapping has whole pages, does not move, and nobody writes to it.
unsafe impl ironbridge::HostMemory for Pages {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

pub fn pages(count: usize) -> Arc<Pages> {
    Arc::new(Pages(memmap2::MmapMut::map_anon(count * PAGE).unwrap()))
}

#[test]
fn every_category_is_counted_both_ways() {
    let device = open();
    let empty = report(&device);
    assert_eq!(empty.device_bytes, 0);
    let of = |category| device.buffer_options().category(category);
    let weights = of(Category::Weights).create::<f32>(1000).unwrap();
    let wrapped = of(Category::Weights).wrap(pages(3)).unwrap();
    let private = of(Category::KvCache)
        .storage(Storage::Private)
        .create::<u8>(5)
        .unwrap();
    let scratch = of(Category::Scratch).pooled().create::<u8>(5000).unwrap();
    let during = report(&device);
    assert_eq!(
        during.category(Category::Weights).bytes,
        4000 + 3 * PAGE as u64
    );
    assert_eq!(during.category(Category::Weights).count, 2);
    assert_eq!(during.category(Category::KvCache).count, 1);
    assert_eq!(
        during.category(Category::Scratch).bytes,
        5120,
        "a size class"
    );
    assert_eq!(during.active_buffers, 4);
    drop((weights, wrapped, private));
    assert_eq!(report(&device).active_bytes, 5120);
    drop(scratch);
    let idle = report(&device);
    assert_eq!((idle.active_bytes, idle.pool_bytes), (0, 5120));
    assert_eq!(
        (idle.peak_buffers, idle.allocations, idle.releases),
        (4, 4, 4)
    );
    device.purge().unwrap();
    assert_eq!(report(&device).device_bytes, 0);
}

#[test]
fn the_queue_and_the_pipelines_are_counted() {
    let device = open();
    assert_eq!(report(&device).category(Category::Queues).count, 1);
    assert_eq!(report(&device).category(Category::Pipelines).count, 0);
    let executor = ironbridge::MatmulExecutor::on(device.clone());
    executor
        .matmul_f32(&[1.0], &[2.0], &mut [0.0], 1, 1, 1)
        .unwrap();
    let after = report(&device);
    assert_eq!(
        after.category(Category::Pipelines).count,
        2,
        "a library and a pipeline state"
    );
    assert_eq!((after.operations, after.command_buffers), (1, 1));
}

#[test]
fn baselines_deltas_and_resets() {
    let device = open();
    let before = device
        .buffer_options()
        .category(Category::KvCache)
        .create::<u8>(1 << 20)
        .unwrap();
    device.set_memory_baseline().unwrap();
    assert_eq!(report(&device).since_baseline().bytes(), 0);
    let more = device
        .buffer_options()
        .category(Category::KvCache)
        .create::<u8>(3 << 20)
        .unwrap();
    let first = report(&device);
    let change = first.since_baseline().category(Category::KvCache);
    assert_eq!((change.bytes, change.count), (3 << 20, 1));
    drop((before, more));
    let second = report(&device);
    assert_eq!(second.since_baseline().bytes(), -(1 << 20));
    assert_eq!(second.since(&first).category(Category::KvCache).count, -2);
    assert_eq!(second.peak_bytes, 4 << 20);
    device.reset_memory_peak().unwrap();
    assert_eq!(report(&device).peak_bytes, 0);
    device.set_memory_baseline().unwrap();
    assert_eq!(report(&device).since_baseline().bytes(), 0);
}

#[test]
fn live_buffers_are_listed_with_the_place_that_made_them() {
    let device = open();
    let options = device
        .buffer_options()
        .category(Category::Weights)
        .label("wq");
    let (large, line) = (options.create::<u8>(5000).unwrap(), line!());
    let small = device.buffer_from(&[1.0f32]).unwrap();
    let list = device.allocations().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!((list[0].bytes, list[0].label.as_str()), (5000, "wq"));
    assert_eq!(list[0].place, Some((file!().to_string(), line)));
    assert_eq!(
        (list[0].category, list[0].references),
        (Category::Weights, 1)
    );
    assert_eq!(list[1].place, Some((file!().to_string(), line + 1)));
    assert!(!list[0].in_use && !list[0].pooled && !list[0].wrapped);
    let map = large.map().unwrap();
    assert!(device.allocations().unwrap()[0].in_use);
    drop(map);
    drop((large, small));
    assert_eq!(device.allocations().unwrap(), []);
}

#[test]
fn the_json_is_json_and_says_the_same() {
    let device = open();
    let _held = device
        .buffer_options()
        .category(Category::KvCache)
        .create::<u8>(77)
        .unwrap();
    let report = report(&device);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["active_bytes"], 77);
    assert_eq!(json["device_bytes"], report.device_bytes);
    assert_eq!(json["categories"]["kv_cache"]["count"], 1);
    assert_eq!(json["since_baseline"]["kv_cache"]["bytes"], 77);
}

#[test]
fn memory_is_reclaimed_with_a_report() {
    let device = Device::open("cpu:delay_us=1000000").unwrap();
    let out = device
        .buffer_options()
        .pooled()
        .create::<u8>(1 << 20)
        .unwrap();
    let mut commands = device.commands().unwrap();
    let fill =
        ironbridge::ops::Fill::new(out.tensor_at(0, ironbridge::DType::U32), 1 << 20).with_value(1);
    commands.fill(&fill).unwrap();
    let pending = commands.commit().unwrap();
    drop((out, pending));
    let nothing = device.reclaim(Reclaim::Purge).unwrap();
    assert_eq!(
        (nothing.freed_bytes, nothing.buffers),
        (0, 0),
        "it is in flight"
    );
    let waited = device.reclaim(Reclaim::Sync).unwrap();
    assert_eq!((waited.command_buffers, waited.freed_bytes), (1, 0));
    let purged = device.reclaim(Reclaim::Purge).unwrap();
    assert_eq!((purged.buffers, purged.freed_bytes), (1, 1 << 20));
    assert_eq!((purged.device_before, purged.device_after), (1 << 20, 0));
    device.cleanup().unwrap();
    let clean = report(&device);
    assert_eq!(
        (clean.operations, clean.pool_misses, clean.peak_bytes),
        (0, 0, 0)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_sum_is_the_devices_after_every_step(
        empty in any::<bool>(),
        steps in proptest::collection::vec((0u8..6, 1usize..100_000, any::<usize>()), 1..60),
    ) {
        let policy = if empty { IdlePolicy::Empty } else { IdlePolicy::Volatile };
        let options = Device::options().pool_max_bytes(1 << 18).pool_max_buffers(5);
        let device = options.pool_policy(policy).open("cpu").unwrap();
        let mut held = Vec::new();
        for (step, size, pick) in steps {
            let options = device.buffer_options().category(Category::ALL[pick % 5]);
            match step {
                0 => held.push(options.create::<u8>(size).unwrap()),
                1 => held.push(options.pooled().create::<u8>(size).unwrap()),
                2 => held.push(options.storage(Storage::Private).pooled().create::<u8>(size).unwrap()),
                3 => held.push(options.wrap(pages(1 + size % 4)).unwrap()),
                4 if !held.is_empty() => drop(held.swap_remove(pick % held.len())),
                _ => drop(device.purge().unwrap()),
            }
            let now = report(&device);
            prop_assert_eq!(now.active_buffers as usize, held.len());
            prop_assert!(now.pool_bytes <= 1 << 18 && now.pool_buffers <= 5);
        }
        drop(held);
        device.purge().unwrap();
        prop_assert_eq!(report(&device).device_bytes, 0);
    }
}

#[test]
fn idle_memory_goes_back_by_itself() {
    let options = Device::options().pool_idle_time(Duration::from_millis(50));
    let device = options.open("cpu").unwrap();
    drop(
        device
            .buffer_options()
            .pooled()
            .create::<u8>(1 << 20)
            .unwrap(),
    );
    assert_eq!(report(&device).pool_buffers, 1);
    let start = std::time::Instant::now();
    while device.memory().unwrap().device_bytes > 0 && start.elapsed().as_secs() < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let after = report(&device);
    assert_eq!((after.device_bytes, after.pool_expired), (0, 1));
    // And again, once the thread that did it has ended.
    std::thread::sleep(Duration::from_millis(20));
    drop(
        device
            .buffer_options()
            .pooled()
            .create::<u8>(1 << 20)
            .unwrap(),
    );
    let start = std::time::Instant::now();
    while device.memory().unwrap().device_bytes > 0 && start.elapsed().as_secs() < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(report(&device).pool_expired, 2);
}
