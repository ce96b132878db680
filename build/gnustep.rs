//! Where GNUstep's Foundation and GCC's Objective-C runtime lie.
//!
//! `gnustep-config` is believed first, then pkg-config, then the folders that distributions use. The first that leads
//! to the header wins. Nothing here runs a program or reads the environment: [`System`] carries the answers, and tests
//! make them up.

use std::fs;
use std::path::{Path, PathBuf};

/// A system that the native side can be built for.
pub struct System {
    /// `/`, or the folder with another system's files.
    pub root: PathBuf,
    /// Rust's name for it, such as `x86_64-unknown-linux-gnu`.
    pub target: String,
    /// The compiler's answer to `-print-multiarch`, where it gives one.
    pub multiarch: Option<String>,
    /// The flags that `gnustep-config` prints for the compiler and the linker, or why there are none.
    pub gnustep_config: Result<String, String>,
    /// The same of pkg-config.
    pub pkg_config: Result<String, String>,
    /// The version of an installed Debian package; absent where there is no dpkg.
    pub installed: Option<fn(&str) -> Option<String>>,
}

/// GNUstep's Foundation.
#[derive(Debug, PartialEq, Eq)]
pub struct GnuStep {
    /// The folder of `Foundation/Foundation.h`.
    pub include: PathBuf,
    /// Who knew that: "gnustep-config", "pkg-config" or "search".
    pub found_by: &'static str,
    /// As its own header says, such as "1.31.1".
    pub version: String,
    /// Folders for the compiler's path, that of Foundation among them if compilers do not search it anyway.
    pub includes: Vec<PathBuf>,
    /// Folders with the library, where a tool named some.
    pub libraries: Vec<PathBuf>,
}

/// GCC's Objective-C runtime.
#[derive(Debug, PartialEq, Eq)]
pub struct Runtime {
    /// The folder of `objc.h`.
    pub headers: PathBuf,
    /// The folder of `libobjc.so`.
    pub library: PathBuf,
    /// Of the GCC that it belongs to, such as "14".
    pub version: String,
}

const FOUNDATION: &str = "Foundation/Foundation.h";
/// Who has it, for the reader of an error: Debian's package, and the others' names.
const FOUNDATION_PACKAGES: (&str, &str) = (
    "libgnustep-base-dev",
    "gnustep-base-devel on Fedora, gnustep-base on Arch",
);
const RUNTIME_ELSEWHERE: &str = "gcc-objc on Fedora and Arch";
const BLOCKS_ELSEWHERE: &str = "libblocksruntime-devel on Fedora";

/// Compilers search these by themselves. Named once more, they would move before the compiler's own headers.
const SEARCHED_ANYWAY: [&str; 2] = ["/usr/local/include", "/usr/include"];

impl GnuStep {
    pub fn find(system: &System) -> Result<GnuStep, String> {
        let mut told = String::new();
        for (tool, answer) in [
            ("gnustep-config", &system.gnustep_config),
            ("pkg-config", &system.pkg_config),
        ] {
            match answer {
                Err(why) => told += &format!("\n  {tool}: {why}"),
                Ok(text) => {
                    let flags = Flags::parse(text, &system.root);
                    if let Some(flag) = &flags.other_runtime {
                        return Err(other_runtime(&format!("{tool} answers {flag}")));
                    }
                    if let Some(include) = with_foundation(&flags.includes) {
                        return Ok(GnuStep::new(include, tool, flags, system));
                    }
                    told += &format!("\n  {tool} names {}", list(&flags.includes));
                }
            }
        }
        let searched = system.include_folders();
        match with_foundation(&searched) {
            Some(include) => Ok(GnuStep::new(include, "search", Flags::default(), system)),
            None => Err(format!(
                "{FOUNDATION}, of GNUstep, was not found.{told}\n  searched: {}\n{}",
                list(&searched),
                system.package(FOUNDATION_PACKAGES)
            )),
        }
    }

    fn new(include: PathBuf, found_by: &'static str, flags: Flags, system: &System) -> GnuStep {
        let searched_anyway: Vec<PathBuf> =
            SEARCHED_ANYWAY.map(|folder| system.path(folder)).into();
        let mut includes = vec![include.clone()];
        includes.extend(
            flags
                .includes
                .into_iter()
                .filter(|folder| *folder != include),
        );
        includes.retain(|folder| folder.is_dir() && !searched_anyway.contains(folder));
        let mut libraries = flags.libraries;
        libraries.retain(|folder| folder.join("libgnustep-base.so").exists());
        GnuStep {
            version: version(&include).unwrap_or_else(|| "unknown".into()),
            include,
            found_by,
            includes,
            libraries,
        }
    }
}

