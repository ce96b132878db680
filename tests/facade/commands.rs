//! Recording, committing, waiting, and who may touch what meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ironbridge::kernel::{Kernel, Library};
use ironbridge::ops::Elementwise;
use ironbridge::{
    Buffer, Commands, CommandsState, Device, Error, MatmulExecutor, Pending, ReadGuard, Result,
    Status, Tensor, WriteGuard,
};

use crate::support::{assert_status, device};

fn add(commands: &mut Commands, a: &Buffer<f32>, b: &Buffer<f32>, out: &Buffer<f32>) -> Result<()> {
    commands.add(&Elementwise::new(
        a.tensor().vector(out.len()),
        b.tensor().vector(out.len()),
        out.tensor().vector(out.len()),
    ))
}

fn ones(device: &Device) -> Buffer<f32> {
    device.buffer_from(&[1.0; 64]).unwrap()
}

#[test]
fn what_is_being_recorded_cannot_be_read_until_it_is_committed() {
    let device = device();
    let a = ones(&device);
    let mut out = device.buffer::<f32>(64).unwrap();
    let mut commands = device.commands().unwrap();
    add(&mut commands, &a, &a, &out).unwrap();

    assert_status(out.to_vec(), Status::NotCommitted);
    assert_status(out.map(), Status::NotCommitted);
    assert_status(out.write(&[0.0; 64]), Status::NotCommitted);
    assert_status(out.map_mut(), Status::NotCommitted);

    let _pending = commands.commit().unwrap();
    assert_eq!(out.to_vec().unwrap(), [2.0; 64], "reading waits");
}

#[test]
fn what_is_only_read_by_the_recording_can_be_read_but_not_written() {
    let device = device();
    let mut a = ones(&device);
    let out = device.buffer::<f32>(64).unwrap();
    let mut commands = device.commands().unwrap();
    add(&mut commands, &a, &a, &out).unwrap();
    assert_eq!(a.to_vec().unwrap(), [1.0; 64]);
    assert_eq!(*a.map().unwrap(), [1.0; 64]);
    assert_status(a.write(&[0.0; 64]), Status::NotCommitted);
    let pending = commands.commit().unwrap();
    a.write(&[5.0; 64]).unwrap(); // waits for the reader
    pending.wait().unwrap();
    assert_eq!(out.to_vec().unwrap(), [2.0; 64]);
}

#[test]
fn dropped_commands_free_what_they_touched() {
    let device = device();
    let mut out = ones(&device);
    let mut commands = device.commands().unwrap();
    add(&mut commands, &out, &out, &out).unwrap();
    drop(commands);
    assert_eq!(out.to_vec().unwrap(), [1.0; 64], "never ran");
    out.write(&[3.0; 64]).unwrap();
}

#[test]
fn a_mapped_buffer_is_not_written_by_commands() {
    let device = device();
    let a = ones(&device);
    let out = device.buffer::<f32>(64).unwrap();
    let mut commands = device.commands().unwrap();
    let mapped = out.map().unwrap();
    let error = assert_status(add(&mut commands, &a, &a, &out), Status::Mapped);
    assert!(matches!(error, Error::InUse(_)));
    // Its being read is no conflict.
    let third = device.buffer::<f32>(64).unwrap();
    add(&mut commands, &out, &a, &third).unwrap();
    drop(mapped);
    add(&mut commands, &a, &a, &out).unwrap();
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(out.to_vec().unwrap(), [2.0; 64]);
    assert_eq!(third.to_vec().unwrap(), [1.0; 64]);
}

#[test]
fn devices_do_not_mix() {
    let (one, two) = (device(), device());
    let (a, foreign) = (ones(&one), ones(&two));
    let out = one.buffer::<f32>(64).unwrap();
    let mut commands = one.commands().unwrap();
    for operands in [
        (&foreign, &a, &out),
        (&a, &foreign, &out),
        (&a, &a, &foreign),
    ] {
        let error = add(&mut commands, operands.0, operands.1, operands.2);
        assert!(matches!(error, Err(Error::WrongDevice(_))), "{error:?}");
    }
    add(&mut commands, &a, &a, &out).unwrap();
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(out.to_vec().unwrap(), [2.0; 64]);
    assert_eq!(foreign.to_vec().unwrap(), [1.0; 64]);
}

