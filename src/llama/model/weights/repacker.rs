//! Weights that begin in a mapped file and move, while the model is used, into buffers of their own.
//!
//! A model is ready as soon as its file is mapped. But a file lies in small pages, each with a translation of its own,
//! and processors prefetch no further than to the end of one; a long buffer of the software device has pages of 2 MiB.
//! And the device lays matrices out as its kernels read them ([`BufferUsage::Weights`]).
//!
//! The matrices of a layer, or of some, share a buffer, their slab: the longer it is, the less of it lies behind its
//! last large page. What is multiplied with the same vector lies side by side there and can be one matrix.

use std::ops::Range;
use std::sync::Arc;

use super::weight::Weight;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::llama::files::mapped_file::MappedFile;
use crate::memory::{BufferUsage, Category};
use crate::weights::WeightMatrix;

/// A pass moves one part in this many, as does every further [`TOKENS`] of it.
const PASSES: u64 = 64;
const TOKENS: usize = 32;

/// About how many bytes are in memory twice.
pub(crate) const STEP: usize = 8 << 20;

/// Bytes after which a slab is long enough: part of a large page is little beside it.
pub(crate) const SLAB: u64 = 32 << 20;

/// What matrices of a slab begin at multiples of, in bytes: a cache line.
const ALIGNMENT: u64 = 64;

/// Weights shorter than this in all stay where they are unless told to move: an L3 may hold them.
const WORTH_MOVING: u64 = 64 << 20;

/// What has not moved yet. What moves when depends on the tokens of the passes alone: weights that moved are not
/// rounded as others are, and the same text should not differ from one run to the next.
#[derive(Debug)]
pub(in crate::llama) struct Repacker {
    device: Device,
    /// In the order opposite to that of passes, in which they were asked for.
    pending: Vec<PendingTensor>,
    /// That of the last one that moved.
    slab: Option<Slab>,
    /// Of all weights, in bytes.
    total: u64,
    /// Bytes that may have moved by now.
    budget: u64,
    moved: u64,
}

#[derive(Debug)]
pub(crate) struct PendingTensor {
    pub weight: Weight,
    pub name: String,
    pub file: MappedFile,
    pub bytes: Range<u64>,
    /// Its shape, if it is a matrix of weights.
    pub matrix: Option<WeightMatrix>,
    /// The slab that it is to lie in then.
    pub slab: usize,
}

/// A buffer that is filled from its start.
#[derive(Debug)]
struct Slab {
    number: usize,
    buffer: Arc<Buffer<u8>>,
    filled: u64,
}

impl Repacker {
    pub(crate) fn new(device: &Device, mut pending: Vec<PendingTensor>) -> Repacker {
        pending.reverse();
        let lengths = pending.iter().map(PendingTensor::length);
        Repacker {
            device: device.clone(),
            total: lengths.sum(),
            pending,
            slab: None,
            budget: 0,
            moved: 0,
        }
    }

    /// Says of how many tokens a pass was.
    pub fn add_budget(&mut self, tokens: usize) {
        let parts = tokens.div_ceil(TOKENS) as u64;
        self.budget += parts * self.total.div_ceil(PASSES);
    }

    /// Moves weights up to the budget. False when there is nothing left to do: all have moved, or there is no memory
    /// for more, and the others stay in their file.
    pub fn step(&mut self) -> bool {
        while self.moved < self.budget {
            let Some(next) = self.pending.pop() else {
                return false;
            };
            self.moved += next.length();
            if self.relocate(&next).is_err() {
                return false;
            }
        }
        !self.pending.is_empty()
    }

    /// Moves all the others.
    pub fn finish(mut self) {
        while let Some(next) = self.pending.pop()
            && self.relocate(&next).is_ok()
        {}
    }

    /// What has been read is given back to the system at once, so that hardly anything is in memory twice.
    fn relocate(&mut self, tensor: &PendingTensor) -> Result<()> {
        if let Some(matrix) = tensor.matrix {
            let (buffer, offset) = self.place_in_slab(tensor)?;
            tensor.write(&buffer, &matrix.at(offset))?;
            tensor.weight.relocate(buffer, offset);
            return Ok(());
        }
        let mut buffer = self.buffer(&tensor.name, BufferUsage::Any, tensor.length())?;
        for start in (0..tensor.length()).step_by(STEP) {
            let step = tensor.step(start, STEP as u64);
            buffer.write_at(start as usize, tensor.file.range(step.clone()))?;
            tensor.file.forget(step);
        }
        tensor.weight.relocate(Arc::new(buffer), 0);
        Ok(())
    }

    fn buffer(&self, label: &str, usage: BufferUsage, length: u64) -> Result<Buffer<u8>> {
        let options = self.device.buffer_options().label(label).usage(usage);
        options.category(Category::Weights).create(length as usize)
    }

