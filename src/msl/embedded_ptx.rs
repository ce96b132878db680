//! The PTX modules of ironbridge's own kernels, which the build made (`build/ptx.rs`).
//!
//! For each family a record: its name, how many kernels it has, and their text by DEFLATE. In it stand for each kernel
//! its name and its module. All have their length in front; numbers have 32 bits, little end first.

static RECORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nvidia_kernels.bin"));

/// What the records are read from.
struct Reader<'r>(&'r [u8]);

impl<'r> Reader<'r> {
    fn number(&mut self) -> Option<usize> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u32::from_le_bytes(*number)).ok()
    }

    fn bytes(&mut self, length: usize) -> Option<&'r [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'r str> {
        let length = self.number()?;
        str::from_utf8(self.bytes(length)?).ok()
    }
}

/// A family: its name, how many kernels it has, and their compressed text.
fn records() -> impl Iterator<Item = (&'static str, usize, &'static [u8])> {
    let mut reader = Reader(RECORDS);
    std::iter::from_fn(move || {
        let (name, count, length) = (reader.text()?, reader.number()?, reader.number()?);
        Some((name, count, reader.bytes(length)?))
    })
}

/// How many kernels are embedded.
pub fn count() -> usize {
    records().map(|(_, count, _)| count).sum()
}

/// The kernels of a family with their modules, when they are embedded.
pub fn family(name: &str) -> Option<Vec<(String, String)>> {
    let (_, count, compressed) = records().find(|(family, ..)| *family == name)?;
    let text = miniz_oxide::inflate::decompress_to_vec(compressed).ok()?;
    let mut reader = Reader(&text);
    (0..count)
        .map(|_| Some((String::from(reader.text()?), String::from(reader.text()?))))
        .collect()
}
