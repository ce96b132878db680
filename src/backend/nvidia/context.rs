//! A GPU and its primary context, which is shared with other libraries of the process that use the driver.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::driver::{self, Driver, device_attribute};
use crate::backend::fault::Fault;
use crate::backend::time_limit::DISPATCH;
use crate::msl::ptx;

/// What is known of a GPU without using it.
#[derive(Clone, Debug)]
pub struct Properties {
    pub name: String,
    /// Bytes.
    pub memory: u64,
    /// Compute capability: major, minor.
    pub capability: (c_int, c_int),
    pub max_threads_per_threadgroup: u32,
    pub max_threadgroup_memory: u32,
    pub simd_width: u32,
    pub cores: u32,
    /// The host may touch managed memory while the GPU works.
    pub has_managed_memory: bool,
    /// Memory of the host's can be registered.
    pub registers: bool,
}

/// An open GPU.
pub struct Context {
    pub driver: Arc<Driver>,
    device: c_int,
    handle: driver::Context,
    pub properties: Properties,
    /// Its number.
    index: u32,
    /// How long a submission may take.
    pub limit: Option<Duration>,
    /// Why it is lost, since it is.
    lost: OnceLock<String>,
    /// A kernel does not end. The driver's functions might wait for it, so none is called any more, and what was
    /// allocated stays so for as long as the process lives.
    is_endless: AtomicBool,
}

/// The oldest compute capability whose instructions the kernels use.
const OLDEST: (c_int, c_int) = (8, 0);

/// How many GPUs there are.
pub fn count(driver: &Driver) -> Result<u32, Fault> {
    let mut count = 0;
    // SAFETY: a place for the count.
    driver.check("cuDeviceGetCount", unsafe {
        (driver.device_count)(&mut count)
    })?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// Looks a GPU up by its number.
fn find(driver: &Driver, index: u32) -> Result<c_int, Fault> {
    match count(driver)? {
        0 => return Err(driver.fault("cuDeviceGetCount", driver::status::NO_DEVICE)),
        count if index >= count => {
            return Err(Fault::Unsupported(format!(
                "there is no NVIDIA GPU {index}: the last one is {}",
                count - 1
            )));
        }
        _ => {}
    }
    let mut device = 0;
    // SAFETY: a place for the device, and an index below the count.
    driver.check("cuDeviceGet", unsafe {
        (driver.device_get)(&mut device, index as c_int)
    })?;
    Ok(device)
}

impl Properties {
    fn of(driver: &Driver, device: c_int) -> Result<Properties, Fault> {
        let mut name = [0 as c_char; 256];
        // SAFETY: a place for as many letters, the last of which stays 0.
        let status = unsafe { (driver.device_name)(name.as_mut_ptr(), 255, device) };
        driver.check("cuDeviceGetName", status)?;
        // SAFETY: ends with a 0, as above.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        let mut memory = 0;
        // SAFETY: a place for the size.
        driver.check("cuDeviceTotalMem", unsafe {
            (driver.device_memory)(&mut memory, device)
        })?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: a place for the value of a known attribute.
            let status = unsafe { (driver.device_attribute)(&mut value, attribute, device) };
            driver.check("cuDeviceGetAttribute", status)?;
            Ok::<c_int, Fault>(value)
        };
        let unsigned = |value: c_int| u32::try_from(value).unwrap_or(0);
        Ok(Properties {
            name: name.to_string_lossy().into_owned(),
            memory: memory as u64,
            capability: (
                attribute(device_attribute::COMPUTE_CAPABILITY_MAJOR)?,
                attribute(device_attribute::COMPUTE_CAPABILITY_MINOR)?,
            ),
            max_threads_per_threadgroup: unsigned(attribute(
                device_attribute::MAX_THREADS_PER_BLOCK,
            )?),
            max_threadgroup_memory: unsigned(attribute(
                device_attribute::MAX_SHARED_MEMORY_ON_REQUEST,
            )?),
            simd_width: unsigned(attribute(device_attribute::WARP_SIZE)?),
            cores: unsigned(attribute(device_attribute::MULTIPROCESSOR_COUNT)?),
            has_managed_memory: attribute(device_attribute::CONCURRENT_MANAGED_ACCESS)? != 0,
            registers: attribute(device_attribute::HOST_REGISTER_SUPPORTED)? != 0,
        })
    }
}

