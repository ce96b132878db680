//! Device memory of a known element type.

use std::ffi::CString;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::{fmt, ptr};

use crate::device::{Device, text};
use crate::dtype::Element;
use crate::error::{Error, Result, Status, check};
use crate::ffi;
use crate::handle::{Handle, note_caller};
use crate::memory::{BufferUsage, Category, Storage, page_size};

impl Device {
    /// A zeroed buffer of `len` elements (`iron_buffer_create`).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `len` is zero or larger than the device's longest buffer,
    /// [`Error::OutOfMemory`].
    #[track_caller]
    pub fn buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.buffer_options().create(len)
    }

    /// A buffer filled from `elements` (`iron_buffer_create_with_bytes`).
    ///
    /// # Errors
    /// As [`buffer`](Device::buffer).
    #[track_caller]
    pub fn buffer_from<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>> {
        self.buffer_options().create_from(elements)
    }

    /// A buffer with a label, a category, private storage, from the pool, or around memory that exists already.
    pub fn buffer_options(&self) -> BufferOptions<'_> {
        BufferOptions::new(self)
    }
}

/// `len` elements of device memory (`iron_buffer`).
///
/// The host reads and writes it through the methods here, each of which first waits for the commands in flight that
/// conflict. Commands read and write it through [`Tensor`](crate::Tensor)s, and keep it alive for as long as they need
/// it: dropping a buffer right after a commit is fine.
///
/// Host against host is settled by the borrow checker, since what changes the elements takes `&mut self`:
///
/// ```compile_fail,E0502
/// # fn main() -> Result<(), ironbridge::Error> {
/// let device = ironbridge::Device::open("cpu")?;
/// let mut buffer = device.buffer::<f32>(4)?;
/// let before = buffer.map()?;
/// buffer.write(&[1.0; 4])?; // the map would see it happen
/// println!("{}", before[0]);
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0499
/// # fn main() -> Result<(), ironbridge::Error> {
/// let device = ironbridge::Device::open("cpu")?;
/// let mut buffer = device.buffer::<f32>(4)?;
/// let mut one = buffer.map_mut()?;
/// let mut two = buffer.map_mut()?; // two mutable slices of one memory
/// one[0] = two[0];
/// # Ok(())
/// # }
/// ```
///
/// A buffer whose memory is lent for writing cannot even become an operand:
///
/// ```compile_fail,E0502
/// # fn main() -> Result<(), ironbridge::Error> {
/// let device = ironbridge::Device::open("cpu")?;
/// let mut buffer = device.buffer::<f32>(4)?;
/// let mut lent = buffer.map_mut()?;
/// let operand = buffer.tensor();
/// lent[0] = 1.0;
/// # Ok(())
/// # }
/// ```
///
/// Host against device is settled by the bridge: commands still being recorded that touch the buffer in conflict make
/// host access fail with [`Error::InUse`], and an open [`map`](Buffer::map) makes the recording of such commands fail
/// with it.
pub struct Buffer<T: Element> {
    pub(crate) handle: Handle<ffi::iron_buffer>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// The number of elements, at least 1.
    #[allow(clippy::len_without_is_empty, reason = "there are no empty buffers")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The label, cut to 255 bytes, or `""` (`iron_buffer_label`).
    pub fn label(&self) -> Result<String> {
        let mut label = [0u8; 256];
        // SAFETY: the handle is live and `label` has room for as many bytes as stated.
        check("Buffer::label", unsafe {
            ffi::iron_buffer_label(self.handle.as_ptr(), label.as_mut_ptr().cast(), label.len())
        })?;
        let end = label.iter().position(|&byte| byte == 0);
        Ok(String::from_utf8_lossy(&label[..end.unwrap_or(label.len())]).into_owned())
    }

    /// Names the buffer in reports and in Apple's tools (`iron_buffer_set_label`).
    pub fn set_label(&self, label: &str) -> Result<()> {
        let label = text("label", label)?;
        // SAFETY: the handle is live and the text NUL-terminated.
        check("Buffer::set_label", unsafe {
            ffi::iron_buffer_set_label(self.handle.as_ptr(), label.as_ptr())
        })
    }

