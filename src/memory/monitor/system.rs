//! What the system knows of other processes.

/// The user that this process acts for.
pub fn user() -> u32 {
    // SAFETY: takes nothing, always succeeds.
    unsafe { libc::geteuid() }
}

/// What there is of a process number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// A process that started then, in the system's own unit.
    Since(u64),
    /// None, or one that has ended and whose parent has not looked yet.
    Gone,
    /// The system does not tell.
    Unknown,
}

#[cfg(not(target_vendor = "apple"))]
pub fn life(pid: u64) -> Life {
    use std::io::ErrorKind::NotFound;

    let has_proc = || std::path::Path::new("/proc/self/stat").exists();
    match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => life_in(&stat).unwrap_or(Life::Unknown),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Life::Gone,
        Err(error) if error.kind() == NotFound && has_proc() => Life::Gone,
        Err(_) => Life::Unknown,
    }
}

/// proc(5): fields 3 and 22, counted behind the name in parentheses (field 2), which may be any bytes.
#[cfg(not(target_vendor = "apple"))]
fn life_in(stat: &[u8]) -> Option<Life> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return Some(Life::Gone);
    }
    fields.nth(18)?.parse().ok().map(Life::Since)
}

/// Resident memory of a process, bytes.
#[cfg(not(target_vendor = "apple"))]
pub fn resident_bytes(pid: u64) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * crate::memory::page_size() as u64)
}

#[cfg(target_vendor = "apple")]
pub fn life(pid: u64) -> Life {
    let Some(info) = process_info::<libc::proc_bsdinfo>(pid, libc::PROC_PIDTBSDINFO) else {
        let refused = std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
        return if refused { Life::Unknown } else { Life::Gone };
    };
    match info.pbi_status {
        libc::SZOMB => Life::Gone,
        _ => Life::Since(info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec),
    }
}

#[cfg(target_vendor = "apple")]
pub fn resident_bytes(pid: u64) -> Option<u64> {
    let info: libc::proc_taskinfo = process_info(pid, libc::PROC_PIDTASKINFO)?;
    Some(info.pti_resident_size)
}

/// One of the structs of <sys/proc_info.h>.
#[cfg(target_vendor = "apple")]
fn process_info<T>(pid: u64, flavor: libc::c_int) -> Option<T> {
    let pid = libc::c_int::try_from(pid).ok()?;
    let size = size_of::<T>() as libc::c_int;
    let mut info = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `info` has room for `size` bytes.
    let filled = unsafe { libc::proc_pidinfo(pid, flavor, 0, info.as_mut_ptr().cast(), size) };
    // SAFETY: these structs are numbers only, and the system has filled all of it.
    (filled == size).then(|| unsafe { info.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_and_memory() {
        let pid = u64::from(std::process::id());
        assert!(matches!(life(pid), Life::Since(start) if start > 0));
        assert!(resident_bytes(pid).is_some_and(|bytes| bytes > 1 << 16));
        assert_eq!(life(u64::MAX), Life::Gone);
    }

    #[test]
    fn one_that_has_ended_is_not_alive() {
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("there is a true");
        let pid = u64::from(child.id());
        // Nobody has waited for it, so that its number is still taken.
        while life(pid) != Life::Gone {
            std::thread::yield_now();
        }
        child.wait().expect("a child");
    }

    #[cfg(not(target_vendor = "apple"))]
    #[test]
    fn a_name_may_be_any_bytes() {
        let rest = b" S 1 2 2 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        for name in [&b"a) b (c"[..], b"ib\xff\xfe", b")"] {
            let stat = [b"7 (", name, b")", rest].concat();
            assert_eq!(life_in(&stat), Some(Life::Since(4711)), "{name:?}");
        }
        assert_eq!(life_in(b"7 (cut) S 1 2"), None);
        assert_eq!(life_in(b""), None);
        assert_eq!(life_in(b"7 (dead) Z 1 2"), Some(Life::Gone));
    }
}
