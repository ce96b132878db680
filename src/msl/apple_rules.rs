//! What Apple's compiler refuses and the CPU's would take, for a device that is as strict: address spaces, C++17 before
//! Metal 4, and operand types of SIMD-group functions (Metal Shading Language specification 3.1, sections 1.5, 4 and
//! 6.9.2).

use super::compiler::Compiler;
use super::diagnostics;
use super::error::Error;
use super::tokens::{ADDRESS_SPACES, Kind, Tokens, tokenize};

/// The built-in types, without the numbers of components.
const TYPES: &[&str] = &[
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float",
    "void", "bfloat",
];

/// Checks a source that compiles. What passed once is not checked again.
pub fn check(compiler: &Compiler, source: &str) -> Result<(), Error> {
    compiler.once("as Apple", source, || {
        let preprocessed = compiler.preprocess(source)?;
        let unplaced = pointers_without_space(&tokenize(&preprocessed)?);
        if !unplaced.is_empty() {
            let problems = unplaced.join("\n");
            return Err(diagnostics::placed(&problems, source, &preprocessed));
        }
        let said = compiler.check_address_spaces(&preprocessed)?;
        if let Some(error) = diagnostics::errors_about(&said, source, can_judge, names_a_space) {
            return Err(error);
        }
        compiler.check_language(&compiler.program(source)?, source)
    })
}

/// Whether the check of address spaces can judge what an error is about. Metal copies a value of a class from one space
/// to another, calls a method on objects of any, and has function constants. The check's language does not.
fn can_judge(text: &str) -> bool {
    // A temporary is the thread's own.
    let value = text.split("' to value of type '").nth(1);
    let of_a_space = |value: &str| value.split('\'').next().is_some_and(|ty| ty.contains("__"));
    if text.contains("binding reference of type 'const __private") && !value.is_none_or(of_a_space)
    {
        return false;
    }
    ![
        "constructor",
        "overloaded '='",
        "object parameter",
        "member function",
        "viable conversion",
        "must be initialized",
    ]
    .iter()
    .any(|other| text.contains(other))
}

/// Whether a message of the check of address spaces is about one. That check knows few of Metal's functions; what it
/// says of others is no mistake.
fn names_a_space(text: &str) -> bool {
    [
        "address space",
        "__global",
        "__local",
        "__constant",
        "__private",
    ]
    .iter()
    .any(|name| text.contains(name))
}

/// The types of a source: the built-in ones with their vectors, and what it declares.
pub fn is_type(tokens: &Tokens, name: &str) -> bool {
    let declares = |pair: &[super::tokens::Token]| {
        pair[1].text == name
            && matches!(
                pair[0].text,
                "struct" | "class" | "union" | "enum" | "typename" | "using"
            )
    };
    TYPES.contains(&name.trim_end_matches(['2', '3', '4'])) || tokens.list.windows(2).any(declares)
}

/// `float *p`, `T &r`: Metal wants to know where they point to, and takes no default.
pub fn pointers_without_space(tokens: &Tokens) -> Vec<String> {
    let list = &tokens.list;
    let mut problems = Vec::new();
    for at in 1..list.len() {
        if !matches!(list[at].text, "*" | "&")
            || !is_type(tokens, list[at - 1].text)
            || list[at].text == list[at - 1].text
        {
            continue;
        }
        let specifiers = list[..at].iter().rev().take_while(|token| {
            token.kind == Kind::Identifier || matches!(token.text, "::" | "<" | ">")
        });
        if !specifiers
            .into_iter()
            .any(|token| ADDRESS_SPACES.contains(&token.text))
        {
            problems.push(
                tokens
                    .error(
                        list[at].place,
                        format!(
                            "`{} {}` without an address space",
                            list[at - 1].text,
                            list[at].text
                        ),
                    )
                    .to_string(),
            );
        }
    }
    problems
}
