//! Reads little-endian fields, never past the end.

use super::error::{GgufError, GgufErrorKind};

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, position: 0 }
    }

    pub fn position(&self) -> u64 {
        self.position as u64
    }

    pub fn left(&self) -> u64 {
        (self.bytes.len() - self.position) as u64
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, what: &'static str, length: u64) -> Result<&'a [u8], GgufError> {
        if length > self.left() {
            return Err(self.error(GgufErrorKind::Truncated {
                what,
                needed: length,
                left: self.left(),
            }));
        }
        // Not more than is left of a slice, so it fits.
        let end = self.position + length as usize;
        let bytes = &self.bytes[self.position..end];
        self.position = end;
        Ok(bytes)
    }

    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(what, N as u64)?);
        Ok(array)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A number of items that take at least `item_size` bytes each and follow somewhere after this. It is refused when
    /// it is above `limit` or when the file is too short to hold that many, so that room for them may be allocated.
    pub fn count(
        &mut self,
        what: &'static str,
        item_size: u64,
        limit: u64,
    ) -> Result<usize, GgufError> {
        let offset = self.position();
        let value = self.u64(what)?;
        if value > limit {
            let kind = GgufErrorKind::TooLarge { what, value, limit };
            return Err(GgufError { offset, kind });
        }
        let needed = value.saturating_mul(item_size);
        let left = self.left();
        if needed > left {
            let kind = GgufErrorKind::Truncated { what, needed, left };
            return Err(GgufError { offset, kind });
        }
        Ok(value as usize) // not more than is left of a slice
    }

    /// A length of 64 bits and that many bytes.
    pub fn string(&mut self, what: &'static str, limit: u64) -> Result<&'a [u8], GgufError> {
        let length = self.count(what, 1, limit)?;
        self.bytes(what, length as u64)
    }

    pub fn utf8(&mut self, what: &'static str, limit: u64) -> Result<&'a str, GgufError> {
        let offset = self.position();
        let bytes = self.string(what, limit)?;
        let kind = GgufErrorKind::NotUtf8(what);
        std::str::from_utf8(bytes).map_err(|_| GgufError { offset, kind })
    }

    /// `count` numbers of `N` bytes each.
    pub fn numbers<const N: usize, T>(
        &mut self,
        count: usize,
        from: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, GgufError> {
        let bytes = self.bytes("array", (count as u64).saturating_mul(N as u64))?;
        let (numbers, _) = bytes.as_chunks::<N>();
        Ok(numbers.iter().map(|number| from(*number)).collect())
    }

    /// An error at the current position.
    pub fn error(&self, kind: GgufErrorKind) -> GgufError {
        GgufError {
            offset: self.position(),
            kind,
        }
    }
}
