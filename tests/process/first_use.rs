//! A process whose very first calls come from several threads at once.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ironbridge::Device;

use crate::harness;

crate::harness::cases! {
    threads_open_devices_at_once,
    any_thread_may_be_the_first,
}

const THREADS: usize = 4;
/// GNUstep fills its caches within a few instructions: on two processors 7 of 1000 such processes crashed, before the
/// bridge had them filled by one thread. So 9 in 10 runs of this test would find it.
const PROCESSES: usize = 300;

/// The process of the test below.
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

fn any_thread_may_be_the_first() {
    for process in 0..PROCESSES {
        let output = harness::command("first_use::threads_open_devices_at_once")
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
