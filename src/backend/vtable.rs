//! What a backend is in Rust, and the C table of `native/softmetal/backend.h` made of it.
//!
//! A type that implements [`Backend`] needs no unsafe code to be one: handles become references here, lists of commands
//! become iterators, panics and errors become outcomes. What it does with the memory behind its buffers is its own.

use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_void};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::fault::Fault;
use super::ffi::backend::*;
use crate::msl::Setting;
use crate::tables::dtypes;

/// A device that executes lists of commands.
pub trait Backend: Sized + Send + Sync + 'static {
    type Buffer: Buffer;
    /// A compiled source.
    type Module: Send + Sync + 'static;
    /// One kernel of a module.
    type Function: Send + Sync + 'static;
    type Stream: Stream<Self>;

    /// Asked for once, when the backend is opened.
    fn capabilities(&self) -> Capabilities;
    /// What it found on this machine, in lines of `key: value`.
    fn report(&self) -> String;
    /// For how long a waiting thread may spin now before it sleeps.
    fn wait_budget(&self) -> Duration {
        Duration::ZERO
    }

    /// Zeroed memory.
    fn create_buffer(
        self: &Arc<Self>,
        length: u64,
        storage: Storage,
    ) -> Result<Self::Buffer, Fault>;
    /// A buffer over memory of the host's, which outlives it.
    fn import_buffer(self: &Arc<Self>, _pages: HostPages) -> Result<Self::Buffer, Fault> {
        Err(unsupported("memory of the host's"))
    }

    /// Compiles Metal source. [`Fault::Invalid`]: the source is wrong; [`Fault::Unsupported`]: nothing here compiles
    /// it.
    fn create_module(self: &Arc<Self>, source: &[u8]) -> Result<Self::Module, Fault>;
    /// The name of kernel `index`, or `None` past the last one.
    fn function_name(module: &Self::Module, index: usize) -> Option<&CStr>;
    fn create_function(
        module: &Arc<Self::Module>,
        name: &CStr,
        constants: &[Setting],
    ) -> Result<Self::Function, Fault>;
    fn describe_function(function: &Self::Function) -> FunctionInfo;
    /// What the kernel wants bound; `None`: the backend does not know.
    fn parameters(_function: &Self::Function) -> Option<Vec<Parameter>> {
        None
    }

    fn create_stream(self: &Arc<Self>) -> Result<Self::Stream, Fault>;
}

/// Memory of a device.
pub trait Buffer: Send + Sync + 'static {
    fn address(&self) -> u64;
    /// Where the host reads and writes it, if it is shared.
    fn contents(&self) -> Option<NonNull<u8>>;
    /// A hint, before the first touch: the buffer is written as a whole and read often.
    fn expect_reads(&self) {}
    /// Gives the memory back with its contents and keeps the address. The next use finds zeroes.
    fn discard(&self) -> Result<(), Fault> {
        Err(unsupported("memory that is given back and kept"))
    }
    /// Writes rows of a matrix from row `first`, in the plain layout: `weights_write` of `backend.h`. Called for
    /// buffers of [`Storage::Weights`] alone, in the order of the rows. Here a backend packs: it keeps in the buffer
    /// which matrices there are and how they lie, and finds them again when a dispatch binds the buffer, by the offset
    /// of the plain layout ([`Binding::Buffer`]). One that packs says so in [`Capabilities::packs_weights`].
    fn write_weights(
        &self,
        matrix: &Matrix,
        first: u64,
        count: u64,
        rows: &[u8],
    ) -> Result<(), Fault>;
    /// Reads rows of a matrix from row `first` back in the plain layout.
    fn read_weights(
        &self,
        matrix: &Matrix,
        first: u64,
        count: u64,
        rows: &mut [u8],
    ) -> Result<(), Fault>;
}

/// Executes submissions in their order.
pub trait Stream<B: Backend>: Send + Sync + 'static {
    /// Takes a submission over and returns its ticket, which is greater than those before. Completes nothing by itself:
    /// neither `begin`, unless [`Submission::may_begin_now`], nor `complete` may be called before this returns.
    /// `caller_helps`: the calling thread calls [`Stream::help`] next.
    fn submit(&self, submission: Submission<B>, caller_helps: bool) -> u64;
    /// Gives the device what was submitted, as far as that takes no waiting. Here `begin` may be called.
    fn start(&self) {}
    /// Executes or completes submissions up to `ticket` on the calling thread, which waits without a timeout. May
    /// return earlier.
    fn help(&self, _ticket: u64) {}
    /// Nothing is submitted any more. Waits for what was, unless it is called in a callback of this stream. The value
    /// is dropped when no thread uses it any more.
    fn close(&self);
}

/// What a backend has and can do; fixed while it is open.
#[derive(Clone, Debug)]
pub struct Capabilities {
    pub name: String,
    /// Of the device, in bytes.
    pub memory: u64,
    /// That buffers in use should not exceed, in bytes.
    pub working_set: u64,
    /// In bytes.
    pub max_buffer_length: u64,
    /// Of the host, in bytes.
    pub page_size: u64,
    pub max_threads_per_threadgroup: u32,
    /// In bytes.
    pub max_threadgroup_memory: u32,
    pub simd_width: u32,
    /// Each of which holds several threadgroups at a time; 0: that is not how kernels are executed.
    pub cores: u32,
    /// Shared memory is the device's own: nothing is copied or migrated.
    pub unified: bool,
    /// [`Backend::import_buffer`] takes the host's memory and read-only mappings of files.
    pub imports: bool,
    /// Weights may be kept in a layout of the backend's own.
    pub packs_weights: bool,
    /// Kernels may take textures and samplers.
    pub textures: bool,
    /// Dispatches may have their grid in a buffer.
    pub indirect: bool,
}

