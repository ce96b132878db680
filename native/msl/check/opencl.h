/* The Metal standard library as C++ for OpenCL sees it: declarations only, for a pass that looks at address spaces and
 * nothing else. There device, threadgroup, constant and thread memory are types of their own, as in Metal, and with the
 * generic address space switched off a mix-up is an error, where the compiler for the CPU sees one kind of pointer.
 *
 * A class value cannot cross address spaces here, so bfloat and simdgroup matrices are stood in for by vectors. */
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

typedef short bfloat;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef uchar packed_uchar4 __attribute__((ext_vector_type(4)));
typedef ushort packed_ushort4 __attribute__((ext_vector_type(4)));
typedef half packed_half4 __attribute__((ext_vector_type(4)));
typedef float packed_float4 __attribute__((ext_vector_type(4)));

#define MSL_MAKE(T)                         \
  template <class... A> T##2 make_##T##2(A...); \
  template <class... A> T##3 make_##T##3(A...); \
  template <class... A> T##4 make_##T##4(A...);
MSL_MAKE(char) MSL_MAKE(uchar) MSL_MAKE(short) MSL_MAKE(ushort) MSL_MAKE(int) MSL_MAKE(uint)
MSL_MAKE(long) MSL_MAKE(ulong)
MSL_MAKE(half) MSL_MAKE(float)

template <class U, class T> U as_type(T);

namespace msl {
template <class T> struct only_by_value { enum { value = 0 }; };
}

namespace metal {

template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));
template <class A, class B> constexpr bool is_same_v = __is_same(A, B);
template <bool, class A, class B> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <bool b, class A, class B> using conditional_t = typename conditional<b, A, B>::type;

int integer_dot4(uint a, uint b, int c);
void async_copy(__local uint4 *to, __global const uint4 *from);
void async_copy_streamed(__local uint4 *to, __global const uint4 *from);
void async_copy_close();
template <uint count> void async_copy_wait();
void allow_successor();
void wait_for_predecessor();
void read_ahead(__global const void *from);

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);

#define MSL_UNARY(name) template <class T> T name(T);
MSL_UNARY(simd_sum) MSL_UNARY(simd_max) MSL_UNARY(simd_min) MSL_UNARY(simd_product)
MSL_UNARY(simd_prefix_inclusive_sum) MSL_UNARY(simd_prefix_exclusive_sum) MSL_UNARY(simd_broadcast_first)
#define MSL_SHUFFLE(name) template <class T> T name(T, ushort);
MSL_SHUFFLE(simd_shuffle) MSL_SHUFFLE(simd_shuffle_xor) MSL_SHUFFLE(simd_shuffle_down) MSL_SHUFFLE(simd_shuffle_up)
MSL_SHUFFLE(simd_broadcast)
bool simd_any(bool);
bool simd_all(bool);

namespace precise {
template <class T> T divide(T, T);
using ::exp; using ::exp2; using ::log; using ::sqrt; using ::rsqrt;
using ::sin; using ::cos; using ::tanh; using ::pow;
}
namespace fast {
template <class T> T divide(T, T);
using ::exp; using ::exp2; using ::log; using ::sqrt; using ::rsqrt;
using ::sin; using ::cos; using ::tanh; using ::pow;
}

template <class T> struct matrix_storage;
template <> struct matrix_storage<float> { typedef float type __attribute__((ext_vector_type(16))); };
template <> struct matrix_storage<half> { typedef half type __attribute__((ext_vector_type(16))); };
template <class T, int C, int R> using simdgroup_matrix = typename matrix_storage<T>::type;
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
template <class T, int C, int R = C> simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T);
#define MSL_MATRIX(M, T, space)                                                                         \
  void simdgroup_load(__private M &, const space T *, ulong = 8, ulong2 = 0, bool = false);             \
  void simdgroup_store(M, space T *, ulong = 8, ulong2 = 0, bool = false);
MSL_MATRIX(simdgroup_float8x8, float, __global)
MSL_MATRIX(simdgroup_float8x8, float, __local)
MSL_MATRIX(simdgroup_half8x8, half, __global)
MSL_MATRIX(simdgroup_half8x8, half, __local)
void quad_load_left(__private simdgroup_half8x8 *, __local const half *, uint);
void quad_load_right(__private simdgroup_half8x8 *, __local const half *, uint);
void quad_multiply_accumulate(__private simdgroup_float8x8 *, __private const simdgroup_half8x8 *,
                              __private const simdgroup_half8x8 *);
void quad_load_right(__private simdgroup_float8x8 *, __local const float *, uint);
void quad_load_right_rows(__private simdgroup_float8x8 *, __local const float *, uint);
void quad_multiply_accumulate(__private simdgroup_float8x8 *, __private const simdgroup_float8x8 *,
                              __private const simdgroup_float8x8 *);
void quad_load_right_rows(__private simdgroup_half8x8 *, __local const half *, uint);
simdgroup_float8x8 quad_matrix(float2);
simdgroup_half8x8 quad_halves(half2);
ushort quad_lane(uint);
uint2 quad_place(uint);
float2 quad_elements(simdgroup_float8x8);
template <class A, class B> void simdgroup_multiply_accumulate(__private simdgroup_float8x8 &, A, B,
                                                               simdgroup_float8x8);

}
