//! What is tuned for one microarchitecture, as data. What a processor can execute is an [`Isa`].

use super::Isa;

/// The prefetch distance where one pays, in bytes.
///
/// Intel's processors prefetch by themselves only within a page of 4 KiB ("Intel 64 and IA-32 Architectures
/// Optimization Reference Manual", on its streamer). AMD's keep up until Zen 4; Zen 5 falls behind when it also unpacks
/// integers. `docs/perf/` has what each gains, by distance.
#[cfg(target_arch = "x86_64")]
pub const PREFETCH_DISTANCE: usize = 4 << 10;

/// The choices that processors with the same instructions differ in.
#[derive(Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The microarchitecture.
    pub name: &'static str,
    /// Whether a GEMV on x16 panels prefetches, at `PREFETCH_DISTANCE`.
    pub prefetch_x16: bool,
    /// The same for a single row of A and blocks that are bytes, which leave the most time for memory.
    pub prefetch_x16_bytes: bool,
    /// Whether the micro-kernel prefetches the next piece while a vector is a whole step of its panel.
    pub prefetch_pieces: bool,
    /// The most rows of A for the float GEMM on x16 panels in place; 0: never.
    pub gemm_x16_rows: u32,
    /// The most rows of A for the dot-product micro-kernel; 0: never.
    pub gemm_dot_rows: u32,
}

impl Tuning {
    /// Processors without AVX-512.
    pub const BASELINE: Tuning = Tuning {
        name: "baseline",
        prefetch_x16: false,
        prefetch_x16_bytes: false,
        prefetch_pieces: true,
        gemm_x16_rows: 0,
        gemm_dot_rows: 0,
    };
    /// AMD's with AVX-512, up to Zen 4, and those of others.
    #[cfg(any(target_arch = "x86_64", test))]
    pub const ZEN_4: Tuning = Tuning {
        name: "Zen 4",
        gemm_dot_rows: 16,
        ..Tuning::BASELINE
    };
    /// AMD's from Zen 5 on.
    #[cfg(any(target_arch = "x86_64", test))]
    pub const ZEN_5: Tuning = Tuning {
        name: "Zen 5",
        prefetch_x16: true,
        gemm_x16_rows: 16,
        ..Tuning::ZEN_4
    };
    /// Intel's with AVX-512. An outer product is as fast there as dot products.
    #[cfg(any(target_arch = "x86_64", test))]
    pub const INTEL: Tuning = Tuning {
        name: "Intel",
        prefetch_x16: true,
        prefetch_x16_bytes: true,
        prefetch_pieces: false,
        gemm_x16_rows: 16,
        gemm_dot_rows: 0,
    };

    /// That of this processor, when it uses `isa`.
    pub fn of(isa: Isa) -> &'static Tuning {
        #[cfg(target_arch = "x86_64")]
        if isa.avx512().is_some() {
            return avx512();
        }
        let _ = isa;
        &Tuning::BASELINE
    }

    /// Those that processors with `isa` may have, for tests of each.
    #[cfg(test)]
    pub fn all(isa: Isa) -> &'static [Tuning] {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => &[Tuning::INTEL],
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(_) => &[Tuning::ZEN_4, Tuning::ZEN_5, Tuning::INTEL],
            _ => &[Tuning::BASELINE],
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> &'static Tuning {
    use std::arch::x86_64::__cpuid;

    /// The family of Zen 5.
    const ZEN_5: u32 = 0x1a;
    #[allow(
        unused_unsafe,
        reason = "safe in newer versions of Rust than the oldest that this builds with"
    )]
    // SAFETY: all processors of this architecture have the instruction, and both of its leaves.
    let (vendor, signature) = unsafe { (__cpuid(0), __cpuid(1).eax) };
    // "AMD64 Architecture Programmer's Manual", volume 3, CPUID Fn0000_0001_EAX.
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    match vendor.as_flattened() {
        b"GenuineIntel" => &Tuning::INTEL,
        b"AuthenticAMD" if family >= ZEN_5 => &Tuning::ZEN_5,
        _ => &Tuning::ZEN_4,
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_processor_has_its_tuning() {
        let processors = std::fs::read_to_string("/proc/cpuinfo").expect("Linux has it");
        let family = processors.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == "cpu family").then(|| value.trim().parse::<u32>())
        });
        let family = family.expect("a family").expect("a number");
        let has = |word| processors.contains(word);
        let expected = match Isa::best() {
            Isa::Avx512(_) | Isa::Avx512Vbmi(_) if has("GenuineIntel") => &Tuning::INTEL,
            Isa::Avx512(_) | Isa::Avx512Vbmi(_) if has("AuthenticAMD") && family >= 26 => {
                &Tuning::ZEN_5
            }
            Isa::Avx512(_) | Isa::Avx512Vbmi(_) => &Tuning::ZEN_4,
            _ => &Tuning::BASELINE,
        };
        assert_eq!(Tuning::of(Isa::best()), expected);
        let vbmi = has(" avx512vbmi ") && has(" gfni ");
        assert_eq!(matches!(Isa::best(), Isa::Avx512Vbmi(_)), vbmi);
    }
}
