//! The work of kernels on devices that count it, from [`begin`] to [`end`]. One record is kept for the process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::msl::counter::Work;

/// What the dispatches of one kernel did together, counted where its threads access memory.
///
/// A dispatch of the same kernel, grid and argument bytes as one before is taken to do the same, and runs uncounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelWork {
    /// Its name.
    pub kernel: String,
    /// How often it was dispatched.
    pub dispatches: u64,
    /// Threadgroups of the dispatch with the fewest.
    pub least_threadgroups: u64,
    /// Threadgroups of the dispatch with the most.
    pub most_threadgroups: u64,
    /// Of all dispatches.
    pub work: Work,
}

/// What was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedWork {
    /// In the order of their first dispatches.
    pub kernels: Vec<KernelWork>,
    /// The kernel of each dispatch in turn, as an index of `kernels`.
    pub order: Vec<usize>,
    /// How many dispatches were counted. The others repeat one of them.
    pub counted: u64,
}

/// What dispatches that do the same have in common.
#[derive(PartialEq, Eq, Hash)]
pub struct Key {
    /// The address of the specialised function. Its pipeline outlives the record of a token.
    pub function: usize,
    pub grid: [u32; 3],
    pub threadgroup: [u32; 3],
    pub threads: bool,
    pub threadgroup_memory: Vec<u32>,
    /// The argument bytes by index.
    pub bytes: Vec<(usize, Vec<u8>)>,
}

#[derive(Default)]
struct Record {
    work: RecordedWork,
    known: HashMap<Key, Work>,
}

static RECORD: Mutex<Option<Record>> = Mutex::new(None);

fn record() -> MutexGuard<'static, Option<Record>> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the work of dispatches from now on, on devices that were opened with `count=1`.
pub fn begin() {
    *record() = Some(Record::default());
}

/// What was recorded since [`begin`]. Nothing is recorded after it.
pub fn end() -> RecordedWork {
    record().take().unwrap_or_default().work
}

/// Whether there is a record.
pub fn is_recorded() -> bool {
    record().is_some()
}

/// Whether a dispatch that does the same was counted.
pub fn is_known(key: &Key) -> bool {
    record()
        .as_ref()
        .is_some_and(|record| record.known.contains_key(key))
}

/// Adds a dispatch: its own work, or that of the one before.
pub fn add(key: Key, kernel: &str, counted: Option<Work>) {
    let mut record = record();
    let Some(Record { work, known }) = record.as_mut() else {
        return;
    };
    work.counted += u64::from(counted.is_some());
    let done = match counted {
        Some(counted) => *known.entry(key).or_insert(counted),
        None => known.get(&key).copied().unwrap_or_default(),
    };
    let place = work.kernels.iter().position(|row| row.kernel == kernel);
    let place = place.unwrap_or_else(|| {
        work.kernels.push(KernelWork {
            kernel: kernel.to_owned(),
            least_threadgroups: u64::MAX,
            ..KernelWork::default()
        });
        work.kernels.len() - 1
    });
    work.order.push(place);
    let row = &mut work.kernels[place];
    row.dispatches += 1;
    row.least_threadgroups = row.least_threadgroups.min(done.threadgroups);
    row.most_threadgroups = row.most_threadgroups.max(done.threadgroups);
    row.work += done;
}
