//! Sources that are wrong: the message has the line, and says what is wrong.

use super::program::errors;

/// The error starts with its line, which counts the two of the prologue, and contains the text.
#[track_caller]
fn expect(body: &str, line: u32, text: &str) {
    let found = errors(body);
    let place = format!("program_source:{line}:");
    assert!(
        found.starts_with(&place) && found.contains(text),
        "{found}\n-- not {place}…{text}"
    );
}

#[test]
fn what_the_compiler_says_is_placed_on_the_sources_line() {
    expect(
        "kernel void f(device float *x [[buffer(0)]]) {\n  x[0] = y;\n}",
        4,
        "undeclared identifier 'y'",
    );
    expect(
        "kernel void f(device float *x [[buffer(0)]]) {\n  x[0] = 1\n}",
        4,
        "expected ';'",
    );
    expect("#error no luck\nkernel void f() {}", 3, "no luck");
    expect("#include <stdio.h>\n", 3, "file not found");
    expect("\n#if 1\nkernel void f() {}", 4, "unterminated");
    let found = errors("kernel void f(device float *x [[buffer(0)]]) {\n  x[0] = y;\n}");
    assert!(
        found.contains("\n    x[0] = y;"),
        "the line itself is shown: {found}"
    );
}

#[test]
fn a_mistake_seen_inside_the_standard_library_is_placed_where_it_was_made() {
    expect(
        "kernel void f(device float *x [[buffer(0)]]) {\n\n  x[0] = as_type<uchar>(1.0f);\n}",
        5,
        "as_type needs two types of the same size",
    );
    expect(
        "kernel void f(device half *x [[buffer(0)]]) {\n  simdgroup_float8x8 m;\n  simdgroup_load(m, x);\n}",
        5,
        "memory of the matrix's own type",
    );
}

#[test]
fn templates_are_checked_when_they_are_instantiated() {
    let body = "template <typename T> kernel void f(device T *x [[buffer(0)]]) {\n  x[0].nothing = 1;\n}\n";
    assert!(crate::msl::library::Library::new(&super::program::source(body), 1).is_ok());
    let body = format!("{body}template [[host_name(\"g\")]] kernel void f<float>(device float *);");
    expect(&body, 4, "member reference base type 'float'");
}

#[test]
fn attributes_that_this_device_does_not_have() {
    expect(
        "kernel void f(device float *x [[buffer(0)]], uint y [[stage]]) {}",
        3,
        "[[stage]] is not supported",
    );
    expect(
        "kernel void f(device float *x [[buffer]]) {}",
        3,
        "[[buffer]] needs an argument",
    );
    expect(
        "kernel void f(device float *x [[buffer(0)]], float y [[thread_position]]) {}",
        3,
        "[[thread_position]] is not supported",
    );
}

#[test]
fn kernels_return_void_and_take_memory_by_pointer() {
    expect(
        "\nkernel int f(device float *x [[buffer(0)]]) { return 0; }",
        4,
        "a kernel returns void",
    );
    assert!(
        errors("kernel void f(float x [[buffer(0)]]) {}").contains("is a pointer or a reference")
    );
}

#[test]
fn what_headers_of_the_library_refuse_is_placed_on_the_sources_line() {
    expect(
        "\nkernel void f(device float *t [[texture(1)]]) {}",
        4,
        "is a texture, a sampler or an array of them",
    );
    expect(
        "\nkernel void f(texture2d_ms_array<float> t [[texture(1)]]) {}",
        4,
        "multisample textures are not supported",
    );
    expect(
        "\nkernel void f(texture2d<float> t [[texture(1)]]) {\n  t.write(float4(0), uint2(0));\n}",
        5,
        "neither access::write nor access::read_write",
    );
}

#[test]
fn every_error_of_a_pass_is_told_with_its_line_column_and_caret() {
    let found = errors(
        "#define SPACE threadgroup\n\
         kernel void f(device float *x [[buffer(0)]], uint a [[stage]],\n\
         \x20             uint b [[other]]) {}\n",
    );
    let want = "program_source:4:53: error: [[stage]] is not supported on a kernel's parameter\n    \
                kernel void f(device float *x [[buffer(0)]], uint a [[stage]],\n    \
                \x20                                                   ^\n\
                program_source:5:22: error: [[other]] is not supported on a kernel's parameter\n    \
                uint b [[other]]) {}\n    \
                \x20      ^";
    assert_eq!(found, want);
    let found = errors(
        "kernel void f(device float *x [[buffer(0)]]) {\n\
           threadgroup float t(1);\n  x[0] = 1; float threadgroup u[4];\n}",
    );
    let want = "program_source:4:20: error: a threadgroup variable is initialized by `=` only\n    \
                threadgroup float t(1);\n    \
                \x20                  ^\n\
                program_source:5:19: error: cannot tell";
    assert!(found.starts_with(want), "{found}");
    let found = errors("kernel void f() {\n  asm(\"\"); new int;\n  typeid(int);\n}");
    let places: Vec<_> = found
        .lines()
        .filter(|line| line.contains("error"))
        .collect();
    let want = [
        "program_source:4:3: error: Metal has no `asm`",
        "program_source:4:12: error: Metal has no `new`",
        "program_source:5:3: error: Metal has no `typeid`",
    ];
    assert_eq!(places, want, "{found}");
    let found = errors(&"asm;\n".repeat(1000));
    assert_eq!(found.matches("Metal has no `asm`").count(), 20);
}

