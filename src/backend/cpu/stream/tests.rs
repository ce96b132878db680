//! The CPU through the C table: lists of commands, who executes them, and how they end.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use crate::backend::cpu::backend::Cpu;
use crate::backend::cpu::process_machine::working_machine;
use crate::backend::ffi::args::*;
use crate::backend::ffi::backend::*;
use crate::backend::vtable;

/// Calls a function of the table.
macro_rules! call {
    ($open:expr, $name:ident($($argument:expr),*)) => {
        // SAFETY: live handles of the backend that the table is of; other pointers are live or NULL.
        unsafe { $open.table.$name.expect("the table is full")($($argument),*) }
    };
}

struct Open {
    handle: *mut soft_backend,
    table: &'static soft_backend_table,
    stream: *mut soft_stream,
}

// SAFETY: backend.h: any thread may call any function.
unsafe impl Sync for Open {}

impl Open {
    fn new() -> Open {
        let (handle, table) = vtable::open(Cpu::default()).expect("it opens");
        let mut open = Open {
            handle,
            table,
            stream: ptr::null_mut(),
        };
        let created = call!(
            open,
            stream_create(handle, &mut open.stream, ptr::null_mut())
        );
        assert_eq!(created, SOFT_OK);
        open
    }

    fn buffer(&self, values: &[f32]) -> *mut soft_buffer {
        let (mut buffer, length) = (ptr::null_mut(), size_of_val(values) as u64);
        let (handle, text) = (self.handle, ptr::null_mut());
        let made = call!(
            self,
            buffer_create(handle, length, SOFT_SHARED, &mut buffer, text)
        );
        assert_eq!(made, SOFT_OK);
        let contents: *mut f32 = call!(self, buffer_contents(buffer)).cast();
        // SAFETY: as many floats as the buffer was made for.
        unsafe { contents.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        buffer
    }

    fn values(&self, buffer: *mut soft_buffer, count: usize) -> Vec<f32> {
        let contents: *const f32 = call!(self, buffer_contents(buffer)).cast();
        // SAFETY: the buffer has as many floats, and nothing in flight writes them.
        unsafe { std::slice::from_raw_parts(contents, count) }.to_vec()
    }

    fn function(&self, source: &[u8], name: &CStr) -> *mut soft_function {
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let (text, length) = (source.as_ptr().cast(), source.len());
        let compiled = call!(
            self,
            module_create(self.handle, text, length, &mut module, ptr::null_mut())
        );
        assert_eq!(compiled, SOFT_OK);
        let (name, none) = (name.as_ptr(), ptr::null());
        let made = call!(
            self,
            function_create(module, name, none, 0, &mut function, ptr::null_mut())
        );
        assert_eq!(made, SOFT_OK);
        call!(self, module_release(module));
        function
    }

    /// `add` of elementwise.metal, native.
    fn add(&self) -> *mut soft_function {
        let own = crate::msl::builtin::own_sources().find(|own| own.family == "elementwise");
        self.function(&own.expect("a family of ours").text(), c"add")
    }

    /// Submits a list and says how it ended, when it has.
    fn submit<'a>(&self, chunk: &'a soft_chunk, context: &'a Context, flags: u32) -> u64 {
        let submission = soft_submission {
            commands: chunk,
            context: ptr::from_ref(context).cast_mut().cast(),
            begin: Some(begin),
            complete: Some(complete),
        };
        call!(self, stream_submit(self.stream, &submission, flags))
    }

    /// Runs a list to its end.
    fn run(&self, commands: &[soft_command]) -> Ended {
        let (chunk, context) = (chunk(commands), Context::new(true));
        let ticket = self.submit(&chunk, &context, SOFT_WILL_HELP);
        call!(self, stream_help(self.stream, ticket));
        context.wait()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        call!(self, stream_release(self.stream));
        call!(self, release(self.handle));
    }
}

#[derive(Clone, Debug)]
struct Ended {
    outcome: soft_outcome,
    text: String,
    thread: ThreadId,
}

struct Context {
    begins: bool,
    ended: Mutex<Option<Ended>>,
}

impl Context {
    fn new(begins: bool) -> Context {
        Context {
            begins,
            ended: Mutex::default(),
        }
    }

    fn ended(&self) -> Option<Ended> {
        self.ended.lock().expect("no panic").clone()
    }

