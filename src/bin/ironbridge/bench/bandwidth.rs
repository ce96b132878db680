//! How fast the machine reads memory: the limit of generation.

use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use memmap2::MmapMut;

/// Bytes for all threads together: many times a last-level cache.
const BYTES: usize = 512 << 20;
const RUNS: usize = 5;

/// Bytes per second that `threads` threads read together: the median of some runs.
pub fn measure(threads: usize) -> io::Result<f64> {
    let memory: io::Result<Vec<MmapMut>> = (0..threads).map(|_| part(BYTES / threads)).collect();
    let memory = memory?;
    let mut rates: Vec<f64> = (0..RUNS).map(|_| read(&memory)).collect();
    rates.sort_by(f64::total_cmp);
    Ok(rates[RUNS / 2])
}

/// Memory in large pages, where the system has them: it is read faster, and weights move to such.
fn part(bytes: usize) -> io::Result<MmapMut> {
    let mut part = MmapMut::map_anon(bytes)?;
    #[cfg(target_os = "linux")]
    {
        // A system that refuses has small ones.
        let _ = part.advise(memmap2::Advice::HugePage);
    }
    // Not zeros: pages of them may be one page.
    part.fill(1);
    Ok(part)
}

fn read(memory: &[MmapMut]) -> f64 {
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
    let bytes: usize = memory.iter().map(|part| part.len()).sum();
    bytes as f64 / seconds
}

/// All of it, combined, so that it must be read.
fn combine(memory: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        /// # Safety
        /// The processor has AVX2.
        #[target_feature(enable = "avx2")]
        unsafe fn combine_avx2(memory: &[u8]) -> u64 {
            combine_streams(memory)
        }
        // SAFETY: it was just seen.
        return unsafe { combine_avx2(memory) };
    }
    combine_streams(memory)
}

/// Four streams: one is less than a core can have under way.
#[inline(always)]
fn combine_streams(memory: &[u8]) -> u64 {
    let (memory, _) = memory.as_chunks::<8>();
    let quarter = memory.len() / 32 * 8;
    let mut quarters = memory.chunks_exact(quarter);
    let mut next = || quarters.next().unwrap_or(&[]).chunks_exact(8);
    let mut sums = [0u64; 32];
    for (((first, second), third), fourth) in next().zip(next()).zip(next()).zip(next()) {
        for j in 0..8 {
            sums[j] ^= u64::from_ne_bytes(first[j]);
            sums[8 + j] ^= u64::from_ne_bytes(second[j]);
            sums[16 + j] ^= u64::from_ne_bytes(third[j]);
            sums[24 + j] ^= u64::from_ne_bytes(fourth[j]);
        }
    }
    sums.into_iter().fold(0, |all, sum| all ^ sum)
}
