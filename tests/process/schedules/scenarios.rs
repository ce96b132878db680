//! The programs. Each may be over in any order, and leaves nothing.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::abi::*;
use ironbridge::ffi::*;

/// A handle for another thread: handles may be used by any thread.
struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T> Shared<T> {
    /// Takes the whole of it, so that a closure captures no bare pointer.
    fn get(self) -> *mut T {
        self.0
    }
}

// SAFETY: a handle is a number that the bridge checks, and ironbridge.h allows every thread to use it.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

type Device = Shared<iron_device>;

fn device_with(options: iron_device_options) -> Device {
    Shared(open_with("cpu", &options))
}

/// Each part on a thread of its own, by the schedule of that seed. It begins when all have come to their first call.
fn together(seed: u64, parts: &[&(dyn Fn() + Sync)]) {
    let conductor = open(&format!("cpu:schedule={seed}:{}", parts.len()));
    thread::scope(|scope| {
        for part in parts {
            scope.spawn(part);
        }
    });
    release_device(conductor);
}

/// What a call gives on a device that another thread may close meanwhile: whether it was still open.
#[track_caller]
fn open_still(status: iron_status) -> bool {
    assert!(
        [IRON_OK, IRON_ERROR_INVALID_HANDLE].contains(&status),
        "{}: {}",
        name(status),
        last_error()
    );
    status == IRON_OK
}

/// No buffer is in use, and with nothing idle the device has no byte.
#[track_caller]
fn books_are_balanced(device: Device) {
    ok(call!(iron_device_sync(device.get(), FOREVER)));
    ok(call!(iron_memory_reclaim(
        device.get(),
        IRON_RECLAIM_PURGE,
        0,
        null_mut()
    )));
    let info = memory(device.get());
    assert_eq!(
        (info.active_bytes, info.active_buffers, info.pool_bytes),
        (0, 0, 0)
    );
    // The reaper's thread may have taken the last one out of the pool and not given it back yet.
    settles((0, 0), || {
        let info = memory(device.get());
        (info.device_bytes, info.unaccounted_bytes)
    });
    assert_eq!(info.allocations, info.releases);
}

fn pooled(device: Device, bytes: u64) -> *mut iron_buffer {
    buffer_with(
        device.get(),
        bytes,
        &iron_buffer_options {
            pooled: 1,
            ..buffer_options()
        },
    )
}

fn churn(device: Device) {
    for round in 0..6 {
        release_buffer(pooled(device, 64 << (round % 3)));
    }
}

fn purge(device: Device) {
    for _ in 0..6 {
        ok(call!(iron_memory_reclaim(
            device.get(),
            IRON_RECLAIM_PURGE,
            0,
            null_mut()
        )));
    }
}

pub fn release_under_eviction(seed: u64) {
    let device = device_with(iron_device_options {
        pool_max_buffers: 1,
        ..Default::default()
    });
    together(
        seed,
        &[&|| churn(device), &|| churn(device), &|| purge(device)],
    );
    books_are_balanced(device);
    release_device(device.get());
}

/// What becomes idle has been so for too long already: the reaper's thread takes it, or the next release does.
pub fn release_under_expiry(seed: u64) {
    let device = device_with(iron_device_options {
        pool_idle_time: 1,
        ..Default::default()
    });
    together(seed, &[&|| churn(device), &|| churn(device)]);
    books_are_balanced(device);
    release_device(device.get());
}

/// Writes and reads private memory; false when the device is closed.
fn transfer(device: Device) -> bool {
    let options = iron_buffer_options {
        storage: IRON_STORAGE_PRIVATE,
        ..buffer_options()
    };
    let (mut target, mut values) = (null_mut(), [1.5f32; 32]);
    let bytes = size_of_val(&values) as u64;
    let pointer = values.as_mut_ptr().cast::<c_void>();
    let made = call!(iron_buffer_create_with_bytes(
        device.get(),
        pointer,
        bytes,
        &options,
        &mut target
    ));
    if !open_still(made) {
        return false;
    }
    let open = open_still(call!(iron_buffer_write(target, 0, pointer, bytes)))
        && open_still(call!(iron_buffer_read(target, 0, pointer, bytes)));
    assert_eq!(values, [1.5; 32]);
    release_buffer(target);
    open
}

/// Polls, and then waits: the second call closes what the first one may have left open.
fn close(device: Device) {
    let polled = call!(iron_device_close(device.get(), 0, null_mut()));
    if polled != IRON_OK {
        fails(polled, IRON_ERROR_TIMEOUT, "still works");
        ok(call!(iron_device_close(device.get(), FOREVER, null_mut())));
    }
}

