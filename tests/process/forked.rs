//! The child of a process with open devices: what it inherited says so at once instead of waiting for threads that are
//! not there, and what it opens itself works.

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ironbridge::ffi::*;

use crate::abi::*;

crate::harness::cases! {
    a_child_is_refused_what_it_inherited_and_opens_its_own,
    a_child_of_a_busy_process_works,
}

/// A handle for another thread: handles may be used by any thread.
#[derive(Clone, Copy)]
struct Shared(*mut iron_device);

// SAFETY: a handle is a number that the bridge checks, and ironbridge.h allows every thread to use it.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Takes the whole of it, so that a closure captures no bare pointer.
    fn get(self) -> *mut iron_device {
        self.0
    }
}

/// The bits of its exit status with which a child says what went wrong; it neither panics nor prints.
const INHERITED_WORKED: i32 = 1;
const NOT_GIVEN_BACK: i32 = 2;
const OWN_FAILED: i32 = 4;
const WRONG_MESSAGE: i32 = 8;

/// Runs `part` in a child, which is killed when it is not over after 20 seconds.
#[track_caller]
fn in_child(part: impl FnOnce() -> i32) {
    // SAFETY: the child calls the bridge, which is made for that, and ends without running anything of the test
    // harness's.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: both may be called at any time.
            unsafe {
                libc::alarm(20);
                libc::_exit(part());
            }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is valid for the call, and the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(
                libc::WIFEXITED(status),
                "the child was killed by signal {}",
                libc::WTERMSIG(status)
            );
            assert_eq!(libc::WEXITSTATUS(status), 0, "the child's findings");
        }
    }
}

fn refused(status: iron_status) -> i32 {
    if status != IRON_ERROR_INVALID_HANDLE {
        INHERITED_WORKED
    } else if !last_error().contains("forked") {
        WRONG_MESSAGE
    } else {
        0
    }
}

fn expect_ok(statuses: &[iron_status], otherwise: i32) -> i32 {
    if statuses.iter().all(|status| *status == IRON_OK) {
        0
    } else {
        otherwise
    }
}

/// A device of this process: opened, worked with, and left without a trace.
fn works() -> i32 {
    let (mut device, mut target, mut commands) = (null_mut(), null_mut(), null_mut());
    let mut values = [0f32; 64];
    let options = iron_buffer_options {
        pooled: 1,
        ..buffer_options()
    };
    let statuses = [
        call!(iron_device_open(c"cpu".as_ptr(), null(), &mut device)),
        call!(iron_buffer_create(device, 256, &options, &mut target)),
        call!(iron_commands_begin(device, null(), &mut commands)),
        fill(commands, target, 256, 0x3f),
        call!(iron_commands_commit(commands)),
        wait(commands),
        try_read(target, &mut values),
        call!(iron_commands_release(commands)),
        call!(iron_buffer_release(target)),
        call!(iron_device_sync(device, FOREVER)),
        call!(iron_device_close(device, FOREVER, null_mut())),
        call!(iron_device_release(device)),
    ];
    let filled = values.iter().all(|value| value.to_bits() == 0x3f3f_3f3f);
    expect_ok(&statuses, OWN_FAILED) | if filled { 0 } else { OWN_FAILED }
}

fn a_child_is_refused_what_it_inherited_and_opens_its_own() {
    let device = open("cpu:delay_us=20000");
    let (shared, private) = (
        buffer(device, 256),
        buffer_with(
            device,
            256,
            &iron_buffer_options {
                storage: IRON_STORAGE_PRIVATE,
                ..buffer_options()
            },
        ),
    );
    let mut memory = null_mut();
    let mapped = buffer(device, 256);
    ok(call!(iron_buffer_map(
        mapped,
        IRON_ACCESS_READ,
        &mut memory
    )));
    let (committed, recorded) = (begin(device), begin(device));
    ok(fill(committed, shared, 256, 1));
    commit(committed);
    ok(fill(recorded, private, 256, 1));

    in_child(|| {
        let (mut made, mut values) = (null_mut(), [0f32; 64]);
        let (mut commands, mut library) = (null_mut(), null_mut());
        let mut findings = [
            call!(iron_device_sync(device, FOREVER)),
            call!(iron_device_close(device, FOREVER, null_mut())),
            call!(iron_memory_reclaim(
                device,
                IRON_RECLAIM_PURGE,
                0,
                null_mut()
            )),
            call!(iron_memory_reclaim(
                device,
                IRON_RECLAIM_SYNC,
                FOREVER,
                null_mut()
            )),
            call!(iron_buffer_create(device, 256, null(), &mut made)),
            call!(iron_library_create(
                device,
                c"kernel void k() {}".as_ptr(),
                &mut library
            )),
            try_read(shared, &mut values),
            try_read(private, &mut values),
            call!(iron_buffer_unmap(mapped, IRON_ACCESS_READ)),
            call!(iron_commands_begin(device, null(), &mut commands)),
            wait(committed),
            fill(recorded, private, 256, 2),
            call!(iron_commands_commit(recorded)),
            call!(iron_commands_run(recorded)),
        ]
        .into_iter()
        .map(refused)
        .fold(0, |all, one| all | one);
        findings |= works();
        let released = [
            call!(iron_commands_release(committed)),
            call!(iron_commands_release(recorded)),
            call!(iron_buffer_release(shared)),
            call!(iron_buffer_release(private)),
            call!(iron_buffer_release(mapped)),
            call!(iron_device_release(device)),
        ];
        findings |= expect_ok(&released, NOT_GIVEN_BACK);
        if diagnose().live_handles != 0 {
            findings |= NOT_GIVEN_BACK;
        }
        findings | works()
    });

    // The parent notices nothing of all that.
    release_commands(recorded);
    ok(wait(committed));
    assert_eq!(read(shared, 1)[0].to_bits(), 0x0101_0101);
    ok(call!(iron_buffer_unmap(mapped, IRON_ACCESS_READ)));
    release_commands(committed);
    for one in [shared, private, mapped] {
        release_buffer(one);
    }
    release_device(device);
}

/// Says that it is over when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whatever the parent's other threads were at, and whichever locks they held: the bridge's, and those of Objective-C's
/// runtime, which every new object takes.
fn a_child_of_a_busy_process_works() {
    let device = Shared(open("cpu"));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // The others end also when this one panics: the scope waits for them.
        let _end = End(&over);
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let target = buffer_with(
                        device.get(),
                        256,
                        &iron_buffer_options {
                            pooled: 1,
                            ..buffer_options()
                        },
                    );
                    let commands = begin(device.get());
                    ok(fill(commands, target, 256, 1));
                    commit(commands);
                    release_commands(commands);
                    release_buffer(target);
                }
            });
        }
        for _ in 0..40 {
            in_child(|| {
                refused(call!(iron_device_sync(device.get(), FOREVER)))
                    | works()
                    | expect_ok(&[call!(iron_device_release(device.get()))], NOT_GIVEN_BACK)
            });
        }
    });
    release_device(device.get());
}