    fn wait(&self) -> Ended {
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            thread::yield_now();
        }
    }
}

unsafe extern "C" fn begin(context: *mut c_void) -> bool {
    // SAFETY: a context of this module's, which outlives the submission.
    unsafe { &*context.cast::<Context>() }.begins
}

unsafe extern "C" fn complete(context: *mut c_void, result: *const soft_result) {
    // SAFETY: as above; a result, whose text is NULL or lives until this returns.
    let (context, result) = unsafe { (&*context.cast::<Context>(), &*result) };
    let text = match result.text.is_null() {
        true => String::new(),
        // SAFETY: as above.
        false => unsafe { CStr::from_ptr(result.text) }
            .to_string_lossy()
            .into_owned(),
    };
    assert!(result.start <= result.end);
    let before = context.ended.lock().expect("no panic").replace(Ended {
        outcome: result.outcome,
        text,
        thread: thread::current().id(),
    });
    assert!(before.is_none(), "completed twice");
}

fn chunk(commands: &[soft_command]) -> soft_chunk {
    let mut chunk = soft_chunk {
        count: commands.len(),
        ..Default::default()
    };
    chunk.commands[..commands.len()].copy_from_slice(commands);
    chunk
}

fn fill(destination: *mut soft_buffer, length: u64, value: u8) -> soft_command {
    let mut command = soft_command {
        kind: SOFT_FILL,
        ..Default::default()
    };
    command.__bindgen_anon_1.fill = soft_fill {
        destination,
        offset: 0,
        length,
        value,
    };
    command
}

fn copy(source: *mut soft_buffer, destination: *mut soft_buffer, length: u64) -> soft_command {
    let mut command = soft_command {
        kind: SOFT_COPY,
        ..Default::default()
    };
    command.__bindgen_anon_1.copy = soft_copy {
        source,
        destination,
        source_offset: 0,
        destination_offset: 0,
        length,
    };
    command
}

fn dispatch(function: *const soft_function, bindings: &[soft_binding], grid: u32) -> soft_command {
    let mut command = soft_command {
        kind: SOFT_DISPATCH,
        ..Default::default()
    };
    command.__bindgen_anon_1.dispatch = soft_dispatch {
        function,
        bindings: bindings.as_ptr(),
        binding_count: bindings.len() as u32,
        grid: [grid, 1, 1],
        threadgroup: [32, 1, 1],
        threads: true,
        ..Default::default()
    };
    command
}

fn bound(buffer: *mut soft_buffer, offset: u64, length: u64) -> soft_binding {
    soft_binding {
        buffer,
        offset,
        length,
        ..Default::default()
    }
}

fn bytes<T>(value: &T) -> soft_binding {
    soft_binding {
        bytes: ptr::from_ref(value).cast(),
        length: size_of::<T>() as u64,
        ..Default::default()
    }
}

/// The bindings of `add` over two floats of each buffer.
fn addition(args: &elementwise_args, buffers: [*mut soft_buffer; 3]) -> [soft_binding; 4] {
    let mut bindings = [soft_binding::default(); 4];
    let places = [ELEMENTWISE_A, ELEMENTWISE_B, ELEMENTWISE_OUT];
    for (place, buffer) in places.into_iter().zip(buffers) {
        bindings[place as usize] = bound(buffer, 0, 8);
    }
    bindings[ELEMENTWISE_ARGS as usize] = bytes(args);
    bindings
}

/// Not on a processor with tiles, and not where threads are pinned.
fn callers_may_help() -> bool {
    let machine = working_machine().expect("the environment is as it should be");
    machine.accepts_foreign_threads()
}

#[test]
fn a_list_runs_in_its_order() {
    let open = Open::new();
    let [a, b, out] = [[1.0, 2.0], [10.0, 20.0], [0.0; 2]].map(|values| open.buffer(&values));
    let (add, args) = (open.add(), elementwise_args { count: 2 });
    let (first, second) = (addition(&args, [a, b, out]), addition(&args, [out, b, a]));
    let ended = open.run(&[
        dispatch(add, &first, 2),
        dispatch(add, &second, 2),
        fill(b, 8, 0),
        copy(a, b, 4),
    ]);
    assert_eq!((ended.outcome, ended.text.as_str()), (SOFT_OK, ""));
    let helped = ended.thread == thread::current().id();
    assert_eq!(helped, callers_may_help(), "the caller helped");
    assert_eq!(open.values(out, 2), [11.0, 22.0]);
    assert_eq!(open.values(a, 2), [21.0, 42.0]);
    assert_eq!(open.values(b, 2), [21.0, 0.0]);
    call!(open, function_release(add));
    for buffer in [a, b, out] {
        call!(open, buffer_release(buffer));
    }
}

