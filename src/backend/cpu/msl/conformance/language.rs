//! Declarations, types, templates, the preprocessor, arguments and positions.

use half::{bf16, f16};

use super::program::Program;

fn counting(count: usize) -> Vec<f32> {
    (0..count).map(|index| index as f32).collect()
}

#[test]
fn literals_without_a_suffix_are_floats() {
    let out = Program::new(
        "f",
        "kernel void f(device float *out [[buffer(0)]]) {\n\
           out[0] = 1.0 / 3.0; out[1] = 1e-3; out[2] = .5; out[3] = 0x1p-2; out[4] = sizeof(1.0); out[5] = 1.5h; out[6] = 0x1e;\n\
           out[7] = is_same_v<decltype(2.0), float>; }",
    )
    .groups([1, 1, 1], [1, 1, 1])
    .run::<f32>(8);
    assert_eq!(out, [1.0 / 3.0, 1e-3, 0.5, 0.25, 4.0, 1.5, 30.0, 1.0]);
}

#[test]
fn a_parameter_without_attribute_takes_the_lowest_free_buffer() {
    let body = "kernel void f(device float *out, device const float *b [[buffer(2)]], device const float *a,\n\
                constant uint &n, uint i [[thread_position_in_grid]]) { if (i < n) out[i] = a[i] * 10 + b[i]; }";
    let out = Program::new("f", body)
        .input(1, &[1.0f32, 2.0])
        .input(2, &[3.0f32, 4.0])
        .input(3, &[2u32])
        .run::<f32>(2);
    assert_eq!(out, [13.0, 24.0]);
}

#[test]
fn indices_may_be_enumerators_and_expressions() {
    let body = "enum { OUT = 0, IN = 3 };\n\
                kernel void f(device float *out [[buffer(OUT)]], device const float *a [[buffer(IN + 1)]],\n\
                uint i [[thread_position_in_grid]]) { out[i] = a[i]; }";
    assert_eq!(
        Program::new("f", body)
            .input(4, &counting(32))
            .run::<f32>(32),
        counting(32)
    );
}

#[test]
fn templates_are_found_by_their_host_names() {
    let body = "template <typename T, int N>\n\
                [[kernel]] void scale(device T *out [[buffer(0)]], device const T *in [[buffer(1)]], uint i [[thread_position_in_grid]])\n\
                { out[i] = in[i] * T(N); }\n\
                template [[host_name(\"scale_\" \"f16\")]] [[kernel]] void scale<half, 3>(device half *, device const half *, uint);\n\
                typedef decltype(scale<float, (2 > 1 ? 2 : 3)>) scale_t;\n\
                template [[host_name(\"scale_f32\")]] [[kernel]] scale_t scale<float, (2 > 1 ? 2 : 3)>;\n\
                template [[host_name(\"scale_i32\")]] kernel decltype(scale<int, 5>) scale<int, 5>;";
    let f16s = Program::new("scale_f16", body)
        .input(1, &[f16::from_f32(1.5); 32])
        .run::<f16>(32);
    assert_eq!(f16s, [f16::from_f32(4.5); 32]);
    assert_eq!(
        Program::new("scale_f32", body)
            .input(1, &[1.5f32; 32])
            .run::<f32>(32),
        [3.0; 32]
    );
    assert_eq!(
        Program::new("scale_i32", body)
            .input(1, &[7i32; 32])
            .run::<i32>(32),
        [35; 32]
    );
}

#[test]
fn macros_make_kernels() {
    let body = "#define UNARY(NAME, TYPE, EXPRESSION) \\\n\
                kernel void NAME(device TYPE *out [[buffer(0)]], device const TYPE *in [[buffer(1)]], \\\n\
                                 uint i [[thread_position_in_grid]]) { TYPE x = in[i]; out[i] = EXPRESSION; }\n\
                UNARY(twice, float, x * 2)\n\
                UNARY(square, int, x * x)\n\
                #if __METAL_VERSION__ >= 300 && defined(__HAVE_BFLOAT__)\n\
                UNARY(minus, bfloat, -x)\n\
                #endif";
    assert_eq!(
        Program::new("twice", body)
            .input(1, &[4.0f32; 32])
            .run::<f32>(32),
        [8.0; 32]
    );
    assert_eq!(
        Program::new("square", body)
            .input(1, &[-4i32; 32])
            .run::<i32>(32),
        [16; 32]
    );
    let minus = Program::new("minus", body)
        .input(1, &[bf16::from_f32(2.5); 32])
        .run::<bf16>(32);
    assert_eq!(minus, [bf16::from_f32(-2.5); 32]);
}