/// What a kernel is like.
#[derive(Clone, Copy, Debug)]
pub struct FunctionInfo {
    pub max_total_threads_per_threadgroup: u32,
    pub thread_execution_width: u32,
    /// In bytes.
    pub static_threadgroup_memory: u32,
}

/// What a kernel wants bound at an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub index: u32,
    pub kind: ParameterKind,
    /// The least bytes.
    pub size: u64,
    /// Of the address.
    pub alignment: u64,
    /// Whether the kernel may read and write there, by the type of its parameter.
    pub readable: bool,
    pub writable: bool,
    /// Of a texture: its MTLTextureType, and what its components are taken for.
    pub texture_type: u32,
    pub value: soft_value,
}

/// What a parameter is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A buffer or bytes.
    Buffer,
    /// Threadgroup memory of a length.
    Threadgroup,
    Texture,
    Sampler,
}

/// Who reaches a buffer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The host, too, while no submission in flight uses it.
    Shared,
    /// The device alone.
    Private,
    /// The device alone. Written by [`Buffer::write_weights`] before its first use, and never changed after.
    Weights,
}

/// A matrix in a buffer of weights, in the plain layout: rows without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Of its first row, in bytes.
    pub offset: u64,
    pub rows: u64,
    pub width: u64,
    /// An `iron_dtype`.
    pub dtype: u32,
}

impl Matrix {
    /// The bytes of a row.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for a type that is none, or a width that is not whole blocks of it.
    pub fn row_bytes(&self) -> Result<u64, Fault> {
        macro_rules! sizes {
            ($($variant:ident { block $block:ident, name $name:literal, constant $constant:ident,
                ggml $ggml:ident = $number:literal, $elements:literal in $bytes:literal, aligned $alignment:literal,
                scale $scale:ident, $doc:literal })*) => {
                match self.dtype {
                    $(crate::ffi::$constant => Some(($elements, $bytes)),)*
                    _ => None,
                }
            };
        }
        let size: Option<(u64, u64)> = dtypes!(sizes);
        let whole = size.filter(|(elements, _)| self.width.is_multiple_of(*elements));
        let bytes = whole.and_then(|(elements, bytes)| (self.width / elements).checked_mul(bytes));
        bytes.ok_or_else(|| {
            let Matrix { width, dtype, .. } = self;
            Fault::Invalid(format!("type {dtype} has no rows of {width} elements"))
        })
    }

    /// Where `count` rows from row `first` lie in the plain layout of a buffer of `length` bytes.
    ///
    /// # Errors
    /// [`Fault::OutOfBounds`] when they are not all of the matrix and the buffer.
    pub fn place(&self, first: u64, count: u64, length: u64) -> Result<Range<u64>, Fault> {
        let row = self.row_bytes()?;
        let place = || {
            let start = self.offset.checked_add(first.checked_mul(row)?)?;
            let end = start.checked_add(count.checked_mul(row)?)?;
            let rows = first.checked_add(count)?;
            (end <= length && rows <= self.rows).then_some(start..end)
        };
        place().ok_or_else(|| {
            Fault::OutOfBounds(format!(
                "{count} rows of {row} bytes from row {first} on are not in this buffer"
            ))
        })
    }
}

/// Whole pages of the host's, which outlive the buffer that is made of them.
#[derive(Debug)]
pub struct HostPages {
    pub pointer: NonNull<u8>,
    pub length: u64,
    pub read_only: bool,
}

/// When commands ran, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub start: u64,
    pub end: u64,
}

fn unsupported(what: &str) -> Fault {
    Fault::Unsupported(format!("this backend has no {what}"))
}

/// A list of commands that is to be executed. One that is dropped is reported as a bug of the backend's.
pub struct Submission<B: Backend> {
    raw: soft_submission,
    begun: bool,
    canceled: bool,
    backend: PhantomData<fn(&B)>,
}

// SAFETY: backend.h lets any thread call the callbacks and read the commands until `complete`. What they refer to are a
// backend's buffers and functions, which are Sync, and bytes that nobody writes.
unsafe impl<B: Backend> Send for Submission<B> {}
// SAFETY: as above; a shared submission only reads the commands.
unsafe impl<B: Backend> Sync for Submission<B> {}

impl<B: Backend> Submission<B> {
    /// Whether nothing has to be asked before the first command runs: it may run even inside [`Stream::submit`].
    pub fn may_begin_now(&self) -> bool {
        self.begun || self.raw.begin.is_none()
    }

