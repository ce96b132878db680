//! Work that fails on the device, memory that runs out, waits that end: each error is typed and reported once, and what
//! a failed submission should have written cannot be read.

use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;

/// A device for `body`, after which nothing may be left.
fn with_device(selector: &str, body: impl FnOnce(*mut iron_device)) {
    let baseline = Baseline::take();
    let device = open(selector);
    body(device);
    release_device(device);
    baseline.holds();
}

const BYTES: u64 = 64;
const FLOATS: usize = 16;

/// Fills the buffer in commands of its own and hands them back, committed.
fn commit_fill(
    device: *mut iron_device,
    target: *mut iron_buffer,
    length: u64,
) -> *mut iron_commands {
    let commands = begin(device);
    ok(fill(commands, target, length, 0));
    commit(commands);
    commands
}

fn commit_copy(
    device: *mut iron_device,
    source: *mut iron_buffer,
    target: *mut iron_buffer,
) -> *mut iron_commands {
    let commands = begin(device);
    ok(call!(iron_encode_copy_bytes(
        commands, source, 0, target, 0, BYTES
    )));
    commit(commands);
    commands
}

#[track_caller]
fn poisoned(buffer: *mut iron_buffer) {
    fails(
        try_read(buffer, &mut [0.0; FLOATS]),
        IRON_ERROR_POISONED,
        "buffer",
    );
}

// --------------------------------------------------------------------------------------------- failures of the device

#[test]
#[serial]
fn every_failure_has_its_status_and_is_told_once() {
    for (code, status) in [
        ("internal", IRON_ERROR_DEVICE_INTERNAL),
        ("timeout", IRON_ERROR_DEVICE_TIMEOUT),
        ("page_fault", IRON_ERROR_DEVICE_PAGE_FAULT),
        ("access_revoked", IRON_ERROR_DEVICE_LOST),
        ("not_permitted", IRON_ERROR_DEVICE_INVALID),
        ("out_of_memory", IRON_ERROR_OUT_OF_MEMORY),
        ("invalid_resource", IRON_ERROR_DEVICE_INVALID),
        ("device_removed", IRON_ERROR_DEVICE_LOST),
        ("10", IRON_ERROR_DEVICE_INVALID),  // memoryless
        ("12", IRON_ERROR_DEVICE_INVALID),  // stack overflow
        ("77", IRON_ERROR_DEVICE_INTERNAL), // not known yet
    ] {
        with_device(&format!("cpu:fail_command_buffer=1:{code}"), |device| {
            let target = buffer(device, BYTES);
            let commands = commit_fill(device, target, BYTES);
            fails(wait(commands), status, "commands: ");
            ok(wait(commands));
            assert_eq!(describe(commands).state, IRON_COMMANDS_FAILED);
            ok(call!(iron_device_sync(device, FOREVER)));
            poisoned(target);
            poisoned(target);
            write(target, &[1.0; FLOATS]);
            assert_eq!(read(target, FLOATS), [1.0; FLOATS]);
            release_commands(commands);
            release_buffer(target);
        });
    }
}

#[test]
#[serial]
fn a_failure_that_nobody_waited_for_is_told_by_sync_once() {
    with_device(
        "cpu:fail_command_buffer=1:timeout,fail_command_buffer=3:page_fault,delay_us=2000",
        |device| {
            let target = buffer(device, BYTES);
            for _ in 0..3 {
                release_commands(commit_fill(device, target, BYTES)); // in flight
            }
            fails(
                call!(iron_device_sync(device, FOREVER)),
                IRON_ERROR_DEVICE_TIMEOUT,
                "without a wait",
            );
            fails(
                call!(iron_device_sync(device, FOREVER)),
                IRON_ERROR_DEVICE_PAGE_FAULT,
                "without a wait",
            );
            ok(call!(iron_device_sync(device, FOREVER)));
            release_buffer(target);
        },
    );
    // Complete before they are released.
    with_device("cpu:fail_command_buffer=1:timeout", |device| {
        let target = buffer(device, BYTES);
        let commands = commit_fill(device, target, BYTES);
        poisoned(target); // waits
        release_commands(commands);
        fails(
            call!(iron_device_sync(device, FOREVER)),
            IRON_ERROR_DEVICE_TIMEOUT,
            "without a wait",
        );
        ok(call!(iron_device_sync(device, FOREVER)));
        release_buffer(target);
    });
}

