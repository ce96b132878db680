//! The check of our own kernels, `native/kernels/*.metal`, for what the CPU forgives and a GPU's compiler does not:
//! address spaces, and language features beyond the short list that these kernels keep to.

use super::apple_rules::{is_type, pointers_without_space};
use super::cache::Cache;
use super::compiler::Compiler;
use super::diagnostics;
use super::error::Error;
use super::tokens::{Kind, Tokens, tokenize};

/// What the kernels of this repository may use of Metal, by name. A GPU bug hides in a feature that is rarely used;
/// whoever adds one here has looked it up in the specification.
const FUNCTIONS: &[&str] = &[
    "allow_successor",
    "as_type",
    "async_copy",
    "async_copy_close",
    "async_copy_streamed",
    "async_copy_wait",
    "clamp",
    "divide",
    "dot",
    "exp",
    "fma",
    "integer_dot4",
    "isnan",
    "log",
    "make_filled_simdgroup_matrix",
    "max",
    "min",
    "pow",
    "powr",
    "precise",
    "quad_elements",
    "quad_halves",
    "quad_lane",
    "quad_load_left",
    "quad_load_right",
    "quad_load_right_rows",
    "quad_matrix",
    "quad_multiply_accumulate",
    "quad_place",
    "read_ahead",
    "rsqrt",
    "select",
    "sign",
    "simd_all",
    "simd_any",
    "simd_broadcast",
    "simd_max",
    "simd_min",
    "simd_shuffle",
    "simd_shuffle_down",
    "simd_shuffle_xor",
    "simd_sum",
    "simdgroup_barrier",
    "simdgroup_load",
    "simdgroup_multiply_accumulate",
    "simdgroup_store",
    "sin",
    "cos",
    "sqrt",
    "tanh",
    "threadgroup_barrier",
    "wait_for_predecessor",
    "abs",
    "fabs",
    "floor",
    "ceil",
    "round",
    "rint",
];
const ATTRIBUTES: &[&str] = &[
    "buffer",
    "function_constant",
    "host_name",
    "kernel",
    "max_total_threads_per_threadgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "thread_index_in_simdgroup",
    "thread_index_in_threadgroup",
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
    "threads_per_grid",
    "threads_per_threadgroup",
];
/// Words that a parenthesis may follow without a call.
const KEYWORDS: &[&str] = &[
    "if",
    "for",
    "while",
    "switch",
    "return",
    "sizeof",
    "alignof",
    "decltype",
    "static_assert",
    "defined",
    "operator",
    "and",
    "or",
    "not",
];

/// Everything that is wrong with a source; empty when nothing is.
fn problems(compiler: &Compiler, source: &str) -> Vec<String> {
    let check = || -> Result<Vec<String>, Error> {
        let preprocessed = compiler.preprocess(source)?;
        let tokens = tokenize(&preprocessed)?;
        let mut problems = pointers_without_space(&tokens);
        problems.extend(unlisted(&tokens));
        let said = compiler.check_address_spaces(&preprocessed)?;
        if !said.is_empty() {
            problems.push(diagnostics::error(&said, source).to_string());
        }
        if let Err(error) = compiler.program(source) {
            problems.push(error.to_string());
        }
        Ok(problems)
    };
    check().unwrap_or_else(|error| vec![error.to_string()])
}

