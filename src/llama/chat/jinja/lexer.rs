//! The words of a template: text, and what stands in tags. White space is treated as transformers sets Jinja up, with
//! `trim_blocks` and `lstrip_blocks`.

use super::SyntaxError;
use super::text::is_space;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'s> {
    Text(&'s str),
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name(&'s str),
    Int(i64),
    Float(f64),
    /// What stands between the quotation marks, with its escapes.
    Quoted(&'s str),
    Symbol(&'static str),
    End,
}

/// Longest first.
const SYMBOLS: [&str; 25] = [
    "//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "|", ".", ",",
    ":", "(", ")", "[", "]", "{", "}",
];

/// The source with line ends as Jinja has them, and without the last one.
pub fn normalized(source: &str) -> String {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    source
}

/// Each token with its line.
pub fn tokens(source: &str) -> Result<Vec<(Token<'_>, u32)>, SyntaxError> {
    let mut lexer = Lexer {
        source,
        position: 0,
        line: 1,
        line_starts: true,
        tokens: Vec::new(),
    };
    while lexer.position < source.len() {
        lexer.text_and_tag()?;
    }
    lexer.push(Token::End);
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    position: usize,
    line: u32,
    /// Whether the last token ended with the end of a line.
    line_starts: bool,
    tokens: Vec<(Token<'s>, u32)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Variable,
    Block,
    Comment,
}

impl<'s> Lexer<'s> {
    fn push(&mut self, token: Token<'s>) {
        self.tokens.push((token, self.line));
    }

    fn error<T>(&self, reason: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError::new(self.line, reason))
    }

    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.rest()[..bytes];
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count() as u32;
        self.line_starts = passed.ends_with('\n');
        self.position += bytes;
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        let space = rest.len() - rest.trim_start_matches(is_space).len();
        if space > 0 {
            self.advance(space);
        }
    }

    /// Text up to the next tag, and that.
    fn text_and_tag(&mut self) -> Result<(), SyntaxError> {
        let rest = self.rest();
        let tag = rest.match_indices('{').find_map(|(position, _)| {
            let kind = match rest.as_bytes().get(position + 1)? {
                b'{' => Kind::Variable,
                b'%' => Kind::Block,
                b'#' => Kind::Comment,
                _ => return None,
            };
            Some((position, kind))
        });
        let Some((position, kind)) = tag else {
            self.push(Token::Text(rest));
            self.position = self.source.len();
            return Ok(());
        };
        let sign = sign(&rest[position + 2..]);
        let kept = self.kept(&rest[..position], kind, sign);
        if !kept.is_empty() {
            self.push(Token::Text(kept));
        }
        self.advance(position + 2 + sign.map_or(0, char::len_utf8));
        match kind {
            Kind::Comment => self.comment(),
            Kind::Block => match self.raw()? {
                true => Ok(()),
                false => self.tag(Token::BlockBegin, Token::BlockEnd),
            },
            Kind::Variable => self.tag(Token::VariableBegin, Token::VariableEnd),
        }
    }

    /// What is left of the text before a tag.
    fn kept(&self, text: &'s str, kind: Kind, sign: Option<char>) -> &'s str {
        match sign {
            Some('-') => return text.trim_end_matches(is_space),
            Some(_) => return text,
            None if kind == Kind::Variable => return text,
            None => {}
        }
        let line = text.rfind('\n').map_or(0, |end| end + 1);
        let indentation = text[line..]
            .bytes()
            .all(|byte| matches!(byte, b' ' | b'\t'));
        if indentation && (line > 0 || self.line_starts) {
            &text[..line]
        } else {
            text
        }
    }

    /// Passes the end of a tag, here; a block's and a comment's take the end of the line with them.
    fn end(&mut self, end: &str) {
        let sign = sign(self.rest());
        self.advance(sign.map_or(0, char::len_utf8) + end.len());
        match sign {
            Some('-') => self.skip_space(),
            None if end != "}}" && self.rest().starts_with('\n') => self.advance(1),
            _ => {}
        }
    }

    fn comment(&mut self) -> Result<(), SyntaxError> {
        let Some(end) = self.rest().find("#}") else {
            return self.error("a comment has no end");
        };
        let signed = matches!(self.rest().as_bytes()[..end].last(), Some(b'-' | b'+'));
        self.advance(end - usize::from(signed));
        self.end("#}");
        Ok(())
    }

    /// `{% raw %}` up to its end, behind whose first two characters and sign we are, if it is that.
    fn raw(&mut self) -> Result<bool, SyntaxError> {
        let Some(begin) = word_tag(self.rest(), "raw") else {
            return Ok(false);
        };
        let strips = self.rest()[..begin].ends_with("-%}");
        self.advance(begin);
        if strips {
            self.skip_space();
        }
        let rest = self.rest();
        let end = rest.match_indices("{%").find_map(|(position, _)| {
            let sign = sign(&rest[position + 2..]);
            let inner = position + 2 + sign.map_or(0, char::len_utf8);
            let length = word_tag(&rest[inner..], "endraw")?;
            Some((position, sign, inner + length))
        });
        let Some((position, sign, end)) = end else {
            return self.error("{% raw %} has no end");
        };
        let kept = self.kept(&rest[..position], Kind::Block, sign);
        self.push(Token::Text(kept));
        let closing = if rest[..end].ends_with("-%}") || rest[..end].ends_with("+%}") {
            3
        } else {
            2
        };
        self.advance(end - closing);
        self.end("%}");
        Ok(true)
    }

    fn tag(&mut self, begin: Token<'s>, end: Token<'s>) -> Result<(), SyntaxError> {
        self.push(begin);
        let closing = if end == Token::BlockEnd { "%}" } else { "}}" };
        let mut open = Vec::new();
        loop {
            self.skip_space();
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return self.error("a tag has no end");
            };
            let signed = match first {
                '-' => &rest[1..],
                '+' if closing == "%}" => &rest[1..],
                _ => rest,
            };
            if open.is_empty() && signed.starts_with(closing) {
                self.push(end);
                self.end(closing);
                return Ok(());
            }
            if first.is_alphabetic() || first == '_' {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                let name = &rest[..length.unwrap_or(rest.len())];
                self.push(Token::Name(name));
                self.advance(name.len());
            } else if first.is_ascii_digit() {
                self.number()?;
            } else if matches!(first, '\'' | '"') {
                self.quoted(first)?;
            } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                match *symbol {
                    "(" => open.push(")"),
                    "[" => open.push("]"),
                    "{" => open.push("}"),
                    ")" | "]" | "}" if open.pop() != Some(*symbol) => {
                        return self.error(format!("unexpected {symbol}"));
                    }
                    _ => {}
                }
                self.push(Token::Symbol(symbol));
                self.advance(symbol.len());
            } else {
                return self.error(format!("unexpected {first:?}"));
            }
        }
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| {
            let run = bytes[from..].iter();
            run.take_while(|byte| byte.is_ascii_digit() || **byte == b'_')
                .count()
        };
        let radix = match (bytes[0], bytes.get(1)) {
            (b'0', Some(b'x' | b'X')) => 16,
            (b'0', Some(b'o' | b'O')) => 8,
            (b'0', Some(b'b' | b'B')) => 2,
            _ => 10,
        };
        if radix != 10 {
            let run = bytes[2..].iter();
            let length = run
                .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                .count();
            return self.integer(2, 2 + length, radix);
        }
        let mut length = digits(0);
        let mut float = false;
        // In `x.0.1` both are indices.
        let index = matches!(self.tokens.last(), Some((Token::Symbol("."), _)));
        if !index
            && bytes.get(length) == Some(&b'.')
            && bytes.get(length + 1).is_some_and(u8::is_ascii_digit)
        {
            length += 1 + digits(length + 1);
            float = true;
        }
        if !index && matches!(bytes.get(length), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length + 1 + signed);
            if exponent > 0 {
                length += 1 + signed + exponent;
                float = true;
            }
        }
        if !float {
            return self.integer(0, length, 10);
        }
        let Ok(number) = rest[..length].replace('_', "").parse() else {
            return self.error("a number cannot be read");
        };
        self.push(Token::Float(number));
        self.advance(length);
        Ok(())
    }

    fn integer(&mut self, from: usize, length: usize, radix: u32) -> Result<(), SyntaxError> {
        let digits = self.rest()[from..length].replace('_', "");
        let Ok(number) = i64::from_str_radix(&digits, radix) else {
            return self.error("an integer has no digits or more than 64 bits");
        };
        self.push(Token::Int(number));
        self.advance(length);
        Ok(())
    }

    fn quoted(&mut self, mark: char) -> Result<(), SyntaxError> {
        let rest = &self.rest()[1..];
        let mut bytes = rest.bytes().enumerate();
        while let Some((position, byte)) = bytes.next() {
            if byte == b'\\' {
                bytes.next();
            } else if byte == mark as u8 {
                self.push(Token::Quoted(&rest[..position]));
                self.advance(position + 2);
                return Ok(());
            }
        }
        self.error("a string has no end")
    }
}

fn sign(text: &str) -> Option<char> {
    text.chars()
        .next()
        .filter(|first| matches!(first, '-' | '+'))
}

/// The length of what stands behind `{%` in a tag that is this one word.
fn word_tag(rest: &str, word: &str) -> Option<usize> {
    let inner = rest.trim_start_matches(is_space).strip_prefix(word)?;
    let inner = inner.trim_start_matches(is_space);
    let unsigned = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let behind = unsigned.strip_prefix("%}")?;
    Some(rest.len() - behind.len())
}