#[test]
#[serial]
fn more_failures_than_anybody_asks_for_are_bounded() {
    let every: Vec<String> = (1..=100)
        .map(|number| format!("fail_command_buffer={number}:timeout"))
        .collect();
    with_device(&format!("cpu:{}", every.join(",")), |device| {
        let target = buffer(device, BYTES);
        for _ in 0..100 {
            release_commands(commit_fill(device, target, BYTES));
        }
        let mut told = 0;
        while call!(iron_device_sync(device, FOREVER)) != IRON_OK {
            told += 1;
        }
        assert!((1..=100).contains(&told), "{told}");
        release_buffer(target);
    });
}

/// The commands flushed three times; the second command buffer fails, and the third one reads what it should have
/// written.
#[test]
#[serial]
fn commands_tell_their_first_failure() {
    with_device("cpu:fail_command_buffer=2:page_fault", |device| {
        let (first, second) = (buffer(device, BYTES), buffer(device, BYTES));
        let commands = begin(device);
        ok(fill(commands, first, BYTES, 0));
        ok(call!(iron_commands_flush(commands)));
        ok(fill(commands, first, BYTES, 0));
        ok(call!(iron_commands_flush(commands)));
        ok(call!(iron_encode_copy_bytes(
            commands, first, 0, second, 0, BYTES
        )));
        commit(commands);
        fails(wait(commands), IRON_ERROR_DEVICE_PAGE_FAULT, "commands");
        ok(wait(commands));
        assert_eq!(describe(commands).command_buffers, 3);
        poisoned(first);
        poisoned(second);
        release_commands(commands);
        release_buffer(first);
        release_buffer(second);
        ok(call!(iron_device_sync(device, FOREVER)));
    });
}

// ---------------------------------------------------------------------------------------------------------- poisoning

#[test]
#[serial]
fn poison_spreads_until_all_of_a_buffer_is_rewritten() {
    with_device("cpu:fail_command_buffer=1:timeout", |device| {
        let buffers: Vec<_> = (0..4).map(|_| buffer(device, BYTES)).collect();
        let [bad, next, last, clean] = buffers[..] else {
            unreachable!("there are four")
        };
        let failing = commit_fill(device, bad, BYTES);
        let spreading = commit_copy(device, bad, next);
        let further = commit_copy(device, next, last);
        let unrelated = commit_fill(device, clean, BYTES);
        fails(wait(failing), IRON_ERROR_DEVICE_TIMEOUT, "commands");
        fails(wait(spreading), IRON_ERROR_POISONED, "commands");
        fails(wait(further), IRON_ERROR_POISONED, "commands");
        ok(wait(unrelated));
        for buffer in [bad, next, last] {
            poisoned(buffer);
            let mut pointer = null_mut();
            for access in [IRON_ACCESS_READ, IRON_ACCESS_READ_WRITE] {
                fails(
                    call!(iron_buffer_map(buffer, access, &mut pointer)),
                    IRON_ERROR_POISONED,
                    "buffer",
                );
            }
            ok(call!(iron_buffer_map(
                buffer,
                IRON_ACCESS_WRITE,
                &mut pointer
            )));
            ok(call!(iron_buffer_unmap(buffer, IRON_ACCESS_WRITE)));
            poisoned(buffer); // nobody knows what was written
        }
        assert_eq!(read(clean, FLOATS), [0.0; FLOATS]);

        // A part is not enough, for the device as for the host.
        let part = commit_fill(device, bad, BYTES - 4);
        ok(wait(part));
        poisoned(bad);
        let half = [1.0f32; FLOATS / 2];
        ok(call!(iron_buffer_write(
            bad,
            0,
            half.as_ptr().cast(),
            BYTES / 2
        )));
        poisoned(bad);

        // All of it, in the same commands that then read it.
        let commands = begin(device);
        ok(fill(commands, bad, BYTES, 0));
        ok(call!(iron_encode_copy_bytes(
            commands, bad, 0, next, 0, BYTES
        )));
        commit_and_wait(commands);
        assert_eq!(read(bad, FLOATS), [0.0; FLOATS]);
        assert_eq!(read(next, FLOATS), [0.0; FLOATS]);
        poisoned(last);
        for each in [failing, spreading, further, unrelated, part, commands] {
            release_commands(each);
        }
        buffers.into_iter().for_each(release_buffer);
    });
}