    /// Asks whether the commands may run. Called before the first one does, and after the submission in front has
    /// begun. If not, none runs, and [`Submission::complete`] follows, whose result does not matter.
    #[must_use]
    pub fn begin(&mut self) -> bool {
        if !self.begun {
            self.begun = true;
            let context = self.raw.context;
            // SAFETY: backend.h: called once, with the submission's context.
            self.canceled = self
                .raw
                .begin
                .is_some_and(|begin| unsafe { !begin(context) });
        }
        !self.canceled
    }

    /// Says how the commands ended, after the submission in front has been completed. What they refer to is gone then.
    pub fn complete(mut self, result: Result<(), Fault>, times: Times) {
        self.finish(result, times);
    }

    fn finish(&mut self, result: Result<(), Fault>, times: Times) {
        let Some(complete) = self.raw.complete.take() else {
            return;
        };
        let (outcome, text) = match result {
            _ if self.canceled => (SOFT_CANCELED, None),
            Ok(()) => (SOFT_OK, None),
            Err(fault) => {
                let (outcome, text) = outcome(fault);
                (outcome, Some(c_string(text)))
            }
        };
        let result = soft_result {
            outcome,
            text: text.as_deref().map_or(ptr::null(), CStr::as_ptr),
            start: times.start,
            end: times.end,
        };
        // SAFETY: backend.h: called once, with the submission's context and a result that lives until it returns.
        unsafe { complete(self.raw.context, &result) }
    }

    /// The commands in their order.
    pub fn commands(&self) -> Commands<'_, B> {
        Commands {
            // SAFETY: backend.h: NULL or a chunk, valid until `complete`, which takes the submission.
            chunk: unsafe { self.raw.commands.as_ref() },
            index: 0,
            backend: PhantomData,
        }
    }
}

impl<B: Backend> Drop for Submission<B> {
    fn drop(&mut self) {
        let lost = Fault::Internal(String::from("the backend lost a submission"));
        self.finish(Err(lost), Times::default());
    }
}

/// The commands of a submission.
pub struct Commands<'a, B: Backend> {
    chunk: Option<&'a soft_chunk>,
    index: usize,
    backend: PhantomData<&'a B>,
}

impl<'a, B: Backend> Iterator for Commands<'a, B> {
    type Item = Command<'a, B>;

    fn next(&mut self) -> Option<Command<'a, B>> {
        loop {
            let chunk = self.chunk?;
            if let Some(raw) = chunk.commands[..chunk.count].get(self.index) {
                self.index += 1;
                // SAFETY: a command of a submission whose buffers and functions are of this backend.
                return Some(unsafe { Command::new(raw) });
            }
            self.index = 0;
            // SAFETY: backend.h: NULL or the next chunk, as valid as this one.
            self.chunk = unsafe { chunk.next.as_ref() };
        }
    }
}

/// One command.
pub struct Command<'a, B: Backend> {
    /// It may overlap the command before it.
    pub concurrent: bool,
    pub action: Action<'a, B>,
}

/// What a command does. Offsets and lengths are in bytes and inside the buffers.
pub enum Action<'a, B: Backend> {
    Dispatch(Dispatch<'a, B>),
    Copy {
        source: &'a B::Buffer,
        source_offset: u64,
        destination: &'a B::Buffer,
        destination_offset: u64,
        length: u64,
    },
    Fill {
        destination: &'a B::Buffer,
        offset: u64,
        length: u64,
        value: u8,
    },
}

impl<'a, B: Backend> Command<'a, B> {
    /// # Safety
    /// A command of backend.h, of any known kind, that refers to live buffers and functions of `B`.
    unsafe fn new(raw: &'a soft_command) -> Command<'a, B> {
        // SAFETY: the kind says which member of the union was written; the caller's promise for the handles.
        let action = unsafe {
            match raw.kind {
                SOFT_COPY => {
                    let copy = &raw.__bindgen_anon_1.copy;
                    Action::Copy {
                        source: borrow(copy.source),
                        source_offset: copy.source_offset,
                        destination: borrow(copy.destination),
                        destination_offset: copy.destination_offset,
                        length: copy.length,
                    }
                }
                SOFT_FILL => {
                    let fill = &raw.__bindgen_anon_1.fill;
                    Action::Fill {
                        destination: borrow(fill.destination),
                        offset: fill.offset,
                        length: fill.length,
                        value: fill.value,
                    }
                }
                _ => Action::Dispatch(Dispatch {
                    raw: &raw.__bindgen_anon_1.dispatch,
                    backend: PhantomData,
                }),
            }
        };
        Command {
            concurrent: raw.concurrent,
            action,
        }
    }
}

/// A dispatch of one kernel.
pub struct Dispatch<'a, B: Backend> {
    raw: &'a soft_dispatch,
    backend: PhantomData<&'a B>,
}

impl<B: Backend> Clone for Dispatch<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Dispatch<'_, B> {}

