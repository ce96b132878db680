//! The threads that the software device computes on: their number and their processors, changed while it works. They
//! are the process's, so one test runs at a time.

#[cfg(target_os = "linux")]
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ironbridge::{Device, Error, MatmulExecutor};

crate::harness::cases! {
    the_number_is_what_was_set,
    it_changes_while_several_queues_run,
    too_many_threads_are_not_much_slower,
    after_work_the_process_is_idle,
    who_waits_for_long_does_not_use_a_processor,
    #[cfg(target_os = "linux")]
    who_runs_commands_does_not_wait_for_another_thread,
    #[cfg(target_os = "linux")]
    pinned_threads_are_where_they_should_be,
}

fn device() -> Device {
    Device::open("cpu").expect("there is always a software device")
}

/// A multiplication that is worth sharing, checked.
fn multiply(executor: &MatmulExecutor) {
    let (rows, inner, columns) = (16, 256, 512);
    let a = vec![0.5_f32; rows * inner];
    let b = vec![0.25_f32; inner * columns];
    let mut c = vec![0.0_f32; rows * columns];
    executor
        .matmul_f32(&a, &b, &mut c, rows, inner, columns)
        .expect("it runs");
    assert!(c.iter().all(|value| *value == 32.0));
}

fn executor() -> MatmulExecutor {
    MatmulExecutor::on(device())
}

fn the_number_is_what_was_set() {
    let device = device();
    let before = device.compute_threads().expect("a software device");
    for threads in [1, 5, 2] {
        device.set_compute_threads(threads).expect("so few");
        assert_eq!(device.compute_threads().expect("as before"), threads);
    }
    for threads in [0, 1025, u32::MAX] {
        let error = device.set_compute_threads(threads).expect_err("refused");
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
        assert!(error.to_string().contains("from 1 to 1024"), "{error}");
    }
    assert_eq!(device.compute_threads().expect("unchanged"), 2);
    device.set_compute_threads(before).expect("as it was");
}

fn it_changes_while_several_queues_run() {
    let device = device();
    let before = device.compute_threads().expect("a software device");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let executor = executor();
                while !done.load(Ordering::Relaxed) {
                    multiply(&executor);
                }
            });
        }
        for round in 0..100 {
            device.set_compute_threads(1 + round * 3 % 8).expect("few");
            thread::sleep(Duration::from_millis(3));
        }
        done.store(true, Ordering::Relaxed);
    });
    device.set_compute_threads(before).expect("as it was");
}

/// More threads than processors take turns, and none of them spins while another one has work.
fn too_many_threads_are_not_much_slower() {
    let (device, executor) = (device(), executor());
    let before = device.compute_threads().expect("a software device");
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let time = |threads: u32| {
        device.set_compute_threads(threads).expect("few");
        let times = (0..5).map(|_| {
            let start = Instant::now();
            (0..20).for_each(|_| multiply(&executor));
            start.elapsed()
        });
        times.min().expect("there are five")
    };
    // Measured: less than twice. Whatever else runs on the machine may take its processors for a while, so the best of
    // five pairs counts; threads that spin are slow in all of them.
    let pairs: Vec<(Duration, Duration)> = (0..5)
        .map(|_| (time(processors), time(4 * processors)))
        .collect();
    device.set_compute_threads(before).expect("as it was");
    assert!(
        pairs.iter().any(|(right, many)| *many < 10 * *right),
        "(with as many as processors, with four times as many): {pairs:?}"
    );
}

fn after_work_the_process_is_idle() {
    let (device, executor) = (device(), executor());
    let before = device.compute_threads().expect("a software device");
    // With one thread, those that do not compute look longer for what they wait for.
    for threads in [before, 1] {
        device.set_compute_threads(threads).expect("few");
        (0..20).for_each(|_| multiply(&executor));
        // Threads look for more work for half a millisecond at most; on a busy machine some get to that only later.
        let used = (0..5).map(|_| {
            let before = processor_time();
            thread::sleep(Duration::from_secs(1));
            processor_time() - before
        });
        let least = used.min().expect("there are five");
        assert!(
            least < Duration::from_millis(5),
            "{least:?} in a second without work of {threads} threads"
        );
    }
    device.set_compute_threads(before).expect("as it was");
}

