/* <metal_texture>: the types of textures (specification 3.1, sections 2.9 and 6.12). Each is a pointer to what the host
 * bound. A method that the access of the type does not have is an error where it is used. */
#ifndef MSL_TEXTURES_H
#define MSL_TEXTURES_H

#include "../atomic.h"
#include "../bound.h"
#include "cubes.h"

namespace msl {

/* MTLTextureType. */
enum texture_type {
  type_1d = 0,
  type_1d_array = 1,
  type_2d = 2,
  type_2d_array = 3,
  type_2d_multisample = 4,
  type_cube = 5,
  type_cube_array = 6,
  type_3d = 7,
  type_buffer = 9,
};

/* Components as they are stored and as a kernel has them. */
template <class T> struct texture_value {
  static constexpr bool is_real = metal::is_floating_point_v<T>;
  static constexpr uint kind = is_real ? MSL_VALUE_FLOAT : metal::is_unsigned_v<T> ? MSL_VALUE_UINT : MSL_VALUE_SINT;
  using word = metal::conditional_t<is_real, float, uint>;
  static MSL_INLINE T taken(word value) {
    if constexpr (is_real || sizeof(T) == 4) return (T)value;
    else if constexpr (metal::is_unsigned_v<T>) return value > 65535u ? (T)65535 : (T)value;
    else return (int)value > 32767 ? (T)32767 : (int)value < -32768 ? (T)-32768 : (T)value;
  }
  static MSL_INLINE vec<T, 4> taken(vec<word, 4> texel) {
    return vec<T, 4>(taken(texel.x), taken(texel.y), taken(texel.z), taken(texel.w));
  }
  static MSL_INLINE vec<word, 4> given(vec<T, 4> texel) {
    return vec<word, 4>((word)texel.x, (word)texel.y, (word)texel.z, (word)texel.w);
  }
};

MSL_INLINE float lod_of(const msl_texture &, metal::level option) { return option.lod; }
MSL_INLINE float lod_of(const msl_texture &, metal::bias) { return 0.0f; }
MSL_INLINE float lod_of(const msl_texture &, metal::min_lod_clamp option) { return option.low; }
template <int N> MSL_INLINE float lod_of(const msl_texture &texture, const metal::msl_gradient<N> &option) {
  const float extents[3] = {(float)texture.width, (float)texture.height, (float)texture.depth};
  float x = 0.0f, y = 0.0f;
  for (int i = 0; i < N; i++) {
    x += option.x[i] * extents[i] * (option.x[i] * extents[i]);
    y += option.y[i] * extents[i] * (option.y[i] * extents[i]);
  }
  return 0.5f * msl::log2(x > y ? x : y);
}
/* Of a direction, of which 2 is the width of a face. */
MSL_INLINE float lod_of(const msl_texture &texture, const metal::gradientcube &option) {
  float x = 0.0f, y = 0.0f;
  for (int i = 0; i < 3; i++) {
    x += option.x[i] * option.x[i];
    y += option.y[i] * option.y[i];
  }
  return msl::log2(0.5f * (float)texture.width) + 0.5f * msl::log2(x > y ? x : y);
}
template <class O> using if_lod = decltype(lod_of(*(const msl_texture *)nullptr, metal::declval<O>()));

template <class A> MSL_INLINE A part(A scalar, int) { return scalar; }
template <class A, int N> MSL_INLINE A part(vec<A, N> vector, int i) { return vector[i]; }

/* What all textures have. `dimensions` of coordinates, behind which arrays have an index. */
template <class T, metal::access mode, uint type, int dimensions, bool is_array> struct texture_base {
  static constexpr uint msl_type = type, msl_value = texture_value<T>::kind;
  static constexpr bool msl_reads = mode != metal::access::write;
  static constexpr bool msl_writes = mode == metal::access::write || mode == metal::access::read_write;

  const msl_texture *msl;

  MSL_INLINE uint get_width(uint lod = 0) const { return level_extent(msl->width, lod); }
  MSL_INLINE uint get_num_mip_levels() const { return msl->levels; }
  MSL_INLINE void fence() const {}

 protected:
  using value = texture_value<T>;
  using texel = vec<typename value::word, 4>;

  static constexpr void check_sampled() {
    static_assert(mode == metal::access::sample, "this texture is sampled, and its access is not access::sample");
  }
  template <class C> MSL_INLINE vec<T, 4> read_at(C coordinates, uint slice, uint lod) const {
    static_assert(msl_reads, "this texture is read, and its access is access::write");
    return value::taken(msl::read_texel<texel>(*msl, part(coordinates, 0), dimensions > 1 ? part(coordinates, 1) : 0,
                                               dimensions > 2 ? part(coordinates, 2) : slice, lod));
  }
  template <class C> MSL_INLINE void write_at(vec<T, 4> color, C coordinates, uint slice, uint lod) const {
    static_assert(msl_writes,
                  "this texture is written, and its access is neither access::write nor access::read_write");
    msl::write_texel(*msl, value::given(color), part(coordinates, 0), dimensions > 1 ? part(coordinates, 1) : 0,
                     dimensions > 2 ? part(coordinates, 2) : slice, lod);
  }
  /* What an atomic function works on: the first component, of 32 bits. One outside is a word that nobody else has. */
  template <class C>
  MSL_INLINE metal::_atomic<T> *word_at(C coordinates, uint slice, metal::_atomic<T> *outside) const {
    static_assert(mode == metal::access::read_write && !value::is_real && sizeof(T) == 4,
                  "atomic functions of a texture need int or uint, and access::read_write");
    uint *word = texel_word(*msl, part(coordinates, 0), dimensions > 1 ? part(coordinates, 1) : 0,
                            dimensions > 2 ? part(coordinates, 2) : slice);
    return word ? (metal::_atomic<T> *)word : outside;
  }
  template <class C, class O> MSL_INLINE sample_point point(C coordinates, O offset, uint slice, float lod) const {
    sample_point point = {{0, 0, 0}, {0, 0, 0}, dimensions, slice, lod};
    for (int i = 0; i < dimensions; i++) {
      point.coordinates[i] = part(coordinates, i);
      point.offset[i] = part(offset, i);
    }
    return point;
  }
  MSL_INLINE cube_point toward(vec<float, 3> direction, uint element, float lod) const {
    return {{direction[0], direction[1], direction[2]}, element, lod};
  }
  /* P: sample_point or cube_point. */
  template <class P> MSL_INLINE vec<T, 4> sample_at(const metal::sampler &sampler, const P &point) const {
    check_sampled();
    if constexpr (value::is_real) return value::taken(sample_real(*msl, sampler.msl, point, nullptr));
    else return value::taken(sample_whole(*msl, sampler.msl, point));
  }
  template <class P> MSL_INLINE T compare_at(const metal::sampler &sampler, const P &point, float reference) const {
    check_sampled();
    return (T)sample_real(*msl, sampler.msl, point, &reference).x;
  }
  template <class P>
  MSL_INLINE vec<T, 4> gather_at(const metal::sampler &sampler, const P &point, metal::component from,
                                 const float *reference = nullptr) const {
    check_sampled();
    return value::taken(gather_texels<texel>(*msl, sampler.msl, point, (uint)from, reference));
  }
};

/* How many textures or samplers an argument is; 0: it is something else. */
template <class T, metal::access mode, uint type, int dimensions, bool is_array>
constexpr uint texture_count(const texture_base<T, mode, type, dimensions, is_array> *) { return 1; }
constexpr uint texture_count(const void *) { return 0; }

}