impl<'a, B: Backend> Dispatch<'a, B> {
    pub fn function(&self) -> &'a B::Function {
        // SAFETY: a live function of `B`, which a Box of it became.
        unsafe { &*self.raw.function.cast() }
    }

    fn raw_bindings(&self) -> &'a [soft_binding] {
        // SAFETY: backend.h: `binding_count` entries, which live as long as the submission.
        unsafe { slice_of(self.raw.bindings, self.raw.binding_count as usize) }
    }

    /// What is bound, by buffer index.
    pub fn bindings(&self) -> impl ExactSizeIterator<Item = Binding<'a, B>> {
        let bindings = self.raw_bindings().iter();
        // SAFETY: a binding of a submission whose buffers are of this backend.
        bindings.map(|raw| unsafe { Binding::new(raw) })
    }

    /// What is bound at `index`.
    pub fn binding(&self, index: usize) -> Binding<'a, B> {
        match self.raw_bindings().get(index) {
            // SAFETY: as above.
            Some(raw) => unsafe { Binding::new(raw) },
            None => Binding::Nothing,
        }
    }

    /// The texture of each index, with the buffer that it is in; `None` where nothing is bound.
    pub fn textures(
        &self,
    ) -> impl ExactSizeIterator<Item = Option<(&'a soft_texture, &'a B::Buffer)>> {
        // SAFETY: backend.h: `texture_count` entries, which live as long as the submission.
        let textures: &'a [soft_texture] =
            unsafe { slice_of(self.raw.textures, self.raw.texture_count as usize) };
        textures.iter().map(|texture| {
            // SAFETY: backend.h: NULL, or a live buffer of this backend.
            (!texture.buffer.is_null()).then(|| (texture, unsafe { borrow(texture.buffer) }))
        })
    }

    /// The sampler of each index.
    pub fn samplers(&self) -> &'a [soft_sampler] {
        // SAFETY: backend.h: this many entries, which live as long as the submission.
        unsafe { slice_of(self.raw.samplers, self.raw.sampler_count as usize) }
    }

    /// Bytes of threadgroup memory, by threadgroup index.
    pub fn threadgroup_memory(&self) -> &'a [u32] {
        // SAFETY: backend.h: this many entries, which live as long as the submission.
        unsafe {
            slice_of(
                self.raw.threadgroup_memory,
                self.raw.threadgroup_memory_count as usize,
            )
        }
    }

    /// Threadgroups, or threads when [`Dispatch::counts_threads`].
    pub fn grid(&self) -> [u32; 3] {
        self.raw.grid
    }

    /// Where the grid is, instead of [`Dispatch::grid`]: a buffer, and the offset of three `u32` in it.
    pub fn indirect(&self) -> Option<(&'a B::Buffer, u64)> {
        let raw = self.raw;
        // SAFETY: backend.h: NULL, or a live buffer of this backend.
        (!raw.indirect.is_null()).then(|| (unsafe { borrow(raw.indirect) }, raw.indirect_offset))
    }

    /// Threads per threadgroup.
    pub fn threadgroup(&self) -> [u32; 3] {
        self.raw.threadgroup
    }

    /// The last threadgroup of a row may be smaller.
    pub fn counts_threads(&self) -> bool {
        self.raw.threads
    }
}

/// One entry of a dispatch's argument table.
pub enum Binding<'a, B: Backend> {
    Nothing,
    /// A buffer from `offset`, with `length` bytes to its end.
    Buffer {
        buffer: &'a B::Buffer,
        offset: u64,
        length: u64,
    },
    Bytes(&'a [u8]),
}

impl<'a, B: Backend> Binding<'a, B> {
    /// # Safety
    /// A binding of a live submission whose buffers are of `B`.
    unsafe fn new(raw: &'a soft_binding) -> Binding<'a, B> {
        // SAFETY: backend.h: NULL, or a live buffer, or `length` bytes.
        unsafe {
            match (raw.buffer.is_null(), raw.bytes.is_null()) {
                (false, _) => Binding::Buffer {
                    buffer: borrow(raw.buffer),
                    offset: raw.offset,
                    length: raw.length,
                },
                (true, false) => Binding::Bytes(slice_of(raw.bytes.cast(), raw.length as usize)),
                (true, true) => Binding::Nothing,
            }
        }
    }
}

/// # Safety
/// A live buffer, which a Box of `Buffer` became.
unsafe fn borrow<'a, Buffer>(handle: *mut soft_buffer) -> &'a Buffer {
    // SAFETY: the caller's promise.
    unsafe { &*handle.cast::<Buffer>() }
}

/// # Safety
/// NULL, or `count` values that live and are not written for `'a`.
unsafe fn slice_of<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    match pointer.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { slice::from_raw_parts(pointer, count) },
    }
}

/// What a `soft_backend` points to.
struct Opened<B> {
    backend: Arc<B>,
    name: CString,
    capabilities: Capabilities,
}

/// Makes an open backend of a Rust one: the handle, and the table of its functions.
pub fn open<B: Backend>(
    backend: B,
) -> Result<(*mut soft_backend, &'static soft_backend_table), Fault> {
    guarded(|| {
        let capabilities = backend.capabilities();
        let opened = Opened {
            backend: Arc::new(backend),
            name: c_string(capabilities.name.clone()),
            capabilities,
        };
        Ok((Box::into_raw(Box::new(opened)).cast(), &Table::<B>::TABLE))
    })
}

/// Runs `body` and turns a panic into an error.
pub fn guarded<T>(body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|payload| Err(Fault::Internal(panic_text(&*payload))))
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    format!(
        "a bug in the software device: {}",
        text.unwrap_or("a panic without a message")
    )
}

