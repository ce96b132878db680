//! A file that is there as a whole or not at all.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Writes beside the file's place, under a hidden name, and moves it there at the end. Dropped before, it leaves
/// nothing. It is locked meanwhile: a file of such a name that nobody has locked was left by a process that was
/// killed.
pub(crate) struct NewFile {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
    overwrite: bool,
}

impl NewFile {
    /// Fails at once, with [`io::ErrorKind::AlreadyExists`], if a file is there that may not be replaced.
    pub fn create(path: &Path, overwrite: bool) -> io::Result<NewFile> {
        let there = fs::symlink_metadata(path).ok();
        if there.is_some() && !overwrite {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (Some(name), false) = (path.file_name(), there.is_some_and(|there| there.is_dir()))
        else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let name = name.to_string_lossy();
        sweep(path, &name);
        let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let file = create_locked(&partial)?;
        Ok(NewFile {
            path: path.to_owned(),
            partial,
            file: BufWriter::new(file),
            overwrite,
        })
    }

    /// Moves the file to its place, once its bytes are on the disk. Fails with [`io::ErrorKind::AlreadyExists`] as
    /// [`create`](NewFile::create) does.
    pub fn persist(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        self.place()
    }

    fn place(&self) -> io::Result<()> {
        if self.overwrite {
            return fs::rename(&self.partial, &self.path);
        }
        // A second name, unlike a rename, is never given to a file in the place of another one. File systems without
        // second names have to do with a look beforehand.
        match fs::hard_link(&self.partial, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) if self.path.exists() => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(&self.partial, &self.path),
            Ok(()) => Ok(()),
        }
    }
}

/// Removes what killed processes have left of earlier tries. What cannot be looked at or removed stays.
fn sweep(path: &Path, name: &str) {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let is_partial = |file: &str| {
        let rest = file.strip_prefix('.')?.strip_prefix(name)?;
        let pid = rest.strip_prefix('.')?.strip_suffix(".partial")?;
        pid.parse::<u32>().ok()
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || is_partial(&entry.file_name().to_string_lossy()).is_none() {
            continue;
        }
        // The lock ends with its process, in whichever machine or namespace that was.
        if let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn create_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        match file.try_lock() {
            // One that sweeps may have found it before it was locked.
            Err(TryLockError::WouldBlock) => continue,
            Ok(()) if file.metadata()?.nlink() == 0 => continue,
            // Not every file system has locks; there nothing is swept.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It is gone already when it was renamed.
        let _ = fs::remove_file(&self.partial);
    }
}
