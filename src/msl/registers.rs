//! How many registers a kernel needs, by a model: the most values of a PTX module that are alive at one place. Apple's
//! compiler orders instructions by itself, so its numbers differ; that few threads of a large kernel fit does not.

use std::collections::HashMap;

/// How many threads of a threadgroup an M1 has registers for, by halves (16 bits) of a thread: Mesa's
/// `agx_occupancy_for_register_count` (src/asahi/compiler/agx_performance.c).
const THREADS: [(u32, u32); 10] = [
    (104, 1024),
    (112, 896),
    (128, 832),
    (136, 768),
    (144, 704),
    (160, 640),
    (184, 576),
    (208, 512),
    (232, 448),
    (256, 384),
];

/// Instructions without a result. (PTX ISA 8.4, chapter 9.)
const NO_RESULT: [&str; 19] = [
    "st",
    "red",
    "bra",
    "brx",
    "bar",
    "barrier",
    "ret",
    "exit",
    "trap",
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "cp",
    "griddepcontrol",
    "nanosleep",
    "discard",
    "stmatrix",
    "call",
];

/// How many threads of a kernel that needs these halves a threadgroup can have. More than there are: the rest lies in
/// memory.
pub fn most_threads(halves: u32) -> u32 {
    let fits = THREADS.iter().find(|(most, _)| halves <= *most);
    fits.unwrap_or(&THREADS[THREADS.len() - 1]).1
}

/// The most halves of registers that are alive at one place of the module's kernel.
pub fn halves(module: &str) -> u32 {
    let mut function = Function::default();
    let body = module.split_once(".entry ").map_or("", |(_, rest)| rest);
    let body = body.split_once("\n{").map_or("", |(_, rest)| rest);
    for line in body.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        function.read(line);
    }
    function.most_alive()
}

/// Instructions without a branch among them.
#[derive(Default)]
struct Block {
    /// What each writes and reads, in order.
    instructions: Vec<(Vec<usize>, Vec<usize>)>,
    /// Labels that it may go to.
    targets: Vec<String>,
    /// Whether it may go to the next one.
    falls: bool,
}

#[derive(Default)]
struct Function {
    registers: HashMap<String, usize>,
    /// In halves.
    widths: Vec<u32>,
    blocks: Vec<Block>,
    labels: HashMap<String, usize>,
    /// Of `brx.idx`: the targets by the name of their list.
    lists: HashMap<String, Vec<String>>,
    ended: bool,
}

impl Function {
    fn read(&mut self, line: &str) {
        if let Some((name, targets)) = line.split_once(": .branchtargets") {
            self.lists.insert(name.into(), labels_in(targets));
            return;
        }
        let line = match line.split_once(':') {
            Some((label, rest)) if label.starts_with('$') => {
                self.labels.insert(label.into(), self.blocks.len());
                self.begin_block();
                rest
            }
            _ => line,
        };
        for statement in line.trim_matches(['{', '}', ' ', '\t']).split(';') {
            self.instruction(statement.trim());
        }
    }

    fn begin_block(&mut self) {
        self.ended = false;
        self.blocks.push(Block {
            falls: true,
            ..Block::default()
        });
    }

    fn instruction(&mut self, statement: &str) {
        if statement.is_empty() || statement.starts_with('.') {
            return; // a declaration
        }
        if self.ended || self.blocks.is_empty() {
            self.begin_block();
        }
        let (guard, rest) = match statement.strip_prefix('@') {
            Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
            None => ("", statement),
        };
        let rest = rest.trim();
        let (code, operands) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let family = code.split('.').next().unwrap_or_default();
        let operands = operands.trim();
        let (result, operands) = match NO_RESULT.contains(&family) {
            true => ("", operands),
            false if operands.starts_with('{') => {
                operands.split_once('}').unwrap_or((operands, ""))
            }
            false => operands.split_once(',').unwrap_or((operands, "")),
        };
        let writes = self.registers_in(result);
        let mut reads = self.registers_in(operands);
        reads.extend(self.registers_in(guard));
        let guarded = !guard.is_empty();
        if guarded {
            reads.extend(&writes); // what was there may stay
        }
        let Some(block) = self.blocks.last_mut() else {
            return;
        };
        block.instructions.push((writes, reads));
        if matches!(family, "bra" | "brx") {
            block.targets.extend(labels_in(operands));
        }
        if matches!(family, "bra" | "brx" | "ret" | "exit" | "trap") {
            block.falls = guarded;
            self.ended = true;
        }
    }

