//! What the machine can do: multiply-adds of f32 and of bytes, and bytes read from memory, on some threads at once.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Each per second, in thousand millions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Multiplications and additions, where the processor has AVX-512, or AVX2 with FMA.
    pub f32_operations: Option<f64>,
    /// The same for bytes, where it has VNNI, or AVX2.
    pub byte_operations: Option<f64>,
}

/// Bytes that each thread reads: many times a last-level cache.
const READ: usize = 256 << 20;
const RUNS: usize = 5;

pub fn measure(threads: usize) -> Limits {
    Limits {
        f32_operations: measure_floats(threads),
        byte_operations: measure_bytes(threads),
    }
}

/// Memory to be read by threads. How fast that goes changes from second to second where others use the same memory: it
/// is measured in turns with what is compared with it.
pub struct Reader(Vec<Vec<u64>>);

impl Reader {
    pub fn new(threads: usize) -> Reader {
        Reader((0..threads).map(|_| in_large_pages(READ / 8)).collect())
    }

    /// GB/s, now; where the processor has AVX-512 or AVX2.
    pub fn rate(&self) -> Option<f64> {
        let read: unsafe fn(&[u64]) -> i64 = if is_x86_feature_detected!("avx512f") {
            avx512::read
        } else if is_x86_feature_detected!("avx2") {
            avx2::read
        } else {
            return None;
        };
        Some(rate(self.0.len(), |thread| {
            // SAFETY: the processor has what it is compiled for, as seen above.
            black_box(unsafe { read(&self.0[thread]) });
            READ as f64
        }))
    }
}

/// So many ones, in pages of 2 MiB where the system has them: those are read faster, and ironbridge's weights move to
/// such.
fn in_large_pages(count: usize) -> Vec<u64> {
    unsafe extern "C" {
        fn madvise(start: *mut std::ffi::c_void, length: usize, advice: i32) -> i32;
    }
    const PAGE: usize = 2 << 20;
    /// Linux's MADV_HUGEPAGE.
    const HUGE: i32 = 14;
    let mut memory: Vec<u64> = Vec::with_capacity(count);
    let start: *mut u8 = memory.as_mut_ptr().cast();
    let skipped = start.align_offset(PAGE);
    let whole = (count * 8).saturating_sub(skipped) / PAGE * PAGE;
    // SAFETY: pages of the vector's own memory; the advice changes no value. A system that refuses has small pages.
    unsafe { madvise(start.wrapping_add(skipped).cast(), whole, HUGE) };
    memory.resize(count, 1);
    memory
}

/// [`Limits::f32_operations`] alone.
pub fn measure_floats(threads: usize) -> Option<f64> {
    let work: unsafe fn() -> f64 = if is_x86_feature_detected!("avx512f") {
        avx512::multiply_add_floats
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        avx2::multiply_add_floats
    } else {
        return None;
    };
    // SAFETY: the processor has what it is compiled for, as seen above.
    Some(median_rate(threads, |_| unsafe { work() }))
}

/// [`Limits::byte_operations`] alone.
fn measure_bytes(threads: usize) -> Option<f64> {
    let work: unsafe fn() -> f64 =
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            avx512::multiply_add_bytes
        } else if is_x86_feature_detected!("avx2") {
            avx2::multiply_add_bytes
        } else {
            return None;
        };
    // SAFETY: the processor has what it is compiled for, as seen above.
    Some(median_rate(threads, |_| unsafe { work() }))
}

/// The median rate of some runs.
fn median_rate(threads: usize, work: impl Fn(usize) -> f64 + Sync) -> f64 {
    let mut rates: Vec<f64> = (0..RUNS).map(|_| rate(threads, &work)).collect();
    rates.sort_by(f64::total_cmp);
    rates[RUNS / 2]
}

