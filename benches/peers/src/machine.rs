//! Which folder of docs/perf/ holds the figures of this machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::engines::Result;

/// `docs/perf/MICROARCHITECTURE`, made if it is not there.
pub fn folder() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let folder = root.join("docs/perf").join(name(&cpu));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The microarchitecture where it is known, else the processor's name, in lower case with hyphens.
///
/// Families and models are those of AMD's and Intel's manuals, as Linux prints them.
fn name(cpu: &str) -> String {
    let field = |name: &str| {
        let of = |line: &str| {
            Some(
                line.strip_prefix(name)?
                    .trim_start()
                    .strip_prefix(": ")?
                    .to_owned(),
            )
        };
        cpu.lines().find_map(of)
    };
    let number = |name: &str| field(name).and_then(|text| text.parse::<u32>().ok());
    let vendor = field("vendor_id").unwrap_or_default();
    let known = match (vendor.as_str(), number("cpu family"), number("model\t")) {
        ("AuthenticAMD", Some(0x1a), _) => "zen5",
        ("AuthenticAMD", Some(0x19), Some(0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf)) => "zen4",
        ("AuthenticAMD", Some(0x19), _) => "zen3",
        ("GenuineIntel", Some(6), _) if cpu.contains(" amx_tile") => "xeon-amx",
        ("GenuineIntel", Some(6), Some(0x55)) if cpu.contains(" avx512_vnni") => "cascade-lake",
        _ => return hyphenated(&field("model name").unwrap_or_else(|| "unknown".to_owned())),
    };
    known.to_owned()
}

fn hyphenated(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::name;

    fn cpu(vendor: &str, family: u32, model: u32, flags: &str) -> String {
        format!(
            "vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: A Name (R) 7\nflags\t\t: fpu {flags}\n"
        )
    }

    #[test]
    fn known_processors_have_short_names() {
        assert_eq!(name(&cpu("AuthenticAMD", 26, 2, "avx2")), "zen5");
        assert_eq!(name(&cpu("AuthenticAMD", 25, 17, "avx2")), "zen4");
        assert_eq!(name(&cpu("AuthenticAMD", 25, 1, "avx2")), "zen3");
        assert_eq!(name(&cpu("GenuineIntel", 6, 143, "amx_tile")), "xeon-amx");
        assert_eq!(
            name(&cpu("GenuineIntel", 6, 85, "avx512_vnni")),
            "cascade-lake"
        );
    }

    #[test]
    fn others_have_the_name_of_the_processor() {
        assert_eq!(name(&cpu("GenuineIntel", 6, 85, "avx2")), "a-name-r-7");
        assert_eq!(name(""), "unknown");
    }
}
