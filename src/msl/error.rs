//! Why a Metal source could not become a kernel.

/// What went wrong between a source and a kernel that can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// No usable clang; the text says what to install.
    NoCompiler(String),
    /// The source has errors: one per line, `name:line: error: what`, each followed by the line it is about.
    Source(String),
    /// Compiling would take more than it may; the text names the limit and what changes it.
    Limit(String),
    /// There is no kernel of that name, or its function constants do not fit.
    Function(String),
    /// The host failed: files, processes, the dynamic loader.
    Host(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (Error::NoCompiler(text)
        | Error::Source(text)
        | Error::Limit(text)
        | Error::Function(text)
        | Error::Host(text)) = self;
        formatter.write_str(text)
    }
}

impl std::error::Error for Error {}

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
