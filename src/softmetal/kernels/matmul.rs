//! `matmul_<B>_<T>`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::Machine;

pub fn matmul(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: matmul_args = dispatch.arguments(MATMUL_ARGS)?;
    let (m, n, k, batch) = (args.m, args.n, args.k, args.batch);
    let operand = |transposed: u32, rows, columns, stride, batch_stride| match transposed {
        0 => Extent::batches(batch, batch_stride, rows, stride, columns),
        _ => Extent::batches(batch, batch_stride, columns, stride, rows),
    };
    let a_extent = operand(
        args.transpose_a,
        m,
        k,
        args.a_row_stride,
        args.a_batch_stride,
    );
    let b_extent = operand(
        args.transpose_b,
        k,
        n,
        args.b_row_stride,
        args.b_batch_stride,
    );
    let c_extent = Extent::batches(batch, args.c_batch_stride, m, args.c_row_stride, n);
    let a: View<f32> = dispatch.view(MATMUL_A, "a", a_extent)?;
    let b: View<f32> = dispatch.view(MATMUL_B, "b", b_extent)?;
    let c: View<f32> = dispatch.view(MATMUL_C, "c", c_extent)?;
    let bias: Option<View<f32>> = match args.has_bias {
        0 => None,
        _ => Some(dispatch.view(MATMUL_BIAS, "bias", Extent::packed(n.into()))?),
    };
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let (a_step, a_row) = match args.transpose_a {
        0 => (1, args.a_row_stride as usize),
        _ => (args.a_row_stride as usize, 1),
    };
    machine.pool.parallel_for(batch as usize * m, |task| {
        let (z, i) = (task / m, task % m);
        let (a_base, b_base) = (
            z * args.a_batch_stride as usize,
            z * args.b_batch_stride as usize,
        );
        let a = |x: usize| unsafe { *a.at(a_base + i * a_row + x * a_step, 1) };
        let mut row: Vec<f32> = match &bias {
            Some(bias) => (0..n).map(|j| unsafe { *bias.at(j, 1) }).collect(),
            None => vec![0.0; n],
        };
        for x in 0..k {
            let factor = a(x);
            if args.transpose_b == 0 {
                let b = b.at(b_base + x * args.b_row_stride as usize, n);
                row.iter_mut()
                    .enumerate()
                    .for_each(|(j, sum)| *sum += factor * unsafe { *b.add(j) });
            } else {
                row.iter_mut().enumerate().for_each(|(j, sum)| {
                    *sum +=
                        factor * unsafe { *b.at(b_base + j * args.b_row_stride as usize + x, 1) }
                });
            }
        }
        let c = c.at(
            z * args.c_batch_stride as usize + i * args.c_row_stride as usize,
            n,
        );
        row.iter()
            .enumerate()
            .for_each(|(j, sum)| unsafe { *c.add(j) = *sum });
    });
    Ok(())
}