#[test]
#[serial]
fn a_matmul_heals_its_output_and_spreads_its_inputs() {
    with_device("cpu:fail_command_buffer=1:timeout", |device| {
        let (a, b, c) = (
            buffer_of(device, &[1.0, 2.0, 3.0, 4.0]),
            buffer_of(device, &[0.0, 1.0, 1.0, 0.0]),
            buffer(device, 16),
        );
        let failing = commit_fill(device, c, 16);
        fails(wait(failing), IRON_ERROR_DEVICE_TIMEOUT, "commands");
        let matmul = |operands| {
            let commands = begin(device);
            ok(encode_matmul(commands, &matmul_of(operands, (2, 2, 2))));
            commit(commands);
            commands
        };
        let spreading = matmul((c, a, b));
        fails(wait(spreading), IRON_ERROR_POISONED, "commands");
        write(b, &[0.0, 1.0, 1.0, 0.0]);
        let healing = matmul((a, b, c));
        ok(wait(healing));
        assert_eq!(read(c, 4), [2.0, 1.0, 4.0, 3.0]);
        for each in [failing, spreading, healing] {
            release_commands(each);
        }
        for each in [a, b, c] {
            release_buffer(each);
        }
    });
}

#[test]
#[serial]
fn a_copy_to_private_memory_that_fails_poisons_it() {
    with_device("cpu:fail_command_buffer=2:page_fault", |device| {
        let options = iron_buffer_options {
            storage: IRON_STORAGE_PRIVATE,
            ..buffer_options()
        };
        let private = buffer_with(device, BYTES, &options);
        write(private, &[1.0; FLOATS]);
        let values = [2.0f32; FLOATS];
        let status = call!(iron_buffer_write(private, 0, values.as_ptr().cast(), BYTES));
        fails(status, IRON_ERROR_DEVICE_PAGE_FAULT, "private memory");
        poisoned(private);
        write(private, &[3.0; FLOATS]);
        assert_eq!(read(private, FLOATS), [3.0; FLOATS]);
        release_buffer(private);
    });
}

// --------------------------------------------------------------------------------------------------------------- time

#[test]
#[serial]
fn waits_end_when_they_should() {
    with_device("cpu:delay_us=2000000", |device| {
        let target = buffer(device, BYTES);
        let commands = commit_fill(device, target, BYTES);
        fails(
            call!(iron_commands_wait(commands, 0)),
            IRON_ERROR_TIMEOUT,
            "commands",
        );
        let start = Instant::now();
        fails(
            call!(iron_commands_wait(commands, 5_000_000)),
            IRON_ERROR_TIMEOUT,
            "5000000 ns",
        );
        assert!(start.elapsed() >= Duration::from_millis(5));
        fails(
            call!(iron_device_sync(device, 1)),
            IRON_ERROR_TIMEOUT,
            "device",
        );
        assert_eq!(describe(commands).state, IRON_COMMANDS_SUBMITTED);
        assert_eq!(memory(device).in_flight, 1);
        ok(wait(commands)); // a wait that timed out has not used up the result
        ok(call!(iron_commands_wait(commands, 0)));
        ok(call!(iron_device_sync(device, 0)));
        assert!(describe(commands).device_time >= 2_000_000_000);
        // A time beyond the clock's end is for ever, not the past.
        let again = commit_fill(device, target, BYTES);
        ok(call!(iron_commands_wait(again, u64::MAX - 1)));
        release_commands(commands);
        release_commands(again);
        release_buffer(target);
    });
}

