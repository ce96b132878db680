//! Subnormal numbers as zero, operands and results, as Apple's GPUs have them in every math mode.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;

/// While this lives, the calling thread computes so. For a thread that runs kernels: what Rust computes meanwhile is
/// integers.
pub struct Flush {
    before: u64,
}

impl Flush {
    pub fn begin() -> Flush {
        let before = control();
        set_control(before | ZEROES);
        Flush { before }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        set_control(self.before);
    }
}

/// MXCSR's flush-to-zero and denormals-are-zero.
#[cfg(target_arch = "x86_64")]
const ZEROES: u64 = 1 << 15 | 1 << 6;

#[cfg(target_arch = "x86_64")]
fn control() -> u64 {
    let mut value = 0u32;
    // SAFETY: writes the register's 32 bits to `value`.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
    value.into()
}

#[cfg(target_arch = "x86_64")]
fn set_control(value: u64) {
    let value = value as u32;
    // SAFETY: reads the register's 32 bits from `value`, which came from it but for two defined bits.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
}

/// FPCR's flush-to-zero, of operands and results.
#[cfg(target_arch = "aarch64")]
const ZEROES: u64 = 1 << 24;

#[cfg(target_arch = "aarch64")]
fn control() -> u64 {
    let value;
    // SAFETY: reads the register.
    unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

#[cfg(target_arch = "aarch64")]
fn set_control(value: u64) {
    // SAFETY: the value came from the register but for one defined bit.
    unsafe { asm!("msr fpcr, {}", in(reg) value, options(nomem, nostack, preserves_flags)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ZEROES: u64 = 0;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn control() -> u64 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn set_control(_: u64) {}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// A call, so that it is made where it stands: arithmetic alone may move past the change of a register.
    #[inline(never)]
    fn product(a: f32, b: f32) -> f32 {
        black_box(black_box(a) * black_box(b))
    }

    #[test]
    fn subnormal_numbers_are_zero_for_a_while() {
        let (result, operand) = {
            let _zeroes = Flush::begin();
            let result = product(f32::MIN_POSITIVE, 0.5);
            (result, product(f32::from_bits(1), 2e30))
        };
        assert_eq!((result.to_bits(), operand.to_bits()), (0, 0));
        assert_eq!(product(f32::MIN_POSITIVE, 0.5), f32::MIN_POSITIVE / 2.0);
    }
}
