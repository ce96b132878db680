//! What a source may not do because its kernels would reach beyond themselves: refused with the line, and harmless
//! besides.

use super::program::{Program, errors, source};
use crate::msl::Instrumentation;
use crate::msl::library::Library;

/// The error is about the last of these lines, the first of which is the source's fourth, and contains the text.
#[track_caller]
fn refused(lines: &str, text: &str) {
    let found = errors(&format!(
        "\n{lines}\nkernel void f(device int *x [[buffer(0)]]) {{ x[0] = 1; }}"
    ));
    let place = format!("program_source:{}:", 3 + lines.lines().count());
    assert!(
        found.starts_with(&place) && found.contains(text),
        "{lines}:\n{found}\n-- not {place}{text}"
    );
}

#[test]
fn objects_at_program_scope_that_need_a_constructor() {
    refused(
        "struct A { A() { *(volatile int *)0 = 1; } }; A a;",
        "global constructor",
    );
    refused(
        "struct A { int n; ~A() { n = 1; } }; static A a;",
        "global destructor",
    );
    refused(
        "int g(); struct B { static int n; }; int B::n = *(volatile int *)16;",
        "global constructor",
    );
}

#[test]
fn constants_that_are_known_in_time_are_no_such_objects() {
    let body = "constant float4 a = float4(1, 2, 3, 4) * 2.0f;\n\
        constant float3x3 b = float3x3(1.0f);\n\
        constant float2x2 m = float2x2(float2(1, 2), -float2(3, 4));\n\
        constant half2x2 n = half2x2(1, 2, 3, 4);\n\
        constant half c[2] = {half(1.5f), half(2)};\n\
        struct pair { float2 first; float second; };\n\
        constant pair d = {float2(1, 2) + 1.0f, 3.0f};\n\
        constant float e = sqrt(16.0f);\n\
        kernel void f(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n\
          x[i] = a.w + b[1].y + c[1] + d.first.y + d.second + e + m[1].y + n[0].x; }";
    assert_eq!(Program::new("f", body).run::<f32>(32), [18.0; 32]);
}

#[test]
fn attributes_that_say_something_about_the_library() {
    for name in [
        "constructor",
        "__constructor__(101)",
        "destructor",
        "ifunc(\"x\")",
        "alias(\"x\")",
        "weak",
        "visibility(\"default\")",
    ] {
        refused(
            &format!("__attribute__((unused, {name})) static void g() {{}}"),
            "is not supported",
        );
        refused(
            &format!("[[gnu::{name}]] static void g() {{}}"),
            "is not supported",
        );
    }
    refused(
        "__attribute__((section(\".init_array\"))) int n = 1;",
        "`__attribute__((section))` is not supported",
    );
    refused(
        "[[using gnu: constructor]] static void g() {}",
        "is not supported",
    );
    refused("<:<:gnu::constructor:>:> static void g() {}", "error");
    refused(
        "[template kernel X<1>; [gnu::constructor]] static void g() {}",
        "error",
    );
    refused("__declspec(thread) int n;", "Metal has no `__declspec`");
    refused("thread_local int n;", "Metal has no `thread_local`");
    refused(
        "#define T thread_##local\nT int n;",
        "Metal has no `thread_local`",
    );
}

#[test]
fn attributes_that_are_the_declarations_own_stay() {
    let body = "#define PURE __attribute__((const, __always_inline__))\n\
        struct __attribute__((packed)) p { char a; int b; };\n\
        [[clang::noinline]] static float g(float x) { return x + sizeof(p); }\n\
        PURE static float h(float x) { return x * 2; }\n\
        #pragma mark kernels\n\
        kernel void f(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n\
          #pragma clang diagnostic ignored \"-Wunused\"\n\
          x[i] = h(g(1'0.5f)) + __builtin_popcount(3u); }";
    assert_eq!(Program::new("f", body).run::<f32>(32), [33.0; 32]);
}

#[test]
fn assembly() {
    for word in ["asm", "__asm", "__asm__"] {
        refused(
            &format!("{word}(\".incbin \\\"/etc/passwd\\\"\");"),
            &format!("Metal has no `{word}`"),
        );
    }
    refused("#define A as\\\nm\n\nA(\"\");", "Metal has no `asm`");
    refused(
        "static const char *s = R\"(\")\" asm(\"nop\");",
        "no raw string literals",
    );
    refused(
        "static int g() { return 1'0; asm(\"nop\"); return 1'0; }",
        "Metal has no `asm`",
    );
    refused("extern int n asm(\"environ\");", "Metal has no `asm`");
}

