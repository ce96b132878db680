/* Sampling of cubes (specification 3.1, section 6.12). A cube is six square slices: +x, -x, +y, -y, +z, -z. Filters go
 * on over the edges of a face (OpenGL's ARB_seamless_cube_map). */
#ifndef MSL_CUBES_H
#define MSL_CUBES_H

#include "texels.h"

namespace msl {

/* A face, and a place on it: each from -1 to 1. */
struct cube_place {
  uint face;
  float s, t;
};

/* Where a direction of any length meets the cube (OpenGL 4.6, "Selection of cube map images"). */
MSL_INLINE cube_place cube_place_of(float x, float y, float z) {
  float to_x = __builtin_fabsf(x), to_y = __builtin_fabsf(y), to_z = __builtin_fabsf(z);
  cube_place at;
  float most;
  if (to_z >= to_x && to_z >= to_y) {
    most = to_z;
    at = z < 0.0f ? cube_place{5, -x, -y} : cube_place{4, x, -y};
  } else if (to_y >= to_x) {
    most = to_y;
    at = y < 0.0f ? cube_place{3, x, -z} : cube_place{2, x, z};
  } else {
    most = to_x;
    at = x < 0.0f ? cube_place{1, z, -y} : cube_place{0, -z, -y};
  }
  at.s = clamped(at.s / most, -1.0f, 1.0f); /* no direction at all: 0 */
  at.t = clamped(at.t / most, -1.0f, 1.0f);
  return at;
}

/* The other way round: a place, which may lie beside the face. */
MSL_INLINE cube_place cube_place_beside(const cube_place &at) {
  float s = at.s, t = at.t;
  switch (at.face) {
    case 0: return cube_place_of(1.0f, -t, -s);
    case 1: return cube_place_of(-1.0f, -t, s);
    case 2: return cube_place_of(s, 1.0f, t);
    case 3: return cube_place_of(s, -1.0f, -t);
    case 4: return cube_place_of(s, -t, 1.0f);
    default: return cube_place_of(-s, -t, -1.0f);
  }
}

/* A direction, which cube of an array, and which level. */
struct cube_point {
  float direction[3];
  uint element;
  float lod;
};

/* One level of a cube around a point. */
struct cube_footprint {
  texture_level place;
  uint first_slice, face;
  int extent;
  int first[2];
  float weight[2];

  MSL_INLINE cube_footprint(const msl_texture &texture, const cube_point &point, uint level, bool is_linear)
      : place(texture, level) {
    uint cubes = place.slices / 6, element = point.element < cubes ? point.element : cubes - 1;
    first_slice = 6 * element;
    extent = (int)place.width;
    cube_place at = cube_place_of(point.direction[0], point.direction[1], point.direction[2]);
    face = at.face;
    float along[2] = {at.s, at.t};
    for (uint i = 0; i < 2; i++) {
      float c = (along[i] + 1.0f) * 0.5f * (float)extent - (is_linear ? 0.5f : 0.0f), whole = __builtin_floorf(c);
      first[i] = (int)whole;
      weight[i] = is_linear ? c - whole : 0.0f;
      if (!is_linear && first[i] >= extent) first[i] = extent - 1;
    }
  }
  MSL_INLINE bool is_beyond_corner(int x, int y) const { return x != inside(x) && y != inside(y); }
  MSL_INLINE int inside(int i) const { return i < 0 ? 0 : i >= extent ? extent - 1 : i; }
  /* Of coordinates of which one at most may be outside, by one. */
  template <class V> MSL_INLINE V load_at(const msl_texture &texture, int x, int y) const {
    uint of = face;
    if (x != inside(x) || y != inside(y)) {
      float scale = 1.0f / (float)extent;
      cube_place other = cube_place_beside(
          {face, (float)(2 * x + 1) * scale - 1.0f, (float)(2 * y + 1) * scale - 1.0f});
      of = other.face;
      x = inside((int)((other.s + 1.0f) * 0.5f * (float)extent));
      y = inside((int)((other.t + 1.0f) * 0.5f * (float)extent));
    }
    V result(0);
    load(texture, place.at(texture, (uint)x, (uint)y, first_slice + of), result);
    return result;
  }
  /* One of the four texels of a linear filter, as flat textures have it. Beyond a corner of the cube, where there is
   * none, the nearest of the face. */
  template <class V> MSL_INLINE V texel(const msl_texture &texture, uint right, uint below, uint) const {
    int x = first[0] + (int)right, y = first[1] + (int)below;
    return is_beyond_corner(x, y) ? load_at<V>(texture, inside(x), inside(y)) : load_at<V>(texture, x, y);
  }
  /* The same for a filter. Three faces meet in a corner of the cube, where the fourth is their mean. */
  MSL_INLINE vec<float, 4> corner(const msl_texture &texture, const msl_sampler &sampler, uint right, uint below,
                                  const float *reference) const {
    int x = first[0] + (int)right, y = first[1] + (int)below;
    if (!is_beyond_corner(x, y)) return one(texture, sampler, x, y, reference);
    return (one(texture, sampler, inside(x), inside(y), reference) + one(texture, sampler, x, inside(y), reference) +
            one(texture, sampler, inside(x), y, reference)) *
           (1.0f / 3.0f);
  }

 private:
  MSL_INLINE vec<float, 4> one(const msl_texture &texture, const msl_sampler &sampler, int x, int y,
                               const float *reference) const {
    vec<float, 4> found = load_at<vec<float, 4>>(texture, x, y);
    return reference ? vec<float, 4>(compares(sampler.compare, *reference, found[0]) ? 1.0f : 0.0f) : found;
  }
};

MSL_INLINE vec<float, 4> filtered(const msl_texture &texture, const msl_sampler &sampler, const cube_point &point,
                                  uint level, bool is_linear, const float *reference) {
  cube_footprint around(texture, point, level, is_linear);
  vec<float, 4> sum(0);
  for (uint i = 0; i < 4; i++) {
    uint right = i & 1, below = i >> 1;
    float weight = (right ? around.weight[0] : 1.0f - around.weight[0]) *
                   (below ? around.weight[1] : 1.0f - around.weight[1]);
    if (weight != 0.0f) sum += around.corner(texture, sampler, right, below, reference) * weight;
  }
  return sum;
}
MSL_OUTLINE vec<float, 4> sample_real(const msl_texture &texture, const msl_sampler &sampler, const cube_point &point,
                                      const float *reference) {
  return between_levels(texture, sampler, point, reference);
}
MSL_OUTLINE vec<uint, 4> sample_whole(const msl_texture &texture, const msl_sampler &sampler,
                                      const cube_point &point) {
  sample_levels levels(texture, sampler, point.lod);
  cube_footprint around(texture, point, levels.first, false);
  return around.texel<vec<uint, 4>>(texture, 0, 0, 0);
}
template <class V>
MSL_OUTLINE V gather_texels(const msl_texture &texture, const msl_sampler &sampler, const cube_point &point,
                            uint component, const float *reference) {
  cube_footprint around(texture, point, sample_levels(texture, sampler, point.lod).first, true);
  return gathered<V>(texture, sampler, around, component, reference);
}

}

#endif