    /// All elements, after waiting for the commands in flight that write them (`iron_buffer_read`).
    ///
    /// # Errors
    /// [`Error::InUse`] while commands that are still being recorded write the buffer, [`Error::Poisoned`] when the
    /// ones that should have written it failed.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut elements = vec![T::default(); self.len];
        self.read_into(&mut elements)?;
        Ok(elements)
    }

    /// Copies all elements into `elements`, which must be as long as the buffer. Errors as for
    /// [`to_vec`](Buffer::to_vec).
    pub fn read_into(&self, elements: &mut [T]) -> Result<()> {
        self.check_len("Buffer::read_into", elements.len())?;
        self.read_at(0, elements)
    }

    /// Copies the elements from index `start` on into `elements`. Errors as for [`to_vec`](Buffer::to_vec), and
    /// [`Error::InvalidArgument`] when the range leaves the buffer or is empty.
    pub fn read_at(&self, start: usize, elements: &mut [T]) -> Result<()> {
        let offset = self.byte_offset("Buffer::read_at", start, elements.len())?;
        // SAFETY: the handle is live, and `elements` may be written for its size with any bytes, as T is plain old
        // data.
        check("Buffer::read_at", unsafe {
            ffi::iron_buffer_read(
                self.handle.as_ptr(),
                offset,
                elements.as_mut_ptr().cast(),
                size_of_val(elements) as u64,
            )
        })
    }

    /// Overwrites all elements with `elements`, which must be as many, after waiting for the commands in flight that
    /// read or write them (`iron_buffer_write`). Clears a poisoning.
    ///
    /// # Errors
    /// [`Error::InUse`] while commands that are still being recorded touch the buffer, [`Error::ReadOnly`].
    pub fn write(&mut self, elements: &[T]) -> Result<()> {
        self.check_len("Buffer::write_at", elements.len())?;
        self.write_at(0, elements)
    }

    /// Overwrites the elements from index `start` on. Errors as for [`write`](Buffer::write), and
    /// [`Error::InvalidArgument`] when the range leaves the buffer or is empty.
    pub fn write_at(&mut self, start: usize, elements: &[T]) -> Result<()> {
        self.write_part(start, elements)
    }

    /// The same of a buffer that several own, each of whom writes a part.
    ///
    /// # Errors
    /// As for [`write_at`](Buffer::write_at), and [`Error::InUse`] while the host reads or writes any of it.
    pub(crate) fn write_part(&self, start: usize, elements: &[T]) -> Result<()> {
        let offset = self.byte_offset("Buffer::write_at", start, elements.len())?;
        // SAFETY: the handle is live, and `elements` may be read for its size: T has no padding. The bridge refuses
        // this while the buffer is mapped or another thread copies, and keeps the device's access away.
        check("Buffer::write_at", unsafe {
            ffi::iron_buffer_write(
                self.handle.as_ptr(),
                offset,
                elements.as_ptr().cast(),
                size_of_val(elements) as u64,
            )
        })
    }

    /// Lends the elements for reading, without a copy, after waiting for the commands in flight that write them
    /// (`iron_buffer_map`). While the guard lives, recording an operation that writes the buffer fails with
    /// [`Error::InUse`].
    ///
    /// # Errors
    /// As for [`to_vec`](Buffer::to_vec), and [`Error::Unsupported`] in private storage.
    pub fn map(&self) -> Result<ReadGuard<'_, T>> {
        Ok(ReadGuard {
            map: Map::open(&self.handle, self.len, ffi::IRON_ACCESS_READ)?,
        })
    }

    /// Lends the elements for reading and writing, without a copy, after waiting for the commands in flight that read
    /// or write them (`iron_buffer_map`).
    ///
    /// # Errors
    /// As for [`write`](Buffer::write), [`Error::Unsupported`] in private storage, and [`Error::Poisoned`], since the
    /// elements can be read as well.
    pub fn map_mut(&mut self) -> Result<WriteGuard<'_, T>> {
        Ok(WriteGuard {
            map: Map::open(&self.handle, self.len, ffi::IRON_ACCESS_READ_WRITE)?,
            buffer: PhantomData,
        })
    }

    fn check_len(&self, call: &'static str, len: usize) -> Result<()> {
        if len == self.len {
            return Ok(());
        }
        let message = format!("elements: {len}, but the buffer has {}", self.len);
        Err(Error::new(call, Status::Shape, message))
    }

    /// The byte offset of `start`, if `len` elements from there on are inside the buffer. The bridge alone would not
    /// do: it counts wrapped memory in whole pages.
    fn byte_offset(&self, call: &'static str, start: usize, len: usize) -> Result<u64> {
        match start.checked_add(len) {
            Some(end) if end <= self.len => Ok((start * size_of::<T>()) as u64),
            _ => {
                let message = format!(
                    "elements: {len} from {start} on leave the buffer's {}",
                    self.len
                );
                Err(Error::new(call, Status::OutOfRange, message))
            }
        }
    }
}