    /// Room for it in its slab, which is made for the first of those that it is for.
    fn place_in_slab(&mut self, tensor: &PendingTensor) -> Result<(Arc<Buffer<u8>>, usize)> {
        let number = tensor.slab;
        let slab = match self.slab.take() {
            Some(slab) if slab.number == number => slab,
            _ => {
                let after = self.pending.iter().rev();
                let after = after.take_while(|pending| pending.slab == number);
                let after = after.filter(|pending| pending.matrix.is_some());
                let room = after.fold(tensor.length(), |room, pending| {
                    room.next_multiple_of(ALIGNMENT) + pending.length()
                });
                let label = format!("{} and what follows", tensor.name);
                Slab {
                    number,
                    buffer: Arc::new(self.buffer(&label, BufferUsage::Weights, room)?),
                    filled: 0,
                }
            }
        };
        let offset = slab.filled.next_multiple_of(ALIGNMENT);
        let buffer = slab.buffer.clone();
        self.slab = Some(Slab {
            filled: offset + tensor.length(),
            ..slab
        });
        Ok((buffer, offset as usize))
    }
}

impl PendingTensor {
    /// In bytes.
    pub fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// Where in the file some of its bytes are, at most `length`.
    fn step(&self, start: u64, length: u64) -> Range<u64> {
        let start = self.bytes.start + start;
        start..self.bytes.end.min(start + length)
    }

    /// Writes all rows of it, some after some, from the file.
    fn write(&self, to: &Buffer<u8>, matrix: &WeightMatrix) -> Result<()> {
        let row = self.length() / (matrix.rows as u64).max(1);
        let rows = rows_of_a_step(row as usize, STEP);
        for first in (0..matrix.rows).step_by(rows) {
            let step = self.step(first as u64 * row, rows as u64 * row);
            to.write_weights(matrix, first, self.file.range(step.clone()))?;
            self.file.forget(step);
        }
        Ok(())
    }
}

/// How many rows, of this many bytes each, are written together in steps of about `step` bytes.
pub(crate) fn rows_of_a_step(row_bytes: usize, step: usize) -> usize {
    let rows = step / row_bytes.max(1);
    (rows - rows % WeightMatrix::ROWS).max(WeightMatrix::ROWS)
}

/// Whether this many bytes of weights read faster after they have moved, and this machine has room for them: mapped
/// pages it can take back any time, these not.
pub(crate) fn is_worthwhile(device: &Device, bytes: u64) -> Result<bool> {
    let large_pages = cfg!(target_os = "linux");
    let software = device.info()?.kind == crate::DeviceKind::Software;
    let is_large = bytes >= WORTH_MOVING;
    Ok(large_pages && software && is_large && room().is_some_and(|room| bytes <= room / 2))
}

/// Bytes that this process can take without anybody's memory being swapped out.
fn room() -> Option<u64> {
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = group_limits(&group).map(|path| std::fs::read_to_string(path).ok());
    // What a group has cached of files counts as its use, so its use says little; half of its limit is left to the
    // rest.
    let limit = limits
        .filter_map(|text| text?.trim().parse::<u64>().ok())
        .min();
    let available = available(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(available.min(limit.unwrap_or(u64::MAX) / 2))
}

/// proc_meminfo(5): in KiB.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The files that may hold a limit, of the group itself and of those around it: cgroups(7), version 2.
fn group_limits(cgroup: &str) -> impl Iterator<Item = String> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.unwrap_or("/").trim_end_matches('/').to_owned();
    let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
    let ends = ends.into_iter().chain([path.len()]);
    let mut groups: Vec<String> = ends.map(|end| path[..end].to_owned()).collect();
    groups.dedup();
    let file = |group| format!("/sys/fs/cgroup{group}/memory.max");
    groups.into_iter().map(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_read_from_the_system() {
        let text = "MemTotal:       24653768 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(available(text), Some(23_000_000 * 1024));
        for broken in ["", "MemAvailable: many kB", "MemAvailable: 5", "MemAvail"] {
            assert_eq!(available(broken), None, "{broken}");
        }
        if cfg!(target_os = "linux") {
            assert!(room().unwrap() > 1 << 20);
        }
    }

    #[test]
    fn limits_are_those_of_all_groups_around() {
        let of = |text| group_limits(text).collect::<Vec<_>>();
        assert_eq!(
            of("1:cpu:/x\n0::/user.slice/app\n"),
            [
                "/sys/fs/cgroup/memory.max",
                "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/user.slice/app/memory.max"
            ]
        );
        for root in ["0::/\n", "", "4:memory:/docker\n"] {
            assert_eq!(of(root), ["/sys/fs/cgroup/memory.max"], "{root:?}");
        }
    }
}