#[test]
fn a_clone_is_the_same_device() {
    let device = device();
    let a = ones(&device);
    let mut commands = device.clone().commands().unwrap();
    add(&mut commands, &a, &a, &a).unwrap();
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(a.to_vec().unwrap(), [2.0; 64]);
}

#[test]
fn operations_take_effect_in_order() {
    let device = device();
    let a = ones(&device);
    let mut commands = device.commands().unwrap();
    for _ in 0..10 {
        add(&mut commands, &a, &a, &a).unwrap();
    }
    commands.flush().unwrap();
    add(&mut commands, &a, &a, &a).unwrap();
    let first = commands.commit().unwrap();
    let mut commands = device.commands().unwrap();
    add(&mut commands, &a, &a, &a).unwrap();
    let second = commands.commit().unwrap();
    second.wait().unwrap();
    first.wait().unwrap();
    assert_eq!(a.to_vec().unwrap(), [4096.0; 64]);
}

#[test]
fn commands_flush_themselves() {
    let device = Device::options()
        .max_operations(10)
        .open("default")
        .unwrap();
    let a = ones(&device);
    let out = device.buffer::<f32>(64).unwrap();
    let record = |mut commands: Commands| {
        for _ in 0..25 {
            add(&mut commands, &a, &a, &out).unwrap();
        }
        assert_eq!(commands.info().unwrap().state, CommandsState::Recording);
        let pending = commands.commit().unwrap();
        pending.wait().unwrap();
        pending.info().unwrap()
    };
    let info = record(device.commands().unwrap());
    assert_eq!((info.operations, info.command_buffers), (25, 3));
    assert_eq!(info.state, CommandsState::Completed);
    let info = record(device.commands_options().max_operations(1).begin().unwrap());
    assert_eq!((info.operations, info.command_buffers), (25, 25));
    assert_eq!(out.to_vec().unwrap(), [2.0; 64]);
}

#[test]
fn empty_commands_are_complete_at_once() {
    let device = device();
    let pending = device.commands().unwrap().commit().unwrap();
    pending.wait_timeout(Duration::ZERO).unwrap();
    assert!(pending.is_complete().unwrap());
    assert_eq!(pending.info().unwrap().operations, 0);
}

/// A device on which every command buffer takes this long: much longer than a loaded machine keeps a thread waiting.
const DELAY: Duration = Duration::from_secs(2);

fn slow() -> (Device, Buffer<f32>, Pending) {
    let device = Device::open(&format!("cpu:delay_us={}", DELAY.as_micros())).unwrap();
    let a = ones(&device);
    let mut commands = device.commands().unwrap();
    add(&mut commands, &a, &a, &a).unwrap();
    let pending = commands.commit().unwrap();
    (device, a, pending)
}

#[test]
fn a_wait_has_a_limit_and_can_be_repeated() {
    let (device, a, pending) = slow();
    assert!(!pending.is_complete().unwrap());
    let error = assert_status(
        pending.wait_timeout(Duration::from_millis(2)),
        Status::Timeout,
    );
    assert!(matches!(error, Error::Timeout(_)));
    assert_status(device.sync_timeout(Duration::ZERO), Status::Timeout);
    pending.wait_timeout(Duration::from_secs(60)).unwrap();
    pending.wait().unwrap();
    device.sync_timeout(Duration::ZERO).unwrap();
    assert!(pending.info().unwrap().device_time >= DELAY);
    assert_eq!(a.to_vec().unwrap(), [2.0; 64]);
}

/// Command buffers that overlap on the device's clock count once, and pauses do not.
#[test]
fn a_device_says_how_long_it_worked() {
    let start = Instant::now();
    let (device, a, first) = slow();
    let mut second = device.commands().unwrap();
    add(&mut second, &a, &a, &a).unwrap();
    let second = second.commit().unwrap();
    device.sync().unwrap();
    std::thread::sleep(DELAY);
    let worked = device.info().unwrap().worked;
    assert!(worked >= DELAY, "{worked:?}");
    assert!(worked <= start.elapsed() - DELAY, "{worked:?}");
    let each = [&first, &second].map(|it| it.info().unwrap().device_time);
    assert!(worked <= each[0] + each[1], "{worked:?} of {each:?}");
    let listed = Device::list().unwrap();
    assert!(listed.iter().all(|info| info.worked.is_zero()));
}

