//! `ironbridge metal check`

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use clap::Args;
use ironbridge::Device;
use ironbridge::kernel::Library;
use serde_json::{Value as Json, json};

use super::compile::CompileOptions;
use super::finding::{self, Finding, Rule, Sources};
use super::sarif;
use super::trial::{self, Load};
use crate::output;

#[derive(Args)]
pub struct CheckArguments {
    /// Metal sources
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    compile: CompileOptions,
    /// Check this kernel alone; may be given several times
    #[arg(long, value_name = "NAME")]
    kernel: Vec<String>,
    /// Check at most this number of kernels of a file, spread over its list
    #[arg(long, value_name = "N")]
    most: Option<usize>,
    /// What each file is to compile for: cpu; apple7, by the rules of Apple's compiler that we know; nvptx, kernel by
    /// kernel for NVIDIA's GPUs, which takes no GPU
    #[arg(
        long,
        value_enum,
        value_name = "TARGET",
        value_delimiter = ',',
        default_value = "cpu"
    )]
    target: Vec<Target>,
    /// Also run each kernel, in every order of threads, with every memory access checked
    #[arg(long)]
    run: bool,
    #[command(flatten)]
    load: Load,
    /// With --run: which threads go first: forward, reverse or random:SEED
    #[arg(
        long,
        value_name = "ORDER",
        value_delimiter = ',',
        default_value = "forward,reverse,random:0"
    )]
    orders: Vec<String>,
    /// With --run: seconds that one kernel may take
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Fail on warnings as on errors
    #[arg(long)]
    strict: bool,
    /// Files, and kernels of a file, to compile at once; else as many as there are processors
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Write the findings into this file, too, as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
}

impl CheckArguments {
    fn jobs(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(processors)
    }
}

/// What a file is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    Cpu,
    Apple7,
    Nvptx,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Cpu => "cpu",
            Target::Apple7 => "apple7",
            Target::Nvptx => "nvptx",
        }
    }

    /// The device that compiles for it.
    fn open(self) -> ironbridge::Result<Device> {
        Device::open(match self {
            Target::Cpu => "cpu",
            Target::Apple7 => "cpu:strict=apple,gpu=apple7",
            Target::Nvptx => "cpu:strict=no,also=nvptx",
        })
    }
}

/// What became of a file.
struct Report {
    file: String,
    /// Kernels that the source defines; `None`: it does not compile.
    listed: Option<usize>,
    kernels: Vec<KernelReport>,
    findings: Vec<Finding>,
}

struct KernelReport {
    name: String,
    /// For every target.
    compiled: bool,
    /// `None`: it does not compile for the CPU.
    arguments: Option<Json>,
    /// With --run, and when it compiles: whether every run ended well.
    ran: Option<bool>,
}

pub fn run(arguments: &CheckArguments) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.run && !arguments.target.contains(&Target::Cpu) {
        return Err("--run needs the target cpu".into());
    }
    // What is wrong for the CPU is wrong for all, and is told once.
    let targets = [Target::Cpu, Target::Apple7, Target::Nvptx];
    let devices: Vec<(Target, Device)> = targets
        .into_iter()
        .filter(|target| arguments.target.contains(target))
        .map(|target| Ok((target, target.open()?)))
        .collect::<ironbridge::Result<_>>()?;
    let mut out = output::stdout();
    let mut reports = Vec::new();
    let mut sources = Sources::default();
    let check = |file: &PathBuf| check(arguments, &devices, file).map_err(|it| it.to_string());
    each_in_order(arguments.jobs(), &arguments.files, check, |_, checked| {
        let report = checked?;
        if !arguments.json {
            report.print(&mut sources);
        }
        reports.push(report);
        Ok(())
    })?;
    let findings: Vec<Finding> = reports.iter().flat_map(|it| it.findings.clone()).collect();
    if let Some(path) = &arguments.sarif {
        let text = format!("{:#}\n", sarif::report(&findings));
        fs::write(path, text).map_err(|it| format!("cannot write {}: {it}", path.display()))?;
    }
    match arguments.json {
        true => writeln!(out, "{:#}", json(&reports))?,
        false => write_summary(&reports, arguments.run, &mut out)?,
    }
    let fails = |finding: &Finding| finding.rule.is_error() || arguments.strict;
    Ok(match findings.iter().any(fails) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Does `work` on the items, `jobs` of them at once, and hands what came of it to `done`, in the items' order. Once
/// `done` fails, no further item is begun.
fn each_in_order<Item: Sync, Made: Send>(
    jobs: usize,
    items: &[Item],
    work: impl Fn(&Item) -> Made + Sync,
    mut done: impl FnMut(usize, Made) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(index)
                    && sender.send((index, work(item))).is_ok()
                {}
            });
        }
        drop(sender);
        let (mut early, mut wanted) = (BTreeMap::new(), 0);
        for (index, made) in receiver {
            early.insert(index, made);
            while let Some(made) = early.remove(&wanted) {
                done(wanted, made)?;
                wanted += 1;
            }
        }
        Ok(())
    })
}

