//! The alphabet in which byte-level vocabularies write bytes: `bytes_to_unicode` of GPT-2's `encoder.py`.
//!
//! Bytes that print stand for themselves; the others, in their order, are the characters from U+0100 on.

/// Whether a byte stands for itself.
fn prints(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

fn byte_of(character: char) -> Option<u8> {
    match u8::try_from(character) {
        Ok(byte) => Some(byte).filter(|byte| prints(*byte)),
        Err(_) => {
            let index = (character as usize).checked_sub(0x100)?;
            (0..=u8::MAX).filter(|byte| !prints(*byte)).nth(index)
        }
    }
}

/// The bytes that a piece of such a vocabulary stands for. One that is not written in the alphabet stands for itself.
pub(super) fn bytes_of(piece: &[u8]) -> Box<[u8]> {
    let characters = std::str::from_utf8(piece).ok().map(str::chars);
    let bytes = characters.and_then(|characters| characters.map(byte_of).collect());
    bytes.unwrap_or_else(|| piece.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_gpt_2s() {
        assert_eq!(*bytes_of("\u{120}the\u{10a}".as_bytes()), *b" the\n");
        assert_eq!(*bytes_of("\u{e9}\u{143}".as_bytes()), [0xE9, 0xAD]);
        assert_eq!(
            *bytes_of("\u{100}\u{121}\u{142}".as_bytes()),
            [0, 0x7F, 0xA0]
        );
        // Outside of the alphabet: a space and a character that is too far.
        assert_eq!(*bytes_of(b"a b"), *b"a b");
        assert_eq!(*bytes_of("\u{144}".as_bytes()), *"\u{144}".as_bytes());
        let mut all: Vec<u8> = (0u32..0x144)
            .filter_map(char::from_u32)
            .filter_map(byte_of)
            .collect();
        all.sort();
        assert_eq!(all, (0..=255).collect::<Vec<u8>>());
    }
}