#[test]
fn a_threadgroup_that_is_not_understood_is_an_error() {
    let inside = |statement: &str| {
        format!("kernel void f(device float *x [[buffer(0)]]) {{\n  {statement}\n}}")
    };
    expect(
        &inside("threadgroup float t(1);"),
        4,
        "initialized by `=` only",
    );
    expect(
        &inside("threadgroup float t{1};"),
        4,
        "initialized by `=` only",
    );
    expect(
        &inside("float threadgroup t[4];"),
        4,
        "cannot tell what `threadgroup` means",
    );
    expect(
        &inside("static threadgroup float t[4];"),
        4,
        "cannot tell what `threadgroup` means",
    );
    expect(
        "typedef threadgroup float shared;",
        3,
        "cannot tell what `threadgroup` means",
    );
    expect(
        "using shared = threadgroup float;",
        3,
        "cannot tell what `threadgroup` means",
    );
    expect(
        "void f(threadgroup float x) {}",
        3,
        "cannot tell what `threadgroup` means",
    );
    expect(
        "template <typename T> struct s {}; s<threadgroup float> x;",
        3,
        "cannot tell what `threadgroup` means",
    );
}

#[test]
fn brackets_and_literals_that_never_end() {
    expect("kernel void f(device float *x [[buffer(0)]) {}", 3, "error");
    expect(
        "namespace a { } }\nkernel void f() {}",
        3,
        "`}` closes nothing",
    );
    expect("kernel void f(", 3, "never closed");
    expect("kernel f", 3, "does not end");
}

#[test]
fn function_constants_need_literal_indices_and_names() {
    expect(
        "constant int n [[function_constant(k)]];",
        3,
        "`k` is not an integer",
    );
    expect(
        "constant bool b = is_function_constant_defined(c);",
        3,
        "`c` is not a function constant",
    );
}

#[test]
fn no_kernel_of_that_name() {
    let library = crate::msl::library::Library::new(
        &super::program::source("kernel void a(device int *x) {}\nkernel void b(device int *x) {}"),
        1,
    )
    .unwrap();
    assert_eq!(library.names().collect::<Vec<_>>(), ["a", "b"]);
    let error = library
        .function("c", &[], crate::msl::Instrumentation::None)
        .expect_err("there is none")
        .to_string();
    assert_eq!(error, "no kernel `c`; the source defines a, b");
}

/// C++ would choose without the address space, and otherwise than Metal.
#[test]
fn what_an_address_space_alone_decides_is_refused() {
    let overloads = "could tell them apart by address space only";
    let specialized = "this template is specialized by address space";
    let kernel = "\nkernel void f(device float *o [[buffer(0)]]) { float t[1]; o[0] = g(t); }";
    for (first, second, text) in [
        (
            "float g(device float *p) { return 1; }",
            "float g(thread const float *p) { return 2; }",
            overloads,
        ),
        (
            "float g(device float (&p)[1]) { return 1; }",
            "float g(thread const float (&q)[1]) { return 2; }",
            overloads,
        ),
        (
            "template <class T> float g(device T *p) { return 1; }",
            "float g(thread float *p) { return 2; }",
            overloads,
        ),
        (
            "template <class T> float g(T p) { return 1; }",
            "float g(device float *p) { return 2; }",
            overloads,
        ),
        (
            "float g(device void *p) { return 1; }",
            "float g(thread float *p) { return 2; }",
            overloads,
        ),
        (
            "float g(device float *device *p) { return 1; } float g(thread float *p) { return 1; }",
            "float g(thread float *device const *p) { return 2; }",
            overloads,
        ),
        (
            "template <class T> float g(device T *p) { return 1; }",
            "template <class T> float g(constant T *p) { return 2; }",
            overloads,
        ),
        (
            "struct s { float a() thread const { return 1; }",
            "float a() device { return 2; } }; float g(thread float *t) { return s().a(); }",
            overloads,
        ),
        (
            "template <class T> struct p { static constexpr constant int n = 0; };",
            "template <class T> struct p<device T *> { static constexpr constant int n = 1; };\n\
             template <class T> float g(T t) { return p<T>::n; }",
            specialized,
        ),
        (
            "template <class T> struct p {}; template <class T> struct p<device T *> { static constexpr constant int n = 1; };",
            "template <class T> struct p<constant T *> { static constexpr constant int n = 2; };\n\
             template <class T> float g(T t) { return p<T>::n; }",
            specialized,
        ),
        (
            "struct no { static constexpr constant int n = 0; }; struct yes { static constexpr constant int n = 1; };\n\
             template <class T> struct p : no {}; template <class T> struct p<device T *> : yes {};",
            "template <class T> float g(T t) { return p<T>::n; }",
            specialized,
        ),
        (
            "template <class T> constant constexpr bool is_device = false;",
            "template <class T> constant constexpr bool is_device<device T *> = true;\n\
             template <class T> float g(T t) { return is_device<T>; }",
            specialized,
        ),
        (
            "template <class T> float g(T t) { return 1; }",
            "template <> float g<device float *>(device float *t) { return 2; }",
            specialized,
        ),
    ] {
        expect(&format!("{first}\n{second}{kernel}"), 4, text);
    }
}

#[test]
fn overloads_by_address_space_with_bodies_of_their_own_are_refused() {
    let text = "differ in the address spaces of their parameters and in their bodies";
    let call = "kernel void f(device float *o [[buffer(0)]]) { float s = o[0]; o[2] = g(s); }";
    let functions = "float g(const device float &v) { return v + 1; }\n\
                     float g(const thread float &v) { return v + 11; }\n";
    expect(&format!("{functions}{call}"), 4, text);
    expect(
        "struct loader {\n  float at(device const float *p) { return p[0]; }\n\
         float at(thread const float *p) { return p[1]; }\n};\nkernel void f() {}",
        5,
        text,
    );
    expect(
        "struct loader {\n  float at(device const float *p);\n\
         float at(thread const float *p) { return p[1]; }\n};\nkernel void f() {}",
        5,
        text,
    );
}