/// # Errors
/// What is no mistake of the file's, such as no compiler.
fn check(
    arguments: &CheckArguments,
    devices: &[(Target, Device)],
    path: &Path,
) -> Result<Report, Box<dyn Error>> {
    let mut whole: Option<Report> = None;
    for (target, device) in devices {
        let mut report = check_for(*target, arguments, device, path)?;
        let known = whole.iter().flat_map(|it| &it.findings);
        let known: Vec<Finding> = known.cloned().collect();
        report.findings.retain(|it| !known.contains(it));
        if *target == Target::Nvptx {
            // The source itself is right. What a target lacks is the first error, and the others follow from it.
            report
                .findings
                .dedup_by(|it, first| it.kernel == first.kernel);
        }
        if *target != Target::Cpu {
            let name = target.name();
            for finding in &mut report.findings {
                finding.message += &format!(" (target {name})");
            }
        }
        match &mut whole {
            None => whole = Some(report),
            Some(whole) => whole.add(report),
        }
    }
    whole.ok_or_else(|| "no target".into())
}

fn check_for(
    target: Target,
    arguments: &CheckArguments,
    device: &Device,
    path: &Path,
) -> Result<Report, Box<dyn Error>> {
    let mut report = Report {
        file: path.display().to_string(),
        listed: None,
        kernels: Vec::new(),
        findings: Vec::new(),
    };
    let library = match arguments.compile.library(device, path) {
        Ok(library) => library,
        Err(error) => {
            report.findings = of_source(error, path)?;
            return Ok(report);
        }
    };
    let names = library.kernel_names()?;
    report.listed = Some(names.len());
    let names = chosen(arguments, &names);
    match (target, arguments.run) {
        // Apple's rules are about sources. What a kernel's constants are is not known here.
        (Target::Apple7, _) => {}
        (Target::Cpu, true) => try_kernels(arguments, path, &names, &mut report)?,
        _ => compile_kernels(arguments, &library, path, &names, &mut report)?,
    }
    report.place_and_merge();
    Ok(report)
}

fn compile_kernels(
    arguments: &CheckArguments,
    library: &Library,
    path: &Path,
    names: &[String],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let constants = arguments.compile.constants();
    let compile = |name: &String| match library.kernel_with(name, &constants) {
        Ok(kernel) => {
            let wanted = kernel.arguments()?.iter().map(trial::describe).collect();
            Ok((Some(wanted), Vec::new()))
        }
        Err(ironbridge::Error::Compile(failure)) => {
            Ok((None, finding::of_text(failure.message(), path, Some(name))))
        }
        Err(other) => Err(other),
    };
    // What the other files leave of the jobs.
    let jobs = arguments.jobs() / arguments.files.len().max(1);
    each_in_order(jobs, names, compile, |index, compiled| {
        let (wanted, findings): (Option<Json>, _) = compiled?;
        report.findings.extend(findings);
        report.kernels.push(KernelReport {
            name: names[index].clone(),
            compiled: wanted.is_some(),
            arguments: wanted,
            ran: None,
        });
        Ok(())
    })
}