/// Calls and attributes that are neither the source's own nor on the lists.
fn unlisted(tokens: &Tokens) -> Vec<String> {
    let list = &tokens.list;
    // A name that follows a type is being declared.
    let declared: Vec<&str> = list
        .windows(3)
        .filter(|three| three[1].kind == Kind::Identifier && matches!(three[2].text, "(" | "<"))
        .filter(|three| {
            is_type(tokens, three[0].text) || matches!(three[0].text, "*" | "&" | "void" | "]")
        })
        .map(|three| three[1].text)
        .collect();
    let mut problems = Vec::new();
    let mut attributes = 0;
    for at in 1..list.len().saturating_sub(1) {
        let (before, token, after) = (list[at - 1].text, &list[at], list[at + 1].text);
        match (before, token.text) {
            ("[", "[") => attributes += 1,
            ("]", "]") if attributes > 0 => attributes -= 1,
            _ => {}
        }
        if token.kind != Kind::Identifier {
            continue;
        }
        let name = token.text;
        let known = match attributes > 0 {
            true => !matches!(before, "[" | ",") || ATTRIBUTES.contains(&name),
            false => {
                after != "("
                    || KEYWORDS.contains(&name)
                    || declared.contains(&name)
                    || FUNCTIONS.contains(&name)
                    // What the standard library's macros stand for: INFINITY, NAN.
                    || name.starts_with("__builtin_")
                    || is_type(tokens, name)
                    || matches!(before, "." | "->")
            }
        };
        if !known {
            problems.push(
                tokens
                    .error(
                        token.place,
                        format!("`{name}` is not on the list of what our kernels use"),
                    )
                    .to_string(),
            );
        }
    }
    problems
}

fn compiler() -> Compiler {
    let cache = Cache::open().unwrap_or_else(|error| panic!("{error}"));
    Compiler::open(cache).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn our_kernels_are_clean() {
    let compiler = compiler();
    let mut count = 0;
    for (family, source) in super::builtin::own_metal_sources() {
        let problems = problems(&compiler, &source);
        assert!(
            problems.is_empty(),
            "{family}.metal:\n{}",
            problems.join("\n")
        );
        count += 1;
    }
    assert!(count > 0);
}

/// A source with one mistake on its line 4.
#[track_caller]
fn finds(body: &str, what: &str) {
    let source = crate::backend::cpu::msl::conformance::program::source(&format!(
        "float first(device const float *p) {{ return p[0]; }}\n{body}"
    ));
    let problems = problems(&compiler(), &source).join("\n");
    assert!(
        problems.contains("program_source:4:") && problems.contains(what),
        "{body}:\n{problems}"
    );
}

#[test]
fn planted_mistakes_are_found() {
    let kernel = |body: &str| {
        format!(
            "kernel void f(device float *a [[buffer(0)]], constant float *c [[buffer(1)]]) {{ {body} }}"
        )
    };
    finds(
        "float missing(float *p) { return p[0]; }",
        "`float *` without an address space",
    );
    finds(
        "kernel void f(float *a [[buffer(0)]]) { a[0] = 1; }",
        "`float *` without an address space",
    );
    finds(
        &kernel("float t[2]; float *p = t; a[0] = p[0];"),
        "`float *` without an address space",
    );
    finds(
        &kernel("float *p = (float *)a; p[0] = 1;"),
        "`float *` without an address space",
    );
    finds(
        &kernel("float t[4]; t[0] = 1; a[0] = first(t);"),
        "no matching function",
    );
    finds(
        &kernel("threadgroup float s[4]; device float *q = s; q[0] = 1;"),
        "__local",
    );
    finds(&kernel("c[0] = 1;"), "const");
    finds(
        "void inc(thread uint &x) { x++; } kernel void f(device uint *a [[buffer(0)]]) { inc(a[0]); }",
        "no matching function",
    );
    finds(
        &kernel("simdgroup_half8x8 m; half t[64]; simdgroup_load(m, t, 8);"),
        "no matching function",
    );
    finds(&kernel("double y = 1.0; a[0] = y;"), "double");
    finds(
        "kernel int f(device float *a [[buffer(0)]]) { return 1; }",
        "a kernel returns void",
    );
    finds(
        "kernel void f(device float4 *a [[buffer(0)]], device half4 *h [[buffer(1)]]) { a[0] = h[0]; }",
        "no",
    );
    finds(
        &kernel("a[0] = tgamma(a[1]);"),
        "`tgamma` is not on the list",
    );
    finds(
        "kernel void f(device float *a [[buffer(0)]], uint q [[thread_index_in_quadgroup]]) { a[q] = 1; }",
        "`thread_index_in_quadgroup` is not on the list",
    );
}
