//! What commands and host access refuse each other, and the life of commands.

use std::ffi::c_void;
use std::ptr::null_mut;

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::fixture::*;

#[test]
#[serial]
fn the_host_and_recording_exclude_each_other() {
    let fixture = Fixture::new();
    let (device, buffer) = (fixture.device, buffer(fixture.device, 16));
    let mut pointer = null_mut();
    let map = |access, pointer: &mut *mut c_void| call!(iron_buffer_map(buffer, access, pointer));

    // Recorded and not committed: a write stands against all host access, a read only against writing.
    let writing = begin(device);
    ok(fill(writing, buffer, 16, 1));
    let mut bytes = [0u8; 16];
    let read_bytes =
        |bytes: &mut [u8; 16]| call!(iron_buffer_read(buffer, 0, bytes.as_mut_ptr().cast(), 16));
    let write_bytes =
        |bytes: &[u8; 16]| call!(iron_buffer_write(buffer, 0, bytes.as_ptr().cast(), 16));
    fails(read_bytes(&mut bytes), IRON_ERROR_NOT_COMMITTED, "buffer");
    fails(write_bytes(&bytes), IRON_ERROR_NOT_COMMITTED, "buffer");
    fails(
        map(IRON_ACCESS_READ, &mut pointer),
        IRON_ERROR_NOT_COMMITTED,
        "buffer",
    );
    assert!(pointer.is_null());
    commit(writing);
    ok(read_bytes(&mut bytes));
    assert_eq!(bytes, [1; 16]);
    release_commands(writing);

    let reading = begin(device);
    ok(call!(iron_encode_copy_bytes(
        reading,
        buffer,
        0,
        fixture.buffer,
        0,
        16
    )));
    ok(read_bytes(&mut bytes));
    fails(write_bytes(&bytes), IRON_ERROR_NOT_COMMITTED, "buffer");
    release_commands(reading); // dropped, so nothing stands against writing any more
    ok(write_bytes(&bytes));

    // Mapped to read: others may read, none may write.
    ok(map(IRON_ACCESS_READ, &mut pointer));
    let mut again = null_mut();
    ok(map(IRON_ACCESS_READ, &mut again));
    assert_eq!(pointer, again);
    fails(
        map(IRON_ACCESS_WRITE, &mut again),
        IRON_ERROR_MAPPED,
        "buffer",
    );
    fails(write_bytes(&bytes), IRON_ERROR_MAPPED, "buffer");
    let commands = begin(device);
    fails(fill(commands, buffer, 16, 2), IRON_ERROR_MAPPED, "buffer");
    ok(call!(iron_encode_copy_bytes(
        commands,
        buffer,
        0,
        fixture.buffer,
        0,
        16
    )));
    fails(
        call!(iron_buffer_unmap(buffer, IRON_ACCESS_WRITE)),
        IRON_ERROR_STATE,
        "buffer",
    );
    ok(call!(iron_buffer_unmap(buffer, IRON_ACCESS_READ)));
    ok(call!(iron_buffer_unmap(buffer, IRON_ACCESS_READ)));
    fails(
        call!(iron_buffer_unmap(buffer, IRON_ACCESS_READ)),
        IRON_ERROR_STATE,
        "buffer",
    );
    commit_and_wait(commands);
    release_commands(commands);

    // Mapped to write: alone.
    ok(map(IRON_ACCESS_READ_WRITE, &mut pointer));
    fails(
        map(IRON_ACCESS_READ, &mut again),
        IRON_ERROR_MAPPED,
        "buffer",
    );
    fails(read_bytes(&mut bytes), IRON_ERROR_MAPPED, "buffer");
    let commands = begin(device);
    fails(
        call!(iron_encode_copy_bytes(
            commands,
            buffer,
            0,
            fixture.buffer,
            0,
            16
        )),
        IRON_ERROR_MAPPED,
        "source",
    );
    // SAFETY: 16 bytes, mapped alone and to write.
    unsafe { pointer.cast::<[u8; 16]>().write([9; 16]) };
    fails(
        call!(iron_buffer_unmap(buffer, IRON_ACCESS_WRITE)),
        IRON_ERROR_STATE,
        "buffer",
    );
    ok(call!(iron_buffer_unmap(buffer, IRON_ACCESS_READ_WRITE)));
    ok(read_bytes(&mut bytes));
    assert_eq!(bytes, [9; 16]);
    release_commands(commands);

    release_buffer(buffer);
    fixture.finish();
}

