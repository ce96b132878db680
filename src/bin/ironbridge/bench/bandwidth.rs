//! How fast the machine reads memory: the limit of generation.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Bytes for all threads together: many times a last-level cache.
const BYTES: usize = 512 << 20;
const RUNS: usize = 5;

/// Bytes per second that `threads` threads read together: the median of some runs.
pub fn measure(threads: usize) -> f64 {
    // Not zeros: pages of them may be one page.
    let memory: Vec<Vec<u64>> = (0..threads)
        .map(|thread| vec![thread as u64 + 1; BYTES / 8 / threads])
        .collect();
    let mut rates: Vec<f64> = (0..RUNS).map(|_| read(&memory)).collect();
    rates.sort_by(f64::total_cmp);
    rates[RUNS / 2]
}

fn read(memory: &[Vec<u64>]) -> f64 {
    let barrier = Barrier::new(memory.len() + 1);
    thread::scope(|scope| {
        let readers: Vec<_> = memory
            .iter()
            .map(|part| {
                scope.spawn(|| {
                    barrier.wait();
                    black_box(combine(part))
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for reader in readers {
            // A reader cannot panic.
            let _ = reader.join();
        }
        let bytes: usize = memory.iter().map(|part| size_of_val(&part[..])).sum();
        bytes as f64 / start.elapsed().as_secs_f64()
    })
}

/// Four streams: one is less than a core can have under way.
fn combine(memory: &[u64]) -> u64 {
    let quarter = memory.len() / 32 * 8;
    let mut quarters = memory.chunks_exact(quarter);
    let mut next = || quarters.next().unwrap_or(&[]).chunks_exact(8);
    let mut sums = [0u64; 32];
    for (((first, second), third), fourth) in next().zip(next()).zip(next()).zip(next()) {
        for j in 0..8 {
            sums[j] ^= first[j];
            sums[8 + j] ^= second[j];
            sums[16 + j] ^= third[j];
            sums[24 + j] ^= fourth[j];
        }
    }
    sums.into_iter().fold(0, |all, sum| all ^ sum)
}
