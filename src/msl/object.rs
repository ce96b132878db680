//! What a compiled kernel may be made of, checked in the object file before it is linked: code that runs when a
//! kernel is called and at no other time, and that calls nothing but mathematics.
//!
//! A source's mistakes are found before, with their lines. This is what holds whatever the source says, for an object
//! has few ways to run code when it is loaded, and all of them are listed in it.

use std::fmt;

/// Something in an object that a kernel must not have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    target_os = "macos",
    expect(dead_code, reason = "objects are looked through on Linux alone")
)]
pub enum Refusal {
    /// Code that the loader would run: a section of its addresses.
    Initializer(String),
    /// A function that the loader would call to find another.
    Resolver(String),
    /// A variable that each thread of the process would have.
    ThreadLocal(String),
    /// A function or variable that is neither in the object nor in Metal.
    Undefined(String),
    /// A section that no kernel has.
    Section(String),
    /// Not an object of this machine's.
    Malformed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refusal::Initializer(_) => write!(
                formatter,
                "a variable at program scope needs a constructor or destructor: in Metal it must be a constant"
            ),
            Refusal::Resolver(name) => {
                write!(
                    formatter,
                    "`{name}` is an indirect function, which Metal does not have"
                )
            }
            Refusal::ThreadLocal(name) => {
                write!(
                    formatter,
                    "`{name}` is thread-local, which Metal does not have"
                )
            }
            Refusal::Undefined(name) => write!(
                formatter,
                "`{name}` is used, and neither this source nor Metal defines it"
            ),
            Refusal::Section(name) => {
                write!(
                    formatter,
                    "code or data in the section `{name}`, which no kernel has"
                )
            }
            Refusal::Malformed => write!(
                formatter,
                "the Metal compiler made no object of this machine's"
            ),
        }
    }
}

/// Looks through an object that clang made.
#[cfg(target_os = "linux")]
pub fn check(object: &[u8]) -> Result<(), Refusal> {
    elf::check(object)
}

