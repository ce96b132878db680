/* From a kernel's signature to a function that runs one of its threads. */
#ifndef MSL_ENTRY_H
#define MSL_ENTRY_H

#include "../bound.h"
#include "textures.h"
#include "threads.h"

namespace msl {

/* The value of a parameter of type P. */
template <class P, class Bound> MSL_INLINE P argument(const msl_lane *lane, int index) {
  using V = metal::remove_cvref_t<P>;
  const msl_group &group = *lane->group;
  if constexpr (Bound::kind == texture || Bound::kind == sampler) {
    static_assert(!is_memory<P>, "a texture or sampler is an argument by value");
    return resource<V>::make(Bound::given ? group.textures : nullptr, Bound::given ? group.samplers : nullptr,
                             (uint)index);
  } else if constexpr (Bound::kind == buffer || Bound::kind == threadgroup) {
    static_assert(is_memory<P>, "an argument with [[buffer(n)]] or [[threadgroup(n)]] is a pointer or a reference");
    unsigned char *memory = nullptr;
    if constexpr (Bound::given)
      memory = Bound::kind == buffer ? group.bindings[index].pointer : group.threadgroup[index];
    if constexpr (is_reference<P>) return *(metal::remove_reference_t<P> *)memory;
    else return (P)memory;
  } else if constexpr (Bound::kind == thread_position_in_grid) {
    uint place[3];
    for (int i = 0; i < 3; i++) place[i] = group.position[i] * group.dispatched_threads[i] + lane->position[i];
    return position<V>(place);
  } else if constexpr (Bound::kind == threads_per_grid) return position<V>(group.grid);
  else if constexpr (Bound::kind == grid_size) return position<V>(group.grid);
  else if constexpr (Bound::kind == grid_origin) return (V)0;
  else if constexpr (Bound::kind == threadgroup_position_in_grid) return position<V>(group.position);
  else if constexpr (Bound::kind == threadgroups_per_grid) return position<V>(group.groups);
  else if constexpr (Bound::kind == thread_position_in_threadgroup) return position<V>(lane->position);
  else if constexpr (Bound::kind == threads_per_threadgroup) return position<V>(group.threads);
  else if constexpr (Bound::kind == dispatch_threads_per_threadgroup) return position<V>(group.dispatched_threads);
  else if constexpr (Bound::kind == thread_index_in_threadgroup) return (V)lane->index;
  else if constexpr (Bound::kind == thread_index_in_simdgroup) return (V)(lane->index % MSL_SIMD_WIDTH);
  else if constexpr (Bound::kind == simdgroup_index_in_threadgroup) return (V)(lane->index / MSL_SIMD_WIDTH);
  else if constexpr (Bound::kind == simdgroups_per_threadgroup) return (V)group.simdgroups;
  else if constexpr (Bound::kind == dispatch_simdgroups_per_threadgroup) return (V)group.dispatched_simdgroups;
  else if constexpr (Bound::kind == thread_index_in_quadgroup) return (V)(lane->index % 4);
  else if constexpr (Bound::kind == quadgroup_index_in_threadgroup) return (V)(lane->index / 4);
  else if constexpr (Bound::kind == quadgroups_per_threadgroup)
    return (V)((group.threads[0] * group.threads[1] * group.threads[2] + 3) / 4);
  else return (V)MSL_SIMD_WIDTH;
}

template <class P, class Bound> constexpr msl_argument describe(int index) {
  using R = resource<metal::remove_cvref_t<P>>;
  msl_argument result = {MSL_ARGUMENT_NONE, (uint)index, 0, 1, 0, 0, 0, 0, 0};
  if (!Bound::given) return result;
  if constexpr (R::count > 0) {
    result.kind = Bound::kind == texture ? MSL_ARGUMENT_TEXTURE : MSL_ARGUMENT_SAMPLER;
    result.writable = R::is_written;
    result.count = R::count, result.type = R::type, result.value = R::value, result.readable = R::is_read;
  } else if (Bound::kind == buffer || Bound::kind == threadgroup) {
    result.kind = Bound::kind == buffer ? MSL_ARGUMENT_BUFFER : MSL_ARGUMENT_THREADGROUP;
    result.size = Bound::kind == buffer ? least_bytes<P>() : 0;
    result.alignment = alignment_of<P>(), result.writable = is_writable<P>;
  }
  return result;
}

/* What the check of a whole source instantiates: a kernel's function, and its parameters once for all instances of its
 * template that have the same. `Own` is the definition's, so that each says what is wrong with it. */
template <class... Bound> struct bounds {};
template <class Own, class F, class Bounds> struct parameters {
  static void take(const msl_lane *) {}
  static_assert(!sizeof(F), "a kernel returns void");
};
template <class Own, class... P, class... Bound> struct parameters<Own, void (*)(P...), bounds<Bound...>> {
  static_assert(sizeof...(P) == sizeof...(Bound),
                "a kernel's definition and its instantiation take different parameters");
  static void take(const msl_lane *lane) { ((void)argument<P, resolved<P, Bound>>(lane, 0), ...); }
};
template <class Own, class F> constexpr parameters<Own, F, typename Own::list> mention(F) { return {}; }

/* Also in C++14, which has no `template <auto>`. */
template <class F, F function, class... Bound> struct kernel {
  static_assert(!sizeof(F), "a kernel returns void");
};
template <class... P, void (*function)(P...), class... Bound> struct kernel<void (*)(P...), function, Bound...> {
  static_assert(sizeof...(P) == sizeof...(Bound),
                "a kernel's definition and its instantiation take different parameters");
  static constexpr indices<resolved<P, Bound>...> index = {};
  template <int... i> static MSL_INLINE void call(const msl_lane *lane, sequence<i...>) {
    function(argument<P, resolved<P, Bound>>(lane, index.values[i])...);
  }
  template <int... i> static constexpr metal::array<msl_argument, sizeof...(P) + 1> table(sequence<i...>) {
    return {{describe<P, resolved<P, Bound>>(index.values[i])..., msl_argument{}}};
  }
  using all = typename count<sizeof...(P)>::type;
  static constexpr metal::array<msl_argument, sizeof...(P) + 1> arguments = table(all());
  static constexpr uint argument_count = sizeof...(P);
  static void run(msl_lane *lane) { call(lane, all()); }
};

}

#if defined(__APPLE__)
#define MSL_VARIABLES msl::variables_start, msl::variables_end
#else
#define MSL_VARIABLES msl::__start_msl_variables, msl::__stop_msl_variables
#endif

/* Makes the library's one symbol. */
#define MSL_EXPORT(max_threads, ...)                                                                        \
  extern "C" __attribute__((visibility("default"))) const msl_kernel msl_kernel_entry = {                   \
      sizeof(msl_lane), sizeof(msl_group), sizeof(msl_simdgroup), (max_threads),                            \
      __VA_ARGS__::argument_count, __VA_ARGS__::arguments.elements, MSL_VARIABLES, __VA_ARGS__::run};

#endif
