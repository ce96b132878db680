//! Textures and samplers: each function at awkward sizes, against exact texels and against filters in float64.

mod conversions;
mod cubes;
mod filters;

use super::program::{Program, errors};
use crate::backend::cpu::msl::abi::{Component, Sampler, Texture};
use crate::backend::cpu::msl::dispatch::Failure;
use crate::backend::cpu::msl::lane_order::LaneOrder;

/// MTLTextureType.
const D1: u32 = 0;
const D1_ARRAY: u32 = 1;
const D2: u32 = 2;
const D2_ARRAY: u32 = 3;
const CUBE: u32 = 5;
const CUBE_ARRAY: u32 = 6;
const D3: u32 = 7;

/// A texture of one level whose rows and slices lie without gaps.
fn packed(kind: u32, [width, height, depth]: [u32; 3], format: (Component, u8, u8)) -> Texture {
    let (component, component_bytes, components) = format;
    let row_bytes = u64::from(width) * u64::from(component_bytes) * u64::from(components);
    let is_array = matches!(kind, D1_ARRAY | D2_ARRAY | CUBE | CUBE_ARRAY);
    Texture {
        row_bytes,
        slice_bytes: row_bytes * u64::from(height),
        width,
        height,
        depth: if is_array { 1 } else { depth },
        slices: if is_array { depth } else { 1 },
        levels: 1,
        kind,
        component,
        component_bytes,
        components,
        ..Texture::NONE
    }
}

fn sampler() -> Sampler {
    Sampler {
        bound: true,
        ..Sampler::NONE
    }
}

const R32_FLOAT: (Component, u8, u8) = (Component::Float, 4, 1);
const RGBA32_FLOAT: (Component, u8, u8) = (Component::Float, 4, 4);
const R32_UINT: (Component, u8, u8) = (Component::Uint, 4, 1);
const R16_SINT: (Component, u8, u8) = (Component::Sint, 2, 1);

#[test]
fn a_texel_is_read_and_written_where_it_is_and_nowhere_else() {
    // A thread for each texel, and for two rows and columns around them.
    let body = "kernel void f(texture2d<float, access::read> from [[texture(3)]],\n\
                texture2d<float, access::write> to [[texture(5)]], uint2 i [[thread_position_in_grid]]) {\n\
                to.write(2 * from.read(i - 2) + 1, i - 2);\n}";
    for [width, height] in [[1, 1], [3, 1], [1, 7], [5, 3], [33, 2]] {
        let texture = packed(D2, [width, height, 1], RGBA32_FLOAT);
        let count = (4 * width * height) as usize;
        let texels: Vec<f32> = (0..count).map(|i| i as f32 - 7.5).collect();
        let out = Program::new("f", body)
            .texture(3, texture, &texels)
            .texture(5, texture, &vec![99f32; count])
            .output(5)
            .threads([width + 4, height + 4, 1], [8, 4, 1])
            .run::<f32>(count);
        let expected: Vec<f32> = texels.iter().map(|value| 2.0 * value + 1.0).collect();
        assert_eq!(out, expected, "{width} x {height}");
    }
}

#[test]
fn rows_may_have_gaps() {
    let texture = Texture {
        row_bytes: 16,
        slice_bytes: 32,
        ..packed(D2, [3, 2, 1], R32_UINT)
    };
    let body = "kernel void f(texture2d<uint, access::read_write> t [[texture(0)]],\n\
                uint2 i [[thread_position_in_grid]]) { t.write(t.read(i) + i.x * 10 + i.y, i); }";
    let out = Program::new("f", body)
        .texture(0, texture, &[1u32, 2, 3, 77, 5, 6, 7, 77])
        .output(0)
        .threads([3, 2, 1], [3, 2, 1]);
    assert_eq!(
        out.try_run::<u32>(8, LaneOrder::Forward, true),
        Ok(vec![1, 12, 23, 77, 6, 17, 28, 77])
    );
}

#[test]
fn every_type_of_texture_has_its_sizes_and_its_slices() {
    let body = "kernel void f(device uint *out [[buffer(0)]], texture1d<uint, access::read> a [[texture(0)]],\n\
                texture1d_array<uint, access::read> b [[texture(1)]], texture2d_array<uint> c [[texture(2)]],\n\
                texture3d<uint, access::read> d [[texture(3)]]) {\n\
                uint sizes[] = {a.get_width(), a.get_num_mip_levels(), b.get_width(), b.get_array_size(), \
                c.get_width(),\n\
                  c.get_height(), c.get_array_size(), d.get_width(), d.get_height(), d.get_depth()};\n\
                for (uint i = 0; i < 10; i++) out[i] = sizes[i];\n\
                uint n = 10;\n\
                out[n++] = a.read(2).x; out[n++] = a.read(3).x; out[n++] = b.read(1, 2).x; out[n++] = b.read(1, 3).x;\n\
                out[n++] = c.read(uint2(2, 1), 1).x; out[n++] = c.read(uint2(2, 2), 1).x; \
                out[n++] = c.read(ushort2(0, 0), 2).x;\n\
                out[n++] = d.read(uint3(1, 2, 1)).x; out[n++] = d.read(uint3(1, 2, 2)).x; \
                out[n++] = d.read(ushort3(1, 0, 0)).x;\n\
                out[n++] = d.read(uint3(0), 1).x; out[n++] = d.read(uint3(0)).a; }";
    let count = |shape: [u32; 3]| (0..shape.iter().product::<u32>()).collect::<Vec<u32>>();
    let mut program = Program::new("f", body).groups([1; 3], [1; 3]);
    let shapes = [
        (D1, [3, 1, 1]),
        (D1_ARRAY, [2, 1, 3]),
        (D2_ARRAY, [3, 2, 2]),
        (D3, [2, 3, 2]),
    ];
    for (index, (kind, shape)) in shapes.into_iter().enumerate() {
        program = program.texture(index, packed(kind, shape, R32_UINT), &count(shape));
    }
    assert_eq!(
        program.run::<u32>(22),
        [
            3, 1, 2, 3, 3, 2, 2, 2, 3, 2, // sizes
            2, 0, 5, 0, 11, 0, 0, 11, 0, 1, 0, 1
        ]
    );
}

