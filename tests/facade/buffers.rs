//! Making, reading, writing and mapping.

use half::{bf16, f16};
use ironbridge::memory::Category;
use ironbridge::ops::Elementwise;
use ironbridge::{Element, Error, Status, Storage};

use crate::support::{assert_status, device, eventually, numbers, run};

fn round_trip<T: Element>(elements: &[T]) {
    let device = device();
    let mut buffer = device.buffer_from(elements).unwrap();
    assert_eq!(buffer.len(), elements.len());
    assert_eq!(buffer.to_vec().unwrap(), elements);

    let reversed: Vec<T> = elements.iter().rev().copied().collect();
    buffer.write(&reversed).unwrap();
    assert_eq!(&*buffer.map().unwrap(), reversed);

    buffer.map_mut().unwrap().copy_from_slice(elements);
    let mut read = vec![T::default(); elements.len()];
    buffer.read_into(&mut read).unwrap();
    assert_eq!(read, elements);
}

#[test]
fn every_element_type_comes_back_as_it_went() {
    round_trip(&[1.5f32, -0.0, f32::MAX, f32::INFINITY]);
    round_trip(&[1.5, -2.0, 65504.0].map(f16::from_f32));
    round_trip(&[1.5, -2.0, 3e38].map(bf16::from_f32));
    round_trip(&[0u32, 1, u32::MAX]);
    round_trip(&[0u8, 255, 7]);
    round_trip(&[0i8, -128, 127, 5, 9]);
}

#[test]
fn a_new_buffer_is_zeroed() {
    let buffer = device().buffer::<u32>(10_000).unwrap();
    assert!(buffer.map().unwrap().iter().all(|&element| element == 0));
}

#[test]
fn parts_are_read_and_written_by_index() {
    let mut buffer = device().buffer_from(&[0u32, 1, 2, 3, 4]).unwrap();
    buffer.write_at(3, &[30, 40]).unwrap();
    let mut part = [0; 3];
    buffer.read_at(2, &mut part).unwrap();
    assert_eq!(part, [2, 30, 40]);
}

#[test]
fn ranges_outside_the_buffer_are_refused() {
    let mut buffer = device().buffer_from(&[0u32, 1, 2]).unwrap();
    assert_status(buffer.read_at(2, &mut [0; 2]), Status::OutOfRange);
    assert_status(buffer.read_at(usize::MAX, &mut [0; 2]), Status::OutOfRange);
    assert_status(buffer.write_at(3, &[1]), Status::OutOfRange);
    assert_status(buffer.write(&[1, 2]), Status::Shape);
    assert_status(buffer.write(&[1, 2, 3, 4]), Status::Shape);
    assert_status(buffer.read_into(&mut [0; 4]), Status::Shape);
    assert_eq!(buffer.to_vec().unwrap(), [0, 1, 2]);
}

#[test]
fn sizes_that_no_buffer_has_are_refused() {
    let device = device();
    for len in [0, usize::MAX, usize::MAX / 4, usize::MAX / 8] {
        let error = device.buffer::<f32>(len).unwrap_err();
        assert!(
            matches!(error, Error::InvalidArgument(_) | Error::OutOfMemory(_)),
            "{len}: {error:?}"
        );
    }
    assert!(matches!(
        device.buffer_from::<f32>(&[]),
        Err(Error::InvalidArgument(_))
    ));
}

#[test]
fn labels_are_kept_cut_and_checked() {
    let device = device();
    let buffer = device
        .buffer_options()
        .label("γ of layer 3")
        .create::<f32>(1)
        .unwrap();
    assert_eq!(buffer.label().unwrap(), "γ of layer 3");
    buffer.set_label("").unwrap();
    assert_eq!(buffer.label().unwrap(), "");
    buffer.set_label(&"long ".repeat(1000)).unwrap();
    assert!("long ".repeat(1000).starts_with(&buffer.label().unwrap()));
    assert!(matches!(buffer.set_label("a\0b"), Err(Error::Text { .. })));
    assert!(device.buffer::<f32>(1).unwrap().label().unwrap().is_empty());
}

