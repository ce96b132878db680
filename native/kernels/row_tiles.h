/* How threadgroups share out the rows of weights. */
#ifndef IRON_KERNELS_ROW_TILES_H
#define IRON_KERNELS_ROW_TILES_H

/* Where the tiles of ROWS rows of a threadgroup are in b. Of products that are gated a tile of the gate and the same
 * one of what it gates alternate. */
template <uint ROWS> struct tiles {
  uint group, groups, n, gated, count;
  void place(uint own_group, uint all_groups, uint rows, uint is_gated) {
    group = own_group;
    groups = all_groups;
    n = rows;
    gated = is_gated;
    uint units = (n + ROWS - 1) / ROWS, mine = group < units ? (units - group + groups - 1) / groups : 0;
    count = gated ? 2 * mine : mine;
  }
  uint row(uint i) const {
    return gated ? (i & 1) * n + (group + groups * (i / 2)) * ROWS : (group + groups * i) * ROWS;
  }
};

#endif
