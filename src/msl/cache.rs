//! Compiled kernels on disk, for later processes.
//!
//! The folder is this user's alone: created with mode 0700, and refused when it is a link, another user's, or open to
//! others, for what lies in it is loaded as code. An entry is written under a temporary name and renamed, so a reader
//! finds all of it or nothing; it ends with a checksum of its key and its bytes, so that what a full disk or a crash
//! left behind, or what has another entry's name, is made anew. Whoever makes an entry holds a lock on it, so that of
//! several processes (and threads) that want the same kernel, one compiles. What cannot be kept is used and
//! forgotten: a cache is never the reason for an error.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::error::Error;

/// Bytes of entries that the folder may hold; a kernel is some 20 to 100 KiB.
const LIMIT: u64 = 256 << 20;
/// Locks are shared by entries whose hashes begin alike: a fixed number of files that never need to be deleted.
const LOCKS: u8 = 64;
/// A temporary file this old belongs to a process that died.
const ABANDONED: Duration = Duration::from_secs(3600);
/// How long an entry that another is making is waited for: longer than the compiler may take, when nobody changes that.
const PATIENCE: Duration = Duration::from_secs(90);

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

/// What `Cache::entry` gives.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// The file that holds it.
    Kept(PathBuf),
    /// Its bytes, which could not be kept.
    Unkept(Vec<u8>),
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
        let temporary = std::env::temp_dir().join(format!("ironbridge-{}", user()));
        match base.map(|base| base.join("ironbridge")) {
            // A folder that may not be used is an error; one that cannot be made is none.
            Some(folder) => match prepare(&folder) {
                Err(Unusable::System(_)) => Cache::at(&temporary, LIMIT),
                _ => Cache::at(&folder, LIMIT),
            },
            None => Cache::at(&temporary, LIMIT),
        }
    }

    /// A cache below `folder`, which becomes private.
    pub fn at(folder: &Path, limit: u64) -> Result<Cache, Error> {
        match prepare(folder) {
            Ok(folder) => Ok(Cache { folder, limit }),
            Err(Unusable::System(error)) => Err(Error::host(folder.display(), error)),
            Err(Unusable::Refused(path, why)) => Err(Error::host(path.display(), why)),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of entries that there is room for.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "entry"))
            .filter_map(|entry| Some(entry.metadata().ok()?.len()))
            .sum()
    }

    /// Entry `key`, made by `make` when there is none. Its file holds what `make` returned and a trailer after it,
    /// which readers of ELF and Mach-O ignore. The only errors are those of `make`.
    pub fn entry(
        &self,
        key: Hash,
        make: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Entry, Error> {
        self.entry_under(key.bytes()[0] % LOCKS, key, make)
    }

    /// The same for what another entry needs that is being made: under a lock that no other entry has.
    pub fn needed_entry(
        &self,
        key: Hash,
        make: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Entry, Error> {
        self.entry_under(LOCKS, key, make)
    }

    fn entry_under(
        &self,
        lock: u8,
        key: Hash,
        make: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Entry, Error> {
        let path = self.folder.join(format!("{key}.entry"));
        if self.content(key, &path).is_some() {
            return Ok(Entry::Kept(path));
        }
        let lock = self.lock(lock);
        if lock.is_ok() && self.content(key, &path).is_some() {
            return Ok(Entry::Kept(path)); // made while this process waited
        }
        let mut bytes = make()?;
        let length = bytes.len();
        bytes.extend(checksum(key, &bytes));
        if write_whole(&path, &bytes).is_err() {
            bytes.truncate(length);
            return Ok(Entry::Unkept(bytes));
        }
        self.evict(&path);
        Ok(Entry::Kept(path))
    }

    /// The bytes of an entry, as `make` returned them.
    pub fn read(
        &self,
        key: Hash,
        mut make: impl FnMut() -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<u8>, Error> {
        match self.entry(key, &mut make)? {
            Entry::Unkept(bytes) => Ok(bytes),
            Entry::Kept(path) => match self.content(key, &path) {
                Some(bytes) => Ok(bytes),
                None => make(), // removed or damaged since
            },
        }
    }

    /// The bytes of the entry in a file, when it is whole and that of `key`. Marks it as used.
    fn content(&self, key: Hash, path: &Path) -> Option<Vec<u8>> {
        let mut bytes = fs::read(path).ok()?;
        let (content, found) = bytes.split_last_chunk::<16>()?;
        if checksum(key, content) != *found {
            return None;
        }
        bytes.truncate(bytes.len() - 16);
        if let Ok(file) = File::open(path) {
            // Only the order of eviction depends on it.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Waits while another makes an entry under this lock; an error after a while.
    fn lock(&self, number: u8) -> io::Result<File> {
        let name = format!("lock-{number:02}");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.folder.join(name))?;
        let end = Instant::now() + PATIENCE;
        loop {
            // SAFETY: `file` is open for the whole call, and flock has no other precondition. The lock ends when the
            // file is closed, also by the death of the process.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                return Ok(file);
            }
            let error = io::Error::last_os_error();
            let busy = matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            );
            if !busy || Instant::now() >= end {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(2));
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

/// What an entry ends with. It knows the key, so that a file is the entry that its name says or none.
fn checksum(key: Hash, content: &[u8]) -> [u8; 16] {
    Hash::new().with(&key.bytes()).with(content).bytes()
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

/// Why a folder cannot hold compiled kernels.
enum Unusable {
    /// It cannot be made, or looked at.
    System(io::Error),
    /// It is there and not to be trusted.
    Refused(PathBuf, String),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        Unusable::System(error)
    }
}

/// Makes `folder` and the one for kernels in it.
fn prepare(folder: &Path) -> Result<PathBuf, Unusable> {
    let owned = folder.join("msl");
    make_private(folder)?;
    make_private(&owned)?;
    Ok(owned)
}

/// Makes sure that `path` is a folder of this user's that nobody else may enter.
fn make_private(path: &Path) -> Result<(), Unusable> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.into()),
    }
    let refused = |why: String| Unusable::Refused(path.to_path_buf(), why);
    // Not following a link: it could point anywhere.
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Err(refused(String::from(
            "is not a folder, so no compiled kernel can be kept or loaded there",
        )));
    }
    if metadata.uid() != user() {
        return Err(refused(format!(
            "belongs to user {}, so no compiled kernel is loaded from there",
            metadata.uid()
        )));
    }
    if metadata.mode() & 0o077 != 0 {
        // It is ours, so closing it is our right; what others may have put there before is removed with it.
        for entry in fs::read_dir(path)?.flatten() {
            if entry.path().extension().is_some_and(|kind| kind == "entry") {
                fs::remove_file(entry.path())?;
            }
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
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

    fn made(bytes: &[u8]) -> impl Fn() -> Result<Vec<u8>, Error> {
        move || Ok(bytes.to_vec())
    }

    fn kept(entry: Result<Entry, Error>) -> PathBuf {
        match entry {
            Ok(Entry::Kept(path)) => path,
            other => panic!("{other:?}"),
        }
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
        let path = kept(cache.entry(key, made(b"library")));
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
    fn an_entry_with_the_name_of_another_is_made_anew() {
        let (_folder, cache) = cache(LIMIT);
        let (one, other) = (Hash::new().with(b"one"), Hash::new().with(b"other"));
        let path = kept(cache.entry(one, made(b"library")));
        fs::copy(path, cache.folder().join(format!("{other}.entry"))).expect("a copy");
        assert_eq!(
            cache.read(other, made(b"other library")),
            Ok(b"other library".to_vec())
        );
    }

    #[test]
    fn what_cannot_be_kept_is_used_all_the_same() {
        let (_folder, cache) = cache(LIMIT);
        let key = Hash::new().with(b"source");
        let in_the_way = cache.folder().join(format!("{key}.entry"));
        fs::create_dir(&in_the_way).expect("a folder");
        assert_eq!(
            cache.entry(key, made(b"library")),
            Ok(Entry::Unkept(b"library".to_vec()))
        );
        assert_eq!(cache.read(key, made(b"library")), Ok(b"library".to_vec()));
        let left = fs::read_dir(cache.folder()).expect("the cache").flatten();
        assert_eq!(
            left.filter(|file| file.path().extension().is_some_and(|kind| kind == "part"))
                .count(),
            0
        );
        fs::remove_dir(in_the_way).expect("it is empty");
        kept(cache.entry(key, made(b"library")));
    }

    #[test]
    fn an_entry_that_cannot_be_locked_is_made_all_the_same() {
        let (_folder, cache) = cache(LIMIT);
        let key = Hash::new().with(b"source");
        let lock = format!("lock-{:02}", key.bytes()[0] % LOCKS);
        fs::create_dir(cache.folder().join(lock)).expect("a folder");
        assert_eq!(cache.read(key, made(b"library")), Ok(b"library".to_vec()));
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
            let path = kept(cache.entry(*key, made(&[0; 900])));
            let time = long_ago + Duration::from_secs(index as u64);
            File::open(path)
                .and_then(|file| file.set_modified(time))
                .expect("its time");
        }
        kept(cache.entry(keys[0], never));
        let abandoned = cache.folder().join("x.part");
        fs::write(&abandoned, b"half").expect("a file");
        File::open(&abandoned)
            .and_then(|file| file.set_modified(long_ago - ABANDONED))
            .expect("its time");
        kept(cache.entry(keys[3], made(&[0; 900])));

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
        let path = kept(cache.entry(key, made(b"library")));
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
