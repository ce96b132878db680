//! What the system knows of other processes.

/// The user that this process acts for.
pub fn user() -> u32 {
    // SAFETY: takes nothing, always succeeds.
    unsafe { libc::geteuid() }
}

/// When a process started, in the system's own unit; `None` when there is none of that number.
#[cfg(not(target_vendor = "apple"))]
pub fn start_time(pid: u64) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc(5): field 22, counted behind the name in parentheses (field 2), which may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    // One that has ended and whose parent has not looked yet is not alive.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Resident memory of a process, bytes.
#[cfg(not(target_vendor = "apple"))]
pub fn resident_bytes(pid: u64) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * crate::memory::page_size() as u64)
}

#[cfg(target_vendor = "apple")]
pub fn start_time(pid: u64) -> Option<u64> {
    let info: libc::proc_bsdinfo = process_info(pid, libc::PROC_PIDTBSDINFO)?;
    (info.pbi_status != libc::SZOMB)
        .then(|| info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec)
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
        assert!(start_time(pid).is_some());
        assert!(resident_bytes(pid).is_some_and(|bytes| bytes > 1 << 16));
        assert_eq!(start_time(u64::MAX), None);
    }

    #[test]
    fn one_that_has_ended_is_not_alive() {
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("there is a true");
        let pid = u64::from(child.id());
        // Nobody has waited for it, so that its number is still taken.
        while start_time(pid).is_some() {
            std::thread::yield_now();
        }
        child.wait().expect("a child");
    }
}