#[test]
fn levels_are_half_as_large_each() {
    // 5 x 3, 2 x 1 and 1 x 1, of two elements each.
    let texture = Texture {
        levels: 3,
        ..packed(D2_ARRAY, [5, 3, 2], R32_FLOAT)
    };
    let texels: Vec<f32> = (0..36).map(|i| i as f32).collect();
    let body = "kernel void f(device float *out [[buffer(0)]], texture2d_array<float> t [[texture(0)]]) {\n\
                constexpr sampler near(mip_filter::nearest), between(mip_filter::linear);\n\
                out[0] = t.read(uint2(0), 1, 1).x; out[1] = t.read(uint2(1, 0), 1, 1).x;\n\
                out[2] = t.read(uint2(0), 1, 2).x; out[3] = t.read(uint2(0), 0, 3).x;\n\
                out[4] = t.get_width(1) * 10 + t.get_height(1); out[5] = t.get_num_mip_levels();\n\
                float2 c = float2(0.01);\n\
                out[6] = t.sample(near, c, 1, level(0.4)).x; out[7] = t.sample(near, c, 1, level(0.6)).x;\n\
                out[8] = t.sample(between, c, 1, level(0.25)).x; out[9] = t.sample(between, c, 0, level(9)).x;\n\
                out[10] = t.sample(between, c, 1, gradient2d(float2(0.4, 0), float2(0))).x;\n\
                out[11] = t.sample(between, c, 1, bias(2)).x; out[12] = t.sample(between, c, 1).x; }";
    let out = Program::new("f", body)
        .texture(0, texture, &texels)
        .groups([1; 3], [1; 3])
        .run::<f32>(13);
    // Texel 0 of the levels of element 1.
    let (first, second) = (15.0, 32.0);
    let expected = [
        32.0,
        33.0,
        35.0,
        0.0,
        21.0,
        3.0,
        first,
        second,
        0.75 * first + 0.25 * second,
        34.0,
        second,
        first,
        first,
    ];
    assert_eq!(out, expected);
}

#[test]
fn textures_come_in_arrays_and_without_indices() {
    let body = "kernel void f(device float *out [[buffer(0)]], array<texture2d<float>, 2> a [[texture(1)]],\n\
                texture2d<float> first, array<sampler, 2> s [[sampler(2)]], sampler lowest) {\n\
                out[0] = a[0].read(uint2(0)).x; out[1] = a[1].read(uint2(0)).x; out[2] = first.read(uint2(0)).x;\n\
                out[3] = first.sample(s[0], float2(-1)).a; out[4] = first.sample(s[1], float2(-1)).a;\n\
                out[5] = first.sample(lowest, float2(-1)).a; }";
    let one = packed(D2, [1, 1, 1], RGBA32_FLOAT);
    let border = |border| Sampler {
        address: [5; 3],
        border,
        ..sampler()
    };
    let mut program = Program::new("f", body).groups([1; 3], [1; 3]);
    for index in 0..3 {
        program = program.texture(index, one, &[index as f32 + 0.5, 0.0, 0.0, 3.0]);
    }
    let out = program
        .sampler(0, sampler())
        .sampler(2, border(0))
        .sampler(3, border(1))
        .run::<f32>(6);
    assert_eq!(out, [1.5, 2.5, 0.5, 0.0, 1.0, 3.0]);
}

#[test]
fn an_argument_that_is_switched_off_is_not_bound() {
    let body = "constant bool on [[function_constant(0)]];\n\
                kernel void f(device float *out [[buffer(0)]], texture2d<float> t [[texture(0), \
                function_constant(on)]]) {\n\
                if (on) out[0] = t.read(uint2(0)).x; else out[0] = is_null_texture(t) ? 2 : 3; }";
    let texture = packed(D2, [1, 1, 1], R32_FLOAT);
    let run = |on: u8| {
        let program = Program::new("f", body).constant(0, 53, &[on]);
        program
            .texture(0, texture, &[7f32])
            .groups([1; 3], [1; 3])
            .run::<f32>(1)
    };
    assert_eq!((run(1), run(0)), (vec![7.0], vec![2.0]));
}