impl Context {
    /// Whether kernels start before their predecessors have ended, and wait for them.
    pub fn overlaps(&self) -> bool {
        self.properties.capability >= ptx::OVERLAPPING && self.driver.graph_depend.is_some()
    }

    /// Opens GPU `index`, whose submissions may take `limit` each.
    pub fn open(
        driver: Arc<Driver>,
        index: u32,
        limit: Option<Duration>,
    ) -> Result<Arc<Context>, Fault> {
        if let Some((_, text)) = driver.endless().iter().find(|(gpu, _)| *gpu == index) {
            return Err(Fault::DeviceLost(text.clone()));
        }
        let device = find(&driver, index)?;
        let properties = Properties::of(&driver, device)?;
        if properties.capability < OLDEST {
            let (major, minor) = properties.capability;
            return Err(Fault::Unsupported(format!(
                "{} has compute capability {major}.{minor}, and kernels need 8.0",
                properties.name
            )));
        }
        let mut handle = driver::Context(ptr::null_mut());
        // SAFETY: a place for the context of a device that exists; released when this is dropped.
        let status = unsafe { (driver.context_retain)(&mut handle, device) };
        driver.check("cuDevicePrimaryCtxRetain", status)?;
        Ok(Arc::new(Context {
            driver,
            device,
            handle,
            properties,
            index,
            limit,
            lost: OnceLock::new(),
            is_endless: AtomicBool::new(false),
        }))
    }

    /// Makes the context the calling thread's own until the guard goes, and then what it was before.
    pub fn enter(&self) -> Result<Entered<'_>, Fault> {
        if self.is_endless.load(Ordering::Relaxed) {
            self.still_there()?;
        }
        // SAFETY: a context that is retained.
        let status = unsafe { (self.driver.context_push)(self.handle) };
        self.check("cuCtxPushCurrent", status)?;
        Ok(Entered(self))
    }

    /// The error that a call returned, if it did. One that ends the context is remembered.
    pub fn check(&self, what: &str, status: driver::Status) -> Result<(), Fault> {
        let checked = self.driver.check(what, status);
        match checked {
            Err(Fault::DeviceLost(text)) => {
                // The first reason is the one to tell.
                let _ = self.lost.set(text.clone());
                Err(Fault::DeviceLost(text))
            }
            Err(Fault::OutOfMemory(text)) => Err(Fault::OutOfMemory(text + &self.free_memory())),
            other => other,
        }
    }

    /// What other processes leave, in words; nothing when the driver does not say.
    fn free_memory(&self) -> String {
        let (mut free, mut total) = (0, 0);
        // SAFETY: places for both sizes.
        match unsafe { (self.driver.memory_info)(&mut free, &mut total) } {
            driver::status::SUCCESS => {
                let [free, total] = [free, total].map(|bytes| bytes >> 20);
                format!(": {free} of {total} MiB are free")
            }
            _ => String::new(),
        }
    }

    /// A submission took longer than `limit`: the device is lost. Returns the submission's own error.
    pub fn give_up(&self, limit: Duration) -> Fault {
        let text = format!(
            "a submission took more than {} s ({}); its kernels end with the process, so start the process again",
            limit.as_secs_f32(),
            DISPATCH.variable
        );
        let _ = self.lost.set(text.clone());
        self.is_endless.store(true, Ordering::Relaxed);
        self.driver.endless().push((self.index, text.clone()));
        Fault::Timeout(text)
    }

    /// The error of a device that is lost.
    pub fn still_there(&self) -> Result<(), Fault> {
        match self.lost.get() {
            None => Ok(()),
            Some(text) => Err(Fault::DeviceLost(text.clone())),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.is_endless.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: retained once. Whatever was made in it keeps this alive.
        let _ = unsafe { (self.driver.context_release)(self.device) };
    }
}

/// A context that is the calling thread's own.
pub struct Entered<'c>(&'c Context);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut context = driver::Context(ptr::null_mut());
        // SAFETY: a place for the context, which this thread pushed.
        let _ = unsafe { (self.0.driver.context_pop)(&mut context) };
    }
}