impl Buffer<u8> {
    /// All bytes of a buffer that was made elsewhere.
    pub(crate) fn of_bytes(handle: Handle<ffi::iron_buffer>) -> Result<Self> {
        let mut length = 0;
        // SAFETY: the handle is live and `length` may be written.
        check("Buffer::of_bytes", unsafe {
            ffi::iron_buffer_length(handle.as_ptr(), &mut length)
        })?;
        let len = usize::try_from(length)
            .map_err(|_| Error::new("Buffer::of_bytes", Status::Internal, "a length".into()))?;
        Ok(Buffer {
            handle,
            len,
            element: PhantomData,
        })
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = std::any::type_name::<T>().rsplit("::").next();
        f.debug_struct("Buffer")
            .field("element", &element.unwrap_or_default())
            .field("len", &self.len)
            .field("handle", &self.handle)
            .finish()
    }
}

/// One open map, ended on drop (`iron_buffer_unmap`).
struct Map<'a, T: Element> {
    handle: &'a Handle<ffi::iron_buffer>,
    access: ffi::iron_access,
    // Not a reference: the device may change the memory as soon as the map has ended, while this struct still exists.
    elements: NonNull<[T]>,
}

impl<'a, T: Element> Map<'a, T> {
    fn open(
        handle: &'a Handle<ffi::iron_buffer>,
        len: usize,
        access: ffi::iron_access,
    ) -> Result<Self> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the handle is live and `pointer` may be written.
        check("Buffer::map", unsafe {
            ffi::iron_buffer_map(handle.as_ptr(), access, &mut pointer)
        })?;
        let start = NonNull::new(pointer.cast::<T>()).unwrap_or(NonNull::dangling());
        let map = Map {
            handle,
            access,
            elements: NonNull::slice_from_raw_parts(start, len),
        };
        match !pointer.is_null() && start.is_aligned() {
            true => Ok(map), // else its drop ends the map
            false => Err(Error::new(
                "Buffer::map",
                Status::Internal,
                format!(
                    "a mapped address, {pointer:p}, that no {} lies at",
                    std::any::type_name::<T>()
                ),
            )),
        }
    }
}

impl<T: Element> Drop for Map<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the handle is live because it is borrowed, and `self` stands for one map that was opened with this
        // access.
        let status = unsafe { ffi::iron_buffer_unmap(self.handle.as_ptr(), self.access) };
        debug_assert_eq!(status, ffi::IRON_OK, "an open map was not open");
    }
}

// SAFETY: the handle may be used from any thread, a map may be ended on any thread, and the elements are lent to
// whoever holds the guard, which is safe to share and send for plain old data.
unsafe impl<T: Element> Send for Map<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Map<'_, T> {}

/// The elements of a [`Buffer`], lent for reading. Ends on drop.
pub struct ReadGuard<'a, T: Element> {
    map: Map<'a, T>,
}

impl<T: Element> Deref for ReadGuard<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `Map::open` checked the address; the bridge lends the whole buffer, at least `len` elements, until
        // the map ends, which the borrow of `self` prevents. Every bit pattern is a T. No host write: it needs `&mut`
        // of the buffer that the guard borrows. No device write: none is in flight, and the bridge refuses to record
        // one.
        unsafe { self.map.elements.as_ref() }
    }
}

