/* Products of bytes. */
#ifndef IRON_KERNELS_INTEGER_DOT_H
#define IRON_KERNELS_INTEGER_DOT_H

/* c plus the sum of the products of four signed bytes each. Metal has no such function; devices of many cores that are
 * not Apple's have an instruction, which this repository's standard library gives a name. */
static inline int dot_of_bytes(uint a, uint b, int c) {
#ifdef __HAVE_IRONBRIDGE_INTEGER_DOT4__
  return integer_dot4(a, b, c);
#else
  char4 x = as_type<char4>(a), y = as_type<char4>(b);
  return c + int(x.x) * int(y.x) + int(x.y) * int(y.y) + int(x.z) * int(y.z) + int(x.w) * int(y.w);
#endif
}

#endif
