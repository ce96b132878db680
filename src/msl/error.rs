//! Why a Metal source could not become a kernel.

/// What went wrong between a source and a kernel that can run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No usable clang; the text says what to install.
    #[error("{0}")]
    NoCompiler(String),
    /// The source has errors: one per line, `name:line: error: what`, each followed by the line it is about.
    #[error("{0}")]
    Source(String),
    /// Compiling would take more than it may; the text names the limit and what changes it.
    #[error("{0}")]
    Limit(String),
    /// There is no kernel of that name, or its function constants do not fit.
    #[error("{0}")]
    Function(String),
    /// The host failed: files, processes, the dynamic loader.
    #[error("{0}")]
    Host(String),
}

impl Error {
    pub fn host(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Error {
        Error::Host(format!("{what}: {error}"))
    }

    /// The compiler ended without a word about the source.
    pub fn crash() -> Error {
        Error::Source(String::from(
            "the Metal compiler crashed on this source; expressions or templates that nest too deeply are the usual reason",
        ))
    }
}
