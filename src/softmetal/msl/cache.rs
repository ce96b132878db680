//! Compiled kernels on disk, for later processes.
//!
//! The folder is this user's alone: created with mode 0700, and refused when it is a link, another user's, or open to
//! others, for what lies in it is loaded as code. An entry is written under a temporary name and renamed, so a reader
//! finds all of it or nothing; it ends with a checksum, so that what a full disk or a crash left behind is made anew.
//! Whoever makes an entry holds a lock on it, so that of several processes (and threads) that want the same kernel, one
//! compiles.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::error::Error;

/// Bytes of entries that the folder may hold; a kernel is some 20 to 100 KiB.
const LIMIT: u64 = 256 << 20;
/// Locks are shared by entries whose hashes begin alike: a fixed number of files that never need to be deleted.
const LOCKS: u8 = 64;
/// A temporary file this old belongs to a process that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// FNV-1a, 128 bits: names of entries and checksums. It guards against accidents; against other users there is the
/// folder's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash(u128);

impl Hash {
    pub fn new() -> Hash {
        Hash(0x6c62272e07bb014262b821756295c58d)
    }

    /// The hash of what was hashed before followed by `bytes` and their length.
    pub fn with(self, bytes: &[u8]) -> Hash {
        let length = (bytes.len() as u64).to_le_bytes();
        let step = |hash: u128, byte: &u8| {
            (hash ^ u128::from(*byte)).wrapping_mul(0x0000000001000000000000000000013b)
        };
        Hash(bytes.iter().chain(&length).fold(self.0, step))
    }

    fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

/// A folder of entries, each the bytes of one compilation.
pub struct Cache {
    folder: PathBuf,
    limit: u64,
}

impl Cache {
    /// `$XDG_CACHE_HOME/ironbridge/msl`, else `~/.cache/ironbridge/msl`, else a folder of this user's in the temporary
    /// one.
    pub fn open() -> Result<Cache, Error> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base =
            absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        match base {
            Some(base) => Cache::at(&base.join("ironbridge"), LIMIT),
            None => Cache::at(
                &std::env::temp_dir().join(format!("ironbridge-{}", user())),
                LIMIT,
            ),
        }
    }

    /// A cache below `folder`, which becomes private.
    pub fn at(folder: &Path, limit: u64) -> Result<Cache, Error> {
        let owned = folder.join("msl");
        for path in [folder, &owned] {
            make_private(path).map_err(|why| Error::host(path.display(), why))?;
        }
        Ok(Cache {
            folder: owned,
            limit,
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "entry"))
            .filter_map(|entry| Some(entry.metadata().ok()?.len()))
            .sum()
    }

    /// The file of entry `key`, made by `make` when there is none. The file holds what `make` returned and a trailer
    /// after it, which readers of ELF and Mach-O ignore.
    pub fn entry(
        &self,
        key: Hash,
        make: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<PathBuf, Error> {
        let path = self.folder.join(format!("{key}.entry"));
        if self.is_whole(&path) {
            return Ok(path);
        }
        let _lock = self.lock(key)?;
        if self.is_whole(&path) {
            return Ok(path); // made while this process waited
        }
        let mut bytes = make()?;
        let checksum = Hash::new().with(&bytes);
        bytes.extend(checksum.bytes());
        write_whole(&path, &bytes).map_err(|error| Error::host(path.display(), error))?;
        self.evict(&path);
        Ok(path)
    }

    /// The bytes of an entry, as `make` returned them.
    pub fn read(
        &self,
        key: Hash,
        make: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<u8>, Error> {
        let path = self.entry(key, make)?;
        let mut bytes = fs::read(&path).map_err(|error| Error::host(path.display(), error))?;
        bytes.truncate(bytes.len().saturating_sub(16));
        Ok(bytes)
    }

    /// Whether an entry is there with its checksum right. Marks it as used.
    fn is_whole(&self, path: &Path) -> bool {
        let Ok(bytes) = fs::read(path) else {
            return false;
        };
        let Some((content, checksum)) = bytes.split_last_chunk::<16>() else {
            return false;
        };
        if Hash::new().with(content).bytes() != *checksum {
            return false;
        }
        if let Ok(file) = File::open(path) {
            // Only the order of eviction depends on it.
            let _ = file.set_modified(SystemTime::now());
        }
        true
    }

    fn lock(&self, key: Hash) -> Result<File, Error> {
        let path = self
            .folder
            .join(format!("lock-{:02}", key.bytes()[0] % LOCKS));
        let failed = |error| Error::host(path.display(), error);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        loop {
            // SAFETY: `file` is open for the whole call, and flock has no other precondition. The lock ends when the
            // file is closed, also by the death of the process.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
                return Ok(file);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(failed(error));
            }
        }
    }

    /// Removes the entries that were not used for longest until the rest fits, and what dead processes left. A kernel
    /// that a process has loaded keeps running when its file is removed.
    fn evict(&self, newest: &Path) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let now = SystemTime::now();
        let mut total = 0;
        let mut candidates = Vec::new();
        for entry in entries.flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else {
                continue;
            };
            let used = metadata.modified().unwrap_or(now);
            match path.extension().and_then(|kind| kind.to_str()) {
                Some("entry") => {
                    total += metadata.len();
                    if path != newest {
                        candidates.push((used, metadata.len(), path));
                    }
                }
                Some("part") if now.duration_since(used).is_ok_and(|age| age > ABANDONED) => {
                    let _ = fs::remove_file(path); // another process may have been first
                }
                _ => {}
            }
        }
        candidates.sort();
        for (_, length, path) in candidates {
            if total <= self.limit {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= length;
            }
        }
    }
}