namespace metal {

#define MSL_TEXTURE(name, type, dimensions, is_array)                                                       \
  template <class T, access mode = access::sample, memory_coherence = memory_coherence_threadgroup>         \
  struct name : msl::texture_base<T, mode, msl::type, dimensions, is_array>
/* For coordinates of type C. */
#define MSL_READ_WRITE(C, result, color, part, ...)                                                         \
  MSL_INLINE result read(C coord, uint lod = 0) const { return this->read_at(coord, 0, lod)part; }          \
  MSL_INLINE void write(color value, C coord, uint lod = 0) const { this->write_at(vec<T, 4>(value), coord, 0, lod); }
#define MSL_READ_WRITE_ARRAY(C, result, color, part, ...)                                                   \
  MSL_INLINE result read(C coord, uint array, uint lod = 0) const { return this->read_at(coord, array, lod)part; } \
  MSL_INLINE void write(color value, C coord, uint array, uint lod = 0) const {                             \
    this->write_at(vec<T, 4>(value), coord, array, lod);                                                    \
  }
/* Atomic functions of the first component (specification 3.1, section 6.12.13). */
#define MSL_ATOMIC(name, slice, ...)                                                                        \
  MSL_INLINE vec<T, 4> atomic_##name(__VA_ARGS__, vec<T, 4> operand) const {                                \
    _atomic<T> outside = {0};                                                                               \
    T before = atomic_##name##_explicit(this->word_at(coord, slice, &outside), operand.x, memory_order_relaxed); \
    return vec<T, 4>(before, (T)0, (T)0, (T)0);                                                             \
  }
