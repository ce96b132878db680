//! Labels, private, wrapped and pooled memory.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::fixture::*;

#[test]
#[serial]
fn labels_are_cut_between_characters() {
    let fixture = Fixture::new();
    let options = iron_buffer_options {
        label: c"blk.0.attn_q €".as_ptr(),
        ..buffer_options()
    };
    let buffer = buffer_with(fixture.device, 16, &options);
    let label = |capacity| {
        let mut text = [0x55u8; 32];
        ok(call!(iron_buffer_label(
            buffer,
            text.as_mut_ptr().cast(),
            capacity
        )));
        CStr::from_bytes_until_nul(&text)
            .expect("terminated")
            .to_str()
            .expect("UTF-8")
            .to_owned()
    };
    assert_eq!(label(32), "blk.0.attn_q €");
    assert_eq!(label(16), "blk.0.attn_q ", "the euro sign has three bytes");
    assert_eq!(label(1), "");
    ok(call!(iron_buffer_set_label(buffer, null())));
    assert_eq!(label(32), "");
    release_buffer(buffer);
    fixture.finish();
}

#[test]
#[serial]
fn private_memory_is_read_and_written_through_a_copy() {
    let fixture = Fixture::new();
    let options = iron_buffer_options {
        storage: IRON_STORAGE_PRIVATE,
        ..buffer_options()
    };
    let length = 10_000_001; // neither whole words nor one staging buffer
    let private = buffer_with(fixture.device, length, &options);
    let mut pointer = null_mut();
    fails(
        call!(iron_buffer_map(private, IRON_ACCESS_READ, &mut pointer)),
        IRON_ERROR_UNSUPPORTED,
        "buffer",
    );
    fails(
        call!(iron_buffer_contents(private, &mut pointer)),
        IRON_ERROR_UNSUPPORTED,
        "buffer",
    );

    let mut expected: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
    ok(call!(iron_buffer_write(
        private,
        0,
        expected.as_ptr().cast(),
        length
    )));
    for (offset, text) in [
        (1u64, &b"x"[..]),
        (4_194_303, b"across words"),
        (length - 3, b"end"),
    ] {
        ok(call!(iron_buffer_write(
            private,
            offset,
            text.as_ptr().cast(),
            text.len() as u64
        )));
        expected[offset as usize..][..text.len()].copy_from_slice(text);
    }
    let mut bytes = vec![0u8; length as usize];
    ok(call!(iron_buffer_read(
        private,
        0,
        bytes.as_mut_ptr().cast(),
        length
    )));
    assert!(bytes == expected);
    ok(call!(iron_buffer_read(
        private,
        4_194_301,
        bytes.as_mut_ptr().cast(),
        7
    )));
    assert_eq!(bytes[..7], expected[4_194_301..][..7]);
    release_buffer(private);
    ok(call!(iron_memory_reclaim(
        fixture.device,
        IRON_RECLAIM_PURGE,
        0,
        null_mut()
    ))); // the staging buffers
    fixture.finish();
}