impl Runtime {
    /// The newest one that is whole: headers in GCC's folder, the library there or where all libraries are.
    pub fn find(system: &System) -> Result<Runtime, String> {
        let gcc = system.gcc_folders();
        let shared = system.library_folders();
        let headers = |folder: &Path| folder.join("include/objc");
        let with_headers: Vec<&PathBuf> = gcc
            .iter()
            .filter(|folder| headers(folder).join("objc.h").exists())
            .collect();
        let package = format!("libobjc-{}-dev", system.gcc_version().unwrap_or("N".into()));
        if with_headers.is_empty() {
            if let Some(header) = system.header_of_other_runtime() {
                return Err(other_runtime(&format!("{} is here", header.display())));
            }
            let searched: Vec<PathBuf> = gcc.iter().map(|folder| headers(folder)).collect();
            return Err(format!(
                "objc/objc.h, of GCC's Objective-C runtime, was not found.\n  searched: {}\n{}",
                match searched.is_empty() {
                    true => system.path("/usr/lib/gcc").display().to_string(),
                    false => list(&searched),
                },
                system.package((&package, RUNTIME_ELSEWHERE))
            ));
        }
        for folder in &with_headers {
            let library = std::iter::once(*folder)
                .chain(&shared)
                .find(|folder| folder.join("libobjc.so").exists());
            if let Some(library) = library {
                return Ok(Runtime {
                    headers: headers(folder),
                    library: library.clone(),
                    version: name(folder).into(),
                });
            }
        }
        let searched: Vec<PathBuf> = with_headers.into_iter().cloned().chain(shared).collect();
        Err(format!(
            "libobjc.so, GCC's Objective-C runtime, was not found.\n  searched: {}\n{}",
            list(&searched),
            system.package((&package, RUNTIME_ELSEWHERE))
        ))
    }
}

impl System {
    /// Where the absolute `path` of this system lies.
    pub fn path(&self, path: &str) -> PathBuf {
        in_root(&self.root, path)
    }

    /// What is installed of all that the build needs, and what is not.
    pub fn packages(&self) -> String {
        let runtime = format!("libobjc-{}-dev", self.gcc_version().unwrap_or("N".into()));
        [
            FOUNDATION_PACKAGES,
            (runtime.as_str(), RUNTIME_ELSEWHERE),
            ("libblocksruntime-dev", BLOCKS_ELSEWHERE),
        ]
        .map(|package| self.package(package))
        .join("\n")
    }

    /// A sentence on the package that has what was looked for.
    fn package(&self, (debian, elsewhere): (&str, &str)) -> String {
        match self.installed.map(|installed| installed(debian)) {
            Some(Some(version)) => {
                format!("{debian} {version} is installed here; `dpkg -L {debian}` lists its files.")
            }
            Some(None) => {
                format!("It is in {debian}, which is not installed here: apt install {debian}")
            }
            None => format!("It is in {debian} on Debian and Ubuntu, {elsewhere}."),
        }
    }

    /// The folders in which Foundation is looked for when no tool knows.
    fn include_folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.path("/usr/local/include/GNUstep")];
        for triplet in self.triplets() {
            folders.push(self.path(&format!("/usr/include/{triplet}/GNUstep")));
        }
        folders.push(self.path("/usr/include/GNUstep"));
        folders.extend(SEARCHED_ANYWAY.map(|folder| self.path(folder)));
        folders
    }

    /// The folders of libraries that compilers search by themselves.
    fn library_folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = self
            .triplets()
            .iter()
            .map(|triplet| self.path(&format!("/usr/lib/{triplet}")))
            .collect();
        folders.extend(["/usr/lib64", "/usr/lib"].map(|folder| self.path(folder)));
        folders
    }

    /// Debian's names for the target: the compiler's, and the one that follows from Rust's.
    fn triplets(&self) -> Vec<String> {
        let mut triplets: Vec<String> = self.multiarch.iter().cloned().collect();
        triplets.extend(multiarch(&self.target));
        triplets.dedup();
        triplets
    }

    /// GCC's folders for the target's processor, newest version first.
    fn gcc_folders(&self) -> Vec<PathBuf> {
        let mut found: Vec<(u32, PathBuf)> = folders_of(&self.path("/usr/lib/gcc"))
            .filter(|folder| processor(name(folder)) == processor(&self.target))
            .flat_map(|folder| folders_of(&folder))
            .filter_map(|folder| Some((name(&folder).split('.').next()?.parse().ok()?, folder)))
            .collect();
        found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
        found.into_iter().map(|(_, folder)| folder).collect()
    }

    /// The newest GCC that has a compiler's start-up files here.
    fn gcc_version(&self) -> Option<String> {
        let folders = self.gcc_folders();
        let compiler = folders
            .iter()
            .find(|folder| folder.join("crtbegin.o").exists())?;
        name(compiler).split('.').next().map(String::from)
    }

    /// A header that only libobjc2 has.
    fn header_of_other_runtime(&self) -> Option<PathBuf> {
        SEARCHED_ANYWAY
            .map(|folder| self.path(folder).join("objc/objc-arc.h"))
            .into_iter()
            .find(|header| header.exists())
    }
}

