//! Whose rules sources are held to, and computed by.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// What is well-defined on this processor is allowed.
    #[default]
    Own,
    /// Apple's: of its compiler, and of its GPUs' arithmetic.
    Apple,
    /// Our own, and each kernel must compile for NVIDIA's GPUs, too.
    Nvptx,
}
