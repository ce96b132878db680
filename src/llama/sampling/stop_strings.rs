//! Ends a text before strings that must not be in it.

/// Looks for strings in a text that comes in pieces. What may yet become one of them is held back.
#[derive(Clone, Debug)]
pub(crate) struct StopStrings {
    strings: Vec<String>,
    held: String,
}

impl StopStrings {
    /// Empty strings stop nothing.
    pub fn new(strings: &[String]) -> StopStrings {
        let strings = strings.iter().filter(|string| !string.is_empty());
        StopStrings {
            strings: strings.cloned().collect(),
            held: String::new(),
        }
    }

    /// The text that is safe to give out now that `text` has come, and whether one of the strings came: then it is all
    /// that stood before it, and nothing may follow.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        let found = self
            .strings
            .iter()
            .filter_map(|string| self.held.find(string.as_str()));
        if let Some(start) = found.min() {
            self.held.truncate(start);
            return (std::mem::take(&mut self.held), true);
        }
        let safe = self.held.len() - self.longest_begin();
        let rest = self.held.split_off(safe);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What was held back and did not become one of the strings.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// How many bytes at the end of the held text could be the begin of a string.
    fn longest_begin(&self) -> usize {
        let begins = self.strings.iter().map(|string| {
            let ends = string.char_indices().map(|(end, _)| end).rev();
            ends.into_iter()
                .find(|end| self.held.ends_with(&string[..*end]))
                .unwrap_or(0)
        });
        begins.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stops(strings: &[&str]) -> StopStrings {
        let strings: Vec<String> = strings.iter().map(|string| string.to_string()).collect();
        StopStrings::new(&strings)
    }

    #[test]
    fn a_begin_is_held_back_until_it_is_known() {
        let mut stops = stops(&["\nUser:", ""]);
        assert_eq!(stops.push("Hello\n"), ("Hello".into(), false));
        assert_eq!(stops.push("Us"), ("".into(), false));
        assert_eq!(stops.push("eful"), ("\nUseful".into(), false));
        assert_eq!(stops.push(" text\nUse"), (" text".into(), false));
        assert_eq!(stops.push("r: hi"), ("".into(), true));
        let mut open = self::stops(&["END"]);
        assert_eq!(open.push("the EN"), ("the ".into(), false));
        assert_eq!(open.finish(), "EN");
    }

    #[test]
    fn the_first_of_several_counts() {
        assert_eq!(stops(&["b", "ab"]).push("xaby"), ("x".into(), true));
        assert_eq!(stops(&["é", "e"]).push("caf\u{e9}"), ("caf".into(), true));
    }

    proptest! {
        /// However the text is cut, what is given out is all before the first stop string, or everything.
        #[test]
        fn any_cuts_give_the_same(text in "[abé]{0,24}", cuts in proptest::collection::vec(0usize..24, 0..6)) {
            let strings = ["aba", "bé", "éé"];
            let mut stops = stops(&strings);
            let mut found = String::new();
            let mut stopped = false;
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (text.chars().count() + 1)).collect();
            places.sort();
            let characters: Vec<char> = text.chars().collect();
            let mut start = 0;
            for end in places.into_iter().chain([characters.len()]) {
                let piece: String = characters[start..end].iter().collect();
                start = end;
                let (safe, stop) = stops.push(&piece);
                found.push_str(&safe);
                stopped = stop;
                if stop {
                    break;
                }
            }
            if !stopped {
                found.push_str(&stops.finish());
            }
            let first = strings.iter().filter_map(|string| text.find(string)).min();
            prop_assert_eq!(stopped, first.is_some());
            prop_assert_eq!(found, &text[..first.unwrap_or(text.len())]);
        }
    }
}
