//! The compiler, found at run time: the device works without one, only Metal sources do not.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::error::Error;
use super::limits::Limits;
use super::process::{self, Failed, Run};

/// The oldest clang that rounds each operation on `_Float16` (-fexcess-precision=16).
const OLDEST: u32 = 16;
/// The same by the numbers of Apple's own clang: its 15 is LLVM 16.
const OLDEST_OF_APPLE: u32 = 15;
const NEWEST_TRIED: u32 = 40;

const INSTALL: &str = "Install one:
  Debian, Ubuntu  apt install clang (Debian 12: clang-19)
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

/// What the compiler's environment is without, or with: a caller's include path has no part in a Metal source,
/// messages are English, and a crash is not explained by more programs.
const ENVIRONMENT: [(&str, Option<&str>); 6] = [
    ("LC_ALL", Some("C")),
    ("LLVM_DISABLE_SYMBOLIZATION", Some("1")),
    ("CPATH", None),
    ("CPLUS_INCLUDE_PATH", None),
    ("CCC_OVERRIDE_OPTIONS", None),
    ("DEPENDENCIES_OUTPUT", None),
];

impl Clang {
    /// The clang that `IRONBRIDGE_CLANG` names, else the newest one on the path.
    pub fn find() -> Result<Clang, Error> {
        let named = env::var_os("IRONBRIDGE_CLANG").filter(|value| !value.is_empty());
        Clang::choose(named, &env::var_os("PATH").unwrap_or_default())
    }