#[test]
#[serial]
fn commands_have_an_order() {
    let fixture = Fixture::new();
    let commands = begin(fixture.device);
    fails(wait(commands), IRON_ERROR_STATE, "commands");
    assert_eq!(describe(commands).state, IRON_COMMANDS_RECORDING);
    ok(call!(iron_commands_flush(commands)));
    assert_eq!(
        describe(commands).command_buffers,
        0,
        "there was nothing to flush"
    );
    ok(fill(commands, fixture.buffer, 16, 0));
    ok(call!(iron_commands_flush(commands)));
    let info = describe(commands);
    assert_eq!(
        (info.state, info.operations, info.command_buffers),
        (IRON_COMMANDS_RECORDING, 1, 1)
    );
    commit(commands);
    fails(
        call!(iron_commands_commit(commands)),
        IRON_ERROR_STATE,
        "commands",
    );
    fails(
        call!(iron_commands_flush(commands)),
        IRON_ERROR_STATE,
        "commands",
    );
    fails(
        fill(commands, fixture.buffer, 16, 0),
        IRON_ERROR_STATE,
        "commands",
    );
    ok(wait(commands));
    ok(wait(commands));
    assert_eq!(describe(commands).state, IRON_COMMANDS_COMPLETED);
    release_commands(commands);

    let empty = begin(fixture.device);
    commit(empty);
    assert_eq!(describe(empty).state, IRON_COMMANDS_COMPLETED);
    ok(call!(iron_commands_wait(empty, 0)));
    release_commands(empty);

    let at_once = begin(fixture.device);
    ok(fill(at_once, fixture.buffer, 16, 0));
    ok(call!(iron_commands_run(at_once)));
    assert_eq!(describe(at_once).state, IRON_COMMANDS_COMPLETED);
    fails(
        call!(iron_commands_run(at_once)),
        IRON_ERROR_STATE,
        "commands",
    );
    ok(wait(at_once));
    release_commands(at_once);
    fixture.finish();
}

#[test]
#[serial]
fn activations_have_a_precision_that_there_is() {
    let fixture = Fixture::new();
    let begin = |activations, commands| {
        let options = iron_commands_options {
            size: size_of::<iron_commands_options>(),
            activations,
            ..Default::default()
        };
        call!(iron_commands_begin(fixture.device, &options, commands))
    };
    for activations in [
        IRON_ACTIVATIONS_DEFAULT,
        IRON_ACTIVATIONS_FLOAT,
        IRON_ACTIVATIONS_BYTES,
        IRON_ACTIVATIONS_AUTOMATIC,
    ] {
        let mut commands = null_mut();
        ok(begin(activations, &mut commands));
        release_commands(commands);
    }
    let mut commands = null_mut();
    fails(
        begin(4, &mut commands),
        IRON_ERROR_INVALID_ARGUMENT,
        "options.activations: is 4",
    );
    assert!(commands.is_null());
    fixture.finish();
}

/// Commands that flush themselves after `max_operations`.
fn begin_with(device: *mut iron_device, max_operations: u32) -> *mut iron_commands {
    let options = iron_commands_options {
        size: size_of::<iron_commands_options>(),
        max_operations,
        ..Default::default()
    };
    let mut commands = null_mut();
    ok(call!(iron_commands_begin(device, &options, &mut commands)));
    commands
}

