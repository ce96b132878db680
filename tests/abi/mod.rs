//! The C functions as the tests call them: results instead of out-parameters, and figures about what is left over.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use ironbridge::ffi::*;

/// A call of a C function.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the bridge checks every handle and every NULL, which is what these tests are about; all other
        // pointers are to values that live through the call.
        unsafe { $function($($argument),*) }
    };
}
pub(crate) use call;

/// Waits for ever.
pub const FOREVER: u64 = u64::MAX;

/// The header's name of a status.
pub fn name(status: iron_status) -> &'static str {
    // SAFETY: takes any number and returns a static, NUL-terminated string.
    unsafe { CStr::from_ptr(iron_status_name(status)) }
        .to_str()
        .expect("status names are ASCII")
}

/// What the last failing call of this thread had to say.
pub fn last_error() -> String {
    // SAFETY: never NULL, NUL-terminated, valid until this thread's next failing call.
    unsafe { CStr::from_ptr(iron_last_error()) }
        .to_string_lossy()
        .into_owned()
}

#[track_caller]
pub fn ok(status: iron_status) {
    assert_eq!(status, IRON_OK, "{}: {}", name(status), last_error());
}

/// The call failed as expected, and its message names `subject`.
#[track_caller]
pub fn fails(status: iron_status, expected: iron_status, subject: &str) {
    let message = last_error();
    assert_eq!(
        name(status),
        name(expected),
        "expected a message about {subject:?}, the last one is {message:?}"
    );
    assert!(
        message.contains(subject),
        "the message should name {subject:?}: {message:?}"
    );
}

#[track_caller]
pub fn open(selector: &str) -> *mut iron_device {
    open_with(selector, &iron_device_options::default())
}

#[track_caller]
pub fn open_with(selector: &str, options: &iron_device_options) -> *mut iron_device {
    let selector = CString::new(selector).expect("no NUL");
    let options = iron_device_options {
        size: size_of::<iron_device_options>(),
        ..*options
    };
    let mut device = null_mut();
    // SAFETY: all pointers are valid for the call.
    ok(unsafe { iron_device_open(selector.as_ptr(), &options, &mut device) });
    device
}

/// A shared buffer of `bytes` zeros.
#[track_caller]
pub fn buffer(device: *mut iron_device, bytes: u64) -> *mut iron_buffer {
    let mut buffer = null_mut();
    // SAFETY: handles are checked by the bridge, the out-parameter is valid.
    ok(unsafe { iron_buffer_create(device, bytes, null(), &mut buffer) });
    buffer
}

pub fn buffer_options() -> iron_buffer_options {
    iron_buffer_options {
        size: size_of::<iron_buffer_options>(),
        ..Default::default()
    }
}

#[track_caller]
pub fn buffer_with(
    device: *mut iron_device,
    bytes: u64,
    options: &iron_buffer_options,
) -> *mut iron_buffer {
    let mut buffer = null_mut();
    // SAFETY: handles are checked by the bridge, the pointers are valid.
    ok(unsafe { iron_buffer_create(device, bytes, options, &mut buffer) });
    buffer
}

#[track_caller]
pub fn buffer_of(device: *mut iron_device, values: &[f32]) -> *mut iron_buffer {
    let mut buffer = null_mut();
    // SAFETY: `values` is read for its whole length, the out-parameter is valid.
    ok(unsafe {
        iron_buffer_create_with_bytes(
            device,
            values.as_ptr().cast(),
            size_of_val(values) as u64,
            null(),
            &mut buffer,
        )
    });
    buffer
}

#[track_caller]
pub fn write(buffer: *mut iron_buffer, values: &[f32]) {
    // SAFETY: `values` is read for its whole length.
    ok(unsafe {
        iron_buffer_write(
            buffer,
            0,
            values.as_ptr().cast(),
            size_of_val(values) as u64,
        )
    });
}

#[track_caller]
pub fn read(buffer: *mut iron_buffer, count: usize) -> Vec<f32> {
    let mut values = vec![0f32; count];
    ok(try_read(buffer, &mut values));
    values
}

pub fn try_read(buffer: *mut iron_buffer, values: &mut [f32]) -> iron_status {
    // SAFETY: `values` is written for its whole length; any bytes are an f32.
    unsafe {
        iron_buffer_read(
            buffer,
            0,
            values.as_mut_ptr().cast(),
            size_of_val(values) as u64,
        )
    }
}

#[track_caller]
pub fn begin(device: *mut iron_device) -> *mut iron_commands {
    let mut commands = null_mut();
    // SAFETY: handles are checked by the bridge, the out-parameter is valid.
    ok(unsafe { iron_commands_begin(device, null(), &mut commands) });
    commands
}

#[track_caller]
pub fn commit(commands: *mut iron_commands) {
    // SAFETY: handles are checked by the bridge.
    ok(unsafe { iron_commands_commit(commands) });
}

pub fn wait(commands: *mut iron_commands) -> iron_status {
    // SAFETY: handles are checked by the bridge.
    unsafe { iron_commands_wait(commands, FOREVER) }
}

#[track_caller]
pub fn commit_and_wait(commands: *mut iron_commands) {
    commit(commands);
    ok(wait(commands));
}

#[track_caller]
pub fn release_buffer(buffer: *mut iron_buffer) {
    // SAFETY: handles are checked by the bridge.
    ok(unsafe { iron_buffer_release(buffer) });
}

#[track_caller]
pub fn release_commands(commands: *mut iron_commands) {
    // SAFETY: handles are checked by the bridge.
    ok(unsafe { iron_commands_release(commands) });
}

