//! The C table of a small backend: memory of one byte per byte, kernels by name, a thread per stream.

use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use super::*;

struct Small {
    buffers: AtomicU64,
}

struct Memory {
    backend: Arc<Small>,
    /// Its address stays, for it never grows.
    bytes: Mutex<Vec<u8>>,
    storage: Storage,
}

impl Buffer for Memory {
    fn address(&self) -> u64 {
        self.bytes.lock().expect("no panic").as_ptr() as u64
    }

    fn contents(&self) -> Option<NonNull<u8>> {
        let start = NonNull::new(self.bytes.lock().expect("no panic").as_mut_ptr());
        start.filter(|_| self.storage == Storage::Shared)
    }

    fn write_weights(
        &self,
        matrix: &Matrix,
        first: u64,
        count: u64,
        rows: &[u8],
    ) -> Result<(), Fault> {
        assert_eq!(rows.len() as u64, count * matrix.width);
        let start = (matrix.offset + first * matrix.width) as usize;
        self.bytes.lock().expect("no panic")[start..start + rows.len()].copy_from_slice(rows);
        Ok(())
    }

    fn read_weights(
        &self,
        matrix: &Matrix,
        first: u64,
        _count: u64,
        rows: &mut [u8],
    ) -> Result<(), Fault> {
        let start = (matrix.offset + first * matrix.width) as usize;
        rows.copy_from_slice(&self.bytes.lock().expect("no panic")[start..start + rows.len()]);
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.backend.buffers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One kernel, by its name.
struct Kernel(CString, Arc<Vec<CString>>);

struct Queue {
    sender: Mutex<Option<Sender<Submission<Small>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    tickets: AtomicU64,
}

impl Backend for Small {
    type Buffer = Memory;
    type Module = Vec<CString>;
    type Function = Kernel;
    type Stream = Queue;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: String::from("sm\0all"),
            memory: 1 << 20,
            working_set: 1 << 19,
            max_buffer_length: 1 << 18,
            page_size: 4096,
            max_threads_per_threadgroup: 64,
            max_threadgroup_memory: 1024,
            simd_width: 32,
            cores: 7,
            unified: true,
            imports: false,
            packs_weights: true,
            textures: false,
            indirect: false,
        }
    }

    fn report(&self) -> String {
        String::from("processor: small\n")
    }

    fn create_buffer(self: &Arc<Self>, length: u64, storage: Storage) -> Result<Memory, Fault> {
        if length > 1 << 18 {
            return Err(Fault::OutOfMemory(format!("no {length} bytes")));
        }
        self.buffers.fetch_add(1, Ordering::Relaxed);
        Ok(Memory {
            backend: Arc::clone(self),
            bytes: Mutex::new(vec![0; length as usize]),
            storage,
        })
    }

    fn create_module(self: &Arc<Self>, source: &[u8]) -> Result<Vec<CString>, Fault> {
        let text =
            std::str::from_utf8(source).map_err(|error| Fault::Invalid(error.to_string()))?;
        Ok(text
            .split_whitespace()
            .map(|name| CString::new(name).expect("no NUL"))
            .collect())
    }

    fn function_name(module: &Vec<CString>, index: usize) -> Option<&CStr> {
        module.get(index).map(CString::as_c_str)
    }

    fn create_function(
        module: &Arc<Vec<CString>>,
        name: &CStr,
        constants: &[Setting],
    ) -> Result<Kernel, Fault> {
        match module.iter().find(|known| known.as_c_str() == name) {
            Some(_) if name == c"needs_constants" && constants.is_empty() => {
                Err(Fault::Invalid(String::from("constant 0 has no value")))
            }
            Some(name) => Ok(Kernel(name.clone(), Arc::clone(module))),
            None => panic!("planted {name:?}"),
        }
    }

    fn describe_function(function: &Kernel) -> FunctionInfo {
        assert!(function.1.contains(&function.0));
        FunctionInfo {
            max_total_threads_per_threadgroup: 64,
            thread_execution_width: 32,
            static_threadgroup_memory: 16,
        }
    }

