//! What the tests share: devices, made-up numbers, comparisons.

use std::time::{Duration, Instant};

use half::f16;
use ironbridge::{Commands, Device, Error, Result, Status};

pub fn device() -> Device {
    Device::open("default").expect("every host has a device")
}

/// Records, commits and waits.
pub fn run(device: &Device, record: impl FnOnce(&mut Commands) -> Result<()>) -> Result<()> {
    let mut commands = device.commands()?;
    record(&mut commands)?;
    commands.commit()?.wait()
}

/// `len` numbers in [-1, 1), the same for the same seed (Steele, Lea and Flood 2014, SplitMix64).
pub fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

pub fn f64s(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

pub fn halves(values: &[f32]) -> Vec<f16> {
    values.iter().map(|&value| f16::from_f32(value)).collect()
}

pub fn f64s_of_halves(values: &[f16]) -> Vec<f64> {
    values.iter().map(|&value| value.to_f64()).collect()
}

/// Every element of `got` is within `tolerance` of `want`, relative to the largest element wanted.
#[track_caller]
pub fn assert_close(got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    let scale = want
        .iter()
        .fold(f64::MIN_POSITIVE, |max, value| max.max(value.abs()));
    for (index, (&got, &want)) in got.iter().zip(want).enumerate() {
        let off = (f64::from(got) - want).abs() / scale;
        assert!(
            off <= tolerance,
            "element {index} is {got}, not {want}: off by {off:e} of the largest"
        );
    }
}

/// The result is an error of this status, and its message says something.
#[track_caller]
pub fn assert_status<T>(result: Result<T>, status: Status) -> Error {
    match result {
        Ok(_) => panic!("succeeded instead of {status}"),
        Err(error) => {
            assert_eq!(error.status(), Some(status), "{error}");
            assert!(!error.to_string().is_empty());
            error
        }
    }
}

/// Asks until the answer is yes or ten seconds have passed: releases on the device's threads trail the wait.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