#define MSL_ATOMICS(slice, ...)                                                                             \
  MSL_ATOMIC(fetch_add, slice, __VA_ARGS__) MSL_ATOMIC(fetch_sub, slice, __VA_ARGS__)                       \
  MSL_ATOMIC(fetch_min, slice, __VA_ARGS__) MSL_ATOMIC(fetch_max, slice, __VA_ARGS__)                       \
  MSL_ATOMIC(fetch_and, slice, __VA_ARGS__) MSL_ATOMIC(fetch_or, slice, __VA_ARGS__)                        \
  MSL_ATOMIC(fetch_xor, slice, __VA_ARGS__) MSL_ATOMIC(exchange, slice, __VA_ARGS__)                        \
  MSL_INLINE vec<T, 4> atomic_load(__VA_ARGS__) const {                                                     \
    _atomic<T> outside = {0};                                                                               \
    T found = atomic_load_explicit(this->word_at(coord, slice, &outside), memory_order_relaxed);            \
    return vec<T, 4>(found, (T)0, (T)0, (T)0);                                                              \
  }                                                                                                         \
  MSL_INLINE void atomic_store(vec<T, 4> value, __VA_ARGS__) const {                                        \
    _atomic<T> outside = {0};                                                                               \
    atomic_store_explicit(this->word_at(coord, slice, &outside), value.x, memory_order_relaxed);            \
  }                                                                                                         \
  MSL_INLINE bool atomic_compare_exchange_weak(__VA_ARGS__, vec<T, 4> *expected,                            \
                                               vec<T, 4> desired) const {                                   \
    _atomic<T> outside = {0};                                                                               \
    return atomic_compare_exchange_weak_explicit(this->word_at(coord, slice, &outside), &expected->x, desired.x, \
                                                 memory_order_relaxed, memory_order_relaxed);               \
  }
/* `C`: coordinates, `O`: offsets. */
#define MSL_SAMPLE(result, part, C, O)                                                                      \
  MSL_INLINE result sample(sampler s, C coord, O offset = O(0)) const {                                     \
    return this->sample_at(s, this->point(coord, offset, 0, 0.0f))part;                                     \
  }                                                                                                         \
  template <class L, class = msl::if_lod<L>>                                                                \
  MSL_INLINE result sample(sampler s, C coord, L lod, O offset = O(0)) const {                              \
    return this->sample_at(s, this->point(coord, offset, 0, msl::lod_of(*this->msl, lod)))part;             \
  }                                                                                                         \
  template <class L, class = msl::if_lod<L>>                                                                \
  MSL_INLINE result sample(sampler s, C coord, L lod, min_lod_clamp low, O offset = O(0)) const {           \
    float wanted = msl::lod_of(*this->msl, lod);                                                            \
    return this->sample_at(s, this->point(coord, offset, 0, wanted > low.low ? wanted : low.low))part;      \
  }
