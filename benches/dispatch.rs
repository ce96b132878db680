//! What an operation costs besides its computation: a few numbers are added, so that next to nothing else is measured.
//! Beside it the two things that it is made of: an Objective-C message that does nothing, and work handed to another
//! thread.
//!
//! `cargo bench --bench dispatch`. The time per operation is the inverse of what is given in elements.

use std::hint::black_box;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ironbridge::ops::Elementwise;
use ironbridge::{Buffer, Commands, Device, Pending, Result};

/// About those of one token of a model of 22 layers.
const OPERATIONS: u32 = 200;
const NUMBERS: usize = 4;

fn record(device: &Device, buffer: &Buffer<f32>, operations: u32) -> Result<Commands> {
    // One command buffer, however many there are.
    let mut commands = device
        .commands_options()
        .max_operations(OPERATIONS + 1)
        .begin()?;
    for _ in 0..operations {
        commands.add(&Elementwise::new(
            buffer.tensor().vector(NUMBERS),
            buffer.tensor().vector(NUMBERS),
            buffer.tensor().vector(NUMBERS),
        ))?;
    }
    Ok(commands)
}

/// Committed and waited for in two calls, or in one.
#[derive(Clone, Copy)]
enum Calls {
    Two,
    One,
}

fn run(device: &Device, buffer: &Buffer<f32>, operations: u32, calls: Calls) -> Result<()> {
    let commands = record(device, buffer, operations)?;
    match calls {
        Calls::Two => commands.commit()?.wait(),
        Calls::One => commands.run(),
    }
}

/// The time that recording alone takes: what is recorded runs in between.
fn recording(device: &Device, buffer: &Buffer<f32>, rounds: u64) -> Result<Duration> {
    let mut total = Duration::ZERO;
    for _ in 0..rounds {
        let start = Instant::now();
        let commands = record(device, buffer, OPERATIONS)?;
        total += start.elapsed();
        let pending: Pending = commands.commit()?;
        pending.wait()?;
    }
    Ok(total)
}

fn operations(criterion: &mut Criterion) {
    let device = Device::open("default").expect("there is always the software device");
    let buffer = device.buffer::<f32>(NUMBERS).expect("16 bytes");
    let mut group = criterion.benchmark_group("dispatch");
    for operations in [1, OPERATIONS] {
        group.throughput(Throughput::Elements(operations.into()));
        for (name, calls) in [
            ("record_commit_wait", Calls::Two),
            ("record_run", Calls::One),
        ] {
            group.bench_function(format!("{name}/{operations}"), |bencher| {
                bencher.iter(|| run(&device, &buffer, operations, calls).expect("valid"));
            });
        }
    }
    group.bench_function(format!("record/{OPERATIONS}"), |bencher| {
        bencher.iter_custom(|rounds| recording(&device, &buffer, rounds).expect("valid"));
    });
    group.finish();
}

/// `[NSObject self]`, which returns its receiver.
mod message {
    use std::ffi::{CStr, c_char, c_void};

    #[cfg(not(target_vendor = "apple"))]
    type Method = unsafe extern "C" fn(*mut c_void, *const c_void) -> *mut c_void;

    // The runtime that the bridge runs on is linked already. GNUstep's finds a method and leaves the call to the
    // caller.
    unsafe extern "C" {
        fn objc_getClass(name: *const c_char) -> *mut c_void;
        fn sel_registerName(name: *const c_char) -> *const c_void;
        #[cfg(not(target_vendor = "apple"))]
        fn objc_msg_lookup(receiver: *mut c_void, selector: *const c_void) -> Method;
        #[cfg(target_vendor = "apple")]
        fn objc_msgSend(receiver: *mut c_void, selector: *const c_void) -> *mut c_void;
    }

    #[derive(Clone, Copy)]
    pub struct Message {
        receiver: *mut c_void,
        selector: *const c_void,
    }

    impl Message {
        pub fn new(class: &CStr, selector: &CStr) -> Message {
            // SAFETY: both are C strings.
            let (receiver, selector) = unsafe {
                (
                    objc_getClass(class.as_ptr()),
                    sel_registerName(selector.as_ptr()),
                )
            };
            assert!(!receiver.is_null(), "the class is linked");
            Message { receiver, selector }
        }

        pub fn send(self) -> *mut c_void {
            // SAFETY: every class answers to `self`, which takes no argument and returns an object.
            unsafe {
                #[cfg(not(target_vendor = "apple"))]
                return objc_msg_lookup(self.receiver, self.selector)(self.receiver, self.selector);
                #[cfg(target_vendor = "apple")]
                return objc_msgSend(self.receiver, self.selector);
            }
        }
    }
}

fn empty_message(criterion: &mut Criterion) {
    let message = message::Message::new(c"NSObject", c"self");
    let mut group = criterion.benchmark_group("dispatch");
    group.throughput(Throughput::Elements(1));
    group.bench_function("empty_message", |bencher| {
        bencher.iter(|| black_box(message).send());
    });
    group.finish();
}

/// Whose turn it is: of the thread that asks, of the one that answers, or of none any more.
#[derive(PartialEq)]
enum Turn {
    Asks,
    Answers,
    Over,
}

/// There and back: what a commit and a wait need at least, with the primitives that the bridge waits with.
fn hand_off(criterion: &mut Criterion) {
    let (turn, changed) = (Mutex::new(Turn::Asks), Condvar::new());
    let pass = |to: Turn| {
        *turn.lock().expect("nobody panics") = to;
        changed.notify_all();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let turn = turn.lock().expect("nobody panics");
                let turn = changed.wait_while(turn, |turn| *turn == Turn::Asks);
                if *turn.expect("nobody panics") == Turn::Over {
                    return;
                }
                pass(Turn::Asks);
            }
        });
        let mut group = criterion.benchmark_group("dispatch");
        group.throughput(Throughput::Elements(1));
        group.bench_function("thread_hand_off_and_back", |bencher| {
            bencher.iter(|| {
                pass(Turn::Answers);
                let turn = turn.lock().expect("nobody panics");
                let turn = changed.wait_while(turn, |turn| *turn == Turn::Answers);
                drop(turn.expect("nobody panics"));
            });
        });
        group.finish();
        pass(Turn::Over);
    });
}

criterion_group!(benches, operations, empty_message, hand_off);
criterion_main!(benches);