#[test]
#[serial]
fn wrapped_memory_is_used_in_place_and_given_back_once() {
    unsafe extern "C" fn released(pointer: *mut c_void, length: u64, context: *mut c_void) {
        // SAFETY: the context below, alive until the end of the test.
        unsafe { (*context.cast::<std::sync::Mutex<Vec<(usize, u64)>>>()).lock() }
            .expect("not poisoned")
            .push((pointer as usize, length));
    }
    let fixture = Fixture::new();
    let calls = std::sync::Mutex::new(Vec::<(usize, u64)>::new());
    let context = (&raw const calls).cast_mut().cast();
    let mut wrapped = null_mut();
    ok(call!(iron_buffer_wrap(
        fixture.device,
        page(),
        page_size(),
        Some(released),
        context,
        null(),
        &mut wrapped
    )));
    assert_eq!(
        memory(fixture.device).active_bytes,
        BUFFER_BYTES + page_size()
    );
    let mut contents = null_mut();
    ok(call!(iron_buffer_contents(wrapped, &mut contents)));
    assert_eq!(contents, page());
    let commands = begin(fixture.device);
    ok(fill(commands, wrapped, page_size(), 7));
    commit(commands);
    release_buffer(wrapped); // while in flight
    ok(wait(commands));
    release_commands(commands);
    let start = std::time::Instant::now();
    while calls.lock().expect("not poisoned").is_empty() && start.elapsed().as_secs() < 20 {
        std::thread::yield_now();
    }
    assert_eq!(
        *calls.lock().expect("not poisoned"),
        [(page() as usize, page_size())]
    );
    // SAFETY: one page, which is ours again.
    assert_eq!(unsafe { page().cast::<u8>().read() }, 7);

    // A wrapping that fails is not followed by the callback.
    let options = iron_buffer_options {
        label: c"\xFF".as_ptr(),
        ..buffer_options()
    };
    let status = call!(iron_buffer_wrap(
        fixture.device,
        page(),
        page_size(),
        Some(released),
        context,
        &options,
        &mut wrapped
    ));
    fails(status, IRON_ERROR_INVALID_ARGUMENT, "label");
    assert_eq!(calls.lock().expect("not poisoned").len(), 1);

    // Read-only memory refuses every write.
    let options = iron_buffer_options {
        read_only: 1,
        ..buffer_options()
    };
    ok(call!(iron_buffer_wrap(
        fixture.device,
        page(),
        page_size(),
        None,
        null_mut(),
        &options,
        &mut wrapped
    )));
    let bytes = [0u8; 4];
    let mut pointer = null_mut();
    fails(
        call!(iron_buffer_write(wrapped, 0, bytes.as_ptr().cast(), 4)),
        IRON_ERROR_READ_ONLY,
        "buffer",
    );
    fails(
        call!(iron_buffer_map(
            wrapped,
            IRON_ACCESS_READ_WRITE,
            &mut pointer
        )),
        IRON_ERROR_READ_ONLY,
        "buffer",
    );
    fails(
        fill(fixture.commands, wrapped, 16, 0),
        IRON_ERROR_READ_ONLY,
        "buffer",
    );
    fails(
        call!(iron_encode_copy_bytes(
            fixture.commands,
            fixture.buffer,
            0,
            wrapped,
            0,
            16
        )),
        IRON_ERROR_READ_ONLY,
        "destination",
    );
    ok(call!(iron_buffer_map(
        wrapped,
        IRON_ACCESS_READ,
        &mut pointer
    )));
    ok(call!(iron_buffer_unmap(wrapped, IRON_ACCESS_READ)));
    release_buffer(wrapped);
    fixture.finish();
}

#[test]
#[serial]
fn pooled_buffers_come_back() {
    let fixture = Fixture::new();
    let device = fixture.device;
    let options = iron_buffer_options {
        pooled: 1,
        category: IRON_CATEGORY_SCRATCH,
        ..buffer_options()
    };
    let first = buffer_with(device, 1000, &options);
    let info = memory(device);
    let scratch = info.categories[IRON_CATEGORY_SCRATCH as usize];
    assert!(
        scratch.count == 1 && scratch.bytes >= 1000 && scratch.bytes <= 1250,
        "at most 25 % more: {scratch:?}"
    );
    assert_eq!(
        (info.pool_hits, info.pool_misses, info.pool_buffers),
        (0, 1, 0)
    );
    release_buffer(first);
    let idle = memory(device);
    assert_eq!((idle.pool_buffers, idle.pool_bytes), (1, scratch.bytes));
    assert_eq!(
        idle.categories[IRON_CATEGORY_POOL as usize].bytes,
        scratch.bytes
    );
    assert_eq!(idle.active_bytes, BUFFER_BYTES);
    assert_eq!(idle.peak_bytes, BUFFER_BYTES + scratch.bytes);

    let second = buffer_with(device, 990, &options); // of the same class
    let third = buffer_with(device, 990, &options);
    let info = memory(device);
    assert_eq!(
        (info.pool_hits, info.pool_misses, info.pool_buffers),
        (1, 2, 0)
    );

    // In use by commands: it comes back when they are complete, not before.
    let commands = begin(device);
    ok(fill(commands, second, 988, 3));
    release_buffer(second);
    assert_eq!(memory(device).pool_buffers, 0);
    commit_and_wait(commands);
    release_commands(commands);
    release_buffer(third);
    assert_eq!(memory(device).pool_buffers, 2);

    let mut reclaimed = iron_reclaimed {
        size: size_of::<iron_reclaimed>(),
        ..Default::default()
    };
    ok(call!(iron_memory_reclaim(
        device,
        IRON_RECLAIM_PURGE,
        0,
        &mut reclaimed
    )));
    assert_eq!(reclaimed.buffers, 2);
    assert_eq!(reclaimed.buffer_bytes, 2 * scratch.bytes);
    let info = memory(device);
    assert_eq!((info.pool_buffers, info.pool_bytes), (0, 0));
    fixture.finish();
}

