//! What the software Metal device executes: the CPU executor behind `native/softmetal/executor.h`.

mod bindings;
