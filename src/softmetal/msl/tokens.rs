//! Preprocessed Metal source as tokens, each with what stands before it and where it came from.
//!
//! Nothing is lost: gaps and texts in order give the source back, which is what keeps line markers, and so the lines of
//! error messages, right through every rewrite. Punctuation is one character per token, except `::` and `->`: the
//! closing brackets of `A<B<C>>` are two tokens, and nothing here needs to know a shift from them.

use super::error::Error;

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
        Error::Source(format!("{file}:{}: error: {what}", place.line))
    }
}

pub fn tokenize(source: &str) -> Result<Tokens<'_>, Error> {
    let mut lexer = Lexer {
        source,
        at: 0,
        place: Place { file: 0, line: 1 },
        files: vec![String::from("program_source")],
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
        let (place, start) = (lexer.place, lexer.at);
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
    files: Vec<String>,
}

impl Lexer<'_> {
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
                    self.place.line += 1;
                    self.at += 1;
                    line_start = true;
                }
                b'#' if line_start => self.skip_directive(),
                byte if byte.is_ascii_whitespace() || byte == 0x0b => self.at += 1,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// `# 12 "file" 1` and `#line 12 "file"` move the place; anything else (`#pragma`) is carried along.
    fn skip_directive(&mut self) {
        let rest = &self.source[self.at..];
        let directive = &rest[..rest.find('\n').unwrap_or(rest.len())];
        self.at += directive.len();
        let words = directive[1..].trim_start();
        let words = words.strip_prefix("line").unwrap_or(words).trim_start();
        let digits = words
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(words.len());
        let Ok(line) = words[..digits].parse::<u32>() else {
            return;
        };
        self.place.line = line.saturating_sub(1); // the line break that ends the directive adds one
        if let Some(name) = words[digits..].trim_start().strip_prefix('"') {
            let name = &name[..name.find('"').unwrap_or(name.len())];
            let known = self.files.iter().position(|file| file == name);
            self.place.file = known.unwrap_or(self.files.len()) as u32;
            if known.is_none() {
                self.files.push(String::from(name));
            }
        }
    }

    fn skip_token(&mut self) -> Result<Kind, Error> {
        let first = self.peek(0);
        if first.is_ascii_alphabetic() || first == b'_' || first >= 0x80 {
            self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80);
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

    /// A preprocessing number: a sign belongs to it after an exponent's letter.
    fn skip_number(&mut self) {
        let mut before = 0;
        loop {
            let byte = self.peek(0);
            let sign = matches!(byte, b'+' | b'-') && matches!(before, b'e' | b'E' | b'p' | b'P');
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || sign) {
                return;
            }
            before = byte;
            self.at += 1;
        }
    }

    fn skip_literal(&mut self, quote: u8) -> Result<(), Error> {
        let place = self.place;
        self.at += 1;
        while self.at < self.source.len() && self.peek(0) != b'\n' {
            match self.peek(0) {
                b'\\' => self.at += 2,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return Ok(());
                    }
                }
            }
        }
        let file = &self.files[place.file as usize];
        Err(Error::Source(format!(
            "{file}:{}: error: a literal without its closing quote",
            place.line
        )))
    }
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
        assert_eq!(error, "other.metal:42: error: no");
    }

    #[test]
    fn an_open_literal_is_an_error_with_its_line() {
        let error = tokenize("a\n\"b\nc").err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("program_source:2: error: a literal without its closing quote")
        );
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
