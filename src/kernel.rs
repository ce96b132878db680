//! Kernels of the caller's own, in Metal Shading Language.
//!
//! ```
//! use ironbridge::Device;
//! use ironbridge::kernel::{Argument, Dispatch, Grid, Library};
//!
//! # fn main() -> Result<(), ironbridge::Error> {
//! let device = Device::open("cpu")?;
//! let library = Library::from_source(
//!     &device,
//!     "kernel void scale(device float *x [[buffer(0)]], constant float &by [[buffer(1)]],
//!                        uint i [[thread_position_in_grid]]) { x[i] *= by; }",
//! )?;
//! let scale = library.kernel("scale")?;
//! let x = device.buffer_from(&[1.0f32, 2.0, 3.0])?;
//! let mut commands = device.commands()?;
//! let dispatch = Dispatch {
//!     arguments: &[Argument::read_write(0, &x), Argument::values(1, &[10.0f32])],
//!     grid: Grid::Threads([3, 1, 1]),
//!     threadgroup: [3, 1, 1],
//! };
//! // SAFETY: thread i touches x[i] and nothing else, and there are as many threads as elements.
//! unsafe { commands.dispatch(&scale, &dispatch)? };
//! commands.run()?;
//! assert_eq!(x.to_vec()?, [10.0, 20.0, 30.0]);
//! # Ok(())
//! # }
//! ```

mod constant;
pub(crate) mod include;
mod texture;

use std::ffi::CString;
use std::path::{Path, PathBuf};

use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::device::{Device, path_text, text};
use crate::dtype::Element;
use crate::error::{Error, Result, Status, check};
use crate::ffi;
use crate::handle::Handle;
pub use constant::{Constant, ConstantValue};
pub use texture::{AddressMode, PixelFormat, Sampler, Texture, TextureInfo, TextureValue};

/// Compiled Metal source (`iron_library`).
#[derive(Debug)]
pub struct Library {
    handle: Handle<ffi::iron_library>,
}

impl Library {
    /// Compiles Metal Shading Language (`iron_library_create`).
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's messages,
    /// [`Error::Unsupported`] where the device cannot compile source.
    pub fn from_source(device: &Device, source: &str) -> Result<Library> {
        let source = text("source", source)?;
        let handle = Handle::create("Library::from_source", |library| {
            // SAFETY: the device is live, the text NUL-terminated, and `library` may be written.
            unsafe { ffi::iron_library_create(device.handle.as_ptr(), source.as_ptr(), library) }
        })?;
        Ok(Library { handle })
    }

    /// [`from_source`](Library::from_source) with options (`iron_library_create_with_options`).
    ///
    /// ```
    /// use ironbridge::Device;
    /// use ironbridge::kernel::{Library, MathMode, Options};
    ///
    /// # fn main() -> Result<(), ironbridge::Error> {
    /// let device = Device::open("cpu")?;
    /// let source = "kernel void fill(device float *x [[buffer(0)]]) { x[0] = VALUE; }";
    /// let options = Options::default().macro_value("VALUE", "7.0f").math_mode(MathMode::Safe);
    /// let library = Library::with_options(&device, source, &options)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`from_source`](Library::from_source), [`Error::Unsupported`] for a version that
    /// the device does not know, and [`Error::InvalidArgument`] for a macro whose name
    /// is no identifier or comes twice, or whose value has more than one line.
    pub fn with_options(device: &Device, source: &str, options: &Options) -> Result<Library> {
        let source = match options.include_folders.is_empty() {
            true => text("source", source)?,
            false => {
                let refused = |what| Error::new("Library::with_options", Status::Compile, what);
                let expanded = include::expanded(source, &options.include_folders);
                text("source", &expanded.map_err(refused)?)?
            }
        };
        let mut texts = Vec::with_capacity(options.macros.len());
        for (name, value) in &options.macros {
            texts.push((text("macro", name)?, text("macro", value)?));
        }
        let macros: Vec<_> = texts
            .iter()
            .map(|(name, value)| ffi::iron_macro {
                name: name.as_ptr(),
                value: value.as_ptr(),
                ..Default::default()
            })
            .collect();
        let native = ffi::iron_library_options {
            size: size_of::<ffi::iron_library_options>(),
            language_version: options.language_version,
            math_mode: options.math_mode.native(),
            macros: macros.as_ptr(),
            macro_count: macros.len(),
        };
        let handle = Handle::create("Library::with_options", |library| {
            // SAFETY: the device is live, the texts NUL-terminated, the options start with their size and their array
            // is as long as stated; all of it outlives the call, and `library` may be written.
            unsafe {
                ffi::iron_library_create_with_options(
                    device.handle.as_ptr(),
                    source.as_ptr(),
                    &native,
                    library,
                )
            }
        })?;
        Ok(Library { handle })
    }

