//! Every operation × every type × edge sizes through the C ABI (`iron_encode_*`, below the facade's functions of those
//! names): the kernels from their Metal source in three lane orders, and the native ones, each against float64
//! arithmetic. Outputs lie between guard zones and start poisoned.

mod attention;
mod fused;
mod joined;
mod language;
mod products;
mod rows;
mod training;
mod typed;
mod ways;
mod wide;

/// Sizes around the widths of vectors, groups and tiles.
const EDGES: [usize; 9] = [1, 3, 31, 32, 33, 63, 65, 100, 257];