#[test]
#[serial]
fn commands_flush_themselves() {
    let fixture = Fixture::new();
    for (max_operations, recorded, submitted) in
        [(0, 250, 2), (1, 5, 5), (7, 21, 3), (u32::MAX, 250, 0)]
    {
        let commands = begin_with(fixture.device, max_operations);
        for _ in 0..recorded {
            ok(fill(commands, fixture.buffer, 16, 0));
        }
        let info = describe(commands);
        assert_eq!(
            (info.operations, info.command_buffers),
            (recorded, submitted)
        );
        commit_and_wait(commands);
        release_commands(commands);
    }
    fixture.finish();

    let baseline = Baseline::take();
    let options = iron_device_options {
        max_operations: 3,
        max_flush_bytes: 1000,
        ..Default::default()
    };
    let device = open_with("cpu", &options);
    let small = buffer(device, 400);
    let commands = begin(device);
    for expected in [0, 0, 1, 1, 1, 2] {
        ok(fill(commands, small, 300, 0));
        assert_eq!(
            describe(commands).command_buffers,
            expected,
            "at 3 operations"
        );
    }
    for expected in [2, 2, 3] {
        ok(fill(commands, small, 400, 0));
        assert_eq!(
            describe(commands).command_buffers,
            expected,
            "at 1000 bytes"
        );
    }
    commit_and_wait(commands);
    release_commands(commands);
    release_buffer(small);
    release_device(device);
    baseline.holds();
}

/// Commands keep the buffers that they use, but not their handles.
#[test]
#[serial]
fn a_released_buffer_is_none_for_commands_that_use_it() {
    let fixture = Fixture::new();
    for max_operations in [0, u32::MAX] {
        let commands = begin_with(fixture.device, max_operations);
        let [a, b, c] = [1.0, 2.0, 0.0].map(|number: f32| {
            let made = buffer(fixture.device, 16);
            let numbers = [number; 4];
            ok(call!(iron_buffer_write(
                made,
                0,
                numbers.as_ptr().cast(),
                16
            )));
            made
        });
        let mut product = matmul_of((a, b, c), (2, 2, 2));
        for _ in 0..3 {
            ok(call!(iron_encode_matmul(commands, &product)));
        }
        ok(call!(iron_buffer_retain(b)));
        release_buffer(b);
        ok(call!(iron_encode_matmul(commands, &product)));
        release_buffer(b);
        fails(
            call!(iron_encode_matmul(commands, &product)),
            IRON_ERROR_INVALID_HANDLE,
            "b: this iron_buffer was already released",
        );
        // Another buffer in its slot is another one.
        let other = buffer(fixture.device, 16);
        ok(call!(iron_buffer_write(
            other,
            0,
            [3.0_f32; 4].as_ptr().cast(),
            16
        )));
        fails(
            call!(iron_encode_matmul(commands, &product)),
            IRON_ERROR_INVALID_HANDLE,
            "b: this iron_buffer was already released",
        );
        product.b.buffer = other;
        ok(call!(iron_encode_matmul(commands, &product)));
        commit_and_wait(commands);
        let mut numbers = [0.0_f32; 4];
        ok(call!(iron_buffer_read(
            c,
            0,
            numbers.as_mut_ptr().cast(),
            16
        )));
        assert_eq!(numbers, [6.0; 4]);
        release_commands(commands);
        for each in [a, other, c] {
            release_buffer(each);
        }
    }
    fixture.finish();
}

#[test]
#[serial]
fn only_so_many_commands_are_open_at_once() {
    let fixture = Fixture::new();
    let mut open = Vec::new();
    let busy = loop {
        let commands = begin(fixture.device);
        let status = fill(commands, fixture.buffer, 16, 0);
        if status != IRON_OK {
            fails(status, IRON_ERROR_BUSY, "commands");
            break commands;
        }
        open.push(commands);
        assert!(open.len() <= 1000, "a bound is promised");
    };
    assert_eq!(open.len(), 64);
    // Host access to private memory needs a command buffer of its own and gets it.
    let options = iron_buffer_options {
        storage: IRON_STORAGE_PRIVATE,
        ..buffer_options()
    };
    let private = buffer_with(fixture.device, 16, &options);
    write(private, &[1.0; 4]);
    release_buffer(private);

    release_commands(open.pop().expect("there are 64")); // dropped without a commit
    ok(fill(busy, fixture.buffer, 16, 0));
    for commands in open.into_iter().chain([busy]) {
        commit_and_wait(commands);
        release_commands(commands);
    }
    ok(call!(iron_memory_reclaim(
        fixture.device,
        IRON_RECLAIM_PURGE,
        0,
        null_mut()
    ))); // the staging buffer
    fixture.finish();
}
