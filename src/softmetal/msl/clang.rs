//! The compiler, found at run time: the device works without one, only Metal sources do not.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::error::Error;

/// The oldest clang that rounds each operation on `_Float16` (-fexcess-precision=16).
const OLDEST: u32 = 16;
const NEWEST_TRIED: u32 = 40;

const INSTALL: &str = "Install one:
  Debian, Ubuntu  apt install clang
  Fedora          dnf install clang
  Arch            pacman -S clang
  macOS           xcode-select --install
or name one in IRONBRIDGE_CLANG.";

/// A clang that can compile kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clang {
    path: PathBuf,
    /// The first line of `clang --version`, which tells builds of one version apart.
    pub version: String,
}

/// What a run of the compiler gave.
pub struct Run {
    pub success: bool,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Clang {
    /// The clang that `IRONBRIDGE_CLANG` names, else the newest one on the path.
    pub fn find() -> Result<Clang, Error> {
        if let Some(named) = env::var_os("IRONBRIDGE_CLANG").filter(|value| !value.is_empty()) {
            return Clang::probe(Path::new(&named)).map_err(|why| {
                Error::NoCompiler(format!(
                    "IRONBRIDGE_CLANG={}: {why}",
                    named.to_string_lossy()
                ))
            });
        }
        let folders: Vec<PathBuf> = env::var_os("PATH")
            .map(|path| env::split_paths(&path).collect())
            .unwrap_or_default();
        let mut refused = String::new();
        let versioned = (OLDEST..=NEWEST_TRIED)
            .rev()
            .map(|version| format!("clang-{version}"));
        for name in versioned.chain([String::from("clang")]) {
            let Some(path) = folders
                .iter()
                .map(|folder| folder.join(&name))
                .find(|path| path.is_file())
            else {
                continue;
            };
            match Clang::probe(&path) {
                Ok(clang) => return Ok(clang),
                Err(why) => refused += &format!("{}: {why}\n", path.display()),
            }
        }
        Err(Error::NoCompiler(format!(
            "compiling Metal source on this device needs clang {OLDEST} or newer, and none was found.\n{refused}{INSTALL}"
        )))
    }

    /// Asks a compiler who it is, once per path and process.
    fn probe(path: &Path) -> Result<Clang, String> {
        static KNOWN: Mutex<Vec<Clang>> = Mutex::new(Vec::new());
        let mut known = KNOWN
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(clang) = known.iter().find(|clang| clang.path == path) {
            return Ok(clang.clone());
        }
        let output = Command::new(path)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot be run: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().unwrap_or("").trim();
        if !output.status.success() || !version.contains("clang version") {
            return Err(String::from("is not clang"));
        }
        let number = version
            .split("clang version ")
            .nth(1)
            .and_then(|rest| rest.split('.').next())
            .and_then(|major| major.parse::<u32>().ok());
        // Apple counts its own way: 16 is LLVM 17.
        if number.is_none_or(|number| number < OLDEST) {
            return Err(format!("{version} is older than {OLDEST}"));
        }
        let clang = Clang {
            path: path.to_path_buf(),
            version: String::from(version),
        };
        known.push(clang.clone());
        Ok(clang)
    }

    /// Runs the compiler on `input`, which it reads as its standard input.
    pub fn run(&self, arguments: &[OsString], input: &str) -> Result<Run, Error> {
        let failed = |error| Error::host(self.path.display(), error);
        let mut child = Command::new(&self.path)
            .args(arguments)
            .env("LC_ALL", "C")
            // A caller's include path has no part in a Metal source.
            .env_remove("CPATH")
            .env_remove("CPLUS_INCLUDE_PATH")
            .env_remove("CCC_OVERRIDE_OPTIONS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A compiler that stops reading early says why on its standard error.
                if let Some(stdin) = &mut stdin {
                    let _ = stdin.write_all(input.as_bytes());
                }
                drop(stdin);
            });
            child.wait_with_output()
        })
        .map_err(failed)?;
        Ok(Run {
            success: output.status.success(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