    fn choose(named: Option<OsString>, path: &OsStr) -> Result<Clang, Error> {
        if let Some(named) = named {
            return Clang::probe(Path::new(&named)).map_err(|why| {
                Error::NoCompiler(format!(
                    "IRONBRIDGE_CLANG={}: {why}",
                    named.to_string_lossy()
                ))
            });
        }
        let folders: Vec<PathBuf> = env::split_paths(path).collect();
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
        let arguments = [OsString::from("--version")];
        let run = process::run(path, &arguments, &ENVIRONMENT, b"", &Limits::default());
        let run = run.map_err(|failed| match failed {
            Failed::System(error) => format!("cannot be run: {error}"),
            Failed::TooSlow | Failed::TooMuch => String::from("does not say who it is"),
        })?;
        let text = String::from_utf8_lossy(&run.stdout);
        let version = text.lines().next().unwrap_or("").trim();
        if !run.success || !version.contains("clang version") {
            return Err(String::from("is not clang"));
        }
        let number = version
            .split("clang version ")
            .nth(1)
            .and_then(|rest| rest.split('.').next())
            .and_then(|major| major.parse::<u32>().ok());
        let oldest = match version.starts_with("Apple clang") {
            true => OLDEST_OF_APPLE,
            false => OLDEST,
        };
        if number.is_none_or(|number| number < oldest) {
            return Err(format!("{version} is older than {oldest}"));
        }
        let clang = Clang {
            path: path.to_path_buf(),
            version: String::from(version),
        };
        known.push(clang.clone());
        Ok(clang)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the compiler on `input`, which it reads as its standard input. A run that a limit ended is an error, and
    /// so is a crash; a source with mistakes is neither.
    pub fn run(&self, arguments: &[OsString], input: &str, limits: &Limits) -> Result<Run, Error> {
        let run = process::run(
            &self.path,
            arguments,
            &ENVIRONMENT,
            input.as_bytes(),
            limits,
        );
        let run = run.map_err(|failed| match failed {
            Failed::TooSlow => limits.too_slow(),
            Failed::TooMuch => Error::Limit(format!(
                "what the Metal compiler makes of this source has more than {} MiB",
                process::MOST_OUTPUT >> 20
            )),
            Failed::System(error) => Error::host(self.path.display(), error),
        })?;
        if run.success {
            return Ok(run);
        }
        // What LLVM prints by itself; the messages about a source begin with its name.
        let says = |words: &[&str]| {
            let mut lines = run.stderr.lines();
            lines.any(|line| words.iter().any(|word| line.starts_with(word)))
        };
        let out_of_memory = [
            "LLVM ERROR: out of memory",
            "terminate called after throwing an instance of 'std::bad_alloc'",
        ];
        if says(&out_of_memory) {
            return Err(limits.too_hungry());
        }
        // It may crash over an error that it has told.
        let is_error = |line: &str| {
            let place = line.split_once(": error: ").map(|(place, _)| place);
            let number = place.and_then(|place| place.rsplit(':').next());
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        let told = run.stderr.lines().any(is_error);
        match run.signal {
            Some(libc::SIGXCPU) => Err(limits.too_slow()),
            _ if told => Ok(run),
            Some(_) => Err(Error::crash()),
            None if says(&["PLEASE submit a bug report", "Stack dump"]) => Err(Error::crash()),
            None => Ok(run),
        }
    }

    /// Runs the one program that clang would run for `arguments`, such as the linker, and tells whether it succeeded.
    /// Clang names it when it is first asked; later runs differ in these files alone.
    pub fn runs_the_same(
        &self,
        arguments: &[OsString],
        files: [&Path; 2],
        limits: &Limits,
    ) -> bool {
        static KNOWN: Mutex<Vec<(PathBuf, Vec<Word>)>> = Mutex::new(Vec::new());
        let mut known = KNOWN
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let command = match known.iter().find(|(path, _)| *path == self.path) {
            Some((_, command)) => command.clone(),
            None => {
                let words = self.command(arguments, limits).unwrap_or_default();
                let command: Vec<Word> = words
                    .into_iter()
                    .map(|word| match files.iter().position(|file| *file == *word) {
                        Some(file) => Word::File(file),
                        None => Word::Same(word),
                    })
                    .collect();
                known.push((self.path.clone(), command.clone()));
                command
            }
        };
        drop(known);
        let Some((Word::Same(program), arguments)) = command.split_first() else {
            return false;
        };
        let arguments: Vec<OsString> = arguments
            .iter()
            .map(|word| match word {
                Word::Same(word) => word.clone(),
                Word::File(file) => files[*file].into(),
            })
            .collect();
        let run = process::run(Path::new(program), &arguments, &ENVIRONMENT, b"", limits);
        run.is_ok_and(|run| run.success)
    }

    /// The words of the only command that clang would run.
    fn command(&self, arguments: &[OsString], limits: &Limits) -> Option<Vec<OsString>> {
        let mut asked = vec![OsString::from("-###")];
        asked.extend_from_slice(arguments);
        let run = self
            .run(&asked, "", limits)
            .ok()
            .filter(|run| run.success)?;
        let mut commands = run.stderr.lines().filter(|line| line.starts_with(" \""));
        let command = words(commands.next()?)?;
        commands.next().is_none().then_some(command)
    }
}

/// Of a command that is run again with other files.
#[derive(Clone)]
enum Word {
    Same(OsString),
    File(usize),
}

/// The words of a command as `clang -###` prints it: each in quotes, with a backslash before what has a meaning there.
fn words(line: &str) -> Option<Vec<OsString>> {
    let mut words = Vec::new();
    let mut rest = line.chars();
    while let Some(first) = rest.find(|c| *c != ' ') {
        if first != '"' {
            return None;
        }
        let mut word = String::new();
        loop {
            match rest.next()? {
                '"' => break,
                '\\' => word.push(rest.next()?),
                other => word.push(other),
            }
        }
        words.push(word.into());
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A folder with programs of these names that print these versions.
    fn folder(programs: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, version) in programs {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\necho '{version}'\n")).expect("a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable");
        }
        folder
    }

    #[test]
    fn the_newest_that_is_new_enough_is_chosen() {
        let programs = [
            ("clang", "clang version 14.0.6"),
            ("clang-17", "Debian clang version 17.0.6"),
            ("clang-18", "something else"),
            ("clang-16", "clang version 16.0.0"),
        ];
        let folder = folder(&programs);
        let clang = Clang::choose(None, folder.path().as_os_str()).expect("there is one");
        assert_eq!(clang.path, folder.path().join("clang-17"));
        assert_eq!(clang.version, "Debian clang version 17.0.6");
    }

    #[test]
    fn a3_apple_counts_its_own_way() {
        for (version, is_taken) in [
            ("Apple clang version 15.0.0 (clang-1500.3.9.4)", true),
            ("Apple clang version 14.0.3 (clang-1403.0.22.14.1)", false),
            ("clang version 15.0.7", false),
        ] {
            let folder = folder(&[("clang", version)]);
            let chosen = Clang::choose(None, folder.path().as_os_str());
            assert_eq!(chosen.is_ok(), is_taken, "{version}: {chosen:?}");
        }
    }

    #[test]
    fn without_one_the_error_says_what_to_install() {
        for programs in [&[][..], &[("clang", "clang version 14.0.6")]] {
            let folder = folder(programs);
            let error = Clang::choose(None, folder.path().as_os_str()).expect_err("there is none");
            let text = error.to_string();
            assert!(
                text.contains("needs clang 16 or newer") && text.contains("apt install clang"),
                "{text}"
            );
            assert_eq!(
                text.contains("clang version 14.0.6 is older"),
                !programs.is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn commands_are_read_as_clang_prints_them() {
        let read = words(r#" "/usr/bin/ld" "a b" "" "say \"\\\$\"""#).expect("words");
        assert_eq!(read, ["/usr/bin/ld", "a b", "", r#"say "\$""#]);
        for line in [r#" "ld" plain"#, r#" "ld"#] {
            assert_eq!(words(line), None, "{line}");
        }
    }

    #[test]
    fn an_error_that_is_told_before_a_crash_is_the_sources() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("clang");
        let run = |said: &str| {
            let script = format!(
                "#!/bin/sh\ncase $1 in --version) echo clang version 99.0; exit;; esac\n\
                 echo '{said}' >&2\necho 'PLEASE submit a bug report' >&2\nexit 1\n"
            );
            fs::write(&path, script).expect("a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable");
            let clang = Clang::choose(Some(path.clone().into_os_string()), OsStr::new(""));
            let clang = clang.expect("it says that it is clang");
            clang.run(&[OsString::from("-c")], "", &Limits::default())
        };
        let told = run("program_source:3:1: error: no such name");
        assert!(told.is_ok_and(|run| !run.success && run.stderr.contains("no such name")));
        let crash = run("clang: error: clang frontend command failed");
        assert!(crash.is_err_and(|error| error.to_string().contains("crashed")));
    }

    #[test]
    fn a_named_one_is_taken_or_is_an_error() {
        let folder = folder(&[("mine", "clang version 99.0"), ("other", "gcc 12")]);
        let named = |name: &str| {
            Clang::choose(
                Some(folder.path().join(name).into_os_string()),
                OsStr::new(""),
            )
        };
        assert_eq!(
            named("mine").expect("it is clang").version,
            "clang version 99.0"
        );
        for (name, why) in [("other", "is not clang"), ("none", "cannot be run")] {
            let error = named(name).expect_err(name).to_string();
            assert!(
                error.starts_with("IRONBRIDGE_CLANG=") && error.contains(why),
                "{error}"
            );
        }
    }
}
