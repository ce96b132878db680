//! Texts that commands read.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::terminal::bytes;

/// The longest text that a command reads, in bytes. A device file has no end.
const LONGEST: u64 = 256 << 20;

/// A file's text; that of standard input for `-` and for no file at all.
///
/// # Errors
///
/// When it cannot be read, is longer than 256 MiB or is not UTF-8.
pub fn read_text(file: Option<&Path>) -> Result<String, Box<dyn Error>> {
    let (name, read) = match file {
        Some(path) if path != Path::new("-") => {
            let read = File::open(path).and_then(|file| read_bytes(file, LONGEST));
            (path.display().to_string(), read)
        }
        _ => {
            let read = read_bytes(io::stdin().lock(), LONGEST);
            ("standard input".to_owned(), read)
        }
    };
    let read = read.map_err(|error| format!("cannot read {name}: {error}"))?;
    let read = read.ok_or_else(|| {
        let limit = bytes(LONGEST);
        format!("{name} is longer than {limit}, the most that is read of a text")
    })?;
    String::from_utf8(read).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8 text from byte {place} on").into()
    })
}

/// All of it; `None` when it has more than `limit` bytes.
fn read_bytes(from: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::read_bytes;

    #[test]
    fn what_is_longer_than_the_limit_is_refused() {
        let of = |text: &str| read_bytes(text.as_bytes(), 4).expect("memory is readable");
        assert_eq!(of("four"), Some(b"four".to_vec()));
        assert_eq!(of("fives"), None);
        let endless = read_bytes(std::io::repeat(0), 1 << 20);
        assert_eq!(endless.expect("zeros are readable"), None);
    }
}
