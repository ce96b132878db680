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
    let barrier = Barrier::new(memory.len());
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let readers: Vec<_> = memory
            .iter()
            .map(|part| {
                scope.spawn(|| {
                    barrier.wait();
                    let start = Instant::now();
                    black_box(combine(part));
                    (start, Instant::now())
                })
            })
            .collect();
        // A reader cannot panic.
        let times = readers.into_iter().map(|reader| reader.join());
        times.collect::<Result<_, _>>().unwrap_or_default()
    });
    // By the readers' own clocks: on a machine without a processor to spare, this thread hears of them late.
    let start = times.iter().map(|(start, _)| *start).min();
    let end = times.iter().map(|(_, end)| *end).max();
    let seconds = end.zip(start).map_or(f64::NAN, |(end, start)| {
        end.duration_since(start).as_secs_f64()
    });
    let bytes: usize = memory.iter().map(|part| size_of_val(&part[..])).sum();
    bytes as f64 / seconds
}

/// All of it, combined, so that it must be read.
fn combine(memory: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        /// # Safety
        /// The processor has AVX2.
        #[target_feature(enable = "avx2")]
        unsafe fn combine_avx2(memory: &[u64]) -> u64 {
            combine_streams(memory)
        }
        // SAFETY: it was just seen.
        return unsafe { combine_avx2(memory) };
    }
    combine_streams(memory)
}

/// Four streams: one is less than a core can have under way.
#[inline(always)]
fn combine_streams(memory: &[u64]) -> u64 {
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