#[test]
#[serial]
fn the_host_waits_for_the_device() {
    with_device("cpu:delay_us=1000000", |device| {
        let (source, target) = (buffer_of(device, &[5.0; FLOATS]), buffer(device, BYTES));
        let copying = commit_copy(device, source, target);
        assert_eq!(read(source, FLOATS), [5.0; FLOATS]); // two readers do not wait for each other
        assert_eq!(memory(device).in_flight, 1);
        write(source, &[6.0; FLOATS]); // waits for the reader in flight
        assert_eq!(memory(device).in_flight, 0);
        assert_eq!(read(target, FLOATS), [5.0; FLOATS]);
        release_commands(copying);

        let filling = commit_fill(device, target, BYTES);
        let mut pointer = null_mut();
        ok(call!(iron_buffer_map(
            target,
            IRON_ACCESS_READ,
            &mut pointer
        )));
        // SAFETY: 64 bytes, mapped to read.
        assert_eq!(
            unsafe { pointer.cast::<[f32; FLOATS]>().read() },
            [0.0; FLOATS]
        );
        ok(call!(iron_buffer_unmap(target, IRON_ACCESS_READ)));
        release_commands(filling);
        release_buffer(source);
        release_buffer(target);
    });
}

#[test]
#[serial]
fn a_flush_waits_while_too_much_is_in_flight() {
    let baseline = Baseline::take();
    let options = iron_device_options {
        max_in_flight: 2,
        max_operations: 1,
        ..Default::default()
    };
    let device = open_with("cpu:delay_us=10000", &options);
    let target = buffer(device, BYTES);
    let commands = begin(device);
    let start = Instant::now();
    for recorded in 1..=10u32 {
        ok(fill(commands, target, BYTES, 0));
        assert!(memory(device).in_flight <= 2);
        // All but two are complete, and each takes 10 ms. The second backend executes two at once.
        let at_once = 1 + u32::from(std::env::var_os("IRONBRIDGE_TEST_BACKEND").is_some());
        let complete = recorded.saturating_sub(2);
        assert!(start.elapsed() >= Duration::from_millis(10) * (complete / at_once));
    }
    commit_and_wait(commands);
    assert_eq!(describe(commands).command_buffers, 10);
    assert_eq!(memory(device).in_flight, 0);
    release_commands(commands);
    release_buffer(target);
    release_device(device);
    baseline.holds();
}

// ------------------------------------------------------------------------------------------------------------- memory

fn try_create(
    device: *mut iron_device,
    length: u64,
    options: &iron_buffer_options,
) -> Result<*mut iron_buffer, iron_status> {
    let mut buffer = null_mut();
    match call!(iron_buffer_create(device, length, options, &mut buffer)) {
        IRON_OK => Ok(buffer),
        status => {
            assert!(buffer.is_null());
            Err(status)
        }
    }
}

#[test]
#[serial]
fn an_allocation_that_fails_is_an_error_and_no_more() {
    for number in 1..=20 {
        with_device(&format!("cpu:fail_allocation={number}"), |device| {
            let mut buffers = Vec::new();
            let mut failed = 0;
            for index in 1..=20 {
                let options = iron_buffer_options {
                    storage: index % 2,
                    ..buffer_options()
                };
                match try_create(device, 1000, &options) {
                    Ok(buffer) => buffers.push(buffer),
                    Err(status) => {
                        fails(status, IRON_ERROR_OUT_OF_MEMORY, "1000 bytes");
                        failed += 1;
                        assert_eq!(index, number);
                    }
                }
                let info = memory(device);
                assert_eq!(info.active_bytes, 1000 * buffers.len() as u64);
            }
            assert_eq!(failed, 1);
            buffers.into_iter().for_each(release_buffer);
            assert_eq!(memory(device).active_bytes, 0);
        });
    }
}