fn outcome(fault: Fault) -> (soft_outcome, String) {
    match fault {
        Fault::OutOfBounds(text) => (SOFT_PAGE_FAULT, text),
        Fault::Invalid(text) => (SOFT_INVALID, text),
        Fault::OutOfMemory(text) => (SOFT_OUT_OF_MEMORY, text),
        Fault::StackOverflow(text) => (SOFT_STACK_OVERFLOW, text),
        Fault::Timeout(text) => (SOFT_TIMEOUT, text),
        Fault::Unsupported(text) => (SOFT_UNSUPPORTED, text),
        Fault::DeviceLost(text) => (SOFT_DEVICE_LOST, text),
        Fault::Internal(text) => (SOFT_INTERNAL, text),
    }
}

/// The text without its zeros.
fn c_string(text: String) -> CString {
    let mut bytes = text.into_bytes();
    bytes.retain(|byte| *byte != 0);
    CString::new(bytes).unwrap_or_default()
}

/// A copy of the text from malloc; NULL when there is no memory.
fn malloc_text(text: String) -> *mut c_char {
    // SAFETY: NUL-terminated.
    unsafe { libc::strdup(c_string(text).as_ptr()) }
}

/// Runs `body` and writes its value, or its error's text, to the caller's places.
///
/// # Safety
/// `text` is NULL or a place for a pointer.
pub unsafe fn report(
    text: *mut *mut c_char,
    body: impl FnOnce() -> Result<(), Fault>,
) -> soft_outcome {
    let Err(fault) = guarded(body) else {
        return SOFT_OK;
    };
    let (outcome, said) = outcome(fault);
    if !text.is_null() {
        // SAFETY: the caller's promise.
        unsafe { text.write(malloc_text(said)) }
    }
    outcome
}

fn null() -> Fault {
    Fault::Invalid(String::from("an argument is NULL"))
}

/// The C functions of one backend. Handles are Boxes of it and of its buffers, functions, modules (`Arc`) and streams
/// (`Arc`).
struct Table<B>(PhantomData<B>);

impl<B: Backend> Table<B> {
    const TABLE: soft_backend_table = soft_backend_table {
        size: size_of::<soft_backend_table>(),
        version: SOFT_BACKEND_VERSION,
        release: Some(Self::release),
        capabilities: Some(Self::capabilities),
        report: Some(Self::report),
        wait_budget: Some(Self::wait_budget),
        buffer_create: Some(Self::buffer_create),
        buffer_import: Some(Self::buffer_import),
        buffer_release: Some(Self::buffer_release),
        buffer_address: Some(Self::buffer_address),
        buffer_contents: Some(Self::buffer_contents),
        buffer_expect_reads: Some(Self::buffer_expect_reads),
        buffer_discard: Some(Self::buffer_discard),
        weights_write: Some(Self::weights_write),
        weights_read: Some(Self::weights_read),
        module_create: Some(Self::module_create),
        module_release: Some(Self::module_release),
        module_function_name: Some(Self::module_function_name),
        function_create: Some(Self::function_create),
        function_release: Some(Self::function_release),
        function_describe: Some(Self::function_describe),
        function_parameters: Some(Self::function_parameters),
        stream_create: Some(Self::stream_create),
        stream_release: Some(Self::stream_release),
        stream_submit: Some(Self::stream_submit),
        stream_start: Some(Self::stream_start),
        stream_help: Some(Self::stream_help),
    };

    /// # Safety
    /// NULL, or what `open` made and `release` has not got.
    unsafe fn opened<'a>(handle: *mut soft_backend) -> Result<&'a Opened<B>, Fault> {
        // SAFETY: the caller's promise.
        unsafe { handle.cast::<Opened<B>>().as_ref() }.ok_or_else(null)
    }

    unsafe extern "C" fn release(handle: *mut soft_backend) {
        // SAFETY: backend.h: made by `open`, released once, after all that was made of it.
        unsafe { drop_box::<Opened<B>>(handle.cast()) }
    }

    unsafe extern "C" fn capabilities(handle: *mut soft_backend, result: *mut soft_capabilities) {
        // SAFETY: backend.h: an open backend.
        let Ok(opened) = (unsafe { Self::opened(handle) }) else {
            return;
        };
        let found = &opened.capabilities;
        let flags = [
            (found.unified, SOFT_UNIFIED),
            (found.imports, SOFT_IMPORTS),
            (found.packs_weights, SOFT_PACKS_WEIGHTS),
            (found.textures, SOFT_TEXTURES),
            (found.indirect, SOFT_INDIRECT),
        ];
        let capabilities = soft_capabilities {
            size: size_of::<soft_capabilities>(),
            name: opened.name.as_ptr(),
            memory: found.memory,
            working_set: found.working_set,
            max_buffer_length: found.max_buffer_length,
            page_size: found.page_size,
            max_threads_per_threadgroup: found.max_threads_per_threadgroup,
            max_threadgroup_memory: found.max_threadgroup_memory,
            simd_width: found.simd_width,
            flags: flags
                .iter()
                .map(|(set, flag)| if *set { *flag } else { 0 })
                .sum(),
            cores: found.cores,
        };
        // SAFETY: backend.h: NULL or a struct whose first member is its size, of which no more is written.
        unsafe {
            let Some(size) = result.as_ref().map(|result| result.size) else {
                return;
            };
            let written = size.min(size_of::<soft_capabilities>());
            ptr::copy_nonoverlapping(
                (&raw const capabilities).cast::<u8>(),
                result.cast(),
                written,
            );
            (*result).size = size;
        }
    }

