//! Many libraries in one process, and many threads that want one.

use super::program::{Program, source};
use crate::backend::cpu::msl::function::Function;
use crate::msl::Instrumentation;
use crate::msl::Setting;
use crate::msl::cache::Cache;
use crate::msl::library::Library;

const BODY: &str = "kernel void f(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n\
    threadgroup float t[32]; t[i] = i; threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = t[31 - i] + simd_sum(1.0f); }";

#[test]
fn five_hundred_libraries_are_loaded_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::at(&folder.path().join("ironbridge"), 1 << 20).expect("a cache");
    let library = Library::with_cache(&source(BODY), 1, cache).expect("it compiles");
    library
        .function("f", &[], Instrumentation::None)
        .expect("it compiles");
    let files = std::fs::read_dir(folder.path().join("ironbridge/msl")).expect("the cache");
    let largest = files
        .flatten()
        .max_by_key(|file| file.metadata().map_or(0, |data| data.len()));
    let compiled = largest.expect("an entry").path();
    let functions: Vec<Function> = (0..500)
        .map(|index| {
            let copy = folder.path().join(format!("{index}.so"));
            std::fs::copy(&compiled, &copy).expect("a copy");
            Function::load(&copy, "f", false)
                .unwrap_or_else(|error| panic!("library {index}: {error}"))
        })
        .collect();
    assert!(
        functions
            .iter()
            .all(|function| function.variable_bytes() == 128)
    );
    let out = Program::new("f", BODY).run::<f32>(32);
    assert_eq!(out[0], 63.0);
}

#[test]
fn eight_threads_that_want_the_same_functions_get_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("ironbridge");
    let body = format!(
        "constant uint n [[function_constant(0)]];\n{BODY}\nkernel void g(device uint *out [[buffer(0)]]) {{ out[0] = n; }}"
    );
    let open = || {
        Library::with_cache(
            &source(&body),
            1,
            Cache::at(&place, 1 << 20).expect("a cache"),
        )
    };
    let shared = open().expect("it compiles");
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let (shared, open) = (&shared, &open);
            scope.spawn(move || {
                let own = open().expect("it compiles");
                let mut bytes = [0; 32];
                bytes[0] = thread / 4;
                let settings = [Setting {
                    name: None,
                    index: 0,
                    data_type: 33,
                    bytes,
                }];
                for library in [shared, &own] {
                    let g = library
                        .function("g", &settings, Instrumentation::None)
                        .expect("it compiles");
                    let f = library
                        .function("f", &[], Instrumentation::None)
                        .expect("it compiles");
                    assert_eq!(
                        (f.name(), f.variable_bytes(), g.variable_bytes()),
                        ("f", 128, 0)
                    );
                    let again = library
                        .function("g", &settings, Instrumentation::None)
                        .expect("it is there");
                    assert!(std::sync::Arc::ptr_eq(&g, &again));
                }
            });
        }
    });
    let entries = std::fs::read_dir(place.join("msl"))
        .expect("the cache")
        .flatten();
    let entries =
        entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "entry"));
    // The source, f without a value, g with each of two.
    assert_eq!(entries.count(), 4);
}
