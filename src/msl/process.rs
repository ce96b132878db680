//! A program that is run for its output and that is bounded: in time, in memory, in what it may print and in how long
//! it may outlive this process, which on Linux is not at all.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::limits::Limits;

/// Bytes that a program may print, and that a file of its may have: a library of one kernel is a hundredth of this.
pub const MOST_OUTPUT: u64 = 64 << 20;
/// Bytes of messages that are kept; the rest is read and forgotten.
const MOST_MESSAGES: usize = 1 << 20;

/// What a run gave.
pub struct Run {
    pub success: bool,
    pub stdout: Vec<u8>,
    pub stderr: String,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failed {
    /// It took longer than `Limits::time`, and was ended with everything that it had started.
    TooSlow,
    /// It printed more than `MOST_OUTPUT`.
    TooMuch,
    System(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::System(error)
    }
}

/// Runs `program` with `input` as its standard input.
pub fn run(
    program: &Path,
    arguments: &[OsString],
    environment: &[(&str, Option<&str>)],
    input: &[u8],
    limits: &Limits,
) -> Result<Run, Failed> {
    let deadline = limits.time.map(|time| Instant::now() + time);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: what it starts is ended with it.
        .process_group(0);
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    bound(&mut command, limits);
    let mut group = Group {
        child: command.spawn()?,
        ended: false,
    };
    let (stdout, stderr) = exchange(&mut group.child, input, deadline)?;
    let status = group.wait(deadline)?;
    Ok(Run {
        success: status.success(),
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        signal: status.signal(),
    })
}

/// A child with all that it started.
struct Group {
    child: Child,
    ended: bool,
}

impl Group {
    /// Waits for a child that has closed its pipes, which is about to end.
    fn wait(&mut self, deadline: Option<Instant>) -> Result<ExitStatus, Failed> {
        let mut pause = Duration::from_micros(100);
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.ended = true;
                return Ok(status);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Failed::TooSlow);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // SAFETY: the child was not waited for, so its number, which is its group's too, is still its own.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.child.wait(); // it is dead or about to be
    }
}

