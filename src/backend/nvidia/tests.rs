//! The backend over a driver that records what it is asked for.

use std::cell::RefCell;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::backend::Nvidia;
use super::driver::{Driver, status};
use super::fake::Fake;
use super::launch::{Part, Parts, parts};
use crate::backend::fault::Fault;
use crate::backend::ffi::args;
use crate::backend::ffi::backend::*;
use crate::backend::vtable::{
    self, Backend, Buffer as _, HostPages, Matrix, ParameterKind, Storage,
};
use crate::msl::builtin;

/// Calls a function of the table.
macro_rules! call {
    ($table:expr, $name:ident($($argument:expr),*)) => {
        // SAFETY: live handles of the backend that the table is of; other pointers are live or NULL.
        unsafe { $table.$name.expect("the table is full")($($argument),*) }
    };
}

fn open(fake: &Fake) -> Nvidia {
    Nvidia::with_driver(Arc::clone(&fake.driver), 0, None).expect("there is a GPU")
}

/// How a submission ended: its outcome and text.
type Ended = RefCell<Vec<(soft_outcome, String)>>;

unsafe extern "C" fn complete(context: *mut c_void, result: *const soft_result) {
    // SAFETY: the list of `run`, which outlives the stream, and a result whose text is NULL or a text.
    unsafe {
        let text = match (*result).text.is_null() {
            true => String::new(),
            false => std::ffi::CStr::from_ptr((*result).text)
                .to_string_lossy()
                .into_owned(),
        };
        (*context.cast::<Ended>())
            .borrow_mut()
            .push(((*result).outcome, text));
    }
}

unsafe extern "C" fn refuse(_context: *mut c_void) -> bool {
    false
}

struct Opened {
    handle: *mut soft_backend,
    table: &'static soft_backend_table,
}

impl Opened {
    fn new(fake: &Fake) -> Opened {
        Opened::of(open(fake))
    }

    fn of(device: Nvidia) -> Opened {
        let (handle, table) = vtable::open(device).expect("it opens");
        Opened { handle, table }
    }

    fn buffer(&self, length: u64) -> *mut soft_buffer {
        let mut buffer = ptr::null_mut();
        let made = call!(
            self.table,
            buffer_create(
                self.handle,
                length,
                SOFT_SHARED,
                &mut buffer,
                ptr::null_mut()
            )
        );
        assert_eq!(made, SOFT_OK);
        buffer
    }

    /// A kernel of ironbridge's own.
    fn function(&self, family: &str, name: &std::ffi::CStr) -> *mut soft_function {
        let source = builtin::own_sources()
            .find(|own| own.family == family)
            .expect("it is ours")
            .text();
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let text = source.as_ptr().cast();
        let made = call!(
            self.table,
            module_create(
                self.handle,
                text,
                source.len(),
                &mut module,
                ptr::null_mut()
            )
        );
        assert_eq!(made, SOFT_OK);
        let made = call!(
            self.table,
            function_create(
                module,
                name.as_ptr(),
                ptr::null(),
                0,
                &mut function,
                ptr::null_mut()
            )
        );
        assert_eq!(made, SOFT_OK);
        call!(self.table, module_release(module));
        function
    }

    /// Runs lists of commands, with the caller's help or without. A list that may not begin is canceled.
    fn run(&self, lists: &[(&[soft_command], bool)], helps: bool) -> Vec<(soft_outcome, String)> {
        let mut stream = ptr::null_mut();
        let made = call!(
            self.table,
            stream_create(self.handle, &mut stream, ptr::null_mut())
        );
        assert_eq!(made, SOFT_OK);
        let ended = Ended::default();
        let mut last = 0;
        let chunks: Vec<soft_chunk> = lists
            .iter()
            .map(|(commands, _)| {
                let mut chunk = soft_chunk {
                    count: commands.len(),
                    ..Default::default()
                };
                chunk.commands[..commands.len()].copy_from_slice(commands);
                chunk
            })
            .collect();
        for (chunk, (_, begins)) in chunks.iter().zip(lists) {
            let submission = soft_submission {
                commands: chunk,
                context: ptr::from_ref(&ended).cast_mut().cast(),
                begin: if *begins { None } else { Some(refuse) },
                complete: Some(complete),
            };
            let flags = if helps { SOFT_WILL_HELP } else { 0 };
            last = call!(self.table, stream_submit(stream, &submission, flags));
        }
        if helps {
            call!(self.table, stream_help(stream, last));
        }
        call!(self.table, stream_release(stream));
        ended.into_inner()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        call!(self.table, release(self.handle));
    }
}

