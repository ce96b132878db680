//! NVIDIA's GPUs below the software Metal device, by their driver alone: libcuda is loaded when a device is opened, and
//! nothing of the CUDA toolkit is needed. Kernels are PTX, made from Metal source by `src/msl`.

pub mod backend;
mod context;
mod driver;
mod graph;
mod launch;
mod loading;
mod memory;
mod module;
mod stream;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
