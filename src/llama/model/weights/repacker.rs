//! Weights that begin in a mapped file and move, while the model is used, into buffers of their own.
//!
//! A model is ready as soon as its file is mapped. But a file lies in small pages, each with a translation of its own,
//! and processors prefetch no further than to the end of one; a long buffer of the software device has pages of 2 MiB.
//! And there the rows of a matrix come to lie interleaved where their type allows it, which is the order in which its
//! kernels compute (`docs/DESIGN.md`, "Memory").
//!
//! The matrices of a layer, or of some, share a buffer, their shelf: the longer it is, the less of it lies behind its
//! last large page. What is multiplied with the same vector lies side by side there and can be one matrix.

use std::ops::Range;
use std::sync::Arc;

use super::weight::Weight;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::llama::files::mapped_file::MappedFile;
use crate::memory::Category;
use crate::ops::Interleave;

/// A pass moves one part in so many, as does every further [`TOKENS`] of it.
const PASSES: u64 = 64;
const TOKENS: usize = 32;

/// About how many bytes are in memory twice.
const STEP: usize = 8 << 20;

/// Bytes after which a shelf is long enough: part of a large page is little beside it.
pub(crate) const SHELF: u64 = 32 << 20;

/// What matrices on a shelf begin at multiples of, in bytes: the lines of a cache.
const ALIGNMENT: u64 = 64;

/// Weights shorter than this in all stay where they are unless told to move: a last-level cache may hold them.
const WORTH_MOVING: u64 = 64 << 20;

/// What has not moved yet. What moves when depends on the tokens of the passes alone: weights that moved are not
/// rounded as others are, and the same text should not differ from one run to the next.
#[derive(Debug)]
pub(in crate::llama) struct Moving {
    device: Device,
    /// In the order opposite to that of passes, in which they were asked for.
    waiting: Vec<Waiting>,
    /// That of the last one that moved.
    shelf: Option<Shelf>,
    /// Of all weights, in bytes.
    total: u64,
    earned: u64,
    spent: u64,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub weight: Weight,
    pub name: String,
    pub file: MappedFile,
    pub bytes: Range<u64>,
    /// How it is to be interleaved, if at all.
    pub strips: Option<Strips>,
    /// The shelf it is to lie on when it is.
    pub shelf: usize,
}

/// A buffer that is filled from its start.
#[derive(Debug)]
struct Shelf {
    number: usize,
    buffer: Arc<Buffer<u8>>,
    filled: u64,
}

/// A matrix of whole strips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strips {
    rows: usize,
    width: usize,
}

impl Strips {
    pub fn of(width: usize, rows: usize, dtype: DType) -> Option<Strips> {
        let whole = dtype.can_interleave() && rows.is_multiple_of(Interleave::STRIP);
        whole.then_some(Strips { rows, width })
    }
}

impl Moving {
    pub(crate) fn new(device: &Device, mut waiting: Vec<Waiting>) -> Moving {
        waiting.reverse();
        let lengths = waiting.iter().map(Waiting::length);
        Moving {
            device: device.clone(),
            total: lengths.sum(),
            waiting,
            shelf: None,
            earned: 0,
            spent: 0,
        }
    }

    /// Says of how many tokens a pass was.
    pub fn earn(&mut self, tokens: usize) {
        let parts = tokens.div_ceil(TOKENS) as u64;
        self.earned += parts * self.total.div_ceil(PASSES);
    }

    /// Moves as many weights as were earned. False when there is nothing left to do: all have moved, or there is no
    /// memory for more, and the others stay in their file.
    pub fn proceed(&mut self) -> bool {
        while self.spent < self.earned {
            let Some(next) = self.waiting.pop() else {
                return false;
            };
            self.spent += next.length();
            if self.relocate(&next).is_err() {
                return false;
            }
        }
        !self.waiting.is_empty()
    }

    /// Moves all the others.
    pub fn finish(mut self) {
        while let Some(next) = self.waiting.pop()
            && self.relocate(&next).is_ok()
        {}
    }

    /// What has been read is given back to the system at once, so that hardly anything is in memory twice.
    fn relocate(&mut self, waiting: &Waiting) -> Result<()> {
        if let Some(strips) = waiting.strips {
            let (buffer, offset) = self.place_on_shelf(waiting)?;
            self.interleave(waiting, strips, &buffer, offset)?;
            waiting.weight.relocate(buffer, offset, true);
            return Ok(());
        }
        let mut buffer = self.buffer(&waiting.name, Category::Weights, waiting.length())?;
        for start in (0..waiting.length()).step_by(STEP) {
            let step = waiting.step(start, STEP as u64);
            buffer.write_at(start as usize, waiting.file.range(step.clone()))?;
            waiting.file.forget(step);
        }
        waiting.weight.relocate(Arc::new(buffer), 0, false);
        Ok(())
    }

    fn buffer(&self, label: &str, category: Category, length: u64) -> Result<Buffer<u8>> {
        let options = self.device.buffer_options().label(label);
        options.category(category).create(length as usize)
    }

    /// Room for it on its shelf, which is made for the first of those that it is for.
    fn place_on_shelf(&mut self, waiting: &Waiting) -> Result<(Arc<Buffer<u8>>, usize)> {
        let number = waiting.shelf;
        let shelf = match self.shelf.take() {
            Some(shelf) if shelf.number == number => shelf,
            _ => {
                let after = self.waiting.iter().rev();
                let after = after.take_while(|weight| weight.shelf == number);
                let after = after.filter(|weight| weight.strips.is_some());
                let room = after.fold(waiting.length(), |room, weight| {
                    room.next_multiple_of(ALIGNMENT) + weight.length()
                });
                let label = format!("{} and what follows", waiting.name);
                Shelf {
                    number,
                    buffer: Arc::new(self.buffer(&label, Category::Interleaved, room)?),
                    filled: 0,
                }
            }
        };
        let offset = shelf.filled.next_multiple_of(ALIGNMENT);
        let buffer = shelf.buffer.clone();
        self.shelf = Some(Shelf {
            filled: offset + waiting.length(),
            ..shelf
        });
        Ok((buffer, offset as usize))
    }

    fn interleave(
        &self,
        waiting: &Waiting,
        strips: Strips,
        to: &Buffer<u8>,
        offset: usize,
    ) -> Result<()> {
        let Strips { rows, width } = strips;
        let from = waiting.weight.place();
        let row = waiting.length() as usize / rows;
        let strips = (STEP / (Interleave::STRIP * row)).max(1);
        for first in (0..rows).step_by(strips * Interleave::STRIP) {
            let rows = (rows - first).min(strips * Interleave::STRIP);
            let options = self.device.commands_options().label("interleave weights");
            let mut commands = options.begin()?;
            commands.interleave(&Interleave {
                rows,
                width,
                x: from.tensor().skip(first * width),
                out: to.tensor_at(offset + first * row, from.dtype),
            })?;
            commands.run()?;
            let step = waiting.step((first * row) as u64, (rows * row) as u64);
            waiting.file.forget(step);
        }
        Ok(())
    }
}

impl Waiting {
    /// In bytes.
    pub fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// Where in the file some of its bytes are, at most `length`.
    fn step(&self, start: u64, length: u64) -> Range<u64> {
        let start = self.bytes.start + start;
        start..self.bytes.end.min(start + length)
    }
}

/// Whether so many bytes of weights read faster after they have moved, and this machine has room for them: mapped pages
/// it can take back any time, these not.
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
