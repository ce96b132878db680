//! Apple's rules, on a device that ends the process where Metal's validation layer would: what breaks one of them is no
//! failed test, it is a dead process.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use ironbridge::kernel::{Argument, Dispatch, Grid, Library};
use ironbridge::memory::{Category, IdlePolicy, MemoryReport};
use ironbridge::ops::{CopyBytes, Elementwise};
use ironbridge::{DType, Device, Status};

crate::harness::cases! {
    b1_idle_memory_is_made_volatile_outside_handlers,
    b1_idle_memory_is_emptied_outside_handlers_and_used_again,
    b1_leaked_memory_is_emptied_when_its_uses_are_over,
    b3_weights_and_caches_are_resident_while_they_live,
    b3_residency_is_requested_again_while_a_session_lives,
    a_session_that_lives,
    b5_a_device_that_a_fault_killed_says_so_and_is_opened_again,
    b6_queues_have_room_when_metal_frees_their_places_late,
    e_sources_are_held_to_apples_language,
    e_what_apple_compiles_compiles,
    e_subnormal_numbers_are_zero,
    e_threads_are_as_many_as_registers_allow,
}

const LENGTH: usize = 1 << 16;

/// Commands whose last references to pooled buffers are those that the completion handler gives up.
fn work(device: &Device, rounds: usize) {
    let options = device.buffer_options().category(Category::Scratch).pooled();
    let mut pending = Vec::new();
    for round in 0..rounds {
        let source = options.create_from(&[round as u8; LENGTH]).unwrap();
        let copy = options.create::<u8>(LENGTH).unwrap();
        let mut commands = device.commands().unwrap();
        let copying = CopyBytes::new(
            source.tensor_at(0, DType::U32),
            copy.tensor_at(0, DType::U32),
            LENGTH,
        );
        commands.copy_bytes(&copying).unwrap();
        pending.push(commands.commit().unwrap());
    }
    for each in pending {
        each.wait().unwrap();
    }
}