#[test]
fn files_that_are_no_part_of_metal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.h");
    std::fs::write(&file, "int mine;\n").expect("a file");
    let name = file.display();
    refused(&format!("#include \"{name}\""), "is no part of Metal");
    refused(&format!("#import \"{name}\""), "is no part of Metal");
    refused(&format!("#include_next <{name}>"), "is no part of Metal");
    let found = errors(&format!("\n#if __has_include(\"{name}\")\n#endif\n"));
    assert!(
        found.starts_with("program_source:4: ") && found.contains("is no part of Metal"),
        "{found}"
    );
    refused(&format!("#embed \"{name}\""), "");
    refused(
        &format!("#define H #\nH include \"{name}\""),
        "a directive that is the result of a macro",
    );
    refused(
        "#include <metal/../metal/../../library/constants.h>",
        "is no part of Metal",
    );
    // Those that are not there are no such thing.
    let body = "#if __has_include(<simd/simd.h>) && !__has_include(\"/no/such/file\")\n\
        #include <metal_math>\n#include <simd/simd.h>\n#endif\n\
        kernel void f(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = exp(0.0f); }";
    assert_eq!(Program::new("f", body).run::<f32>(32), [1.0; 32]);
}

#[test]
fn functions_that_neither_the_source_nor_metal_has() {
    refused(
        "extern \"C\" int system(const char *); static int g() { return system(\"true\"); }",
        "",
    );
    let calls = |name: &str, call: &str| {
        let found = errors(&format!(
            "extern \"C\" int {name}(const char *);\n\nkernel void f(device int *x [[buffer(0)]]) {{ x[0] = {call}; }}"
        ));
        assert!(
            found.contains(&format!("function '{name}'")) && found.contains("is not defined"),
            "{found}"
        );
        assert!(found.starts_with("program_source:3:"), "{found}");
    };
    calls("system", "system(\"true\")");
    calls("puts", "puts(\"\")");
    refused("static void *g() { return new int; }", "Metal has no `new`");
    refused(
        "static void g(int *p) { delete p; }",
        "Metal has no `delete`",
    );
    for builtin in [
        "__builtin_trap()",
        "__builtin_longjmp(0, 1)",
        "__builtin_printf(\"\")",
        "__builtin_ia32_rdtsc()",
    ] {
        refused(
            &format!("static void g() {{ {builtin}; }}"),
            "is not supported",
        );
    }
}

#[test]
fn variables_of_the_process_are_found_in_the_object() {
    let body = "extern \"C\" char **environ;\nkernel void f(device ulong *x [[buffer(0)]]) {\n x[0] = (ulong)environ; }";
    let library = Library::new(&source(body), 1).unwrap_or_else(|error| panic!("{error}"));
    let error = library
        .function("f", &[], Instrumentation::None)
        .expect_err("it is not Metal's")
        .to_string();
    assert!(
        error.contains("program_source:3: error: `environ` is used, and neither this source nor Metal defines it")
            || cfg!(target_os = "macos"),
        "{error}"
    );
}

#[test]
fn pragmas_that_change_more_than_what_follows() {
    refused(
        "#pragma clang attribute push(__attribute__((constructor)), apply_to = function)",
        "`#pragma clang attribute`",
    );
    refused(
        "_Pragma(\"clang section text=\\\".init\\\"\")",
        "`#pragma clang section`",
    );
    refused("#pragma comment(lib, \"c\")", "`#pragma comment`");
    refused("#pragma weak f = g", "`#pragma weak`");
}

#[test]
fn sources_that_nest_too_deeply_or_never_end() {
    refused(
        &format!(
            "static int g() {{ return {}1{}; }}",
            "(".repeat(100_000),
            ")".repeat(100_000)
        ),
        "nests deeper than 256 brackets",
    );
    let long = "+1".repeat(200_000);
    let _ = Library::new(&source(&format!("constant int n = 0{long};")), 1); // an error or not, no crash of ours
    refused(
        "template <int n> struct s { static constant int v = s<n + 1>::v; }; constant int n = s<0>::v;",
        "recursive template",
    );
    let found = errors(&format!("{}int x;", "-".repeat(300_000)));
    assert!(
        !found.is_empty() && found.len() < 100_000,
        "{} bytes",
        found.len()
    );
}
