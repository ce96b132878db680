//! ironbridge beside a program's own Metal code: its devices, queues and buffers, its pipeline caches and its captures.
//!
//! Metal's objects are `*mut c_void` here, an `id<MTLDevice>`, `id<MTLCommandQueue>` or `id<MTLBuffer>`, for which Rust
//! has more than one crate. What is handed in is retained for as long as it is used.

use std::ffi::c_void;
use std::path::Path;
use std::ptr;

use crate::buffer::{Buffer, BufferOptions};
use crate::device::{Device, DeviceOptions, path_text};
use crate::dtype::Element;
use crate::error::{Result, check};
use crate::ffi;
use crate::handle::{Handle, note_caller};

impl DeviceOptions {
    /// Opens a Metal device of the caller's with these limits (`iron_device_wrap_metal`). Commands go to `queue`, or,
    /// where that is null, to a queue of their own. On a queue of the caller's at most 16 command buffers are in flight
    /// and 32 are recorded at once.
    ///
    /// # Safety
    /// `device` is an `id<MTLDevice>` or null, `queue` an `id<MTLCommandQueue>` or null.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when the device is null or is none,
    /// [`Error::WrongDevice`](crate::Error::WrongDevice) when the queue is another device's,
    /// [`Error::Unsupported`](crate::Error::Unsupported) when the GPU cannot run ironbridge's kernels.
    pub unsafe fn wrap_metal(&self, device: *mut c_void, queue: *mut c_void) -> Result<Device> {
        let options = ffi::iron_device_options {
            size: size_of::<ffi::iron_device_options>(),
            ..self.native
        };
        let handle = Handle::create("DeviceOptions::wrap_metal", |opened| {
            // SAFETY: the caller vouches for the objects; the options start with their size, `opened` may be written.
            unsafe { ffi::iron_device_wrap_metal(device, queue, &options, opened) }
        })?;
        Ok(Device { handle })
    }
}

/// A device's own objects, neither of them retained; they live at least as long as the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetalObjects {
    /// The `id<MTLDevice>`.
    pub device: *mut c_void,
    /// The `id<MTLCommandQueue>` that its commands go to.
    pub queue: *mut c_void,
}

impl Device {
    /// The device's own Metal objects (`iron_device_metal`).
    pub fn metal_objects(&self) -> Result<MetalObjects> {
        let mut objects = MetalObjects {
            device: ptr::null_mut(),
            queue: ptr::null_mut(),
        };
        // SAFETY: the handle is live and both places may be written.
        check("Device::metal_objects", unsafe {
            ffi::iron_device_metal(
                self.handle.as_ptr(),
                &mut objects.device,
                &mut objects.queue,
            )
        })?;
        Ok(objects)
    }

    /// Keeps the pipelines that are made from now on in a binary archive, and takes from it those that it has
    /// (`iron_pipeline_cache_open`). There may be no such file yet.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) when there is a file that is no archive of such a device,
    /// [`Error::State`](crate::Error::State) when the device has one already.
    pub fn open_pipeline_cache(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path_text(path.as_ref())?;
        // SAFETY: the handle is live and the text NUL-terminated.
        check("Device::open_pipeline_cache", unsafe {
            ffi::iron_pipeline_cache_open(self.handle.as_ptr(), path.as_ptr())
        })
    }

    /// Writes the pipelines to their file (`iron_pipeline_cache_save`).
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) when it cannot be written, [`Error::State`](crate::Error::State) when none
    /// was opened.
    pub fn save_pipeline_cache(&self) -> Result<()> {
        // SAFETY: the handle is live.
        check("Device::save_pipeline_cache", unsafe {
            ffi::iron_pipeline_cache_save(self.handle.as_ptr())
        })
    }

    /// Captures what the device executes, for Xcode's Metal debugger, until the result is dropped
    /// (`iron_capture_begin`). `path` ends in `.gputrace` and does not exist.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) in a process that was started without
    /// `MTL_CAPTURE_ENABLED=1`, [`Error::State`](crate::Error::State) during another capture,
    /// [`Error::File`](crate::Error::File) when the file exists or cannot be written.
    pub fn capture(&self, path: impl AsRef<Path>) -> Result<Capture> {
        let path = path_text(path.as_ref())?;
        // SAFETY: the handle is live and the text NUL-terminated.
        check("Device::capture", unsafe {
            ffi::iron_capture_begin(self.handle.as_ptr(), path.as_ptr())
        })?;
        Ok(Capture {
            device: self.clone(),
        })
    }
}

/// A capture under way, which ends when this is dropped. From [`Device::capture`].
#[derive(Debug)]
#[must_use = "the capture ends when this is dropped"]
pub struct Capture {
    device: Device,
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: the handle is live. It fails only when the device was closed.
        unsafe { ffi::iron_capture_end(self.device.handle.as_ptr()) };
    }
}

impl BufferOptions<'_> {
    /// A buffer of bytes around one of the caller's, of the same device, in shared or private storage
    /// (`iron_buffer_wrap_metal`). Only its label and category can be chosen.
    ///
    /// # Safety
    /// `buffer` is an `id<MTLBuffer>` or null. While commands or guards of this crate use its contents, nobody else
    /// writes them, and while they write, nobody else reads them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when it is null or none,
    /// [`Error::WrongDevice`](crate::Error::WrongDevice), [`Error::Unsupported`](crate::Error::Unsupported) when its
    /// storage is neither.
    #[track_caller]
    pub unsafe fn wrap_metal(&self, buffer: *mut c_void) -> Result<Buffer<u8>> {
        let (options, _label) = self.native()?;
        note_caller();
        let handle = Handle::create("BufferOptions::wrap_metal", |wrapped| {
            // SAFETY: the device is live, the caller vouches for the object, the options start with their size and
            // their label outlives the call, `wrapped` may be written.
            unsafe {
                ffi::iron_buffer_wrap_metal(self.device.handle.as_ptr(), buffer, &options, wrapped)
            }
        })?;
        Buffer::of_bytes(handle)
    }
}

impl<T: Element> Buffer<T> {
    /// The `id<MTLBuffer>`, not retained (`iron_buffer_metal`). It may be longer than the buffer, and lives at least as
    /// long. What other Metal code does with its contents, this crate neither orders nor sees.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a buffer of weights.
    pub fn metal_object(&self) -> Result<*mut c_void> {
        let mut object = ptr::null_mut();
        // SAFETY: the handle is live and `object` may be written.
        check("Buffer::metal_object", unsafe {
            ffi::iron_buffer_metal(self.handle.as_ptr(), &mut object)
        })?;
        Ok(object)
    }
}
