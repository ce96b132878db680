//! `ironbridge chat` at a terminal: a pseudo-terminal with keys at one end and what a person sees at the other.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Bold.
const PROMPT: &str = "\x1b[1m>\x1b[0m";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const BACKSPACE: &str = "\x7f";
const UP: &str = "\x1b[A";

struct Terminal {
    child: Child,
    keys: File,
    /// Everything that was written to it so far.
    screen: Arc<Mutex<String>>,
    /// How much of it [`Terminal::see`] has looked at.
    seen: usize,
}

impl Terminal {
    fn start(arguments: &[&str], folder: &Path) -> Terminal {
        let (mut keyboard, mut inside) = (0, 0);
        let mut size = libc::winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the descriptors and the size are places to write to and to read from; no name and no settings are
        // given.
        let opened = unsafe {
            libc::openpty(
                &mut keyboard,
                &mut inside,
                null_mut(),
                null_mut(),
                &raw mut size,
            )
        };
        assert_eq!(
            opened,
            0,
            "no pseudo-terminal can be opened ({}); this test needs devpts on /dev/pts",
            std::io::Error::last_os_error()
        );
        // SAFETY: openpty gave both descriptors to this function alone.
        let (keyboard, inside) =
            unsafe { (OwnedFd::from_raw_fd(keyboard), OwnedFd::from_raw_fd(inside)) };
        let end = || inside.try_clone().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ironbridge"));
        command
            .args(arguments)
            .stdin(end())
            .stdout(end())
            .stderr(end());
        command.env("TERM", "xterm").env("XDG_STATE_HOME", folder);
        command
            .env_remove("NO_COLOR")
            .env_remove("IRONBRIDGE_DEVICE");
        // SAFETY: both calls may be made between fork and exec. The terminal becomes the child's own, so that Ctrl-C is
        // a signal to it.
        unsafe {
            command.pre_exec(|| {
                match libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 {
                    true => Err(std::io::Error::last_os_error()),
                    false => Ok(()),
                }
            });
        }
        let child = command.spawn().unwrap();
        drop((command, inside));

        let keys = File::from(keyboard);
        let mut output = keys.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let writer = screen.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // When the child has ended, Linux gives an error and others an end.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                writer
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Terminal {
            child,
            keys,
            screen,
            seen: 0,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for `text` behind what was seen before.
    #[track_caller]
    fn see(&mut self, text: &str) {
        let seen = self.seen;
        let place = self.wait(|screen| Some(seen + screen[seen..].find(text)? + text.len()));
        self.seen =
            place.unwrap_or_else(|| panic!("no {text:?} in {}", self.screen.lock().unwrap()));
    }

    /// Waits until an answer is well under way.
    #[track_caller]
    fn see_much(&mut self) {
        let start = self.screen.lock().unwrap().len();
        let place = self.wait(|screen| (screen.len() > start + 400).then_some(screen.len()));
        assert!(place.is_some(), "{}", self.screen.lock().unwrap());
    }

    fn wait(&self, find: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            let found = find(&self.screen.lock().unwrap());
            if found.is_some() {
                return found;
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

#[test]
fn a_person_edits_remembers_interrupts_and_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.jinja");
    std::fs::write(
        &template,
        "{% for message in messages %}{{ message.content }}\n{% endfor %}",
    )
    .unwrap();
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/assets/tiny-rustbook-q8_0.gguf"
    );
    let chat = [
        "chat",
        "-m",
        model,
        "--template",
        template.to_str().unwrap(),
    ];
    // The likeliest tokens go round in circles: the answer has no end.
    let endless = [&chat[..], &["--temp", "0", "-n", "100000000"]].concat();
    let mut terminal = Terminal::start(&endless, folder.path());
    terminal.see("\x1b[1mtiny-rustbook-q8_0.gguf"); // bold
    terminal.see(PROMPT);

    terminal.press(&format!("one twoo{BACKSPACE}\r"));
    terminal.see_much();
    terminal.press(CTRL_C);
    terminal.see("[stopped; ");
    terminal.see(PROMPT);
    terminal.press(CTRL_C);
    terminal.see("/exit leaves");
    terminal.see(PROMPT);
    terminal.press(&format!("{UP}\r"));
    terminal.see("one two");
    terminal.see_much();
    terminal.press(CTRL_C);
    terminal.see("[stopped; ");
    terminal.see(PROMPT);
    terminal.press("/he\t\r");
    terminal.see("this list");
    terminal.see(PROMPT);
    terminal.press(CTRL_D);
    assert!(terminal.child.wait().unwrap().success());

    // Another day.
    let history = std::fs::read_to_string(folder.path().join("ironbridge/chat_history")).unwrap();
    assert!(history.lines().any(|line| line == "one two"), "{history}");
    let mut terminal = Terminal::start(&chat, folder.path());
    terminal.see(PROMPT);
    terminal.press(&format!("{UP}{UP}{CTRL_C}"));
    terminal.see("one two");
    terminal.see(PROMPT);
    terminal.press(CTRL_D);
    assert!(terminal.child.wait().unwrap().success());
}