#[test]
fn dropping_what_is_pending_does_not_block_and_the_work_runs_on() {
    let (device, a, pending) = slow();
    let start = Instant::now();
    drop(pending);
    drop(device);
    assert!(start.elapsed() < DELAY / 2);
    // Reading waits.
    assert_eq!(a.to_vec().unwrap(), [2.0; 64]);
}

#[test]
fn mapping_waits_for_the_device() {
    let (_device, a, pending) = slow();
    assert_eq!(*a.map().unwrap(), [2.0; 64]);
    assert!(pending.is_complete().unwrap());
}

/// What the header's "Threads" allows, at compile time; that `Commands` are not `Sync` is a doctest of theirs.
#[test]
fn handles_are_sent_and_shared() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Device>();
    shared::<Buffer<f32>>();
    shared::<ReadGuard<'_, u8>>();
    shared::<WriteGuard<'_, u8>>();
    shared::<Tensor<'_>>();
    shared::<Pending>();
    shared::<Library>();
    shared::<Kernel>();
    shared::<MatmulExecutor>();
    shared::<Error>();
    sent::<Commands>();
}

#[test]
fn recording_moves_between_threads() {
    let device = device();
    let a = ones(&device);
    let mut commands = device.commands().unwrap();
    add(&mut commands, &a, &a, &a).unwrap();
    let commands = std::thread::scope(|scope| {
        let record = || {
            add(&mut commands, &a, &a, &a).unwrap();
            commands
        };
        scope.spawn(record).join().unwrap()
    });
    let pending = std::thread::spawn(|| commands.commit().unwrap())
        .join()
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| pending.wait().unwrap());
        }
    });
    assert_eq!(a.to_vec().unwrap(), [4.0; 64]);
}

#[test]
fn threads_share_a_device_and_its_buffers() {
    let device = device();
    let weights = ones(&device);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (device, weights) = (&device, &weights);
            scope.spawn(move || {
                let start = [f32::from(thread); 64];
                let x = device.buffer_from(&start).unwrap();
                for round in 1..=50u8 {
                    let mut commands = device.commands().unwrap();
                    add(&mut commands, &x, weights, &x).unwrap();
                    let pending = commands.commit().unwrap();
                    if round % 2 == 0 {
                        pending.wait().unwrap();
                    }
                    let want = f32::from(thread) + f32::from(round);
                    assert_eq!(x.to_vec().unwrap(), [want; 64]);
                }
            });
        }
    });
    device.sync().unwrap();
}

/// One thread maps and looks twice, others write the same buffer through the device: whoever comes second waits or is
/// refused.
#[test]
fn what_is_mapped_never_changes_while_other_threads_try() {
    const LEN: usize = 50_000;
    let device = device();
    let shared = device.buffer::<f32>(LEN).unwrap();
    let one = device.buffer_from(&vec![1.0; LEN]).unwrap();
    let stop = AtomicBool::new(false);
    let (mapped, written, refused) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut commands = device.commands().unwrap();
                    match add(&mut commands, &shared, &one, &shared) {
                        Ok(()) => written.fetch_add(1, Ordering::Relaxed),
                        Err(Error::InUse(_)) => refused.fetch_add(1, Ordering::Relaxed),
                        Err(other) => panic!("{other:?}"),
                    };
                    drop(commands.commit().unwrap());
                }
            });
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300)
            || mapped.load(Ordering::Relaxed) == 0
            || refused.load(Ordering::Relaxed) == 0
        {
            match shared.map() {
                Ok(guard) => {
                    let first = guard.to_vec();
                    assert!(first.iter().all(|&element| element == first[0]), "torn");
                    assert_eq!(*guard, *first, "changed while mapped");
                    mapped.fetch_add(1, Ordering::Relaxed);
                }
                Err(Error::InUse(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
            if start.elapsed() > Duration::from_secs(60) {
                // Else the scope would wait for the others without end.
                stop.store(true, Ordering::Relaxed);
                panic!("one side starves");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    device.sync().unwrap();
    let count = written.load(Ordering::Relaxed) as f32;
    assert_eq!(shared.to_vec().unwrap(), vec![count; LEN]);
}