/// Has the child limit itself before it becomes the program.
fn bound(command: &mut Command, limits: &Limits) {
    let seconds = limits.time.map(|time| time.as_secs() + 1);
    let memory = limits.memory;
    #[cfg(target_os = "linux")]
    let parent = std::process::id();
    let prepare = move || {
        // Whoever is the parent then: it may have died before this.
        #[cfg(target_os = "linux")]
        // SAFETY: system calls with constants, on the calling process.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        limit(libc::RLIMIT_CORE, Some(0))?;
        limit(libc::RLIMIT_CPU, seconds)?;
        limit(libc::RLIMIT_FSIZE, Some(MOST_OUTPUT))?;
        // Elsewhere the limit is not kept, or is lower than what every process begins with.
        #[cfg(target_os = "linux")]
        limit(libc::RLIMIT_AS, memory)?;
        #[cfg(not(target_os = "linux"))]
        let _ = memory;
        Ok(())
    };
    // SAFETY: the closure makes system calls and no more: it allocates nothing and takes no lock, which another
    // thread may have held when this process was copied.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;

/// Lowers a limit of the calling process, never raises it.
fn limit(resource: Resource, most: Option<u64>) -> io::Result<()> {
    let Some(most) = most else { return Ok(()) };
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls get a pointer to a struct of the kind that they want.
    unsafe {
        if libc::getrlimit(resource, &raw mut limit) != 0 {
            return Err(io::Error::last_os_error());
        }
        limit.rlim_cur = limit.rlim_cur.min(most as libc::rlim_t);
        if libc::setrlimit(resource, &raw const limit) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Writes the input and reads both outputs, all at once, until the outputs end.
fn exchange(
    child: &mut Child,
    input: &[u8],
    deadline: Option<Instant>,
) -> Result<(Vec<u8>, Vec<u8>), Failed> {
    let missing = || io::Error::other("a pipe is missing");
    let mut stdin = Some(child.stdin.take().ok_or_else(missing)?);
    let mut stdout = Some(child.stdout.take().ok_or_else(missing)?);
    let mut stderr = Some(child.stderr.take().ok_or_else(missing)?);
    for descriptor in [number(&stdin), number(&stdout), number(&stderr)] {
        never_wait(descriptor)?;
    }
    let (mut output, mut messages) = (Vec::new(), Vec::new());
    let mut rest = input;
    let mut block = vec![0; 64 << 10];
    while stdout.is_some() || stderr.is_some() {
        await_any(number(&stdin), [number(&stdout), number(&stderr)], deadline)?;
        if let Some(pipe) = &mut stdin {
            match pipe.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if is_later(&error) => {}
                // A program that stops reading early says why in its messages.
                Err(_) => rest = &[],
            }
        }
        if rest.is_empty() {
            stdin = None;
        }
        if let Some(count) = read(&mut stdout, &mut block)? {
            output.extend_from_slice(&block[..count]);
            if output.len() as u64 > MOST_OUTPUT {
                return Err(Failed::TooMuch);
            }
        }
        if let Some(count) = read(&mut stderr, &mut block)? {
            let room = MOST_MESSAGES - messages.len();
            messages.extend_from_slice(&block[..count.min(room)]);
        }
    }
    Ok((output, messages))
}

/// The descriptor of a pipe; poll passes over -1, which a closed one has.
fn number(pipe: &Option<impl AsRawFd>) -> RawFd {
    pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Reads what is there, and closes the pipe at its end.
fn read(pipe: &mut Option<impl Read>, block: &mut [u8]) -> io::Result<Option<usize>> {
    let Some(open) = pipe else { return Ok(None) };
    match open.read(block) {
        Ok(0) => {
            *pipe = None;
            Ok(None)
        }
        Ok(count) => Ok(Some(count)),
        Err(error) if is_later(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn never_wait(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: the descriptor is open, and these commands take and give integers.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        if flags < 0 || libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits until one of the pipes can go on.
fn await_any(writing: RawFd, reading: [RawFd; 2], deadline: Option<Instant>) -> Result<(), Failed> {
    let wanted = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let mut pipes = [
        wanted(writing, libc::POLLOUT),
        wanted(reading[0], libc::POLLIN),
        wanted(reading[1], libc::POLLIN),
    ];
    let timeout = match deadline {
        None => -1,
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failed::TooSlow);
            }
            i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX)
        }
    };
    // SAFETY: the pointer is to as many structs as the count says.
    let count = unsafe { libc::poll(pipes.as_mut_ptr(), pipes.len() as libc::nfds_t, timeout) };
    let error = io::Error::last_os_error();
    if count < 0 && error.kind() != ErrorKind::Interrupted {
        return Err(error.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &[u8], limits: &Limits) -> Result<Run, Failed> {
        let arguments = ["-c", script].map(OsString::from);
        run(Path::new("/bin/sh"), &arguments, &[], input, limits)
    }

    /// Whether a process of that number is there and no zombie.
    #[cfg(target_os = "linux")]
    fn lives(process: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
        state.is_ok_and(|state| !state.contains(") Z "))
    }

    #[cfg(target_os = "linux")]
    fn dies(process: &str) {
        let end = Instant::now() + Duration::from_secs(10);
        while lives(process) {
            assert!(Instant::now() < end, "process {process} lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn input_and_both_outputs_pass_whole() {
        let input = vec![b'x'; 3 << 20];
        let run = shell("cat; echo no >&2; exit 3", &input, &Limits::default()).expect("it runs");
        assert!(!run.success && run.signal.is_none());
        assert!(run.stdout == input);
        assert_eq!(run.stderr, "no\n");
    }

    #[test]
    fn a_program_that_does_not_read_is_no_error() {
        let input = vec![b'x'; 3 << 20];
        let run = shell("exec <&-; echo done", &input, &Limits::default()).expect("it runs");
        assert!(run.success && run.stdout == b"done\n");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_that_takes_too_long_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let numbers = folder.path().join("numbers");
        let script = format!("sleep 1000 & echo $! $$ > {}; wait", numbers.display());
        let limits = Limits {
            time: Some(Duration::from_millis(300)),
            ..Limits::default()
        };
        let start = Instant::now();
        assert!(matches!(shell(&script, b"", &limits), Err(Failed::TooSlow)));
        assert!(start.elapsed() < Duration::from_secs(20));
        let numbers = std::fs::read_to_string(numbers).expect("both numbers");
        assert_eq!(numbers.split_whitespace().count(), 2);
        numbers.split_whitespace().for_each(dies);
    }

    #[test]
    fn output_is_bounded_and_messages_are_cut() {
        let run = shell("cat /dev/zero", b"", &Limits::default());
        assert!(matches!(run, Err(Failed::TooMuch)));
        let run = shell("head -c 3000000 /dev/zero >&2", b"", &Limits::default());
        assert_eq!(run.expect("it runs").stderr.len(), MOST_MESSAGES);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_processor_time_and_files_are_bounded() {
        let limits = Limits {
            time: Some(Duration::from_secs(20)),
            memory: Some(100 << 20),
            ..Limits::default()
        };
        let run = shell("ulimit -v; ulimit -t; ulimit -f; ulimit -c", b"", &limits);
        let blocks = MOST_OUTPUT / 512;
        let expected = format!("{}\n21\n{blocks}\n0\n", 100 << 10);
        assert_eq!(
            String::from_utf8_lossy(&run.expect("it runs").stdout),
            expected
        );
    }

    /// The process of the test below: it runs a program without end.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_waits_for_a_program() {
        if let Ok(numbers) = std::env::var("IRONBRIDGE_TEST_NUMBERS") {
            let script = format!("echo $$ > {numbers}; exec sleep 1000");
            let run = shell(&script, b"", &Limits::default());
            panic!("it ended: {:?}", run.map(|run| run.signal));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_dies_with_the_process_that_runs_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let numbers = folder.path().join("numbers");
        let name = "msl::process::tests::a_process_that_waits_for_a_program";
        let mut parent = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", name])
            .env("IRONBRIDGE_TEST_NUMBERS", &numbers)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let end = Instant::now() + Duration::from_secs(30);
        let number = loop {
            match std::fs::read_to_string(&numbers) {
                Ok(number) if number.ends_with('\n') => break String::from(number.trim()),
                _ => assert!(Instant::now() < end, "no program was started"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // The shell may not have become `sleep` yet; either way it is one process.
        assert!(lives(&number));
        parent.kill().expect("it is killed");
        parent.wait().expect("it ends");
        dies(&number);
    }
}
