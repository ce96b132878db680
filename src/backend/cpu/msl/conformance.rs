//! The Metal language, feature by feature: small programs with their results or their errors.

mod address_spaces;
mod counting;
mod dialect;
mod errors;
mod faults;
mod language;
mod library_functions;
mod loading;
pub mod program;
mod refusals;
mod simdgroups;
mod textures;