#[test]
fn attributes_on_several_lines_and_conditions_around_parameters() {
    let body = "[[host_name(\"other\")]]\n[[max_total_threads_per_threadgroup(64)]]\nkernel\nvoid f(\n  device float *out\n  [[\n    buffer(0)\n  ]],\n\
                #if 0\n  texture2d<float> t [[texture(0)]],\n#else\n  device const float *in [[buffer(1)]],\n#endif\n\
                uint i [[thread_position_in_grid]] // [[buffer(7)]]\n) { out[i] = in[i] /* threadgroup float x[4]; */ + 1; }";
    assert_eq!(
        Program::new("other", body)
            .input(1, &[1.0f32; 32])
            .run::<f32>(32),
        [2.0; 32]
    );
}

#[test]
fn keywords_in_comments_strings_and_member_names_are_not_keywords() {
    let body = "struct S { float device_; float kernel_; int threadgroup_position; };\n\
                // kernel void no(device float *x) { threadgroup float y; }\n\
                constant char text[] = \"kernel [[buffer(0)]] threadgroup // \\\" constant 1.0\";\n\
                kernel void f(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n\
                  S s = {1.5, 2, 3}; out[i] = s.device_ + s.kernel_ + s.threadgroup_position + sizeof(text) + text[0]; }";
    let expected = 1.5 + 2.0 + 3.0 + 51.0 + f32::from(b'k');
    assert_eq!(Program::new("f", body).run::<f32>(32), [expected; 32]);
}

#[test]
fn several_threadgroup_variables_in_one_declaration() {
    let body = "struct pair { float a; half b; };\n\
                template <int N> struct tile { float values[N]; float get(uint i) threadgroup const { return values[i]; } };\n\
                constant constexpr int PAD = 1;\n\
                kernel void f(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n\
                  threadgroup float a[32], b[2][16 + PAD]; threadgroup pair p[32]; threadgroup uint count;\n\
                  threadgroup tile<32> t; threadgroup volatile int flags[4]; const int local = 1;\n\
                  a[i] = i; b[i / 16][i % 16] = 2 * i; p[i].a = 3 * i; p[i].b = 0.5h; t.values[i] = 1;\n\
                  if (i == 0) { count = 7; flags[3] = 9; }\n\
                  threadgroup_barrier(mem_flags::mem_threadgroup);\n\
                  threadgroup float *q = a; threadgroup float (&row)[16 + PAD] = b[1]; uint j = 31 - i;\n\
                  out[i] = q[j] + b[j / 16][j % 16] + p[j].a + p[j].b + count + t.get(j) + flags[3] + local + row[0]; }";
    let expected: Vec<f32> = (0..32)
        .map(|i| (31 - i) as f32 * 6.0 + 0.5 + 7.0 + 1.0 + 9.0 + 1.0 + 32.0)
        .collect();
    assert_eq!(Program::new("f", body).run::<f32>(32), expected);
}

#[test]
fn each_instance_of_a_template_has_its_own_threadgroup_memory() {
    let body = "template <typename T> void sum(threadgroup T *scratch, device float *out, uint i, uint at) {\n\
                  scratch[i] = T(i); threadgroup_barrier(mem_flags::mem_threadgroup);\n\
                  if (i == 0) { float s = 0; for (int j = 0; j < 32; j++) s += float(scratch[j]); out[at] = s; } }\n\
                kernel void f(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n\
                  threadgroup float a[32]; threadgroup int b[32]; sum(a, out, i, 0); sum(b, out, i, 1); }";
    assert_eq!(Program::new("f", body).run::<f32>(2), [496.0, 496.0]);
}

#[test]
fn threadgroup_memory_as_arguments() {
    let body = "kernel void f(device float *out [[buffer(0)]], threadgroup float *a [[threadgroup(0)]],\n\
                threadgroup uint *b [[threadgroup(3)]], uint i [[thread_index_in_threadgroup]]) {\n\
                a[i] = i; b[i] = i * 100; threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = a[31 - i] + b[(i + 1) % 32]; }";
    let expected: Vec<f32> = (0..32)
        .map(|i| (31 - i) as f32 + ((i + 1) % 32) as f32 * 100.0)
        .collect();
    assert_eq!(
        Program::new("f", body)
            .memory(0, 128)
            .memory(3, 128)
            .run::<f32>(32),
        expected
    );
}

