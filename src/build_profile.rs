//! Says once that the crate was compiled without optimization, which its native kernels feel most.

/// An event of level warn, when the first device is opened.
pub fn warn_if_unoptimized() {
    #[cfg(all(feature = "tracing", ironbridge_unoptimized))]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            tracing::warn!(
                target: "ironbridge",
                "ironbridge was compiled without optimization and is many times slower than it could be; put \
                 [profile.dev.package.\"*\"] opt-level = 3 into the program's Cargo.toml, or build with --release"
            );
        });
    }
}
