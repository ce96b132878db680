//! llama-cpp-sys-2 links GCC's OpenMP whatever the compiler; clang's code needs LLVM's.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-search=native=/usr/lib/llvm-19/lib");
    println!("cargo:rustc-link-lib=omp");
}