    fn create_stream(self: &Arc<Self>) -> Result<Queue, Fault> {
        let (sender, receiver) = channel::<Submission<Small>>();
        let thread = std::thread::spawn(move || {
            for mut submission in receiver {
                let run =
                    |submission: &Submission<Small>| submission.commands().try_for_each(execute);
                let result = match submission.begin() {
                    true => guarded(|| run(&submission)),
                    false => Ok(()),
                };
                submission.complete(result, Times { start: 1, end: 2 });
            }
        });
        Ok(Queue {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            tickets: AtomicU64::new(0),
        })
    }
}

fn execute(command: Command<Small>) -> Result<(), Fault> {
    let lock = |memory: &Memory| memory.bytes.lock().expect("no panic").as_mut_ptr();
    match command.action {
        Action::Copy {
            source,
            source_offset,
            destination,
            destination_offset,
            length,
        } => {
            // SAFETY: backend.h: ranges inside the buffers that do not overlap.
            unsafe {
                let source = lock(source).add(source_offset as usize);
                let destination = lock(destination).add(destination_offset as usize);
                destination.copy_from_nonoverlapping(source, length as usize);
            }
            Ok(())
        }
        Action::Fill {
            destination,
            offset,
            length,
            value,
        } => {
            let range = offset as usize..(offset + length) as usize;
            destination.bytes.lock().expect("no panic")[range].fill(value);
            Ok(())
        }
        Action::Dispatch(dispatch) => match dispatch.function().0.to_str().expect("ASCII") {
            "add" => {
                let Binding::Bytes(&[amount]) = dispatch.binding(2) else {
                    return Err(Fault::Invalid(String::from("no amount at 2")));
                };
                assert!(matches!(dispatch.binding(1), Binding::Nothing));
                assert!(matches!(dispatch.binding(7), Binding::Nothing));
                assert_eq!(dispatch.threadgroup_memory(), [0, 32]);
                assert_eq!(
                    (dispatch.grid(), dispatch.threadgroup()),
                    ([4, 1, 1], [2, 1, 1])
                );
                let Binding::Buffer {
                    buffer,
                    offset,
                    length,
                } = dispatch.binding(0)
                else {
                    return Err(Fault::Invalid(String::from("no buffer at 0")));
                };
                let mut bytes = buffer.bytes.lock().expect("no panic");
                let range = offset as usize..(offset + length) as usize;
                bytes[range].iter_mut().for_each(|byte| *byte += amount);
                Ok(())
            }
            "fault" => Err(Fault::OutOfBounds(String::from("kernel fault: too far"))),
            "lost" => Err(Fault::DeviceLost(String::from("it fell off the bus"))),
            name => panic!("planted {name}"),
        },
    }
}

impl Stream<Small> for Queue {
    fn submit(&self, submission: Submission<Small>, _caller_helps: bool) -> u64 {
        let sender = self.sender.lock().expect("no panic");
        sender
            .as_ref()
            .expect("open")
            .send(submission)
            .unwrap_or_else(|_| panic!("the thread is there"));
        self.tickets.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn close(&self) {
        self.sender.lock().expect("no panic").take();
        let thread = self.thread.lock().expect("no panic").take();
        thread
            .expect("closed once")
            .join()
            .expect("it catches panics");
    }
}

/// Calls a function of the table.
macro_rules! call {
    ($table:expr, $name:ident($($argument:expr),*)) => {
        // SAFETY: live handles of the backend that the table is of; other pointers are live or NULL.
        unsafe { $table.$name.expect("the table is full")($($argument),*) }
    };
}

/// An open backend.
struct Open {
    handle: *mut soft_backend,
    table: &'static soft_backend_table,
}

impl Open {
    fn new() -> Open {
        let (handle, table) = open(Small {
            buffers: AtomicU64::new(0),
        })
        .expect("it opens");
        assert_eq!(
            (table.size, table.version),
            (size_of::<soft_backend_table>(), SOFT_BACKEND_VERSION)
        );
        Open { handle, table }
    }