pub fn close_under_transfers(seed: u64) {
    let device = device_with(Default::default());
    let until_closed = || while transfer(device) {};
    together(
        seed,
        &[&until_closed, &until_closed, &|| {
            transfer(device);
            close(device);
        }],
    );
    release_device(device.get());
}

/// Fills a buffer and lets go of it before that is done; false when the device is closed.
fn fill_and_drop(device: Device) -> bool {
    let (mut target, mut commands) = (null_mut(), null_mut());
    if !open_still(call!(iron_buffer_create(
        device.get(),
        256,
        null(),
        &mut target
    ))) {
        return false;
    }
    let mut open = open_still(call!(iron_commands_begin(
        device.get(),
        null(),
        &mut commands
    )));
    if open {
        open = open_still(fill(commands, target, 256, 7))
            && open_still(call!(iron_commands_commit(commands)));
        release_commands(commands);
    }
    release_buffer(target);
    open
}

pub fn close_under_commit(seed: u64) {
    let device = device_with(iron_device_options {
        max_in_flight: 2,
        ..Default::default()
    });
    let until_closed = || while fill_and_drop(device) {};
    together(
        seed,
        &[&until_closed, &until_closed, &|| {
            fill_and_drop(device);
            close(device);
        }],
    );
    release_device(device.get());
}

static RETURNED: AtomicU64 = AtomicU64::new(0);

/// On whichever thread lets go last. Where that thread completes the device's work it must not wait for it, and is told
/// so.
unsafe extern "C" fn take_back(_: *mut c_void, _: u64, device: *mut c_void) {
    let status = call!(iron_device_sync(device.cast(), FOREVER));
    assert!(
        [IRON_OK, IRON_ERROR_STATE, IRON_ERROR_INVALID_HANDLE].contains(&status),
        "{}: {}",
        name(status),
        last_error()
    );
    RETURNED.fetch_add(1, Ordering::SeqCst);
}

/// The last reference to a wrapped buffer, to the commands and to their device goes where the device tells of their
/// completion.
pub fn drop_inside_a_completion_handler(seed: u64) {
    const PAGE: usize = 65536; // a multiple of every page size
    let memory = std::alloc::Layout::from_size_align(2 * PAGE, PAGE).expect("it is one");
    // SAFETY: the size is not 0.
    let pages = Shared(unsafe { std::alloc::alloc_zeroed(memory) });
    let before = RETURNED.load(Ordering::SeqCst);
    let device = device_with(Default::default());
    let drop_all = |half: usize| {
        let mut target = null_mut();
        ok(call!(iron_buffer_wrap(
            device.get(),
            pages.get().wrapping_add(half * PAGE).cast(),
            PAGE as u64,
            Some(take_back),
            device.get().cast(),
            null(),
            &mut target
        )));
        let commands = begin(device.get());
        ok(fill(commands, target, PAGE as u64, 7));
        release_buffer(target);
        commit(commands);
        release_commands(commands);
        release_device(device.get());
    };
    ok(call!(iron_device_retain(device.get())));
    together(seed, &[&|| drop_all(0), &|| drop_all(1)]);
    settles(before + 2, || RETURNED.load(Ordering::SeqCst));
    // SAFETY: made above; the device has given both halves back and says so once it no longer uses them.
    unsafe {
        assert!((0..2 * PAGE).all(|index| pages.get().add(index).read() == 7));
        std::alloc::dealloc(pages.get(), memory);
    }
}

/// Copies from one pooled buffer to another, which another thread's reclaim would have back.
fn record(device: Device) {
    for round in 1..4 {
        let (source, target) = (pooled(device, 256), pooled(device, 256));
        let commands = begin(device.get());
        ok(fill(commands, source, 256, round));
        ok(call!(iron_commands_flush(commands)));
        ok(call!(iron_encode_copy_bytes(
            commands, source, 0, target, 0, 256
        )));
        release_buffer(source);
        commit(commands);
        release_commands(commands);
        let expected = u32::from_ne_bytes([round; 4]);
        assert!(
            read(target, 64)
                .iter()
                .all(|value| value.to_bits() == expected)
        );
        release_buffer(target);
    }
}

