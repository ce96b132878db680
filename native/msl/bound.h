/* What a kernel's parameters are bound to, as the rewriter states it in the attributes' own words. Their types are left
 * to C++: each target's entry.h makes a function of them. */
#ifndef MSL_BOUND_H
#define MSL_BOUND_H

#include "vector.h"

namespace msl {

enum binding_kind {
  buffer,
  threadgroup,
  texture,
  sampler,
  thread_position_in_grid,
  threads_per_grid,
  threadgroup_position_in_grid,
  threadgroups_per_grid,
  thread_position_in_threadgroup,
  threads_per_threadgroup,
  dispatch_threads_per_threadgroup,
  thread_index_in_threadgroup,
  thread_index_in_simdgroup,
  threads_per_simdgroup,
  thread_execution_width,
  simdgroup_index_in_threadgroup,
  simdgroups_per_threadgroup,
  dispatch_simdgroups_per_threadgroup,
  thread_index_in_quadgroup,
  quadgroup_index_in_threadgroup,
  quadgroups_per_threadgroup,
  grid_origin,
  grid_size,
};

constexpr int next_free = -1; /* a buffer or texture without an index takes the lowest that no other has */

/* What a parameter is bound to; `given` is false when its function constant says that the argument does not exist. */
template <binding_kind kind_, int index_ = 0, bool given_ = true> struct bound {
  static constexpr binding_kind kind = kind_;
  static constexpr int index = index_;
  static constexpr bool given = given_;
};

/* What a type that is a texture, a sampler or an array of them is bound to; `count` of any other is 0. */
template <class V, class = void> struct resource { static constexpr unsigned count = 0; };

/* The binding of a parameter of type P: one without an attribute is of the kind that its type says. */
template <class P, class Bound> struct resolve {
  using type = Bound;
  static_assert(Bound::kind != texture && Bound::kind != sampler,
                "an argument with [[texture(n)]] or [[sampler(n)]] is a texture, a sampler or an array of them");
};
template <class P, class Bound, bool is_resource> struct resolve_if { using type = typename resolve<P, Bound>::type; };
template <class P, class Bound> struct resolve_if<P, Bound, true> {
  static constexpr binding_kind kind = resource<metal::remove_cvref_t<P>>::kind;
  static_assert(Bound::kind == kind || (Bound::kind == buffer && Bound::index == next_free),
                "a texture has [[texture(n)]], and a sampler [[sampler(n)]]");
  using type = bound<kind, Bound::index, Bound::given>;
};
template <class P, class Bound>
using resolved = typename resolve_if<P, Bound, (resource<metal::remove_cvref_t<P>>::count > 0)>::type;

template <class... Bound> struct indices {
  int values[sizeof...(Bound) + 1];
  constexpr indices() : values() {
    binding_kind kinds[] = {Bound::kind..., buffer};
    int wanted[] = {Bound::index..., 0};
    for (unsigned i = 0; i < sizeof...(Bound); i++) {
      values[i] = wanted[i];
      if (wanted[i] != next_free) continue;
      for (int candidate = 0; values[i] == next_free; candidate++) {
        bool taken = false;
        for (unsigned j = 0; j < sizeof...(Bound); j++)
          taken |= kinds[j] == kinds[i] && (j < i ? values[j] : wanted[j]) == candidate;
        if (!taken) values[i] = candidate;
      }
    }
  }
};

template <class P> MSL_INLINE P position(const uint (&from)[3]) {
  if constexpr (is_scalar<P>) return (P)from[0];
  else if constexpr (size_of<P> == 2) return P(from[0], from[1]);
  else return P(from[0], from[1], from[2]);
}

template <class P> constexpr bool is_reference = __is_lvalue_reference(P);
template <class P> constexpr bool is_memory = is_reference<P> || __is_pointer(P);

template <class P> constexpr ulong least_bytes() {
  if constexpr (is_reference<P>) return sizeof(metal::remove_reference_t<P>);
  else return 0;
}
template <class P> constexpr ulong alignment_of() {
  if constexpr (!is_memory<P> || metal::is_void_v<metal::remove_pointer_t<P>>) return 1;
  else return alignof(metal::remove_pointer_t<metal::remove_reference_t<P>>);
}
template <class P>
constexpr bool is_writable = is_memory<P> && !__is_const(metal::remove_pointer_t<metal::remove_reference_t<P>>);
template <int... i> struct sequence {};
template <int n, int... i> struct count : count<n - 1, n - 1, i...> {};
template <int... i> struct count<0, i...> { using type = sequence<i...>; };

}

#endif
