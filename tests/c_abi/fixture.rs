//! What every test starts from and ends with.

use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

use ironbridge::ffi::*;

use crate::abi::*;

/// One of everything, and a matmul to prove that the device still works.
pub struct Fixture {
    baseline: Baseline,
    pub device: *mut iron_device,
    pub buffer: *mut iron_buffer,
    pub commands: *mut iron_commands,
    pub library: *mut iron_library,
    pub kernel: *mut iron_kernel,
    memory: iron_memory_info,
}

pub const BUFFER_BYTES: u64 = 4096;
pub const KERNEL: &CStr = c"matmul_f32_f32";

impl Fixture {
    pub fn new() -> Fixture {
        let baseline = Baseline::take();
        let device = open("cpu");
        let buffer = buffer(device, BUFFER_BYTES);
        let mut library = null_mut();
        ok(call!(iron_library_create(
            device,
            matmul_source(),
            &mut library
        )));
        let mut kernel = null_mut();
        ok(call!(iron_kernel_create(
            library,
            KERNEL.as_ptr(),
            null(),
            0,
            &mut kernel
        )));
        Fixture {
            baseline,
            device,
            buffer,
            commands: begin(device),
            library,
            kernel,
            memory: memory(device),
        }
    }

    /// Nothing was recorded, nothing was lost, and the device computes.
    pub fn finish(self) {
        assert_eq!(describe(self.commands).operations, 0);
        let now = memory(self.device);
        assert_eq!(now.active_bytes, self.memory.active_bytes);
        assert_eq!(now.pool_bytes, self.memory.pool_bytes);
        assert_eq!(now.in_flight, 0);
        settles(self.memory.device_bytes, || {
            memory(self.device).device_bytes
        });

        let (a, b, c) = (
            buffer_of(self.device, &[1.0, 2.0, 3.0, 4.0]),
            buffer_of(self.device, &[0.0, 1.0, 1.0, 0.0]),
            buffer(self.device, 16),
        );
        ok(encode_matmul(
            self.commands,
            &matmul_of((a, b, c), (2, 2, 2)),
        ));
        commit_and_wait(self.commands);
        assert_eq!(read(c, 4), [2.0, 1.0, 4.0, 3.0]);

        for buffer in [a, b, c, self.buffer] {
            release_buffer(buffer);
        }
        ok(call!(iron_kernel_release(self.kernel)));
        ok(call!(iron_library_release(self.library)));
        release_commands(self.commands);
        release_device(self.device);
        self.baseline.holds();
    }
}

/// The source of ironbridge's own matmul kernels, which the software device runs without a compiler.
pub fn matmul_source() -> *const std::ffi::c_char {
    #[repr(C)]
    struct KernelText {
        bytes: *const u8,
        length: usize,
    }
    #[repr(C)]
    struct KernelSource {
        family: *const std::ffi::c_char,
        parts: *const KernelText,
        part_count: usize,
    }
    unsafe extern "C" {
        // native/kernels/sources.h
        static kernel_sources: [KernelSource; 0];
        static kernel_source_count: usize;
    }
    static SOURCE: std::sync::LazyLock<CString> = std::sync::LazyLock::new(|| {
        // SAFETY: sources.h: the array has that many entries, whose families end with a NUL.
        let sources =
            unsafe { std::slice::from_raw_parts(kernel_sources.as_ptr(), kernel_source_count) };
        let mut sources = sources.iter();
        // SAFETY: as above.
        let source = sources.find(|source| unsafe { CStr::from_ptr(source.family) } == c"matmul");
        let source = source.expect("native/kernels/matmul.metal");
        // SAFETY: as above; a part has `length` bytes.
        let parts = unsafe { std::slice::from_raw_parts(source.parts, source.part_count) };
        let bytes = parts
            .iter()
            // SAFETY: as above.
            .flat_map(|part| unsafe { std::slice::from_raw_parts(part.bytes, part.length) });
        CString::new(bytes.copied().collect::<Vec<u8>>()).expect("no NUL")
    });
    SOURCE.as_ptr()
}

/// Page-aligned memory of one page, for all tests.
pub fn page() -> *mut c_void {
    static PAGE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let address = *PAGE.get_or_init(|| {
        let size = page_size() as usize;
        let layout = std::alloc::Layout::from_size_align(size, size).expect("a power of two");
        // SAFETY: the layout is of more than zero bytes.
        unsafe { std::alloc::alloc_zeroed(layout) as usize }
    });
    address as *mut c_void
}

pub fn page_size() -> u64 {
    // SAFETY: takes no pointer.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}
