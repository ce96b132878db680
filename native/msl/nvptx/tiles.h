/* Products of tiles by four SIMD-groups together, which compute capability 9.0 has and neither older nor newer ones:
 * wgmma, PTX ISA 8.4, section 9.7.15. Kernels that use them are variants (build/ptx.rs). */
#ifndef MSL_TILES_H
#define MSL_TILES_H

#include "places.h"

namespace msl {

/* Where tiles may begin in threadgroup memory. */
constexpr uint tile_alignment = 1024;

/* Rows of 64 halves, 128 bytes each, whose pieces of 16 bytes are exchanged: piece i of row r is where i ^ r % 8 would
 * be (section 9.7.15.5.1, swizzling of 128 bytes; the descriptor is that of 9.7.15.5.1.2). */
MSL_INLINE ulong tile_rows(const void *tile) {
  return (ulong)((shared_place(tile) & 0x3ffff) >> 4) | 1ul << 16 | 64ul << 32 | 1ul << 62;
}
/* The rows from column 16 i on. */
MSL_INLINE ulong tile_columns(ulong rows, uint i) { return rows + 2 * i; }

/* 64 x 128 sums += 64 x 16 of a times 16 x 128 of b, whose columns are rows in memory. The sums are done at the end of
 * a wait. Lane i of SIMD-group s has of each eight columns two neighbors, from i % 4 * 2 on, of row 16 s + i / 4 and of
 * the one eight below. */
MSL_INLINE void tile_multiply(float *d, ulong a, ulong b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
        "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
        "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
        "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),
        "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
        "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b)
      : "memory");
}
/* Before the first product after a barrier. */
MSL_INLINE void tile_products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
MSL_INLINE void tile_products_close() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Waits for all products but those closed last, `count` times. */
template <uint count> MSL_INLINE void tile_products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(count) : "memory");
}
/* What this thread has copied into tiles can be multiplied behind the next barrier. */
MSL_INLINE void tile_copies_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}

#endif
