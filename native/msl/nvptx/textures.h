/* Textures and samplers, which there are none of on this target. A source may have them in functions and in other
 * kernels, where they are empty; entry.h refuses a kernel that takes one. */
#ifndef MSL_TEXTURES_H
#define MSL_TEXTURES_H

#include "../bound.h"

/* As the CPU has it, for the sampler's own constructors. */
struct msl_sampler {
  unsigned char bound, pixels, address[3], magnify, minify, mip, border, compare;
  float lod_min, lod_max;
};

#include "../sampler.h"

namespace metal {

#define MSL_NOTHING(result, name)                                                                                \
  template <class... A> MSL_INLINE result name(A...) const { return result(0); }
#define MSL_TEXTURE(name, result)                                                                                \
  template <class T, access mode = access::sample, memory_coherence = memory_coherence_threadgroup> struct name { \
    using msl_colors = vec<T, 4>;                                                                                \
    static constexpr bool msl_is_texture = true;                                                                 \
    template <class... A> MSL_INLINE void write(A...) const {}                                                   \
    template <class... A> MSL_INLINE void atomic_store(A...) const {}                                            \
    MSL_INLINE void fence() const {}                                                                             \
    MSL_NOTHING(result, read) MSL_NOTHING(result, sample) MSL_NOTHING(T, sample_compare)                         \
    MSL_NOTHING(msl_colors, gather) MSL_NOTHING(msl_colors, gather_compare)                                      \
    MSL_NOTHING(uint, get_width) MSL_NOTHING(uint, get_height) MSL_NOTHING(uint, get_depth)                      \
    MSL_NOTHING(uint, get_array_size) MSL_NOTHING(uint, get_num_mip_levels) MSL_NOTHING(uint, get_num_samples)   \
    MSL_NOTHING(msl_colors, atomic_load) MSL_NOTHING(msl_colors, atomic_exchange)                                \
    MSL_NOTHING(msl_colors, atomic_fetch_add) MSL_NOTHING(msl_colors, atomic_fetch_sub)                          \
    MSL_NOTHING(msl_colors, atomic_fetch_min) MSL_NOTHING(msl_colors, atomic_fetch_max)                          \
    MSL_NOTHING(msl_colors, atomic_fetch_and) MSL_NOTHING(msl_colors, atomic_fetch_or)                           \
    MSL_NOTHING(msl_colors, atomic_fetch_xor) MSL_NOTHING(bool, atomic_compare_exchange_weak)                    \
  };
MSL_TEXTURE(texture1d, msl_colors)
MSL_TEXTURE(texture1d_array, msl_colors)
MSL_TEXTURE(texture2d, msl_colors)
MSL_TEXTURE(texture2d_array, msl_colors)
MSL_TEXTURE(texture3d, msl_colors)
MSL_TEXTURE(texture_buffer, msl_colors)
MSL_TEXTURE(depth2d, T)
MSL_TEXTURE(depth2d_array, T)
MSL_TEXTURE(texturecube, msl_colors)
MSL_TEXTURE(texturecube_array, msl_colors)
MSL_TEXTURE(depthcube, T)
MSL_TEXTURE(depthcube_array, T)
MSL_TEXTURE(texture2d_ms, msl_colors)
MSL_TEXTURE(depth2d_ms, T)
#undef MSL_TEXTURE
#undef MSL_NOTHING

template <class V, class = enable_if_t<V::msl_is_texture>> MSL_INLINE bool is_null_texture(const V &) { return true; }

}

namespace msl {

template <class V> struct resource<V, metal::enable_if_t<V::msl_is_texture>> { static constexpr unsigned count = 1; };
template <> struct resource<metal::sampler> { static constexpr unsigned count = 1; };
template <class V, ulong n> struct resource<metal::array<V, n>, metal::enable_if_t<(resource<V>::count > 0)>> {
  static constexpr unsigned count = n;
};

}

#endif
