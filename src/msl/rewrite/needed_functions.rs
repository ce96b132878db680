//! A kernel is compiled from its source without the bodies of functions that it does not need: in a file with many
//! kernels, reading these takes longer than compiling one. Need is told by names, so too much is kept and never too
//! little: a function is needed when its name is said anywhere that is.

use std::collections::HashMap;
use std::ops::Range;

/// A function's definition outside of classes.
pub struct Definition {
    pub name: String,
    /// Where it has its name.
    pub head: usize,
    /// Its braces, and what is in them.
    pub body: Range<usize>,
}

/// Which functions need which. By name, so that overloads of one are as one.
#[derive(Default)]
pub struct Needs {
    numbers: HashMap<String, usize>,
    /// By definition, the number of its name.
    definitions: Vec<usize>,
    /// By name, those that its definitions say.
    said: Vec<Vec<usize>>,
    /// Those that are said outside of definitions.
    always: Vec<usize>,
}

impl Needs {
    pub fn new(definitions: &[Definition]) -> Needs {
        let mut needs = Needs::default();
        for definition in definitions {
            let fresh = needs.said.len();
            let name = definition.name.clone();
            let number = *needs.numbers.entry(name).or_insert(fresh);
            if number == fresh {
                needs.said.push(Vec::new());
            }
            needs.definitions.push(number);
        }
        needs
    }

    /// Takes a word in that stands in a definition's body, or elsewhere.
    pub fn note(&mut self, word: &str, definition: Option<usize>) {
        if let Some(&number) = self.numbers.get(word) {
            let by = match definition {
                Some(definition) => &mut self.said[self.definitions[definition]],
                None => &mut self.always,
            };
            by.push(number);
        }
    }

    /// By definition, whether a kernel needs it that these texts are about.
    pub fn of<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Vec<bool> {
        let mut needed = vec![false; self.said.len()];
        let mut left = self.always.clone();
        for text in texts {
            let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            left.extend(words.filter_map(|word| self.numbers.get(word)));
        }
        while let Some(name) = left.pop() {
            if !std::mem::replace(&mut needed[name], true) {
                left.extend(&self.said[name]);
            }
        }
        self.definitions.iter().map(|&name| needed[name]).collect()
    }
}

/// What stands for a part of a body that is left out: its ends of lines.
pub fn lines_of(text: &str) -> String {
    let mut lines = String::new();
    for line in text.split_inclusive('\n') {
        match line.trim_start().starts_with('#') {
            true => lines += line, // it says which line the next one is
            false if line.ends_with('\n') => lines.push('\n'),
            false => {}
        }
    }
    lines
}