/// The elements of a [`Buffer`], lent for reading and writing. Ends on drop.
pub struct WriteGuard<'a, T: Element> {
    map: Map<'a, T>,
    buffer: PhantomData<&'a mut Buffer<T>>,
}

impl<T: Element> Deref for WriteGuard<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as for `ReadGuard`.
        unsafe { self.map.elements.as_ref() }
    }
}

impl<T: Element> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `ReadGuard`; and no host or device read either, because the guard borrows the buffer mutably,
        // a map for writing waits for the commands that read it, and the bridge refuses to record one. Buffers do not
        // overlap: each has memory of its own, and wrapped memory that others can see is never lent for writing.
        unsafe { self.map.elements.as_mut() }
    }
}

impl<T: Element> fmt::Debug for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Element> fmt::Debug for WriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// How to make a [`Buffer`] (`iron_buffer_options`). From [`Device::buffer_options`].
///
/// ```
/// use ironbridge::{Device, memory::Category};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let device = Device::open("cpu")?;
/// let keys = device
///     .buffer_options()
///     .label("layer 0 keys")
///     .category(Category::KvCache)
///     .create::<f32>(1024)?;
/// assert_eq!(keys.label()?, "layer 0 keys");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "options make nothing by themselves"]
pub struct BufferOptions<'a> {
    pub(crate) device: &'a Device,
    label: Option<String>,
    category: Category,
    storage: Storage,
    usage: BufferUsage,
    pooled: bool,
}

impl<'a> BufferOptions<'a> {
    pub(crate) fn new(device: &'a Device) -> Self {
        BufferOptions {
            device,
            label: None,
            category: Category::Other,
            storage: Storage::Shared,
            usage: BufferUsage::Any,
            pooled: false,
        }
    }

    /// Names the buffer in reports and in Apple's tools.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// What the memory is counted under.
    pub fn category(mut self, category: Category) -> Self {
        self.category = category;
        self
    }

    /// What the buffer is used for. One of [`BufferUsage::Weights`] is made with [`create`](BufferOptions::create),
    /// lies where the device wants it, and is not pooled.
    pub fn usage(mut self, usage: BufferUsage) -> Self {
        self.usage = usage;
        self
    }

    /// Where the memory is.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Takes the memory from the device's pool and gives it back there: cheap to make again and again. Its contents
    /// start as whatever they were.
    pub fn pooled(mut self) -> Self {
        self.pooled = true;
        self
    }

