/* Vectors of two, three and four components (specification 3.1, section 2.2). clang's ext_vector_type has neither MSL's
 * constructors nor its strictness about conversions, hence a class; the swizzles are properties (-fdeclspec). */
#ifndef MSL_VECTOR_H
#define MSL_VECTOR_H

#include "traits.h"

namespace metal {
template <class T, int N> struct vec;
template <class T, int N> struct packed_vec;
}

namespace msl {
/* How many components a constructor's argument brings, and of which type they are. */
template <class T> struct shape { using element = T; static constexpr int size = metal::is_arithmetic_v<T> ? 1 : 0; };
template <class T, int N> struct shape<metal::vec<T, N>> { using element = T; static constexpr int size = N; };
template <class T, int N> struct shape<metal::packed_vec<T, N>> { using element = T; static constexpr int size = N; };
template <class T> constexpr int size_of = shape<metal::remove_cvref_t<T>>::size;
template <class T> constexpr bool is_scalar = metal::is_arithmetic_v<metal::remove_cvref_t<T>>;
template <class T> using if_scalar = metal::enable_if_t<is_scalar<T>, int>;
/* A number in a list of braces whose numbers differ in type. */
template <class T> struct item {
  T value;
  template <class A, if_scalar<A> = 0> MSL_INLINE constexpr item(const A &a) : value((T)a) {}
  MSL_INLINE constexpr operator T() const { return value; }
};
/* A call of it that the compiler cannot prove dead is an error. That is found when a kernel is compiled; where all
 * numbers are constants, MSL_COUNTED finds it before. */
#define MSL_TOO_MANY "more numbers in braces than the vector has components"
void too_many_numbers() __attribute__((error(MSL_TOO_MANY)));
#define MSL_COUNTED(n) __attribute__((diagnose_if(list.size() > n, MSL_TOO_MANY, "error")))

template <class T> MSL_INLINE constexpr auto component(const T &value, int i) {
  if constexpr (is_scalar<T>) return value;
  else return value.at(i);
}
}