    unsafe extern "C" fn report(handle: *mut soft_backend) -> *mut c_char {
        // SAFETY: backend.h: an open backend.
        let text =
            guarded(|| unsafe { Self::opened(handle) }.map(|opened| opened.backend.report()));
        malloc_text(text.unwrap_or_else(|fault| outcome(fault).1))
    }

    unsafe extern "C" fn wait_budget(handle: *mut soft_backend) -> u64 {
        // SAFETY: backend.h: an open backend.
        let budget =
            guarded(|| unsafe { Self::opened(handle) }.map(|opened| opened.backend.wait_budget()));
        budget.map_or(0, |budget| {
            u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX)
        })
    }

    unsafe extern "C" fn buffer_create(
        handle: *mut soft_backend,
        length: u64,
        storage: soft_storage,
        result: *mut *mut soft_buffer,
        text: *mut *mut c_char,
    ) -> soft_outcome {
        let create = || {
            // SAFETY: backend.h: an open backend.
            let opened = unsafe { Self::opened(handle) }?;
            let storage = match storage {
                SOFT_SHARED => Storage::Shared,
                SOFT_PRIVATE => Storage::Private,
                SOFT_WEIGHTS => Storage::Weights,
                _ => return Err(Fault::Invalid(format!("there is no storage {storage}"))),
            };
            let buffer = opened.backend.create_buffer(length, storage)?;
            // SAFETY: backend.h: a place for the buffer.
            unsafe { give(result, Box::into_raw(Box::new(buffer)).cast()) };
            Ok(())
        };
        // SAFETY: backend.h: NULL or a place for the text.
        unsafe { report(text, create) }
    }

    unsafe extern "C" fn buffer_import(
        handle: *mut soft_backend,
        pages: *mut c_void,
        length: u64,
        read_only: bool,
        result: *mut *mut soft_buffer,
        text: *mut *mut c_char,
    ) -> soft_outcome {
        let import = || {
            // SAFETY: backend.h: an open backend.
            let opened = unsafe { Self::opened(handle) }?;
            let pages = HostPages {
                pointer: NonNull::new(pages.cast()).ok_or_else(null)?,
                length,
                read_only,
            };
            let buffer = opened.backend.import_buffer(pages)?;
            // SAFETY: backend.h: a place for the buffer.
            unsafe { give(result, Box::into_raw(Box::new(buffer)).cast()) };
            Ok(())
        };
        // SAFETY: backend.h: NULL or a place for the text.
        unsafe { report(text, import) }
    }

    unsafe extern "C" fn buffer_release(buffer: *mut soft_buffer) {
        // SAFETY: backend.h: made by this backend, released once, used by no submission in flight.
        unsafe { drop_box::<B::Buffer>(buffer.cast()) }
    }

    unsafe extern "C" fn buffer_address(buffer: *mut soft_buffer) -> u64 {
        // SAFETY: backend.h: a live buffer of this backend.
        let address = guarded(|| Ok(unsafe { borrow::<B::Buffer>(buffer) }.address()));
        address.unwrap_or_default()
    }

    unsafe extern "C" fn buffer_contents(buffer: *mut soft_buffer) -> *mut c_void {
        // SAFETY: backend.h: a live buffer of this backend.
        let contents = guarded(|| Ok(unsafe { borrow::<B::Buffer>(buffer) }.contents()));
        let contents = contents.unwrap_or_default();
        contents.map_or(ptr::null_mut(), |contents| contents.as_ptr().cast())
    }

    unsafe extern "C" fn buffer_expect_reads(buffer: *mut soft_buffer) {
        // A hint, which nobody misses.
        let _ = guarded(|| {
            // SAFETY: backend.h: a live buffer of this backend.
            unsafe { borrow::<B::Buffer>(buffer) }.expect_reads();
            Ok(())
        });
    }

    unsafe extern "C" fn buffer_discard(
        buffer: *mut soft_buffer,
        text: *mut *mut c_char,
    ) -> soft_outcome {
        // SAFETY: backend.h: a live buffer of this backend; NULL or a place for the text.
        unsafe { report(text, || borrow::<B::Buffer>(buffer).discard()) }
    }

    unsafe extern "C" fn weights_write(
        buffer: *mut soft_buffer,
        matrix: *const soft_matrix,
        first: u64,
        count: u64,
        rows: *const c_void,
        length: u64,
        text: *mut *mut c_char,
    ) -> soft_outcome {
        let write = || {
            // SAFETY: backend.h: a live buffer, NULL or a matrix, `length` bytes.
            unsafe {
                let matrix = matrix_of(matrix, first, count)?;
                let rows = slice_of(rows.cast(), length as usize);
                borrow::<B::Buffer>(buffer).write_weights(&matrix, first, count, rows)
            }
        };
        // SAFETY: backend.h: NULL or a place for the text.
        unsafe { report(text, write) }
    }

    unsafe extern "C" fn weights_read(
        buffer: *mut soft_buffer,
        matrix: *const soft_matrix,
        first: u64,
        count: u64,
        rows: *mut c_void,
        length: u64,
        text: *mut *mut c_char,
    ) -> soft_outcome {
        let read = || {
            if rows.is_null() {
                return Err(null());
            }
            // SAFETY: backend.h: a live buffer, NULL or a matrix, `length` bytes that are the caller's.
            unsafe {
                let matrix = matrix_of(matrix, first, count)?;
                let rows = slice::from_raw_parts_mut(rows.cast(), length as usize);
                borrow::<B::Buffer>(buffer).read_weights(&matrix, first, count, rows)
            }
        };
        // SAFETY: backend.h: NULL or a place for the text.
        unsafe { report(text, read) }
    }

    unsafe extern "C" fn module_create(
        handle: *mut soft_backend,
        source: *const c_char,
        length: usize,
        result: *mut *mut soft_module,
        text: *mut *mut c_char,
    ) -> soft_outcome {
        let create = || {
            if source.is_null() {
                return Err(null());
            }
            // SAFETY: backend.h: an open backend, and `length` bytes.
            let (opened, source) =
                unsafe { (Self::opened(handle)?, slice_of(source.cast::<u8>(), length)) };
            let module = Arc::new(opened.backend.create_module(source)?);
            // SAFETY: backend.h: a place for the module.
            unsafe { give(result, Arc::into_raw(module).cast_mut().cast()) };
            Ok(())
        };
        // SAFETY: backend.h: NULL or a place for the text.
        unsafe { report(text, create) }
    }

    unsafe extern "C" fn module_release(module: *mut soft_module) {
        // SAFETY: backend.h: made by this backend and released once.
        unsafe { drop_arc::<B::Module>(module.cast()) }
    }

    unsafe extern "C" fn module_function_name(
        module: *const soft_module,
        index: usize,
    ) -> *const c_char {
        let name = guarded(|| {
            // SAFETY: backend.h: a live module of this backend, whose texts live as long as it.
            let module: &B::Module =
                unsafe { module.cast::<B::Module>().as_ref() }.ok_or_else(null)?;
            Ok(B::function_name(module, index).map_or(ptr::null(), CStr::as_ptr))
        });
        name.unwrap_or(ptr::null())
    }

    unsafe extern "C" fn function_create(
        module: *mut soft_module,
        name: *const c_char,
        constants: *const soft_constant,
        constant_count: usize,
        result: *mut *mut soft_function,
        text: *mut *mut c_char,
    ) -> soft_outcome {
        let create = || {
            if module.is_null() || name.is_null() {
                return Err(null());
            }
            // SAFETY: backend.h: a live module, a text, and `constant_count` entries.
            let (module, name, constants) = unsafe {
                (
                    clone_arc::<B::Module>(module.cast()),
                    CStr::from_ptr(name),
                    slice_of(constants, constant_count),
                )
            };
            // SAFETY: backend.h: their names are NULL or texts, as long as the array that they are in.
            let constants: Vec<Setting> = constants
                .iter()
                .map(|raw| unsafe { setting(raw) })
                .collect();
            let function = B::create_function(&module, name, &constants)?;
            // SAFETY: backend.h: a place for the function.
            unsafe { give(result, Box::into_raw(Box::new(function)).cast()) };
            Ok(())
        };
        // SAFETY: backend.h: NULL or a place for the text.
        unsafe { report(text, create) }
    }

    unsafe extern "C" fn function_release(function: *mut soft_function) {
        // SAFETY: backend.h: made by this backend, released once, used by no submission in flight.
        unsafe { drop_box::<B::Function>(function.cast()) }
    }

    unsafe extern "C" fn function_describe(
        function: *const soft_function,
        result: *mut soft_function_info,
    ) {
        // SAFETY: backend.h: a live function of this backend.
        let function = unsafe { function.cast::<B::Function>().as_ref() };
        let described = guarded(|| Ok(B::describe_function(function.ok_or_else(null)?)));
        if let (Ok(info), false) = (described, result.is_null()) {
            let info = soft_function_info {
                max_total_threads_per_threadgroup: info.max_total_threads_per_threadgroup,
                thread_execution_width: info.thread_execution_width,
                static_threadgroup_memory: info.static_threadgroup_memory,
            };
            // SAFETY: backend.h: a place for the description.
            unsafe { result.write(info) }
        }
    }

    unsafe extern "C" fn function_parameters(
        function: *const soft_function,
        results: *mut soft_parameter,
    ) -> u32 {
        // SAFETY: backend.h: a live function of this backend.
        let function = unsafe { function.cast::<B::Function>().as_ref() };
        let found = guarded(|| Ok(B::parameters(function.ok_or_else(null)?)));
        let Ok(Some(found)) = found else {
            return SOFT_UNKNOWN;
        };
        if results.is_null() || found.len() > SOFT_MAX_PARAMETERS as usize {
            return SOFT_UNKNOWN;
        }
        for (place, parameter) in found.iter().enumerate() {
            let parameter = soft_parameter {
                index: parameter.index,
                kind: match parameter.kind {
                    ParameterKind::Buffer => SOFT_PARAMETER_BUFFER,
                    ParameterKind::Threadgroup => SOFT_PARAMETER_THREADGROUP,
                    ParameterKind::Texture => SOFT_PARAMETER_TEXTURE,
                    ParameterKind::Sampler => SOFT_PARAMETER_SAMPLER,
                },
                size: parameter.size,
                alignment: parameter.alignment,
                readable: parameter.readable,
                writable: parameter.writable,
                texture_type: parameter.texture_type,
                value: parameter.value,
            };
            // SAFETY: backend.h: places for SOFT_MAX_PARAMETERS, which are no fewer.
            unsafe { results.add(place).write(parameter) }
        }
        found.len() as u32
    }

    unsafe extern "C" fn stream_create(
        handle: *mut soft_backend,
        result: *mut *mut soft_stream,
        text: *mut *mut c_char,
    ) -> soft_outcome {
        let create = || {
            // SAFETY: backend.h: an open backend.
            let stream = Arc::new(unsafe { Self::opened(handle) }?.backend.create_stream()?);
            // SAFETY: backend.h: a place for the stream.
            unsafe { give(result, Arc::into_raw(stream).cast_mut().cast()) };
            Ok(())
        };
        // SAFETY: backend.h: NULL or a place for the text.
        unsafe { report(text, create) }
    }

    unsafe extern "C" fn stream_release(stream: *mut soft_stream) {
        let stream: *const B::Stream = stream.cast();
        // SAFETY: backend.h: NULL, or a live stream of this backend.
        if let Some(stream) = unsafe { stream.as_ref() } {
            let _ = guarded(|| {
                stream.close();
                Ok(())
            });
        }
        // SAFETY: backend.h: made by this backend and released once.
        unsafe { drop_arc::<B::Stream>(stream) }
    }

    unsafe extern "C" fn stream_submit(
        stream: *mut soft_stream,
        submission: *const soft_submission,
        flags: u32,
    ) -> u64 {
        let submit = || {
            // SAFETY: backend.h: a live stream of this backend, and a submission, which is copied.
            let (stream, raw) = unsafe { (&*stream.cast::<B::Stream>(), submission.read()) };
            let submission = Submission {
                raw,
                begun: false,
                canceled: false,
                backend: PhantomData,
            };
            Ok(stream.submit(submission, flags & SOFT_WILL_HELP != 0))
        };
        guarded(submit).unwrap_or_default()
    }

    unsafe extern "C" fn stream_start(stream: *mut soft_stream) {
        // SAFETY: backend.h: a live stream of this backend.
        unsafe { Self::visit(stream, B::Stream::start) };
    }

    unsafe extern "C" fn stream_help(stream: *mut soft_stream, ticket: u64) {
        // SAFETY: backend.h: a live stream of this backend.
        unsafe { Self::visit(stream, |stream| stream.help(ticket)) };
    }

    /// # Safety
    /// A live stream of this backend.
    unsafe fn visit(stream: *mut soft_stream, body: impl FnOnce(&B::Stream)) {
        // A callback may release the stream, so this call has a reference of its own.
        // SAFETY: the caller's promise.
        let stream = unsafe { clone_arc::<B::Stream>(stream.cast()) };
        let _ = guarded(|| {
            body(&stream);
            Ok(())
        });
        // The last reference may go here.
        let _ = guarded(|| {
            drop(stream);
            Ok(())
        });
    }
}