#[track_caller]
pub fn release_device(device: *mut iron_device) {
    // SAFETY: handles are checked by the bridge.
    ok(unsafe { iron_device_release(device) });
}

/// The whole buffer as a packed matrix.
pub fn tensor(buffer: *mut iron_buffer, dtype: iron_dtype) -> iron_tensor {
    iron_tensor {
        buffer,
        dtype,
        ..Default::default()
    }
}

/// c = a b for packed F32 matrices.
pub fn matmul_of(
    (a, b, c): (*mut iron_buffer, *mut iron_buffer, *mut iron_buffer),
    (m, n, k): (u64, u64, u64),
) -> iron_matmul {
    iron_matmul {
        size: size_of::<iron_matmul>(),
        m,
        n,
        k,
        a: tensor(a, IRON_F32),
        b: tensor(b, IRON_F32),
        c: tensor(c, IRON_F32),
        ..Default::default()
    }
}

pub fn encode_matmul(commands: *mut iron_commands, matmul: &iron_matmul) -> iron_status {
    // SAFETY: `matmul` is valid for the call.
    unsafe { iron_encode_matmul(commands, matmul) }
}

pub fn fill(
    commands: *mut iron_commands,
    buffer: *mut iron_buffer,
    bytes: u64,
    value: u8,
) -> iron_status {
    // SAFETY: handles are checked by the bridge.
    unsafe { iron_encode_fill(commands, buffer, 0, bytes, value) }
}

#[track_caller]
pub fn memory(device: *mut iron_device) -> iron_memory_info {
    let mut info = iron_memory_info {
        size: size_of::<iron_memory_info>(),
        ..Default::default()
    };
    // SAFETY: `info` is valid and says its size.
    ok(unsafe { iron_memory_describe(device, &mut info) });
    info
}

#[track_caller]
pub fn describe(commands: *mut iron_commands) -> iron_commands_info {
    let mut info = iron_commands_info {
        size: size_of::<iron_commands_info>(),
        ..Default::default()
    };
    // SAFETY: `info` is valid and says its size.
    ok(unsafe { iron_commands_describe(commands, &mut info) });
    info
}

#[track_caller]
pub fn diagnose() -> iron_diagnostics {
    let mut diagnostics = iron_diagnostics {
        size: size_of::<iron_diagnostics>(),
        ..Default::default()
    };
    // SAFETY: `diagnostics` is valid and says its size.
    ok(unsafe { iron_diagnose(&mut diagnostics) });
    diagnostics
}

/// Live objects by class, those that have any.
pub fn live_objects() -> Vec<(String, i64)> {
    unsafe extern "C" fn visit(
        class: *const std::ffi::c_char,
        live: i64,
        context: *mut std::ffi::c_void,
    ) {
        // SAFETY: iron_live_objects hands back the context below, and a NUL-terminated name.
        let (list, class) = unsafe { (&mut *context.cast::<Vec<_>>(), CStr::from_ptr(class)) };
        if live != 0 {
            list.push((class.to_string_lossy().into_owned(), live));
        }
    }
    let mut list: Vec<(String, i64)> = Vec::new();
    // SAFETY: the callback fits the context and is only called during the call.
    ok(unsafe { iron_live_objects(Some(visit), (&raw mut list).cast()) });
    list
}

/// The figure becomes what is expected. Metal's own thread lets go of a command buffer, and of what that retains, just
/// after it has woken whoever waits.
#[track_caller]
pub fn settles<T: PartialEq + std::fmt::Debug>(expected: T, figure: impl Fn() -> T) {
    let start = Instant::now();
    while figure() != expected && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(figure(), expected, "live objects: {:?}", live_objects());
}

/// What must be the same before and after. Tests that use it are serial: the figures are the process's.
pub struct Baseline {
    handles: i64,
    objects: i64,
    without_pool: i64,
}

impl Baseline {
    #[track_caller]
    pub fn take() -> Baseline {
        let now = diagnose();
        Baseline {
            handles: now.live_handles,
            objects: now.live_objects,
            without_pool: now.autoreleased_without_pool,
        }
    }

    /// Nothing is left over.
    #[track_caller]
    pub fn holds(&self) {
        settles(self.objects, || diagnose().live_objects);
        let now = diagnose();
        assert_eq!(now.live_handles, self.handles, "handles");
        assert_eq!(
            now.autoreleased_without_pool, self.without_pool,
            "objects autoreleased without a pool"
        );
    }
}

/// Numbers in [-1, 1) that only depend on `seed`.
pub fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..count)
        .map(|_| {
            // xorshift64*, Vigna 2016.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
            bits as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// a (m × k) · b (k × n) in float64.
pub fn product(a: &[f32], b: &[f32], (m, n, k): (usize, usize, usize)) -> Vec<f64> {
    let mut c = vec![0f64; m * n];
    for i in 0..m {
        for x in 0..k {
            let left = f64::from(a[i * k + x]);
            for j in 0..n {
                c[i * n + j] += left * f64::from(b[x * n + j]);
            }
        }
    }
    c
}

/// f32 accumulation of `k` products of numbers below 1.
#[track_caller]
pub fn close(actual: &[f32], expected: &[f64], k: usize) {
    assert_eq!(actual.len(), expected.len());
    let tolerance = 1e-6 * (k as f64).max(1.0);
    for (index, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(actual) - expected).abs() <= tolerance,
            "element {index}: {actual}, expected {expected}"
        );
    }
}