#[test]
fn what_does_not_fit_a_kernel_is_refused() {
    let body = "kernel void f(device float *x [[buffer(0)]], texture2d<float> t [[texture(4)]], \
                sampler s [[sampler(1)]]) {\n\
                x[0] = t.sample(s, float2(0)).x; }";
    let refused = |bound: Option<Texture>, sampler: Option<Sampler>, text: &str| {
        let mut program = Program::new("f", body);
        if let Some(texture) = bound {
            program = program.texture(4, texture, &[0f32; 8]);
        }
        if let Some(sampler) = sampler {
            program = program.sampler(1, sampler);
        }
        let failure = program.fail(LaneOrder::Forward, false);
        assert!(
            matches!(&failure, Failure::Invalid(said) if said.contains(text)),
            "{failure:?}"
        );
    };
    let right = Some(packed(D2, [2, 2, 1], R32_FLOAT));
    refused(None, Some(sampler()), "nothing is bound to texture index 4");
    refused(right, None, "nothing is bound to sampler index 1");
    refused(
        Some(packed(D3, [2, 2, 2], R32_FLOAT)),
        Some(sampler()),
        "a 3D texture is bound to texture index 4, which takes a 2D texture",
    );
    refused(
        Some(packed(D2, [2, 2, 1], R32_UINT)),
        Some(sampler()),
        "has unsigned integers, and the kernel takes floats",
    );
}

#[test]
fn mistakes_with_textures_are_errors_of_the_source() {
    let one = |parameter: &str, statement: &str| {
        errors(&format!(
            "kernel void f({parameter}, device float *x [[buffer(0)]], sampler s [[sampler(0)]]) {{ {statement} }}"
        ))
    };
    let said = [
        (
            one(
                "texture2d<float, access::write> t [[texture(0)]]",
                "x[0] = t.read(uint2(0)).x;",
            ),
            "its access is access::write",
        ),
        (
            one(
                "texture2d<float> t [[texture(0)]]",
                "t.write(float4(1), uint2(0));",
            ),
            "neither access::write nor",
        ),
        (
            one(
                "texture2d<float, access::read> t [[texture(0)]]",
                "x[0] = t.sample(s, float2(0)).x;",
            ),
            "its access is not access::sample",
        ),
        (
            one(
                "texture2d<float, access::read_write> t [[texture(0)]]",
                "t.atomic_fetch_add(uint2(0), float4(1));",
            ),
            "need int or uint",
        ),
        (
            one("texture2d<float> t [[buffer(1)]]", ""),
            "a texture has [[texture(n)]]",
        ),
        (
            one("device float *t [[texture(1)]]", ""),
            "is a texture, a sampler or an array",
        ),
        (
            one("texture2d<float> t [[texture(128)]]", ""),
            "the last index is 127",
        ),
        (one("sampler t [[sampler(16)]]", ""), "the last index is 15"),
        (
            one(
                "texture2d_ms_array<float, access::read> t [[texture(0)]]",
                "",
            ),
            "multisample textures are not supported",
        ),
    ];
    for (found, text) in said {
        assert!(found.contains(text), "{text}: {found}");
    }
}

#[test]
fn threads_meet_at_one_texel() {
    let body = "kernel void f(device uint *out [[buffer(0)]], texture2d<uint, access::read_write> t [[texture(0)]],\n\
                texture_buffer<int, access::read_write> b [[texture(1)]],\n\
                texture2d_array<uint, access::read_write, memory_coherence_device> a [[texture(2)]],\n\
                uint i [[thread_position_in_grid]]) {\n\
                t.atomic_fetch_add(uint2(1, 0), uint4(i)); b.atomic_fetch_min(2, int4(-int(i)));\n\
                a.atomic_fetch_or(uint2(0, 1), 1, uint4(1u << i)); t.atomic_fetch_add(uint2(2, 0), uint4(5)); \
                t.fence();\n\
                threadgroup_barrier(mem_flags::mem_texture);\n\
                if (i != 0) return;\n\
                uint4 expected = 0; out[0] = t.atomic_load(uint2(1, 0)).x; out[1] = uint(b.read(2).x);\n\
                out[2] = a.read(uint2(0, 1), 1).x; out[3] = t.atomic_exchange(uint2(0), uint4(7)).x;\n\
                out[4] = t.atomic_compare_exchange_weak(uint2(0), &expected, uint4(9)); out[5] = expected.x;\n\
                t.atomic_store(uint4(3), uint2(9)); out[6] = t.atomic_load(uint2(9)).x; }";
    let out = Program::new("f", body)
        .texture(0, packed(D2, [2, 1, 1], R32_UINT), &[11u32, 0])
        .texture(
            1,
            packed(9, [3, 1, 1], (Component::Sint, 4, 1)),
            &[0i32, 0, 100],
        )
        .texture(2, packed(D2_ARRAY, [1, 2, 2], R32_UINT), &[0u32; 4])
        .run::<u32>(7);
    assert_eq!(out, [496, 31u32.wrapping_neg(), u32::MAX, 11, 0, 7, 0]);
}
