//! What only shows from outside a process: what it publishes while it lives, and what it says when it ends.
//!
//! The program calls itself with the name of a part to play.

pub mod leaks;
pub mod models;
pub mod parts;
pub mod publication;

use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process that plays a part, and that a line on its standard input moves on.
pub struct Player {
    pub child: Child,
    to: ChildStdin,
    from: std::io::BufReader<ChildStdout>,
}

impl Player {
    pub fn start(part: &str, variables: &[(&str, &str)]) -> Player {
        let mut child = command(part, variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test can run itself");
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let mut player = Player {
            child,
            to: to.expect("piped"),
            from: std::io::BufReader::new(from.expect("piped")),
        };
        player.hears("ready");
        player
    }

    /// Waits for the next line, which must be `expected`.
    pub fn hears(&mut self, expected: &str) {
        use std::io::BufRead;
        let mut line = String::new();
        self.from.read_line(&mut line).expect("readable");
        assert_eq!(line.trim(), expected);
    }

    /// Lets it take its next step and waits until it is done.
    pub fn step(&mut self) {
        use std::io::Write;
        writeln!(self.to).expect("it listens");
        self.hears("ready");
    }

    /// Lets it end, which it must do well.
    pub fn end(self) {
        drop(self.to);
        let mut child = self.child;
        assert!(child.wait().expect("a child").success());
    }
}

/// A call of this program that plays a part, in an environment without settings of ours.
pub fn command(part: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
    for (name, _) in std::env::vars() {
        let kept = ["IRONBRIDGE_DEVICE", "IRONBRIDGE_CLANG"].contains(&name.as_str());
        if name.starts_with("IRONBRIDGE_") && !kept {
            command.env_remove(name);
        }
    }
    command
        .arg("--play")
        .arg(part)
        .envs(variables.iter().copied());
    command
}