namespace metal {

#define MSL_SWIZZLE(n, position, color, ...)                                                          \
  __declspec(property(get = get_##position, put = put_##position)) vec<T, n> position;                \
  __declspec(property(get = get_##position, put = put_##position)) vec<T, n> color;                   \
  MSL_INLINE constexpr vec<T, n> get_##position() const { return vec<T, n>(__VA_ARGS__); }            \
  MSL_INLINE vec<T, n> put_##position(vec<T, n> v) { v.scatter(__VA_ARGS__); return v; }
#define MSL_SWIZZLE2(a, ca, b, cb) MSL_SWIZZLE(2, a##b, ca##cb, a, b)
#define MSL_SWIZZLE3(a, ca, b, cb, c, cc) MSL_SWIZZLE(3, a##b##c, ca##cb##cc, a, b, c)
#define MSL_SWIZZLE4(a, ca, b, cb, c, cc, d, cd) MSL_SWIZZLE(4, a##b##c##d, ca##cb##cc##cd, a, b, c, d)

/* Every sequence of two, three or four components of a vector: MSL_EACHn calls M once for each of the n names. */
#define MSL_EACH2(M, ...) M(__VA_ARGS__, x, r) M(__VA_ARGS__, y, g)
#define MSL_EACH3(M, ...) MSL_EACH2(M, __VA_ARGS__) M(__VA_ARGS__, z, b)
#define MSL_EACH4(M, ...) MSL_EACH3(M, __VA_ARGS__) M(__VA_ARGS__, w, a)
#define MSL_PAIRS(E, a, ca) E(MSL_SWIZZLE2, a, ca)
#define MSL_TRIPLES2(a, ca, b, cb) MSL_EACH2(MSL_SWIZZLE3, a, ca, b, cb)
#define MSL_TRIPLES3(a, ca, b, cb) MSL_EACH3(MSL_SWIZZLE3, a, ca, b, cb)
#define MSL_TRIPLES4(a, ca, b, cb) MSL_EACH4(MSL_SWIZZLE3, a, ca, b, cb)
#define MSL_QUADS2(a, ca, b, cb)                                                                      \
  MSL_SWIZZLE4(a, ca, b, cb, x, r, x, r) MSL_SWIZZLE4(a, ca, b, cb, x, r, y, g)                       \
  MSL_SWIZZLE4(a, ca, b, cb, y, g, x, r) MSL_SWIZZLE4(a, ca, b, cb, y, g, y, g)
#define MSL_QUADS3(a, ca, b, cb)                                                                      \
  MSL_QUADS2(a, ca, b, cb)                                                                            \
  MSL_SWIZZLE4(a, ca, b, cb, x, r, z, b) MSL_SWIZZLE4(a, ca, b, cb, y, g, z, b)                       \
  MSL_SWIZZLE4(a, ca, b, cb, z, b, x, r) MSL_SWIZZLE4(a, ca, b, cb, z, b, y, g)                       \
  MSL_SWIZZLE4(a, ca, b, cb, z, b, z, b)
#define MSL_QUADS4(a, ca, b, cb)                                                                      \
  MSL_QUADS3(a, ca, b, cb)                                                                            \
  MSL_SWIZZLE4(a, ca, b, cb, x, r, w, a) MSL_SWIZZLE4(a, ca, b, cb, y, g, w, a)                       \
  MSL_SWIZZLE4(a, ca, b, cb, z, b, w, a) MSL_SWIZZLE4(a, ca, b, cb, w, a, x, r)                       \
  MSL_SWIZZLE4(a, ca, b, cb, w, a, y, g) MSL_SWIZZLE4(a, ca, b, cb, w, a, z, b)                       \
  MSL_SWIZZLE4(a, ca, b, cb, w, a, w, a)
#define MSL_ALL2(P, ...) P(x, r, x, r) P(x, r, y, g) P(y, g, x, r) P(y, g, y, g)
#define MSL_ALL3(P, ...) MSL_ALL2(P) P(x, r, z, b) P(y, g, z, b) P(z, b, x, r) P(z, b, y, g) P(z, b, z, b)
#define MSL_ALL4(P, ...)                                                                              \
  MSL_ALL3(P) P(x, r, w, a) P(y, g, w, a) P(z, b, w, a) P(w, a, x, r) P(w, a, y, g) P(w, a, z, b) P(w, a, w, a)

#define MSL_COLOR(position, color)                                                                    \
  __declspec(property(get = get_##position, put = put_##position)) T color;                           \
  MSL_INLINE constexpr T get_##position() const { return position; }                                  \
  MSL_INLINE T put_##position(T value) { return position = value; }

/* From numbers in braces, and zeroes for those that are missing. */
#define MSL_LISTS(type, n)                                                                            \
  template <class U, msl::if_scalar<U> = 0>                                                           \
  MSL_INLINE constexpr type(initializer_list<U> list) MSL_COUNTED(n) : type((T)0) { MSL_TAKE_LIST(n) } \
  MSL_INLINE constexpr type(initializer_list<msl::item<T>> list) MSL_COUNTED(n) : type((T)0) {        \
    MSL_TAKE_LIST(n)                                                                                  \
  }
#define MSL_TAKE_LIST(n)                                                                              \
  if (list.size() > n) msl::too_many_numbers();                                                       \
  _Pragma("unroll") for (int i = 0; i < n; i++)                                                       \
    if ((size_t)i < list.size()) set(i, (T)list.begin()[i]);

/* One component from a scalar, from the same count of another type, or from any mixture that adds up. */
#define MSL_CONSTRUCTORS(n)                                                                           \
  vec() = default;                                                                                    \
  template <class A, msl::if_scalar<A> = 0> MSL_INLINE constexpr vec(A a) : vec(every(), (T)a) {}     \
  template <class U, enable_if_t<!is_same_v<U, T>, int> = 0>                                          \
  MSL_INLINE explicit constexpr vec(const vec<U, n> &v) : vec(each(), v) {}                           \
  template <class A, class B, class... C,                                                             \
            enable_if_t<msl::size_of<A> + msl::size_of<B> + (msl::size_of<C> + ... + 0) == n, int> = 0> \
  MSL_INLINE constexpr vec(const A &a, const B &b, const C &...c) : vec() {                           \
    int i = 0;                                                                                        \
    append(i, a), append(i, b), (append(i, c), ...);                                                  \
  }                                                                                                   \
  MSL_LISTS(vec, n)                                                                                   \
  template <class A> MSL_INLINE constexpr void append(int &i, const A &a) {                           \
    for (int j = 0; j < msl::size_of<A>; j++) set(i++, (T)msl::component(a, j));                      \
  }                                                                                                   \
  /* Templates, so that vectors stay trivial to copy. */                                              \
  template <class V, enable_if_t<is_same_v<V, vec>, int> = 0>                                         \
  MSL_INLINE vec(const volatile V &v) {                                                               \
    for (int i = 0; i < n; i++) (&x)[i] = (&v.x)[i];                                                  \
  }                                                                                                   \
  template <class V, enable_if_t<is_same_v<remove_cv_t<V>, vec>, int> = 0>                            \
  MSL_INLINE void operator=(const V &v) volatile {                                                    \
    for (int i = 0; i < n; i++) (&x)[i] = (&v.x)[i];                                                  \
  }                                                                                                   \
  MSL_INLINE T &operator[](size_t i) { return (&x)[i]; }                                              \
  MSL_INLINE const T &operator[](size_t i) const { return (&x)[i]; }                                  \
  struct every {};                                                                                    \
  struct each {};

template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
  T x, y;
  MSL_CONSTRUCTORS(2)
  MSL_INLINE constexpr vec(every, T v) : x(v), y(v) {}
  template <class U> MSL_INLINE constexpr vec(each, const vec<U, 2> &v) : x((T)v.x), y((T)v.y) {}
  MSL_INLINE constexpr void set(int i, T v) { (i == 0 ? x : y) = v; }
  MSL_INLINE constexpr T at(int i) const { return i == 0 ? x : y; }
  MSL_INLINE void scatter(T &a, T &b) const { a = x, b = y; }
  MSL_COLOR(x, r) MSL_COLOR(y, g)
  MSL_ALL2(MSL_SWIZZLE2) MSL_ALL2(MSL_TRIPLES2) MSL_ALL2(MSL_QUADS2)
};

template <class T> struct alignas(4 * sizeof(T)) vec<T, 3> {
  T x, y, z;
  MSL_CONSTRUCTORS(3)
  MSL_INLINE constexpr vec(every, T v) : x(v), y(v), z(v) {}
  template <class U> MSL_INLINE constexpr vec(each, const vec<U, 3> &v) : x((T)v.x), y((T)v.y), z((T)v.z) {}
  MSL_INLINE constexpr void set(int i, T v) { (i == 0 ? x : i == 1 ? y : z) = v; }
  MSL_INLINE constexpr T at(int i) const { return i == 0 ? x : i == 1 ? y : z; }
  MSL_INLINE void scatter(T &a, T &b, T &c) const { a = x, b = y, c = z; }
  MSL_COLOR(x, r) MSL_COLOR(y, g) MSL_COLOR(z, b)
  MSL_ALL3(MSL_SWIZZLE2) MSL_ALL3(MSL_TRIPLES3) MSL_ALL3(MSL_QUADS3)
};

template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
  T x, y, z, w;
  MSL_CONSTRUCTORS(4)
  MSL_INLINE constexpr vec(every, T v) : x(v), y(v), z(v), w(v) {}
  template <class U>
  MSL_INLINE constexpr vec(each, const vec<U, 4> &v) : x((T)v.x), y((T)v.y), z((T)v.z), w((T)v.w) {}
  MSL_INLINE constexpr void set(int i, T v) { (i == 0 ? x : i == 1 ? y : i == 2 ? z : w) = v; }
  MSL_INLINE constexpr T at(int i) const { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
  MSL_INLINE void scatter(T &a, T &b, T &c, T &d) const { a = x, b = y, c = z, d = w; }
  MSL_COLOR(x, r) MSL_COLOR(y, g) MSL_COLOR(z, b) MSL_COLOR(w, a)
  MSL_ALL4(MSL_SWIZZLE2) MSL_ALL4(MSL_TRIPLES4) MSL_ALL4(MSL_QUADS4)
};

template <class T> struct vec_elements : integral_constant<int, msl::size_of<T>> {};
template <class T> constexpr bool is_vector_v = (msl::size_of<T> > 1);
template <class T> struct is_vector : bool_constant<is_vector_v<T>> {};
template <class T> struct is_scalar : bool_constant<msl::is_scalar<T>> {};
template <class T> constexpr bool is_scalar_v = msl::is_scalar<T>;

/* Builds a vector from an expression in `i`. */
#define MSL_COMPONENTS(T, N, expression)                    \
  vec<T, N> result;                                         \
  _Pragma("unroll") for (int i = 0; i < N; i++) result[i] = (T)(expression); \
  return result;

/* The same where the compiler evaluates it, so that what is made of constants is one and needs no code at load time. */
#define MSL_KNOWN(T, N, expression)                                               \
  if (__builtin_is_constant_evaluated()) {                                        \
    vec<T, N> known((T)0);                                                        \
    for (int i = 0; i < N; i++) known.set(i, (T)(expression));                    \
    return known;                                                                 \
  }

/* A packed vector's operand is one of the unpacked kind; a scalar is converted to the vector's component type. */
#define MSL_VECTOR_OPERATOR(op, R)                                                                    \
  template <class T, int N> MSL_INLINE constexpr vec<R, N> operator op(vec<T, N> a, vec<T, N> b) {    \
    MSL_KNOWN(R, N, a.at(i) op b.at(i))                                                               \
    MSL_COMPONENTS(R, N, a[i] op b[i])                                                                \
  }                                                                                                   \
  template <class T, int N, class U, msl::if_scalar<U> = 0>                                           \
  MSL_INLINE constexpr vec<R, N> operator op(vec<T, N> a, U b) {                                      \
    MSL_KNOWN(R, N, a.at(i) op(T) b)                                                                  \
    MSL_COMPONENTS(R, N, a[i] op(T) b)                                                                \
  }                                                                                                   \
  template <class T, int N, class U, msl::if_scalar<U> = 0>                                           \
  MSL_INLINE constexpr vec<R, N> operator op(U a, vec<T, N> b) {                                      \
    MSL_KNOWN(R, N, (T)a op b.at(i))                                                                  \
    MSL_COMPONENTS(R, N, (T)a op b[i])                                                                \
  }                                                                                                   \
  template <class T, int N> MSL_INLINE vec<R, N> operator op(packed_vec<T, N> a, packed_vec<T, N> b) { \
    return vec<T, N>(a) op vec<T, N>(b);                                                              \
  }                                                                                                   \
  template <class T, int N> MSL_INLINE vec<R, N> operator op(packed_vec<T, N> a, vec<T, N> b) {       \
    return vec<T, N>(a) op b;                                                                         \
  }                                                                                                   \
  template <class T, int N> MSL_INLINE vec<R, N> operator op(vec<T, N> a, packed_vec<T, N> b) {       \
    return a op vec<T, N>(b);                                                                         \
  }                                                                                                   \
  template <class T, int N, class U, msl::if_scalar<U> = 0>                                           \
  MSL_INLINE vec<R, N> operator op(packed_vec<T, N> a, U b) {                                         \
    return vec<T, N>(a) op b;                                                                         \
  }                                                                                                   \
  template <class T, int N, class U, msl::if_scalar<U> = 0>                                           \
  MSL_INLINE vec<R, N> operator op(U a, packed_vec<T, N> b) {                                         \
    return a op vec<T, N>(b);                                                                         \
  }
/* Shifts, whose operands may differ in their signs. */
#define MSL_VECTOR_SHIFT(op)                                                                          \
  template <class T, class U, int N, enable_if_t<!is_same_v<T, U>, int> = 0>                          \
  MSL_INLINE constexpr vec<T, N> operator op(vec<T, N> a, vec<U, N> b) {                              \
    MSL_KNOWN(T, N, a.at(i) op b.at(i))                                                               \
    MSL_COMPONENTS(T, N, a[i] op b[i])                                                                \
  }
#define MSL_VECTOR_ARITHMETIC(op)                                                                     \
  MSL_VECTOR_OPERATOR(op, T)                                                                          \
  template <class T, int N, class B> MSL_INLINE vec<T, N> &operator op##=(vec<T, N> &a, B b) {        \
    return a = a op b;                                                                                \
  }                                                                                                   \
  template <class T, int N, class B> MSL_INLINE packed_vec<T, N> &operator op##=(packed_vec<T, N> &a, B b) { \
    return a = a op b;                                                                                \
  }
MSL_VECTOR_ARITHMETIC(+)
MSL_VECTOR_ARITHMETIC(-)
MSL_VECTOR_ARITHMETIC(*)
MSL_VECTOR_ARITHMETIC(/)
MSL_VECTOR_ARITHMETIC(%)
MSL_VECTOR_ARITHMETIC(&)
MSL_VECTOR_ARITHMETIC(|)
MSL_VECTOR_ARITHMETIC(^)
MSL_VECTOR_ARITHMETIC(<<)
MSL_VECTOR_ARITHMETIC(>>)
MSL_VECTOR_SHIFT(<<)
MSL_VECTOR_SHIFT(>>)
MSL_VECTOR_OPERATOR(<, bool)
MSL_VECTOR_OPERATOR(>, bool)
MSL_VECTOR_OPERATOR(<=, bool)
MSL_VECTOR_OPERATOR(>=, bool)
MSL_VECTOR_OPERATOR(==, bool)
MSL_VECTOR_OPERATOR(!=, bool)
MSL_VECTOR_OPERATOR(&&, bool)
MSL_VECTOR_OPERATOR(||, bool)
template <class T, int N> MSL_INLINE vec<T, N> operator+(vec<T, N> a) { return a; }
template <class T, int N> MSL_INLINE constexpr vec<T, N> operator-(vec<T, N> a) {
  MSL_KNOWN(T, N, -a.at(i))
  MSL_COMPONENTS(T, N, -a[i])
}
template <class T, int N> MSL_INLINE vec<T, N> operator~(vec<T, N> a) { MSL_COMPONENTS(T, N, ~a[i]) }
template <class T, int N> MSL_INLINE vec<bool, N> operator!(vec<T, N> a) { MSL_COMPONENTS(bool, N, !a[i]) }
template <class T, int N> MSL_INLINE vec<T, N> &operator++(vec<T, N> &a) { return a += (T)1; }
template <class T, int N> MSL_INLINE vec<T, N> &operator--(vec<T, N> &a) { return a -= (T)1; }

MSL_INLINE constexpr bool any(bool a) { return a; }
MSL_INLINE constexpr bool all(bool a) { return a; }
template <int N> MSL_INLINE bool any(vec<bool, N> a) {
  bool result = false;
  for (int i = 0; i < N; i++) result |= a[i];
  return result;
}
template <int N> MSL_INLINE bool all(vec<bool, N> a) {
  bool result = true;
  for (int i = 0; i < N; i++) result &= a[i];
  return result;
}

/* Components without padding and with a scalar's alignment (section 2.2.3). */
template <class T, int N> struct packed_vec {
  T e[N];
  packed_vec() = default;
  MSL_INLINE packed_vec(vec<T, N> v) {
    for (int i = 0; i < N; i++) e[i] = v[i];
  }
  template <class A, msl::if_scalar<A> = 0> MSL_INLINE constexpr packed_vec(A a) : e() {
    for (int i = 0; i < N; i++) e[i] = (T)a;
  }
  MSL_LISTS(packed_vec, N)
  MSL_INLINE constexpr void set(int i, T v) { e[i] = v; }
  template <class A, class B, class... C,
            enable_if_t<msl::size_of<A> + msl::size_of<B> + (msl::size_of<C> + ... + 0) == N, int> = 0>
  MSL_INLINE packed_vec(const A &a, const B &b, const C &...c) : packed_vec(vec<T, N>(a, b, c...)) {}
  template <class U, enable_if_t<!is_same_v<U, T>, int> = 0>
  MSL_INLINE explicit packed_vec(const vec<U, N> &v) : packed_vec(vec<T, N>(v)) {}
  template <class U, enable_if_t<!is_same_v<U, T>, int> = 0>
  MSL_INLINE explicit packed_vec(const packed_vec<U, N> &v) : packed_vec(vec<T, N>(vec<U, N>(v))) {}
  MSL_INLINE operator vec<T, N>() const { MSL_COMPONENTS(T, N, e[i]) }
  template <class U, enable_if_t<!is_same_v<U, T>, int> = 0> MSL_INLINE explicit operator vec<U, N>() const {
    MSL_COMPONENTS(U, N, e[i])
  }
  MSL_INLINE T &operator[](size_t i) { return e[i]; }
  MSL_INLINE const T &operator[](size_t i) const { return e[i]; }
  MSL_INLINE constexpr T at(int i) const { return e[i]; }
#define MSL_PACKED_COMPONENT(n, i)                                    \
  __declspec(property(get = get_##n, put = put_##n)) T n;             \
  MSL_INLINE T get_##n() const {                                      \
    static_assert(i < N, "this vector has no component " #n);         \
    return e[i];                                                      \
  }                                                                   \
  MSL_INLINE T put_##n(T v) {                                         \
    static_assert(i < N, "this vector has no component " #n);         \
    return e[i] = v;                                                  \
  }
  MSL_PACKED_COMPONENT(x, 0)
  MSL_PACKED_COMPONENT(y, 1)
  MSL_PACKED_COMPONENT(z, 2)
  MSL_PACKED_COMPONENT(w, 3)
#undef MSL_PACKED_COMPONENT
#define MSL_PACKED_SWIZZLE(n, name, last, ...)                         \
  __declspec(property(get = get_##name)) vec<T, n> name;              \
  MSL_INLINE vec<T, n> get_##name() const {                           \
    static_assert(last < N, "this vector has no components " #name);  \
    return vec<T, n>(__VA_ARGS__);                                    \
  }
  MSL_PACKED_SWIZZLE(2, xy, 1, e[0], e[1])
  MSL_PACKED_SWIZZLE(2, yz, 2, e[1], e[2])
  MSL_PACKED_SWIZZLE(2, zw, 3, e[2], e[3])
  MSL_PACKED_SWIZZLE(3, xyz, 2, e[0], e[1], e[2])
  MSL_PACKED_SWIZZLE(3, yzw, 3, e[1], e[2], e[3])
  MSL_PACKED_SWIZZLE(4, xyzw, 3, e[0], e[1], e[2], e[3])
#undef MSL_PACKED_SWIZZLE
};
template <class T, int N> MSL_INLINE vec<T, N> operator-(packed_vec<T, N> a) { return -vec<T, N>(a); }

template <class T, size_t N> struct array {
  T elements[N];
  MSL_INLINE constexpr T &operator[](size_t i) { return elements[i]; }
  MSL_INLINE constexpr const T &operator[](size_t i) const { return elements[i]; }
  MSL_INLINE constexpr T *begin() { return elements; }
  MSL_INLINE constexpr T *end() { return elements + N; }
  MSL_INLINE constexpr const T *begin() const { return elements; }
  MSL_INLINE constexpr const T *end() const { return elements + N; }
  MSL_INLINE constexpr T *data() { return elements; }
  MSL_INLINE constexpr const T *data() const { return elements; }
  static constexpr size_t size() { return N; }
};

}

#define MSL_VECTOR_NAMES(T)                                                                                       \
  typedef metal::vec<T, 2> T##2; typedef metal::vec<T, 3> T##3; typedef metal::vec<T, 4> T##4;                    \
  typedef metal::packed_vec<T, 2> packed_##T##2; typedef metal::packed_vec<T, 3> packed_##T##3;                   \
  typedef metal::packed_vec<T, 4> packed_##T##4;                                                                  \
  namespace metal {                                                                                               \
  using ::T##2; using ::T##3; using ::T##4; using ::packed_##T##2; using ::packed_##T##3; using ::packed_##T##4;  \
  }
MSL_VECTOR_NAMES(bool)
MSL_VECTOR_NAMES(char)
MSL_VECTOR_NAMES(uchar)
MSL_VECTOR_NAMES(short)
MSL_VECTOR_NAMES(ushort)
MSL_VECTOR_NAMES(int)
MSL_VECTOR_NAMES(uint)
MSL_VECTOR_NAMES(long)
MSL_VECTOR_NAMES(ulong)
MSL_VECTOR_NAMES(half)
MSL_VECTOR_NAMES(bfloat)
MSL_VECTOR_NAMES(float)
#undef MSL_VECTOR_NAMES

/* The same bits as another type of the same size (section 2.17). */
template <class U, class T> MSL_INLINE U as_type(T value) {
  static_assert(sizeof(U) == sizeof(T), "as_type needs two types of the same size");
  U result;
  __builtin_memcpy(&result, &value, sizeof result);
  return result;
}
namespace metal {
using ::as_type;
}

#endif