#define MSL_SAMPLE_ARRAY(result, part, C, O)                                                                \
  MSL_INLINE result sample(sampler s, C coord, uint array, O offset = O(0)) const {                         \
    return this->sample_at(s, this->point(coord, offset, array, 0.0f))part;                                 \
  }                                                                                                         \
  template <class L, class = msl::if_lod<L>>                                                                \
  MSL_INLINE result sample(sampler s, C coord, uint array, L lod, O offset = O(0)) const {                  \
    return this->sample_at(s, this->point(coord, offset, array, msl::lod_of(*this->msl, lod)))part;         \
  }                                                                                                         \
  template <class L, class = msl::if_lod<L>>                                                                \
  MSL_INLINE result sample(sampler s, C coord, uint array, L lod, min_lod_clamp low, O offset = O(0)) const { \
    float wanted = msl::lod_of(*this->msl, lod);                                                            \
    return this->sample_at(s, this->point(coord, offset, array, wanted > low.low ? wanted : low.low))part;  \
  }
#define MSL_HEIGHT MSL_INLINE uint get_height(uint lod = 0) const { return msl::level_extent(this->msl->height, lod); }
#define MSL_ARRAY MSL_INLINE uint get_array_size() const { return this->msl->slices; }
#define MSL_COLORS vec<T, 4>

