//! A compiled kernel, loaded into this process.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Once;

use super::abi::{Argument, Entry, Group, Lane, SimdGroup};
use crate::msl::error::Error;

/// One kernel, specialised, ready to run. Its code stays loaded as long as this lives.
pub struct Function {
    name: String,
    validates: bool,
    entry: &'static Entry,
    /// Of a threadgroup, for reasons beside the source.
    most_threads: u32,
    _library: Handle,
}

// SAFETY: an entry is constant data and code, which any thread may use; the runtime state lives elsewhere.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl std::fmt::Debug for Function {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "Function({})", self.name)
    }
}

impl Function {
    /// Loads what `Compiler::kernel` made.
    pub fn load(path: &Path, name: &str, validates: bool) -> Result<Function, Error> {
        let library = Handle::open(path)?;
        let entry = library.symbol(c"msl_kernel_entry")?.cast::<Entry>();
        // SAFETY: the symbol is a msl_kernel of native/msl/cpu/abi.h, constant, at least as long as the three
        // sizes that are compared first; the rest has the layout that they state. It lives as long as `library`, which
        // the value that holds the reference owns.
        let entry = unsafe { &*entry };
        let ours = [
            size_of::<Lane>(),
            size_of::<Group>(),
            size_of::<SimdGroup>(),
        ];
        let theirs = [entry.lane_size, entry.group_size, entry.simdgroup_size];
        if theirs.map(|size| size as usize) != ours {
            return Err(Error::Host(format!(
                "{name}: the compiled library's structs have sizes {theirs:?} where {ours:?} are expected"
            )));
        }
        Ok(Function {
            name: String::from(name),
            validates,
            entry,
            most_threads: u32::MAX,
            _library: library,
        })
    }

    /// With at most this many threads in a threadgroup.
    pub fn with_most_threads(self, most_threads: u32) -> Function {
        Function {
            most_threads,
            ..self
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it checks every access to memory.
    pub fn validates(&self) -> bool {
        self.validates
    }

    pub fn max_total_threads(&self) -> u32 {
        self.entry.max_total_threads.min(self.most_threads)
    }

    /// Bytes of the kernel's own threadgroup variables.
    pub fn variable_bytes(&self) -> u32 {
        (self.entry.variables_end.addr() - self.entry.variables_start.addr()) as u32
    }

    pub fn arguments(&self) -> &[Argument] {
        // SAFETY: the library states the length of its own constant table.
        unsafe {
            std::slice::from_raw_parts(self.entry.arguments, self.entry.argument_count as usize)
        }
    }

    pub fn run(&self) -> unsafe extern "C" fn(*mut Lane) {
        self.entry.run
    }
}

/// A library of the dynamic loader.
struct Handle(*mut c_void);

impl Handle {
    fn open(path: &Path) -> Result<Handle, Error> {
        offer_mathematics();
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|error| Error::host(path.display(), error))?;
        // SAFETY: the file is a whole library that this user's compiler made (see `cache`), and it has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match handle.is_null() {
            true => Err(Error::host(path.display(), loader_error())),
            false => Ok(Handle(handle)),
        }
    }

    fn symbol(&self, name: &CStr) -> Result<*mut c_void, Error> {
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        match symbol.is_null() {
            true => Err(Error::Host(loader_error())),
            false => Ok(symbol),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open and closed once; whoever runs its code keeps the Function, and so this, alive.
        unsafe { libc::dlclose(self.0) };
    }
}

/// Compiled kernels take `expf` and the like from the process: a program that does not use the C library's mathematics
/// itself may not have them loaded.
fn offer_mathematics() {
    static ONCE: Once = Once::new();
    #[cfg(target_os = "linux")]
    ONCE.call_once(|| {
        // SAFETY: the name is a C string. The C library's mathematics have no constructors that could matter, and when
        // they are missing the kernel that needs them says so when it is loaded.
        unsafe { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    });
    #[cfg(not(target_os = "linux"))]
    ONCE.call_once(|| {});
}

fn loader_error() -> String {
    // SAFETY: dlerror returns NULL or a C string that is valid until this thread's next call of the loader.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => String::from("the dynamic loader failed"),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}