    /// A library that Apple's `metallib` tool made (`iron_library_open`).
    ///
    /// # Safety
    /// Its kernels are code. The caller vouches for the file as for a source that is compiled: what
    /// [`dispatch`](Commands::dispatch) asks of a kernel, nobody can check here.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read or is none,
    /// [`Error::Unsupported`] on a device that is no GPU of Apple's.
    pub unsafe fn open(device: &Device, path: &Path) -> Result<Library> {
        let path = path_text(path)?;
        let handle = Handle::create("Library::open", |library| {
            // SAFETY: the device is live, the text NUL-terminated, and `library` may be written.
            unsafe { ffi::iron_library_open(device.handle.as_ptr(), path.as_ptr(), library) }
        })?;
        Ok(Library { handle })
    }

    /// The names of its kernels (`iron_library_kernel_name`): on the software device in the source's order.
    pub fn kernel_names(&self) -> Result<Vec<String>> {
        let mut count = 0;
        // SAFETY: the handle is live, and `count` may be written.
        check("Library::kernel_names", unsafe {
            ffi::iron_library_kernel_count(self.handle.as_ptr(), &mut count)
        })?;
        (0..count).map(|index| self.kernel_name(index)).collect()
    }

    fn kernel_name(&self, index: u32) -> Result<String> {
        let copy = |bytes: &mut [u8]| {
            let mut length = 0;
            let place = bytes.as_mut_ptr().cast();
            // SAFETY: the handle is live, `bytes` has room for as many bytes as stated, and `length` may be written.
            let status = unsafe {
                let library = self.handle.as_ptr();
                ffi::iron_library_kernel_name(library, index, place, bytes.len(), &mut length)
            };
            check("Library::kernel_names", status).map(|()| length)
        };
        let length = copy(&mut [])?;
        let mut bytes = vec![0; length + 1];
        copy(&mut bytes)?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The kernel `name` (`iron_kernel_create`).
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        self.kernel_with(name, &[])
    }

    /// The kernel `name`, specialised with values of its function constants. Values of constants that the source does
    /// not have change nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::Compile`] for a value of another type than the constant's.
    pub fn kernel_with(&self, name: &str, constants: &[Constant]) -> Result<Kernel> {
        let name: CString = text("name", name)?;
        let names = constants.iter().map(Constant::name);
        let names: Vec<Option<CString>> = names.collect::<Result<_>>()?;
        let constants: Vec<_> = constants
            .iter()
            .zip(&names)
            .map(|(constant, name)| constant.native(name.as_ref()))
            .collect();
        let handle = Handle::create("Library::kernel", |kernel| {
            // SAFETY: the library is live, the texts NUL-terminated and as long there as `names`, the array as long as
            // stated, and `kernel` may be written.
            unsafe {
                ffi::iron_kernel_create(
                    self.handle.as_ptr(),
                    name.as_ptr(),
                    constants.as_ptr(),
                    constants.len(),
                    kernel,
                )
            }
        })?;
        Ok(Kernel { handle })
    }
}

/// How a source is compiled (`iron_library_options`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "options compile nothing by themselves"]
pub struct Options {
    language_version: u32,
    math_mode: MathMode,
    macros: Vec<(String, String)>,
    include_folders: Vec<PathBuf>,
}

impl Options {
    /// Metal's version: 300 for 3.0, 310, 320, 400. Default (or 0): the newest that the device knows.
    pub fn language_version(mut self, version: u32) -> Self {
        self.language_version = version;
        self
    }

    /// What the compiler may do with floating-point numbers.
    pub fn math_mode(mut self, mode: MathMode) -> Self {
        self.math_mode = mode;
        self
    }

    /// Defines the macro `name` as `value`, one line or nothing.
    pub fn macro_value(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.macros.push((name.into(), value.into()));
        self
    }

    /// Adds a folder that has files which the source includes. They are put in place before the device sees the
    /// source, at most 64 within each other and 8 MiB in all. Errors within them have their paths.
    pub fn include_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.include_folders.push(folder.into());
        self
    }
}

/// What the compiler may do with floating-point numbers (`iron_math_mode`). The software device computes safely in
/// each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum MathMode {
    /// The device's own: Apple's is fast.
    #[default]
    Default,
    /// As IEEE 754 says, NaN and infinity among it.
    Safe,
    /// Reorders, and keeps NaN and infinity. Before macOS 15 the same as safe.
    Relaxed,
    /// Takes it for granted that there is no NaN and no infinity.
    Fast,
}

