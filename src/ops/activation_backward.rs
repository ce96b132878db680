//! Backward of the functions of one element.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::Elementwise;

impl Commands {
    /// Records the backward of [`relu`](Commands::relu): `out = b` where `a > 0`, else 0, with `a` relu's output and
    /// `b` the gradient of that (`iron_encode_relu_backward`). NaN in `a` stays NaN.
    #[track_caller]
    pub fn relu_backward(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let call = "Commands::relu_backward";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_relu_backward(self.recorder(), &native)
        })
    }

    /// Records the backward of [`sigmoid`](Commands::sigmoid): `out = b · a · (1 - a)`, with `a` sigmoid's output and
    /// `b` the gradient of that (`iron_encode_sigmoid_backward`).
    #[track_caller]
    pub fn sigmoid_backward(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let call = "Commands::sigmoid_backward";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_sigmoid_backward(self.recorder(), &native)
        })
    }

    /// Records the backward of [`tanh`](Commands::tanh): `out = b · (1 - a) · (1 + a)`, with `a` tanh's output and `b`
    /// the gradient of that (`iron_encode_tanh_backward`).
    #[track_caller]
    pub fn tanh_backward(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let call = "Commands::tanh_backward";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_tanh_backward(self.recorder(), &native)
        })
    }
}
