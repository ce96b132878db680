//! SentencePiece's table of characters, `precompiled_charsmap`: its `normalizer.cc`, and darts-clone's double array
//! (<https://github.com/s-yata/darts-clone>).
//!
//! The file is the size of the array in 4 bytes, the array, and texts that end in a zero byte. The array is a trie over
//! the bytes of what is replaced, whose values are places in the texts.

use unicode_segmentation::UnicodeSegmentation;

/// The most bytes of one replacement. The longest of Unicode's NFKC has 33.
const LONGEST: usize = 256;

#[derive(Clone, Debug)]
pub(in crate::llama) struct CharacterMap {
    units: Box<[u32]>,
    texts: Box<str>,
    longest: usize,
}

/// What a unit of the array says.
fn has_value(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn value(unit: u32) -> usize {
    (unit & (u32::MAX >> 1)) as usize
}

fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xFF)
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

impl CharacterMap {
    /// # Errors
    ///
    /// What is wrong with it, for a message.
    pub fn parse(bytes: &[u8]) -> Result<CharacterMap, &'static str> {
        let (size, rest) = bytes
            .split_first_chunk()
            .ok_or("its table of characters is too short")?;
        let size = u32::from_le_bytes(*size) as usize;
        if size == 0 || !size.is_multiple_of(4) || size > rest.len() {
            return Err("its table of characters ends inside the array");
        }
        let (array, texts) = rest.split_at(size);
        let texts = std::str::from_utf8(texts)
            .map_err(|_| "its table of characters has texts that are no UTF-8")?;
        let longest = texts.split('\0').map(str::len).max().unwrap_or(0);
        if longest > LONGEST {
            return Err("its table of characters has a text of more than 256 bytes");
        }
        let units = array
            .as_chunks()
            .0
            .iter()
            .map(|unit| u32::from_le_bytes(*unit));
        Ok(CharacterMap {
            units: units.collect(),
            texts: texts.into(),
            longest,
        })
    }

    /// The most bytes that a byte becomes.
    pub fn growth(&self) -> usize {
        self.longest.max(1)
    }

    /// What the longest begin of `text` that the table has becomes, and the length of that begin.
    pub fn longest_prefix(&self, text: &[u8]) -> Option<(usize, &str)> {
        self.prefixes(text).last()
    }

    /// As the `tokenizers` package does it: a cluster of fewer than six bytes becomes what its shortest begin becomes,
    /// and each character of another one what it becomes itself.
    pub fn replace_clusters(&self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        for cluster in text.graphemes(true) {
            let whole = self.prefixes(cluster.as_bytes()).next();
            if let Some((_, text)) = whole.filter(|_| cluster.len() < 6) {
                replaced.push_str(text);
                continue;
            }
            for (start, character) in cluster.char_indices() {
                let own = &cluster[start..start + character.len_utf8()];
                let found = self.prefixes(own.as_bytes()).next();
                replaced.push_str(found.map_or(own, |(_, text)| text));
            }
        }
        replaced
    }

    /// Each begin of `text` that the table has, shortest first: its length, and what it becomes. Places outside of the
    /// array or of the texts end the search.
    fn prefixes<'a>(&'a self, text: &[u8]) -> impl Iterator<Item = (usize, &'a str)> {
        let root = self.units.first().copied();
        let mut place = root.map(offset);
        let mut bytes = text.iter().enumerate();
        std::iter::from_fn(move || {
            loop {
                let (index, byte) = bytes.next().filter(|(_, byte)| **byte != 0)?;
                let child = place? ^ usize::from(*byte);
                let unit = *self.units.get(child)?;
                if label(unit) != u32::from(*byte) {
                    place = None;
                    return None;
                }
                let next = child ^ offset(unit);
                place = Some(next);
                if has_value(unit) {
                    let found = value(*self.units.get(next)?);
                    let text = self.texts.get(found..)?.split('\0').next()?;
                    return Some((index + 1, text));
                }
            }
        })
        .fuse()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// "a" becomes "xy" and "ab" nothing, laid out by hand: the children of a unit are at its offset, exclusive-or
    /// their byte; a value is at the offset itself.
    fn table() -> Vec<u8> {
        let mut units = vec![0u32; 1024];
        let at = |offset: u32| offset << 10;
        units[0] = at(256);
        units[256 ^ 0x61] = at(512 ^ 256 ^ 0x61) | 1 << 8 | 0x61;
        units[512] = 1 << 31;
        units[512 ^ 0x62] = at(768 ^ 512 ^ 0x62) | 1 << 8 | 0x62;
        units[768] = 1 << 31 | 3;
        let mut file = (units.len() as u32 * 4).to_le_bytes().to_vec();
        file.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        file.extend(b"xy\0\0");
        file
    }

    #[test]
    fn the_longest_begin_counts_or_the_shortest() {
        let map = CharacterMap::parse(&table()).unwrap();
        assert_eq!(map.longest_prefix(b"ac"), Some((1, "xy")));
        assert_eq!(map.longest_prefix(b"abc"), Some((2, "")));
        assert_eq!(map.longest_prefix(b"c"), None);
        assert_eq!(map.replace_clusters("cab"), "cxyb");
        // The mark belongs to the cluster, which becomes what the letter becomes.
        assert_eq!(map.replace_clusters("a\u{301}b"), "xyb");
    }

    #[test]
    fn a_table_that_is_none_is_refused() {
        let file = table();
        assert!(CharacterMap::parse(&[]).is_err());
        assert!(CharacterMap::parse(&file[..4000]).is_err());
        assert!(CharacterMap::parse(&[&file[..], b"\xff"].concat()).is_err());
        assert!(CharacterMap::parse(&[&file[..], &[b'a'; 300]].concat()).is_err());
        let mut odd = file.clone();
        odd[0] = 3;
        assert!(CharacterMap::parse(&odd).is_err());
    }

    proptest! {
        #[test]
        fn any_array_is_searched_without_harm(
            units in proptest::collection::vec(any::<u32>(), 1..600),
            text in "\\PC{0,20}",
        ) {
            let mut file = (units.len() as u32 * 4).to_le_bytes().to_vec();
            file.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
            file.extend("one\0\u{e9}\0".as_bytes());
            let map = CharacterMap::parse(&file).unwrap();
            map.replace_clusters(&text);
            if let Some((length, _)) = map.longest_prefix(text.as_bytes()) {
                prop_assert!(length <= text.len());
            }
        }
    }
}
