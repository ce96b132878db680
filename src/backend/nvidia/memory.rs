//! Buffers. What the host reaches is pinned memory of the host's, which the GPU reads over the bus. Where it is long,
//! and the host may touch managed memory while the GPU works, it is that, which migrates to whoever uses it. Everything
//! else is the GPU's own.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::context::Context;
use super::driver::{self, Address};
use super::loading::Lanes;
use crate::backend::fault::Fault;
use crate::backend::vtable::{self, HostPages, Matrix, Storage};
use crate::tables::dtypes;

/// What all buffers of a device share.
#[derive(Default)]
pub struct Managed {
    /// Managed memory that a process has, in bytes. More of it than the GPU has could not be resident at once.
    used: AtomicU64,
    lanes: Lanes,
}

/// The longest shared buffer that is pinned, in bytes: what host and GPU hand to each other is short, and a page that
/// migrates takes longer than reading it over the bus.
const MOST_PINNED: u64 = 2 << 20;

/// Of the GPU's memory this part, in eighths, may be managed.
const MOST_MANAGED: u64 = 7;

impl Managed {
    fn reserve(&self, bytes: u64, context: &Context) -> Result<(), Fault> {
        let most = context.properties.memory / 8 * MOST_MANAGED;
        let reserved = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= most)
            });
        match reserved {
            Ok(_) => Ok(()),
            Err(used) => Err(Fault::OutOfMemory(format!(
                "a shared buffer of {bytes} bytes does not fit: {used} of {most} bytes are in use"
            ))),
        }
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Where a buffer's memory is from.
enum Origin {
    /// The GPU's own.
    Device,
    Managed,
    /// The host's, allocated for the GPU.
    Pinned,
    /// The caller's.
    Registered,
}

/// Memory that kernels reach.
pub struct Buffer {
    context: Arc<Context>,
    managed: Arc<Managed>,
    origin: Origin,
    address: Address,
    contents: Option<NonNull<u8>>,
    length: u64,
}

// SAFETY: what `contents` points to belongs to whoever uses the buffer; this never touches it.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub fn create(
        context: &Arc<Context>,
        managed: &Arc<Managed>,
        length: u64,
        storage: Storage,
    ) -> Result<Buffer, Fault> {
        context.still_there()?;
        let _entered = context.enter()?;
        let bytes = usize::try_from(length.max(1))
            .map_err(|_| Fault::OutOfMemory(format!("{length} bytes are too many")))?;
        let origin = match storage {
            Storage::Private | Storage::Weights => Origin::Device,
            Storage::Shared if context.properties.has_managed_memory && length > MOST_PINNED => {
                Origin::Managed
            }
            Storage::Shared => Origin::Pinned,
        };
        let mut buffer = Buffer {
            context: Arc::clone(context),
            managed: Arc::clone(managed),
            origin,
            address: 0,
            contents: None,
            length,
        };
        let driver = &context.driver;
        match buffer.origin {
            Origin::Device => {
                // SAFETY: a place for the address.
                let status = unsafe { (driver.memory_allocate)(&mut buffer.address, bytes) };
                context.check("cuMemAlloc", status)?;
            }
            Origin::Managed => {
                managed.reserve(length, context)?;
                // SAFETY: a place for the address.
                let status = unsafe {
                    (driver.memory_allocate_managed)(
                        &mut buffer.address,
                        bytes,
                        driver::ATTACH_GLOBAL,
                    )
                };
                if status != driver::status::SUCCESS {
                    managed.give_back(length);
                }
                context.check("cuMemAllocManaged", status)?;
                buffer.contents =
                    NonNull::new(ptr::with_exposed_provenance_mut(buffer.address as usize));
            }
            Origin::Pinned | Origin::Registered => {
                let mut pointer = ptr::null_mut();
                // SAFETY: a place for the pointer.
                let status =
                    unsafe { (driver.host_allocate)(&mut pointer, bytes, driver::HOST_MAPPED) };
                context.check("cuMemHostAlloc", status)?;
                buffer.contents = NonNull::new(pointer.cast());
                buffer.address = address_of(context, pointer)?;
            }
        }
        match (&buffer.origin, buffer.contents) {
            // SAFETY: as many bytes of the host's, just allocated.
            (Origin::Pinned, Some(contents)) => unsafe { contents.as_ptr().write_bytes(0, bytes) },
            _ => {
                // SAFETY: as many bytes of the GPU's, just allocated.
                let status = unsafe { (driver.set_bytes)(buffer.address, 0, bytes) };
                context.check("cuMemsetD8", status)?;
                // The host may look at once, and streams do not wait for this. To wait for the whole context would be
                // to wait for what they execute.
                // SAFETY: the default stream of this thread's context.
                let status = unsafe { (driver.stream_synchronize)(driver::Stream::DEFAULT) };
                context.check("cuStreamSynchronize", status)?;
            }
        }
        Ok(buffer)
    }

    /// A buffer over pages of the host's.
    pub fn import(
        context: &Arc<Context>,
        managed: &Arc<Managed>,
        pages: &HostPages,
    ) -> Result<Buffer, Fault> {
        let refused =
            || Fault::Unsupported(String::from("this GPU cannot use memory of the host's"));
        if !context.properties.registers || pages.read_only {
            return Err(refused());
        }
        context.still_there()?;
        let _entered = context.enter()?;
        let pointer: *mut c_void = pages.pointer.as_ptr().cast();
        let bytes = usize::try_from(pages.length).map_err(|_| refused())?;
        let driver = &context.driver;
        // SAFETY: whole pages that outlive the buffer, which unregisters them.
        let status = unsafe { (driver.host_register)(pointer, bytes, driver::REGISTER_MAPPED) };
        context
            .check("cuMemHostRegister", status)
            .map_err(|fault| match fault {
                // Mappings of files and memory that is registered already cannot be.
                Fault::Internal(_) => refused(),
                other => other,
            })?;
        let mut buffer = Buffer {
            context: Arc::clone(context),
            managed: Arc::clone(managed),
            origin: Origin::Registered,
            address: 0,
            contents: Some(pages.pointer),
            length: pages.length,
        };
        buffer.address = address_of(context, pointer)?;
        Ok(buffer)
    }

    /// The bytes that rows of a matrix take, from `first` on.
    fn rows(
        &self,
        matrix: &Matrix,
        first: u64,
        count: u64,
        bytes: usize,
    ) -> Result<Address, Fault> {
        let row = row_bytes(matrix.dtype, matrix.width).ok_or_else(|| {
            Fault::Invalid(String::from("weights of this type have no such rows"))
        })?;
        let place = || {
            let start = matrix.offset.checked_add(first.checked_mul(row)?)?;
            let length = count.checked_mul(row)?;
            let fits = start.checked_add(length)? <= self.length && length == bytes as u64;
            fits.then_some(self.address + start)
        };
        place().ok_or_else(|| {
            Fault::OutOfBounds(format!(
                "{count} rows of {row} bytes from row {first} on are not in this buffer"
            ))
        })
    }
}