/// Idle buffers are given back before an allocation is given up.
#[test]
#[serial]
fn the_pool_makes_room() {
    let pooled = iron_buffer_options {
        pooled: 1,
        ..buffer_options()
    };
    with_device("cpu:fail_allocation=2", |device| {
        release_buffer(buffer_with(device, 1000, &pooled));
        assert_eq!(memory(device).pool_buffers, 1);
        release_buffer(buffer_with(device, 5000, &pooled)); // fails, purges, tries again
        let info = memory(device);
        assert_eq!(info.pool_buffers, 1);
        assert!(info.pool_bytes >= 5000, "{info:?}");
    });
    with_device("cpu:memory_limit=1M", |device| {
        release_buffer(buffer_with(device, 700 << 10, &pooled));
        assert_eq!(memory(device).pool_buffers, 1);
        let large = buffer(device, 900 << 10);
        assert_eq!(memory(device).pool_buffers, 0);
        fails(
            try_create(device, 900 << 10, &pooled).expect_err("the limit"),
            IRON_ERROR_OUT_OF_MEMORY,
            "no memory for a buffer",
        );
        release_buffer(large);
        release_buffer(buffer(device, 900 << 10));
    });
}

#[test]
#[serial]
fn a_device_of_small_buffers() {
    with_device("cpu:max_buffer_length=10000", |device| {
        let mut info = iron_device_info {
            size: size_of::<iron_device_info>(),
            ..Default::default()
        };
        ok(call!(iron_device_describe(device, &mut info)));
        assert_eq!(info.max_buffer_length, 10000);
        for pooled in [false, true] {
            for storage in [IRON_STORAGE_SHARED, IRON_STORAGE_PRIVATE] {
                let options = iron_buffer_options {
                    pooled: pooled.into(),
                    storage,
                    ..buffer_options()
                };
                release_buffer(buffer_with(device, 10000, &options)); // the pool rounds up no further
                fails(
                    try_create(device, 10001, &options).expect_err("the limit"),
                    IRON_ERROR_INVALID_ARGUMENT,
                    "length: is 10001, one buffer of this device has at most 10000 bytes",
                );
            }
        }
    });
}

#[test]
#[serial]
fn private_memory_without_room_for_a_copy_stays_whole() {
    with_device("cpu:fail_allocation=2", |device| {
        let options = iron_buffer_options {
            storage: IRON_STORAGE_PRIVATE,
            ..buffer_options()
        };
        let private = buffer_with(device, BYTES, &options);
        let values = [1.0f32; FLOATS];
        let status = call!(iron_buffer_write(private, 0, values.as_ptr().cast(), BYTES));
        fails(status, IRON_ERROR_OUT_OF_MEMORY, "no memory");
        assert_eq!(read(private, FLOATS), [0.0; FLOATS]);
        release_buffer(private);
    });
}

#[test]
#[serial]
fn bytes_that_find_no_memory() {
    with_device("cpu:fail_allocation=1", |device| {
        let mut buffer = null_mut();
        let values = [1.0f32; FLOATS];
        let create = |buffer: &mut *mut iron_buffer| {
            call!(iron_buffer_create_with_bytes(
                device,
                values.as_ptr().cast(),
                BYTES,
                null(),
                buffer
            ))
        };
        fails(create(&mut buffer), IRON_ERROR_OUT_OF_MEMORY, "64 bytes");
        assert!(buffer.is_null());
        ok(create(&mut buffer));
        assert_eq!(read(buffer, FLOATS), values);
        release_buffer(buffer);
    });
}
