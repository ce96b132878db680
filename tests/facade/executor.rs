//! The drop-in over host slices.

use ironbridge::{Error, MatmulExecutor, Status};

use crate::oracle;
use crate::support::{assert_close, assert_status, device, f64s, numbers};

#[test]
fn eight_threads_share_one_executor() {
    static EXECUTOR: MatmulExecutor = MatmulExecutor::new();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..20 {
                    let (m, k, n) = (1 + thread, 16 + round, 3 + 2 * thread);
                    let a = numbers(m * k, thread as u64);
                    let b = numbers(k * n, round as u64);
                    let mut c = vec![f32::NAN; m * n];
                    EXECUTOR.matmul_f32(&a, &b, &mut c, m, k, n).unwrap();
                    let want = oracle::matmul(&f64s(&a), &f64s(&b), m, k, n);
                    assert_close(&c, &want, 1e-5);
                }
            });
        }
    });
}

/// RusTorch's sequence: TinyLlama's Q, K and V for 15 tokens, again and again through the same call.
#[test]
fn q_k_and_v_of_tiny_llama_one_after_another() {
    let (seq_len, d_model, kv_dim) = (15, 2048, 256);
    let x = numbers(seq_len * d_model, 1);
    let weights = [
        (numbers(d_model * d_model, 2), d_model),
        (numbers(d_model * kv_dim, 3), kv_dim),
        (numbers(d_model * kv_dim, 4), kv_dim),
    ];
    let executor = MatmulExecutor::on(device());
    let mut first: Vec<Vec<f32>> = Vec::new();
    for round in 0..4 {
        for (index, (weight, out_dim)) in weights.iter().enumerate() {
            let mut out = vec![0.0; seq_len * out_dim];
            executor
                .matmul_f32(&x, weight, &mut out, seq_len, d_model, *out_dim)
                .unwrap();
            if round == 0 {
                let want = oracle::matmul(&f64s(&x), &f64s(weight), seq_len, d_model, *out_dim);
                assert_close(&out, &want, 1e-5);
                first.push(out);
            } else {
                assert_eq!(out, first[index], "round {round}");
            }
        }
    }
    // Three slices, and no buffer for a size.
    let report = executor.device().unwrap().memory().unwrap();
    assert_eq!(report.pool_hits + report.pool_misses, 4 * 3 * 3);
}

#[test]
fn lengths_that_are_not_the_shapes_are_refused_by_name() {
    let executor = MatmulExecutor::on(device());
    let (a, b) = ([0.0; 6], [0.0; 12]);
    let mut c = [5.0; 8];
    for (name, m, k, n) in [
        ("a:", 3, 3, 4),
        ("b:", 2, 3, 5),
        ("c:", 2, 3, 4), // with a c of 7
        ("a:", 0, 3, 4),
        ("a:", usize::MAX, 2, 4),
    ] {
        let c = if name == "c:" {
            &mut c[..7]
        } else {
            &mut c[..]
        };
        let error = assert_status(executor.matmul_f32(&a, &b, c, m, k, n), Status::Shape);
        assert!(matches!(error, Error::InvalidArgument(_)));
        assert!(error.to_string().starts_with(name), "{error}");
    }
    assert_eq!(c, [5.0; 8]);
}
