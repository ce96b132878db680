//! One process's file: `include/ironbridge_monitor.h`.
//!
//! It is read and written, not mapped: a file that gets shorter would end a reader that has it mapped. On Linux it is
//! a link to a memfd of the process, and nothing else that a link leads to is opened: a descriptor's number may have
//! become another file's.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::folder::Publication;
use super::{Place, Process, PublishedDevice, checked, system};
use crate::device::DeviceKind;
use crate::error::Result;
use crate::ffi::monitor::*;

/// How often a device is read before its figures are taken although the bridge changed them meanwhile: each is right by
/// itself.
const ATTEMPTS: usize = 100;
/// More than any version of the bridge writes.
const LONGEST: usize = 1 << 20;

/// The process of a file; `None` when it is gone or its file is not (yet) one that can be understood.
pub fn read(publication: &Publication) -> io::Result<Option<Process>> {
    if !publication.is_alive() {
        return Ok(None);
    }
    process(&open(&publication.path)?, publication)
}

pub fn write_baseline(place: &Place, bytes: u64) -> Result<()> {
    let offset = offset_of!(iron_published_device, baseline_bytes) as u64;
    write(place, offset, bytes)
}

pub fn request_peak_reset(place: &Place) -> Result<()> {
    // There is but one request, so that writing it is what OR would do.
    let offset = offset_of!(iron_published_device, requests) as u64;
    write(place, offset, IRON_PUBLISHED_RESET_PEAK.into())
}

fn write(place: &Place, offset: u64, value: u64) -> Result<()> {
    let result = open(&place.path)
        .and_then(|file| file.write_all_at(&value.to_ne_bytes(), place.slot + offset));
    checked("writing", &place.path, result)
}

fn open(path: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    if std::fs::symlink_metadata(path)?.is_symlink() {
        return open_memory(path);
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// Opens the memory that a link PID-START leads to.
#[cfg(target_os = "linux")]
fn open_memory(link: &Path) -> io::Result<File> {
    use std::os::fd::AsRawFd;

    let refused = |reason: &str| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    let name = link.file_name().and_then(|name| name.to_str());
    let (pid, start) = name
        .and_then(|name| name.split_once('-'))
        .unwrap_or_default();
    if !std::fs::read_link(link)?.starts_with(format!("/proc/{pid}/fd")) {
        return refused("it is a link, and not to a descriptor of its process");
    }
    // Held, not opened (O_PATH): it stays what it is between the look at it and the opening, and nothing notices
    // before.
    let held = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(link)?;
    let own = format!("/proc/self/fd/{}", held.as_raw_fd());
    let expected = format!("/memfd:ironbridge-{pid}-{start} (deleted)");
    if std::fs::read_link(&own)? != Path::new(&expected) {
        return refused("its process has closed it");
    }
    OpenOptions::new().read(true).write(true).open(own)
}

/// Fields by their place in a struct of the header.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.array(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.array(offset))
    }

    fn text(&self, offset: usize) -> String {
        let bytes: [u8; 64] = self.array(offset);
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        // A name is shown on terminals.
        String::from_utf8_lossy(text).replace(char::is_control, "?")
    }

    fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        std::array::from_fn(|index| self.0.get(offset + index).copied().unwrap_or(0))
    }
}

fn process(file: &File, publication: &Publication) -> io::Result<Option<Process>> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if !(size_of::<iron_published_process>()..LONGEST).contains(&length) {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    let header = Fields(&bytes);
    let start = header.u32(offset_of!(iron_published_process, device_offset)) as usize;
    let size = header.u32(offset_of!(iron_published_process, device_size)) as usize;
    let slots = header.u32(offset_of!(iron_published_process, device_slots)) as usize;
    let end = size
        .checked_mul(slots)
        .and_then(|length| length.checked_add(start));
    let understood = header.u32(offset_of!(iron_published_process, magic)) == IRON_PUBLISHED_MAGIC
        && header.u32(offset_of!(iron_published_process, version)) == IRON_PUBLISHED_VERSION
        && header.u64(offset_of!(iron_published_process, pid)) == publication.pid
        && size >= size_of::<iron_published_device>()
        && end.is_some_and(|end| end <= length);
    if !understood {
        return Ok(None);
    }
    let mut devices = Vec::new();
    for slot in 0..slots {
        let place = start + slot * size;
        if Fields(&bytes[place..]).u64(offset_of!(iron_published_device, opened_at)) != 0 {
            devices.extend(device(file, publication, place as u64)?);
        }
    }
    Ok(Some(Process {
        pid: publication.pid,
        program: header.text(offset_of!(iron_published_process, program)),
        published_at: moment(header.u64(offset_of!(iron_published_process, published_at))),
        resident_bytes: system::resident_bytes(publication.pid),
        devices,
        unpublished_devices: header.u32(offset_of!(iron_published_process, unpublished)),
    }))
}

/// The device of a slot, with figures that belong together; `None` when it was closed meanwhile.
fn device(
    file: &File,
    publication: &Publication,
    slot: u64,
) -> io::Result<Option<PublishedDevice>> {
    let mut bytes = [0; size_of::<iron_published_device>()];
    for _ in 0..ATTEMPTS {
        file.read_exact_at(&mut bytes, slot)?;
        let mut sequence = [0; 8];
        file.read_exact_at(
            &mut sequence,
            slot + offset_of!(iron_published_device, sequence) as u64,
        )?;
        let before = Fields(&bytes).u64(offset_of!(iron_published_device, sequence));
        if before % 2 == 0 && before == u64::from_ne_bytes(sequence) {
            break;
        }
    }
    let fields = Fields(&bytes);
    let opened_at = fields.u64(offset_of!(iron_published_device, opened_at));
    if opened_at == 0 {
        return Ok(None);
    }
    let limit = fields.u64(offset_of!(iron_published_device, memory_limit));
    Ok(Some(PublishedDevice {
        kind: DeviceKind::from_native(fields.u32(offset_of!(iron_published_device, kind))),
        index: fields.u32(offset_of!(iron_published_device, index)),
        name: fields.text(offset_of!(iron_published_device, name)),
        opened_at: moment(opened_at),
        active_bytes: fields.u64(offset_of!(iron_published_device, active_bytes)),
        active_buffers: fields.u64(offset_of!(iron_published_device, active_buffers)),
        cached_bytes: fields.u64(offset_of!(iron_published_device, cached_bytes)),
        cached_buffers: fields.u64(offset_of!(iron_published_device, cached_buffers)),
        peak_bytes: fields.u64(offset_of!(iron_published_device, peak_bytes)),
        baseline_bytes: fields.u64(offset_of!(iron_published_device, baseline_bytes)),
        memory_limit: (limit != u64::MAX).then_some(limit),
        allocations: fields.u64(offset_of!(iron_published_device, allocations)),
        releases: fields.u64(offset_of!(iron_published_device, releases)),
        pool_hits: fields.u64(offset_of!(iron_published_device, pool_hits)),
        pool_misses: fields.u64(offset_of!(iron_published_device, pool_misses)),
        operations: fields.u64(offset_of!(iron_published_device, operations)),
        place: Place {
            path: publication.path.clone(),
            slot,
        },
    }))
}

fn moment(nanoseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}
