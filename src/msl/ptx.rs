//! PTX modules as clang writes them: what their kernels take, and one kernel of several apart.

use super::error::Error;

/// What a kernel takes, as the description beside it says (`native/msl/nvptx/entry.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Bytes of the struct that is passed.
    pub packet_bytes: usize,
    /// Where in it the arguments' addresses begin.
    pub memory: usize,
    /// Where in it the arguments' values begin.
    pub values: usize,
    /// What the source says about the largest threadgroup.
    pub max_threads: u32,
    pub arguments: Vec<Argument>,
}

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing of the host's.
    None,
    /// What is bound at `index`, of at least `least` bytes. It may be passed by value, at an offset in the values.
    Buffer {
        index: usize,
        least: usize,
        value: Option<usize>,
    },
    /// The threadgroup memory at `index`.
    Threadgroup { index: usize },
}

/// The name of kernel `number` of a module.
pub fn entry(number: usize) -> String {
    format!("msl_kernel_{number}")
}

impl Description {
    /// Of kernel `number` of a module.
    pub fn read(module: &str, number: usize) -> Result<Description, Error> {
        let malformed = || Error::host(entry(number), "this is no module of a Metal kernel");
        let name = format!(" msl_description_{number}[");
        let (_, found) = module.split_once(&name).ok_or_else(malformed)?;
        let (_, found) = found.split_once('{').ok_or_else(malformed)?;
        let (list, _) = found.split_once('}').ok_or_else(malformed)?;
        let bytes: Vec<u8> = list
            .split(',')
            .map(|byte| byte.trim().parse().map_err(|_| malformed()))
            .collect::<Result<_, _>>()?;
        let words: Vec<u32> = bytes
            .chunks(4)
            .map(|word| word.try_into().map_or(0, u32::from_le_bytes))
            .collect();
        let [length, packet_bytes, memory, values, max_threads, arguments @ ..] = &words[..] else {
            return Err(malformed());
        };
        if *length as usize != words.len() || arguments.len() % 4 != 0 {
            return Err(malformed());
        }
        let argument = |words: &[u32]| match words[0] {
            0 => Ok(Argument::None),
            1 => Ok(Argument::Buffer {
                index: words[1] as usize,
                least: words[2] as usize,
                value: (words[3] != u32::MAX).then_some(words[3] as usize),
            }),
            2 => Ok(Argument::Threadgroup {
                index: words[1] as usize,
            }),
            _ => Err(malformed()),
        };
        Ok(Description {
            packet_bytes: *packet_bytes as usize,
            memory: *memory as usize,
            values: *values as usize,
            max_threads: *max_threads,
            arguments: arguments.chunks(4).map(argument).collect::<Result<_, _>>()?,
        })
    }
}

/// A function or variable that a module uses and does not define.
pub fn undefined(module: &str) -> Option<&str> {
    let declared = module
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".extern "))
        .find(|rest| !rest.starts_with(".shared"))?;
    let mut words = declared.split(|letter: char| !(letter.is_alphanumeric() || "_$.".contains(letter)));
    words.rfind(|word| !word.is_empty() && !word.starts_with('.') && word.parse::<u64>().is_err())
}

/// One module for each of the kernels 0 .. `count` of a module: what they share, and a kernel with its description.
/// Drivers compile a module as a whole, and a program uses few of the kernels of one source.
pub fn split(module: &str, count: usize) -> Vec<String> {
    let mut shared = Vec::new();
    let mut own: Vec<String> = vec![String::new(); count];
    let mut lines = module.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let number = ["msl_kernel_", "msl_description_"].iter().find_map(|name| {
            let (before, after) = line.split_once(name)?;
            let digits = after.split(|letter: char| !letter.is_ascii_digit()).next()?;
            let declares = before.contains(".entry") || before.contains(".global");
            declares.then(|| digits.parse::<usize>().ok())?
        });
        let is_code = line.contains(".entry ") || line.contains(".func ");
        let mut item = String::from(line);
        let closes = |line: &str| match is_code {
            true => line.starts_with('}'),
            false => true,
        };
        while is_code && !item.lines().last().is_some_and(closes) {
            match lines.next() {
                Some(line) => item += line,
                None => break,
            }
        }
        match number.and_then(|number| own.get_mut(number)) {
            Some(own) => *own += &item,
            None => shared.push(item),
        }
    }
    own.iter()
        .map(|own| {
            let mut text = String::new();
            for item in &shared {
                if is_used(item, own) {
                    text += item;
                }
            }
            text + own
        })
        .collect()
}

/// Whether a kernel needs what stands beside the kernels: the head of the file, functions, and those variables that it
/// names.
fn is_used(item: &str, kernel: &str) -> bool {
    let is_variable = [".shared ", ".global "].iter().any(|space| item.contains(space));
    if !is_variable || item.contains(".func ") {
        return !item.trim_start().starts_with("//");
    }
    let declared = item.split(['[', ';', '=']).next().unwrap_or(item);
    match declared.split_whitespace().last() {
        Some(name) => kernel.contains(name),
        None => true,
    }
}
