//! Every kernel of the table × every edge: native on each instruction set and from its Metal source, against float64
//! arithmetic. From the source a shape is run in one way at each edge, in turn, so that it meets every lane order and
//! has each access checked; `make test-msl` runs all ways at every edge. Tolerances stand beside the comparisons, in
//! the families' tests; outputs are poisoned before and looked at outside of what should be written after.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::attention;
use super::gemm::matmul;
use super::kernels::{
    accumulate, activation, activation_backward, adam, add_bias, argmax, clip_norm, copy,
    cross_entropy, elementwise, embedding, embedding_backward, gated_backward, mse, rms_norm,
    rms_norm_backward, rope, sgd, softmax, softmax_backward, sum_rows, sum_squares, transpose,
};
use super::registry::{Kernel, kernels};
use super::testing::{EDGES, Way, in_turns, was_run};

/// The row of a kernel: its family's check at one edge.
fn check(kernel: &Kernel, edge: usize) {
    let name = kernel.display_name();
    match kernel.family {
        "activation" => activation::tests::at_edge(name, edge),
        "activation_backward" => activation_backward::tests::at_edge(name, edge),
        "adam" => adam::tests::at_edge(edge),
        "add_bias" => add_bias::tests::at_edge(edge),
        "argmax" => argmax::tests::at_edge(edge),
        "attention" | "attention_tiled" | "attention_split" => {
            attention::tests::at_edge(name, edge);
        }
        "clip_norm" => clip_norm::tests::at_edge(edge),
        "copy" => copy::tests::at_edge(name, edge),
        "cross_entropy" => cross_entropy::tests::at_edge(edge),
        "elementwise" => elementwise::tests::at_edge(name, edge),
        "embedding" => embedding::tests::at_edge(name, edge),
        "matmul" | "matmul_tiled" | "matmul_blocks" | "matvec" | "matvec_blocks" => {
            matmul::tests::at_edge(name, edge);
        }
        "mse" => mse::tests::at_edge(edge),
        "rms_norm" => rms_norm::tests::at_edge(edge),
        "rope" => rope::tests::at_edge(edge),
        "sgd" => sgd::tests::at_edge(edge),
        "softmax" => softmax::tests::at_edge(edge),
        "sum_rows" => sum_rows::tests::at_edge(edge),
        "accumulate" => accumulate::tests::at_edge(name, edge),
        "attention_backward" => attention::backward::tests::at_edge(edge),
        "embedding_backward" => embedding_backward::tests::at_edge(edge),
        "gated_backward" => gated_backward::tests::at_edge(name, edge),
        "rms_norm_backward" => rms_norm_backward::tests::at_edge(edge),
        "softmax_backward" => softmax_backward::tests::at_edge(edge),
        "sum_squares" => sum_squares::tests::at_edge(edge),
        "transpose" => transpose::tests::at_edge(name, edge),
        family => panic!("{name} of {family}.metal has no row"),
    }
}

#[test]
fn every_kernel_at_every_edge_in_every_way() {
    let all: Vec<&Kernel> = kernels().collect();
    let next = AtomicUsize::new(0);
    let rows = || {
        while let Some(kernel) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            println!("{}", kernel.display_name()); // shown with a failure
            for (turn, edge) in EDGES.into_iter().enumerate() {
                in_turns(turn, || check(kernel, edge));
            }
            for way in [
                Way::Native,
                Way::Forward,
                Way::Reverse,
                Way::Random,
                Way::Checked,
            ] {
                // A row that runs another kernel, or one in fewer ways, is none.
                let name = kernel.display_name();
                assert!(was_run(kernel, way), "{name} was not run: {way:?}");
            }
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(rows)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