#[test]
#[serial]
fn the_pool_is_bounded() {
    let baseline = Baseline::take();
    let options = iron_device_options {
        pool_max_bytes: 4096,
        pool_max_buffers: 3,
        ..Default::default()
    };
    let device = open_with("cpu", &options);
    let pooled = iron_buffer_options {
        pooled: 1,
        ..buffer_options()
    };
    let release_all_on = |device, lengths: &[u64]| {
        let buffers: Vec<_> = lengths
            .iter()
            .map(|length| buffer_with(device, *length, &pooled))
            .collect();
        buffers.into_iter().for_each(release_buffer);
        memory(device)
    };
    let release_all = |lengths: &[u64]| release_all_on(device, lengths);
    assert_eq!(release_all(&[64; 5]).pool_buffers, 3, "by count");
    let info = release_all(&[2048, 2048, 1024]);
    assert!(
        info.pool_bytes <= 4096 && info.pool_buffers == 2,
        "by bytes: {info:?}"
    );
    let before = memory(device).pool_bytes;
    assert_eq!(
        release_all(&[8192]).pool_bytes,
        before,
        "what is larger than the pool passes it by"
    );
    release_device(device);

    let none = iron_device_options {
        pool_policy: IRON_IDLE_RELEASE,
        ..Default::default()
    };
    let device = open_with("cpu", &none);
    release_buffer(buffer_with(device, 64, &pooled));
    let info = memory(device);
    assert_eq!((info.pool_buffers, info.device_bytes), (0, 0));
    release_device(device);

    let all = iron_device_options {
        pool_max_bytes: u64::MAX,
        pool_max_buffers: u32::MAX,
        pool_max_buffer_bytes: u64::MAX,
        pool_idle_time: u64::MAX,
        ..Default::default()
    };
    let device = open_with("cpu", &all);
    assert_eq!(
        release_all_on(device, &[64; 100]).pool_buffers,
        100,
        "the largest number is no limit"
    );
    let settings = iron_memory_settings {
        size: size_of::<iron_memory_settings>(),
        pool_max_bytes: 640,
        ..Default::default()
    };
    ok(call!(iron_memory_configure(device, &settings)));
    assert_eq!(memory(device).pool_buffers, 10);
    let settings = iron_memory_settings {
        pool_max_bytes: u64::MAX,
        ..settings
    };
    ok(call!(iron_memory_configure(device, &settings)));
    assert_eq!(release_all_on(device, &[64; 100]).pool_buffers, 100);
    release_device(device);
    baseline.holds();
}

#[test]
#[serial]
fn buffers_that_are_not_pooled_start_as_zeros() {
    let fixture = Fixture::new();
    for _ in 0..3 {
        let buffer = buffer(fixture.device, 4096);
        assert!(read(buffer, 1024).iter().all(|value| *value == 0.0));
        write(buffer, &[f32::NAN; 1024]);
        release_buffer(buffer);
    }
    fixture.finish();
}
