//! What Metal source in use relies on beyond the specification's examples: overloads by address space, explicit
//! instantiations in every form, Apple's own names. Each program is a short one of ours.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use super::program::{Program, errors, source};
use crate::msl::Instrumentation;
use crate::msl::library::Library;

/// A kernel `f` of one thread, and what it writes.
struct Case {
    name: &'static str,
    body: &'static str,
    expected: &'static [f32],
}

const fn case(name: &'static str, body: &'static str, expected: &'static [f32]) -> Case {
    Case {
        name,
        body,
        expected,
    }
}

const CASES: &[Case] = &[
    case(
        "overloads behind an attribute",
        "#define FUNC inline __attribute__((always_inline))\n\
         FUNC float g(device const int *p) { return p[0]; } FUNC float g(constant int *p) { return p[0]; }\n\
         kernel void f(device float *o [[buffer(0)]], device const int *p [[buffer(1)]]) { o[0] = g(p); }",
        &[7.0],
    ),
    case(
        "overloaded operators",
        "struct c { float r; };\n\
         thread c &operator+=(thread c &a, c b) { a.r += b.r; return a; }\n\
         device c &operator+=(device c &a, c b) { a.r += b.r; return a; }\n\
         struct d { float r; d() = default; d(float x) : r(x) {}\n\
           thread d &operator=(d other) thread { r = other.r; return *this; }\n\
           device d &operator=(d other) device { r = other.r; return *this; } };\n\
         kernel void f(device float *o [[buffer(0)]]) { c a{1}; a += c{2}; d b; b = d(4); o[0] = a.r + b.r; }",
        &[7.0],
    ),
    case(
        "a template specialized by address space",
        "template <class T> struct p { static constexpr constant int n = 1; };\n\
         template <class T> struct p<device T *> { static constexpr constant int n = 2; };\n\
         template <class T> struct p<thread T *> { static constexpr constant int n = 2; };\n\
         template <class T> struct p<constant T *> { static constexpr constant int n = 2; };\n\
         template <class T> struct p<threadgroup T *> { static constexpr constant int n = 2; };\n\
         kernel void f(device float *o [[buffer(0)]]) { o[0] = p<device float *>::n; o[1] = p<float>::n; }",
        &[2.0, 1.0],
    ),
    case(
        "a bfloat beside another number in ?:",
        "void g() {} kernel void f(device float *o [[buffer(0)]]) { bfloat x = 3; int n = 4; float z = 2;\n\
           bfloat w[2]; w[0] = n > 0 ? -x : 0; o[0] = x < 0 ? 0 : x;\n\
           o[1] = x > 4 ? x : 1.5; o[2] = n > 0 ? n + 1 : 0;\n\
           o[3] = w[0]; o[4] = n > 5 ? x : z * (exp(0.0f) + 1); w[1] = n > 0 ? x : w[0]; o[5] = w[1]; n ? g() : g();\n\
           (n > 9 ? z : o[6]) = 8; }",
        &[3.0, 1.5, 5.0, -3.0, 4.0, 3.0, 8.0],
    ),
    case(
        "a bfloat of what converts to a number",
        "struct no { char c; constexpr operator bool() thread { return true; } constexpr operator bool() const device { \
         return true; } };\n\
         template <class T> struct scale { T by; }; \n\
         kernel void f(device float *o [[buffer(0)]], device const no *n [[buffer(1)]]) { scale<bfloat> s; s.by = n[0];\n\
           o[0] = s.by; s.by = 3; o[1] = s.by; s.by = bfloat(4); o[2] = s.by; s.by = half(5); o[3] = s.by; }",
        &[1.0, 3.0, 4.0, 5.0],
    ),
    case(
        "constructors by address space, and from a list",
        "template <class T, int N, int M=N> struct s { T v[M]; s() thread = default;\n\
           s(const thread s &o) thread = default; s(const constant s &o) thread = default;\n\
           s(const thread T &x) thread { v[0] = x; } s(const constant T &x) thread { v[0] = x; }\n\
           thread s &operator=(initializer_list<T> l) thread { v[0] = l.size() + *l.begin(); return *this; } };\n\
         kernel void f(device float *o [[buffer(0)]]) { s<float, 1> a(3.0f); o[0] = a.v[0]; a = {4.0f, 5.0f}; \
         o[1] = a.v[0]; }",
        &[3.0, 6.0],
    ),
    case(
        "Apple's internal functions",
        "kernel void f(device float *o [[buffer(0)]]) { o[0] = __metal_exp(0.0, __METAL_MAYBE_FAST_MATH__);\n\
           o[1] = __metal_fabs(-2.0, __METAL_MAYBE_FAST_MATH__); o[2] = __metal_fmax(1.0, 3.0, \
           __METAL_MAYBE_FAST_MATH__); o[3] = __metal_divide(6.0, 2.0, __METAL_FAST_MATH__);\n\
           int e; o[4] = __metal_frexp(8.0, &e); o[4] += e; o[5] = __metal_fma(2.0, 3.0, 4.0);\n\
           o[6] = __metal_simd_xor(-5.0f); o[7] = __metal_get_simdgroup_size(ushort());\n\
           o[8] = __metal_simd_shuffle_and_fill_up(1.0f, 2.0f, ushort(0), ushort(32));\n\
           constexpr const uniform<int> u = make_uniform(9); o[9] = __metal_fract(u + 0.5f, __METAL_PRECISE_MATH__); }",
        &[1.0, 2.0, 3.0, 3.0, 4.5, 10.0, -5.0, 32.0, 1.0, 0.5],
    ),
    case(
        "traits of Apple's library",
        "template <class T, class = enable_if_t<_disjunction<is_same<T, float>, is_same<T, int>>::value>> T g(T x) { \
         return x; }\n\
         kernel void f(device float *o [[buffer(0)]], constant uint &n [[buffer(1)]]) {\n\
           using T = remove_addrspace_t<device float>; T x = 1; o[0] = g(x); uniform<uint> m = make_uniform(n); o[1] \
           = m;\n\
           o[2] = __is_valid_simdgroup_type<float>::value; }",
        &[1.0, 7.0, 1.0],
    ),
    case(
        "names of the standard library that are not Metal's",
        "namespace metal { template <class... T> struct mv { typedef void type; };\n\
         template <class... T> using void_t = typename mv<T...>::type;\n\
         template <class T> struct is_empty : bool_constant<__is_empty(T)> {}; }\n\
         struct E {};\n\
         kernel void f(device float *o [[buffer(0)]]) { o[0] = is_empty<E>::value; }",
        &[1.0],
    ),
    case(
        "threads by a template's parameter",
        "template <int N> [[kernel, max_total_threads_per_threadgroup(N * 32)]] void g(device float *o \
         [[buffer(0)]]) { o[0] = N; }\n\
         template [[host_name(\"f\")]] [[kernel]] decltype(g<2>) g<2>;",
        &[2.0],
    ),
    case(
        "an instantiation with deduced arguments",
        "template <class T> [[kernel]] void g(device T *o [[buffer(0)]], uint i [[thread_position_in_grid]]) { o[i] \
         = 5; }\n\
         template [[host_name(\"f\")]] [[kernel]] void g(device float *o [[buffer(0)]], uint i \
         [[thread_position_in_grid]]);\n\
         template [[host_name(\"other\")]] [[kernel]] void g(device half *, uint);",
        &[5.0],
    ),
    case(
        "an attribute behind threadgroup, or before it",
        "kernel void f(device float *o [[buffer(0)]]) { threadgroup __attribute__((aligned(16))) float t[16]; t[0] = \
         1;\n\
           alignas(16) threadgroup float u[4]; u[1] = 2; o[0] = t[0] + u[1]; }",
        &[3.0],
    ),
    case(
        "a threadgroup variable with an initializer",
        "template <class T> T g(int n) { threadgroup T t[2] = {T(n), 7}, u = T(n) * 0.5, v; v = 1; return t[0] + t[1] + \
         u + v; }\n\
         kernel void f(device float *o [[buffer(0)]]) { threadgroup float s[4] = {0}; threadgroup int \n\
           n = 3; threadgroup float4 w = float4(2);\n\
           o[0] = s[0] + s[3]; o[1] = n; o[2] = w.y; o[3] = g<float>(2); o[4] = g<int>(4); }",
        &[0.0, 3.0, 2.0, 11.0, 14.0],
    ),
    case(
        "short lists of a vector's components in braces",
        "struct S { float4 v; int n; }; float3 g(float x) { return {x, x}; }\n\
         kernel void f(device float *o [[buffer(0)]], constant uint &n [[buffer(1)]]) { uint4 a = {n, n + 1, 5};\n\
           o[0] = a.y; o[1] = a.z; o[2] = a.w; float2 b = {0.5f}; o[3] = b.x; o[4] = b.y; S s = {{1, 2}, 3};\n\
           o[5] = s.v.y; o[6] = s.v.z; o[7] = g(n).y; o[8] = g(n).z; float4 c{b, 1, n}; o[9] = c.w;\n\
           half4 h = {1, half(n), 3.0h, 4}; o[10] = h.y; packed_float3 p = {1.0f, 2.0f}; o[11] = p.y; o[12] = p.z;\n\
           int3 i = {}; o[13] = i.z; float3 d = float3{2, 3}; o[14] = d.x; o[15] = d.z; bfloat2 e = {4}; o[16] = e.y;\n\
           float2 m[2] = {{1}, {1, 2}}; o[17] = m[0].y; }",
        &[
            8.0, 5.0, 0.0, 0.5, 0.0, 2.0, 0.0, 7.0, 0.0, 7.0, 7.0, 2.0, 0.0, 0.0, 2.0, 0.0, 0.0,
            0.0,
        ],
    ),
    case(
        "static constant constexpr function constants",
        "static constant constexpr const bool g [[function_constant(0)]];\n\
         static constant const int n [[function_constant(1)]];\n\
         kernel void f(device float *o [[buffer(0)]]) { o[0] = is_function_constant_defined(g) + \
         is_function_constant_defined(n); }",
        &[0.0],
    ),
    case(
        "functions of the graphics stages beside a kernel",
        "struct V { float4 p [[position]]; };\n\
         vertex V v(uint i [[vertex_id]], device float4 *p [[buffer(0)]]) { return V{p[i]}; }\n\
         fragment float4 g(V in [[stage_in]]) { return in.p; }\n\
         kernel void f(device float *o [[buffer(0)]]) { o[0] = 4; }",
        &[4.0],
    ),
    case(
        "a user attribute on a parameter",
        "kernel void f(device float *o [[buffer(0)]], device float *p [[user(fake0)]]) { o[0] = 2; }",
        &[2.0],
    ),
    case(
        "functions of vectors",
        "kernel void f(device float *o [[buffer(0)]]) { float2 w; float2 v = modf(float2(1.5, 2.25), w); o[0] = v.y; \
         o[1] = w.x;\n\
           int2 e; float2 m = frexp(float2(8, 3), e); o[2] = m.x; o[3] = e.x; o[4] = ilogb(float2(8, 16)).y;\n\
           o[5] = ldexp(float2(1, 2), int2(3, 4)).y; o[6] = extract_bits(uint2(0xf0, 0xff), 4, 4).x;\n\
           o[7] = insert_bits(int2(0), int2(1), 3, 1).y; o[8] = numeric_limits<uint4>::max().x > 1 ? 1 : 0; }",
        &[0.25, 1.0, 0.5, 4.0, 4.0, 32.0, 15.0, 8.0, 1.0],
    ),
    case(
        "scalars beside vectors",
        "kernel void f(device float *o [[buffer(0)]]) { float2 v = float2(0, 2); o[0] = select(0, v, v > 1).y;\n\
           o[1] = smoothstep(0, 1, float(0.5)); int2 i = int2(1, 2) << uint2(3, 4); o[2] = i.y; }",
        &[2.0, 0.5, 32.0],
    ),
    case(
        "a user's own function of integers",
        "template <class T, class E = typename enable_if<is_integral<T>::value>::type> T sign(T x) { return x * 2; }\n\
         kernel void f(device float *o [[buffer(0)]]) { o[0] = sign(3); o[1] = sign(-2.5f); }",
        &[6.0, -1.0],
    ),
    case(
        "packing",
        "kernel void f(device float *o [[buffer(0)]]) { o[0] = \
         unpack_snorm2x16_to_float(pack_float_to_snorm2x16(float2(1, -1))).y;\n\
           o[1] = unpack_unorm4x8_srgb_to_float(pack_float_to_srgb_unorm4x8(float4(1, 0, 0, 1))).x;\n\
           o[2] = unpack_unorm10a2_to_float(pack_float_to_unorm10a2(float4(0, 1, 0, 1))).y;\n\
           o[3] = unpack_unorm2x16_to_half(pack_half_to_unorm2x16(half2(1, 0))).x;\n\
           o[4] = isordered(1.0f, 2.0f) + isunordered(1.0f, 2.0f); o[5] = \
           unpack_snorm4x8_to_half(pack_half_to_snorm4x8(half4(-1))).z; }",
        &[-1.0, 1.0, 1.0, 1.0, 1.0, -1.0],
    ),
    case(
        "votes of quads",
        "kernel void f(device float *o [[buffer(0)]]) { quad_vote v = quad_ballot(true); o[0] = v.all() || v.any();\n\
           o[1] = quad_broadcast_first(3.0f); o[2] = quad_all(true) && quad_any(true); }",
        &[1.0, 3.0, 1.0],
    ),
    case(
        "volatile vectors",
        "kernel void f(volatile device float4 *o [[buffer(0)]]) { o[0] = float4(1); o[1] = o[0]; }",
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    case(
        "the grid's origin and size",
        "kernel void f(device float *o [[buffer(0)]], uint g [[grid_origin]], uint3 s [[grid_size]]) { o[0] = g; \
         o[1] = s.x; }",
        &[0.0, 1.0],
    ),
    case(
        "coherent memory",
        "kernel void f(coherent device float *o [[buffer(0)]]) { o[0] = 1; }",
        &[1.0],
    ),
    case(
        "shuffles of wide elements",
        "kernel void f(device float *o [[buffer(0)]]) { long4 a = long4(1, 2, 3, 4); o[0] = simd_broadcast(a, 0).w; }",
        &[4.0],
    ),
    case(
        "packed vectors as arguments",
        "kernel void f(device float *o [[buffer(0)]]) { packed_float3 p = packed_float3(3, 4, 0); o[0] = length(p); \
         o[1] = dot(p, float3(1));\n\
           o[2] = abs(p).x; o[3] = clamp(p, 0.0, 1.0).y; packed_float4 q = packed_float4(1, 2, 3, 4); o[4] = q.zw.y;\n\
           packed_half4 h = packed_half4(q); o[5] = h.x; }",
        &[5.0, 7.0, 3.0, 1.0, 4.0, 1.0],
    ),
    case(
        "arithmetic of matrices",
        "kernel void f(device float *o [[buffer(0)]]) { float2x2 m = float2x2(2.0); o[0] = (-m)[0].x; o[1] = (m / \
         2.0)[1].y; }",
        &[-2.0, 1.0],
    ),
    case(
        "a loop over an array",
        "kernel void f(device float *o [[buffer(0)]]) { array<float, 3> a = {1, 2, 3}; float s = 0; for (auto x : a) \
         s += x; o[0] = s; }",
        &[6.0],
    ),
    case(
        "a vector's size that is deduced as another integer than int",
        "template <typename T, uint N> T last(vec<T, N> v) { return v[N - 1]; }\n\
         template <typename T, size_t N> auto size(thread const packed_vec<T, N> &v) { return max(N, ulong(1)); }\n\
         template <typename T, unsigned int N> vec<T, N> twice(vec<T, N> v); template <typename T, unsigned int N> \
         vec<T, N> twice(vec<T, N> v) { vec<T, N> r = v; T a[N]; for (uint i = 0; i < N; i++) a[i] = r[i]; return r + a[0]; }\n\
         template <typename T> struct shape { static constexpr constant uint n = 0; };\n\
         template <typename T, ushort N> struct shape<vec<T, N>> { static constexpr constant uint n = N; };\n\
         template <typename T, int N> T first(vec<T, N> v) { return v[0]; }\n\
         kernel void f(device float *o [[buffer(0)]]) { o[0] = last(float3(1, 2, 3)); o[1] = size(packed_float4(0));\n\
           o[2] = twice(float2(3, 4)).y; o[3] = shape<float4>::n; o[4] = shape<float>::n; o[5] = last<float, 2>(float2(5, 6));\n\
           o[6] = first(half4(9)); }",
        &[3.0, 4.0, 7.0, 4.0, 0.0, 6.0, 9.0],
    ),
    case(
        "overloads by address space that const tells apart as well, or other types",
        "float g(device float *p) { return 1; } float g(constant float *p) { return 2; }\n\
         float h(device float *p) { return 1; } float h(thread const int *p) { return 2; }\n\
         float b(device float *p, uint n) { return 1; } float b(thread const float *p) { return 2; }\n\
         template <class T> float a(T x, device const T *p) { return 1; }\n\
         template <class T> float a(uint2 x, constant T *p) { return 2; }\n\
         kernel void f(device float *o [[buffer(0)]], constant float *c [[buffer(1)]]) { int i = 0; float x = 0;\n\
           o[0] = g(o); o[1] = g(c); o[2] = h(o); o[3] = h(&i); o[4] = b(&x);\n\
           o[5] = a(x, o); o[6] = a(uint2(0), c); }",
        &[1.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0],
    ),
    case(
        "what is specialized for the one address space that is used, and assigned from two classes",
        "template <class T> struct width { static constexpr constant int n = 1; };\n\
         template <class T> struct width<device T *> { static constexpr constant int n = 2; };\n\
         template <class T> struct pair { T a, b; };\n\
         struct sum { float v; thread sum &operator=(thread const float2 &x) thread { v = x.x; return *this; }\n\
           thread sum &operator=(pair<float> x) thread { v = x.a + x.b; return *this; } };\n\
         kernel void f(device float *o [[buffer(0)]]) { o[0] = width<device float *>::n; o[1] = width<float>::n;\n\
           sum s; s = float2(3); o[2] = s.v; s = pair<float>{4, 5}; o[3] = s.v; }",
        &[2.0, 1.0, 3.0, 9.0],
    ),
    case(
        "a class template for every address space, with one body",
        "template <class T> struct element {};\n\
         template <class T> struct element<device T *> { using type = remove_cv_t<T>; };\n\
         template <class T> struct element<constant T *> { using type = remove_cv_t<T>; };\n\
         template <class T> struct element<thread T *> { using type = remove_cv_t<T>; };\n\
         template <class T> typename element<T>::type get(T p) { return p[0]; }\n\
         kernel void f(device float *o [[buffer(0)]], constant uint *c [[buffer(1)]]) { float x = 5; o[0] = get(&x); o[1] = get(c); }",
        &[5.0, 7.0],
    ),
    case(
        "a macro in a loop's pragma",
        "#define LEAST(x, y) ((x) < (y) ? (x) : (y))\n#define COUNT 2\n\
         template <int N> float g(device float *o) { float s = 0;\n\
         #pragma unroll (LEAST(N, 4))\n\
           for (int i = 0; i < N; i++) s += o == nullptr ? 0 : 1;\n\
         #pragma unroll COUNT\n\
           for (int i = 0; i < N; i++) s += 1;\n\
         #pragma unroll(N)\n\
           for (int i = 0; i < N; i++) s += 1;\n\
         #pragma clang loop unroll_count(2)\n\
           for (int i = 0; i < N; i++) s += 1;\n\
           return s; }\n\
         kernel void f(device float *o [[buffer(0)]]) { o[0] = g<4>(o); }",
        &[16.0],
    ),
    case(
        "a barrier with a scope",
        "kernel void f(device float *o [[buffer(0)]]) { threadgroup_barrier(mem_flags::mem_device, \
         memory_scope_device);\n\
           simdgroup_barrier(mem_flags::mem_none, memory_scope_simdgroup); o[0] = NULL == nullptr; }",
        &[1.0],
    ),
];

#[test]
fn every_program_compiles_and_is_right() {
    let mut wrong = Vec::new();
    for case in CASES {
        let run = || {
            let expected = case.expected.len();
            let program = Program::new("f", case.body).input(1, &[7u32]);
            program.groups([1, 1, 1], [1, 1, 1]).run::<f32>(expected)
        };
        match catch_unwind(run) {
            Ok(found) if found == case.expected => {}
            Ok(found) => wrong.push(format!("{}: {found:?}", case.name)),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                wrong.push(format!("{}: {text}", case.name));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn an_instantiation_may_repeat_its_parameters_attributes() {
    let body = "constant bool h [[function_constant(0)]];\n\
                template <class T> [[kernel]] void g(device T *o [[buffer(0)]], device T *m [[buffer(1), \
                function_constant(h)]]) {\n\
                  o[0] = h ? m[0] : T(3); }\n\
                template [[host_name(\"f\")]] [[kernel]] void g<float>(device float *o [[buffer(0)]],\n\
                  device float *m [[buffer(1), function_constant(h)]]);";
    // MTLDataTypeBool.
    for (given, expected) in [(0u8, 3.0f32), (1, 8.0)] {
        let program = Program::new("f", body)
            .input(1, &[8.0f32])
            .constant(0, 53, &[given]);
        assert_eq!(
            program.groups([1, 1, 1], [1, 1, 1]).run::<f32>(1),
            [expected]
        );
    }
}

#[test]
fn functions_of_other_stages_are_skipped_and_named() {
    let body = "vertex float4 v(uint i [[vertex_id]]) { return 0; }\n\
                template <typename T> [[fragment]] T g(T in [[stage_in]]) { return in; }\n\
                template [[host_name(\"h\")]] [[fragment]] float4 g<float4>(float4 in [[stage_in]]);\n\
                kernel void f(device float *o [[buffer(0)]]) { o[0] = 1; }";
    let library = Library::new(&source(body), 1).expect("a library");
    assert_eq!(library.names().collect::<Vec<_>>(), ["f"]);
    let error = library
        .function("v", &[], Instrumentation::None)
        .expect_err("no kernel");
    let error = error.to_string();
    assert!(error.contains("`v` is a vertex function"), "{error}");
}

#[test]
fn a_template_specialized_otherwise_by_address_space_is_an_error() {
    let error = errors(
        "template <class T> struct p { };\n\
         template <class T> struct p<device T *> { static constexpr constant int n = 1; };\n\
         template <class T> struct p<thread T *> { static constexpr constant int n = 2; };",
    );
    assert!(error.contains("program_source:5"), "{error}");
    assert!(error.contains("one address space"), "{error}");
}

/// The first thread stores the initializer, and no later one stores it again.
#[test]
fn a_threadgroup_variable_is_initialized_once() {
    let body = "kernel void f(device uint *o [[buffer(0)]], uint i [[thread_position_in_threadgroup]], uint g \
                [[threadgroup_position_in_grid]]) {\n\
                  for (int k = 0; k < 2; k++) { threadgroup atomic_uint n = {10}, m[2] = {{0}, {5}};\n\
                  atomic_fetch_add_explicit(&n, 1, memory_order_relaxed);\n\
                  threadgroup_barrier(mem_flags::mem_threadgroup);\n\
                  if (i == 0 && k == 1) { o[2 * g] = atomic_load_explicit(&n, memory_order_relaxed);\n\
                  o[2 * g + 1] = atomic_load_explicit(m + 1, memory_order_relaxed); } } }";
    let found = Program::new("f", body)
        .groups([2, 1, 1], [64, 1, 1])
        .run::<u32>(4);
    assert_eq!(found, [138, 5, 138, 5]);
}

#[test]
fn a_list_with_more_numbers_than_components_is_an_error() {
    let inside = |statement: &str| {
        format!("kernel void f(device float *o [[buffer(0)]]) {{ {statement}; o[0] = a.x; }}")
    };
    let error = errors(&inside("float2 a = {1, 2, 3}"));
    assert!(
        error.starts_with("program_source:3:") && error.contains("more numbers in braces"),
        "{error}"
    );
    // Of numbers that are not constants only the kernel's own compilation knows.
    let library =
        Library::new(&source(&inside("float2 a = {o[0], o[1], o[2]}")), 1).expect("a library");
    let error = library
        .function("f", &[], Instrumentation::None)
        .expect_err("an error")
        .to_string();
    assert!(error.contains("more numbers in braces"), "{error}");
}

#[test]
fn threads_by_a_parameter_need_spelled_arguments() {
    let error = errors(
        "template <class T> [[kernel, max_total_threads_per_threadgroup(sizeof(T) * 32)]]\n\
         void g(device T *o [[buffer(0)]]) { o[0] = 1; }\n\
         template [[host_name(\"f\")]] [[kernel]] void g(device float *o [[buffer(0)]]);",
    );
    assert!(error.contains("write them behind the name"), "{error}");
}

/// Each is taken out once, whatever their number.
#[test]
fn many_functions_of_other_stages_are_skipped_soon() {
    let vertex = "vertex float4 v(uint i [[vertex_id]], uint j [[instance_id]]) { return 0; }\n";
    let body = vertex.repeat(40_000) + "kernel void f(device float *o [[buffer(0)]]) { o[0] = 1; }";
    let start = Instant::now();
    let library = Library::new(&source(&body), 1).expect("a library");
    assert_eq!(library.names().collect::<Vec<_>>(), ["f"]);
    assert!(start.elapsed() < Duration::from_secs(60));
}