/// # Safety
/// NULL or a matrix.
unsafe fn matrix_of(raw: *const soft_matrix, first: u64, count: u64) -> Result<Matrix, Fault> {
    // SAFETY: the caller's promise.
    let raw = unsafe { raw.as_ref() }.ok_or_else(null)?;
    match first.checked_add(count) {
        Some(end) if end <= raw.rows => Ok(Matrix {
            offset: raw.offset,
            rows: raw.rows,
            width: raw.width,
            dtype: raw.dtype,
        }),
        _ => Err(Fault::Invalid(format!(
            "{count} rows from row {first} are not in a matrix of {} rows",
            raw.rows
        ))),
    }
}

/// # Safety
/// A name that is not NULL is a text, as long as the constant.
unsafe fn setting(constant: &soft_constant) -> Setting<'_> {
    let name = match constant.name.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => unsafe { CStr::from_ptr(constant.name) }.to_str().ok(),
    };
    Setting {
        name,
        index: constant.index,
        data_type: constant.type_,
        bytes: constant.value,
    }
}

/// # Safety
/// NULL or a place for a handle.
unsafe fn give<T>(place: *mut *mut T, handle: *mut T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(handle) }
    }
}

/// # Safety
/// NULL, or a Box that became a pointer, whose last user this is.
unsafe fn drop_box<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        let value = unsafe { Box::from_raw(pointer) };
        let _ = guarded(|| {
            drop(value);
            Ok(())
        });
    }
}

/// # Safety
/// NULL, or an Arc that became a pointer.
unsafe fn drop_arc<T>(pointer: *const T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        let value = unsafe { Arc::from_raw(pointer) };
        let _ = guarded(|| {
            drop(value);
            Ok(())
        });
    }
}

/// # Safety
/// An Arc that became a pointer and lives.
unsafe fn clone_arc<T>(pointer: *const T) -> Arc<T> {
    // SAFETY: the caller's promise; the count goes up for the Arc made here.
    unsafe {
        Arc::increment_strong_count(pointer);
        Arc::from_raw(pointer)
    }
}

#[cfg(test)]
mod tests;