/// Whoever waits for something long sleeps, however many processors there are to spare.
fn who_waits_for_long_does_not_use_a_processor() {
    let device = Device::open("cpu:delay_us=300000").expect("there is always a software device");
    let before = device.compute_threads().expect("a software device");
    device.set_compute_threads(1).expect("few");
    let start = processor_time();
    multiply(&MatmulExecutor::on(device.clone()));
    let used = processor_time() - start;
    device.set_compute_threads(before).expect("as it was");
    assert!(used < Duration::from_millis(100), "{used:?} in 0.3 s");
}

/// A thread that waits for its commands does their work, when no processor is to spare for another one that looks for
/// it. It runs on the processors that it had before.
#[cfg(target_os = "linux")]
fn who_runs_commands_does_not_wait_for_another_thread() {
    const ROUNDS: i64 = 1000;
    let (device, executor) = (device(), executor());
    let before = device.compute_threads().expect("a software device");
    let processors = processors_of("thread-self");
    device
        .set_compute_threads(processors.len() as u32)
        .expect("few");
    multiply(&executor);
    let start = sleeps();
    (0..ROUNDS).for_each(|_| multiply(&executor));
    let slept = sleeps() - start;
    device.set_compute_threads(before).expect("as it was");
    assert_eq!(processors_of("thread-self"), processors);
    // Tiles belong to whoever configured them, which may be the thread's own program: there another thread is waited
    // for.
    let tiles = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" amx_tile"));
    assert!(
        slept < ROUNDS / 2 || tiles,
        "{slept} times in {ROUNDS} multiplications"
    );
}

/// How often the calling thread has given its processor away of its own accord.
#[cfg(target_os = "linux")]
fn sleeps() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is of the type that is written, and zeros are a value of it.
    unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
        usage.assume_init().ru_nvcsw
    }
}

/// What all threads of this process have used.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place is of the type that is written.
    assert_eq!(
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) },
        0
    );
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(target_os = "linux")]
fn pinned_threads_are_where_they_should_be() {
    let (device, executor) = (device(), executor());
    let before = device.compute_threads().expect("a software device");
    let any = processors_of("self");
    let (first, last) = (any[0], any[any.len() - 1]);
    // A thread has its name and its place from its first moment on a processor, for which it may have to wait.
    let expect = |places: &[&[u32]]| {
        let threads = places.len() as u32 + 1;
        device.set_compute_threads(threads).expect("few");
        multiply(&executor);
        let start = Instant::now();
        while helpers() != places && start.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(helpers(), places);
    };
    // One for each processor, until somebody wants something else.
    let own: Vec<&[u32]> = any[1..].iter().map(std::slice::from_ref).collect();
    expect(&own);
    expect(&vec![any.as_slice(); any.len()]);

    device.pin_compute_threads(&[first, last]).expect("ours");
    expect(&[&[last], &[first], &[last]]);
    expect(&[&[last]]);
    // The queue's thread has the processor that is left.
    assert!(of_threads(|name| !name.starts_with("softmetal-")).contains(&vec![first]));
    device.pin_compute_threads(&[last]).expect("ours");
    expect(&[&[last], &[last]]);

    let error = device
        .pin_compute_threads(&[first, 1023])
        .expect_err("no machine has it");
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    assert!(
        error.to_string().contains("processor 1023 is not"),
        "{error}"
    );
    expect(&[&[last]]);

    device.pin_compute_threads(&[]).expect("any");
    expect(&[&any, &any]);
    expect(&vec![any.as_slice(); any.len() - 1]);
    device.set_compute_threads(before).expect("as it was");
}

/// The processors of each helper, by its number.
#[cfg(target_os = "linux")]
fn helpers() -> Vec<Vec<u32>> {
    of_threads(|name| name.starts_with("softmetal-"))
}

/// The processors of the threads of such a name, in the order of their names.
#[cfg(target_os = "linux")]
fn of_threads(wanted: impl Fn(&str) -> bool) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let task = task.file_name().into_string().expect("a number");
        let name = fs::read_to_string(format!("/proc/self/task/{task}/comm")).unwrap_or_default();
        if wanted(name.trim()) {
            found.push((name, processors_of(&format!("self/task/{task}"))));
        }
    }
    found.sort_unstable();
    found
        .into_iter()
        .map(|(_, processors)| processors)
        .collect()
}

/// `Cpus_allowed_list` of a process or thread.
#[cfg(target_os = "linux")]
fn processors_of(task: &str) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{task}/status")).expect("it lives");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("Linux has the line");
    let range = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().expect("a number");
        number(first)..=number(last)
    };
    list.split(',').flat_map(range).collect()
}
