//! Functions that the native archive calls.
//!
//! rustc exports every `#[no_mangle]` function from a cdylib, whose symbols are the C ABI and nothing else. So these
//! symbols are defined by hand, hidden.

/// Defines a hidden symbol that is a Rust function.
macro_rules! define {
    ($symbol:literal, $function:ident: $type:ty) => {
        #[cfg(all(target_arch = "x86_64", not(target_vendor = "apple")))]
            std::arch::global_asm!(
                concat!(".pushsection .text.", $symbol, ",\"ax\",@progbits"),
                concat!(".globl ", $symbol),
                concat!(".hidden ", $symbol),
                concat!(".type ", $symbol, ",@function"),
                concat!($symbol, ":"),
                "jmp {function}@PLT",
                concat!(".size ", $symbol, ", . - ", $symbol),
                ".popsection",
                function = sym $function,
            );
        #[cfg(all(target_arch = "aarch64", not(target_vendor = "apple")))]
            std::arch::global_asm!(
                concat!(".pushsection .text.", $symbol, ",\"ax\",@progbits"),
                ".p2align 2",
                concat!(".globl ", $symbol),
                concat!(".hidden ", $symbol),
                concat!(".type ", $symbol, ",@function"),
                concat!($symbol, ":"),
                "b {function}",
                concat!(".size ", $symbol, ", . - ", $symbol),
                ".popsection",
                function = sym $function,
            );
        #[cfg(all(target_arch = "x86_64", target_vendor = "apple"))]
            std::arch::global_asm!(
                ".text",
                concat!(".globl _", $symbol),
                concat!(".private_extern _", $symbol),
                concat!("_", $symbol, ":"),
                "jmp {function}",
                function = sym $function,
            );
        #[cfg(all(target_arch = "aarch64", target_vendor = "apple"))]
            std::arch::global_asm!(
                ".text",
                ".p2align 2",
                concat!(".globl _", $symbol),
                concat!(".private_extern _", $symbol),
                concat!("_", $symbol, ":"),
                "b {function}",
                function = sym $function,
            );
        const _: () = {
            /// Only the native archive refers to the symbol, and a linker that reads archives in order has passed this
            /// object by then. rustc makes every link refer to `#[used]` statics, which brings the object in.
            #[used]
            static KEEP: $type = $function;
        };
    };
}

pub(crate) use define;
