//! `[[…]]`: recorded and taken out of the text.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Edit, Rewriter};
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

/// One attribute of a list.
pub struct Attribute {
    /// `buffer`, `clang::noinline`.
    pub name: String,
    /// What stands between its parentheses.
    pub argument: Option<String>,
    /// The same when it is made of string literals: their contents.
    pub string: Option<String>,
}

/// Every attribute of the source, by the index of the token that opens its list.
#[derive(Default)]
pub struct Attributes(BTreeMap<usize, Vec<Attribute>>);

impl Attributes {
    /// (opening token, attribute) for the lists that open in a range of tokens.
    pub fn within(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &Attribute)> {
        self.0
            .range(range)
            .flat_map(|(&at, list)| list.iter().map(move |attribute| (at, attribute)))
    }

    /// Those of what is taken out of the source.
    pub fn forget(&mut self, range: Range<usize>) {
        let taken: Vec<usize> = self.0.range(range).map(|(&at, _)| at).collect();
        for at in taken {
            self.0.remove(&at);
        }
    }

    pub fn all(&self) -> impl Iterator<Item = (usize, &Attribute)> {
        self.within(0..usize::MAX)
    }
}

impl Rewriter<'_> {
    pub fn take_attributes(&mut self) -> Result<(), Error> {
        let mut index = 0;
        while index + 1 < self.len() {
            if self.text(index) == "[" && self.text(index + 1) == "[" {
                let end = self.closing(index);
                if self.closing(index + 1) != end - 1 {
                    return Err(self.error(index, "`[[` needs `]]`"));
                }
                let list = self.attribute_list(index + 2..end - 1);
                self.attributes.0.insert(index, list);
                self.edits[index..=end].fill(Edit::Erase);
                index = end;
            }
            index += 1;
        }
        Ok(())
    }

    fn attribute_list(&self, range: Range<usize>) -> Vec<Attribute> {
        let mut list = Vec::new();
        let mut start = range.start;
        let mut depth = 0;
        for index in range.start..=range.end {
            match self.text(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "}" => depth -= 1,
                _ => {}
            }
            let end = index == range.end;
            if end || (depth == 0 && self.text(index) == ",") {
                if start < index {
                    list.push(self.attribute(start..index));
                }
                start = index + 1;
            }
        }
        list
    }

    fn attribute(&self, range: Range<usize>) -> Attribute {
        let open = range.clone().find(|&index| self.text(index) == "(");
        let name = self.joined(range.start..open.unwrap_or(range.end));
        let inside = open.map(|open| open + 1..range.end - 1);
        let literals = inside.clone().filter(|inside| {
            inside
                .clone()
                .all(|index| self.token(index).kind == Kind::Literal)
        });
        Attribute {
            name,
            argument: inside.map(|inside| self.joined(inside)),
            string: literals.map(|literals| {
                literals
                    .map(|index| self.text(index).trim_matches('"'))
                    .collect()
            }),
        }
    }
}