/// Mach-O objects are not looked through: there a kernel is what the source's check let pass.
#[cfg(not(target_os = "linux"))]
pub fn check(_object: &[u8]) -> Result<(), Refusal> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod elf {
    use super::Refusal;

    /// The names of sections that are loaded, each alone or before a dot and more.
    const SECTIONS: [&str; 9] = [
        ".text",
        ".rodata",
        ".data",
        ".bss",
        ".eh_frame",
        ".lrodata",
        ".ldata",
        ".lbss",
        "msl_variables",
    ];
    /// Of sections that are not loaded, those that a linker acts upon.
    const ORDERS: [&str; 2] = [".deplibs", ".linker-options"];

    /// What code of ours and clang's takes from the process that loads it, or from the linker.
    const LINKED: [&str; 10] = [
        "bcmp",
        "memcmp",
        "memcpy",
        "memmove",
        "memset",
        "_GLOBAL_OFFSET_TABLE_",
        "__ehdr_start",
        "__start_msl_variables",
        "__stop_msl_variables",
        "_end",
    ];
    /// The C library's mathematics, of double and with an `f` of float.
    const MATHEMATICS: [&str; 52] = [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "copysign",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp10",
        "exp2",
        "expm1",
        "fabs",
        "fdim",
        "floor",
        "fma",
        "fmax",
        "fmin",
        "fmod",
        "frexp",
        "hypot",
        "ilogb",
        "ldexp",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "logb",
        "modf",
        "nearbyint",
        "nextafter",
        "pow",
        "remainder",
        "rint",
        "round",
        "roundeven",
        "scalbn",
        "sin",
        "sincos",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "tgamma",
        "trunc",
    ];

    const INIT_ARRAY: u32 = 14;
    const PREINIT_ARRAY: u32 = 16;
    const SYMBOLS: u32 = 2;
    const FLAG_ALLOC: u64 = 2;
    const FLAG_TLS: u64 = 0x400;
    const TYPE_TLS: u8 = 6;
    const TYPE_RESOLVER: u8 = 10;

    struct Section<'o> {
        name: &'o str,
        kind: u32,
        flags: u64,
        link: u32,
        content: &'o [u8],
    }

    pub fn check(object: &[u8]) -> Result<(), Refusal> {
        let sections = sections(object).ok_or(Refusal::Malformed)?;
        for section in &sections {
            let name = || String::from(section.name);
            if (INIT_ARRAY..=PREINIT_ARRAY).contains(&section.kind) || runs(section.name) {
                return Err(Refusal::Initializer(name()));
            }
            if section.flags & FLAG_TLS != 0 {
                return Err(Refusal::ThreadLocal(name()));
            }
            let loaded = section.flags & FLAG_ALLOC != 0;
            if loaded && !is_family(section.name, &SECTIONS) || ORDERS.contains(&section.name) {
                return Err(Refusal::Section(name()));
            }
        }
        for table in sections.iter().filter(|section| section.kind == SYMBOLS) {
            let names = sections
                .get(table.link as usize)
                .ok_or(Refusal::Malformed)?;
            for symbol in table.content.chunks(24).skip(1) {
                check_symbol(symbol, names.content)?;
            }
        }
        Ok(())
    }

    fn check_symbol(symbol: &[u8], names: &[u8]) -> Result<(), Refusal> {
        let name = word(symbol, 0).and_then(|at| text(names, at as usize));
        let (Some(name), Some(kind), Some(section)) = (name, symbol.get(4), half(symbol, 6)) else {
            return Err(Refusal::Malformed);
        };
        match kind & 15 {
            TYPE_RESOLVER => Err(Refusal::Resolver(String::from(name))),
            TYPE_TLS => Err(Refusal::ThreadLocal(String::from(name))),
            _ if section == 0 && !is_known(name) => Err(Refusal::Undefined(String::from(name))),
            _ => Ok(()),
        }
    }

    /// Whether the loader runs what is in a section of this name, whatever its type says.
    fn runs(name: &str) -> bool {
        let families = [
            ".init",
            ".fini",
            ".init_array",
            ".fini_array",
            ".preinit_array",
            ".ctors",
            ".dtors",
        ];
        is_family(name, &families)
    }

    fn is_family(name: &str, families: &[&str]) -> bool {
        families.iter().any(|family| {
            name.strip_prefix(family)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    fn is_known(name: &str) -> bool {
        let mathematics = |name| MATHEMATICS.contains(&name);
        LINKED.contains(&name)
            || mathematics(name)
            || name.strip_suffix('f').is_some_and(mathematics)
    }

    /// The sections of a relocatable object of 64 bits, little-endian; `None` when it is none.
    fn sections(object: &[u8]) -> Option<Vec<Section<'_>>> {
        if object.get(..6)? != b"\x7fELF\x02\x01" || half(object, 16)? != 1 {
            return None;
        }
        let table = usize::try_from(long(object, 40)?).ok()?;
        let (size, count, names) = (half(object, 58)?, half(object, 60)?, half(object, 62)?);
        // Of more than 65,280 sections there would be no count here.
        if size != 64 || count == 0 || names >= count {
            return None;
        }
        let header = |index: u16| object.get(table.checked_add(usize::from(index) * 64)?..);
        let content = |header: &[u8]| {
            const NOBITS: u32 = 8;
            if word(header, 4)? == NOBITS {
                return Some([].as_slice());
            }
            let start = usize::try_from(long(header, 24)?).ok()?;
            let length = usize::try_from(long(header, 32)?).ok()?;
            object.get(start..start.checked_add(length)?)
        };
        let names = content(header(names)?)?;
        (0..count)
            .map(|index| {
                let header = header(index)?;
                Some(Section {
                    name: text(names, word(header, 0)? as usize)?,
                    kind: word(header, 4)?,
                    flags: long(header, 8)?,
                    link: word(header, 40)?,
                    content: content(header)?,
                })
            })
            .collect()
    }

    fn text(names: &[u8], at: usize) -> Option<&str> {
        let rest = names.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }

    fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
        from.get(at..)?.first_chunk().copied()
    }

    fn half(from: &[u8], at: usize) -> Option<u16> {
        bytes(from, at).map(u16::from_le_bytes)
    }

    fn word(from: &[u8], at: usize) -> Option<u32> {
        bytes(from, at).map(u32::from_le_bytes)
    }

    fn long(from: &[u8], at: usize) -> Option<u64> {
        bytes(from, at).map(u64::from_le_bytes)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::msl::clang::Clang;
    use crate::msl::limits::Limits;
    use std::ffi::OsString;

    /// What clang makes of a C++ text by itself, without anything that refuses it earlier.
    fn object(source: &str) -> Vec<u8> {
        let clang = Clang::find().unwrap_or_else(|error| panic!("{error}"));
        let arguments = "-x c++ -std=c++17 -O1 -w -fPIC -c -o - -"
            .split(' ')
            .map(OsString::from);
        let arguments: Vec<OsString> = arguments.collect();
        let run = clang.run(&arguments, source, &Limits::default());
        let run = run.unwrap_or_else(|error| panic!("{error}"));
        assert!(run.success, "{}", run.stderr);
        run.stdout
    }

    #[test]
    fn what_the_loader_would_run_or_look_for_is_refused() {
        let sources = [
            ("extern int n(); int a = n();", "program scope"),
            ("struct A { ~A(); }; A a;", "program scope"),
            (
                "volatile int n; __attribute__((constructor)) static void f() { n = 1; }",
                "program scope",
            ),
            (
                "volatile int n; __attribute__((destructor)) static void f() { n = 1; }",
                "program scope",
            ),
            (
                "__attribute__((section(\".init\"), used)) static void f() {}",
                "program scope",
            ),
            (
                "__attribute__((section(\".ctors\"), used)) static void (*f)() = nullptr;",
                "program scope",
            ),
            (
                "__attribute__((section(\".preinit_array\"), used)) static void (*const f)() = nullptr;",
                "program scope",
            ),
            (
                "extern \"C\" int system(const char *); int f() { return system(\"\"); }",
                "`system`",
            ),
            (
                "extern \"C\" char **environ; char **f() { return environ; }",
                "`environ`",
            ),
            (
                "__attribute__((weak)) int elsewhere(); int f() { return elsewhere ? 1 : 0; }",
                "elsewhere",
            ),
            (
                "static int g() { return 1; } extern \"C\" int (*find())() { return g; } \
                 extern \"C\" __attribute__((ifunc(\"find\"))) int f();",
                "`f` is an indirect function",
            ),
            ("thread_local int a; int f() { return a; }", "thread-local"),
            ("__attribute__((section(\"mine\"))) int a = 1;", "`mine`"),
            ("asm(\".section .init_array; .quad 0\");", "program scope"),
            ("#pragma comment(lib, \"m\")\nint a;", ".deplibs"),
            ("int *f() { return new int; }", "`_Znwm`"),
        ];
        for (source, expected) in sources {
            let refusal = check(&object(source)).expect_err(source).to_string();
            assert!(refusal.contains(expected), "{source}: {refusal}");
        }
    }

    #[test]
    fn code_data_and_mathematics_pass() {
        let source = "extern \"C\" float expf(float); extern \"C\" double sqrt(double);\n\
            const float table[4] = {1, 2, 3, 4}; int counter; int first = 1;\n\
            float f(int i, char *to, const char *from) { __builtin_memcpy(to, from, i); counter++; return expf(table[i]) + sqrt(first); }\n\
            float (*const pointers[])(int, char *, const char *) = {f, f};";
        assert_eq!(check(&object(source)), Ok(()));
    }

    #[test]
    fn damaged_objects_are_refused_or_harmless() {
        let whole = object("extern \"C\" float expf(float); float f(float x) { return expf(x); }");
        for length in 0..whole.len() {
            let _ = check(&whole[..length]); // no panic
        }
        for at in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                let _ = check(&damaged); // no panic
            }
        }
        assert_eq!(check(b""), Err(Refusal::Malformed));
        assert_eq!(check(b"\x7fELF\x02\x01"), Err(Refusal::Malformed));
        assert_eq!(check(&whole[..64]), Err(Refusal::Malformed));
    }
}
