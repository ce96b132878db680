//! Which bracket closes which.

use crate::msl::error::Error;
use crate::msl::tokens::Tokens;

/// Brackets within brackets: clang's own limit.
const DEEPEST: usize = 256;

/// The other bracket of each, by index of tokens; every other token is its own.
pub struct Brackets(Vec<u32>);

impl Brackets {
    /// Every bracket of a source is closed, by one of its kind.
    pub fn pair(tokens: &Tokens) -> Result<Brackets, Error> {
        let list = &tokens.list;
        let error = |index: usize, what: &str| {
            tokens.error(list[index].place, format!("`{}` {what}", list[index].text))
        };
        let mut others: Vec<u32> = (0..list.len() as u32).collect();
        let mut open: Vec<usize> = Vec::new();
        for (index, token) in list.iter().enumerate() {
            let opening = match token.text {
                "(" | "[" | "{" => {
                    if open.len() == DEEPEST {
                        return Err(error(
                            index,
                            &format!("nests deeper than {DEEPEST} brackets"),
                        ));
                    }
                    open.push(index);
                    continue;
                }
                ")" => "(",
                "]" => "[",
                "}" => "{",
                _ => continue,
            };
            match open.pop() {
                None => return Err(error(index, "closes nothing")),
                Some(other) if list[other].text != opening => {
                    return Err(error(other, "is never closed"));
                }
                Some(other) => {
                    others[index] = other as u32;
                    others[other] = index as u32;
                }
            }
        }
        match open.first() {
            Some(&index) => Err(error(index, "is never closed")),
            None => Ok(Brackets(others)),
        }
    }

    pub fn other(&self, index: usize) -> usize {
        self.0[index] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msl::tokens::tokenize;

    fn pair(source: &str) -> Result<Vec<u32>, String> {
        let tokens = tokenize(source).expect("tokens");
        let pairs = Brackets::pair(&tokens);
        pairs
            .map(|pairs| pairs.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn brackets_find_each_other() {
        assert_eq!(pair("a{(b)[]}"), Ok(vec![0, 7, 4, 3, 2, 6, 5, 1]));
        let cases = [
            ("a\n(b]", "program_source:2:1: error: `(` is never closed"),
            ("a\n{{}", "program_source:2:1: error: `{` is never closed"),
            ("a\n)", "program_source:2:1: error: `)` closes nothing"),
        ];
        for (source, expected) in cases {
            assert_eq!(pair(source), Err(String::from(expected)));
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "(".repeat(depth) + &")".repeat(depth);
        assert!(pair(&nested(DEEPEST)).is_ok());
        let error = pair(&nested(DEEPEST + 1)).expect_err("too deep");
        assert!(error.contains("nests deeper than 256 brackets"), "{error}");
        assert!(pair(&nested(500_000)).is_err());
    }
}