impl MathMode {
    fn native(self) -> ffi::iron_math_mode {
        match self {
            MathMode::Default => ffi::IRON_MATH_DEFAULT,
            MathMode::Safe => ffi::IRON_MATH_SAFE,
            MathMode::Relaxed => ffi::IRON_MATH_RELAXED,
            MathMode::Fast => ffi::IRON_MATH_FAST,
        }
    }
}

/// A kernel, ready to run (`iron_kernel`).
#[derive(Debug)]
pub struct Kernel {
    handle: Handle<ffi::iron_kernel>,
}

impl Kernel {
    /// Its limits (`iron_kernel_describe`).
    pub fn info(&self) -> Result<KernelInfo> {
        let mut info = ffi::iron_kernel_info {
            size: size_of::<ffi::iron_kernel_info>(),
            ..Default::default()
        };
        // SAFETY: the handle is live, and `info` may be written and starts with its size.
        check("Kernel::info", unsafe {
            ffi::iron_kernel_describe(self.handle.as_ptr(), &mut info)
        })?;
        Ok(KernelInfo {
            max_threads_per_threadgroup: info.max_threads_per_threadgroup,
            simd_width: info.simd_width,
            static_threadgroup_memory: info.static_threadgroup_memory,
            argument_count: info.argument_count,
        })
    }

    /// What it wants bound, in the order of its parameters (`iron_kernel_argument`). Empty, too, where the device does
    /// not know.
    pub fn arguments(&self) -> Result<Vec<ArgumentInfo>> {
        let argument = |position| {
            let mut info = ffi::iron_kernel_argument_info {
                size: size_of::<ffi::iron_kernel_argument_info>(),
                ..Default::default()
            };
            // SAFETY: the handle is live, and `info` may be written and starts with its size.
            check("Kernel::arguments", unsafe {
                ffi::iron_kernel_argument(self.handle.as_ptr(), position, &mut info)
            })?;
            Ok(ArgumentInfo {
                kind: match info.kind {
                    ffi::IRON_ARGUMENT_THREADGROUP => ArgumentKind::Threadgroup,
                    ffi::IRON_ARGUMENT_TEXTURE => ArgumentKind::Texture,
                    ffi::IRON_ARGUMENT_SAMPLER => ArgumentKind::Sampler,
                    _ => ArgumentKind::Buffer,
                },
                index: info.index,
                readable: info.access != ffi::IRON_ACCESS_WRITE,
                writable: info.access != ffi::IRON_ACCESS_READ,
                byte_size: info.byte_size,
                alignment: info.alignment,
                texture: (info.kind == ffi::IRON_ARGUMENT_TEXTURE)
                    .then(|| TextureInfo::of(info.texture_type, info.texture_value)),
            })
        };
        (0..self.info()?.argument_count).map(argument).collect()
    }
}

/// What a kernel wants bound at an index (`iron_kernel_argument_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArgumentInfo {
    /// Memory of which kind.
    pub kind: ArgumentKind,
    /// Of `[[buffer(index)]]`, `[[threadgroup(index)]]`, `[[texture(index)]]` or `[[sampler(index)]]`.
    pub index: u32,
    /// Whether the kernel may read there: `access::write` of a texture does not.
    pub readable: bool,
    /// Whether the kernel may write there, by the type of the parameter.
    pub writable: bool,
    /// Bytes that have to be bound at least: of what a reference refers to; 0 for a pointer.
    pub byte_size: u64,
    /// Of the address, in bytes.
    pub alignment: u64,
    /// Of a texture: what the kernel takes it for.
    pub texture: Option<TextureInfo>,
}

/// What kind of memory an argument of a kernel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArgumentKind {
    /// A buffer, or values.
    Buffer,
    /// Threadgroup memory of a length that the dispatch gives.
    Threadgroup,
    /// Texels.
    Texture,
    /// How textures are sampled.
    Sampler,
}

/// The limits of a kernel (`iron_kernel_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelInfo {
    /// Threads in a threadgroup, at most.
    pub max_threads_per_threadgroup: u32,
    /// Threads that run in step.
    pub simd_width: u32,
    /// Bytes of threadgroup memory that the kernel declares itself.
    pub static_threadgroup_memory: u32,
    /// How many [`arguments`](Kernel::arguments) it has.
    pub argument_count: u32,
}