const CONSTANTS: &str = "constant bool quick [[function_constant(0)]];\n\
    constant uint3 size [[function_constant(1)]];\n\
    constant float factor [[function_constant((1 + 1))]];\n\
    constant half unset [[function_constant(9)]];\n\
    constant bool has_unset = is_function_constant_defined(unset);\n\
    constant float chosen = is_function_constant_defined(unset) ? float(unset) : 5.0;\n\
    kernel void f(device float *out [[buffer(0)]], device const float *more [[buffer(1), function_constant(quick)]],\n\
                  uint i [[thread_position_in_grid]]) {\n\
      float table[size.y]; table[size.y - 1] = factor;\n\
      if (quick) out[i] = table[size.y - 1] + size.z + chosen + more[i]; else out[i] = has_unset ? -1.0 : -2.0; }\n\
    kernel void needs(device float *out [[buffer(0)]]) { out[0] = unset; }";

#[test]
fn function_constants_specialise() {
    let program = |fast: u8| {
        Program::new("f", CONSTANTS)
            .constant(0, 53, &[fast])
            .constant(1, 35, &[1u32, 4, 20])
            .constant(2, 3, &[0.5f32])
    };
    assert_eq!(
        program(1).input(1, &[100.0f32; 32]).run::<f32>(32),
        [125.5; 32]
    );
    assert_eq!(program(0).run::<f32>(32), [-2.0; 32]);
    let defined = program(1)
        .constant(9, 16, &[f16::from_f32(0.25)])
        .input(1, &[0.0f32; 32]);
    assert_eq!(defined.run::<f32>(32), [20.75; 32]);
}

#[test]
fn a_function_constant_that_a_kernel_uses_needs_a_value_of_its_type() {
    use crate::msl::Instrumentation;
    use crate::msl::Setting;
    use crate::msl::library::Library;
    let source = super::program::source(CONSTANTS);
    let library = Library::new(&source, 1).expect("the source is right");
    // Apple's driver lets it pass.
    let unset = library.function("needs", &[], Instrumentation::None);
    unset.expect("one that is not set is 0");
    let strict = Library::as_apple(&source, 1).expect("the source is right");
    let error = strict
        .function("needs", &[], Instrumentation::None)
        .expect_err("it has no value");
    assert_eq!(
        error.to_string(),
        "function constant `unset` [[function_constant(9)]] has no value"
    );
    let wrong = Setting {
        name: Some("unset"),
        index: 0,
        data_type: 3,
        bytes: [0; 32],
    };
    let error = library
        .function("needs", &[wrong], Instrumentation::None)
        .expect_err("it is a half");
    assert!(
        error.to_string().contains("is a half and was given float"),
        "{error}"
    );
}

#[test]
fn every_position_attribute() {
    let body = "kernel void f(device uint *out [[buffer(0)]],\n\
                uint3 tpig [[thread_position_in_grid]], uint3 tpg [[threads_per_grid]], ushort3 tgpig [[threadgroup_position_in_grid]],\n\
                uint3 tgpg [[threadgroups_per_grid]], uint2 tpitg [[thread_position_in_threadgroup]], uint3 tptg [[threads_per_threadgroup]],\n\
                uint3 dtptg [[dispatch_threads_per_threadgroup]], ushort tiitg [[thread_index_in_threadgroup]],\n\
                uint tiisg [[thread_index_in_simdgroup]], uint tpsg [[threads_per_simdgroup]], uint width [[thread_execution_width]],\n\
                uint sgitg [[simdgroup_index_in_threadgroup]], uint sgptg [[simdgroups_per_threadgroup]],\n\
                uint dsgptg [[dispatch_simdgroups_per_threadgroup]], uint tiiqg [[thread_index_in_quadgroup]],\n\
                uint qgitg [[quadgroup_index_in_threadgroup]], uint qgptg [[quadgroups_per_threadgroup]]) {\n\
                  device uint *o = out + 32 * (tpig.x + tpg.x * (tpig.y + tpg.y * tpig.z));\n\
                  o[0] = tgpig.x; o[1] = tgpig.y; o[2] = tgpig.z; o[3] = tgpg.x; o[4] = tgpg.y; o[5] = tgpg.z; o[6] = tpitg.x; o[7] = tpitg.y;\n\
                  o[8] = tptg.x; o[9] = tptg.y; o[10] = tptg.z; o[11] = dtptg.x; o[12] = dtptg.y; o[13] = dtptg.z; o[14] = tiitg;\n\
                  o[15] = tiisg; o[16] = tpsg; o[17] = width; o[18] = sgitg; o[19] = sgptg; o[20] = dsgptg; o[21] = tiiqg; o[22] = qgitg;\n\
                  o[23] = qgptg; o[24] = tpg.x; o[25] = tpg.y; o[26] = tpg.z; for (uint i = 27; i < 32; i++) o[i] = 0; }";
    let (grid, group) = ([19u32, 5, 3], [8u32, 4, 2]);
    let out = Program::new("f", body)
        .threads(grid, group)
        .run::<u32>(19 * 5 * 3 * 32);
    let groups: [u32; 3] = std::array::from_fn(|axis| grid[axis].div_ceil(group[axis]));
    for (thread, found) in out.chunks(32).enumerate() {
        let thread = thread as u32;
        let position = [thread % 19, thread / 19 % 5, thread / 95];
        let at: [u32; 3] = std::array::from_fn(|axis| position[axis] / group[axis]);
        let inside: [u32; 3] = std::array::from_fn(|axis| position[axis] % group[axis]);
        let size: [u32; 3] =
            std::array::from_fn(|axis| group[axis].min(grid[axis] - at[axis] * group[axis]));
        let index = inside[0] + size[0] * (inside[1] + size[1] * inside[2]);
        let total = size[0] * size[1] * size[2];
        let expected = [
            at[0],
            at[1],
            at[2],
            groups[0],
            groups[1],
            groups[2],
            inside[0],
            inside[1],
            size[0],
            size[1],
            size[2],
            8,
            4,
            2,
            index,
            index % 32,
            32,
            32,
            index / 32,
            total.div_ceil(32),
            2,
            index % 4,
            index / 4,
            total.div_ceil(4),
            19,
            5,
            3,
            0,
            0,
            0,
            0,
            0,
        ];
        assert_eq!(found, expected, "thread {position:?}");
    }
}