/// The findings of a file that cannot be read or does not compile; an error of this machine stays one.
fn of_source(error: Box<dyn Error>, path: &Path) -> Result<Vec<Finding>, Box<dyn Error>> {
    let text = match error.downcast::<ironbridge::Error>() {
        Ok(error) => match *error {
            ironbridge::Error::Compile(failure) => String::from(failure.message()),
            error @ ironbridge::Error::Text { .. } => error.to_string(),
            other => return Err(other.into()),
        },
        Err(other) => other.to_string(),
    };
    Ok(finding::of_text(&text, path, None))
}

/// The kernels to check, in the order of the source.
fn chosen(arguments: &CheckArguments, names: &[String]) -> Vec<String> {
    let wanted = |name: &&String| arguments.kernel.is_empty() || arguments.kernel.contains(name);
    let names: Vec<String> = names.iter().filter(wanted).cloned().collect();
    match arguments.most {
        Some(most) if most < names.len() => {
            let at = |index: usize| names[index * names.len() / most].clone();
            (0..most).map(at).collect()
        }
        _ => names,
    }
}

/// Compiles the kernels and runs them in each order, and compares what they wrote. What does not compile, or fails in
/// one order, is not tried in the next: its first failure is the one that is told.
fn try_kernels(
    arguments: &CheckArguments,
    path: &Path,
    names: &[String],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let mut all: BTreeMap<String, Vec<(&str, Outcome)>> = BTreeMap::new();
    let mut names_left = names.to_vec();
    for order in &arguments.orders {
        for (name, outcome) in trials(arguments, path, &names_left, order)? {
            all.entry(name).or_default().push((order, outcome));
        }
        let ended = |name: &String| {
            let last = all.get(name).and_then(|outcomes| outcomes.last());
            matches!(last, Some((_, Outcome::Ended { .. })))
        };
        names_left.retain(ended);
    }
    for name in names {
        let outcomes = all.remove(name).unwrap_or_default();
        let finding = |rule, message| Finding {
            rule,
            file: report.file.clone(),
            line: 0,
            column: 0,
            message,
            kernel: Some(name.clone()),
        };
        let (mut wanted, mut fault, mut refused) = (None, None, Vec::new());
        let mut digests: Vec<(&str, &str)> = Vec::new();
        for (order, outcome) in &outcomes {
            match outcome {
                Outcome::Refused(text) => refused = finding::of_text(text, path, Some(name)),
                Outcome::Ended { arguments, digest } => {
                    wanted = Some(arguments.clone());
                    digests.push((order, digest));
                }
                Outcome::Fault { arguments, text } => {
                    wanted = Some(arguments.clone());
                    fault = fault.or_else(|| Some(format!("{text} (threads {order})")));
                }
            }
        }
        let other = digests.iter().find(|(_, digest)| *digest != digests[0].1);
        let found = match (fault, other) {
            (Some(text), _) => Some(finding(Rule::Fault, text)),
            (None, Some((order, _))) => Some(finding(
                Rule::LaneOrder,
                format!(
                    "it writes something else when its threads go {order} than {}: a barrier may be missing, \
                     or it reads threadgroup memory that nobody wrote",
                    digests[0].0
                ),
            )),
            (None, None) => None,
        };
        let faulty = found.as_ref().is_some_and(|it| it.rule == Rule::Fault);
        report.kernels.push(KernelReport {
            name: name.clone(),
            compiled: wanted.is_some(),
            ran: wanted.as_ref().map(|_| !faulty),
            arguments: wanted,
        });
        report.findings.extend(refused);
        report.findings.extend(found);
    }
    Ok(())
}

