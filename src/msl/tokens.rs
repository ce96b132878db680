//! Preprocessed Metal source as tokens, each with what stands before it and where it came from.
//!
//! Nothing is lost: gaps and texts in order give the source back, which is what keeps line markers, and so the lines of
//! error messages, right through every rewrite. Punctuation is one character per token, except `::` and `->`: the
//! closing brackets of `A<B<C>>` are two tokens, and nothing here needs to know a shift from them.

use std::collections::HashMap;

use super::error::Error;

/// Tokens of the largest source: eight times as many as in all kernels of ours together.
const MOST: usize = 2 << 20;

/// Metal's, where pointers and references may point to.
pub const ADDRESS_SPACES: [&str; 4] = ["device", "constant", "thread", "threadgroup"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Identifier,
    Number,
    /// A string or character literal.
    Literal,
    Punctuation,
}

/// A position in the source as its author knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    file: u32,
    pub line: u32,
    /// In bytes, from 1; in the preprocessed text, which may differ from the source's.
    column: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct Token<'s> {
    pub kind: Kind,
    pub text: &'s str,
    /// White space and directives before the token.
    pub gap: &'s str,
    pub place: Place,
}

/// A tokenised source.
pub struct Tokens<'s> {
    pub list: Vec<Token<'s>>,
    /// White space and directives after the last token.
    pub tail: &'s str,
    files: Vec<String>,
}

impl Tokens<'_> {
    /// A directive that places the line after it where a token of this source stands.
    pub fn line_directive(&self, place: Place) -> String {
        format!(
            "#line {} \"{}\"\n",
            place.line, self.files[place.file as usize]
        )
    }

    /// An error at a place of this source, in the form of a compiler's message.
    pub fn error(&self, place: Place, what: impl std::fmt::Display) -> Error {
        let file = &self.files[place.file as usize];
        let Place { line, column, .. } = place;
        Error::Source(format!("{file}:{line}:{column}: error: {what}"))
    }

    /// The same for a text whose columns are not the source's.
    pub fn error_on_line(&self, place: Place, what: impl std::fmt::Display) -> Error {
        let file = &self.files[place.file as usize];
        Error::Source(format!("{file}:{}: error: {what}", place.line))
    }
}

/// Whatever clang would read in another way than this does is an error: what is checked here must be what is compiled.
pub fn tokenize(source: &str) -> Result<Tokens<'_>, Error> {
    let mut lexer = Lexer {
        source,
        at: 0,
        place: Place {
            file: 0,
            line: 1,
            column: 1,
        },
        line_start: 0,
        files: vec![String::from("program_source")],
        known: HashMap::from([("program_source", 0)]),
    };
    let mut list = Vec::new();
    loop {
        let start = lexer.at;
        lexer.skip_gap()?;
        let gap = &source[start..lexer.at];
        if lexer.at == source.len() {
            return Ok(Tokens {
                list,
                tail: gap,
                files: lexer.files,
            });
        }
        if list.len() == MOST {
            return Err(Error::Limit(format!(
                "the source has more than {MOST} tokens"
            )));
        }
        let start = lexer.at;
        let column = (start - lexer.line_start + 1)
            .try_into()
            .unwrap_or(u32::MAX);
        let place = Place {
            column,
            ..lexer.place
        };
        let kind = lexer.skip_token()?;
        list.push(Token {
            kind,
            text: &source[start..lexer.at],
            gap,
            place,
        });
    }
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    place: Place,
    /// Where the current line begins.
    line_start: usize,
    files: Vec<String>,
    /// The place of each name in `files`.
    known: HashMap<&'s str, u32>,
}

impl<'s> Lexer<'s> {
    fn error(&self, what: &str) -> Error {
        let file = &self.files[self.place.file as usize];
        Error::Source(format!("{file}:{}: error: {what}", self.place.line))
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.source
            .as_bytes()
            .get(self.at + ahead)
            .copied()
            .unwrap_or(0)
    }