#[test]
fn vectors_are_built_swizzled_and_compared() {
    let body = "constant float4 table[2] = {float4(1, 2, 3, 4), float4(float2(5, 6), 7, 8)};\n\
                kernel void f(device float *out [[buffer(0)]]) {\n\
                  float4 a = float4(float3(1, 2, 3), 4), b = a.wzyx; a.xz += b.yw; float2 c = {a.x, b.w}; a.rgb = b.bgr;\n\
                  half4 h = half4(a) * 2.0h; bool4 less = a < b; uint2 u = uint2(3, 5) << 1u; float3 d = c.xyx; d *= 2; d[1] -= 1;\n\
                  out[0] = a.x; out[1] = a.y; out[2] = a.z; out[3] = a.w; out[4] = b.x; out[5] = c.x; out[6] = c.y; out[7] = h.w;\n\
                  out[8] = any(less); out[9] = all(less); out[10] = u.x + u.y; out[11] = d.x; out[12] = d.y; out[13] = d.z;\n\
                  out[14] = table[1].w + table[0].x; out[15] = sizeof(float3) + alignof(half4) + sizeof(uchar3);\n\
                  out[16] = (-a).x; out[17] = (a / b).w; out[18] = dot(a, b); out[19] = select(1.0f, 2.0f, less.x); int3 i = int3(7, 8, 9) % 4;\n\
                  out[20] = i.x * 100 + i.y * 10 + i.z; out[21] = vec<float, 2>(1.5).y; out[22] = float4(1).xxyy.w; out[23] = bool(less[1]); }";
    let out = Program::new("f", body)
        .groups([1, 1, 1], [1, 1, 1])
        .run::<f32>(24);
    // a = (1,2,3,4), b = (4,3,2,1); a.xz += (3,1) -> (4,2,4,4); c = (4,1); a.rgb = b.bgr = (2,3,4) -> (2,3,4,4)
    let expected = [
        2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 1.0, 8.0, 1.0, 0.0, 16.0, 8.0, 1.0, 8.0, 9.0, 28.0, -2.0,
        4.0, 29.0, 2.0, 301.0, 1.5, 1.0, 0.0,
    ];
    assert_eq!(out, expected);
}