MSL_TEXTURE(texture1d, type_1d, 1, false) {
  MSL_ATOMICS(0, uint coord)
  MSL_READ_WRITE(uint, MSL_COLORS, MSL_COLORS, )
  MSL_SAMPLE(MSL_COLORS, , float, int)
};
MSL_TEXTURE(texture1d_array, type_1d_array, 1, true) {
  MSL_ATOMICS(array, uint coord, uint array)
  MSL_READ_WRITE_ARRAY(uint, MSL_COLORS, MSL_COLORS, )
  MSL_SAMPLE_ARRAY(MSL_COLORS, , float, int)
  MSL_ARRAY
};
MSL_TEXTURE(texture2d, type_2d, 2, false) {
  MSL_ATOMICS(0, uint2 coord)
  MSL_READ_WRITE(uint2, MSL_COLORS, MSL_COLORS, )
  MSL_READ_WRITE(ushort2, MSL_COLORS, MSL_COLORS, )
  MSL_SAMPLE(MSL_COLORS, , float2, int2)
  MSL_INLINE MSL_COLORS gather(sampler s, float2 coord, int2 offset = int2(0), component from = component::x) const {
    return this->gather_at(s, this->point(coord, offset, 0, 0.0f), from);
  }
  MSL_HEIGHT
};
MSL_TEXTURE(texture2d_array, type_2d_array, 2, true) {
  MSL_ATOMICS(array, uint2 coord, uint array)
  MSL_READ_WRITE_ARRAY(uint2, MSL_COLORS, MSL_COLORS, )
  MSL_READ_WRITE_ARRAY(ushort2, MSL_COLORS, MSL_COLORS, )
  MSL_SAMPLE_ARRAY(MSL_COLORS, , float2, int2)
  MSL_INLINE MSL_COLORS gather(sampler s, float2 coord, uint array, int2 offset = int2(0),
                               component from = component::x) const {
    return this->gather_at(s, this->point(coord, offset, array, 0.0f), from);
  }
  MSL_HEIGHT
  MSL_ARRAY
};
MSL_TEXTURE(texture3d, type_3d, 3, false) {
  MSL_ATOMICS(0, uint3 coord)
  MSL_READ_WRITE(uint3, MSL_COLORS, MSL_COLORS, )
  MSL_READ_WRITE(ushort3, MSL_COLORS, MSL_COLORS, )
  MSL_SAMPLE(MSL_COLORS, , float3, int3)
  MSL_HEIGHT
  MSL_INLINE uint get_depth(uint lod = 0) const { return msl::level_extent(this->msl->depth, lod); }
};
template <class T, access mode = access::read>
struct texture_buffer : msl::texture_base<T, mode, msl::type_buffer, 1, false> {
  MSL_ATOMICS(0, uint coord)
  MSL_INLINE MSL_COLORS read(uint coord) const { return this->read_at(coord, 0, 0); }
  MSL_INLINE void write(MSL_COLORS value, uint coord) const { this->write_at(value, coord, 0, 0); }
};
MSL_TEXTURE(depth2d, type_2d, 2, false) {
  MSL_READ_WRITE(uint2, T, T, .x)
  MSL_READ_WRITE(ushort2, T, T, .x)
  MSL_SAMPLE(T, .x, float2, int2)
  MSL_INLINE T sample_compare(sampler s, float2 coord, float reference, int2 offset = int2(0)) const {
    return this->compare_at(s, this->point(coord, offset, 0, 0.0f), reference);
  }
  template <class L, class = msl::if_lod<L>>
  MSL_INLINE T sample_compare(sampler s, float2 coord, float reference, L lod, int2 offset = int2(0)) const {
    return this->compare_at(s, this->point(coord, offset, 0, msl::lod_of(*this->msl, lod)), reference);
  }
  MSL_INLINE MSL_COLORS gather(sampler s, float2 coord, int2 offset = int2(0)) const {
    return this->gather_at(s, this->point(coord, offset, 0, 0.0f), component::x);
  }
  MSL_INLINE MSL_COLORS gather_compare(sampler s, float2 coord, float reference, int2 offset = int2(0)) const {
    return this->gather_at(s, this->point(coord, offset, 0, 0.0f), component::x, &reference);
  }
  MSL_HEIGHT
};
MSL_TEXTURE(depth2d_array, type_2d_array, 2, true) {
  MSL_READ_WRITE_ARRAY(uint2, T, T, .x)
  MSL_READ_WRITE_ARRAY(ushort2, T, T, .x)
  MSL_SAMPLE_ARRAY(T, .x, float2, int2)
  MSL_INLINE T sample_compare(sampler s, float2 coord, uint array, float reference, int2 offset = int2(0)) const {
    return this->compare_at(s, this->point(coord, offset, array, 0.0f), reference);
  }
  template <class L, class = msl::if_lod<L>>
  MSL_INLINE T sample_compare(sampler s, float2 coord, uint array, float reference, L lod,
                              int2 offset = int2(0)) const {
    return this->compare_at(s, this->point(coord, offset, array, msl::lod_of(*this->msl, lod)), reference);
  }
  MSL_INLINE MSL_COLORS gather(sampler s, float2 coord, uint array, int2 offset = int2(0)) const {
    return this->gather_at(s, this->point(coord, offset, array, 0.0f), component::x);
  }
  MSL_HEIGHT
  MSL_ARRAY
};
/* `...`: an index, for arrays of cubes, and where it is. */
#define MSL_READ_WRITE_CUBE(C, result, color, part, cube, ...)                                              \
  MSL_INLINE result read(C coord, uint face __VA_ARGS__, uint lod = 0) const {                              \
    return this->read_at(coord, 6 * (cube) + face, lod)part;                                                \
  }                                                                                                         \
  MSL_INLINE void write(color value, C coord, uint face __VA_ARGS__, uint lod = 0) const {                  \
    this->write_at(vec<T, 4>(value), coord, 6 * (cube) + face, lod);                                        \
  }
#define MSL_SAMPLE_CUBE(result, part, cube, ...)                                                            \
  MSL_INLINE result sample(sampler s, float3 coord __VA_ARGS__) const {                                     \
    return this->sample_at(s, this->toward(coord, cube, 0.0f))part;                                         \
  }                                                                                                         \
  template <class L, class = msl::if_lod<L>>                                                                \
  MSL_INLINE result sample(sampler s, float3 coord __VA_ARGS__, L lod) const {                              \
    return this->sample_at(s, this->toward(coord, cube, msl::lod_of(*this->msl, lod)))part;                 \
  }                                                                                                         \
  template <class L, class = msl::if_lod<L>>                                                                \
  MSL_INLINE result sample(sampler s, float3 coord __VA_ARGS__, L lod, min_lod_clamp low) const {           \
    float wanted = msl::lod_of(*this->msl, lod);                                                            \
    return this->sample_at(s, this->toward(coord, cube, wanted > low.low ? wanted : low.low))part;          \
  }
