//! Runs the threadgroups of a compiled Metal kernel: its threads are fibers ([`fiber`]), which a [`threadgroup`]
//! schedules.

pub(crate) mod abi;
pub(crate) mod counter;
pub(crate) mod dispatch;
mod fiber;
pub(crate) mod function;
mod images;
pub(crate) mod lane_order;
mod stacks;
mod subnormals;
mod threadgroup;
mod traps;
pub(crate) mod watchdog;

#[cfg(test)]
pub(crate) mod conformance;