    fn skip_gap(&mut self) -> Result<(), Error> {
        let mut line_start = self.at == 0 || self.source.as_bytes()[self.at - 1] == b'\n';
        while self.at < self.source.len() {
            match self.peek(0) {
                b'\n' => {
                    self.place.line = self.place.line.saturating_add(1);
                    self.at += 1;
                    self.line_start = self.at;
                    line_start = true;
                }
                b'#' if line_start => self.skip_directive()?,
                byte if byte.is_ascii_whitespace() || byte == 0x0b => self.at += 1,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// `# 12 "file" 1` and `#line 12 "file"` move the place, and a pragma is carried along. The preprocessor leaves
    /// no other directive, so any other is one that a macro made.
    fn skip_directive(&mut self) -> Result<(), Error> {
        let source: &'s str = self.source;
        let rest = &source[self.at..];
        let directive = &rest[..rest.find('\n').unwrap_or(rest.len())];
        self.at += directive.len();
        let words = directive[1..].trim_start();
        if words.is_empty() || after_word(words, "ident").is_some() {
            return Ok(());
        }
        if let Some(pragma) = after_word(words, "pragma") {
            return match refused_pragma(pragma) {
                Some(name) => Err(self.error(&format!("`#pragma {name}` is not supported"))),
                None => Ok(()),
            };
        }
        let words = after_word(words, "line").unwrap_or(words).trim_start();
        let digits = words
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(words.len());
        let Ok(line) = words[..digits].parse::<u32>() else {
            return Err(self.error("a directive that is the result of a macro"));
        };
        self.place.line = line.saturating_sub(1); // the line break that ends the directive adds one
        if let Some(name) = words[digits..].trim_start().strip_prefix('"') {
            let name = &name[..name.find('"').unwrap_or(name.len())];
            let next = self.files.len() as u32;
            self.place.file = *self.known.entry(name).or_insert(next);
            if self.place.file == next {
                self.files.push(String::from(name));
            }
        }
        Ok(())
    }

    fn skip_token(&mut self) -> Result<Kind, Error> {
        let first = self.peek(0);
        if first.is_ascii_alphabetic() || first == b'_' || first >= 0x80 {
            let start = self.at;
            self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80);
            let raw = matches!(
                &self.source[start..self.at],
                "R" | "LR" | "uR" | "UR" | "u8R"
            );
            if raw && self.peek(0) == b'"' {
                return Err(self.error("Metal has no raw string literals"));
            }
            return Ok(Kind::Identifier);
        }
        if first.is_ascii_digit() || (first == b'.' && self.peek(1).is_ascii_digit()) {
            self.skip_number();
            return Ok(Kind::Number);
        }
        if first == b'"' || first == b'\'' {
            self.skip_literal(first)?;
            return Ok(Kind::Literal);
        }
        if first == b'/' && matches!(self.peek(1), b'/' | b'*') {
            return Err(self.error("a comment that is the result of a macro"));
        }
        self.at += match (first, self.peek(1)) {
            (b':', b':') | (b'-', b'>') => 2,
            _ => 1,
        };
        Ok(Kind::Punctuation)
    }

    fn skip_while(&mut self, belongs: impl Fn(u8) -> bool) {
        while self.at < self.source.len() && belongs(self.peek(0)) {
            self.at += 1;
        }
    }

    /// A preprocessing number: a sign belongs to it after an exponent's letter, and a quote between two digits.
    fn skip_number(&mut self) {
        let mut before = 0;
        loop {
            let byte = self.peek(0);
            let sign = matches!(byte, b'+' | b'-') && matches!(before, b'e' | b'E' | b'p' | b'P');
            let follows = self.peek(1);
            let separator = byte == b'\'' && (follows.is_ascii_alphanumeric() || follows == b'_');
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || sign || separator) {
                return;
            }
            before = byte;
            self.at += 1;
        }
    }

    fn skip_literal(&mut self, quote: u8) -> Result<(), Error> {
        self.at += 1;
        while self.at < self.source.len() && self.peek(0) != b'\n' {
            match self.peek(0) {
                b'\\' if !matches!(self.peek(1), b'\n' | 0) => self.at += 2,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return Ok(());
                    }
                }
            }
        }
        Err(self.error("a literal without its closing quote"))
    }
}

/// What follows a directive's name.
pub fn after_word<'d>(directive: &'d str, word: &str) -> Option<&'d str> {
    let rest = directive.strip_prefix(word)?;
    let goes_on = |letter: char| letter.is_alphanumeric() || letter == '_';
    (!rest.starts_with(goes_on)).then_some(rest)
}

