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
pub struct Argument {
    pub source: ArgumentSource,
    /// Of the type that it points or refers to, in bytes.
    pub alignment: u32,
    /// Whether that type is not const.
    pub is_writable: bool,
}

/// Where an argument is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentSource {
    /// Nothing of the host's.
    None,
    /// What is bound at `index`, of at least `least` bytes. It may be passed by value, at an offset in the values.
    Buffer {
        index: usize,
        least: usize,
        value: Option<usize>,
    },
    /// What is passed by value at `index`, of at least `bytes` bytes, at an offset in the values.
    Value {
        index: usize,
        bytes: usize,
        offset: usize,
    },
    /// The threadgroup memory at `index`.
    Threadgroup { index: usize },
}

/// Of a description, for each argument.
const WORDS: usize = 6;

/// The first compute capability whose kernels can overlap their predecessors, and what they then are compiled for.
pub const OVERLAPPING: (i32, i32) = (9, 0);
const OVERLAPPING_TARGET: [(&str, &str); 2] = [
    (".version 7.5", ".version 7.8"),
    (".target sm_80", ".target sm_90"),
];
/// PTX ISA 8.4, section 9.7.12.12.
const ALLOW: &str = "griddepcontrol.launch_dependents;";
const WAIT: &str = "griddepcontrol.wait;";

/// Kernels that are compiled once more for GPUs which have instructions that others lack.
pub struct Variant {
    /// What the sources of kernels ask for.
    #[allow(dead_code, reason = "the build script reads it")]
    pub define: &'static str,
    /// What stands behind a family's name: variants have the names of other kernels.
    suffix: &'static str,
    /// By which instruction a module is known.
    instruction: &'static str,
    target: [(&'static str, &'static str); 2],
    /// The first compute capability that has it, and whether no later one has.
    first: (i32, i32),
    only: bool,
}

/// Those that there are. wgmma, which multiplies tiles in threadgroup memory: PTX ISA 8.4, section 9.7.15. Copies of
/// rows: section 9.7.8.24.
pub const VARIANTS: [Variant; 2] = [
    Variant {
        define: "__HAVE_IRONBRIDGE_TILE_PRODUCTS__",
        suffix: "@sm_90a",
        instruction: "wgmma.",
        target: [
            (".version 7.5", ".version 8.0"),
            (".target sm_80", ".target sm_90a"),
        ],
        first: (9, 0),
        only: true,
    },
    Variant {
        define: "__HAVE_IRONBRIDGE_BULK_COPY__",
        suffix: "@sm_90",
        instruction: "cp.async.bulk.",
        target: [
            (".version 7.5", ".version 8.0"),
            (".target sm_80", ".target sm_90"),
        ],
        first: (9, 0),
        only: false,
    },
];

impl Variant {
    pub fn has(&self, module: &str) -> bool {
        module.contains(self.instruction)
    }

    /// What a family's variants are embedded as.
    pub fn family(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// Whether GPUs of a compute capability have the instructions.
    #[cfg_attr(
        not(all(feature = "nvidia", target_os = "linux")),
        allow(dead_code, reason = "the feature nvidia asks")
    )]
    pub fn is_for(&self, capability: (i32, i32)) -> bool {
        match self.only {
            true => capability == self.first,
            false => capability >= self.first,
        }
    }
}

/// The module of a kernel as a GPU's driver is given it: with the most threads of its threadgroups, on which the number
/// of registers depends, and on a GPU that has the instructions with those in the place of the comments that
/// native/msl/nvptx/threads.h left for them.
#[cfg_attr(
    not(all(feature = "nvidia", target_os = "linux")),
    allow(dead_code, reason = "the feature nvidia gives it to a driver")
)]
pub fn for_gpu(module: &str, max_threads: u32, overlaps: bool) -> String {
    let mut text = String::with_capacity(module.len() + 128);
    let mut in_entry = false;
    for line in module.split_inclusive('\n') {
        in_entry |= line.contains(".entry ");
        if in_entry && line.starts_with('{') {
            in_entry = false;
            if max_threads < MOST_THREADS {
                text += &format!(".maxntid {max_threads}, 1, 1\n");
            }
            // Of large threadgroups an assembler would rather have two on a core, and spill registers for that.
            if (LARGE..MOST_THREADS).contains(&max_threads) {
                text += ".minnctapersm 1\n";
            }
        }
        text += line;
    }
    if !overlaps {
        return text;
    }
    let at_start = match text.contains("// msl: wait_for_predecessor") {
        true => String::new(),
        false => format!("{ALLOW}\n{WAIT}"),
    };
    text = text.replace("// msl: kernel_starts", &at_start);
    text = text.replace("// msl: wait_for_predecessor", WAIT);
    text = text.replace("// msl: allow_successor", ALLOW);
    let variant = VARIANTS.iter().find(|variant| variant.has(&text));
    let target = variant.map_or(OVERLAPPING_TARGET, |variant| variant.target);
    for (old, new) in target {
        text = text.replacen(old, new, 1);
    }
    text
}

/// Bytes of a description, far more than any kernel's arguments take.
const MOST_DESCRIPTION: usize = 1 << 16;

