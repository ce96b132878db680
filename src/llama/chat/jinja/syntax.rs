//! What a template is once it is read.
//!
//! Nodes name each other by number and lie in three vectors, so that dropping a template takes no stack however its
//! nodes nest. What only repeats is one node: `a + b + c`, `x.a.b()|trim` and `elif` have no more levels than their
//! parts.

/// A template.
#[derive(Debug, Default)]
pub struct Template {
    pub expressions: Vec<Expression>,
    pub blocks: Vec<Vec<Statement>>,
    pub macros: Vec<Macro>,
    /// Every name of a variable, an attribute, a filter, a test and an argument.
    pub names: Vec<Box<str>>,
    pub body: BlockId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpressionId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(pub u32);

#[derive(Debug)]
pub struct Statement {
    pub line: u32,
    pub action: Action,
}

#[derive(Debug)]
pub enum Action {
    Text(Box<str>),
    Write(ExpressionId),
    If {
        branches: Vec<(ExpressionId, BlockId)>,
        otherwise: Option<BlockId>,
    },
    For(Box<For>),
    Set(Target, ExpressionId),
    /// What the block writes, through filters, of which the first has no input of its own.
    SetBlock(Target, Vec<Operation>, BlockId),
    FilterBlock(Vec<Operation>, BlockId),
    With(Vec<(Name, ExpressionId)>, BlockId),
    /// `{% call(user) macro(arguments) %}`
    Call(Box<CallBlock>),
    /// A block that has a scope and nothing else.
    Scope(BlockId),
    /// A block that has not even that.
    Plain(BlockId),
    Macro(u32),
    Evaluate(ExpressionId),
    Break,
    Continue,
    /// A tag that needs other templates.
    Missing(&'static str),
}

#[derive(Debug)]
pub struct For {
    pub target: Target,
    pub items: ExpressionId,
    pub condition: Option<ExpressionId>,
    pub recursive: bool,
    pub body: BlockId,
    pub otherwise: Option<BlockId>,
}

#[derive(Debug)]
pub struct CallBlock {
    /// What `caller` is.
    pub caller: u32,
    pub callee: ExpressionId,
    pub arguments: Vec<Argument>,
}

#[derive(Debug)]
pub enum Target {
    Name(Name),
    Names(Vec<Name>),
    /// Of a namespace.
    Attribute(Name, Name),
}

#[derive(Debug)]
pub struct Macro {
    pub name: Name,
    pub parameters: Vec<(Name, Option<ExpressionId>)>,
    pub body: BlockId,
}

#[derive(Debug)]
pub enum Expression {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Name(Name),
    List(Vec<ExpressionId>),
    Tuple(Vec<ExpressionId>),
    Map(Vec<(ExpressionId, ExpressionId)>),
    Not(ExpressionId),
    Negative(ExpressionId),
    Positive(ExpressionId),
    /// The first that is false, or the last.
    And(Vec<ExpressionId>),
    /// The first that is true, or the last.
    Or(Vec<ExpressionId>),
    /// From left to right.
    Arithmetic(ExpressionId, Vec<(Operator, ExpressionId)>),
    /// `~`
    Concatenate(Vec<ExpressionId>),
    /// Each neighbors.
    Compare(ExpressionId, Vec<(Comparison, ExpressionId)>),
    /// The value of the first branch whose condition holds: `(value, condition)`.
    Conditional(Vec<(ExpressionId, ExpressionId)>, Option<ExpressionId>),
    Chain {
        line: u32,
        base: ExpressionId,
        operations: Vec<Operation>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// What is done to a value.
#[derive(Debug)]
pub enum Operation {
    Attribute(Name),
    Index(ExpressionId),
    Slice([Option<ExpressionId>; 3]),
    Call(Vec<Argument>),
    Filter(Name, Vec<Argument>),
    Test {
        name: Name,
        arguments: Vec<Argument>,
        negated: bool,
    },
}

#[derive(Debug)]
pub enum Argument {
    Positional(ExpressionId),
    Keyword(Name, ExpressionId),
    /// `*list`
    Each(ExpressionId),
    /// `**map`
    EachKeyword(ExpressionId),
}