pub fn reclaim_under_recording(seed: u64) {
    let device = device_with(Default::default());
    let reclaim = || {
        for what in [
            IRON_RECLAIM_CLEANUP,
            IRON_RECLAIM_PURGE,
            IRON_RECLAIM_SYNC,
            IRON_RECLAIM_CLEANUP,
        ] {
            ok(call!(iron_memory_reclaim(
                device.get(),
                what,
                FOREVER,
                null_mut()
            )));
        }
    };
    together(seed, &[&|| record(device), &|| record(device), &reclaim]);
    books_are_balanced(device);
    release_device(device.get());
}

/// One device goes while the other works.
pub fn two_devices(seed: u64) {
    let devices = [
        device_with(Default::default()),
        device_with(Default::default()),
    ];
    let work = |own: Device| {
        record(own);
        transfer(own);
        books_are_balanced(own);
        release_device(own.0);
    };
    let foreign = Shared(buffer(devices[0].get(), 256));
    together(
        seed,
        &[&|| work(devices[1]), &|| {
            let commands = begin(devices[0].get());
            ok(fill(commands, foreign.get(), 256, 1));
            commit_and_wait(commands);
            release_commands(commands);
            release_buffer(foreign.get());
            work(devices[0]);
        }],
    );
}

unsafe extern "C" fn visit(allocation: *const iron_allocation, _: *mut c_void) {
    // SAFETY: valid during the call, and its label is NUL-terminated.
    let label = unsafe { std::ffi::CStr::from_ptr((*allocation).label) };
    assert!(
        [&b""[..], b"first", b"second", b"staging"].contains(&label.to_bytes()),
        "{label:?}"
    );
}

/// A thread that looks at the figures, as a monitor does, while others change them.
pub fn figures_under_work(seed: u64) {
    let device = device_with(iron_device_options {
        pool_max_buffers: 2,
        ..Default::default()
    });
    let look = || {
        for buffers in 1..6 {
            let info = memory(device.get());
            assert_eq!(info.allocations - info.releases, info.active_buffers);
            let used: u64 = info.categories.iter().map(|usage| usage.bytes).sum();
            assert_eq!(used, info.active_bytes + info.pool_bytes);
            ok(call!(iron_memory_list(
                device.get(),
                Some(visit),
                null_mut()
            )));
            let settings = iron_memory_settings {
                size: size_of::<iron_memory_settings>(),
                pool_max_buffers: buffers,
                ..Default::default()
            };
            ok(call!(iron_memory_configure(device.get(), &settings)));
            ok(call!(iron_memory_reset(device.get(), IRON_RESET_PEAK)));
        }
    };
    let work = || {
        for label in [c"first", c"second", c""] {
            let target = pooled(device, 128);
            ok(call!(iron_buffer_set_label(target, label.as_ptr())));
            write(target, &[2.0; 32]);
            release_buffer(target);
            transfer(device);
        }
    };
    together(seed, &[&work, &work, &look]);
    books_are_balanced(device);
    release_device(device.get());
}

// ------------------------------------------------------------------------------------------------- without a schedule

fn race(parts: &[&(dyn Fn() + Sync)]) {
    thread::scope(|scope| {
        for part in parts {
            scope.spawn(part);
        }
    });
}

pub fn race_of_releases_evictions_and_purges(_: u64) {
    for pool_max_buffers in [0, 1] {
        let device = device_with(iron_device_options {
            pool_max_buffers,
            ..Default::default()
        });
        let work = || {
            for _ in 0..10_000 {
                release_buffer(pooled(device, 64));
            }
        };
        let purge = || {
            (0..10_000).for_each(|_| {
                ok(call!(iron_memory_reclaim(
                    device.get(),
                    IRON_RECLAIM_PURGE,
                    0,
                    null_mut()
                )))
            })
        };
        race(&[&work, &work, &work, &work, &work, &work, &purge]);
        books_are_balanced(device);
        release_device(device.get());
    }
}

/// Four threads work until a fifth closes the device.
fn close_at_work(round: u64, work: fn(Device) -> bool) {
    let device = device_with(Default::default());
    let until_closed = || while work(device) {};
    race(&[
        &until_closed,
        &until_closed,
        &until_closed,
        &until_closed,
        &|| {
            thread::sleep(Duration::from_micros(100 * (round % 20)));
            close(device);
        },
    ]);
    release_device(device.get());
}

pub fn race_of_a_close_and_transfers(round: u64) {
    close_at_work(round, transfer);
}

pub fn race_of_a_close_and_commits(round: u64) {
    close_at_work(round, fill_and_drop);
}