/// The report, once it is as wanted.
fn eventually(device: &Device, wanted: impl Fn(&MemoryReport) -> bool) -> MemoryReport {
    let begin = Instant::now();
    loop {
        let report = device.memory().unwrap();
        if wanted(&report) {
            return report;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{report:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn b1_idle_memory_is_made_volatile_outside_handlers() {
    let device = Device::open("cpu:strict=apple,delay_us=500").unwrap();
    work(&device, 64);
    let report = device.memory().unwrap();
    assert!(report.pool_buffers > 0, "{report:?}");
    // Used again, whatever its state is by now.
    work(&device, 4);
}

fn b1_idle_memory_is_emptied_outside_handlers_and_used_again() {
    let options = Device::options().pool_policy(IdlePolicy::Empty);
    let device = options.open("cpu:strict=apple,delay_us=500").unwrap();
    work(&device, 8);
    let report = eventually(&device, |report| {
        report.empty_bytes > 0 && report.empty_bytes >= report.pool_bytes
    });
    assert!(
        report.pool_buffers > 0 && report.unaccounted_bytes == 0,
        "{report:?}"
    );
    work(&device, 8);
    let report = device.memory().unwrap();
    assert!(
        report.pool_hits > 0 && report.unaccounted_bytes == 0,
        "{report:?}"
    );
}

fn b1_leaked_memory_is_emptied_when_its_uses_are_over() {
    let device = Device::open("cpu:strict=apple").unwrap();
    let source = device.buffer_from(&[1u8; LENGTH]).unwrap();
    let copy = device.buffer::<u8>(LENGTH).unwrap();
    let mut commands = device.commands().unwrap();
    let copying = CopyBytes::new(
        source.tensor_at(0, DType::U32),
        copy.tensor_at(0, DType::U32),
        LENGTH,
    );
    commands.copy_bytes(&copying).unwrap();
    commands.commit().unwrap().wait().unwrap();
    let leaks = device.clone().close().unwrap();
    assert_eq!(leaks.allocations.len(), 2, "{leaks:?}");
    assert_eq!(leaks.freed_bytes, 2 * LENGTH as u64, "{leaks:?}");
    drop((source, copy));
}

fn residency_sets() -> i64 {
    let live = ironbridge::diagnostics::live_objects().unwrap();
    live.get("SoftResidencySet").copied().unwrap_or(0)
}

/// A strict device ends the process when a buffer goes that its residency set still has.
fn b3_weights_and_caches_are_resident_while_they_live() {
    let device = Device::open("cpu:strict=apple").unwrap();
    assert_eq!(residency_sets(), 1);
    for category in [Category::Weights, Category::KvCache, Category::Activations] {
        let options = device.buffer_options().category(category);
        let kept = options.create_from(&[1u8; LENGTH]).unwrap();
        drop(options.create_from(&[2u8; LENGTH]).unwrap());
        assert_eq!(kept.to_vec().unwrap(), [1; LENGTH]);
    }
    // A buffer that its commands keep alive leaves in the completion handler.
    let options = device.buffer_options().category(Category::KvCache);
    let source = options.create_from(&[3u8; LENGTH]).unwrap();
    let copy = device.buffer::<u8>(LENGTH).unwrap();
    let mut commands = device.commands().unwrap();
    let copying = CopyBytes::new(
        source.tensor_at(0, DType::U32),
        copy.tensor_at(0, DType::U32),
        LENGTH,
    );
    commands.copy_bytes(&copying).unwrap();
    drop(source);
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(copy.to_vec().unwrap(), [3; LENGTH]);
    drop((copy, device));
    assert_eq!(residency_sets(), 0);
    let without = Device::open("cpu:strict=no").unwrap();
    drop(
        without
            .buffer_options()
            .category(Category::KvCache)
            .create::<u8>(LENGTH)
            .unwrap(),
    );
    assert_eq!(residency_sets(), 0);
}

const SESSION: &str = "IRONBRIDGE_TEST_SESSION";

/// In the process that the case below starts it lives until the standard input ends.
fn a_session_that_lives() {
    let device = Device::open("cpu:strict=apple").unwrap();
    let cache = device.buffer_options().category(Category::KvCache);
    let cache = cache.create::<u8>(LENGTH).unwrap();
    if std::env::var_os(SESSION).is_some() {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    }
    assert_eq!(cache.to_vec().unwrap(), [0; LENGTH]);
}

fn b3_residency_is_requested_again_while_a_session_lives() {
    let mut child = crate::harness::command("apple_rules::a_session_that_lives")
        .env(SESSION, "1")
        .env("IRONBRIDGE_DEBUG_MEMORY", "1")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let requests = lines
        .map_while(Result::ok)
        .filter(|line| line.contains("resident"))
        .take(3)
        .collect::<Vec<_>>();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(requests.len(), 3, "{requests:?}");
    let bytes = format!("{LENGTH} bytes");
    assert!(
        requests.iter().all(|line| line.contains(&bytes)),
        "{requests:?}"
    );
}

fn b5_a_device_that_a_fault_killed_says_so_and_is_opened_again() {
    let killed = "cpu:after_fault=ignore,fail_command_buffer=1:page_fault";
    let device = Device::open(killed).unwrap();
    let fill = |device: &Device| {
        let buffer = device.buffer::<u8>(LENGTH)?;
        let mut commands = device.commands()?;
        commands.fill(
            &ironbridge::ops::Fill::new(buffer.tensor_at(0, DType::U32), LENGTH).with_value(7),
        )?;
        commands.commit()?.wait()?;
        buffer.to_vec()
    };
    assert_eq!(
        fill(&device).unwrap_err().status(),
        Some(Status::DevicePageFault)
    );
    for _ in 0..2 {
        let error = fill(&device).unwrap_err();
        assert_eq!(error.status(), Some(Status::DeviceLost), "{error}");
        assert!(error.to_string().contains("open it anew"), "{error}");
    }
    drop(device);
    let device = Device::open("cpu").unwrap();
    assert_eq!(fill(&device).unwrap(), [7; LENGTH]);
}

fn b6_queues_have_room_when_metal_frees_their_places_late() {
    let options = Device::options().max_in_flight(1);
    let device = options.open("cpu:strict=apple").unwrap();
    work(&device, 200);
}

fn source(body: &str) -> String {
    format!("#include <metal_stdlib>\nusing namespace metal;\n{body}\n")
}

/// Each source compiles on a device that is not strict, and a strict one says what is wrong with it, and where.
fn e_sources_are_held_to_apples_language() {
    let strict = Device::open("cpu:strict=apple").unwrap();
    let own = Device::open("cpu:strict=no").unwrap();
    let kernel = |body: &str| {
        format!(
            "kernel void f(device float *a [[buffer(0)]], device ulong *l [[buffer(1)]]) {{ {body} }}"
        )
    };
    let first = "float first(device const float *p) { return p[0]; } ";
    for (body, said) in [
        (kernel("l[0] = simd_sum(l[1]);"), "at most 32 bits"),
        (kernel("l[0] = simd_shuffle(l[1], 3);"), "at most 32 bits"),
        (kernel("a[0] = simd_broadcast(a[1] > 0, 0);"), "no bool"),
        (
            kernel("a[0] = simd_sum(bfloat(a[1]));"),
            "no bool or bfloat",
        ),
        (kernel("l[0] = simd_or(l[1]);"), "take integers"),
        (
            String::from("template <auto n> int g() { return n; } ") + &kernel("a[0] = g<3>();"),
            "C++17",
        ),
        (
            String::from(first) + &kernel("float t[4] = {1}; a[0] = first(t);"),
            "no matching function",
        ),
        (
            String::from("float g(float *p) { return p[0]; } ") + &kernel("a[0] = g(a);"),
            "without an address space",
        ),
        (
            kernel("threadgroup float s[4]; device float *q = s; q[0] = 1;"),
            "__local",
        ),
    ] {
        let source = source(&body);
        if let Err(error) = Library::from_source(&own, &source) {
            panic!("{body}: {error}");
        }
        let error = Library::from_source(&strict, &source).expect_err(&body);
        assert_eq!(error.status(), Some(Status::Compile), "{body}: {error}");
        let text = error.to_string();
        assert!(
            text.contains(said) && text.contains(":3:"),
            "{body}: {text}"
        );
    }
}

/// Functions that the check of address spaces does not know are no mistakes, and neither is C++17 that Apple's
/// compiler takes before Metal 4.
fn e_what_apple_compiles_compiles() {
    let device = Device::open("cpu:strict=apple").unwrap();
    let body = "
        struct pair { float a; uint b; };
        constant bool wanted [[function_constant(0)]];
        constant float table[2] = {1.0f, 2.0f};
        template <typename T> T twice(T x) { if constexpr (sizeof(T) == 4) return x + x; else return x; }
        float sum(threadgroup const float *p, thread pair &q) { q.b += 1; return p[0] + q.a; }
        kernel void f(device float *a [[buffer(0)]], device atomic_uint *n [[buffer(1)]],
                      constant pair &given [[buffer(2)]], uint i [[thread_position_in_grid]]) {
          threadgroup float shared[4];
          shared[i % 4] = fract(a[i]) + sinh(a[i]) + table[i % 2];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          pair mine = given;
          if (wanted) mine.b = 7;
          float4 v = float4(a[i], 1, 2, 3).wzyx;
          atomic_fetch_add_explicit(n, popcount(mine.b), memory_order_relaxed);
          a[i] = twice(simd_sum(sum(shared, mine))) + dot(v, v) + as_type<float>(clz(mine.b)) + simd_sum(v).x +
                 float(simd_max(half(a[i]))) + float(simd_or(mine.b)) + length(simd_shuffle_xor(float3(a[i]), 1));
        }";
    let library = Library::from_source(&device, &source(body)).unwrap();
    let constants = [ironbridge::kernel::Constant::at(0, true)];
    library.kernel_with("f", &constants).unwrap();
}

fn e_subnormal_numbers_are_zero() {
    const SMALLEST: f32 = f32::MIN_POSITIVE;
    let body = "kernel void f(device float *x [[buffer(0)]], device float *out [[buffer(1)]]) {
        out[0] = x[0] * 0.5f; out[1] = x[1] + x[2]; out[2] = x[1] * 4096.0f; }";
    for (selector, expected) in [
        ("cpu:strict=apple", [0.0, 1e-3, 0.0]),
        ("cpu:strict=no", [SMALLEST / 2.0, 1e-3, SMALLEST * 8.0]),
    ] {
        let device = Device::open(selector).unwrap();
        let library = Library::from_source(&device, &source(body)).unwrap();
        let kernel = library.kernel("f").unwrap();
        let x = device
            .buffer_from(&[SMALLEST, SMALLEST / 512.0, 1e-3])
            .unwrap();
        let out = device.buffer::<f32>(3).unwrap();
        let mut commands = device.commands().unwrap();
        let dispatch = Dispatch {
            arguments: &[Argument::read(0, &x), Argument::write(1, &out)],
            grid: Grid::Threads([1; 3]),
            threadgroup: [1; 3],
        };
        // SAFETY: one thread reads three elements and writes three.
        unsafe { commands.dispatch(&kernel, &dispatch) }.unwrap();
        commands.run().unwrap();
        assert_eq!(out.to_vec().unwrap(), expected, "{selector}");
        // So do kernels of ours.
        let sums = device.buffer::<f32>(3).unwrap();
        let mut commands = device.commands().unwrap();
        let sum = Elementwise::new(
            x.tensor().vector(3),
            x.tensor().vector(3),
            sums.tensor().vector(3),
        );
        commands.add(&sum).unwrap();
        commands.run().unwrap();
        let doubled = match selector {
            "cpu:strict=apple" => [2.0 * SMALLEST, 0.0, 2e-3],
            _ => [2.0 * SMALLEST, SMALLEST / 256.0, 2e-3],
        };
        assert_eq!(sums.to_vec().unwrap(), doubled, "{selector}");
        // The thread that ran it computes as before.
        assert_eq!(
            std::hint::black_box(SMALLEST) * std::hint::black_box(0.5),
            SMALLEST / 2.0
        );
    }
}

/// 64 numbers of a thread that are alive at a barrier need 128 halves of registers, and addresses some more.
fn e_threads_are_as_many_as_registers_allow() {
    let body = |attribute: &str| {
        format!(
            "{attribute} kernel void f(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) {{
              float v[64];
              #pragma unroll
              for (int k = 0; k < 64; k++) v[k] = x[i * 64 + k];
              threadgroup_barrier(mem_flags::mem_device);
              float sum = 0;
              #pragma unroll
              for (int k = 0; k < 64; k++) sum += v[k] * v[63 - k] + sum;
              x[i * 64] = sum; }}"
        )
    };
    let stated = "[[max_total_threads_per_threadgroup(1024)]]";
    for (selector, attribute, most) in [
        ("cpu:strict=no", "", 1024..=1024),
        ("cpu:strict=apple", "", 640..=832),
        ("cpu:strict=apple", stated, 1024..=1024), // Apple's compiler would make it fit
    ] {
        let device = Device::open(selector).unwrap();
        let library = Library::from_source(&device, &source(&body(attribute))).unwrap();
        let kernel = library.kernel("f").unwrap();
        let threads = kernel.info().unwrap().max_threads_per_threadgroup;
        assert!(most.contains(&threads), "{selector} {attribute}: {threads}");
        let x = device.buffer::<f32>(64 * 1024).unwrap();
        let mut commands = device.commands().unwrap();
        let dispatch = Dispatch {
            arguments: &[Argument::write(0, &x)],
            grid: Grid::Threads([1024, 1, 1]),
            threadgroup: [1024, 1, 1],
        };
        // SAFETY: 1024 threads use 64 elements each.
        let recorded = unsafe { commands.dispatch(&kernel, &dispatch) };
        match threads {
            1024 => recorded.unwrap(),
            _ => {
                let error = recorded.unwrap_err();
                assert_eq!(error.status(), Some(Status::OutOfRange), "{error}");
                assert!(error.to_string().contains(&threads.to_string()), "{error}");
            }
        }
    }
}
