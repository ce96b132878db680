//! Cubes: faces, filters over their edges, arrays and levels, against geometry in float64.

use super::{CUBE, CUBE_ARRAY, R32_FLOAT, R32_UINT, packed, sampler};
use crate::backend::cpu::msl::abi::{Component, Texture};
use crate::backend::cpu::msl::conformance::program::Program;

type Point = [f64; 3];

/// Of each face: its middle, and where its columns and its rows go.
const FACES: [[Point; 3]; 6] = [
    [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, -1.0, 0.0]],
    [[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]],
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]],
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]],
    [[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]],
];

fn dot(a: Point, b: Point) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn place(face: usize, [out, s, t]: [f64; 3]) -> Point {
    let [normal, columns, rows] = FACES[face];
    std::array::from_fn(|axis| out * normal[axis] + s * columns[axis] + t * rows[axis])
}

/// A cube whose faces have `extent` texels each way.
struct Cube<'a> {
    extent: usize,
    texels: &'a [f32],
}

impl Cube<'_> {
    fn middle(&self, i: i64) -> f64 {
        (2 * i + 1) as f64 / self.extent as f64 - 1.0
    }

    fn inside(&self, i: i64) -> i64 {
        i.clamp(0, self.extent as i64 - 1)
    }

    /// The texel whose middle is nearest to a point on the cube.
    fn nearest(&self, to: Point) -> f64 {
        let n = self.extent as i64;
        let all = (0..6).flat_map(|face| (0..n * n).map(move |i| (face, i % n, i / n)));
        let distance = |&(face, x, y): &(usize, i64, i64)| {
            let at = place(face, [1.0, self.middle(x), self.middle(y)]);
            at.iter().zip(to).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
        };
        let (face, x, y) = all
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .expect("there are texels");
        self.texels[face * self.extent * self.extent + (y * n + x) as usize].into()
    }

    /// A texel of the face, or the one that follows it over an edge, or the mean of the three around a corner.
    fn texel(&self, face: usize, x: i64, y: i64) -> f64 {
        let (in_x, in_y) = (self.inside(x), self.inside(y));
        if x != in_x && y != in_y {
            let others = [(in_x, in_y), (x, in_y), (in_x, y)];
            return others
                .map(|(x, y)| self.texel(face, x, y))
                .iter()
                .sum::<f64>()
                / 3.0;
        }
        // What is too far along the face goes down the next one.
        let mut at = [1.0, self.middle(x), self.middle(y)];
        for axis in [1, 2] {
            at[0] -= (at[axis].abs() - 1.0).max(0.0);
            at[axis] = at[axis].clamp(-1.0, 1.0);
        }
        self.nearest(place(face, at))
    }

    fn sample(&self, direction: Point, linear: bool) -> f64 {
        let most = direction.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let at = direction.map(|x| x / most);
        if !linear {
            return self.nearest(at);
        }
        let face = (0..6)
            .max_by(|a, b| dot(at, FACES[*a][0]).total_cmp(&dot(at, FACES[*b][0])))
            .expect("there are faces");
        let along = [1, 2].map(|axis| {
            let scaled = (dot(at, FACES[face][axis]) + 1.0) / 2.0 * self.extent as f64 - 0.5;
            (scaled.floor() as i64, scaled - scaled.floor())
        });
        let [(x, right), (y, below)] = along;
        (1.0 - below)
            * ((1.0 - right) * self.texel(face, x, y) + right * self.texel(face, x + 1, y))
            + below
                * ((1.0 - right) * self.texel(face, x, y + 1)
                    + right * self.texel(face, x + 1, y + 1))
    }
}

/// Directions of several lengths, most of them close to edges and corners; none on a border of two texels.
fn directions(count: usize) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut all = Vec::new();
    for i in 0..count {
        let far = [1.0, 0.97, 0.5][i % 3];
        let sign = |x: f32| if x < 0.0 { -1.0 } else { 1.0 };
        let one = [next(), next(), next()]
            .map(|x| x * (1.0 - far) + far * sign(x) * (0.9 + 0.1 * x.abs()));
        all.extend(one.map(|x| x * (1.0 + i as f32)));
    }
    all
}