#[test]
fn packed_vectors_have_no_padding() {
    let body = "struct S { packed_float3 p; float w; };\n\
                kernel void f(device float *out [[buffer(0)]], device const S *in [[buffer(1)]], device packed_half2 *unused [[buffer(2)]]) {\n\
                  float3 v = in[1].p; packed_float3 q = v * 2; q += in[0].p; q[2] += 1; q.x -= 1;\n\
                  out[0] = q.x; out[1] = q.y; out[2] = q.z; out[3] = in[1].w; out[4] = sizeof(S) + sizeof(packed_uchar3);\n\
                  out[5] = dot(float3(in[0].p), v); out[6] = (in[0].p * in[1].p).z; unused[0] = packed_half2(half2(1)); }";
    let out = Program::new("f", body)
        .groups([1, 1, 1], [1, 1, 1])
        .input(1, &counting(8))
        .input(2, &[0u32])
        .run::<f32>(7);
    assert_eq!(out, [7.0, 11.0, 15.0, 7.0, 19.0, 17.0, 12.0]);
}

#[test]
fn half_rounds_every_operation() {
    let body = "kernel void f(device half *out [[buffer(0)]], device const half *in [[buffer(1)]]) {\n\
                  half a = in[0], b = in[1]; out[0] = a + b; out[1] = a * b + b; out[2] = half(65519.0); out[3] = half(65520.0);\n\
                  out[4] = half(1e-8); out[5] = half(6e-8); out[6] = sqrt(b); out[7] = a + 1; }";
    let (a, b) = (f16::from_f32(2048.0), f16::from_f32(1.0009766));
    let out = Program::new("f", body)
        .groups([1, 1, 1], [1, 1, 1])
        .input(1, &[a, b])
        .run::<f16>(8);
    // a + b = 2049.0 is halfway between 2048 and 2050, and b is above 1: it rounds up. a * b = 2050 exactly; adding b
    // gives 2051 -> 2052.
    let expected = [
        2050.0,
        2052.0,
        65504.0,
        f32::INFINITY,
        0.0,
        5.9604645e-8,
        1.0,
        2048.0,
    ]
    .map(f16::from_f32);
    assert_eq!(out, expected);
}

#[test]
fn bfloat_converts_and_computes() {
    let body = "kernel void f(device bfloat *out [[buffer(0)]], device const bfloat *in [[buffer(1)]]) {\n\
                  bfloat a = in[0], b = 3.0bf; out[0] = a + b; out[1] = a * 2; out[2] = bfloat(1.00390625f); out[3] = bfloat(1.01171875f);\n\
                  out[4] = bfloat(half(0.5h)); a += 1; a /= b; out[5] = a; bfloat4 v = bfloat4(float4(1, 2, 3, 4)); v += b; out[6] = v.w;\n\
                  out[7] = bfloat(float(half(b))) > a ? max(a, b) : b; }";
    let out = Program::new("f", body)
        .groups([1, 1, 1], [1, 1, 1])
        .input(1, &[bf16::from_f32(2.0)])
        .run::<bf16>(8);
    let expected = [5.0, 4.0, 1.0, 1.015625, 0.5, 1.0, 7.0, 3.0].map(bf16::from_f32);
    assert_eq!(out, expected);
}

#[test]
fn bits_are_reinterpreted() {
    let body = "kernel void f(device uint *out [[buffer(0)]]) {\n\
                  out[0] = as_type<uint>(1.0f); out[1] = as_type<ushort>(1.0h); out[2] = as_type<uint>(half2(1.0h, 2.0h));\n\
                  out[3] = as_type<uchar4>(0x04030201u).z; out[4] = as_type<uint>(as_type<float>(0x7fc00001u)); out[5] = as_type<ushort>(2.0bf); }";
    let out = Program::new("f", body)
        .groups([1, 1, 1], [1, 1, 1])
        .run::<u32>(6);
    assert_eq!(
        out,
        [0x3f80_0000, 0x3c00, 0x4000_3c00, 3, 0x7fc0_0001, 0x4000]
    );
}

#[test]
fn matrices_are_stored_by_columns() {
    let body = "kernel void f(device float *out [[buffer(0)]]) {\n\
                  float2x3 m = float2x3(float3(1, 2, 3), float3(4, 5, 6)); float3 v = m * float2(1, 10); float2 w = float3(1, 1, 1) * m;\n\
                  float3x3 i = float3x3(2); float3x2 t = transpose(m); float2x2 p = t * m; half2x2 h = half2x2(p); h[0] *= 0.5h;\n\
                  out[0] = v.x; out[1] = v.y; out[2] = v.z; out[3] = w.x; out[4] = w.y; out[5] = t[2].y; out[6] = p[0][0]; out[7] = p[1][1];\n\
                  out[8] = determinant(i); out[9] = h[0].x; out[10] = (i * 2 + i)[1][1]; out[11] = determinant(float4x4(3)); }";
    let out = Program::new("f", body)
        .groups([1, 1, 1], [1, 1, 1])
        .run::<f32>(12);
    assert_eq!(
        out,
        [
            41.0, 52.0, 63.0, 6.0, 15.0, 6.0, 14.0, 77.0, 8.0, 7.0, 6.0, 81.0
        ]
    );
}