/// Threads of a threadgroup, of which no kernel can have more.
const MOST_THREADS: u32 = 1024;
/// From how many threads on a threadgroup has a core for itself.
const LARGE: u32 = 513;

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
        let (extent, found) = found.split_once(']').ok_or_else(malformed)?;
        let extent: usize = extent.parse().map_err(|_| malformed())?;
        let (_, found) = found.split_once('{').ok_or_else(malformed)?;
        let (list, _) = found.split_once('}').ok_or_else(malformed)?;
        let mut bytes: Vec<u8> = list
            .split(',')
            .map(|byte| byte.trim().parse().map_err(|_| malformed()))
            .collect::<Result<_, _>>()?;
        if bytes.len() > extent || extent > MOST_DESCRIPTION {
            return Err(malformed());
        }
        // Zeroes at the end of an array are not written out.
        bytes.resize(extent, 0);
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
        if *length as usize != words.len() || arguments.len() % WORDS != 0 {
            return Err(malformed());
        }
        let argument = |words: &[u32]| {
            let index = words[1] as usize;
            let source = match words[0] {
                0 => ArgumentSource::None,
                1 => ArgumentSource::Buffer {
                    index,
                    least: words[2] as usize,
                    value: (words[3] != u32::MAX).then_some(words[3] as usize),
                },
                2 => ArgumentSource::Threadgroup { index },
                3 => ArgumentSource::Value {
                    index,
                    bytes: words[2] as usize,
                    offset: words[3] as usize,
                },
                _ => return Err(malformed()),
            };
            Ok(Argument {
                source,
                alignment: words[4],
                is_writable: words[5] != 0,
            })
        };
        Ok(Description {
            packet_bytes: *packet_bytes as usize,
            memory: *memory as usize,
            values: *values as usize,
            max_threads: *max_threads,
            arguments: arguments
                .chunks(WORDS)
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
        #[rustfmt::skip]
        let words = [
            23_u32, 96, 48, 64, 512,
            1, 3, 8, 16, 4, 1,
            2, 1, 0, u32::MAX, 16, 1,
            3, 4, 300, 32, 8, 0,
        ];
        let bytes: Vec<String> = words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .map(|byte| byte.to_string())
            .collect();
        let module = format!(
            ".visible .global .align 4 .b8 msl_description_2[92] = {{{}}};\n",
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
        let buffer = Argument {
            source: ArgumentSource::Buffer {
                index: 3,
                least: 8,
                value: Some(16),
            },
            alignment: 4,
            is_writable: true,
        };
        let threadgroup = Argument {
            source: ArgumentSource::Threadgroup { index: 1 },
            alignment: 16,
            is_writable: true,
        };
        let value = |offset, alignment| Argument {
            source: ArgumentSource::Value {
                index: 4,
                bytes: 300,
                offset,
            },
            alignment,
            is_writable: false,
        };
        assert_eq!(description.arguments, [buffer, threadgroup, value(32, 8)]);
        // clang leaves zeroes at the end out.
        let last = module.replace(", 8, 0, 0, 0, 0, 0, 0, 0};", ", 8};");
        assert_ne!(last, module);
        let description = Description::read(&last, 2).expect("it is one");
        assert_eq!(description.arguments.last(), Some(&value(32, 8)));
        for wrong in [
            "",
            &module.replace("[92]", "[91]"),
            &module.replace("[92]", "[99999999]"),
            &module.replace("{23,", "{22,"),
            &module.replace("92] = {23", "92] = {x"),
        ] {
            assert!(
                matches!(Description::read(wrong, 2), Err(Error::Host(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_gpu_is_given_its_own_instructions_and_the_threads() {
        let module = ".version 7.5\n.target sm_80\n.visible .entry msl_kernel_0(\n\t.param .b64 p\n)\n{\n\
            \t// msl: kernel_starts\n\tret;\n}\n";
        let plain = for_gpu(module, 1024, false);
        assert_eq!(plain, module);
        let bounded = for_gpu(module, 512, false);
        assert!(bounded.contains(")\n.maxntid 512, 1, 1\n{"), "{bounded}");
        let large = for_gpu(module, 544, false);
        let directives = ")\n.maxntid 544, 1, 1\n.minnctapersm 1\n{";
        assert!(large.contains(directives), "{large}");
        let overlapping = for_gpu(module, 1024, true);
        assert!(overlapping.starts_with(".version 7.8\n.target sm_90\n"));
        assert!(overlapping.contains(&format!("\t{ALLOW}\n{WAIT}\n")));

        let waits = module.replace(
            "ret;",
            "// msl: allow_successor\n// msl: wait_for_predecessor",
        );
        let waits = for_gpu(&waits, 1024, true);
        assert_eq!(
            (waits.matches(ALLOW).count(), waits.matches(WAIT).count()),
            (1, 1)
        );
        assert!(!waits.contains("msl: "), "{waits}");
    }

    #[test]
    fn variants_are_for_the_gpus_that_have_their_instructions() {
        let targets = VARIANTS.each_ref().map(|variant| {
            let module = format!(".version 7.5\n.target sm_80\n\t{}x;\n", variant.instruction);
            assert!(variant.has(&module) && variant.family("f").starts_with("f@"));
            for_gpu(&module, 1024, true)
        });
        assert!(targets[0].starts_with(".version 8.0\n.target sm_90a\n"));
        assert!(targets[1].starts_with(".version 8.0\n.target sm_90\n"));
        let gpus = [(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)];
        let [tiles, copies] = VARIANTS
            .each_ref()
            .map(|variant| gpus.map(|gpu| variant.is_for(gpu)));
        assert_eq!(tiles, [false, false, true, false, false]);
        assert_eq!(copies, [false, false, true, true, true]);
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