#define MSL_GATHER_CUBE(cube, ...)                                                                          \
  MSL_INLINE MSL_COLORS gather(sampler s, float3 coord __VA_ARGS__, component from = component::x) const {  \
    return this->gather_at(s, this->toward(coord, cube, 0.0f), from);                                       \
  }
#define MSL_COMPARE_CUBE(cube, ...)                                                                         \
  MSL_INLINE T sample_compare(sampler s, float3 coord __VA_ARGS__, float reference) const {                 \
    return this->compare_at(s, this->toward(coord, cube, 0.0f), reference);                                 \
  }                                                                                                         \
  template <class L, class = msl::if_lod<L>>                                                                \
  MSL_INLINE T sample_compare(sampler s, float3 coord __VA_ARGS__, float reference, L lod) const {          \
    return this->compare_at(s, this->toward(coord, cube, msl::lod_of(*this->msl, lod)), reference);         \
  }                                                                                                         \
  MSL_INLINE MSL_COLORS gather(sampler s, float3 coord __VA_ARGS__) const {                                 \
    return this->gather_at(s, this->toward(coord, cube, 0.0f), component::x);                               \
  }                                                                                                         \
  MSL_INLINE MSL_COLORS gather_compare(sampler s, float3 coord __VA_ARGS__, float reference) const {        \
    return this->gather_at(s, this->toward(coord, cube, 0.0f), component::x, &reference);                   \
  }
#define MSL_CUBES MSL_INLINE uint get_array_size() const { return this->msl->slices / 6; }
MSL_TEXTURE(texturecube, type_cube, 2, false) {
  MSL_ATOMICS(face, uint2 coord, uint face)
  MSL_READ_WRITE_CUBE(uint2, MSL_COLORS, MSL_COLORS, , 0)
  MSL_READ_WRITE_CUBE(ushort2, MSL_COLORS, MSL_COLORS, , 0)
  MSL_SAMPLE_CUBE(MSL_COLORS, , 0)
  MSL_GATHER_CUBE(0)
  MSL_HEIGHT
};
MSL_TEXTURE(texturecube_array, type_cube_array, 2, true) {
  MSL_ATOMICS(6 * array + face, uint2 coord, uint face, uint array)
  MSL_READ_WRITE_CUBE(uint2, MSL_COLORS, MSL_COLORS, , array, , uint array)
  MSL_READ_WRITE_CUBE(ushort2, MSL_COLORS, MSL_COLORS, , array, , uint array)
  MSL_SAMPLE_CUBE(MSL_COLORS, , array, , uint array)
  MSL_GATHER_CUBE(array, , uint array)
  MSL_HEIGHT
  MSL_CUBES
};
MSL_TEXTURE(depthcube, type_cube, 2, false) {
  MSL_READ_WRITE_CUBE(uint2, T, T, .x, 0)
  MSL_READ_WRITE_CUBE(ushort2, T, T, .x, 0)
  MSL_SAMPLE_CUBE(T, .x, 0)
  MSL_COMPARE_CUBE(0)
  MSL_HEIGHT
};
MSL_TEXTURE(depthcube_array, type_cube_array, 2, true) {
  MSL_READ_WRITE_CUBE(uint2, T, T, .x, array, , uint array)
  MSL_READ_WRITE_CUBE(ushort2, T, T, .x, array, , uint array)
  MSL_SAMPLE_CUBE(T, .x, array, , uint array)
  MSL_COMPARE_CUBE(array, , uint array)
  MSL_HEIGHT
  MSL_CUBES
};
/* Samples lie as slices. Only rendering fills them, so that what a kernel reads is zero. */
template <class T, access mode = access::read>
struct texture2d_ms : msl::texture_base<T, mode, msl::type_2d_multisample, 2, false> {
  MSL_INLINE MSL_COLORS read(uint2 coord, uint sample) const { return this->read_at(coord, sample, 0); }
  MSL_INLINE MSL_COLORS read(ushort2 coord, uint sample) const { return this->read_at(coord, sample, 0); }
  MSL_INLINE uint get_height() const { return this->msl->height; }
  MSL_INLINE uint get_num_samples() const { return this->msl->slices; }
};
template <class T, access mode = access::read>
struct depth2d_ms : msl::texture_base<T, mode, msl::type_2d_multisample, 2, false> {
  MSL_INLINE T read(uint2 coord, uint sample) const { return this->read_at(coord, sample, 0).x; }
  MSL_INLINE T read(ushort2 coord, uint sample) const { return this->read_at(coord, sample, 0).x; }
  MSL_INLINE uint get_height() const { return this->msl->height; }
  MSL_INLINE uint get_num_samples() const { return this->msl->slices; }
};
#undef MSL_TEXTURE
#undef MSL_READ_WRITE_CUBE
#undef MSL_SAMPLE_CUBE
#undef MSL_GATHER_CUBE
#undef MSL_COMPARE_CUBE
#undef MSL_CUBES
#undef MSL_READ_WRITE
#undef MSL_READ_WRITE_ARRAY
#undef MSL_ATOMIC
#undef MSL_ATOMICS
#undef MSL_SAMPLE
#undef MSL_SAMPLE_ARRAY
#undef MSL_HEIGHT
#undef MSL_ARRAY
#undef MSL_COLORS

