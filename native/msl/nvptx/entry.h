/* From a kernel's signature to an entry of a PTX module. What the host passes is one struct:
 *
 *   uint grid[3], groups[3], origin[3], threads[3]   threads_per_grid, threadgroups_per_grid, the first threadgroup of
 *                                                    this launch, and threads_per_threadgroup of a whole one
 *   ulong memory[]   of each argument the address of its buffer, or the offset of its threadgroup memory; 0: its value
 *                    is in `values`
 *   uchar values[]   structs that arguments refer to, each of at most `largest_value` bytes, or only_by_value
 *
 * A constant array beside the entry says what the arguments are: src/msl/ptx.rs reads it. */
#ifndef MSL_ENTRY_H
#define MSL_ENTRY_H

#include "../atomic.h"
#include "../bound.h"
#include "textures.h"
#include "threads.h"

/* Threadgroup memory that the host allots. */
extern __attribute__((address_space(3), aligned(16))) unsigned char msl_threadgroup_memory[];

namespace msl {

constexpr ulong largest_value = 256;

struct packet_head {
  uint grid[3], groups[3], origin[3], threads[3];
};

/* Whether an argument may lie in the packet: a struct that nobody writes. */
template <class P> struct is_atomic { static constexpr bool value = false; };
template <class T> struct is_atomic<metal::_atomic<T>> { static constexpr bool value = true; };
template <class P, class Bound> constexpr bool has_value() {
  if constexpr (Bound::kind != buffer || !Bound::given || !is_reference<P>) return false;
  else {
    using T = metal::remove_reference_t<P>;
    using V = metal::remove_cv_t<T>;
    bool fits = sizeof(T) <= largest_value || only_by_value<V>::value;
    return __is_const(T) && !__is_volatile(T) && fits && !is_atomic<V>::value;
  }
}
template <class P, class Bound> constexpr ulong value_bytes() {
  if constexpr (has_value<P, Bound>()) return (sizeof(metal::remove_reference_t<P>) + 15) / 16 * 16;
  else return 0;
}

/* Offsets in `values`, and their sum. */
template <class... P> struct signature {
  template <class... Bound> struct with {
    ulong offset[sizeof...(P) + 1];
    constexpr with() : offset() {
      ulong bytes[] = {value_bytes<P, Bound>()..., 0}, sum = 0;
      for (ulong i = 0; i <= sizeof...(P); i++) {
        offset[i] = sum;
        sum += bytes[i];
      }
    }
  };
};

template <ulong arguments, ulong bytes> struct packet : packet_head {
  ulong memory[arguments + 1];
  alignas(16) uchar values[bytes + 16];
};

/* Where a thread is. The threadgroups at the end of a grid of threads may be smaller than the others. */
struct place {
  uint group[3], thread[3], threads[3], index;
  MSL_INLINE explicit place(const packet_head &head) {
    group[0] = head.origin[0] + __nvvm_read_ptx_sreg_ctaid_x();
    group[1] = head.origin[1] + __nvvm_read_ptx_sreg_ctaid_y();
    group[2] = head.origin[2] + __nvvm_read_ptx_sreg_ctaid_z();
    thread[0] = __nvvm_read_ptx_sreg_tid_x();
    thread[1] = __nvvm_read_ptx_sreg_tid_y();
    thread[2] = __nvvm_read_ptx_sreg_tid_z();
    for (int i = 0; i < 3; i++) {
      uint left = head.grid[i] - group[i] * head.threads[i];
      threads[i] = left < head.threads[i] ? left : head.threads[i];
    }
    index = thread[0] + threads[0] * (thread[1] + threads[1] * thread[2]);
  }
  MSL_INLINE bool exists() const {
    return thread[0] < threads[0] && thread[1] < threads[1] && thread[2] < threads[2];
  }
};

/* Holds an argument for as long as the kernel runs. */
template <class P, class Bound> struct holder {
  using V = metal::remove_cvref_t<P>;
  static MSL_INLINE uint simdgroups(const uint (&threads)[3]) {
    return (threads[0] * threads[1] * threads[2] + 31) / 32;
  }
  static MSL_INLINE V make(const packet_head &head, const place &at) {
    if constexpr (Bound::kind == thread_position_in_grid) {
      uint from[3];
      for (int i = 0; i < 3; i++) from[i] = at.group[i] * head.threads[i] + at.thread[i];
      return position<V>(from);
    } else if constexpr (Bound::kind == threads_per_grid) return position<V>(head.grid);
    else if constexpr (Bound::kind == grid_size) return position<V>(head.grid);
    else if constexpr (Bound::kind == grid_origin) return (V)0;
    else if constexpr (Bound::kind == threadgroup_position_in_grid) return position<V>(at.group);
    else if constexpr (Bound::kind == threadgroups_per_grid) return position<V>(head.groups);
    else if constexpr (Bound::kind == thread_position_in_threadgroup) return position<V>(at.thread);
    else if constexpr (Bound::kind == threads_per_threadgroup) return position<V>(at.threads);
    else if constexpr (Bound::kind == dispatch_threads_per_threadgroup) return position<V>(head.threads);
    else if constexpr (Bound::kind == thread_index_in_threadgroup) return (V)at.index;
    else if constexpr (Bound::kind == thread_index_in_simdgroup) return (V)(at.index % 32);
    else if constexpr (Bound::kind == simdgroup_index_in_threadgroup) return (V)(at.index / 32);
    else if constexpr (Bound::kind == simdgroups_per_threadgroup) return (V)simdgroups(at.threads);
    else if constexpr (Bound::kind == dispatch_simdgroups_per_threadgroup) return (V)simdgroups(head.threads);
    else if constexpr (Bound::kind == thread_index_in_quadgroup) return (V)(at.index % 4);
    else if constexpr (Bound::kind == quadgroup_index_in_threadgroup) return (V)(at.index / 4);
    else if constexpr (Bound::kind == quadgroups_per_threadgroup)
      return (V)((at.threads[0] * at.threads[1] * at.threads[2] + 3) / 4);
    else return (V)32;
  }
  V value;
  template <class Packet>
  MSL_INLINE holder(const Packet &packet, const place &at, ulong, ulong) : value(make(packet, at)) {}
  MSL_INLINE V get() const { return value; }
};
template <class P, class Bound> struct pointer_holder {
  void *memory;
  template <class Packet> MSL_INLINE pointer_holder(const Packet &packet, const place &, ulong i, ulong) {
    static_assert(is_memory<P>, "an argument with [[buffer(n)]] or [[threadgroup(n)]] is a pointer or a reference");
    if constexpr (!Bound::given) memory = nullptr;
    else if constexpr (Bound::kind == threadgroup) memory = (void *)(msl_threadgroup_memory + packet.memory[i]);
    else memory = (void *)packet.memory[i];
  }
  MSL_INLINE P get() const {
    if constexpr (is_reference<P>) return *(metal::remove_reference_t<P> *)memory;
    else return (P)memory;
  }
};
/* A struct of the packet's own, or of a buffer. Each is read in its own address space: what may be in either would be
 * read byte by byte. */
template <class P, class Bound> struct value_holder {
  using T = metal::remove_cvref_t<P>;
  T value;
  template <class Packet> MSL_INLINE value_holder(const Packet &packet, const place &, ulong i, ulong offset) {
    ulong memory = packet.memory[i];
    if (memory != 0) {
      typedef const __attribute__((address_space(1))) T *global;
      __builtin_memcpy(&value, (global)memory, sizeof value);
    } else {
      /* The pointer's type says how it is aligned. */
      __builtin_memcpy(&value, (const T *)(packet.values + offset), sizeof value);
    }
  }
  MSL_INLINE P get() const { return value; }
};
/* The same of the packet's own alone, where it is: an index into a copy would make it an array in memory. */
template <class P, class Bound> struct place_holder {
  using T = metal::remove_cvref_t<P>;
  const T *place;
  template <class Packet>
  MSL_INLINE place_holder(const Packet &packet, const msl::place &, ulong, ulong offset)
      : place((const T *)(packet.values + offset)) {}
  MSL_INLINE P get() const { return *place; }
};
template <class P> constexpr bool has_place = only_by_value<metal::remove_cvref_t<P>>::value;
template <class P, class Bound>
using holder_of = metal::conditional_t<
    has_value<P, Bound>(), metal::conditional_t<has_place<P>, place_holder<P, Bound>, value_holder<P, Bound>>,
    metal::conditional_t<Bound::kind == buffer || Bound::kind == threadgroup, pointer_holder<P, Bound>,
                         holder<P, Bound>>>;

enum argument_kind { argument_none, argument_buffer, argument_threadgroup, argument_value };

/* Also in C++14, which has no `template <auto>`. */
template <class F, F function, class... Bound> struct kernel {
  static_assert(!sizeof(F), "a kernel returns void");
};
template <class... P, void (*function)(P...), class... Bound> struct kernel<void (*)(P...), function, Bound...> {
  static_assert(sizeof...(P) == sizeof...(Bound),
                "a kernel's definition and its instantiation take different parameters");
  static_assert((resource<metal::remove_cvref_t<P>>::count + ... + 0) == 0,
                "textures are not supported on this backend");
  static constexpr ulong count = sizeof...(P);
  static constexpr indices<Bound...> index = {};
  static constexpr typename signature<P...>::template with<Bound...> values = {};
  using params = packet<count, values.offset[count]>;
  using all = typename msl::count<sizeof...(P)>::type;

  template <int... i> static MSL_INLINE void call(const params &packet, const place &at, sequence<i...>) {
    function(holder_of<P, Bound>(packet, at, (ulong)i, values.offset[i]).get()...);
  }
  static MSL_INLINE void run(const params &packet) {
    kernel_starts();
    place at(packet);
    if (!at.exists()) return;
    call(packet, at, all());
  }

  /* For the host: the number of words below, the packet's size, the offset of its memory and of its values, the largest
   * threadgroup; and of each argument its kind, its index, the least bytes, its offset in `values`, or none, its type's
   * alignment, and whether that is not const. */
  static constexpr uint head = 5, each = 6, length = head + each * count;
  struct description { uint words[length]; };
  static constexpr description describe(uint max_threads) {
    binding_kind kinds[] = {Bound::kind..., buffer};
    bool given[] = {Bound::given..., false}, in_values[] = {has_value<P, Bound>()..., false};
    bool is_value[] = {has_place<P>..., false};
    ulong least[] = {least_bytes<P>()..., 0}, alignment[] = {alignment_of<P>()..., 0};
    bool written[] = {is_writable<P>..., false};
    description result = {};
    result.words[0] = length;
    result.words[1] = sizeof(params);
    result.words[2] = __builtin_offsetof(params, memory);
    result.words[3] = __builtin_offsetof(params, values);
    result.words[4] = max_threads;
    for (uint i = 0; i < count; i++) {
      uint *argument = result.words + head + each * i;
      bool is_buffer = kinds[i] == buffer, is_threadgroup = kinds[i] == threadgroup;
      argument[0] = !given[i] ? argument_none
                    : is_buffer ? (is_value[i] ? argument_value : argument_buffer)
                    : is_threadgroup ? argument_threadgroup : argument_none;
      argument[1] = (uint)index.values[i];
      argument[2] = is_buffer ? (uint)least[i] : 0;
      argument[3] = in_values[i] ? (uint)values.offset[i] : 0xffffffffu;
      argument[4] = (uint)alignment[i];
      argument[5] = written[i];
    }
    return result;
  }
};

}

/* Makes an entry msl_kernel_N of the module and its description. */
#define MSL_EXPORT_AS(number, max_threads, ...)                                                       \
  extern "C" __attribute__((nvptx_kernel)) void msl_kernel_##number(__VA_ARGS__::params packet) {     \
    __VA_ARGS__::run(packet);                                                                         \
  }                                                                                                   \
  extern "C" __attribute__((used, visibility("default")))                                             \
  constexpr __VA_ARGS__::description msl_description_##number = __VA_ARGS__::describe(max_threads);

#endif
