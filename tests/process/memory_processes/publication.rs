//! `include/ironbridge_monitor.h`: the file is there, right, private, and goes.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ironbridge::ffi::monitor::*;

use crate::memory_processes::Player;

crate::harness::cases! {
    a_process_publishes_what_it_holds,
    a_killed_process_is_known_as_gone,
    so_does_one_without_memfd_create,
    a_file_that_may_not_be_is_not_published,
    whoever_truncates_it_does_no_harm,
    only_the_user_can_read_it,
    a_folder_that_others_can_write_is_not_used,
    nothing_is_published_by_who_opts_out,
}

const MIB: u64 = 1 << 20;

fn private_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The process and its open devices, from the one file in the folder.
fn read(folder: &Path) -> (iron_published_process, Vec<iron_published_device>) {
    let [file] = files(folder).try_into().expect("one file");
    let bytes = std::fs::read(&file).unwrap();
    // SAFETY: plain numbers, read from within the file's bytes.
    let process: iron_published_process =
        unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
    assert_eq!(process.magic, IRON_PUBLISHED_MAGIC);
    assert_eq!(process.version, IRON_PUBLISHED_VERSION);
    assert_eq!(
        process.device_size as usize,
        size_of::<iron_published_device>()
    );
    let slots = bytes[process.device_offset as usize..].chunks_exact(process.device_size as usize);
    assert_eq!(slots.len(), process.device_slots as usize);
    let devices = slots
        // SAFETY: as above; the chunk is as long as the struct.
        .map(|slot| unsafe {
            std::ptr::read_unaligned(slot.as_ptr().cast::<iron_published_device>())
        })
        .filter(|device| device.opened_at != 0)
        .collect();
    (process, devices)
}

fn a_process_publishes_what_it_holds() {
    publishes_what_it_holds("holder", cfg!(target_os = "linux"));
}

fn so_does_one_without_memfd_create() {
    publishes_what_it_holds("without_memfd", false);
}

/// `sealed`: in memory that a link leads to, and not in a plain file.
fn publishes_what_it_holds(part: &str, sealed: bool) {
    let folder = private_folder();
    let path = folder.path().to_str().unwrap();
    let mut holder = Player::start(part, &[("IRONBRIDGE_PUBLISH", path)]);
    let file = &files(folder.path())[0];
    assert_eq!(
        std::fs::symlink_metadata(file).unwrap().is_symlink(),
        sealed
    );
    // A plain file is written a little later.
    let read_when = |active: (u64, u64), operations: u64| {
        let start = std::time::Instant::now();
        loop {
            let (process, devices) = read(folder.path());
            let [device] = devices.try_into().expect("one device");
            let found = (device.active_bytes, device.active_buffers);
            // As the header tells readers: even, and the same once more.
            let [later] = read(folder.path()).1.try_into().expect("one device");
            let whole = device.sequence.is_multiple_of(2) && later.sequence == device.sequence;
            if whole && (found, device.operations) == (active, operations) {
                return (process, device);
            }
            assert!(!sealed || !whole, "{device:?}");
            assert!(start.elapsed().as_secs() < 20, "{device:?}");
            std::thread::yield_now();
        }
    };
    let (process, device) = read_when((8 * MIB, 1), 0);
    assert_eq!(process.pid, u64::from(holder.child.id()));
    assert_eq!(process.start_time, start_time(holder.child.id()).unwrap());
    assert_eq!(device.cached_bytes, 0);

    holder.step();
    read_when((11 * MIB, 2), 0);
    holder.step();
    let (_, device) = read_when((8 * MIB, 1), 2);
    assert_eq!(device.peak_bytes, 11 * MIB);
    assert_eq!((device.cached_bytes, device.cached_buffers), (3 * MIB, 1));
    assert_eq!((device.allocations, device.releases), (2, 1));
    assert_eq!((device.pool_hits, device.pool_misses), (0, 1));
    holder.end();
    assert_eq!(
        files(folder.path()),
        Vec::<PathBuf>::new(),
        "it goes with its process"
    );
}

fn a_file_that_may_not_be_is_not_published() {
    let folder = private_folder();
    let path = folder.path().to_str().unwrap();
    let mut holder = Player::start("limited", &[("IRONBRIDGE_PUBLISH", path)]);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
    holder.step();
    holder.step();
    holder.end();
}

/// While the process changes its figures all the time.
fn whoever_truncates_it_does_no_harm() {
    for part in ["allocating", "allocating_without_memfd"] {
        let folder = private_folder();
        let path = folder.path().to_str().unwrap();
        let mut allocating = Player::start(part, &[("IRONBRIDGE_PUBLISH", path)]);
        let [file] = files(folder.path()).try_into().expect("one file");
        let sealed = std::fs::symlink_metadata(&file).unwrap().is_symlink();
        assert_eq!(sealed, cfg!(target_os = "linux") && part == "allocating");
        for _ in 0..50 {
            let opened = std::fs::OpenOptions::new().write(true).open(&file);
            let cut = opened.unwrap().set_len(0);
            assert_eq!(cut.is_err(), sealed, "{cut:?}");
            allocating.step();
            if sealed {
                assert!(read(folder.path()).1[0].allocations > 0);
            }
        }
        allocating.end();
    }
}

fn a_killed_process_is_known_as_gone() {
    let folder = private_folder();
    let path = folder.path().to_str().unwrap();
    let mut holder = Player::start("holder", &[("IRONBRIDGE_PUBLISH", path)]);
    let pid = holder.child.id();
    let (process, _) = read(folder.path());
    assert_eq!(start_time(pid), Some(process.start_time));
    holder.child.kill().unwrap();
    holder.child.wait().unwrap();
    assert_eq!(
        files(folder.path()).len(),
        1,
        "nobody was there to remove it"
    );
    assert_ne!(start_time(pid), Some(process.start_time));
}

fn only_the_user_can_read_it() {
    let parent = private_folder();
    let runtime = parent.path().to_str().unwrap();
    let holder = Player::start("holder", &[("XDG_RUNTIME_DIR", runtime)]);
    let folder = parent.path().join("ironbridge");
    let status = std::fs::metadata(&folder).unwrap();
    assert_eq!(status.mode() & 0o777, 0o700);
    let [file] = files(&folder).try_into().expect("one file");
    let status = std::fs::metadata(file).unwrap();
    assert_eq!(status.mode() & 0o777, 0o600);
    holder.end();
}

fn a_folder_that_others_can_write_is_not_used() {
    let folder = private_folder();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let path = folder.path().to_str().unwrap();
    let holder = Player::start("holder", &[("IRONBRIDGE_PUBLISH", path)]);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
    holder.end();
}

fn nothing_is_published_by_who_opts_out() {
    let parent = private_folder();
    let runtime = parent.path().to_str().unwrap();
    let variables = [("XDG_RUNTIME_DIR", runtime), ("IRONBRIDGE_PUBLISH", "0")];
    Player::start("holder", &variables).end();
    assert_eq!(files(parent.path()), Vec::<PathBuf>::new());
}

/// As a monitor finds it; None when there is no such process.
#[cfg(target_os = "linux")]
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(target_os = "macos")]
fn start_time(pid: u32) -> Option<u64> {
    let mut info: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
    let size = size_of_val(&info) as i32;
    // SAFETY: `info` has room for `size` bytes.
    let filled = unsafe {
        libc::proc_pidinfo(
            pid as i32,
            libc::PROC_PIDTBSDINFO,
            0,
            (&raw mut info).cast(),
            size,
        )
    };
    (filled == size).then(|| info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec)
}
