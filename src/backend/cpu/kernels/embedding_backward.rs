//! `embedding_backward`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn embedding_backward(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: embedding_backward_args = dispatch.arguments(EMBEDDING_BACKWARD_ARGS)?;
    let ids = Extent::packed(args.rows);
    let ids: View<u32> = dispatch.view(EMBEDDING_BACKWARD_IDS, "ids", ids)?;
    let gradient = Extent::rows(args.rows, args.gradient_row_stride, args.width);
    let gradient: View<f32> = dispatch.view(EMBEDDING_BACKWARD_GRADIENT, "gradient", gradient)?;
    let out = Extent::rows(args.vocab, args.out_row_stride, args.width);
    let out: View<f32> = dispatch.view(EMBEDDING_BACKWARD_OUT, "out", out)?;
    dispatch.expect_points([args.vocab.into(), 1, 1])?;

    let (rows, width) = (args.rows as usize, args.width as usize);
    let separable = out.writes_once() && out.is_apart_from(&gradient) && out.is_apart_from(&ids);
    // A range looks at all ids: it has enough rows of its own that this does not count.
    let grain = if separable {
        machine.grain((width + rows / 64).max(1))
    } else {
        ALONE
    };
    machine.for_ranges(args.vocab as usize, grain, |mine| {
        for id in mine.clone() {
            let out = out.at(id * args.out_row_stride as usize, width);
            // SAFETY: `at` checked `width` elements.
            unsafe { out.write_bytes(0, width) };
        }
        for row in 0..rows {
            // SAFETY: `at` checked the place.
            let id = unsafe { ids.at(row, 1).read() } as usize;
            if mine.contains(&id) {
                machine.isa.run(AddRow {
                    from: gradient.at(row * args.gradient_row_stride as usize, width),
                    to: out.at(id * args.out_row_stride as usize, width),
                    width,
                    scale: args.scale,
                });
            }
        }
    });
    Ok(())
}

struct AddRow {
    from: *const f32,
    to: *mut f32,
    width: usize,
    scale: f32,
}

impl Body for AddRow {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for j in 0..self.width {
            // SAFETY: `embedding_backward` checked `width` elements of both.
            unsafe {
                let sum = self.to.add(j).read() + self.scale * self.from.add(j).read();
                self.to.add(j).write(sum);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(rows: usize, width: usize, vocab: usize, gaps: [usize; 2]) {
        let [g, o] = gaps.map(|gap| width + gap);
        let gradient: Vec<f32> = Numbers::new((rows * width) as u64).vec(rows * g);
        // Some are twice there, some not at all, and the last one is of no row.
        let mut ids: Vec<u32> = (0..rows)
            .map(|row| (row * row * 7 % vocab) as u32)
            .collect();
        ids[rows - 1] = vocab as u32;
        let args = embedding_backward_args {
            gradient_row_stride: g as u64,
            out_row_stride: o as u64,
            rows: rows as u32,
            width: width as u32,
            vocab: vocab as u32,
            scale: 0.5,
        };
        let run = |on: Executor| {
            let (mut ids, mut gradient) = (ids.clone(), gradient.clone());
            let mut out = vec![f32::POISON; vocab * o];
            Call::new("embedding_backward")
                .covering([vocab, 1, 1])
                .bind(EMBEDDING_BACKWARD_IDS, &mut ids)
                .bind(EMBEDDING_BACKWARD_GRADIENT, &mut gradient)
                .bind(EMBEDDING_BACKWARD_OUT, &mut out)
                .arguments(EMBEDDING_BACKWARD_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            out
        };
        on_every_executor(run, |out| {
            for id in 0..vocab {
                let mine = || (0..rows).filter(|row| ids[*row] as usize == id);
                for j in 0..width {
                    let terms = mine().map(|row| 0.5 * f64::from(gradient[row * g + j]));
                    let most: f64 = terms.clone().map(f64::abs).sum();
                    let tolerance = mine().count() as f64 * f32::ROUNDING * most;
                    let value = out[id * o + j].into();
                    assert_close(value, terms.sum(), tolerance, format_args!("{id}, {j}"));
                }
            }
            assert_untouched(out, row_ranges(vocab, o, width));
        });
    }

    pub fn at_edge(edge: usize) {
        check(40, edge, 9, [0, 0]);
        check(edge, 6, 40, [3, 1]);
        check(50, 5, edge, [0, 2]);
    }
}
