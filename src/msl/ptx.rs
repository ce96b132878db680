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
        let [
            length,
            packet_bytes,
            memory,
            values,
            max_threads,
            arguments @ ..,
        ] = &words[..]
        else {
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
            arguments: arguments
                .chunks(4)
                .map(argument)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// A function or variable that a module uses and does not define.
pub fn undefined(module: &str) -> Option<&str> {
    let declared = module
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".extern "))
        .find(|rest| !rest.starts_with(".shared"))?;
    // After a function's results in parentheses, or before an array's extents.
    let named = match declared.strip_prefix(".func") {
        Some(rest) => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
        None => declared,
    };
    let named = named.split(['(', '[', ';', '=']).next()?;
    named.split_whitespace().last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_from_the_module() {
        let words = [13_u32, 96, 48, 64, 512, 1, 3, 8, 16, 2, 1, 0, u32::MAX];
        let bytes: Vec<String> = words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .map(|byte| byte.to_string())
            .collect();
        let module = format!(
            ".visible .global .align 4 .b8 msl_description_2[52] = {{{}}};\n",
            bytes.join(", ")
        );
        let description = Description::read(&module, 2).expect("it is one");
        assert_eq!(
            (
                description.packet_bytes,
                description.memory,
                description.values,
                description.max_threads
            ),
            (96, 48, 64, 512)
        );
        let buffer = Argument::Buffer {
            index: 3,
            least: 8,
            value: Some(16),
        };
        assert_eq!(
            description.arguments,
            [buffer, Argument::Threadgroup { index: 1 }]
        );
        for wrong in [
            "",
            &module.replace("{13,", "{12,"),
            &module.replace("52] = {13", "52] = {x"),
        ] {
            assert!(
                matches!(Description::read(wrong, 2), Err(Error::Host(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_is_declared_and_not_defined_is_found() {
        let function = ".extern .func  (.param .b32 func_retval0) _Z6absentf(\n";
        assert_eq!(undefined(function), Some("_Z6absentf"));
        assert_eq!(
            undefined(".extern .global .align 4 .u32 wanted;\n"),
            Some("wanted")
        );
        let threadgroup = ".extern .shared .align 16 .b8 msl_threadgroup_memory[];\n";
        assert_eq!(undefined(threadgroup), None);
    }
}