#[test]
fn directions_meet_faces_and_filters_go_over_edges() {
    let body = "kernel void f(device float *out [[buffer(0)]], texturecube<float> t [[texture(0)]],\n\
                texturecube_array<float> a [[texture(1)]], sampler s [[sampler(0)]],\n\
                device const packed_float3 *at [[buffer(1)]], uint i [[thread_position_in_grid]]) {\n\
                out[2 * i] = t.sample(s, float3(at[i])).x;\n\
                out[2 * i + 1] = a.sample(s, float3(at[i]), 1, level(0)).x; }";
    let at = directions(96);
    for extent in [1usize, 2, 5] {
        let faces = extent * extent * 6;
        let texels: Vec<f32> = (0..2 * faces)
            .map(|i| ((i * 37 + 11) % 101) as f32)
            .collect();
        let shape = |slices| [extent as u32, extent as u32, slices];
        for linear in [false, true] {
            let mut filter = sampler();
            (filter.magnify, filter.minify) = (linear.into(), linear.into());
            let out = Program::new("f", body)
                .texture(0, packed(CUBE, shape(6), R32_FLOAT), &texels[..faces])
                .texture(1, packed(CUBE_ARRAY, shape(12), R32_FLOAT), &texels)
                .sampler(0, filter)
                .input(1, &at)
                .groups([3, 1, 1], [32, 1, 1])
                .run::<f32>(2 * 96);
            for (i, at) in at.chunks(3).enumerate() {
                let direction = std::array::from_fn(|axis| f64::from(at[axis]));
                for (which, texels) in texels.chunks(faces).enumerate() {
                    let expected = Cube { extent, texels }.sample(direction, linear);
                    let found = f64::from(out[2 * i + which]);
                    assert!(
                        (found - expected).abs() < 2e-3,
                        "{extent}, linear {linear}, {at:?}: {found}, not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn faces_are_read_and_written_and_have_levels() {
    let body = "kernel void f(device uint *out [[buffer(0)]], texturecube<uint, access::read> t [[texture(0)]],\n\
                texturecube_array<uint, access::write> a [[texture(1)]],\n\
                texturecube<float> l [[texture(2)]]) {\n\
                uint sizes[] = {t.get_width(), t.get_height(), t.get_num_mip_levels(), a.get_array_size()};\n\
                for (uint i = 0; i < 4; i++) out[i] = sizes[i];\n\
                out[4] = t.read(uint2(1, 0), 5).x; out[5] = t.read(ushort2(1, 1), 0).x; \
                out[6] = t.read(uint2(0), 6).x;\n\
                a.write(uint4(7), uint2(1, 1), 2, 1); a.write(uint4(9), uint2(0), 6, 1);\n\
                constexpr sampler s(mip_filter::linear);\n\
                out[7] = uint(l.sample(s, float3(0, 0, -1), level(1)).x); \
                out[8] = uint(l.sample(s, float3(0, 2, 0), level(0.5)).x);\n\
                out[9] = uint(l.sample(s, float3(0), level(0)).x);\n\
                out[10] = uint(l.sample(s, float3(1, 0, 0), gradientcube(float3(0, 1, 0), float3(0))).x); }";
    let count: Vec<u32> = (0..24).collect();
    let levels = Texture {
        levels: 2,
        ..packed(CUBE, [2, 2, 6], R32_FLOAT)
    };
    // Level 1 has one texel for each face: 100, 110, …
    let texels: Vec<f32> = (0..24)
        .map(|i| (i / 4) as f32)
        .chain((0..6).map(|face| 100.0 + 10.0 * face as f32))
        .collect();
    let program = Program::new("f", body)
        .texture(0, packed(CUBE, [2, 2, 6], R32_UINT), &count)
        .texture(1, packed(CUBE_ARRAY, [2, 2, 12], R32_UINT), &[1u32; 48])
        .texture(2, levels, &texels)
        .groups([1; 3], [1; 3]);
    // No direction at all meets some face: here +z.
    assert_eq!(
        program.run::<u32>(11),
        [2, 2, 1, 2, 21, 3, 0, 150, 61, 4, 0]
    );
    // What is written beyond the last face of the last cube is dropped.
    let mut expected = [1u32; 48];
    expected[(6 + 2) * 4 + 3] = 7;
    assert_eq!(program.output(1).run::<u32>(48), expected);
}

#[test]
fn atomic_functions_work_on_a_face() {
    let body = "kernel void f(device uint *out [[buffer(0)]],\n\
                texturecube<uint, access::read_write> t [[texture(0)]],\n\
                texturecube_array<int, access::read_write> a [[texture(1)]],\n\
                uint i [[thread_position_in_grid]]) {\n\
                t.atomic_fetch_add(uint2(1, 0), 5, uint4(i)); a.atomic_fetch_max(uint2(0, 1), 3, 1, int4(int(i)));\n\
                threadgroup_barrier(mem_flags::mem_texture);\n\
                if (i != 0) return;\n\
                out[0] = t.atomic_load(uint2(1, 0), 5).x; out[1] = uint(a.atomic_load(uint2(0, 1), 3, 1).x);\n\
                out[2] = t.atomic_load(uint2(1, 0), 4).x; }";
    let int = (Component::Sint, 4, 1);
    let out = Program::new("f", body)
        .texture(0, packed(CUBE, [2, 2, 6], R32_UINT), &[1u32; 24])
        .texture(1, packed(CUBE_ARRAY, [2, 2, 12], int), &[-1i32; 48])
        .run::<u32>(3);
    assert_eq!(out, [497, 31, 1]);
}

#[test]
fn depths_are_compared_and_gathered() {
    let body = "kernel void f(device float4 *out [[buffer(0)]], depthcube<float> d [[texture(0)]],\n\
                depthcube_array<float> a [[texture(1)]], texturecube<float> t [[texture(2)]]) {\n\
                constexpr sampler greater(compare_func::greater), smooth(filter::linear, compare_func::less_equal);\n\
                float3 z(0, 0, 1);\n\
                out[0] = float4(d.sample(greater, float3(0.5, -0.5, 1)), d.sample_compare(greater, z * 3, 18.5),\n\
                  d.sample_compare(smooth, z, 17.5), a.sample_compare(smooth, z, 0, 16.5, level(0)));\n\
                out[1] = d.gather(greater, z); out[2] = d.gather_compare(greater, z, 17.5);\n\
                out[3] = t.gather(greater, z, component::y); out[4] = a.gather(greater, -z, 0);\n\
                out[5] = float4(d.read(uint2(1, 0), 4), a.read(ushort2(0, 1), 0, 0), d.get_width(), \
                a.get_array_size()); }";
    let texels: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let cube = packed(CUBE, [2, 2, 6], R32_FLOAT);
    let array = packed(CUBE_ARRAY, [2, 2, 6], R32_FLOAT);
    let out = Program::new("f", body)
        .texture(0, cube, &texels)
        .texture(1, array, &texels)
        .texture(2, cube, &texels)
        .groups([1; 3], [1; 3])
        .run::<f32>(24);
    // Face +z has 16, 17, 18 and 19, face -z 20 to 23.
    assert_eq!(
        out,
        [
            19.0, 0.0, 0.5, 0.75, // a texel; its nearest is 19; 18 and 19; 17, 18 and 19
            18.0, 19.0, 17.0, 16.0, //
            0.0, 0.0, 1.0, 1.0, //
            0.0, 0.0, 0.0, 0.0, //
            22.0, 23.0, 21.0, 20.0, //
            17.0, 2.0, 2.0, 1.0,
        ]
    );
}