#[test]
fn a_failure_ends_the_list_and_names_the_kernel() {
    let open = Open::new();
    let [a, b, out] = [[1.0, 2.0], [10.0, 20.0], [0.0; 2]].map(|values| open.buffer(&values));
    let (add, args) = (open.add(), elementwise_args { count: 2 });
    let mut bindings = addition(&args, [a, b, out]);
    bindings[ELEMENTWISE_B as usize].length = 7;
    let ended = open.run(&[
        fill(out, 4, 0xff),
        dispatch(add, &bindings, 2),
        fill(out, 8, 1),
    ]);
    assert_eq!(ended.outcome, SOFT_PAGE_FAULT);
    assert!(
        ended.text.contains("kernel 'add'") && ended.text.contains("b (binding 1)"),
        "{}",
        ended.text
    );
    assert!(open.values(out, 1)[0].is_nan(), "what came before did run");
    assert_eq!(open.values(out, 2)[1], 0.0, "what came after did not");

    bindings[ELEMENTWISE_B as usize] = soft_binding::default();
    let ended = open.run(&[dispatch(add, &bindings, 2)]);
    assert_eq!(ended.outcome, SOFT_INVALID);
    assert!(ended.text.contains("nothing is bound"), "{}", ended.text);

    // A binding that is longer than its buffer is as long as that.
    bindings[ELEMENTWISE_B as usize] = bound(b, 4, 8);
    let ended = open.run(&[dispatch(add, &bindings, 2)]);
    assert_eq!(ended.outcome, SOFT_PAGE_FAULT);
    call!(open, function_release(add));
    for buffer in [a, b, out] {
        call!(open, buffer_release(buffer));
    }
}

#[test]
fn what_may_not_begin_does_not_run() {
    let open = Open::new();
    let buffer = open.buffer(&[1.0]);
    let (chunk, context) = (chunk(&[fill(buffer, 4, 0)]), Context::new(false));
    open.submit(&chunk, &context, 0);
    assert_eq!(context.wait().outcome, SOFT_CANCELED);
    assert_eq!(open.values(buffer, 1), [1.0]);
    call!(open, buffer_release(buffer));
}

#[test]
fn without_help_the_streams_thread_runs_what_comes() {
    let open = Open::new();
    let buffer = open.buffer(&[1.0]);
    let (chunk, context) = (chunk(&[fill(buffer, 4, 0)]), Context::new(true));
    open.submit(&chunk, &context, 0);
    assert_ne!(context.wait().thread, thread::current().id());
    // Who helps up to the first of two leaves the second to the stream's thread.
    let (first, second) = (Context::new(true), Context::new(true));
    let ticket = open.submit(&chunk, &first, SOFT_WILL_HELP);
    open.submit(&chunk, &second, SOFT_WILL_HELP);
    call!(open, stream_help(open.stream, ticket));
    first.wait();
    assert_ne!(second.wait().thread, thread::current().id());
    call!(open, buffer_release(buffer));
}

#[test]
fn a_thread_with_a_short_stack_does_not_help() {
    let open = Open::new();
    let helps = |stack| {
        let body = || {
            let chunk = chunk(&[]);
            let context = Context::new(true);
            let ticket = open.submit(&chunk, &context, SOFT_WILL_HELP);
            call!(open, stream_help(open.stream, ticket));
            context.wait().thread == thread::current().id()
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(stack);
            let thread = thread.spawn_scoped(scope, body).expect("it starts");
            thread.join().expect("no panic")
        })
    };
    assert!(!helps(256 << 10));
    if !callers_may_help() {
        assert!(!helps(2 << 20));
        return;
    }
    // The stream's thread may be at the end of its work still, and take the next one along.
    while !helps(2 << 20) {}
}

