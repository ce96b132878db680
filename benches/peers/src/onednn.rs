//! oneDNN's product of f32 matrices (`oneapi/dnnl/dnnl.h`), of operands as they lie in memory.

use std::ffi::{c_char, c_int};

use crate::engines::Result;

#[link(name = "dnnl")]
unsafe extern "C" {
    fn dnnl_sgemm(
        transa: c_char,
        transb: c_char,
        m: i64,
        n: i64,
        k: i64,
        alpha: f32,
        a: *const f32,
        lda: i64,
        b: *const f32,
        ldb: i64,
        beta: f32,
        c: *mut f32,
        ldc: i64,
    ) -> c_int;
}

/// `y`, [m][n], is `x`, [m][k], times the weight: [n][k] where `by_outputs`, else [k][n].
pub fn multiply(
    (m, k, n): (usize, usize, usize),
    x: &[f32],
    weight: &[f32],
    by_outputs: bool,
    y: &mut [f32],
) -> Result<()> {
    assert!(x.len() >= m * k && weight.len() >= k * n && y.len() >= m * n);
    let (order, apart) = if by_outputs { (b'T', k) } else { (b'N', n) };
    let [m, n, k, apart] = [m, n, k, apart].map(|size| size as i64);
    // SAFETY: the operands are as long as the sizes say, and `y` is nobody else's.
    let status = unsafe {
        dnnl_sgemm(
            b'N' as c_char,
            order as c_char,
            m,
            n,
            k,
            1.0,
            x.as_ptr(),
            k,
            weight.as_ptr(),
            apart,
            0.0,
            y.as_mut_ptr(),
            n,
        )
    };
    match status {
        0 => Ok(()),
        status => Err(format!("oneDNN refused the product: {status}").into()),
    }
}
