/* <metal_texture>: samplers and what textures' functions take beside coordinates (specification 3.1, sections 2.10 and
 * 6.12). A sampler is plain data, so that one of a source's own is a constant: msl_sampler, which the target has. */
#ifndef MSL_SAMPLER_H
#define MSL_SAMPLER_H

#include "vector.h"

namespace metal {

enum class access { sample, read, write, read_write };
enum memory_coherence { memory_coherence_threadgroup, memory_coherence_device };
enum class component { x, y, z, w };

enum class coord { normalized, pixel };
/* Values: MTLSamplerAddressMode. */
enum class address { clamp_to_edge = 0, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 };
enum class s_address { clamp_to_edge = 0, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 };
enum class t_address { clamp_to_edge = 0, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 };
enum class r_address { clamp_to_edge = 0, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 };
/* MTLSamplerMinMagFilter, MTLSamplerMipFilter, MTLSamplerBorderColor and MTLCompareFunction. */
enum class filter { nearest, linear };
enum class mag_filter { nearest, linear };
enum class min_filter { nearest, linear };
enum class mip_filter { none, nearest, linear };
enum class border_color { transparent_black, opaque_black, opaque_white };
enum class compare_func { never, less, equal, less_equal, greater, not_equal, greater_equal, always, none = never };

struct max_anisotropy {
  MSL_INLINE constexpr explicit max_anisotropy(int) {}
};
struct lod_clamp {
  float low, high;
  MSL_INLINE constexpr lod_clamp(float minimum, float maximum) : low(minimum), high(maximum) {}
};

/* Which level, and how far between it and the next. In a kernel there are no derivatives: what does not say has 0, and
 * a bias counts for nothing. */
struct level {
  float lod;
  MSL_INLINE explicit level(float value) : lod(value) {}
};
struct bias {
  MSL_INLINE explicit bias(float) {}
};
struct min_lod_clamp {
  float low;
  MSL_INLINE explicit min_lod_clamp(float value) : low(value) {}
};
template <int N> struct msl_gradient {
  vec<float, N> x, y;
  MSL_INLINE msl_gradient(vec<float, N> dx, vec<float, N> dy) : x(dx), y(dy) {}
};
struct gradient2d : msl_gradient<2> { using msl_gradient::msl_gradient; };
struct gradient3d : msl_gradient<3> { using msl_gradient::msl_gradient; };
struct gradientcube : msl_gradient<3> { using msl_gradient::msl_gradient; };

struct sampler {
  msl_sampler msl;

  MSL_INLINE constexpr sampler() : msl{1, 0, {0, 0, 0}, 0, 0, 0, 0, 0, 0.0f, 3.40282346638528859812e+38f} {}
  MSL_INLINE constexpr explicit sampler(const msl_sampler &bound) : msl(bound) {}
  template <class A, class... B,
            enable_if_t<__is_enum(A) || __is_same(A, max_anisotropy) || __is_same(A, lod_clamp), int> = 0>
  MSL_INLINE constexpr sampler(A a, B... b) : sampler() {
    set(a);
    (set(b), ...);
  }

 private:
  MSL_INLINE constexpr void set(coord c) { msl.pixels = c == coord::pixel; }
  MSL_INLINE constexpr void set(address a) { msl.address[0] = msl.address[1] = msl.address[2] = (uchar)a; }
  MSL_INLINE constexpr void set(s_address a) { msl.address[0] = (uchar)a; }
  MSL_INLINE constexpr void set(t_address a) { msl.address[1] = (uchar)a; }
  MSL_INLINE constexpr void set(r_address a) { msl.address[2] = (uchar)a; }
  MSL_INLINE constexpr void set(filter f) { msl.magnify = msl.minify = (uchar)f; }
  MSL_INLINE constexpr void set(mag_filter f) { msl.magnify = (uchar)f; }
  MSL_INLINE constexpr void set(min_filter f) { msl.minify = (uchar)f; }
  MSL_INLINE constexpr void set(mip_filter f) { msl.mip = (uchar)f; }
  MSL_INLINE constexpr void set(border_color c) { msl.border = (uchar)c; }
  MSL_INLINE constexpr void set(compare_func f) { msl.compare = (uchar)f; }
  MSL_INLINE constexpr void set(max_anisotropy) {}
  MSL_INLINE constexpr void set(lod_clamp c) { msl.lod_min = c.low, msl.lod_max = c.high; }
};

}

#endif