    /// Of those that hold values: `%r1`, `%rd1`, `%rs1`, `%f1`, `%fd1` and their like. Predicates take none.
    fn registers_in(&mut self, text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        for part in text.split('%').skip(1) {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric());
            let name = &part[..end.unwrap_or(part.len())];
            let class = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let width = match class {
                _ if class.len() == name.len() => continue, // %tid and its like
                "rs" | "h" => 1,
                "r" | "f" | "hh" => 2,
                "rd" | "fd" => 4,
                "rq" => 8,
                _ => continue,
            };
            let next = self.widths.len();
            let index = *self.registers.entry(name.into()).or_insert(next);
            if index == next {
                self.widths.push(width);
            }
            found.push(index);
        }
        found
    }

    fn successors(&self, index: usize) -> Vec<usize> {
        let block = &self.blocks[index];
        let named = block.targets.iter().flat_map(|target| {
            let list = self.lists.get(target).map(Vec::as_slice);
            list.unwrap_or(std::slice::from_ref(target))
        });
        let mut all: Vec<usize> = named
            .filter_map(|name| self.labels.get(name).copied())
            .collect();
        if block.falls && index + 1 < self.blocks.len() {
            all.push(index + 1);
        }
        all
    }

    /// Liveness, backwards until nothing changes (Aho et al., Compilers, section 9.2.5).
    fn most_alive(&self) -> u32 {
        let words = self.widths.len().div_ceil(64);
        let mut alive_in = vec![vec![0u64; words]; self.blocks.len()];
        let mut most;
        loop {
            let mut changed = false;
            most = 0;
            for index in (0..self.blocks.len()).rev() {
                let mut alive = vec![0u64; words];
                for next in self.successors(index) {
                    for (word, other) in alive.iter_mut().zip(&alive_in[next]) {
                        *word |= other;
                    }
                }
                let mut count = self.weight(&alive);
                most = most.max(count);
                for (writes, reads) in self.blocks[index].instructions.iter().rev() {
                    for &register in writes {
                        let (word, bit) = (register / 64, 1 << (register % 64));
                        if alive[word] & bit != 0 {
                            alive[word] &= !bit;
                            count -= self.widths[register];
                        }
                    }
                    for &register in reads {
                        let (word, bit) = (register / 64, 1 << (register % 64));
                        if alive[word] & bit == 0 {
                            alive[word] |= bit;
                            count += self.widths[register];
                        }
                    }
                    most = most.max(count);
                }
                changed |= alive != alive_in[index];
                alive_in[index] = alive;
            }
            if !changed {
                return most;
            }
        }
    }

    fn weight(&self, alive: &[u64]) -> u32 {
        let widths = self.widths.iter().enumerate();
        widths
            .filter(|(index, _)| alive[index / 64] >> (index % 64) & 1 != 0)
            .map(|(_, width)| width)
            .sum()
    }
}

fn labels_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c == ',' || c == ';' || c.is_whitespace());
    let labels = words.filter(|word| word.starts_with('$'));
    labels.map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_by_registers() {
        for (halves, threads) in [
            (0, 1024),
            (104, 1024),
            (105, 896),
            (200, 512),
            (256, 384),
            (9999, 384),
        ] {
            assert_eq!(most_threads(halves), threads, "{halves}");
        }
    }

    fn of(body: &str) -> u32 {
        halves(&format!(
            ".visible .entry k(\n\t.param .u64 p\n)\n{{\n{body}\n}}\n"
        ))
    }

    #[test]
    fn values_that_are_alive_together_are_counted() {
        // An address of four halves and one value; then two values.
        let line =
            "\t.reg .b32 \t%f<9>;\n\tld.param.u64 \t%rd1, [p];\n\tld.global.f32 %f1, [%rd1];\n";
        assert_eq!(
            of(&format!("{line}\tst.global.f32 [%rd1], %f1;\n\tret;")),
            6
        );
        assert_eq!(of(&format!("{line}\tadd.f32 %f2, %f1, %f1;\n\tret;")), 4);
        // Vectors, predicates and special registers.
        assert_eq!(
            of(
                "\tld.global.v2.f32 {%f1, %f2}, [%rd1];\n\tsetp.lt.f32 %p1, %f1, %f2;\n\tmov.u32 %r1, %tid.x;\n\
                \tmul.f32 %f3, %f1, %f2;\n\tst.global.f32 [%rd1], %f3;\n\tst.global.u32 [%rd1], %r1;\n\tret;"
            ),
            4 + 2 + 2 + 2
        );
    }

    #[test]
    fn loops_keep_what_their_next_round_reads() {
        // %f9 is read after the loop, %f1 in each round, %r1 counts.
        let body = "\tmov.f32 %f9, 0f00000000;\n\tmov.f32 %f1, 0f00000000;\n\tmov.u32 %r1, 0;\n$L__BB0_1:\n\
                    \tmov.f32 %f5, 0f00000000;\n\tadd.f32 %f2, %f1, %f5;\n\tadd.u32 %r1, %r1, 1;\n\
                    \tsetp.lt.u32 %p1, %r1, 9;\n\t@%p1 bra $L__BB0_1;\n\tst.global.f32 [%rd1], %f9;\n\tret;";
        // %rd1 4, and of %f9, %f1, %r1, %f5 two each.
        assert_eq!(of(body), 4 + 4 * 2);
    }

    #[test]
    fn a_guarded_write_may_leave_what_was_there() {
        let body = "\tmov.u32 %r1, 1;\n\tmov.u32 %r2, 2;\n\t@%p1 mov.u32 %r1, 3;\n\tst.global.u32 [%r2], %r1;\n\tret;";
        assert_eq!(of(body), 4);
        let list = "\tmov.u32 %r1, 1;\n\tmov.u32 %r2, 2;\n$L_brx_0: .branchtargets\n\tbrx.idx %r3, $L_brx_0;\n";
        assert_eq!(of(list), 2);
        assert_eq!(of(""), 0);
        assert_eq!(halves("no module"), 0);
    }
}
