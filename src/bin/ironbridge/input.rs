//! Texts that commands read.

use std::error::Error;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// A file's text; that of standard input for `-` and for no file at all.
///
/// # Errors
///
/// When it cannot be read or is not UTF-8.
pub fn read_text(file: Option<&Path>) -> Result<String, Box<dyn Error>> {
    let (name, bytes) = match file {
        Some(path) if path != Path::new("-") => (path.display().to_string(), fs::read(path)),
        _ => {
            let mut bytes = Vec::new();
            let read = io::stdin().lock().read_to_end(&mut bytes);
            ("standard input".to_owned(), read.map(|_| bytes))
        }
    };
    let bytes = bytes.map_err(|error| format!("cannot read {name}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8 text from byte {place} on").into()
    })
}
