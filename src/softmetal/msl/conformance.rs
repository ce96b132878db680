//! The Metal language, feature by feature: small programs with their results.
use super::*;
use runtime::BUFFERS;

fn run(source: &str, name: &str, data: &mut [f32], threads: u32) {
    let library = Library::new(source).unwrap_or_else(|error| panic!("{error}"));
    let function = library.function(name, &[], false).unwrap_or_else(|error| panic!("{error}"));
    let mut bindings = [Range::NONE; BUFFERS];
    bindings[0] = Range { pointer: data.as_mut_ptr().cast(), length: size_of_val(data) as u64 };
    let dispatch = Dispatch {
        bindings, threadgroup_memory: [0; BUFFERS], grid: [1, 1, 1], threadgroup: [threads, 1, 1], threads: false,
        order: LaneOrder::Forward, workers: 1, parallel: &|count, task| (0..count).for_each(task),
    };
    unsafe { function.dispatch(&dispatch) }.unwrap();
}

#[test]
fn first() {
    let mut data: Vec<f32> = (0..64).map(|i| i as f32).collect();
    run("#include <metal_stdlib>\nusing namespace metal;\nkernel void reverse(device float *x [[buffer(0)]], uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {\n threadgroup float t[64];\n t[i] = x[i] + 0.5; threadgroup_barrier(mem_flags::mem_threadgroup); x[i] = t[n - 1 - i] + simd_sum(1.0f); }\n", "reverse", &mut data, 64);
    assert_eq!(data, (0..64).map(|i| 63.0 - i as f32 + 32.5).collect::<Vec<f32>>());
}
