//! Jinja's grammar, with the precedences of its own parser.

use std::collections::HashMap;

use super::SyntaxError;
use super::lexer::{self, Token};
use super::syntax::*;
use crate::llama::quote::quoted;

/// Reads a template whose brackets and blocks nest at most `nesting` levels.
pub fn parse(source: &str, nesting: usize) -> Result<Template, SyntaxError> {
    let source = lexer::normalized(source);
    let mut parser = Parser {
        tokens: lexer::tokens(&source)?,
        position: 0,
        template: Template::default(),
        names: HashMap::new(),
        levels: nesting,
        loops: 0,
    };
    let (body, _) = parser.block(&[])?;
    parser.template.body = body;
    Ok(parser.template)
}

struct Parser<'s> {
    tokens: Vec<(Token<'s>, u32)>,
    position: usize,
    template: Template,
    names: HashMap<&'s str, Name>,
    /// How many may still be opened.
    levels: usize,
    /// Those that `break` and `continue` could mean.
    loops: usize,
}

type Parsed<T> = Result<T, SyntaxError>;

/// Names that are no variables.
const WORDS: [&str; 7] = ["and", "or", "not", "is", "in", "if", "else"];

impl<'s> Parser<'s> {
    fn peek(&self) -> Token<'s> {
        self.tokens[self.position].0
    }

    fn peek_second(&self) -> Token<'s> {
        let last = self.tokens.len() - 1;
        self.tokens[last.min(self.position + 1)].0
    }

    fn line(&self) -> u32 {
        self.tokens[self.position].1
    }

    fn next(&mut self) -> Token<'s> {
        let token = self.peek();
        if token != Token::End {
            self.position += 1;
        }
        token
    }

    fn take(&mut self, wanted: Token<'static>) -> bool {
        let found = self.peek() == wanted;
        if found {
            self.position += 1;
        }
        found
    }

    fn take_symbol(&mut self, symbol: &'static str) -> bool {
        self.take(Token::Symbol(symbol))
    }

    fn take_word(&mut self, word: &'static str) -> bool {
        self.take(Token::Name(word))
    }

    fn error<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        Err(SyntaxError::new(self.line(), reason))
    }

    fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let found = match self.peek() {
            Token::Text(_) => "text".into(),
            Token::VariableBegin => "{{".into(),
            Token::VariableEnd => "}}".into(),
            Token::BlockBegin => "{%".into(),
            Token::BlockEnd => "%}".into(),
            Token::Name(name) => quoted(name).to_string(),
            Token::Int(_) | Token::Float(_) => "a number".into(),
            Token::Quoted(_) => "a string".into(),
            Token::Symbol(symbol) => symbol.to_owned(),
            Token::End => "the end of the template".into(),
        };
        self.error(format!("{wanted} is expected here, and not {found}"))
    }

    fn expect(&mut self, token: Token<'static>, wanted: &str) -> Parsed<()> {
        match self.take(token) {
            true => Ok(()),
            false => self.unexpected(wanted),
        }
    }

    fn expect_symbol(&mut self, symbol: &'static str) -> Parsed<()> {
        self.expect(Token::Symbol(symbol), symbol)
    }

    fn expect_word(&mut self, word: &'static str) -> Parsed<()> {
        self.expect(Token::Name(word), word)
    }

    fn expect_block_end(&mut self) -> Parsed<()> {
        self.expect(Token::BlockEnd, "%}")
    }

    fn intern(&mut self, name: &'s str) -> Name {
        let names = &mut self.template.names;
        *self.names.entry(name).or_insert_with(|| {
            names.push(name.into());
            Name(names.len() as u32 - 1)
        })
    }

    fn name(&mut self, wanted: &str) -> Parsed<Name> {
        match self.peek() {
            Token::Name(name) => {
                self.position += 1;
                Ok(self.intern(name))
            }
            _ => self.unexpected(wanted),
        }
    }

    fn add(&mut self, expression: Expression) -> ExpressionId {
        self.template.expressions.push(expression);
        ExpressionId(self.template.expressions.len() as u32 - 1)
    }

    /// Reads what is one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.levels == 0 {
            return Err(SyntaxError::nesting(self.line()));
        }
        self.levels -= 1;
        let read = read(self);
        self.levels += 1;
        read
    }

    // ---------------------------------------------------------------------------------------------------- statements

    /// Statements up to a tag that has one of these names, which it passes, or up to the end where there are none.
    fn block(&mut self, ends: &[&'static str]) -> Parsed<(BlockId, &'static str)> {
        let mut statements = Vec::new();
        let end = loop {
            let line = self.line();
            let action = match self.peek() {
                Token::Text(text) => {
                    self.next();
                    Action::Text(text.into())
                }
                Token::VariableBegin => {
                    self.next();
                    let value = self.tuple()?;
                    self.expect(Token::VariableEnd, "}}")?;
                    Action::Write(value)
                }
                Token::End if ends.is_empty() => break "",
                Token::End => {
                    return self.error(format!("{{% {} %}} is missing", ends[ends.len() - 1]));
                }
                _ => {
                    self.expect(Token::BlockBegin, "{%")?;
                    if let Token::Name(name) = self.peek()
                        && let Some(end) = ends.iter().find(|end| **end == name)
                    {
                        self.next();
                        break *end;
                    }
                    self.nested(Self::statement)?
                }
            };
            statements.push(Statement { line, action });
        };
        self.template.blocks.push(statements);
        Ok((BlockId(self.template.blocks.len() as u32 - 1), end))
    }

    /// The rest of a tag and a block that has one end.
    fn body(&mut self, end: &'static str) -> Parsed<BlockId> {
        self.expect_block_end()?;
        let (body, _) = self.block(&[end])?;
        // `{% endblock name %}`
        if matches!(self.peek(), Token::Name(_)) && matches!(end, "endblock" | "endmacro") {
            self.next();
        }
        self.expect_block_end()?;
        Ok(body)
    }

    fn statement(&mut self) -> Parsed<Action> {
        let Token::Name(tag) = self.peek() else {
            return self.unexpected("the name of a tag");
        };
        self.next();
        match tag {
            "if" => self.if_block(),
            "for" => self.for_block(),
            "set" => self.set(),
            "macro" => {
                let name = self.name("the name of a macro")?;
                let parameters = self.parameters()?;
                let body = self.outside_loops("endmacro")?;
                Ok(Action::Macro(self.add_macro(Macro {
                    name,
                    parameters,
                    body,
                })))
            }
            "call" => {
                let parameters = match self.peek() {
                    Token::Symbol("(") => self.parameters()?,
                    _ => Vec::new(),
                };
                let call = self.unary(true)?;
                let call = match &mut self.template.expressions[call.0 as usize] {
                    Expression::Chain { operations, .. } => match operations.pop() {
                        Some(Operation::Call(arguments)) => Some((call, arguments)),
                        _ => None,
                    },
                    _ => None,
                };
                let Some((callee, arguments)) = call else {
                    return self.unexpected("a call");
                };
                let body = self.outside_loops("endcall")?;
                let name = self.intern("caller");
                let caller = self.add_macro(Macro {
                    name,
                    parameters,
                    body,
                });
                Ok(Action::Call(Box::new(CallBlock {
                    caller,
                    callee,
                    arguments,
                })))
            }
            "filter" => {
                let mut operations = Vec::new();
                loop {
                    operations.push(self.filter()?);
                    if !self.take_symbol("|") {
                        break;
                    }
                }
                Ok(Action::FilterBlock(operations, self.body("endfilter")?))
            }
            "with" => {
                let mut assigned = Vec::new();
                while self.peek() != Token::BlockEnd {
                    if !assigned.is_empty() {
                        self.expect_symbol(",")?;
                    }
                    let name = self.name("a name")?;
                    self.expect_symbol("=")?;
                    assigned.push((name, self.expression()?));
                }
                Ok(Action::With(assigned, self.body("endwith")?))
            }
            "do" => {
                let value = self.tuple()?;
                self.expect_block_end()?;
                Ok(Action::Evaluate(value))
            }
            "break" | "continue" => {
                if self.loops == 0 {
                    return self.error(format!("{tag} is in no loop"));
                }
                self.expect_block_end()?;
                Ok(if tag == "break" {
                    Action::Break
                } else {
                    Action::Continue
                })
            }
            // What to train on, which changes no text: an extension of transformers' own.
            "generation" => Ok(Action::Plain(self.body("endgeneration")?)),
            "block" => {
                self.name("the name of a block")?;
                let modifiers = ["scoped", "required"];
                while modifiers.iter().any(|modifier| self.take_word(modifier)) {}
                Ok(Action::Scope(self.body("endblock")?))
            }
            "autoescape" => {
                self.expression()?;
                Ok(Action::Scope(self.body("endautoescape")?))
            }
            "include" | "import" | "from" | "extends" => {
                while !matches!(self.peek(), Token::BlockEnd | Token::End) {
                    self.next();
                }
                self.expect_block_end()?;
                let known = ["include", "import", "from", "extends"];
                Ok(Action::Missing(
                    known
                        .into_iter()
                        .find(|name| *name == tag)
                        .unwrap_or_default(),
                ))
            }
            other => self.error(format!("there is no tag {}", quoted(other))),
        }
    }

    fn if_block(&mut self) -> Parsed<Action> {
        let mut branches = Vec::new();
        let mut otherwise = None;
        let mut condition = Some(self.tuple()?);
        loop {
            self.expect_block_end()?;
            let ends: &[_] = match condition {
                Some(_) => &["elif", "else", "endif"],
                None => &["endif"],
            };
            let (block, end) = self.block(ends)?;
            match condition {
                Some(condition) => branches.push((condition, block)),
                None => otherwise = Some(block),
            }
            condition = match end {
                "elif" => Some(self.tuple()?),
                "else" => None,
                _ => break,
            };
        }
        self.expect_block_end()?;
        Ok(Action::If {
            branches,
            otherwise,
        })
    }

    fn for_block(&mut self) -> Parsed<Action> {
        let target = self.target()?;
        self.expect_word("in")?;
        let items = self.tuple_of(false)?;
        let condition = match self.take_word("if") {
            true => Some(self.expression()?),
            false => None,
        };
        let recursive = self.take_word("recursive");
        self.expect_block_end()?;
        self.loops += 1;
        let (body, end) = self.block(&["else", "endfor"])?;
        self.loops -= 1;
        let otherwise = match end {
            "else" => Some(self.body("endfor")?),
            _ => {
                self.expect_block_end()?;
                None
            }
        };
        let parts = For {
            target,
            items,
            condition,
            recursive,
            body,
            otherwise,
        };
        Ok(Action::For(Box::new(parts)))
    }

    fn target(&mut self) -> Parsed<Target> {
        let bracket = self.take_symbol("(");
        let first = self.name("a name")?;
        if !bracket && self.take_symbol(".") {
            return Ok(Target::Attribute(first, self.name("a name")?));
        }
        let mut names = vec![first];
        let mut several = false;
        while self.take_symbol(",") {
            several = true;
            if matches!(self.peek(), Token::Name(name) if name != "in") {
                names.push(self.name("a name")?);
            }
        }
        if bracket {
            self.expect_symbol(")")?;
        }
        Ok(match several {
            true => Target::Names(names),
            false => Target::Name(first),
        })
    }

    fn set(&mut self) -> Parsed<Action> {
        let target = self.target()?;
        if self.take_symbol("=") {
            let value = self.tuple()?;
            self.expect_block_end()?;
            return Ok(Action::Set(target, value));
        }
        let mut filters = Vec::new();
        while self.take_symbol("|") {
            filters.push(self.filter()?);
        }
        Ok(Action::SetBlock(target, filters, self.body("endset")?))
    }

    /// A body that belongs to no loop around it.
    fn outside_loops(&mut self, end: &'static str) -> Parsed<BlockId> {
        let loops = std::mem::take(&mut self.loops);
        let body = self.body(end);
        self.loops = loops;
        body
    }

    fn add_macro(&mut self, added: Macro) -> u32 {
        self.template.macros.push(added);
        self.template.macros.len() as u32 - 1
    }

    fn parameters(&mut self) -> Parsed<Vec<(Name, Option<ExpressionId>)>> {
        let mut parameters = Vec::new();
        self.expect_symbol("(")?;
        while !self.take_symbol(")") {
            if !parameters.is_empty() {
                self.expect_symbol(",")?;
                if self.take_symbol(")") {
                    break;
                }
            }
            let name = self.name("a parameter")?;
            let default = match self.take_symbol("=") {
                true => Some(self.expression()?),
                false => None,
            };
            parameters.push((name, default));
        }
        Ok(parameters)
    }

    // --------------------------------------------------------------------------------------------------- expressions

    /// One expression, or a tuple without brackets.
    fn tuple(&mut self) -> Parsed<ExpressionId> {
        self.tuple_of(true)
    }

    /// The same; where an `if` behind it is not its own, not `conditional`.
    fn tuple_of(&mut self, conditional: bool) -> Parsed<ExpressionId> {
        let read = |parser: &mut Self| match conditional {
            true => parser.expression(),
            false => parser.nested(Self::or),
        };
        let first = read(self)?;
        if self.peek() != Token::Symbol(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_symbol(",") {
            let ends = [")", "]", "}"].map(Token::Symbol);
            let end = self.peek();
            if ends.contains(&end) || matches!(end, Token::VariableEnd | Token::BlockEnd) {
                break;
            }
            items.push(read(self)?);
        }
        Ok(self.add(Expression::Tuple(items)))
    }

    fn expression(&mut self) -> Parsed<ExpressionId> {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> Parsed<ExpressionId> {
        let mut value = self.or()?;
        let mut branches = Vec::new();
        while self.take_word("if") {
            branches.push((value, self.or()?));
            if !self.take_word("else") {
                return Ok(self.add(Expression::Conditional(branches, None)));
            }
            value = self.or()?;
        }
        Ok(match branches.is_empty() {
            true => value,
            false => self.add(Expression::Conditional(branches, Some(value))),
        })
    }

    /// Operands of one precedence between one or more operators.
    fn several(
        &mut self,
        operand: fn(&mut Self) -> Parsed<ExpressionId>,
        operator: impl Fn(&mut Self) -> bool,
        make: fn(Vec<ExpressionId>) -> Expression,
    ) -> Parsed<ExpressionId> {
        let first = operand(self)?;
        if !operator(self) {
            return Ok(first);
        }
        let mut operands = vec![first, operand(self)?];
        while operator(self) {
            operands.push(operand(self)?);
        }
        Ok(self.add(make(operands)))
    }

    fn or(&mut self) -> Parsed<ExpressionId> {
        self.several(Self::and, |parser| parser.take_word("or"), Expression::Or)
    }

    fn and(&mut self) -> Parsed<ExpressionId> {
        self.several(Self::not, |parser| parser.take_word("and"), Expression::And)
    }

    fn not(&mut self) -> Parsed<ExpressionId> {
        let mut count = 0;
        while self.take_word("not") {
            count += 1;
        }
        let mut value = self.comparison()?;
        // An even number makes a truth of the value.
        let needed = if count > 1 { 2 - count % 2 } else { count };
        for _ in 0..needed {
            value = self.add(Expression::Not(value));
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Parsed<ExpressionId> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let comparison = match self.peek() {
                Token::Symbol("==") => Comparison::Equal,
                Token::Symbol("!=") => Comparison::NotEqual,
                Token::Symbol("<") => Comparison::Less,
                Token::Symbol("<=") => Comparison::LessOrEqual,
                Token::Symbol(">") => Comparison::Greater,
                Token::Symbol(">=") => Comparison::GreaterOrEqual,
                Token::Name("in") => Comparison::In,
                Token::Name("not") if self.peek_second() == Token::Name("in") => {
                    self.next();
                    Comparison::NotIn
                }
                _ => break,
            };
            self.next();
            rest.push((comparison, self.sum()?));
        }
        Ok(match rest.is_empty() {
            true => first,
            false => self.add(Expression::Compare(first, rest)),
        })
    }

    /// Operands between operators of one precedence.
    fn arithmetic(
        &mut self,
        operand: fn(&mut Self) -> Parsed<ExpressionId>,
        operators: &[(&'static str, Operator)],
    ) -> Parsed<ExpressionId> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some((_, operator)) = operators
            .iter()
            .find(|(symbol, _)| self.peek() == Token::Symbol(symbol))
        {
            self.next();
            rest.push((*operator, operand(self)?));
        }
        Ok(match rest.is_empty() {
            true => first,
            false => self.add(Expression::Arithmetic(first, rest)),
        })
    }

    fn sum(&mut self) -> Parsed<ExpressionId> {
        let operators = [("+", Operator::Add), ("-", Operator::Subtract)];
        self.arithmetic(Self::concatenation, &operators)
    }

    fn concatenation(&mut self) -> Parsed<ExpressionId> {
        self.several(
            Self::product,
            |parser| parser.take_symbol("~"),
            Expression::Concatenate,
        )
    }

    fn product(&mut self) -> Parsed<ExpressionId> {
        let operators = [
            ("*", Operator::Multiply),
            ("/", Operator::Divide),
            ("//", Operator::FloorDivide),
            ("%", Operator::Remainder),
        ];
        self.arithmetic(Self::power, &operators)
    }

    fn power(&mut self) -> Parsed<ExpressionId> {
        let operand = |parser: &mut Self| parser.unary(true);
        self.arithmetic(operand, &[("**", Operator::Power)])
    }

    /// Signs bind what is behind them without its filters and tests, which then are those of the outcome.
    fn unary(&mut self, filters: bool) -> Parsed<ExpressionId> {
        let mut signs = 0;
        let mut negative = false;
        loop {
            if self.take_symbol("-") {
                negative = !negative;
            } else if !self.take_symbol("+") {
                break;
            }
            signs += 1;
        }
        let line = self.line();
        let mut base = self.primary()?;
        let mut operations = Vec::new();
        self.postfix(&mut operations)?;
        if signs > 0 {
            base = self.chain(line, base, std::mem::take(&mut operations));
            base = self.add(match negative {
                true => Expression::Negative(base),
                false => Expression::Positive(base),
            });
        }
        if filters {
            self.filters_and_tests(&mut operations)?;
        }
        Ok(self.chain(line, base, operations))
    }

    fn chain(&mut self, line: u32, base: ExpressionId, operations: Vec<Operation>) -> ExpressionId {
        match operations.is_empty() {
            true => base,
            false => self.add(Expression::Chain {
                line,
                base,
                operations,
            }),
        }
    }

    fn primary(&mut self) -> Parsed<ExpressionId> {
        let expression = match self.peek() {
            Token::Name("true" | "True") => Expression::Bool(true),
            Token::Name("false" | "False") => Expression::Bool(false),
            Token::Name("none" | "None") => Expression::None,
            Token::Name(name) if WORDS.contains(&name) => return self.unexpected("a value"),
            Token::Name(name) => Expression::Name(self.intern(name)),
            Token::Int(number) => Expression::Int(number),
            Token::Float(number) => Expression::Float(number),
            Token::Quoted(_) => return self.text(),
            Token::Symbol("(") => {
                self.next();
                if self.take_symbol(")") {
                    return Ok(self.add(Expression::Tuple(Vec::new())));
                }
                let inner = self.tuple()?;
                self.expect_symbol(")")?;
                return Ok(inner);
            }
            Token::Symbol("[") => {
                self.next();
                let mut items = Vec::new();
                while !self.take_symbol("]") {
                    if !items.is_empty() {
                        self.expect_symbol(",")?;
                        if self.take_symbol("]") {
                            break;
                        }
                    }
                    items.push(self.expression()?);
                }
                return Ok(self.add(Expression::List(items)));
            }
            Token::Symbol("{") => {
                self.next();
                let mut entries = Vec::new();
                while !self.take_symbol("}") {
                    if !entries.is_empty() {
                        self.expect_symbol(",")?;
                        if self.take_symbol("}") {
                            break;
                        }
                    }
                    let key = self.expression()?;
                    self.expect_symbol(":")?;
                    entries.push((key, self.expression()?));
                }
                return Ok(self.add(Expression::Map(entries)));
            }
            _ => return self.unexpected("a value"),
        };
        self.next();
        Ok(self.add(expression))
    }

    /// Strings one behind the other are one.
    fn text(&mut self) -> Parsed<ExpressionId> {
        let mut text = String::new();
        while let Token::Quoted(quoted) = self.peek() {
            if let Err(reason) = super::text::unescape(quoted, &mut text) {
                return self.error(reason);
            }
            self.next();
        }
        Ok(self.add(Expression::Text(text.into())))
    }

    fn postfix(&mut self, operations: &mut Vec<Operation>) -> Parsed<()> {
        loop {
            if self.take_symbol(".") {
                operations.push(match self.peek() {
                    Token::Int(index) => {
                        self.next();
                        Operation::Index(self.add(Expression::Int(index)))
                    }
                    _ => Operation::Attribute(self.name("the name of an attribute")?),
                });
            } else if self.take_symbol("[") {
                operations.push(self.subscript()?);
            } else if self.peek() == Token::Symbol("(") {
                operations.push(Operation::Call(self.arguments()?));
            } else {
                return Ok(());
            }
        }
    }

    fn subscript(&mut self) -> Parsed<Operation> {
        let mut parts = [None; 3];
        let mut part = 0;
        loop {
            match self.peek() {
                Token::Symbol("]") => break,
                Token::Symbol(":") if part < 2 => {
                    self.next();
                    part += 1;
                }
                _ if parts[part].is_none() => {
                    parts[part] = Some(self.tuple()?);
                }
                _ => return self.unexpected("]"),
            }
        }
        self.next();
        match (part, parts[0]) {
            (0, Some(index)) => Ok(Operation::Index(index)),
            (0, None) => self.error("an index is missing"),
            _ => Ok(Operation::Slice(parts)),
        }
    }

    fn filters_and_tests(&mut self, operations: &mut Vec<Operation>) -> Parsed<()> {
        loop {
            if self.take_symbol("|") {
                operations.push(self.filter()?);
            } else if self.take_word("is") {
                operations.push(self.test()?);
            } else if self.peek() == Token::Symbol("(") {
                operations.push(Operation::Call(self.arguments()?));
            } else {
                return Ok(());
            }
        }
    }

    fn filter(&mut self) -> Parsed<Operation> {
        let name = self.name("the name of a filter")?;
        let arguments = match self.peek() {
            Token::Symbol("(") => self.arguments()?,
            _ => Vec::new(),
        };
        Ok(Operation::Filter(name, arguments))
    }

    fn test(&mut self) -> Parsed<Operation> {
        let negated = self.take_word("not");
        let name = self.name("the name of a test")?;
        let arguments = match self.peek() {
            Token::Symbol("(") => self.arguments()?,
            Token::Name(word) if WORDS.contains(&word) => Vec::new(),
            Token::Name(_)
            | Token::Quoted(_)
            | Token::Int(_)
            | Token::Float(_)
            | Token::Symbol("[" | "{") => {
                let operand = self.nested(|parser| {
                    let line = parser.line();
                    let base = parser.primary()?;
                    let mut operations = Vec::new();
                    parser.postfix(&mut operations)?;
                    Ok(parser.chain(line, base, operations))
                })?;
                vec![Argument::Positional(operand)]
            }
            _ => Vec::new(),
        };
        Ok(Operation::Test {
            name,
            arguments,
            negated,
        })
    }

    fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        let mut arguments = Vec::new();
        self.expect_symbol("(")?;
        while !self.take_symbol(")") {
            if !arguments.is_empty() {
                self.expect_symbol(",")?;
                if self.take_symbol(")") {
                    break;
                }
            }
            arguments.push(if self.take_symbol("**") {
                Argument::EachKeyword(self.expression()?)
            } else if self.take_symbol("*") {
                Argument::Each(self.expression()?)
            } else if let Token::Name(name) = self.peek()
                && self.peek_second() == Token::Symbol("=")
            {
                let name = self.intern(name);
                self.position += 2;
                Argument::Keyword(name, self.expression()?)
            } else {
                Argument::Positional(self.expression()?)
            });
        }
        Ok(arguments)
    }
}
