//! A kernel of your own, from Metal source: the sum of each row of a matrix, with a function constant and threadgroup
//! memory.
//!
//! `cargo run --example user_kernel`. Where there is no Metal this needs clang at run time, as the build does.

use ironbridge::Device;
use ironbridge::kernel::{Argument, Constant, Dispatch, Grid, Library};

const SOURCE: &str = r"
#include <metal_stdlib>
using namespace metal;

constant float scale [[function_constant(0)]];

// One threadgroup for each row: every thread adds up its share of the columns, then the shares are added up in pairs.
kernel void row_sums(device const float *matrix [[buffer(0)]], device float *sums [[buffer(1)]],
                     constant uint &columns [[buffer(2)]], threadgroup float *shares [[threadgroup(0)]],
                     uint row [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
                     uint threads [[threads_per_threadgroup]]) {
  float share = 0;
  for (uint column = thread_index; column < columns; column += threads) share += matrix[row * columns + column];
  shares[thread_index] = share;
  for (uint half_of = threads / 2; half_of > 0; half_of /= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_index < half_of) shares[thread_index] += shares[thread_index + half_of];
  }
  if (thread_index == 0) sums[row] = scale * shares[0];
}
";

const ROWS: usize = 3;
const COLUMNS: usize = 100;
const THREADS: usize = 64;

fn main() -> Result<(), ironbridge::Error> {
    let device = Device::open("default")?;
    let kernel = Library::from_source(&device, SOURCE)?
        .kernel_with("row_sums", &[Constant::at(0, 0.5f32)])?;

    let elements: Vec<f32> = (0..ROWS * COLUMNS)
        .map(|index| (index / COLUMNS) as f32)
        .collect();
    let matrix = device.buffer_from(&elements)?;
    let sums = device.buffer::<f32>(ROWS)?;
    let arguments = [
        Argument::read(0, &matrix),
        Argument::write(1, &sums),
        Argument::values(2, &[COLUMNS as u32]),
        Argument::threadgroup(0, THREADS * size_of::<f32>()),
    ];
    let mut commands = device.commands()?;
    // SAFETY: the kernel reads `ROWS * COLUMNS` elements of `matrix` and writes `ROWS` of `sums`, which is what they
    // have.
    unsafe {
        commands.dispatch(
            &kernel,
            &Dispatch {
                arguments: &arguments,
                grid: Grid::Threadgroups([ROWS as u32, 1, 1]),
                threadgroup: [THREADS as u32, 1, 1],
            },
        )?;
    }
    commands.run()?;
    println!("half of each row's sum: {:?}", sums.to_vec()?);
    Ok(())
}
