//! What opens when nobody names a device: the environment's.

use std::ptr::{null, null_mut};

use ironbridge::ffi::*;

use crate::abi::*;

crate::harness::cases! {
    the_environment_names_the_default_device,
}

fn the_environment_names_the_default_device() {
    const VARIABLE: &str = "IRONBRIDGE_DEVICE";
    let baseline = Baseline::take();
    let before = std::env::var_os(VARIABLE);
    let set = |value: Option<&std::ffi::OsStr>| match value {
        // SAFETY: no other thread of this process reads the environment.
        Some(value) => unsafe { std::env::set_var(VARIABLE, value) },
        // SAFETY: as above.
        None => unsafe { std::env::remove_var(VARIABLE) },
    };
    let open_default = |selector: *const std::ffi::c_char| {
        let mut device = null_mut();
        let status = call!(iron_device_open(selector, null(), &mut device));
        (status, device)
    };
    for selector in [null(), c"".as_ptr(), c"default".as_ptr()] {
        set(Some("cpu:max_buffer_length=12345".as_ref()));
        let (status, device) = open_default(selector);
        ok(status);
        let mut info = iron_device_info {
            size: size_of::<iron_device_info>(),
            ..Default::default()
        };
        ok(call!(iron_device_describe(device, &mut info)));
        assert_eq!(info.max_buffer_length, 12345);
        release_device(device);

        set(Some("nonsense".as_ref()));
        let (status, _) = open_default(selector);
        fails(status, IRON_ERROR_NO_DEVICE, "nonsense");

        for value in [None, Some("".as_ref()), Some("default".as_ref())] {
            set(value);
            let (status, device) = open_default(selector);
            ok(status);
            release_device(device);
        }
    }
    set(before.as_deref());
    baseline.holds();
}