    /// A buffer of `len` elements, zeroed unless pooled (`iron_buffer_create`).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `len` is zero or larger than the device's longest buffer,
    /// [`Error::OutOfMemory`].
    #[track_caller]
    pub fn create<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let message = format!("len: {len} elements overflow");
            Error::new("BufferOptions::create", Status::InvalidArgument, message)
        })?;
        let (options, _label) = self.native()?;
        note_caller();
        let handle = Handle::create("Device::buffer", |buffer| {
            // SAFETY: the device is live, the options start with their size and their label outlives the call, `buffer`
            // may be written.
            unsafe {
                ffi::iron_buffer_create(self.device.handle.as_ptr(), bytes as u64, &options, buffer)
            }
        })?;
        Ok(Buffer {
            handle,
            len,
            element: PhantomData,
        })
    }

    /// A buffer filled from `elements` (`iron_buffer_create_with_bytes`). Errors as for
    /// [`create`](BufferOptions::create).
    #[track_caller]
    pub fn create_from<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let (options, _label) = self.native()?;
        note_caller();
        let handle = Handle::create("Device::buffer_from", |buffer| {
            // SAFETY: as in `create`; `elements` may be read for its size, since T has no padding.
            unsafe {
                ffi::iron_buffer_create_with_bytes(
                    self.device.handle.as_ptr(),
                    elements.as_ptr().cast(),
                    size_of_val(elements) as u64,
                    &options,
                    buffer,
                )
            }
        })?;
        Ok(Buffer {
            handle,
            len: elements.len(),
            element: PhantomData,
        })
    }

    /// Makes `memory` itself a read-only buffer of bytes, without a copy (`iron_buffer_wrap`). The device drops the
    /// owner when the buffer and all commands that use it are gone; on failure it is dropped at once.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ironbridge::{Device, DType, memory::Category};
    ///
    /// let file = std::fs::File::open("model.gguf")?;
    /// // SAFETY: nobody changes the file while it is mapped.
    /// let model = unsafe { ironbridge::FileMapping::of(&file)? };
    /// let device = Device::open("default")?;
    /// let bytes = device.buffer_options().category(Category::Weights).wrap(model)?;
    /// let output_weight = bytes.tensor_at(4096, DType::Q8_0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the memory does not start on a page or is empty.
    #[track_caller]
    pub fn wrap<M: HostMemory>(&self, memory: M) -> Result<Buffer<u8>> {
        let (mut options, _label) = self.native()?;
        options.read_only = 1;

        // Boxed first: memory may lie inside its owner, which must not move any more.
        let owner = Box::into_raw(Box::new(memory));
        // SAFETY: just made from a box; nothing else refers to it.
        let bytes = unsafe { (*owner).bytes() };
        let len = bytes.len();
        let whole_pages = len.checked_next_multiple_of(page_size()).unwrap_or(len);
        note_caller();
        let made = Handle::create("BufferOptions::wrap", |buffer| {
            // SAFETY: `HostMemory` promises memory that is readable to the end of its last page and stays as long as
            // its owner, which only the callback drops; the bridge calls that once, and only if the wrapping succeeds.
            // `read_only` makes sure that nothing writes through the pointer. The rest as in `create`.
            unsafe {
                ffi::iron_buffer_wrap(
                    self.device.handle.as_ptr(),
                    bytes.as_ptr().cast_mut().cast(),
                    whole_pages as u64,
                    Some(drop_owner::<M>),
                    owner.cast(),
                    &options,
                    buffer,
                )
            }
        });
        match made {
            Ok(handle) => Ok(Buffer {
                handle,
                len,
                element: PhantomData,
            }),
            Err(error) => {
                // SAFETY: it was made by `Box::into_raw` above, and a failed wrapping never calls the callback.
                drop(unsafe { Box::from_raw(owner) });
                Err(error)
            }
        }
    }

    /// The C struct, and the label that it points to.
    pub(crate) fn native(&self) -> Result<(ffi::iron_buffer_options, Option<CString>)> {
        let label = self.label.as_deref().map(|label| text("label", label));
        let label = label.transpose()?;
        let options = ffi::iron_buffer_options {
            size: size_of::<ffi::iron_buffer_options>(),
            storage: match self.storage {
                Storage::Shared => ffi::IRON_STORAGE_SHARED,
                Storage::Private => ffi::IRON_STORAGE_PRIVATE,
            },
            category: self.category.native(),
            label: label.as_deref().map_or(ptr::null(), |label| label.as_ptr()),
            pooled: self.pooled.into(),
            read_only: 0,
            usage: self.usage.native(),
        };
        Ok((options, label))
    }
}

/// The bridge's release callback for the owner of wrapped memory.
unsafe extern "C" fn drop_owner<M: HostMemory>(
    _pointer: *mut std::ffi::c_void,
    _length: u64,
    context: *mut std::ffi::c_void,
) {
    // SAFETY: `context` is the pointer that `wrap::<M>` got from `Box::into_raw`, and the bridge calls this once.
    drop(unsafe { Box::from_raw(context.cast::<M>()) });
}

/// Memory of the host's that a device may read in place: see [`BufferOptions::wrap`].
///
/// # Safety
/// For as long as the owner lives and is not moved:
/// - [`bytes`](HostMemory::bytes) returns the same memory every time, and nothing changes its contents;
/// - the memory can be read to the end of the page in which it ends.
///
/// Dropping the owner, which happens on a thread of the device, neither panics nor calls ironbridge.
pub unsafe trait HostMemory: Send + Sync + 'static {
    /// The memory. It must start on a page, or wrapping it fails.
    fn bytes(&self) -> &[u8];
}

// SAFETY: what is shared does not move, and lives as long as any owner.
unsafe impl<M: HostMemory> HostMemory for Arc<M> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }
}