/// Writes a file that is there whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{serial}.part", std::process::id()));
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // the first error is the one to report
    }
    written
}

fn user() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// Makes sure that `path` is a folder of this user's that nobody else may enter.
fn make_private(path: &Path) -> Result<(), String> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| error.to_string())?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.to_string()),
    }
    // Not following a link: it could point anywhere.
    let metadata = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_dir() {
        return Err(String::from(
            "is not a folder, so no compiled kernel can be kept or loaded there",
        ));
    }
    if metadata.uid() != user() {
        return Err(format!(
            "belongs to user {}, so no compiled kernel is loaded from there",
            metadata.uid()
        ));
    }
    if metadata.mode() & 0o077 != 0 {
        // It is ours, so closing it is our right; what others may have put there before is removed with it.
        for entry in fs::read_dir(path)
            .map_err(|error| error.to_string())?
            .flatten()
        {
            if entry.path().extension().is_some_and(|kind| kind == "entry") {
                fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
            }
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicUsize;

    fn cache(limit: u64) -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::at(&folder.path().join("ironbridge"), limit).expect("a cache");
        (folder, cache)
    }

    fn made(bytes: &[u8]) -> impl FnOnce() -> Result<Vec<u8>, Error> {
        move || Ok(bytes.to_vec())
    }

    fn never() -> Result<Vec<u8>, Error> {
        panic!("the entry is there already")
    }

    #[test]
    fn an_entry_is_made_once_and_read_back() {
        let (_folder, cache) = cache(LIMIT);
        let key = Hash::new().with(b"source");
        assert_eq!(cache.read(key, made(b"library")), Ok(b"library".to_vec()));
        assert_eq!(cache.read(key, never), Ok(b"library".to_vec()));
        let other = Hash::new().with(b"sourc").with(b"e");
        assert_eq!(cache.read(other, made(b"other")), Ok(b"other".to_vec()));
    }

    #[test]
    fn an_error_leaves_nothing_behind() {
        let (_folder, cache) = cache(LIMIT);
        let key = Hash::new().with(b"source");
        let error = Error::Source(String::from("no"));
        assert_eq!(cache.read(key, || Err(error.clone())), Err(error));
        assert_eq!(cache.read(key, made(b"library")), Ok(b"library".to_vec()));
    }

    #[test]
    fn damaged_entries_are_made_anew() {
        let (_folder, cache) = cache(LIMIT);
        let key = Hash::new().with(b"source");
        let path = cache.entry(key, made(b"library")).expect("an entry");
        let whole = fs::read(&path).expect("its bytes");
        let mut flipped = whole.clone();
        flipped[2] ^= 1;
        for damaged in [&whole[..whole.len() - 1], &whole[..3], b"", &flipped] {
            fs::write(&path, damaged).expect("damage");
            assert_eq!(cache.read(key, made(b"library")), Ok(b"library".to_vec()));
            assert_eq!(fs::read(&path).expect("its bytes"), whole);
        }
    }

    #[test]
    fn threads_that_want_the_same_entry_make_it_once() {
        let (_folder, cache) = cache(LIMIT);
        let key = Hash::new().with(b"source");
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let slow = || {
                        count.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(50));
                        Ok(b"library".to_vec())
                    };
                    assert_eq!(cache.read(key, slow), Ok(b"library".to_vec()));
                });
            }
        });
        assert_eq!(count.into_inner(), 1);
    }

    #[test]
    fn the_folder_is_bounded_and_forgets_what_was_not_used_for_longest() {
        let (_folder, cache) = cache(3000);
        let keys: Vec<Hash> = (0..4u8).map(|index| Hash::new().with(&[index])).collect();
        let long_ago = SystemTime::now() - Duration::from_secs(1000);
        for (index, key) in keys.iter().take(3).enumerate() {
            let path = cache.entry(*key, made(&[0; 900])).expect("an entry");
            let time = long_ago + Duration::from_secs(index as u64);
            File::open(path)
                .and_then(|file| file.set_modified(time))
                .expect("its time");
        }
        cache.entry(keys[0], never).expect("used again");
        let abandoned = cache.folder().join("x.part");
        fs::write(&abandoned, b"half").expect("a file");
        File::open(&abandoned)
            .and_then(|file| file.set_modified(long_ago - ABANDONED))
            .expect("its time");
        cache.entry(keys[3], made(&[0; 900])).expect("an entry");

        let there = |key: &Hash| cache.folder().join(format!("{key}.entry")).exists();
        assert_eq!(
            keys.iter().map(there).collect::<Vec<_>>(),
            [true, false, true, true]
        );
        assert!(!abandoned.exists());
    }

    #[test]
    fn the_folder_is_private() {
        let (folder, cache) = cache(LIMIT);
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!(mode(cache.folder()), 0o700);
        let own = folder.path().join("ironbridge");
        assert_eq!(mode(&own), 0o700);

        // What others could have written is not trusted once the folder is closed to them.
        let key = Hash::new().with(b"source");
        let path = cache.entry(key, made(b"library")).expect("an entry");
        fs::set_permissions(cache.folder(), fs::Permissions::from_mode(0o777)).expect("opened");
        let again = Cache::at(&own, LIMIT).expect("closed again");
        assert_eq!(mode(again.folder()), 0o700);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_is_a_link_or_a_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a folder");
        for name in ["link", "file"] {
            let own = folder.path().join(name);
            match name {
                "link" => symlink(&elsewhere, &own).expect("a link"),
                _ => fs::write(&own, b"").expect("a file"),
            }
            let error = Cache::at(&own, LIMIT).err().expect("refused").to_string();
            assert!(error.contains("is not a folder"), "{error}");
        }
    }
}
