//! What the machine can do: bytes read from memory, and multiply-adds of f32 and of bytes, on some threads at once.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Each per second, in thousand millions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub read_bytes: f64,
    /// Multiplications and additions.
    pub f32_operations: f64,
    /// The same for bytes, where the processor has VNNI.
    pub byte_operations: Option<f64>,
}

/// Bytes that each thread reads: many times a last-level cache.
const READ: usize = 256 << 20;
const RUNS: usize = 5;

pub fn measure(threads: usize) -> Limits {
    let memory: Vec<Vec<u64>> = (0..threads).map(|_| vec![1; READ / 8]).collect();
    let memory = &memory;
    let read = fastest(threads, |thread| {
        black_box(sum(&memory[thread]));
        READ as f64
    });
    let vnni = is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512f");
    Limits {
        read_bytes: read,
        f32_operations: fastest(threads, |_| multiply_add_floats()),
        // SAFETY: seen above.
        byte_operations: vnni.then(|| fastest(threads, |_| unsafe { multiply_add_bytes() })),
    }
}

/// The median rate of some runs in which all threads start together; `work` returns how much it did.
fn fastest(threads: usize, work: impl Fn(usize) -> f64 + Sync) -> f64 {
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let barrier = Barrier::new(threads + 1);
            thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|thread| {
                        let (barrier, work) = (&barrier, &work);
                        scope.spawn(move || {
                            barrier.wait();
                            work(thread)
                        })
                    })
                    .collect();
                barrier.wait();
                let start = Instant::now();
                let done: f64 = workers
                    .into_iter()
                    .map(|worker| worker.join().unwrap())
                    .sum();
                done / start.elapsed().as_secs_f64() / 1e9
            })
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[RUNS / 2]
}

/// Four streams: one is less than a core can have under way.
fn sum(memory: &[u64]) -> u64 {
    let quarter = memory.len() / 4;
    let (first, rest) = memory.split_at(quarter);
    let (second, rest) = rest.split_at(quarter);
    let (third, fourth) = rest.split_at(quarter);
    let mut sums = [0u64; 32];
    for i in (0..quarter / 8 * 8).step_by(8) {
        for j in 0..8 {
            sums[j] ^= first[i + j];
            sums[8 + j] ^= second[i + j];
            sums[16 + j] ^= third[i + j];
            sums[24 + j] ^= fourth[i + j];
        }
    }
    sums.into_iter().sum()
}

const ROUNDS: usize = 4_000_000;

fn multiply_add_floats() -> f64 {
    // As many chains as hide the latency, in vectors of whatever width the build has.
    let mut sums = [[1f32; 16]; 12];
    let (factor, term) = (black_box(0.999f32), black_box(1e-3f32));
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            for value in sum {
                *value = value.mul_add(factor, term);
            }
        }
    }
    black_box(sums);
    (ROUNDS * 12 * 16 * 2) as f64
}

/// # Safety
/// The processor has AVX-512 with VNNI.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn multiply_add_bytes() -> f64 {
    use std::arch::x86_64::*;
    let (a, b) = (
        _mm512_set1_epi8(black_box(3)),
        _mm512_set1_epi8(black_box(1)),
    );
    let mut sums = [_mm512_setzero_si512(); 12];
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
    }
    black_box(sums);
    (ROUNDS * 12 * 64 * 2) as f64
}
