//! The folders where processes publish, and whose files they hold.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::system::Life;
use super::{Skipped, checked, system};
use crate::error::Result;

/// A process's file, by its name `PID-START`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    pub path: PathBuf,
    pub pid: u64,
    pub start_time: u64,
}

impl Publication {
    fn of(path: PathBuf) -> Option<Publication> {
        let (pid, start) = path.file_name()?.to_str()?.split_once('-')?;
        let (pid, start_time) = (pid.parse().ok()?, start.parse().ok()?);
        Some(Publication {
            path,
            pid,
            start_time,
        })
    }

    /// Whether its process still runs. Numbers of processes are used again, start times are not.
    pub fn is_alive(&self) -> bool {
        system::life(self.pid) == Life::Since(self.start_time)
    }

    /// Whether its process has certainly ended. That it cannot be looked at does not mean so.
    fn is_stale(&self) -> bool {
        match system::life(self.pid) {
            Life::Since(start) => start != self.start_time,
            Life::Gone => true,
            Life::Unknown => false,
        }
    }
}

/// Every file in the folders that processes of this environment publish in, those of dead ones too. What has the name
/// of one and is none is added to `skipped`.
pub fn publications(skipped: &mut Vec<Skipped>) -> Result<Vec<Publication>> {
    let mut found = Vec::new();
    for folder in folders() {
        if !is_own(&folder)? {
            continue;
        }
        for entry in checked("reading", &folder, fs::read_dir(&folder))? {
            let entry = checked("reading", &folder, entry)?;
            let Some(publication) = Publication::of(entry.path()) else {
                continue;
            };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => skipped.push(Skipped {
                    path: publication.path,
                    reason: "it is a directory".into(),
                }),
                _ => found.push(publication),
            }
        }
    }
    Ok(found)
}

/// Removes what a process left that has ended; false when it has not.
pub fn remove_if_stale(publication: &Publication) -> Result<bool> {
    if !publication.is_stale() {
        return Ok(false);
    }
    match fs::remove_file(&publication.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true), // somebody else was faster
        result => checked("removing", &publication.path, result).map(|()| true),
    }
}

/// Where the bridge publishes, in its order. Processes may have found the second where others found the third.
fn folders() -> Vec<PathBuf> {
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    if let Some(given) = absolute("IRONBRIDGE_PUBLISH") {
        return vec![given];
    }
    let runtime = absolute("XDG_RUNTIME_DIR").map(|folder| folder.join("ironbridge"));
    let temporary = PathBuf::from(format!("/tmp/ironbridge-{}", system::user()));
    runtime.into_iter().chain([temporary]).collect()
}

/// Whether nobody but this user can have put a file into the folder. One that is not there has none either.
fn is_own(folder: &Path) -> Result<bool> {
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        result => {
            let status = checked("looking at", folder, result)?;
            Ok(status.is_dir() && status.uid() == system::user() && status.mode() & 0o077 == 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_processes_are_publications() {
        let of = |name: &str| Publication::of(PathBuf::from("/x").join(name));
        let publication = of("12-345").expect("a process");
        assert_eq!((publication.pid, publication.start_time), (12, 345));
        for name in ["12", "12-", "-3", "a-1", "1-2-3", "1-2.tmp"] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn a_process_that_was_another_is_dead() {
        let pid = u64::from(std::process::id());
        let Life::Since(start_time) = system::life(pid) else {
            panic!("this process runs");
        };
        let publication = |start_time| Publication {
            path: PathBuf::new(),
            pid,
            start_time,
        };
        assert!(publication(start_time).is_alive());
        assert!(!publication(start_time).is_stale());
        assert!(!publication(start_time + 1).is_alive());
        assert!(publication(start_time + 1).is_stale());
    }
}
