//! Every operation × every type × edge sizes through the C ABI (`iron_encode_*`, below the facade's functions of those
//! names): the kernels from their Metal source in three lane orders, and the native ones, each against float64
//! arithmetic. Outputs lie between guard zones and start poisoned.
//!
//! In a process of its own, because what chooses the kernels is the environment.

mod attention;
mod products;
mod rows;
mod typed;
mod ways;

#[path = "../facade/oracle.rs"]
mod oracle;
#[allow(dead_code, reason = "the facade's tests use the rest")]
#[path = "../facade/support.rs"]
mod support;

/// Sizes around the widths of vectors, groups and tiles.
const EDGES: [usize; 9] = [1, 3, 31, 32, 33, 63, 65, 100, 257];
