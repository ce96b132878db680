//! What may point where. A strict device says what is wrong, and where; another one has one address space.

use super::program::source;
use crate::msl::library::Library;

/// What Apple's compiler says of a source, or nothing; on a device that is not strict it compiles.
fn refusal(body: &str) -> Option<String> {
    let source = source(body);
    if let Err(error) = Library::new(&source, 1) {
        panic!("{body}: {error}");
    }
    Library::as_apple(&source, 1)
        .err()
        .map(|error| error.to_string())
}

/// The kernel's statements are on line 4.
fn program(declarations: &str, statements: &str) -> String {
    format!(
        "{declarations}\nkernel void f(device float *o [[buffer(0)]], constant float *c [[buffer(1)]], threadgroup float \
         *s [[threadgroup(0)]]) {{ float t[4] = {{1}}; {statements} o[0] = t[0]; }}"
    )
}

#[test]
fn a_pointer_or_reference_into_another_space_is_refused() {
    for (declarations, statements) in [
        ("float g(device const float *p) { return p[0]; }", "g(t);"),
        ("float g(device const float *p) { return p[0]; }", "g(s);"),
        ("float g(thread const float *p) { return p[0]; }", "g(c);"),
        ("float g(threadgroup float *p) { return p[0]; }", "g(o);"),
        ("float g(device float &x) { return x; }", "g(t[0]);"),
        ("float g(thread const float &x) { return x; }", "g(s[0]);"),
        (
            "template <class T> T g(device const T *p) { return p[0]; }",
            "g(t);",
        ),
        (
            "float g(device float *device *p) { return 1; }",
            "device float *q = o; g(&q);",
        ),
        (
            "float g(thread float *thread *p) { return 1; }",
            "device float *q = o; g(&q);",
        ),
        ("struct box { device float *p; };", "box b; b.p = t;"),
        ("struct box { device float *p; };", "box b = {t};"),
        (
            "struct box { device float *p; };",
            "box b = {o}; thread float *q = b.p; t[0] = q[0];",
        ),
        ("", "device float *q = s;"),
        ("", "device float &q = t[1]; q = 1;"),
        ("", "device float *q = (device float *)t; q[0] = 1;"),
        (
            "",
            "device float *q = reinterpret_cast<device float *>(s); q[0] = 1;",
        ),
        ("", "thread float *q[2] = {t, s}; t[1] = q[1][0];"),
        ("", "device float *q = o[0] > 0 ? o : s; t[1] = q[0];"),
    ] {
        let said = refusal(&program(declarations, statements));
        assert!(
            said.as_ref()
                .is_some_and(|said| said.contains("program_source:4")),
            "{declarations} {statements}: {said:?}"
        );
    }
    let returned = refusal(&program(
        "device float *g(thread float *p) { return p; }",
        "g(t);",
    ));
    assert!(
        returned
            .as_ref()
            .is_some_and(|said| said.contains("program_source:3")),
        "{returned:?}"
    );
}

#[test]
fn what_points_where_it_says_is_taken() {
    for (declarations, statements) in [
        (
            "float g(device const float *p) { return p[0]; } float g(thread const float *p) { return p[0]; }",
            "g(o); g(t);",
        ),
        (
            "template <class P> float g(P p) { return p[0]; }",
            "g(o); g(c); g(s); g(t);",
        ),
        (
            "template <class T> T g(device const T *p) { return p[0]; }",
            "g(o); g<float>(o + 1);",
        ),
        (
            "float g(thread const float &x) { return x; }",
            "g(t[0]); g(1);",
        ),
        (
            "struct box { device float *p; float n; };",
            "box b = {o, 1}; thread box &r = b; r.p[0] = b.n;",
        ),
        (
            "struct pair { float a, b; };",
            "device pair *p = (device pair *)o; pair q = p[0]; p[1] = q; q = *(p + 1);",
        ),
        (
            "",
            "device float *q = o[0] > 0 ? o : o + 1; auto r = q + 1; t[1] = r[0];",
        ),
        (
            "",
            "device float *q[2] = {o, o + 1}; device float *thread *r = q; r[0][0] = 1;",
        ),
        (
            "",
            "s[0] = c[0]; t[1] = s[0]; o[1] = t[1]; threadgroup float4 *v = (threadgroup float4 *)s; v[0] = 1;",
        ),
    ] {
        assert_eq!(
            refusal(&program(declarations, statements)),
            None,
            "{declarations} {statements}"
        );
    }
}