fn buffer_binding(buffer: *mut soft_buffer, offset: u64, length: u64) -> soft_binding {
    soft_binding {
        buffer,
        bytes: ptr::null(),
        offset,
        length,
    }
}

fn bytes_binding<T>(value: &T) -> soft_binding {
    soft_binding {
        buffer: ptr::null_mut(),
        bytes: ptr::from_ref(value).cast(),
        offset: 0,
        length: size_of::<T>() as u64,
    }
}

/// One thread each for `count` elements.
fn dispatch(function: *const soft_function, bindings: &[soft_binding], count: u32) -> soft_command {
    let mut command = soft_command {
        kind: SOFT_DISPATCH,
        ..Default::default()
    };
    command.__bindgen_anon_1.dispatch = soft_dispatch {
        function,
        bindings: bindings.as_ptr(),
        threadgroup_memory: ptr::null(),
        binding_count: bindings.len() as u32,
        threadgroup_memory_count: 0,
        grid: [count, 1, 1],
        threadgroup: [256, 1, 1],
        threads: true,
        ..Default::default()
    };
    command
}

fn word(packet: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(packet[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn a_dispatch_is_one_launch_with_what_is_bound() {
    let fake = Fake::new();
    let device = Opened::new(&fake);
    let (a, out) = (device.buffer(4096), device.buffer(4096));
    let function = device.function("elementwise", c"add");
    let count = 300_u64;
    let bindings = [
        buffer_binding(a, 64, 4032),
        buffer_binding(a, 0, 4096),
        buffer_binding(out, 0, 4096),
        bytes_binding(&count),
    ];
    for helps in [true, false] {
        let command = dispatch(function, &bindings, 300);
        assert_eq!(
            device.run(&[(&[command], true)], helps),
            [(SOFT_OK, String::new())]
        );
        let launches = fake.launches();
        let [launched] = &launches[..] else {
            panic!("{launches:?}")
        };
        assert_eq!(
            (launched.groups, launched.threads, launched.shared),
            ([2, 1, 1], [256, 1, 1], 0)
        );
        let address = |buffer| call!(device.table, buffer_address(buffer));
        // entry.h: grid, groups, origin and threads of 12 bytes each, addresses, values.
        assert_eq!(word(&launched.packet, 0), 300 | 1 << 32);
        assert_eq!(word(&launched.packet, 48), address(a) + 64);
        assert_eq!(word(&launched.packet, 56), address(a));
        assert_eq!(word(&launched.packet, 64), address(out));
        assert_eq!(word(&launched.packet, 72), 0, "it is by value");
        assert!(
            (80..launched.packet.len() - 8)
                .step_by(8)
                .any(|at| word(&launched.packet, at) == count)
        );
    }
    let mut info = soft_function_info::default();
    call!(device.table, function_describe(function, &mut info));
    assert_eq!(
        (
            info.max_total_threads_per_threadgroup,
            info.thread_execution_width
        ),
        (640, 32)
    );
    call!(device.table, function_release(function));
    for buffer in [a, out] {
        call!(device.table, buffer_release(buffer));
    }
    drop(device);
    fake.check_released();
}

#[test]
fn a_long_list_that_comes_again_is_a_graph_whose_changes_alone_are_told() {
    let fake = Fake::new();
    let device = Opened::new(&fake);
    let (a, out) = (device.buffer(4096), device.buffer(4096));
    let add = device.function("elementwise", c"add");
    let count = 300_u64;
    let bindings = |offset| {
        [
            buffer_binding(a, offset, 4096 - offset),
            buffer_binding(a, 0, 4096),
            buffer_binding(out, 0, 4096),
            bytes_binding(&count),
        ]
    };
    let (plain, moved) = (bindings(0), bindings(64));
    let list = vec![dispatch(add, &plain, 300); 30];
    let mut changed = list.clone();
    changed[7] = dispatch(add, &moved, 300);
    changed[9] = dispatch(add, &plain, 200);
    let lists: Vec<(&[soft_command], bool)> = vec![
        (&list, true),
        (&list, true),
        (&changed, true),
        (&list[..3], true),
        (&list, true),
    ];
    assert!(
        device
            .run(&lists, true)
            .iter()
            .all(|(ended, _)| *ended == SOFT_OK)
    );
    // The first one and the short one are launches; two differ, there and back.
    assert_eq!(fake.graphs(), (4, 3));
    assert_eq!(fake.edges(), 29);
    let launches = fake.launches();
    assert_eq!(launches.len(), 4 * 30 + 3);
    let (first, third) = (&launches[..30], &launches[60..90]);
    assert_eq!(first, &launches[30..60]);
    assert_eq!(first, &launches[93..]);
    let differ: Vec<usize> = (0..30)
        .filter(|index| first[*index] != third[*index])
        .collect();
    assert_eq!(differ, [7, 9]);
    let address = call!(device.table, buffer_address(a));
    assert_eq!(word(&third[7].packet, 48), address + 64);
    assert_eq!(third[9].groups, [1, 1, 1]);

    // Without graphs it is launches.
    for missing in ["graph_create", "graph_add", "graph_instantiate"] {
        fake.fail(missing, status::OUT_OF_MEMORY);
        let lists: Vec<(&[soft_command], bool)> = vec![(&list, true), (&list, true)];
        assert!(
            device
                .run(&lists, true)
                .iter()
                .all(|(ended, _)| *ended == SOFT_OK)
        );
        assert_eq!(fake.launches().len(), 60, "{missing}");
        fake.mend();
    }
    call!(device.table, function_release(add));
    for buffer in [a, out] {
        call!(device.table, buffer_release(buffer));
    }
    drop(device);
    fake.check_released();
}

#[test]
fn lists_complete_in_their_order_and_canceled_ones_run_nothing() {
    let fake = Fake::new();
    let device = Opened::new(&fake);
    let buffer = device.buffer(4096);
    let mut fill = soft_command {
        kind: SOFT_FILL,
        ..Default::default()
    };
    fill.__bindgen_anon_1.fill = soft_fill {
        destination: buffer,
        offset: 16,
        length: 8,
        value: 7,
    };
    let mut copy = soft_command {
        kind: SOFT_COPY,
        ..Default::default()
    };
    copy.__bindgen_anon_1.copy = soft_copy {
        source: buffer,
        destination: buffer,
        source_offset: 16,
        destination_offset: 64,
        length: 8,
    };
    for helps in [true, false] {
        let (both, one) = ([fill, copy], [fill]);
        let lists: Vec<(&[soft_command], bool)> = vec![(&both, true), (&one, false), (&[], true)];
        let ended = device.run(&lists, helps);
        let outcomes: Vec<_> = ended.iter().map(|(outcome, _)| *outcome).collect();
        assert_eq!(outcomes, [SOFT_OK, SOFT_CANCELED, SOFT_OK]);
        let contents = call!(device.table, buffer_contents(buffer)).cast::<u8>();
        // SAFETY: inside the buffer, which nothing writes now.
        let copied = unsafe { std::slice::from_raw_parts(contents.add(60), 12) };
        assert_eq!(copied, [0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7]);
    }
    call!(device.table, buffer_release(buffer));
    drop(device);
    fake.check_released();
}

/// What a callback needs that helps.
struct Inside {
    table: &'static soft_backend_table,
    stream: *mut soft_stream,
    helped: mpsc::Sender<()>,
}

unsafe extern "C" fn help_inside(context: *mut c_void, _result: *const soft_result) {
    // SAFETY: the test gives a live one.
    let inside = unsafe { &*context.cast::<Inside>() };
    call!(inside.table, stream_help(inside.stream, u64::MAX));
    let _ = inside.helped.send(());
}

#[test]
fn a_callback_that_helps_does_not_wait_for_itself() {
    let fake = Fake::new();
    let opened = Opened::new(&fake);
    let mut stream = ptr::null_mut();
    let made = call!(
        opened.table,
        stream_create(opened.handle, &mut stream, ptr::null_mut())
    );
    assert_eq!(made, SOFT_OK);
    let (helped, told) = mpsc::channel();
    let inside = Inside {
        table: opened.table,
        stream,
        helped,
    };
    for _ in 0..2 {
        let submission = soft_submission {
            commands: ptr::null(),
            context: ptr::from_ref(&inside).cast_mut().cast(),
            begin: None,
            complete: Some(help_inside),
        };
        call!(opened.table, stream_submit(stream, &submission, 0));
    }
    for _ in 0..2 {
        let in_time = told.recv_timeout(Duration::from_secs(20));
        in_time.expect("the stream's thread goes on");
    }
    call!(opened.table, stream_release(stream));
}

/// A struct that is too large for the others, which the kernel indexes.
#[test]
fn a_table_is_passed_by_value_and_never_as_a_buffer() {
    let fake = Fake::new();
    let device = Opened::new(&fake);
    let (from, to) = (device.buffer(4096), device.buffer(4096));
    let function = device.function("copies", c"copies_f32_f32");
    let rows = [args::copies_row {
        src: 1234,
        ..Default::default()
    }; 64];
    let table = args::copies_args {
        rows,
        count: 64,
        width: 7,
    };
    let [from_binding, to_binding] = [from, to].map(|buffer| buffer_binding(buffer, 0, 4096));
    let value = [from_binding, to_binding, to_binding, bytes_binding(&table)];
    let in_buffer = [from_binding, to_binding, to_binding, from_binding];
    let lists = [&value, &in_buffer].map(|bindings| [dispatch(function, bindings, 7)]);
    let ended = device.run(&[(&lists[0], true), (&lists[1], true)], true);
    assert_eq!(ended[0], (SOFT_OK, String::new()));
    let text = "kernel `copies_f32_f32`: buffer 3 is 1544 bytes that are passed by value";
    assert_eq!(ended[1], (SOFT_INVALID, String::from(text)));
    let launches = fake.launches();
    let packet = &launches[0].packet;
    let places = (80..packet.len() - 8).step_by(8);
    let found = places.filter(|at| word(packet, *at) == 1234).count();
    assert_eq!((launches.len(), found), (1, 64));
    call!(device.table, function_release(function));
    for buffer in [from, to] {
        call!(device.table, buffer_release(buffer));
    }
}

#[test]
fn what_is_not_bound_is_an_error_that_names_the_kernel() {
    let fake = Fake::new();
    let device = Opened::new(&fake);
    let buffer = device.buffer(64);
    let function = device.function("elementwise", c"add");
    let one = [buffer_binding(buffer, 0, 64)];
    let nothing = dispatch(function, &one, 4);
    let short = bytes_binding(&1_u32);
    let bindings = [buffer_binding(buffer, 0, 64); 3]
        .into_iter()
        .chain([short])
        .collect::<Vec<_>>();
    let short = dispatch(function, &bindings, 4);
    let ended = device.run(&[(&[nothing], true), (&[short], true)], true);
    assert_eq!(
        ended[0],
        (
            SOFT_INVALID,
            String::from("kernel `add`: nothing is bound at buffer 1")
        )
    );
    assert_eq!(
        ended[1],
        (
            SOFT_PAGE_FAULT,
            String::from("kernel `add`: buffer 3 has 4 bytes, and its argument needs 8")
        )
    );
    assert_eq!(fake.launches(), []);
    call!(device.table, function_release(function));
    call!(device.table, buffer_release(buffer));
}

#[test]
fn a_users_kernel_says_what_it_takes() {
    const SOURCE: &[u8] = b"#include <metal_stdlib>\nusing namespace metal;\n\
        struct Shape { ulong rows; };\n\
        kernel void k(device half *out [[buffer(3)]], constant Shape &shape [[buffer(1)]],\n\
                      threadgroup float4 *shared [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {\n\
          shared[i] = shape.rows; out[i] = shared[i].x; }\n";
    let fake = Fake::new();
    let device = Arc::new(open(&fake));
    let module = device
        .create_module(SOURCE)
        .map(Arc::new)
        .expect("it compiles");
    let function = Nvidia::create_function(&module, c"k", &[]).expect("it is there");
    let parameters = Nvidia::parameters(&function).expect("they are known");
    let told = parameters
        .iter()
        .map(|it| (it.kind, it.index, it.size, it.alignment, it.writable));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (ParameterKind::Buffer, 3, 0, 2, true),
            (ParameterKind::Buffer, 1, 8, 8, false),
            (ParameterKind::Threadgroup, 0, 0, 16, true),
        ]
    );
    // Own kernels are given what fits.
    let own = builtin::own_sources().find(|own| own.family == "elementwise");
    let source = own.expect("it is ours").text();
    let module = device
        .create_module(&source)
        .map(Arc::new)
        .expect("it is embedded");
    let function = Nvidia::create_function(&module, c"add", &[]).expect("it is there");
    assert_eq!(Nvidia::parameters(&function), None);
}

#[test]
fn a_kernel_that_fails_loses_the_device_and_nothing_else() {
    let fake = Fake::new();
    let device = Opened::new(&fake);
    let buffer = device.buffer(4096);
    let function = device.function("elementwise", c"add");
    let count = 4_u64;
    let mut bindings = vec![buffer_binding(buffer, 0, 4096); 3];
    bindings.push(bytes_binding(&count));
    let command = dispatch(function, &bindings, 4);
    fake.fail("event_query", status::ILLEGAL_ADDRESS);
    let ended = device.run(&[(&[command], true)], true);
    assert!(
        ended[0].0 == SOFT_DEVICE_LOST && ended[0].1.contains("start the process again"),
        "{ended:?}"
    );
    fake.mend();
    fake.launches();
    // It stays lost, and the GPU is not asked again.
    let (mut another, mut stream) = (ptr::null_mut(), ptr::null_mut());
    let made = call!(
        device.table,
        buffer_create(
            device.handle,
            64,
            SOFT_SHARED,
            &mut another,
            ptr::null_mut()
        )
    );
    assert_eq!(made, SOFT_DEVICE_LOST);
    let made = call!(
        device.table,
        stream_create(device.handle, &mut stream, ptr::null_mut())
    );
    assert_eq!(made, SOFT_DEVICE_LOST);
    call!(device.table, function_release(function));
    call!(device.table, buffer_release(buffer));
    drop(device);
    // Another one can be opened.
    let again = Opened::new(&fake);
    let buffer = again.buffer(64);
    call!(again.table, buffer_release(buffer));
    drop(again);
    fake.check_released();
}

/// The driver's functions might wait for it, so that none is called any more.
#[test]
fn a_kernel_without_end_loses_the_device_and_is_not_waited_for() {
    let fake = Fake::new();
    fake.set_gpus(2);
    let open = |index| {
        let limit = Some(Duration::from_millis(20));
        Nvidia::with_driver(Arc::clone(&fake.driver), index, limit)
    };
    let device = Opened::of(open(0).expect("there is a GPU"));
    let buffer = device.buffer(4096);
    let function = device.function("elementwise", c"add");
    let mut bindings = vec![buffer_binding(buffer, 0, 4096); 3];
    bindings.push(bytes_binding(&4_u64));
    let command = dispatch(function, &bindings, 4);
    for helps in [true, false] {
        assert_eq!(device.run(&[(&[command], true)], helps)[0].0, SOFT_OK);
    }
    fake.fail("event_query", status::NOT_READY);
    let ended = device.run(&[(&[command], true), (&[command], true)], false);
    let said = "took more than 0.02 s (IRONBRIDGE_SOFT_DISPATCH_TIMEOUT)";
    assert!(
        ended[0].0 == SOFT_TIMEOUT && ended[0].1.contains(said),
        "{ended:?}"
    );
    assert!(
        ended[1].0 == SOFT_DEVICE_LOST && ended[1].1.contains(said),
        "{ended:?}"
    );
    let live = fake.count_live();
    call!(device.table, function_release(function));
    call!(device.table, buffer_release(buffer));
    drop(device);
    assert_eq!(fake.count_live(), live);
    assert!(matches!(open(0), Err(Fault::DeviceLost(text)) if text.contains(said)));
    fake.mend();
    assert!(open(1).is_ok());
    fake.end_process();
}

#[test]
fn a_machine_without_a_gpu_has_a_typed_error_each() {
    let fake = Fake::new();
    let refused = |index| match Nvidia::with_driver(Arc::clone(&fake.driver), index, None) {
        Ok(_) => panic!("it opened"),
        Err(Fault::Unsupported(text)) => text,
        Err(other) => panic!("{other:?}"),
    };
    assert!(refused(1).contains("there is no NVIDIA GPU 1: the last one is 0"));
    fake.set_capability(7);
    assert!(refused(0).contains("compute capability 7.0, and kernels need 8.0"));
    fake.set_gpus(0);
    assert!(refused(0).contains("CUDA_VISIBLE_DEVICES"));
    fake.fail("device_count", status::NO_DEVICE);
    assert!(refused(0).contains("there is no NVIDIA GPU"));
    fake.set_version(11040);
    let old = fake.driver.start();
    assert!(
        matches!(&old, Err(Fault::Unsupported(text)) if text.contains("it is of CUDA 11.4")),
        "{old:?}"
    );
    fake.fail("init", status::NO_DEVICE);
    assert!(matches!(fake.driver.start(), Err(Fault::Unsupported(_))));
    for (library, said) in [
        ("no/such/library.so", "there is no NVIDIA driver"),
        ("libc.so.6", "has no cu"),
    ] {
        match Driver::open(Path::new(library)) {
            Err(Fault::Unsupported(text)) => assert!(text.contains(said), "{text}"),
            _ => panic!("{library} is a driver"),
        }
    }
    assert!(matches!(Nvidia::open("one"), Err(Fault::Invalid(text)) if text.contains("nvidia:1")));
}

#[test]
fn memory_is_managed_or_pinned_and_has_an_end() {
    let fake = Fake::new();
    let device = Arc::new(open(&fake));
    let private = device.create_buffer(100, Storage::Private).expect("memory");
    assert!(private.contents().is_none() && private.address() != 0);
    let shared = device.create_buffer(100, Storage::Shared).expect("memory");
    assert_eq!(
        shared.contents().map(|contents| contents.as_ptr() as u64),
        Some(shared.address())
    );
    // Seven eighths of 8 MiB may be managed, which is what is longer than 2 MiB.
    let large = device
        .create_buffer(4 << 20, Storage::Shared)
        .expect("memory");
    let full = device.create_buffer((3 << 20) + 1, Storage::Shared).err();
    assert!(
        matches!(&full, Some(Fault::OutOfMemory(text)) if text.contains("does not fit")),
        "{full:?}"
    );
    drop(large);
    device
        .create_buffer(3 << 20, Storage::Shared)
        .expect("there is room again");
    fake.fail("memory_allocate", status::OUT_OF_MEMORY);
    fake.fail("host_allocate", status::OUT_OF_MEMORY);
    fake.fail("memory_allocate_managed", status::OUT_OF_MEMORY);
    for storage in [Storage::Shared, Storage::Private, Storage::Weights] {
        let full = device.create_buffer(100, storage).err();
        assert!(
            matches!(&full, Some(Fault::OutOfMemory(text)) if text.contains("3 of 8 MiB are free")),
            "{full:?}"
        );
    }
    fake.mend();

    fake.set_managed(false);
    let another = Arc::new(open(&fake));
    let pinned = another.create_buffer(100, Storage::Shared).expect("memory");
    assert!(pinned.contents().is_some());
    let mut pages = [0_u8; 64];
    let pointer = NonNull::from(&mut pages[..]).cast();
    let pages = |read_only| HostPages {
        pointer,
        length: 64,
        read_only,
    };
    let imported = another
        .import_buffer(pages(false))
        .expect("it can be registered");
    assert_eq!(imported.contents(), Some(pointer));
    assert!(matches!(
        another.import_buffer(pages(true)),
        Err(Fault::Unsupported(_))
    ));
    drop((private, shared, pinned, imported));
    drop((device, another));
    fake.check_released();
}

#[test]
fn weights_are_written_and_read_by_rows() {
    let fake = Fake::new();
    let device = Arc::new(open(&fake));
    let buffer = device
        .create_buffer(64 * 36 + 32, Storage::Weights)
        .expect("memory");
    let matrix = Matrix {
        offset: 32,
        rows: 64,
        width: 64,
        dtype: crate::ffi::IRON_Q4_0,
    };
    let rows: Vec<u8> = (0..64 * 36).map(|i| (i % 251) as u8).collect();
    for first in [0, 32] {
        let part = &rows[first * 36..][..32 * 36];
        buffer
            .write_weights(&matrix, first as u64, 32, part)
            .expect("they fit");
    }
    let mut back = vec![0; 3 * 36];
    buffer
        .read_weights(&matrix, 30, 3, &mut back)
        .expect("they were written");
    assert_eq!(back, rows[30 * 36..33 * 36]);
    assert!(matches!(
        buffer.write_weights(&matrix, 40, 32, &rows[..32 * 36]),
        Err(Fault::OutOfBounds(_))
    ));
    assert!(matches!(
        buffer.write_weights(&matrix, 0, 32, &rows[..31 * 36]),
        Err(Fault::OutOfBounds(_))
    ));
    let ragged = Matrix {
        width: 65,
        ..matrix
    };
    assert!(matches!(
        buffer.write_weights(&ragged, 0, 1, &rows[..36]),
        Err(Fault::Invalid(_))
    ));
}

/// Long ones go through pinned memory, and where there is none, as the driver copies them.
#[test]
fn many_weights_are_copied_by_several_threads() {
    let fake = Fake::new();
    let device = Arc::new(open(&fake));
    let (rows, width) = ((9 << 20) / 36 + 1, 64);
    let bytes: Vec<u8> = (0..rows * 36).map(|i| (i % 251) as u8).collect();
    let length = bytes.len() as u64;
    let matrix = Matrix {
        offset: 0,
        rows: rows as u64,
        width,
        dtype: crate::ffi::IRON_Q4_0,
    };
    let check = || {
        let buffer = device
            .create_buffer(length, Storage::Weights)
            .expect("memory");
        let written = buffer.write_weights(&matrix, 0, matrix.rows, &bytes);
        written.expect("they fit");
        let mut back = vec![0; bytes.len()];
        let read = buffer.read_weights(&matrix, 0, matrix.rows, &mut back);
        read.expect("they were written");
        assert!(back == bytes);
    };
    for missing in ["stream_create", "host_allocate"] {
        fake.fail(missing, status::OUT_OF_MEMORY);
        check();
        fake.mend();
    }
    check();
    check();
    fake.fail("copy_on_stream", status::ILLEGAL_ADDRESS);
    let buffer = device
        .create_buffer(length, Storage::Weights)
        .expect("memory");
    assert!(matches!(
        buffer.write_weights(&matrix, 0, matrix.rows, &bytes),
        Err(Fault::DeviceLost(_))
    ));
    fake.mend();
    drop((buffer, device));
    fake.check_released();
}

#[test]
fn a_grid_of_threads_is_cut_where_threadgroups_are_smaller() {
    let part = |origin, groups, threads| Part {
        origin,
        groups,
        threads,
    };
    // Threadgroups: one launch.
    assert_eq!(
        parts([3, 2, 1], [8, 4, 1], false),
        ([3, 2, 1], Parts::One(part([0; 3], [3, 2, 1], [8, 4, 1])))
    );
    // In one direction the threads too many leave.
    assert_eq!(
        parts([300, 5, 1], [256, 1, 1], true).1,
        Parts::One(part([0; 3], [2, 5, 1], [256, 1, 1]))
    );
    // In two directions the threads' indices depend on the width.
    assert_eq!(
        parts([17, 8, 1], [8, 4, 1], true),
        (
            [3, 2, 1],
            Parts::Several(vec![
                part([0; 3], [2, 2, 1], [8, 4, 1]),
                part([2, 0, 0], [1, 2, 1], [1, 4, 1])
            ])
        )
    );
    // A launch has no more than 65535 threadgroups along y.
    let (groups, long) = parts([1, 70000, 1], [32, 1, 1], false);
    assert_eq!(groups, [1, 70000, 1]);
    assert_eq!(
        long,
        Parts::Several(vec![
            part([0; 3], [1, 65535, 1], [32, 1, 1]),
            part([0, 65535, 0], [1, 4465, 1], [32, 1, 1])
        ])
    );
    assert_eq!(parts([0, 1, 1], [32, 1, 1], true).1.iter().count(), 0);
}