/* Those that are not there: an error where one is used. */
#define MSL_NO_TEXTURE(name, what)                                                                          \
  template <class T, access mode = access::sample> struct name {                                            \
    static constexpr bool msl_is_refused = true;                                                            \
    static_assert(sizeof(T) == 0, what " textures are not supported on the CPU");                           \
  };
MSL_NO_TEXTURE(texture2d_ms_array, "arrays of multisample")
MSL_NO_TEXTURE(depth2d_ms_array, "arrays of multisample")
#undef MSL_NO_TEXTURE

template <class T, access mode, uint type, int dimensions, bool is_array>
MSL_INLINE bool is_null_texture(const msl::texture_base<T, mode, type, dimensions, is_array> &texture) {
  return !texture.msl || !texture.msl->texels;
}

}

namespace msl {

template <class V> struct resource<V, metal::enable_if_t<(texture_count((const V *)nullptr) > 0)>> {
  static constexpr binding_kind kind = texture;
  static constexpr uint count = 1, type = V::msl_type, value = V::msl_value;
  static constexpr bool is_read = V::msl_reads, is_written = V::msl_writes;
  static MSL_INLINE V make(const msl_texture *textures, const msl_sampler *, uint index) {
    V result;
    result.msl = textures ? textures + index : nullptr;
    return result;
  }
};
/* Its type is an error already. */
template <class V> struct resource<V, metal::enable_if_t<V::msl_is_refused>> {
  static constexpr binding_kind kind = texture;
  static constexpr uint count = 1, type = 0, value = 0;
  static constexpr bool is_read = false, is_written = false;
  static MSL_INLINE V make(const msl_texture *, const msl_sampler *, uint) { return V(); }
};
template <> struct resource<metal::sampler> {
  static constexpr binding_kind kind = sampler;
  static constexpr uint count = 1, type = 0, value = 0;
  static constexpr bool is_read = true, is_written = false;
  static MSL_INLINE metal::sampler make(const msl_texture *, const msl_sampler *samplers, uint index) {
    return samplers ? metal::sampler(samplers[index]) : metal::sampler();
  }
};
template <class V, ulong n> struct resource<metal::array<V, n>, metal::enable_if_t<(resource<V>::count > 0)>> {
  using each = resource<V>;
  static constexpr binding_kind kind = each::kind;
  static constexpr uint count = n, type = each::type, value = each::value;
  static constexpr bool is_read = each::is_read, is_written = each::is_written;
  static MSL_INLINE metal::array<V, n> make(const msl_texture *textures, const msl_sampler *samplers, uint index) {
    metal::array<V, n> all;
    for (uint i = 0; i < n; i++) all[i] = each::make(textures, samplers, index + i);
    return all;
  }
};

}

#endif
