//! A process whose very first calls come from several threads at once.

use std::hint;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ironbridge::Device;

const THREADS: usize = 4;
/// GNUstep fills its caches within a few instructions: on two processors 7 of 1000 such processes crashed, before the
/// bridge had them filled by one thread. So 9 in 10 runs of this test would find it.
const PROCESSES: usize = 300;

/// The process of the test below.
#[test]
fn threads_open_devices_at_once() {
    let ready = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                ready.fetch_add(1, Ordering::Relaxed);
                while ready.load(Ordering::Relaxed) < THREADS {
                    hint::spin_loop();
                }
                Device::open("cpu").unwrap();
            });
        }
    });
}

#[test]
fn any_thread_may_be_the_first() {
    let itself = std::env::current_exe().unwrap();
    for process in 0..PROCESSES {
        let output = Command::new(&itself)
            .args(["--exact", "threads_open_devices_at_once"])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "process {process}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