#[test]
fn categories_are_counted_and_given_back() {
    let device = device();
    let before = device.memory().unwrap();
    let cache = device
        .buffer_options()
        .category(Category::KvCache)
        .create::<f32>(1 << 16)
        .unwrap();
    let during = device.memory().unwrap();
    let grown = during.category(Category::KvCache).bytes - before.category(Category::KvCache).bytes;
    assert!(grown >= 4 << 16, "{grown}");
    assert_eq!(during.category(Category::KvCache).count, 1);
    assert!(during.peak_bytes >= before.active_bytes + (4 << 16));
    drop(cache);
    assert!(eventually(|| {
        let after = device.memory().unwrap();
        after.category(Category::KvCache) == before.category(Category::KvCache)
            && after.active_bytes == before.active_bytes
    }));
}

#[test]
fn pooled_memory_is_reused_and_purged() {
    let device = device();
    let make = || {
        let buffer = device.buffer_options().pooled().create::<f32>(1 << 18);
        drop(buffer.unwrap());
    };
    make();
    assert!(eventually(|| device.memory().unwrap().pool_buffers == 1));
    make();
    assert!(eventually(|| device.memory().unwrap().pool_buffers == 1));
    let report = device.memory().unwrap();
    assert_eq!((report.pool_hits, report.pool_misses), (1, 1));
    assert!(report.pool_bytes >= 4 << 18);

    assert!(device.purge().unwrap() >= 4 << 18);
    let report = device.memory().unwrap();
    assert_eq!((report.pool_bytes, report.pool_buffers), (0, 0));
}

#[test]
fn a_device_without_a_pool_keeps_nothing() {
    let device = ironbridge::Device::options()
        .pool_policy(ironbridge::memory::IdlePolicy::Release)
        .open("default")
        .unwrap();
    drop(device.buffer_options().pooled().create::<f32>(1 << 16));
    assert!(eventually(|| device.memory().unwrap().active_bytes == 0));
    assert_eq!(device.memory().unwrap().pool_bytes, 0);
}

#[test]
fn private_memory_is_read_and_written_but_not_mapped() {
    let device = device();
    let options = device.buffer_options().storage(Storage::Private);
    let x = numbers(1000, 1);
    let a = options.create_from(&x).unwrap();
    let mut out = options.create::<f32>(1000).unwrap();
    assert_eq!(out.to_vec().unwrap(), [0.0; 1000]);
    run(&device, |commands| {
        commands.add(&Elementwise::new(
            a.tensor().vector(1000),
            a.tensor().vector(1000),
            out.tensor().vector(1000),
        ))
    })
    .unwrap();
    let doubled: Vec<f32> = x.iter().map(|v| v + v).collect();
    assert_eq!(out.to_vec().unwrap(), doubled);
    out.write_at(500, &[9.0; 4]).unwrap();
    let mut part = [0.0; 6];
    out.read_at(499, &mut part).unwrap();
    assert_eq!(part, [doubled[499], 9.0, 9.0, 9.0, 9.0, doubled[504]]);

    assert_status(out.map(), Status::Unsupported);
    assert_status(out.map_mut(), Status::Unsupported);
}

#[test]
fn read_maps_are_many_and_see_what_was_written() {
    let device = device();
    let mut buffer = device.buffer::<f32>(4).unwrap();
    {
        let mut write = buffer.map_mut().unwrap();
        write[2] = 7.0;
        assert_eq!(*write, [0.0, 0.0, 7.0, 0.0]);
    }
    let one = buffer.map().unwrap();
    let two = buffer.map().unwrap();
    assert_eq!(*one, *two);
    // Reading goes on beside them.
    assert_eq!(buffer.to_vec().unwrap(), *one);
    drop(one);
    assert_eq!(two[2], 7.0);
}

#[test]
fn guards_cross_threads() {
    let device = device();
    let mut buffer = device.buffer::<f32>(8).unwrap();
    std::thread::scope(|scope| {
        let mut guard = buffer.map_mut().unwrap();
        scope.spawn(move || guard.fill(3.0));
    });
    let guard = buffer.map().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(*guard, [3.0; 8]));
        }
    });
}

#[test]
fn a_forgotten_guard_leaves_a_buffer_that_refuses_but_works() {
    let device = device();
    let mut buffer = device.buffer_from(&[1u32, 2]).unwrap();
    std::mem::forget(buffer.map().unwrap());
    assert_status(buffer.write(&[3, 4]), Status::Mapped);
    assert_eq!(buffer.to_vec().unwrap(), [1, 2]);
}
