//! Figures about the bridge itself, over the whole process: the ones behind every "nothing is left" test.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};

use crate::error::{Result, check};
use crate::ffi;

#[cfg(feature = "software-device")]
pub use crate::backend::cpu::report::{KernelRule, SoftwareDevice};
#[cfg(feature = "msl")]
#[doc(hidden)]
pub use crate::backend::cpu::work::{
    KernelWork, RecordedWork, begin as record_work, end as recorded_work,
};
#[cfg(feature = "software-device")]
pub use crate::msl::compiler_info::MetalCompiler;

/// How many of the bridge's things exist at one moment (`iron_diagnostics`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostics {
    /// Handles given out and not given back, of all kinds.
    pub live_handles: i64,
    /// Objective-C objects of ironbridge's own classes.
    pub live_objects: i64,
    /// Objects autoreleased where no pool would ever release them, since the start. `None` where the runtime cannot
    /// tell (Apple's).
    pub autoreleased_without_pool: Option<i64>,
}

/// The figures of this moment (`iron_diagnose`).
pub fn diagnose() -> Result<Diagnostics> {
    let mut native = ffi::iron_diagnostics {
        size: size_of::<ffi::iron_diagnostics>(),
        ..Default::default()
    };
    // SAFETY: `native` may be written and starts with its size.
    check("diagnostics::diagnose", unsafe {
        ffi::iron_diagnose(&mut native)
    })?;
    Ok(Diagnostics {
        live_handles: native.live_handles,
        live_objects: native.live_objects,
        autoreleased_without_pool: (native.autoreleased_without_pool >= 0)
            .then_some(native.autoreleased_without_pool),
    })
}

/// The live objects of each of ironbridge's Objective-C classes, by class name (`iron_live_objects`).
pub fn live_objects() -> Result<BTreeMap<String, i64>> {
    let mut classes = BTreeMap::new();
    // SAFETY: `collect` takes the context for what it is, a map that nothing else uses during the call.
    check("diagnostics::live_objects", unsafe {
        ffi::iron_live_objects(Some(collect), (&raw mut classes).cast())
    })?;
    Ok(classes)
}

unsafe extern "C" fn collect(class_name: *const c_char, live: i64, context: *mut c_void) {
    // SAFETY: the context that `live_objects` passes, during its call.
    let classes = unsafe { &mut *context.cast::<BTreeMap<String, i64>>() };
    // SAFETY: the bridge passes NUL-terminated text.
    let name = unsafe { CStr::from_ptr(class_name) };
    classes.insert(name.to_string_lossy().into_owned(), live);
}