/// What is of use to clang among the flags that a tool prints for GCC.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Of `-I` and `-isystem`, without GCC's own folders, whose headers are not for clang.
    pub includes: Vec<PathBuf>,
    /// Of `-L`.
    pub libraries: Vec<PathBuf>,
    /// The flag that says that this GNUstep was built for libobjc2.
    pub other_runtime: Option<String>,
}

impl Flags {
    pub fn parse(text: &str, root: &Path) -> Flags {
        let mut flags = Flags::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let folder = ["-isystem", "-I", "-L"].into_iter().find_map(|option| {
                let attached = word.strip_prefix(option)?;
                let folder = match attached.is_empty() {
                    true => words.next()?,
                    false => attached,
                };
                Some((option, folder))
            });
            match folder {
                // `-I.` means the folder of a project that gnustep-make builds.
                Some((_, folder)) if !folder.starts_with('/') => {}
                Some(("-L", folder)) => add(&mut flags.libraries, in_root(root, folder)),
                Some((_, folder)) if folder.contains("/lib/gcc/") => {}
                Some((_, folder)) => add(&mut flags.includes, in_root(root, folder)),
                None if word.starts_with("-fobjc-runtime=gnustep")
                    || word == "-DGNUSTEP_RUNTIME=1" =>
                {
                    flags.other_runtime.get_or_insert(word.into());
                }
                None => {}
            }
        }
        flags
    }
}

fn add(folders: &mut Vec<PathBuf>, folder: PathBuf) {
    if !folders.contains(&folder) {
        folders.push(folder);
    }
}

fn in_root(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn with_foundation(folders: &[PathBuf]) -> Option<PathBuf> {
    let found = folders
        .iter()
        .find(|folder| folder.join(FOUNDATION).exists());
    found.cloned()
}

/// libobjc2 lays classes out in another way, and GCC's runtime cannot load them beside its own.
fn other_runtime(sign: &str) -> String {
    format!(
        "this GNUstep is built for libobjc2 ({sign}), and ironbridge's Objective-C is compiled for GCC's runtime: \
         classes of the one cannot be loaded by the other. It needs a GNUstep that is built with gcc-objc, as Debian, \
         Ubuntu and Fedora ship it, and GCC's libobjc."
    )
}

/// Debian's name for the folders of a target's files.
pub fn multiarch(target: &str) -> Option<String> {
    let (processor, system) = target.split_once('-')?;
    let abi = system.rsplit('-').next()?;
    let processor = match processor {
        "i586" | "i686" => "i386",
        "riscv64gc" => "riscv64",
        "armv7" => "arm",
        other => other,
    };
    Some(format!("{processor}-linux-{abi}"))
}

/// The processor in the name of a target or of a folder of GCC.
fn processor(target: &str) -> &str {
    match target.split('-').next().unwrap_or_default() {
        "i386" | "i586" | "i686" => "i686",
        "riscv64gc" => "riscv64",
        "armv7" | "armv7l" | "armv7hl" => "arm",
        other => other,
    }
}

/// The version in GNUstep's configuration.
fn version(include: &Path) -> Option<String> {
    let text = fs::read_to_string(include.join("GNUstepBase/GSConfig.h")).ok()?;
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let version = (words.next()? == "#define" && words.next()? == "GNUSTEP_BASE_VERSION")
            .then(|| words.next())??;
        Some(version.into())
    })
}

fn folders_of(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

fn list(folders: &[PathBuf]) -> String {
    match folders.is_empty() {
        true => "no folder".into(),
        false => {
            let names: Vec<String> = folders
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            names.join(", ")
        }
    }
}
