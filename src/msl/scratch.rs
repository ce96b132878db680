//! A folder for files that are needed for a moment, where the cache has no room for them.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::Error;

/// A folder that only this user may enter, with a name that nothing had before. It goes with what is in it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Below `parent`.
    fn below(parent: &Path) -> Result<Scratch, Error> {
        let pattern = parent.join("ironbridge-XXXXXX");
        let pattern = CString::new(pattern.as_os_str().as_bytes())
            .map_err(|error| Error::host(parent.display(), error))?;
        let mut name = pattern.into_bytes_with_nul();
        // SAFETY: a C string that may be written to, with the six letters at its end that are replaced.
        let made = unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) };
        if made.is_null() {
            return Err(Error::host(
                parent.display(),
                std::io::Error::last_os_error(),
            ));
        }
        name.pop();
        Ok(Scratch(PathBuf::from(OsString::from_vec(name))))
    }

    /// The first success of `attempt` in folders of different file systems, or its first error.
    pub fn anywhere<T>(mut attempt: impl FnMut(Scratch) -> Result<T, Error>) -> Result<T, Error> {
        let memory = cfg!(target_os = "linux").then(|| PathBuf::from("/dev/shm"));
        let mut first = None;
        for parent in [Some(std::env::temp_dir()), memory].into_iter().flatten() {
            match Scratch::below(&parent).and_then(&mut attempt) {
                Ok(value) => return Ok(value),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| Error::host("temporary files", "there is no folder")))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // nothing to do about what cannot be removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_folder_is_private_and_goes_with_its_files() {
        let scratch = Scratch::anywhere(Ok).expect("a folder");
        let path = scratch.path().to_path_buf();
        assert_eq!(
            fs::metadata(&path).expect("it is there").mode() & 0o777,
            0o700
        );
        fs::write(path.join("file"), b"text").expect("a file");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn each_place_is_tried_and_the_first_error_kept() {
        let mut places = Vec::new();
        let error = Scratch::anywhere(|scratch| {
            places.push(scratch.path().to_path_buf());
            Err::<(), _>(Error::host(places.len(), "no"))
        });
        assert_eq!(error, Err(Error::host(1, "no")));
        assert_eq!(places.len(), if cfg!(target_os = "linux") { 2 } else { 1 });
        assert!(places.iter().all(|place| !place.exists()));
    }
}