enum Outcome {
    /// It does not compile.
    Refused(String),
    /// It ended, and left this in its buffers.
    Ended {
        arguments: Json,
        digest: String,
    },
    Fault {
        arguments: Json,
        text: String,
    },
}

impl Outcome {
    /// Of a line of `trial`.
    fn read(line: &Json) -> Outcome {
        let text = |name: &str| line[name].as_str().map(String::from);
        let arguments = line["arguments"].clone();
        match (text("refused"), text("digest"), text("fault")) {
            (Some(text), ..) => Outcome::Refused(text),
            (_, Some(digest), _) => Outcome::Ended { arguments, digest },
            (.., fault) => Outcome::Fault {
                arguments,
                text: fault.unwrap_or_else(|| String::from("it failed")),
            },
        }
    }
}

/// Runs kernels of a file in processes of their own: in one, until a kernel takes it along.
fn trials(
    arguments: &CheckArguments,
    path: &Path,
    names: &[String],
    order: &str,
) -> Result<Vec<(String, Outcome)>, Box<dyn Error>> {
    let mut outcomes: Vec<(String, Outcome)> = Vec::new();
    while outcomes.len() < names.len() {
        let left = &names[outcomes.len()..];
        let before = outcomes.len();
        let (begun, status, said) = trial(arguments, path, left, order, &mut outcomes)?;
        if outcomes.len() == names.len() {
            break;
        }
        match begun {
            Some(name) => {
                let text = format!("it ended the process that ran it: {status}");
                let arguments = Json::Null;
                outcomes.push((name, Outcome::Fault { arguments, text }));
            }
            None if outcomes.len() == before => {
                return Err(format!("the trial ended by itself, {status}: {}", said.trim()).into());
            }
            None => {}
        }
    }
    Ok(outcomes)
}

/// One process. The kernel that it had begun and not ended, how it ended, and its last words.
fn trial(
    arguments: &CheckArguments,
    path: &Path,
    names: &[String],
    order: &str,
    outcomes: &mut Vec<(String, Outcome)>,
) -> Result<(Option<String>, ExitStatus, String), Box<dyn Error>> {
    let extents = |it: [u32; 3]| format!("{},{},{}", it[0], it[1], it[2]);
    let load = &arguments.load;
    // What a command line has room for.
    const MOST: usize = 256;
    let names = &names[..names.len().min(MOST)];
    let mut child = Command::new(std::env::current_exe()?)
        .args(["metal", "trial"])
        .args(arguments.compile.arguments())
        .arg(format!("--bytes={}", load.bytes))
        .arg(format!("--fill={}", load.fill.text))
        .args(
            load.pointers
                .iter()
                .map(|it| format!("--pointers={}", it.text)),
        )
        .arg(format!("--texture={},{}", load.texture[0], load.texture[1]))
        .arg(format!("--grid={}", extents(load.grid)))
        .arg(format!("--threads={}", extents(load.threads)))
        .args(names.iter().map(|name| format!("--kernel={name}")))
        .arg("--")
        .arg(path)
        .env("IRONBRIDGE_SOFT_VALIDATE", "1")
        .env("IRONBRIDGE_SOFT_LANE_ORDER", order)
        .env("IRONBRIDGE_SOFT_TIMEOUT", arguments.timeout.to_string())
        .env(
            "IRONBRIDGE_SOFT_DISPATCH_TIMEOUT",
            arguments.timeout.to_string(),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take();
    let said = thread::spawn(move || {
        let mut said = Vec::new();
        let most = 4096;
        if let Some(stderr) = stderr {
            let mut stderr = stderr;
            // What is too much is read and dropped: nobody else empties the pipe.
            let _ = stderr.by_ref().take(most).read_to_end(&mut said);
            let _ = io::copy(&mut stderr, &mut io::sink());
        }
        String::from_utf8_lossy(&said).into_owned()
    });
    let mut begun = None;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line: Json = serde_json::from_str(&line?)?;
            if let Some(name) = line["begins"].as_str() {
                begun = Some(String::from(name));
            } else if let Some(name) = line["kernel"].as_str() {
                begun = None;
                outcomes.push((String::from(name), Outcome::read(&line)));
            }
        }
    }
    let status = child.wait()?;
    Ok((begun, status, said.join().unwrap_or_default()))
}