/// The bytes of a row of `width` elements; `None` when it is not whole blocks.
fn row_bytes(dtype: u32, width: u64) -> Option<u64> {
    macro_rules! sizes {
        ($($variant:ident { block $block:ident, name $name:literal, constant $constant:ident,
            ggml $ggml:ident = $number:literal, $elements:literal in $bytes:literal, aligned $alignment:literal,
            scale $scale:ident, $doc:literal })*) => {
            match dtype {
                $(crate::ffi::$constant => Some(($elements, $bytes)),)*
                _ => None,
            }
        };
    }
    let (elements, bytes): (u64, u64) = dtypes!(sizes)?;
    width
        .is_multiple_of(elements)
        .then(|| width / elements * bytes)
}

/// Where the GPU finds memory of the host's.
fn address_of(context: &Context, pointer: *mut c_void) -> Result<Address, Fault> {
    let mut address = 0;
    // SAFETY: a place for the address of memory that is mapped.
    let status = unsafe { (context.driver.host_address)(&mut address, pointer, 0) };
    context.check("cuMemHostGetDevicePointer", status)?;
    Ok(address)
}

impl vtable::Buffer for Buffer {
    fn address(&self) -> u64 {
        self.address
    }

    fn contents(&self) -> Option<NonNull<u8>> {
        self.contents
    }

    fn write_weights(
        &self,
        matrix: &Matrix,
        first: u64,
        count: u64,
        rows: &[u8],
    ) -> Result<(), Fault> {
        self.context.still_there()?;
        let to = self.rows(matrix, first, count, rows.len())?;
        let _entered = self.context.enter()?;
        if self.managed.lanes.copy(&self.context, to, rows)? {
            return Ok(());
        }
        // SAFETY: as many bytes in both places, as was checked.
        let status =
            unsafe { (self.context.driver.copy_to_device)(to, rows.as_ptr().cast(), rows.len()) };
        self.context.check("cuMemcpyHtoD", status)
    }

    fn read_weights(
        &self,
        matrix: &Matrix,
        first: u64,
        count: u64,
        rows: &mut [u8],
    ) -> Result<(), Fault> {
        self.context.still_there()?;
        let from = self.rows(matrix, first, count, rows.len())?;
        let _entered = self.context.enter()?;
        // SAFETY: as many bytes in both places, as was checked.
        let status = unsafe {
            (self.context.driver.copy_to_host)(rows.as_mut_ptr().cast(), from, rows.len())
        };
        self.context.check("cuMemcpyDtoH", status)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Origin::Managed = self.origin
            && self.address != 0
        {
            self.managed.give_back(self.length);
        }
        let Ok(_entered) = self.context.enter() else {
            return; // the context is gone, and its memory with it
        };
        let driver = &self.context.driver;
        let contents: *mut c_void = match self.contents {
            Some(contents) => contents.as_ptr().cast(),
            None => ptr::null_mut(),
        };
        // SAFETY: what `create` or `import` made, freed once; no submission in flight uses it.
        let status = unsafe {
            match self.origin {
                Origin::Device | Origin::Managed if self.address == 0 => return,
                Origin::Device | Origin::Managed => (driver.memory_free)(self.address),
                Origin::Pinned | Origin::Registered if contents.is_null() => return,
                Origin::Pinned => (driver.host_free)(contents),
                Origin::Registered => (driver.host_unregister)(contents),
            }
        };
        // Remembers a device that is lost; there is nobody to tell anything else.
        let _ = self.context.check("cuMemFree", status);
    }
}
