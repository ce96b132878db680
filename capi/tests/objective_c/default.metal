#include <metal_stdlib>
using namespace metal;

// How many threadgroups the next dispatch has.
kernel void plan(device uint *grid [[buffer(0)]], constant uint &groups [[buffer(1)]]) {
  grid[0] = groups;
  grid[1] = 2;
  grid[2] = 1;
}

kernel void count(device atomic_uint *total [[buffer(0)]]) {
  atomic_fetch_add_explicit(total, 1, memory_order_relaxed);
}