/// The rate of a run in which all threads start together; `work` returns how much it did.
fn rate(threads: usize, work: impl Fn(usize) -> f64 + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let done: Vec<(Instant, f64, Instant)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    (Instant::now(), work(thread), Instant::now())
                })
            })
            .collect();
        workers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    // By the workers' own clocks: without a processor to spare, this thread hears of them late.
    let start = done.iter().map(|(start, ..)| *start).min().unwrap();
    let end = done.iter().map(|(.., end)| *end).max().unwrap();
    let work: f64 = done.iter().map(|(_, work, _)| work).sum();
    work / end.duration_since(start).as_secs_f64() / 1e9
}

const ROUNDS: usize = 4_000_000;
/// Chains of operations: as many as hide the latency of one.
const CHAINS: usize = 12;

mod avx512 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::{CHAINS, ROUNDS};

    /// Four streams: one is less than a core can have under way. By hand: built for AVX-512, the same loop of u64 is
    /// compiled to a tenth of the speed.
    ///
    /// # Safety
    /// The processor has AVX-512.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn read(memory: &[u64]) -> i64 {
        let quarter = memory.len() / 32 * 8;
        let mut sums = [_mm512_setzero_si512(); 4];
        for i in (0..quarter).step_by(8) {
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: four quarters of whole vectors are inside.
                let next =
                    unsafe { _mm512_loadu_si512(memory.as_ptr().add(j * quarter + i).cast()) };
                *sum = _mm512_xor_si512(*sum, next);
            }
        }
        sums.iter().map(|sum| _mm512_reduce_add_epi64(*sum)).sum()
    }

    /// # Safety
    /// The processor has AVX-512.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn multiply_add_floats() -> f64 {
        let (factor, term) = (
            _mm512_set1_ps(black_box(0.999)),
            _mm512_set1_ps(black_box(1e-3)),
        );
        let mut sums = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
        (ROUNDS * CHAINS * 16 * 2) as f64
    }

    /// # Safety
    /// The processor has AVX-512 with VNNI.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub unsafe fn multiply_add_bytes() -> f64 {
        let (a, b) = (
            _mm512_set1_epi8(black_box(3)),
            _mm512_set1_epi8(black_box(1)),
        );
        let mut sums = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, a, b);
            }
        }
        black_box(sums);
        (ROUNDS * CHAINS * 64 * 2) as f64
    }
}

mod avx2 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::{CHAINS, ROUNDS};

    /// As for AVX-512.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub unsafe fn read(memory: &[u64]) -> i64 {
        let quarter = memory.len() / 32 * 8;
        let mut sums = [_mm256_setzero_si256(); 8];
        for i in (0..quarter).step_by(8) {
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: four quarters of two whole vectors at a time are inside.
                let next = unsafe {
                    let from = memory.as_ptr().add(j / 2 * quarter + i + j % 2 * 4);
                    _mm256_loadu_si256(from.cast())
                };
                *sum = _mm256_xor_si256(*sum, next);
            }
        }
        let total = sums.into_iter().reduce(|a, b| _mm256_xor_si256(a, b));
        total.map_or(0, |total| _mm256_extract_epi64::<0>(total))
    }

    /// # Safety
    /// The processor has AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn multiply_add_floats() -> f64 {
        let (factor, term) = (
            _mm256_set1_ps(black_box(0.999)),
            _mm256_set1_ps(black_box(1e-3)),
        );
        let mut sums = [_mm256_set1_ps(1.0); CHAINS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
        (ROUNDS * CHAINS * 8 * 2) as f64
    }

    /// Products of bytes, added up in 32 bits: three instructions where VNNI has one.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub unsafe fn multiply_add_bytes() -> f64 {
        let ones = _mm256_set1_epi16(black_box(1));
        let b = _mm256_set1_epi8(black_box(1));
        let mut sums = [_mm256_set1_epi8(black_box(3)); CHAINS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                // Of the sums themselves, so that no product is the same as one before.
                let pairs = _mm256_maddubs_epi16(*sum, b);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
            }
        }
        black_box(sums);
        (ROUNDS * CHAINS * 32 * 2) as f64
    }
}
