//! Handles dropped in every order while work is in flight.

use ironbridge::ops::Matmul;
use ironbridge::{Buffer, Device, DeviceKind, Pending};

use crate::oracle;
use crate::support::{assert_close, f64s, numbers};

const SHAPE: (usize, usize, usize) = (15, 96, 64);

struct Work {
    device: Device,
    a: Buffer<f32>,
    b: Buffer<f32>,
    c: Buffer<f32>,
    pending: Pending,
    want: Vec<f64>,
}

/// A product in flight, for long enough to drop things.
fn work() -> Work {
    let (m, k, n) = SHAPE;
    let device = Device::open("cpu:delay_us=20000").unwrap();
    let (x, w) = (numbers(m * k, 1), numbers(k * n, 2));
    let a = device.buffer_from(&x).unwrap();
    let b = device.buffer_from(&w).unwrap();
    let c = device.buffer(m * n).unwrap();
    let mut commands = device.commands().unwrap();
    commands
        .matmul(&Matmul::new(a.matrix(m, k), b.matrix(k, n), c.matrix(m, n)))
        .unwrap();
    Work {
        want: oracle::matmul(&f64s(&x), &f64s(&w), m, k, n),
        pending: commands.commit().unwrap(),
        device,
        a,
        b,
        c,
    }
}

#[test]
fn the_output_alone_is_enough() {
    let work = work();
    drop((work.device, work.a, work.b, work.pending));
    assert_close(&work.c.to_vec().unwrap(), &work.want, 1e-5);
}

#[test]
fn inputs_are_dropped_right_after_the_commit() {
    let work = work();
    drop((work.a, work.b));
    work.pending.wait().unwrap();
    assert_close(&work.c.to_vec().unwrap(), &work.want, 1e-5);
}

#[test]
fn everything_is_dropped_right_after_the_commit() {
    for _ in 0..20 {
        drop(work());
    }
}

#[test]
fn everything_is_dropped_on_another_thread() {
    let work = work();
    std::thread::spawn(move || drop(work)).join().unwrap();
}

#[test]
fn a_closed_device_leaves_its_buffers_usable() {
    let device = Device::open("default").unwrap();
    let mut buffer = device.buffer_from(&[1u32, 2, 3]).unwrap();
    drop(device);
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    buffer.map_mut().unwrap()[0] = 9;
    assert_eq!(buffer.to_vec().unwrap(), [9, 2, 3]);
}

#[test]
fn the_list_ends_with_the_software_device_and_each_opens_by_index() {
    let list = Device::list().unwrap();
    assert_eq!(list.last().unwrap().kind, DeviceKind::Software);
    for (index, info) in list.iter().enumerate() {
        assert_eq!(info.index as usize, index);
        assert!(!info.name.is_empty());
        let device = Device::open(&index.to_string()).unwrap();
        assert_eq!(device.info().unwrap().name, info.name);
    }
    let cpu = Device::open("cpu").unwrap().info().unwrap();
    assert_eq!(cpu.kind, DeviceKind::Software);
    assert!(cpu.unified_memory);
    assert!(cpu.max_buffer_length > 0 && cpu.max_threads_per_threadgroup > 0);
}