#[test]
fn a_kernel_from_source_runs_on_the_streams_own_thread() {
    let open = Open::new();
    let source = b"kernel void set(device float *out [[buffer(0)]]) { out[0] = 7; }";
    let (function, buffer) = (open.function(source, c"set"), open.buffer(&[0.0]));
    let bindings = [bound(buffer, 0, 4)];
    let ended = open.run(&[dispatch(function, &bindings, 1)]);
    assert_eq!((ended.outcome, ended.text.as_str()), (SOFT_OK, ""));
    assert_ne!(ended.thread, thread::current().id());
    assert_eq!(open.values(buffer, 1), [7.0]);
    call!(open, function_release(function));
    call!(open, buffer_release(buffer));
}

#[test]
fn a_released_stream_has_ended_what_was_submitted() {
    for flags in [0, SOFT_WILL_HELP] {
        let open = Open::new();
        let chunk = chunk(&[]);
        let contexts: Vec<Context> = (0..50).map(|_| Context::new(true)).collect();
        for context in &contexts {
            open.submit(&chunk, context, flags);
        }
        drop(open);
        for context in &contexts {
            assert_eq!(context.ended().expect("it has ended").outcome, SOFT_OK);
        }
    }
}

#[test]
fn a_stream_may_be_released_in_a_callback_of_its_own() {
    struct Last {
        open: Mutex<Option<Open>>,
    }
    unsafe extern "C" fn let_go(context: *mut c_void, _: *const soft_result) {
        // SAFETY: the context below, which outlives the call.
        let last = unsafe { &*context.cast::<Last>() };
        let open = last.open.lock().expect("no panic").take();
        drop(open);
    }
    for helps in [false, true] {
        let open = Open::new();
        let (stream, table) = (open.stream, open.table);
        let last = Last {
            open: Mutex::new(Some(open)),
        };
        let submission = soft_submission {
            context: ptr::from_ref(&last).cast_mut().cast(),
            complete: Some(let_go),
            ..Default::default()
        };
        let flags = if helps { SOFT_WILL_HELP } else { 0 };
        // SAFETY: the stream is released by the callback at the earliest, and kept by the one that helps.
        unsafe {
            let ticket = table.stream_submit.expect("full")(stream, &submission, flags);
            if helps {
                table.stream_help.expect("full")(stream, ticket);
            }
        }
        while last.open.lock().expect("no panic").is_some() {
            thread::yield_now();
        }
    }
}

#[test]
fn threads_that_help_and_the_streams_own_run_each_once() {
    let open = Open::new();
    let submitting = Mutex::new(()); // one thread at a time, as the device sees to
    let ran = Mutex::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (open, submitting, ran) = (&open, &submitting, &ran);
            scope.spawn(move || {
                let chunk = chunk(&[]);
                for round in 0..500 {
                    let context = Context::new(true);
                    let flags = if (round + thread) % 3 == 0 {
                        0
                    } else {
                        SOFT_WILL_HELP
                    };
                    let guard = submitting.lock().expect("no panic");
                    let ticket = open.submit(&chunk, &context, flags);
                    drop(guard);
                    if flags == SOFT_WILL_HELP {
                        call!(open, stream_help(open.stream, ticket));
                    }
                    assert_eq!(context.wait().outcome, SOFT_OK);
                    *ran.lock().expect("no panic") += 1;
                }
            });
        }
    });
    assert_eq!(ran.into_inner().expect("no panic"), 2000);
}

#[test]
fn a_kernel_that_is_not_there_is_an_error() {
    let open = Open::new();
    let own = crate::msl::builtin::own_sources().find(|own| own.family == "rope");
    let source = own.expect("a family of ours").text();
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let (start, length) = (source.as_ptr().cast::<c_char>(), source.len());
    let compiled = call!(
        open,
        module_create(open.handle, start, length, &mut module, ptr::null_mut())
    );
    assert_eq!(compiled, SOFT_OK);
    let (name, mut text) = (CString::new("none").expect("no NUL"), ptr::null_mut());
    let made = call!(
        open,
        function_create(
            module,
            name.as_ptr(),
            ptr::null(),
            0,
            &mut function,
            &mut text
        )
    );
    assert_eq!(made, SOFT_INVALID);
    // SAFETY: a text from malloc, freed once.
    unsafe {
        assert!(CStr::from_ptr(text).to_string_lossy().contains("none"));
        libc::free(text.cast());
    }
    assert!(call!(open, module_function_name(module, 1)).is_null());
    call!(open, module_release(module));
}