/// One entry of a kernel's argument table (`iron_argument`).
///
/// Buffers are named with what the kernel does to them; the bridge orders commands and host access by that.
#[derive(Debug, Clone, Copy)]
pub struct Argument<'a> {
    index: u32,
    value: ArgumentValue<'a>,
}

#[derive(Debug, Clone, Copy)]
enum ArgumentValue<'a> {
    Buffer {
        buffer: &'a Handle<ffi::iron_buffer>,
        offset: u64,
        access: ffi::iron_access,
    },
    Bytes {
        // Not a byte slice: the caller's elements as they are.
        pointer: *const u8,
        length: usize,
        elements: std::marker::PhantomData<&'a [u8]>,
    },
    Threadgroup {
        length: u64,
    },
    Texture {
        buffer: &'a Handle<ffi::iron_buffer>,
        offset: u64,
        access: ffi::iron_access,
        texture: ffi::iron_texture,
    },
    Sampler(ffi::iron_texture_sampler),
}

impl<'a> Argument<'a> {
    /// `[[buffer(index)]]`, which the kernel reads.
    pub fn read<T: Element>(index: u32, buffer: &'a Buffer<T>) -> Self {
        Argument::buffer(index, buffer, ffi::IRON_ACCESS_READ)
    }

    /// `[[buffer(index)]]`, which the kernel writes.
    pub fn write<T: Element>(index: u32, buffer: &'a Buffer<T>) -> Self {
        Argument::buffer(index, buffer, ffi::IRON_ACCESS_WRITE)
    }

    /// `[[buffer(index)]]`, which the kernel reads and writes.
    pub fn read_write<T: Element>(index: u32, buffer: &'a Buffer<T>) -> Self {
        Argument::buffer(index, buffer, ffi::IRON_ACCESS_READ_WRITE)
    }

    fn buffer<T: Element>(index: u32, buffer: &'a Buffer<T>, access: ffi::iron_access) -> Self {
        Argument {
            index,
            value: ArgumentValue::Buffer {
                buffer: &buffer.handle,
                offset: 0,
                access,
            },
        }
    }

    /// Makes of a buffer's argument `[[texture(index)]]`: a texture whose texels lie in the buffer (`iron_texture`).
    /// Other arguments stay as they are.
    ///
    /// ```
    /// use ironbridge::Device;
    /// use ironbridge::kernel::{Argument, Dispatch, Grid, Library, PixelFormat, Texture};
    ///
    /// # fn main() -> Result<(), ironbridge::Error> {
    /// let device = Device::open("cpu")?;
    /// let source = "using namespace metal;
    ///     kernel void f(texture2d<float, access::read_write> t [[texture(0)]], uint2 i [[thread_position_in_grid]]) {
    ///       t.write(1 - t.read(i), i);
    ///     }";
    /// let invert = Library::from_source(&device, source)?.kernel("f")?;
    /// let bytes = device.buffer_from(&[0u8, 51, 255, 204])?;
    /// let texture = Texture::new(PixelFormat::R8Unorm, 2, 2);
    /// let mut commands = device.commands()?;
    /// let dispatch = Dispatch {
    ///     arguments: &[Argument::read_write(0, &bytes).texture(texture)],
    ///     grid: Grid::Threads([2, 2, 1]),
    ///     threadgroup: [2, 2, 1],
    /// };
    /// // SAFETY: the kernel touches its texture alone, and what is outside of that is dropped.
    /// unsafe { commands.dispatch(&invert, &dispatch)? };
    /// commands.run()?;
    /// assert_eq!(bytes.to_vec()?, [255, 204, 0, 51]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn texture(mut self, texture: Texture) -> Self {
        if let ArgumentValue::Buffer {
            buffer,
            offset,
            access,
        } = self.value
        {
            self.value = ArgumentValue::Texture {
                buffer,
                offset,
                access,
                texture: texture.native(),
            };
        }
        self
    }

    /// `[[sampler(index)]]`.
    pub fn sampler(index: u32, sampler: Sampler) -> Self {
        Argument {
            index,
            value: ArgumentValue::Sampler(sampler.native()),
        }
    }

    /// For a buffer or a texture: its first byte. Other arguments have none, and stay as they are.
    #[must_use]
    pub fn offset(mut self, bytes: usize) -> Self {
        if let ArgumentValue::Buffer { offset, .. } | ArgumentValue::Texture { offset, .. } =
            &mut self.value
        {
            *offset = bytes as u64;
        }
        self
    }

    /// `[[buffer(index)]]` with a copy of `elements`, at most 4096 bytes: `constant T&` for one, `constant T*` for
    /// more. A struct goes as its bytes.
    pub fn values<T: Element>(index: u32, elements: &'a [T]) -> Self {
        Argument {
            index,
            value: ArgumentValue::Bytes {
                pointer: elements.as_ptr().cast(),
                length: size_of_val(elements),
                elements: std::marker::PhantomData,
            },
        }
    }

    /// `[[threadgroup(index)]]` memory of `bytes` bytes, a multiple of 16.
    pub fn threadgroup(index: u32, bytes: usize) -> Self {
        Argument {
            index,
            value: ArgumentValue::Threadgroup {
                length: bytes as u64,
            },
        }
    }

    fn native(&self) -> ffi::iron_argument {
        let blank = ffi::iron_argument {
            index: self.index,
            ..Default::default()
        };
        match &self.value {
            &ArgumentValue::Buffer {
                buffer,
                offset,
                access,
            } => ffi::iron_argument {
                kind: ffi::IRON_ARGUMENT_BUFFER,
                buffer: buffer.as_ptr(),
                offset,
                access,
                ..blank
            },
            &ArgumentValue::Bytes {
                pointer, length, ..
            } => ffi::iron_argument {
                kind: ffi::IRON_ARGUMENT_BYTES,
                bytes: pointer.cast(),
                length: length as u64,
                ..blank
            },
            &ArgumentValue::Threadgroup { length } => ffi::iron_argument {
                kind: ffi::IRON_ARGUMENT_THREADGROUP,
                length,
                ..blank
            },
            // Both are read during the call, and live as long as this argument.
            ArgumentValue::Texture {
                buffer,
                offset,
                access,
                texture,
            } => ffi::iron_argument {
                kind: ffi::IRON_ARGUMENT_TEXTURE,
                buffer: buffer.as_ptr(),
                offset: *offset,
                access: *access,
                bytes: std::ptr::from_ref(texture).cast(),
                ..blank
            },
            ArgumentValue::Sampler(sampler) => ffi::iron_argument {
                kind: ffi::IRON_ARGUMENT_SAMPLER,
                bytes: std::ptr::from_ref(sampler).cast(),
                ..blank
            },
        }
    }
}

