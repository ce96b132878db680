//! What the system says of a process's memory. Other threads' allocations would be in it.

use ironbridge::memory::process_memory;

crate::harness::cases! {
    resident_memory_grows_by_what_is_touched,
}

fn resident_memory_grows_by_what_is_touched() {
    const SIZE: usize = 64 << 20;
    let before = process_memory().unwrap();
    let touched = std::hint::black_box(vec![1u8; SIZE]);
    let after = process_memory().unwrap();
    assert_eq!(touched.len(), SIZE);
    assert!(
        after.resident_bytes >= before.resident_bytes + SIZE as u64 / 2,
        "{before:?}, then {after:?}"
    );
    assert!(after.peak_resident_bytes >= after.resident_bytes);
}