#[test]
fn namespaces_around_kernels() {
    let body = "namespace shapes { namespace inner {\n\
                enum { OUT = 0 };\n\
                template <typename T> kernel void f(device T *out [[buffer(OUT)]], uint i [[thread_position_in_grid]]) { out[i] = T(i); }\n\
                template [[host_name(\"deep\")]] kernel void f<float>(device float *, uint);\n\
                kernel void plain(device float *out [[buffer(OUT)]], uint i [[thread_position_in_grid]]) { out[i] = 2; }\n\
                } }\n\
                template [[host_name(\"outside\")]] kernel void shapes::inner::f<float>(device float *, uint);";
    assert_eq!(Program::new("deep", body).run::<f32>(32), counting(32));
    assert_eq!(Program::new("plain", body).run::<f32>(32), [2.0; 32]);
}

#[test]
fn overloads_that_differ_in_address_space_only() {
    let body = "struct box { float v; };\n\
                float get(device const box &b) { return b.v; }\n\
                float get(threadgroup const box &b) { return b.v; }\n\
                float get(thread const box &b) { return b.v; }\n\
                float twice(float x); float twice(float x) { return 2 * x; }\n\
                struct loader { float at(device const float *p) { return p[0]; } float at(threadgroup const float *p) { return p[0]; } };\n\
                kernel void f(device float *out [[buffer(0)]], device const box *in [[buffer(1)]], uint i [[thread_index_in_threadgroup]]) {\n\
                  threadgroup box shared; if (i == 0) shared.v = 10; threadgroup_barrier(mem_flags::mem_threadgroup);\n\
                  box own = {100}; loader l; out[i] = get(in[0]) + get(shared) + get(own) + twice(l.at(&shared.v)) + l.at(&in[0].v); }";
    assert_eq!(
        Program::new("f", body).input(1, &[1.0f32]).run::<f32>(32),
        [132.0; 32]
    );
}

#[test]
fn overloads_by_address_space_of_inlined_functions_and_operators() {
    let body = "#define INLINE inline __attribute__((__always_inline__))\n\
                struct sum { float r; sum() = default; sum(float x) : r(x) {}\n\
                  thread sum &operator=(const thread sum &o) thread { r = o.r; return *this; }\n\
                  device sum &operator=(const thread sum &o) device { r = o.r; return *this; } };\n\
                INLINE thread sum &operator+=(thread sum &a, sum b) { a.r += b.r; return a; }\n\
                INLINE device sum &operator+=(device sum &a, sum b) { a.r += b.r; return a; }\n\
                INLINE float first(device const float *p) { return p[0]; }\n\
                INLINE float first(constant float *p) { return p[0]; }\n\
                kernel void f(device float *out [[buffer(0)]], device const float *a [[buffer(1)]], constant float *b [[buffer(2)]],\n\
                uint i [[thread_position_in_grid]]) { sum s(1); s += sum(2); out[i] = s.r + first(a) + first(b); }";
    let out = Program::new("f", body)
        .input(1, &[10.0f32])
        .input(2, &[100.0f32])
        .run::<f32>(32);
    assert_eq!(out, [113.0; 32]);
}

#[test]
fn threadgroup_variables_may_be_aligned() {
    for variable in [
        "threadgroup __attribute__((aligned(64))) float t[32], u[4]",
        "alignas(64) threadgroup float t[32], u[4]",
        "threadgroup alignas(64) const float t[32], u[4]",
        "const __attribute__((aligned(64))) threadgroup float t[32], u[4]",
    ] {
        let write = !variable.contains("const");
        let body = format!(
            "kernel void f(device uint *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {{ {variable}; {}\n\
             threadgroup_barrier(mem_flags::mem_threadgroup);\n\
             out[i] = uint((ulong)(threadgroup const void *)t % 64 + (ulong)(threadgroup const void *)u % 64) {}; }}",
            if write { "t[i] = i;" } else { "" },
            if write { "+ uint(t[31 - i])" } else { "" },
        );
        let expected: Vec<u32> = (0..32).map(|i| if write { 31 - i } else { 0 }).collect();
        assert_eq!(
            Program::new("f", &body).run::<u32>(32),
            expected,
            "{variable}"
        );
    }
}