/// How many threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// So many threads; the last threadgroup of a row may be smaller.
    Threads([u32; 3]),
    /// So many whole threadgroups.
    Threadgroups([u32; 3]),
}

/// One run of a kernel (`iron_dispatch`).
#[derive(Debug, Clone, Copy)]
pub struct Dispatch<'a> {
    /// What the kernel works on.
    pub arguments: &'a [Argument<'a>],
    /// How many threads run, in x, y and z; none may be 0.
    pub grid: Grid,
    /// Threads per threadgroup, in x, y and z; none may be 0.
    pub threadgroup: [u32; 3],
}

impl Commands {
    /// Records a run of a kernel of the same device (`iron_encode_kernel`).
    ///
    /// # Safety
    /// Nothing here can see what the kernel does, and a GPU does not stop it: with a wild index it can change other
    /// buffers of this process, the ones that safe code has mapped among them. So the caller vouches that, with these
    /// arguments, every thread of the kernel
    /// - reads and writes inside the buffers, bytes and threadgroup memory that it is given, and nowhere else;
    /// - writes only to buffers passed as [`Argument::write`] or [`Argument::read_write`], and reads only from the
    ///   others and the latter.
    ///
    /// Races between threads are no breach: they give unspecified elements, and every bit pattern is one.
    ///
    /// # Errors
    /// What can be checked is: indices, offsets, threadgroup sizes, [`Error::WrongDevice`].
    #[track_caller]
    pub unsafe fn dispatch(&mut self, kernel: &Kernel, dispatch: &Dispatch<'_>) -> Result<()> {
        let arguments: Vec<_> = dispatch.arguments.iter().map(Argument::native).collect();
        let (grid, threads) = match dispatch.grid {
            Grid::Threads(grid) => (grid, true),
            Grid::Threadgroups(grid) => (grid, false),
        };
        let native = ffi::iron_dispatch {
            size: size_of::<ffi::iron_dispatch>(),
            arguments: arguments.as_ptr(),
            argument_count: arguments.len(),
            grid,
            threadgroup: dispatch.threadgroup,
            threads: threads.into(),
        };
        // SAFETY: the handles are live; the struct starts with its size, its array is as long as stated, and the bytes
        // that the array points to are borrowed for as long as it; the caller vouches for the kernel.
        check("Commands::dispatch", unsafe {
            ffi::iron_encode_kernel(self.recorder(), kernel.handle.as_ptr(), &native)
        })
    }
}