impl Report {
    /// Adds what was found for another target.
    fn add(&mut self, other: Report) {
        self.listed = self.listed.and(other.listed);
        for kernel in other.kernels {
            match self.kernels.iter_mut().find(|it| it.name == kernel.name) {
                Some(known) => known.compiled &= kernel.compiled,
                None => self.kernels.push(kernel),
            }
        }
        self.findings.extend(other.findings);
    }

    /// Gives findings of a kernel without a place that of the kernel, and leaves one of those that say the same.
    fn place_and_merge(&mut self) {
        let mut sources = Sources::default();
        for finding in self.findings.iter_mut().filter(|it| it.line == 0) {
            if let Some(kernel) = &finding.kernel {
                finding.line = sources.first_line_with(&finding.file, kernel);
            }
        }
        let mut known = HashSet::new();
        self.findings.retain(|it| {
            let place = (it.file.clone(), it.line, it.column, it.message.clone());
            it.rule != Rule::Compile || known.insert(place)
        });
    }

    fn print(&self, sources: &mut Sources) {
        for finding in &self.findings {
            finding.print(sources);
        }
    }

    fn json(&self) -> Json {
        let kernel = |it: &KernelReport| {
            json!({
                "name": it.name,
                "compiled": it.compiled,
                "arguments": it.arguments,
                "ran": it.ran,
            })
        };
        json!({
            "file": self.file,
            "compiled": self.listed.is_some(),
            "kernels_listed": self.listed,
            "kernels": self.kernels.iter().map(kernel).collect::<Vec<_>>(),
            "findings": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }
}

/// Counts over all files.
#[derive(Default)]
struct Summary {
    files: usize,
    files_compiled: usize,
    kernels: usize,
    kernels_compiled: usize,
    kernels_clean: usize,
    errors: usize,
    warnings: usize,
}

impl Summary {
    fn of(reports: &[Report]) -> Summary {
        let kernels = || reports.iter().flat_map(|it| &it.kernels);
        let findings = || reports.iter().flat_map(|it| &it.findings);
        Summary {
            files: reports.len(),
            files_compiled: reports.iter().filter(|it| it.listed.is_some()).count(),
            kernels: kernels().count(),
            kernels_compiled: kernels().filter(|it| it.compiled).count(),
            kernels_clean: kernels().filter(|it| it.ran == Some(true)).count(),
            errors: findings().filter(|it| it.rule.is_error()).count(),
            warnings: findings().filter(|it| !it.rule.is_error()).count(),
        }
    }
}

fn json(reports: &[Report]) -> Json {
    let summary = Summary::of(reports);
    json!({
        "files": reports.iter().map(Report::json).collect::<Vec<_>>(),
        "summary": {
            "files": summary.files,
            "files_compiled": summary.files_compiled,
            "kernels": summary.kernels,
            "kernels_compiled": summary.kernels_compiled,
            "kernels_clean": summary.kernels_clean,
            "errors": summary.errors,
            "warnings": summary.warnings,
        },
    })
}

fn write_summary(reports: &[Report], ran: bool, out: &mut impl Write) -> io::Result<()> {
    let it = Summary::of(reports);
    write!(
        out,
        "{} of {} files compile, and {} of {} kernels",
        it.files_compiled, it.files, it.kernels_compiled, it.kernels
    )?;
    if ran {
        write!(out, "; {} kernels ran clean", it.kernels_clean)?;
    }
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (errors, warnings) = (plural(it.errors), plural(it.warnings));
    writeln!(
        out,
        "; {} error{errors}, {} warning{warnings}",
        it.errors, it.warnings
    )
}
