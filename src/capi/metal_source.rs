//! Metal sources with what they include.

use std::ffi::c_char;

use super::arguments::{Room, array, path, string};
use super::call::{Failure, enter};
use crate::error::Status;
use crate::ffi;
use crate::kernel::include::expanded;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_source_with_includes(
    source: *const c_char,
    folders: *const *const c_char,
    folder_count: usize,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_source_with_includes", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((text, capacity), "text", (length, "length")) }?;
        // SAFETY: as above.
        let source = unsafe { string(source, "source") }?;
        // SAFETY: as above.
        let given = unsafe { array(folders, folder_count, "folders") }?;
        let mut folders = Vec::with_capacity(given.len());
        for (index, &folder) in given.iter().enumerate() {
            // SAFETY: as above.
            let folder = unsafe { path(folder, &format!("folders[{index}]")) }?;
            folders.push(folder.to_path_buf());
        }
        let made = expanded(source, &folders);
        let made = made.map_err(|message| Failure::new(Status::Compile, message))?;
        room.write_text(made.as_bytes())
    })
}