    fn buffer(&self, length: u64, storage: soft_storage) -> *mut soft_buffer {
        let mut buffer = ptr::null_mut();
        let outcome = call!(
            self.table,
            buffer_create(self.handle, length, storage, &mut buffer, ptr::null_mut())
        );
        assert_eq!(outcome, SOFT_OK);
        buffer
    }

    fn module(&self, names: &str) -> *mut soft_module {
        let (mut module, text) = (ptr::null_mut(), names.as_ptr().cast());
        let created = call!(
            self.table,
            module_create(self.handle, text, names.len(), &mut module, ptr::null_mut())
        );
        assert_eq!(created, SOFT_OK);
        module
    }

    fn function(&self, name: &CStr) -> *mut soft_function {
        let module = self.module(name.to_str().expect("ASCII"));
        let mut function = ptr::null_mut();
        let (name, none) = (name.as_ptr(), ptr::null());
        let made = call!(
            self.table,
            function_create(module, name, none, 0, &mut function, ptr::null_mut())
        );
        assert_eq!(made, SOFT_OK);
        call!(self.table, module_release(module));
        function
    }

    /// Runs lists of commands in one stream and returns what became of each.
    fn run(&self, lists: &[&[soft_command]], begins: bool) -> Vec<Ended> {
        let mut stream = ptr::null_mut();
        assert_eq!(
            call!(
                self.table,
                stream_create(self.handle, &mut stream, ptr::null_mut())
            ),
            SOFT_OK
        );
        let chunks: Vec<soft_chunk> = lists.iter().map(|list| chunk(list)).collect();
        let ended: Vec<_> = lists
            .iter()
            .map(|_| Context {
                begins,
                ended: RefCell::default(),
            })
            .collect();
        let mut last = 0;
        for (chunk, context) in chunks.iter().zip(&ended) {
            let submission = soft_submission {
                commands: chunk,
                context: ptr::from_ref(context).cast_mut().cast(),
                begin: Some(begin),
                complete: Some(complete),
            };
            let ticket = call!(
                self.table,
                stream_submit(stream, &submission, SOFT_WILL_HELP)
            );
            assert!(ticket > last);
            last = ticket;
        }
        call!(self.table, stream_help(stream, last));
        call!(self.table, stream_release(stream));
        ended
            .into_iter()
            .map(|context| context.ended.into_inner().expect("it was completed"))
            .collect()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        call!(self.table, release(self.handle));
    }
}

fn chunk(commands: &[soft_command]) -> soft_chunk {
    let mut chunk = soft_chunk {
        count: commands.len(),
        ..Default::default()
    };
    chunk.commands[..commands.len()].copy_from_slice(commands);
    chunk
}

struct Context {
    begins: bool,
    ended: RefCell<Option<Ended>>,
}

#[derive(Debug, PartialEq)]
struct Ended {
    outcome: soft_outcome,
    text: Option<String>,
}

unsafe extern "C" fn begin(context: *mut c_void) -> bool {
    // SAFETY: the context of `run`, which outlives the stream.
    unsafe { &*context.cast::<Context>() }.begins
}

unsafe extern "C" fn complete(context: *mut c_void, result: *const soft_result) {
    // SAFETY: as above; a result whose text is NULL or lives until this returns.
    unsafe {
        let result = &*result;
        let text = (!result.text.is_null())
            .then(|| CStr::from_ptr(result.text).to_string_lossy().into_owned());
        let before = (*context.cast::<Context>()).ended.replace(Some(Ended {
            outcome: result.outcome,
            text,
        }));
        assert_eq!(before, None, "completed twice");
    }
}

/// Takes the text of an error.
fn take(text: *mut c_char) -> String {
    assert!(!text.is_null(), "an error has a text");
    // SAFETY: from malloc, as backend.h says, and freed once.
    unsafe {
        let taken = CStr::from_ptr(text).to_string_lossy().into_owned();
        libc::free(text.cast());
        taken
    }
}

fn fill(destination: *mut soft_buffer, offset: u64, length: u64, value: u8) -> soft_command {
    let mut command = soft_command {
        kind: SOFT_FILL,
        ..Default::default()
    };
    command.__bindgen_anon_1.fill = soft_fill {
        destination,
        offset,
        length,
        value,
    };
    command
}

fn dispatch(
    function: *const soft_function,
    bindings: &[soft_binding],
    memory: &[u32],
) -> soft_command {
    let mut command = soft_command {
        kind: SOFT_DISPATCH,
        ..Default::default()
    };
    command.__bindgen_anon_1.dispatch = soft_dispatch {
        function,
        bindings: bindings.as_ptr(),
        threadgroup_memory: memory.as_ptr(),
        binding_count: bindings.len() as u32,
        threadgroup_memory_count: memory.len() as u32,
        grid: [4, 1, 1],
        threadgroup: [2, 1, 1],
        threads: true,
        ..Default::default()
    };
    command
}

fn contents<'a>(open: &Open, buffer: *mut soft_buffer, length: usize) -> &'a [u8] {
    let contents = call!(open.table, buffer_contents(buffer));
    assert_eq!(call!(open.table, buffer_address(buffer)), contents as u64);
    // SAFETY: that many bytes, which nothing writes while the test looks.
    unsafe { slice::from_raw_parts(contents.cast(), length) }
}

#[test]
fn a_list_runs_in_its_order() {
    let open = Open::new();
    let buffer = open.buffer(8, SOFT_SHARED);
    let hidden = open.buffer(8, SOFT_PRIVATE);
    assert!(call!(open.table, buffer_contents(hidden)).is_null());
    let add = open.function(c"add");
    let amount = 3u8;
    let nothing = soft_binding::default();
    let bound = soft_binding {
        buffer,
        offset: 2,
        length: 6,
        ..Default::default()
    };
    let bytes = soft_binding {
        bytes: (&raw const amount).cast(),
        length: 1,
        ..Default::default()
    };
    let bindings = [bound, nothing, bytes];
    let mut copy = soft_command {
        kind: SOFT_COPY,
        ..Default::default()
    };
    copy.__bindgen_anon_1.copy = soft_copy {
        source: hidden,
        destination: buffer,
        source_offset: 4,
        destination_offset: 1,
        length: 2,
    };
    let first = [fill(hidden, 0, 8, 40), copy];
    let second = [dispatch(add, &bindings, &[0, 32])];
    let ended = open.run(&[&first, &second, &[]], true);
    assert!(ended.iter().all(|ended| *ended
        == Ended {
            outcome: SOFT_OK,
            text: None
        }));
    assert_eq!(contents(&open, buffer, 8), [0, 40, 43, 3, 3, 3, 3, 3]);
    call!(open.table, function_release(add));
    call!(open.table, buffer_release(buffer));
    call!(open.table, buffer_release(hidden));
}

#[test]
fn more_commands_than_a_chunk_holds() {
    let open = Open::new();
    let buffer = open.buffer(64, SOFT_SHARED);
    let fills: Vec<soft_command> = (0..64).map(|at| fill(buffer, at, 1, at as u8)).collect();
    let mut chunks = [chunk(&fills[..32]), chunk(&[]), chunk(&fills[32..])];
    chunks[1].next = &raw const chunks[2];
    chunks[0].next = &raw const chunks[1];
    let raw = soft_submission {
        commands: &raw const chunks[0],
        ..Default::default()
    };
    let submission = Submission::<Small> {
        raw,
        begun: false,
        canceled: false,
        backend: PhantomData,
    };
    assert!(submission.may_begin_now());
    assert_eq!(submission.commands().count(), 64);
    submission.commands().try_for_each(execute).expect("fills");
    assert!(contents(&open, buffer, 64).iter().copied().eq(0..64));
    call!(open.table, buffer_release(buffer));
}

#[test]
fn failures_are_typed_and_the_next_list_runs() {
    let open = Open::new();
    let buffer = open.buffer(4, SOFT_SHARED);
    for (name, outcome, text) in [
        (c"fault", SOFT_PAGE_FAULT, "kernel fault: too far"),
        (c"lost", SOFT_DEVICE_LOST, "it fell off the bus"),
        (
            c"other",
            SOFT_INTERNAL,
            "a bug in the software device: planted other",
        ),
    ] {
        let function = open.function(name);
        let failing = [dispatch(function, &[], &[]), fill(buffer, 0, 4, 9)];
        let ended = open.run(&[&failing, &[fill(buffer, 2, 1, 5)]], true);
        let text = Some(String::from(text));
        assert_eq!(ended[0], Ended { outcome, text });
        assert_eq!(ended[1].outcome, SOFT_OK);
        assert_eq!(contents(&open, buffer, 4), [0, 0, 5, 0]);
        call!(open.table, function_release(function));
    }
    let canceled = open.run(&[&[fill(buffer, 0, 4, 9)]], false);
    assert_eq!(
        canceled[0],
        Ended {
            outcome: SOFT_CANCELED,
            text: None
        }
    );
    assert_eq!(contents(&open, buffer, 4), [0, 0, 5, 0]);
    call!(open.table, buffer_release(buffer));
}

#[test]
fn a_lost_submission_is_reported() {
    let context = Context {
        begins: true,
        ended: RefCell::default(),
    };
    let raw = soft_submission {
        context: (&raw const context).cast_mut().cast(),
        begin: Some(begin),
        complete: Some(complete),
        ..Default::default()
    };
    let submission = Submission::<Small> {
        raw,
        begun: false,
        canceled: false,
        backend: PhantomData,
    };
    assert!(!submission.may_begin_now());
    drop(submission);
    let ended = context.ended.into_inner().expect("it was completed");
    assert_eq!(ended.outcome, SOFT_INTERNAL);
    assert!(
        ended
            .text
            .is_some_and(|text| text.contains("lost a submission"))
    );
}

#[test]
fn errors_have_an_outcome_and_a_text() {
    let open = Open::new();
    let (mut text, mut buffer) = (ptr::null_mut(), ptr::null_mut());
    let create = |length, storage, buffer: &mut *mut soft_buffer, text: &mut *mut c_char| {
        call!(
            open.table,
            buffer_create(open.handle, length, storage, buffer, text)
        )
    };
    assert_eq!(
        create(1 << 30, SOFT_SHARED, &mut buffer, &mut text),
        SOFT_OUT_OF_MEMORY
    );
    assert!(buffer.is_null() && take(text).contains("1073741824"));
    assert_eq!(create(1, 7, &mut buffer, &mut text), SOFT_INVALID);
    assert!(take(text).contains("storage 7"));
    let mut page = [0u8; 16];
    let imported = call!(
        open.table,
        buffer_import(
            open.handle,
            page.as_mut_ptr().cast(),
            16,
            true,
            &mut buffer,
            &mut text
        )
    );
    assert_eq!(imported, SOFT_UNSUPPORTED);
    assert!(take(text).contains("memory of the host's"));
    let null = ptr::null_mut();
    let made = call!(
        open.table,
        buffer_create(ptr::null_mut(), 1, SOFT_SHARED, &mut buffer, &mut text)
    );
    assert_eq!(made, SOFT_INVALID);
    assert!(take(text).contains("NULL"));

    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let compile = |source: &[u8], module: &mut *mut soft_module, text: &mut *mut c_char| {
        call!(
            open.table,
            module_create(
                open.handle,
                source.as_ptr().cast(),
                source.len(),
                module,
                text
            )
        )
    };
    assert_eq!(compile(b"\xff", &mut module, &mut text), SOFT_INVALID);
    assert!(module.is_null() && take(text).contains("utf-8"));
    assert_eq!(
        compile(b"needs_constants two", &mut module, &mut text),
        SOFT_OK
    );
    let specialize = |name: &CStr, constants: &[soft_constant], function: &mut _, text: &mut _| {
        let (constants, count) = (constants.as_ptr(), constants.len());
        call!(
            open.table,
            function_create(module, name.as_ptr(), constants, count, function, text)
        )
    };
    assert_eq!(
        specialize(c"needs_constants", &[], &mut function, &mut text),
        SOFT_INVALID
    );
    assert!(take(text).contains("no value"));
    assert_eq!(
        specialize(c"unknown", &[], &mut function, &mut text),
        SOFT_INTERNAL
    );
    assert!(take(text).contains("planted \"unknown\""));
    assert_eq!(
        specialize(
            c"needs_constants",
            &[Default::default()],
            &mut function,
            &mut text
        ),
        SOFT_OK
    );
    let mut info = soft_function_info::default();
    call!(open.table, function_describe(function, &mut info));
    assert_eq!(
        (info.thread_execution_width, info.static_threadgroup_memory),
        (32, 16)
    );
    let name = |index| call!(open.table, module_function_name(module, index));
    // SAFETY: texts of a live module.
    assert_eq!(unsafe { CStr::from_ptr(name(1)) }, c"two");
    assert!(name(2).is_null());
    call!(open.table, function_release(function));
    call!(open.table, module_release(module));

    // Nothing is allowed where nothing is released or described.
    call!(open.table, function_release(ptr::null_mut()));
    call!(open.table, module_release(ptr::null_mut()));
    call!(open.table, buffer_release(null));
    call!(open.table, function_describe(ptr::null(), ptr::null_mut()));
}

#[test]
fn weights_go_by_rows() {
    let open = Open::new();
    let buffer = open.buffer(256, SOFT_WEIGHTS);
    assert!(call!(open.table, buffer_contents(buffer)).is_null());
    let matrix = soft_matrix {
        offset: 64,
        rows: 40,
        width: 2,
        dtype: 0,
    };
    let mut text = ptr::null_mut();
    let rows: Vec<u8> = (0..80).collect();
    let write = |first, count: u64, text: &mut *mut c_char| {
        let rows = rows[first as usize * 2..].as_ptr().cast();
        call!(
            open.table,
            weights_write(buffer, &matrix, first, count, rows, count * 2, text)
        )
    };
    assert_eq!(write(0, 32, &mut text), SOFT_OK);
    assert_eq!(write(32, 8, &mut text), SOFT_OK);
    assert_eq!(write(32, 9, &mut text), SOFT_INVALID);
    assert!(take(text).contains("9 rows from row 32"));
    let mut read = [0u8; 20];
    let place = read.as_mut_ptr().cast();
    assert_eq!(
        call!(
            open.table,
            weights_read(buffer, &matrix, 30, 10, place, 20, &mut text)
        ),
        SOFT_OK
    );
    assert!(read.iter().copied().eq(60..80));
    call!(open.table, buffer_release(buffer));
}

#[test]
fn what_it_is_and_has() {
    let open = Open::new();
    let mut capabilities = soft_capabilities {
        size: size_of::<soft_capabilities>(),
        ..Default::default()
    };
    call!(open.table, capabilities(open.handle, &mut capabilities));
    // SAFETY: a text that lives as long as the backend.
    let name = unsafe { CStr::from_ptr(capabilities.name) };
    assert_eq!(name, c"small", "a text loses its zeros");
    assert_eq!(capabilities.flags, SOFT_UNIFIED | SOFT_PACKS_WEIGHTS);
    assert_eq!(capabilities.simd_width, 32);
    let mut short = soft_capabilities {
        size: std::mem::offset_of!(soft_capabilities, working_set),
        ..Default::default()
    };
    call!(open.table, capabilities(open.handle, &mut short));
    assert_eq!(
        (short.memory, short.working_set),
        (1 << 20, 0),
        "a shorter struct is not overrun"
    );
    assert_eq!(
        take(call!(open.table, report(open.handle))),
        "processor: small\n"
    );
    assert_eq!(call!(open.table, wait_budget(open.handle)), 0);
}
