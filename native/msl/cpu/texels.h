/* Texels: how they lie in memory, and what they are to a kernel (specification 3.1, sections 6.12 and 8.7). Each
 * function keeps within the texture whatever coordinates it is given. They are not inlined: a kernel with many accesses
 * has them once. */
#ifndef MSL_TEXELS_H
#define MSL_TEXELS_H

#include "../math.h"
#include "abi.h"

#include "../sampler.h"

#define MSL_OUTLINE inline __attribute__((noinline))

namespace msl {

using metal::vec;

MSL_INLINE uint texel_bytes(const msl_texture &texture) { return (uint)texture.component_bytes * texture.components; }
MSL_INLINE uint level_extent(uint extent, uint level) { return extent >> level ? extent >> level : 1; }

/* One level of a texture. */
struct texture_level {
  unsigned char *texels;
  ulong row_bytes, slice_bytes;
  uint width, height, slices; /* of all elements of the array, or planes */

  MSL_INLINE texture_level(const msl_texture &texture, uint level)
      : texels(texture.texels), row_bytes(texture.row_bytes), slice_bytes(texture.slice_bytes), width(texture.width),
        height(texture.height) {
    uint depth = texture.depth;
    for (uint i = 0; i < level; i++) {
      texels += slice_bytes * depth * texture.slices;
      width = level_extent(width, 1), height = level_extent(height, 1), depth = level_extent(depth, 1);
      row_bytes = (ulong)width * texel_bytes(texture);
      slice_bytes = row_bytes * height;
    }
    slices = depth * texture.slices;
  }
  MSL_INLINE bool has(uint x, uint y, uint slice) const { return x < width && y < height && slice < slices; }
  MSL_INLINE unsigned char *at(const msl_texture &texture, uint x, uint y, uint slice) const {
    return texels + slice_bytes * slice + row_bytes * y + (ulong)texel_bytes(texture) * x;
  }
};

template <class S> MSL_INLINE S stored(const unsigned char *from) {
  S value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <class S> MSL_INLINE void store(unsigned char *to, S value) { __builtin_memcpy(to, &value, sizeof value); }

MSL_INLINE float from_srgb(float encoded) {
  return encoded <= 0.04045f ? encoded / 12.92f : msl::pow((encoded + 0.055f) / 1.055f, 2.4f);
}
MSL_INLINE float to_srgb(float linear) {
  if (!(linear > 0.0f)) return 0.0f; /* NaN, too */
  if (linear >= 1.0f) return 1.0f;
  return linear < 0.0031308f ? 12.92f * linear : 1.055f * msl::pow(linear, 1.0f / 2.4f) - 0.055f;
}
MSL_INLINE float clamped(float value, float low, float high) {
  return value != value ? 0.0f : value < low ? low : value > high ? high : value;
}

MSL_INLINE float load_real(const unsigned char *from, uint component, uint bytes) {
  float value;
  switch (component) {
    case MSL_SRGB: return from_srgb((float)*from / 255.0f);
    case MSL_UNORM: return bytes == 1 ? (float)*from / 255.0f : (float)stored<ushort>(from) / 65535.0f;
    case MSL_SNORM:
      value = bytes == 1 ? (float)(signed char)*from / 127.0f : (float)stored<short>(from) / 32767.0f;
      return value < -1.0f ? -1.0f : value;
    default: return bytes == 2 ? (float)stored<half>(from) : stored<float>(from);
  }
}
MSL_INLINE void store_real(unsigned char *to, uint component, uint bytes, float value) {
  switch (component) {
    case MSL_SRGB: *to = (uchar)(int)__builtin_rintf(to_srgb(value) * 255.0f); break;
    case MSL_UNORM:
      value = clamped(value, 0.0f, 1.0f);
      if (bytes == 1) *to = (uchar)(int)__builtin_rintf(value * 255.0f);
      else store(to, (ushort)(int)__builtin_rintf(value * 65535.0f));
      break;
    case MSL_SNORM:
      value = clamped(value, -1.0f, 1.0f);
      if (bytes == 1) *to = (uchar)(int)__builtin_rintf(value * 127.0f);
      else store(to, (short)(int)__builtin_rintf(value * 32767.0f));
      break;
    default:
      if (bytes == 2) store(to, (half)value);
      else store(to, value);
  }
}
/* Of signed ones with the sign in front. */
MSL_INLINE uint load_whole(const unsigned char *from, uint component, uint bytes) {
  bool is_signed = component == MSL_SINT;
  switch (bytes) {
    case 1: return is_signed ? (uint)(int)(signed char)*from : *from;
    case 2: return is_signed ? (uint)(int)stored<short>(from) : stored<ushort>(from);
    default: return stored<uint>(from);
  }
}
/* What does not fit becomes the nearest that does. */
MSL_INLINE void store_whole(unsigned char *to, uint component, uint bytes, uint value) {
  if (bytes == 4) return store(to, value);
  uint bits = 8 * bytes;
  if (component == MSL_SINT) {
    int most = (1 << (bits - 1)) - 1, whole = (int)value;
    value = (uint)(whole > most ? most : whole < -most - 1 ? -most - 1 : whole);
  } else if (value >> bits) {
    value = (1u << bits) - 1;
  }
  if (bytes == 1) *to = (uchar)value;
  else store(to, (ushort)value);
}

/* The place in memory of a component, and how it is stored. */
MSL_INLINE uint place_of(const msl_texture &texture, uint i) { return texture.is_bgra && i < 3 ? 2 - i : i; }
MSL_INLINE uint kind_of(const msl_texture &texture, uint i) {
  return texture.component == MSL_SRGB && i == 3 ? MSL_UNORM : texture.component;
}
MSL_INLINE void load(const msl_texture &texture, const unsigned char *from, vec<float, 4> &texel) {
  texel = vec<float, 4>(0, 0, 0, 1);
  for (uint i = 0; i < texture.components; i++)
    texel[i] = load_real(from + place_of(texture, i) * texture.component_bytes, kind_of(texture, i),
                         texture.component_bytes);
}
MSL_INLINE void load(const msl_texture &texture, const unsigned char *from, vec<uint, 4> &texel) {
  texel = vec<uint, 4>(0, 0, 0, 1);
  for (uint i = 0; i < texture.components; i++)
    texel[i] = load_whole(from + i * texture.component_bytes, texture.component, texture.component_bytes);
}

/* Whoever reads outside gets zeroes, and what is written there is dropped. V: a vector of floats, or of integers of 32
 * bits, signed or not. */
template <class V> MSL_OUTLINE V read_texel(const msl_texture &texture, uint x, uint y, uint slice, uint level) {
  V texel(0);
  if (level >= texture.levels) return texel;
  texture_level place(texture, level);
  if (place.has(x, y, slice)) load(texture, place.at(texture, x, y, slice), texel);
  return texel;
}
MSL_OUTLINE void write_texel(const msl_texture &texture, vec<float, 4> texel, uint x, uint y, uint slice, uint level) {
  if (level >= texture.levels) return;
  texture_level place(texture, level);
  if (!place.has(x, y, slice)) return;
  unsigned char *to = place.at(texture, x, y, slice);
  for (uint i = 0; i < texture.components; i++)
    store_real(to + place_of(texture, i) * texture.component_bytes, kind_of(texture, i), texture.component_bytes,
               texel[i]);
}
MSL_OUTLINE void write_texel(const msl_texture &texture, vec<uint, 4> texel, uint x, uint y, uint slice, uint level) {
  if (level >= texture.levels) return;
  texture_level place(texture, level);
  if (!place.has(x, y, slice)) return;
  unsigned char *to = place.at(texture, x, y, slice);
  for (uint i = 0; i < texture.components; i++)
    store_whole(to + i * texture.component_bytes, texture.component, texture.component_bytes, texel[i]);
}

/* The first component of a texel, where that is a word; NULL: outside, or narrower. */
MSL_OUTLINE uint *texel_word(const msl_texture &texture, uint x, uint y, uint slice) {
  texture_level place(texture, 0);
  if (texture.component_bytes != 4 || !place.has(x, y, slice)) return nullptr;
  return (uint *)place.at(texture, x, y, slice);
}

/* ---------------------------------------------------------------------------------------------------- sampling -- */

/* Where a texture is sampled: coordinates, offsets in texels, which element of the array, and which level. */
struct sample_point {
  float coordinates[3];
  int offset[3];
  uint dimensions, slice;
  float lod;
};

enum { outside_is_zero = -1, outside_is_border = -2 };

/* The index of texel i of an axis, or one of the above. */
MSL_INLINE int addressed(int i, int extent, uint address) {
  switch (address) {
    case 1: i = i < 0 ? -1 - i : i; break; /* MTLSamplerAddressModeMirrorClampToEdge */
    case 2: i %= extent; return i < 0 ? i + extent : i;
    case 3:
      i %= 2 * extent;
      i = i < 0 ? i + 2 * extent : i;
      return i < extent ? i : 2 * extent - 1 - i;
    case 4: return i < 0 || i >= extent ? outside_is_zero : i;
    case 5: return i < 0 || i >= extent ? outside_is_border : i;
    default: break;
  }
  return i < 0 ? 0 : i >= extent ? extent - 1 : i;
}

/* The texels of an axis that a sample takes, and how much of the second. */
struct sample_axis {
  int texel[2];
  float weight;
};
MSL_INLINE sample_axis axis_of(const sample_point &point, uint axis, const msl_sampler &sampler, uint extent,
                               bool is_linear) {
  uint address = sampler.address[axis];
  float c = point.coordinates[axis];
  if (!sampler.pixels) {
    /* What repeats loses its whole part first, which costs no precision. */
    if (address == 2) c -= __builtin_floorf(c);
    if (address == 3) c -= 2.0f * __builtin_floorf(c * 0.5f);
    c *= (float)extent;
  }
  if (is_linear) c -= 0.5f;
  c = clamped(c, -1e9f, 1e9f);
  float first = __builtin_floorf(c);
  int i = (int)first + point.offset[axis];
  sample_axis result = {{addressed(i, (int)extent, address), addressed(i, (int)extent, address)}, 0.0f};
  if (is_linear) {
    result.texel[1] = addressed(i + 1, (int)extent, address);
    result.weight = c - first;
  }
  return result;
}

/* The texels of a level around a point. */
struct footprint {
  sample_axis axes[3];
  texture_level place;
  uint slice, border;
  bool is_flat;

  MSL_INLINE footprint(const msl_texture &texture, const msl_sampler &sampler, const sample_point &point, uint level,
                       bool is_linear)
      : place(texture, level), border(sampler.border), is_flat(point.dimensions < 3) {
    uint extents[3] = {place.width, place.height, place.slices};
    for (uint i = 0; i < 3; i++) {
      axes[i] = sample_axis{{0, 0}, 0.0f};
      if (i < point.dimensions) axes[i] = axis_of(point, i, sampler, extents[i], is_linear);
    }
    slice = point.slice < place.slices ? point.slice : place.slices - 1;
  }
  template <class V> MSL_INLINE V texel(const msl_texture &texture, uint x, uint y, uint z) const {
    int place_x = axes[0].texel[x], place_y = axes[1].texel[y], place_z = axes[2].texel[z];
    V result(0);
    int least = place_x < place_y ? place_x : place_y;
    least = place_z < least ? place_z : least;
    if (least >= 0) load(texture, place.at(texture, place_x, place_y, is_flat ? slice : (uint)place_z), result);
    else if (least == outside_is_zero) result[3] = texture.components < 4 ? 1 : 0;
    else if (border == 1) result[3] = 1; /* MTLSamplerBorderColorOpaqueBlack */
    else if (border == 2) result = V(1);
    return result;
  }
};

/* MTLCompareFunction of a reference with what a texture has. */
MSL_INLINE bool compares(uint function, float reference, float found) {
  switch (function) {
    case 1: return reference < found;
    case 2: return reference == found;
    case 3: return reference <= found;
    case 4: return reference > found;
    case 5: return reference != found;
    case 6: return reference >= found;
    case 7: return true;
    default: return false;
  }
}

/* A weighted sum of texels, or with a reference of whether they compare. */
MSL_INLINE vec<float, 4> filtered(const msl_texture &texture, const msl_sampler &sampler, const sample_point &point,
                                  uint level, bool is_linear, const float *reference) {
  footprint around(texture, sampler, point, level, is_linear);
  vec<float, 4> sum(0);
  for (uint corner = 0; corner < 8; corner++) {
    float weight = 1.0f;
    for (uint i = 0; i < 3; i++) {
      float second = around.axes[i].weight;
      weight *= corner >> i & 1 ? second : 1.0f - second;
    }
    if (weight == 0.0f) continue; /* infinities, too */
    vec<float, 4> texel = around.texel<vec<float, 4>>(texture, corner & 1, corner >> 1 & 1, corner >> 2);
    if (reference) texel = vec<float, 4>(compares(sampler.compare, *reference, texel[0]) ? 1.0f : 0.0f);
    sum += texel * weight;
  }
  return sum;
}

/* The levels that a point is sampled from: the first, and how much of the one behind it. */
struct sample_levels {
  uint first;
  float weight;
  bool is_linear;

  MSL_INLINE sample_levels(const msl_texture &texture, const msl_sampler &sampler, float lod) : first(0), weight(0) {
    lod = clamped(lod, sampler.lod_min, sampler.lod_max);
    is_linear = lod > 0.0f ? sampler.minify : sampler.magnify;
    lod = clamped(lod, 0.0f, (float)(texture.levels - 1));
    if (sampler.mip == 1) first = (uint)__builtin_floorf(lod + 0.5f);
    if (sampler.mip != 2) return;
    first = (uint)lod;
    weight = lod - (float)first;
  }
};

/* The same of the levels that the sampler wants. P: sample_point or cube_point. */
template <class P>
MSL_INLINE vec<float, 4> between_levels(const msl_texture &texture, const msl_sampler &sampler, const P &point,
                                        const float *reference) {
  sample_levels levels(texture, sampler, point.lod);
  vec<float, 4> result = filtered(texture, sampler, point, levels.first, levels.is_linear, reference);
  if (levels.weight == 0.0f) return result;
  vec<float, 4> next = filtered(texture, sampler, point, levels.first + 1, levels.is_linear, reference);
  return result * (1.0f - levels.weight) + next * levels.weight;
}
MSL_OUTLINE vec<float, 4> sample_real(const msl_texture &texture, const msl_sampler &sampler, const sample_point &point,
                                      const float *reference) {
  return between_levels(texture, sampler, point, reference);
}
/* Integers are not filtered. */
MSL_OUTLINE vec<uint, 4> sample_whole(const msl_texture &texture, const msl_sampler &sampler,
                                      const sample_point &point) {
  sample_levels levels(texture, sampler, point.lod);
  footprint around(texture, sampler, point, levels.first, false);
  return around.texel<vec<uint, 4>>(texture, 0, 0, 0);
}
/* One component of the four texels that a linear filter would take: from the lower left against the clock. F:
 * footprint or cube_footprint. */
template <class V, class F>
MSL_INLINE V gathered(const msl_texture &texture, const msl_sampler &sampler, const F &around, uint component,
                      const float *reference) {
  V result;
  for (uint i = 0; i < 4; i++) {
    result[i] = around.template texel<V>(texture, i == 1 || i == 2, i < 2, 0)[component];
    if (reference) result[i] = compares(sampler.compare, *reference, (float)result[i]) ? 1 : 0;
  }
  return result;
}
template <class V>
MSL_OUTLINE V gather_texels(const msl_texture &texture, const msl_sampler &sampler, const sample_point &point,
                            uint component, const float *reference) {
  footprint around(texture, sampler, point, sample_levels(texture, sampler, point.lod).first, true);
  return gathered<V>(texture, sampler, around, component, reference);
}

}

#endif