/// The name of a pragma that would change what is compiled beyond what is checked.
fn refused_pragma(pragma: &str) -> Option<&'static str> {
    const REFUSED: [&str; 10] = [
        "clang attribute",
        "clang module",
        "clang section",
        "comment",
        "GCC visibility",
        "include_alias",
        "init_seg",
        "redefine_extname",
        "section",
        "weak",
    ];
    let mut given = pragma.split_whitespace();
    let (first, second) = (given.next().unwrap_or(""), given.next().unwrap_or(""));
    REFUSED.into_iter().find(|name| {
        let word = |given: &str, wanted: &str| {
            given
                .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .next()
                == Some(wanted)
        };
        match name.split_once(' ') {
            Some((family, name)) => word(first, family) && word(second, name),
            None => word(first, name),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(source: &str) -> Vec<&str> {
        let tokens = tokenize(source).expect("valid tokens");
        tokens.list.iter().map(|token| token.text).collect()
    }

    #[test]
    fn tokens_of_every_kind() {
        assert_eq!(
            texts("a->b::c<vec<T,4>> x = .5e-3f+0x1.8p+4 \"a\\\"b\" 'c';"),
            [
                "a",
                "->",
                "b",
                "::",
                "c",
                "<",
                "vec",
                "<",
                "T",
                ",",
                "4",
                ">",
                ">",
                "x",
                "=",
                ".5e-3f",
                "+",
                "0x1.8p+4",
                "\"a\\\"b\"",
                "'c'",
                ";"
            ]
        );
    }

    #[test]
    fn line_markers_place_the_tokens_after_them() {
        let tokens =
            tokenize("a\n# 40 \"other.metal\" 1\nb\n\nc\n#line 7\nd\n#pragma unroll\ne").unwrap();
        let lines: Vec<u32> = tokens.list.iter().map(|token| token.place.line).collect();
        assert_eq!(lines, [1, 40, 42, 7, 9]);
        let error = tokens.error(tokens.list[2].place, "no").to_string();
        assert_eq!(error, "other.metal:42:1: error: no");
    }

    #[test]
    fn an_open_literal_is_an_error_with_its_line() {
        let error = tokenize("a\n\"b\nc").err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("program_source:2: error: a literal without its closing quote")
        );
    }

    #[test]
    fn what_clang_would_read_otherwise_is_an_error() {
        let cases = [
            ("R\"(\")\"", "no raw string literals"),
            ("a u8R\"x()x\"", "no raw string literals"),
            ("a / b /* c */", "a comment that is the result of a macro"),
            ("a // b", "a comment that is the result of a macro"),
            (
                "a\n # include \"/etc/passwd\"",
                "a directive that is the result of a macro",
            ),
            (
                "a\n#define b asm",
                "a directive that is the result of a macro",
            ),
            (
                "a\n#pragma clang attribute push(__attribute__((constructor)), apply_to=function)",
                "`#pragma clang attribute`",
            ),
            ("a\n # pragma  comment(lib, \"c\")", "`#pragma comment`"),
            ("a\n#pragma weak f", "`#pragma weak`"),
        ];
        for (source, expected) in cases {
            let error = tokenize(source)
                .err()
                .map_or(String::new(), |error| error.to_string());
            assert!(
                error.starts_with("program_source:") && error.contains(expected),
                "{source}: {error}"
            );
        }
        assert_eq!(texts("1'000'0u x"), ["1'000'0u", "x"]);
        assert_eq!(
            texts(
                "R (\"a\") / b\n#pragma unroll\n#pragma clang loop unroll(full)\n#ident \"x\"\nc"
            ),
            ["R", "(", "\"a\"", ")", "/", "b", "c"]
        );
    }

    #[test]
    fn lines_and_tokens_are_bounded() {
        let tokens = tokenize("#line 4294967295\n\n\n\na").expect("a token");
        assert_eq!(tokens.list[0].place.line, u32::MAX);
        let many: String = (0..200_000)
            .map(|file| format!("#line 1 \"{file}\"\n"))
            .collect();
        assert_eq!(tokenize(&many).expect("files").files.len(), 200_001);
        let error = tokenize(&"+".repeat(MOST + 1))
            .err()
            .map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("2097152 tokens")));
    }

    proptest! {
        #[test]
        fn no_text_is_lost(source in "[a-z0-9 \n\t<>:.#'\"\\\\-]{0,80}|\\PC{0,40}") {
            if let Ok(tokens) = tokenize(&source) {
                let mut joined: String = tokens.list.iter().flat_map(|token| [token.gap, token.text]).collect();
                joined += tokens.tail;
                prop_assert_eq!(joined, source);
            }
        }
    }
}
