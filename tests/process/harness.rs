//! A test harness that runs each case in a process of its own: the program calls itself with `--case NAME`.
//!
//! It takes those arguments of Rust's own harness that cargo, cargo-nextest and people use: filters, `--exact`,
//! `--skip`, `--list`, `--nocapture`, `--test-threads`.

use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{env, thread};

/// A name as Rust's harness would give it, but for the crate in front, and what is run.
pub type Case = (&'static str, fn());

/// Makes a module's `CASES` of its functions.
macro_rules! cases {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        pub const CASES: &[$crate::harness::Case] = &[
            $($(#[$attribute])* (concat!(module_path!(), "::", stringify!($name)), $name as fn())),*
        ];
    };
}
pub(crate) use cases;

/// Cases that may run beside each other, or not.
pub struct Group {
    cases: &'static [Case],
    alone: bool,
}

impl Group {
    pub const fn together(cases: &'static [Case]) -> Group {
        Group {
            cases,
            alone: false,
        }
    }

    /// Nothing else runs meanwhile.
    pub const fn alone(cases: &'static [Case]) -> Group {
        Group { cases, alone: true }
    }
}

/// A call of this program that runs one case and nothing else. `name` is what `--list` prints.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("a running program has a path"));
    command.args(["--case", name]);
    command
}

/// `module::case`, without the name of this program's crate.
fn name(case: &Case) -> &'static str {
    case.0.split_once("::").map_or(case.0, |(_, name)| name)
}

#[derive(Default)]
struct Options {
    filters: Vec<String>,
    skips: Vec<String>,
    exact: bool,
    list: bool,
    /// The tests that are ignored: there are none.
    ignored: bool,
    shown: bool,
    threads: Option<usize>,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            let (key, value) = match argument.split_once('=') {
                Some((key, value)) if key.starts_with("--") => (key, Some(value)),
                _ => (argument, None),
            };
            let mut value = || {
                value
                    .or_else(|| rest.next())
                    .ok_or_else(|| format!("{key} needs a value"))
            };
            match key {
                "--exact" => options.exact = true,
                "--list" => options.list = true,
                "--ignored" => options.ignored = true,
                "--nocapture" | "--no-capture" => options.shown = true,
                "--include-ignored" | "--quiet" | "-q" | "--show-output" => {}
                "--format" | "--color" => drop(value()?),
                "--skip" => options.skips.push(value()?.into()),
                "--test-threads" => {
                    let text = value()?;
                    let threads = text.parse().map_err(|_| format!("{key} is {text:?}"))?;
                    options.threads = Some(threads);
                }
                _ if key.starts_with('-') => return Err(format!("there is no option {argument}")),
                _ => options.filters.push(argument.into()),
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        let hits = |filter: &String| match self.exact {
            true => name == filter,
            false => name.contains(filter.as_str()),
        };
        !self.ignored
            && (self.filters.is_empty() || self.filters.iter().any(hits))
            && !self.skips.iter().any(hits)
    }

    fn threads(&self) -> usize {
        let variable = env::var("RUST_TEST_THREADS").ok();
        let wanted = self.threads.or_else(|| variable?.parse().ok());
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        wanted.unwrap_or_else(processors).max(1)
    }
}

/// What the arguments ask for.
pub fn run(groups: &[Group], arguments: &[String]) -> ExitCode {
    let cases = || groups.iter().flat_map(|group| group.cases);
    if let [option, wanted] = arguments
        && option == "--case"
    {
        let case = cases().find(|case| name(case) == wanted);
        return play(case.unwrap_or_else(|| panic!("there is no case {wanted:?}")));
    }
    let options = match Options::read(arguments) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("error: {text}");
            return ExitCode::from(101);
        }
    };
    if options.list {
        cases()
            .map(name)
            .filter(|name| options.wants(name))
            .for_each(|name| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted = |alone: bool| -> Vec<&'static str> {
        let groups = groups.iter().filter(|group| group.alone == alone);
        let names = groups.flat_map(|group| group.cases).map(name);
        names.filter(|name| options.wants(name)).collect()
    };
    let (together, alone) = (wanted(false), wanted(true));
    let (count, start) = (together.len() + alone.len(), Instant::now());
    println!("\nrunning {count} tests");
    let mut failures = each(&together, options.threads(), options.shown);
    failures.extend(each(&alone, 1, options.shown));
    if !failures.is_empty() {
        println!("\nfailures:\n    {}", failures.join("\n    "));
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        if failures.is_empty() { "ok" } else { "FAILED" },
        count - failures.len(),
        failures.len(),
        cases().count() - count,
        start.elapsed().as_secs_f64()
    );
    match failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(101),
    }
}

/// Runs a case in this process, on a thread as Rust's harness does.
fn play(case: &Case) -> ExitCode {
    let thread = thread::Builder::new().name(name(case).into()).spawn(case.1);
    match thread.expect("one more thread").join() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(101),
    }
}

/// Runs the cases and returns the names of those that failed.
fn each(names: &[&'static str], threads: usize, shown: bool) -> Vec<&'static str> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads.min(names.len()) {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let failure = call(name, shown);
                    match &failure {
                        None => println!("test {name} ... ok"),
                        Some(text) => println!("test {name} ... FAILED\n{text}"),
                    }
                    let mut failures = failures.lock().expect("nobody panics with it");
                    failures.extend(failure.map(|_| *name));
                }
            });
        }
    });
    failures.into_inner().expect("nobody panics with it")
}

/// What is wrong with a case, or nothing.
fn call(name: &str, shown: bool) -> Option<String> {
    let mut command = command(name);
    let (status, text) = match shown {
        true => (command.status(), String::new()),
        false => match command.output() {
            Ok(output) => {
                let text =
                    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
                (Ok(output.status), text.concat())
            }
            Err(error) => (Err(error), String::new()),
        },
    };
    match status {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("{text}{status}")),
        Err(error) => Some(error.to_string()),
    }
}
