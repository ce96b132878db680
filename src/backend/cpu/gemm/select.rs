//! Which strategy multiplies: one table, of which the first row that fits wins.

use std::fmt;

use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::Stored;
use crate::backend::cpu::simd::{Amx, Isa, Tuning};

/// How B is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Panels of 16 interleaved rows.
    X16,
    /// `[n][k]`: a row is a column of C.
    Rows,
    /// `[k][n]`.
    Columns,
}

/// A class of types of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    F32,
    /// F16 and BF16.
    Half,
    /// Blocks that wide loads have a loop for ([`super::quant::gemv_wide`]).
    WideBlock,
    /// The other blocks.
    Block,
}

/// Classes that a row of the table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Types {
    Float,
    F32,
    Block,
    WideBlock,
}

/// What a strategy needs beside the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Amx,
    Vbmi,
    /// At most [`Tuning::gemm_x16_rows`] rows of A.
    GemmX16Rows,
    /// At most [`Tuning::gemm_dot_rows`] rows of A.
    GemmDotRows,
}

/// A file of this folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Amx,
    GemvX16,
    GemmX16,
    GemvDot,
    GemmDot,
    GemvAxpy,
    GemmPackedA,
    GemmPackedB,
    QuantGemvX16,
    QuantGemvWide,
    QuantGemvDot,
    QuantGemmPackedB,
}

impl Strategy {
    /// Its file, in this folder.
    pub fn file(self) -> &'static str {
        match self {
            Strategy::Amx => "amx/gemm",
            Strategy::GemvX16 => "gemv_x16",
            Strategy::GemmX16 => "gemm_x16",
            Strategy::GemvDot => "gemv_dot",
            Strategy::GemmDot => "gemm_dot",
            Strategy::GemvAxpy => "gemv_axpy",
            Strategy::GemmPackedA => "gemm_packed_a",
            Strategy::GemmPackedB => "gemm_packed_b",
            Strategy::QuantGemvX16 => "quant/gemv_x16",
            Strategy::QuantGemvWide => "quant/gemv_wide",
            Strategy::QuantGemvDot => "quant/gemv_dot",
            Strategy::QuantGemmPackedB => "quant/gemm_packed_b",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Rule {
    layout: Layout,
    types: Types,
    /// The fewest and the most rows of A.
    m: (u32, u32),
    needs: Needs,
    strategy: Strategy,
}

const fn rule(
    layout: Layout,
    types: Types,
    m: (u32, u32),
    needs: Needs,
    strategy: Strategy,
) -> Rule {
    Rule {
        layout,
        types,
        m,
        needs,
        strategy,
    }
}

const MANY: u32 = u32::MAX;

/// With AMX, fewer rows keep 15 bits of the activations of block-quantized weights. Of floats, vectors multiply a
/// tile's rows with less work than it takes to split the weights.
const TABLE: [Rule; 15] = {
    use Layout::{Columns, Rows, X16};
    use Strategy::*;
    use Types::{Block, F32, Float, WideBlock};
    [
        rule(X16, Block, (9, MANY), Needs::Amx, Amx),
        rule(X16, Block, (0, 4), Needs::Nothing, QuantGemvX16),
        rule(X16, Block, (0, MANY), Needs::Nothing, QuantGemmPackedB),
        rule(X16, Float, (17, MANY), Needs::Amx, Amx),
        rule(X16, Float, (0, 4), Needs::Nothing, GemvX16),
        rule(X16, Float, (0, 16), Needs::GemmX16Rows, GemmX16),
        rule(X16, Float, (0, MANY), Needs::Nothing, GemmPackedB),
        rule(Rows, WideBlock, (0, 4), Needs::Vbmi, QuantGemvWide),
        rule(Rows, Block, (0, 2), Needs::Nothing, QuantGemvDot),
        rule(Rows, Block, (0, MANY), Needs::Nothing, QuantGemmPackedB),
        rule(Rows, Float, (0, 6), Needs::Nothing, GemvDot),
        rule(Rows, F32, (3, 16), Needs::GemmDotRows, GemmDot),
        rule(Rows, Float, (0, MANY), Needs::Nothing, GemmPackedA),
        rule(Columns, Float, (0, 6), Needs::Nothing, GemvAxpy),
        rule(Columns, Float, (0, MANY), Needs::Nothing, GemmPackedB),
    ]
};

/// What the table asks of a processor.
#[derive(Clone, Copy, Debug)]
struct Processor {
    avx512: bool,
    vbmi: bool,
    amx: bool,
    tuning: &'static Tuning,
}

impl Processor {
    fn new(isa: Isa, amx: Option<Amx>, tuning: &'static Tuning) -> Processor {
        Processor {
            avx512: isa.is_avx512(),
            vbmi: isa.has_vbmi(),
            amx: amx.is_some(),
            tuning,
        }
    }

    /// The most rows of A that a strategy takes here; `None`: it cannot be used.
    fn limit(self, needs: Needs) -> Option<u32> {
        match needs {
            Needs::Nothing => Some(MANY),
            Needs::Amx => self.amx.then_some(MANY),
            Needs::Vbmi => self.vbmi.then_some(MANY),
            Needs::GemmX16Rows => Some(self.tuning.gemm_x16_rows).filter(|_| self.avx512),
            Needs::GemmDotRows => Some(self.tuning.gemm_dot_rows).filter(|_| self.avx512),
        }
        .filter(|limit| *limit > 0)
    }

    /// The first row of the table that fits.
    fn choose(self, layout: Layout, class: Class, m: u32) -> Option<usize> {
        TABLE.iter().position(|rule| {
            rule.layout == layout
                && rule.types.have(class)
                && (rule.m.0..=rule.m.1).contains(&m)
                && self.limit(rule.needs).is_some_and(|limit| m <= limit)
        })
    }
}

impl Types {
    fn have(self, class: Class) -> bool {
        match self {
            Types::Float => matches!(class, Class::F32 | Class::Half),
            Types::F32 => class == Class::F32,
            Types::Block => matches!(class, Class::Block | Class::WideBlock),
            Types::WideBlock => class == Class::WideBlock,
        }
    }
}

impl Class {
    /// That of a type of floats.
    pub fn of_float<B: Stored>() -> Class {
        match B::IS_F32 {
            true => Class::F32,
            false => Class::Half,
        }
    }
}

/// What multiplies `m` rows of A with a B of this layout and class on `machine`.
pub fn select(machine: &Machine, layout: Layout, class: Class, m: u32) -> Strategy {
    let processor = Processor::new(machine.isa, machine.amx, machine.tuning);
    let row = processor.choose(layout, class, m);
    row.map_or_else(
        || unreachable!("each layout and class ends with a row for all"),
        |row| TABLE[row].strategy,
    )
}

/// A row of the table as text, with the limits of a processor.
pub struct Description {
    pub b: String,
    pub rows: String,
    pub needs: &'static str,
    pub strategy: &'static str,
    pub used: bool,
}

/// The whole table, with the limits of the processor that has these.
pub fn table(isa: Isa, amx: Option<Amx>, tuning: &'static Tuning) -> Vec<Description> {
    let processor = Processor::new(isa, amx, tuning);
    TABLE.iter().map(|rule| processor.describe(rule)).collect()
}

impl Processor {
    fn describe(self, rule: &Rule) -> Description {
        let limit = self.limit(rule.needs);
        let (least, most) = (rule.m.0.max(1), rule.m.1.min(limit.unwrap_or(MANY)));
        Description {
            b: format!("{}, {}", rule.layout, rule.types),
            rows: match (least, most) {
                (1, MANY) => "any".into(),
                (_, MANY) => format!("{least} or more"),
                _ => format!("{least} to {most}"),
            },
            needs: rule.needs.text(),
            strategy: rule.strategy.file(),
            used: limit.is_some(),
        }
    }
}

impl Needs {
    fn text(self) -> &'static str {
        match self {
            Needs::Nothing => "",
            Needs::Amx => "AMX",
            Needs::Vbmi => "VBMI and GFNI",
            Needs::GemmX16Rows => "AVX-512, from Zen 5 on and Intel",
            Needs::GemmDotRows => "AVX-512, not Intel",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Layout::X16 => "x16",
            Layout::Rows => "[n][k]",
            Layout::Columns => "[k][n]",
        })
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Types::Float => "float",
            Types::F32 => "F32",
            Types::Block => "block",
            Types::WideBlock => "Q4_0, Q4_K, Q6_K",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESSORS: [Processor; 5] = {
        let baseline = Processor {
            avx512: false,
            vbmi: false,
            amx: false,
            tuning: &Tuning::BASELINE,
        };
        let avx512 = Processor {
            avx512: true,
            vbmi: true,
            ..baseline
        };
        [
            baseline,
            Processor {
                tuning: &Tuning::ZEN_4,
                ..avx512
            },
            Processor {
                tuning: &Tuning::ZEN_5,
                ..avx512
            },
            Processor {
                tuning: &Tuning::INTEL,
                ..avx512
            },
            Processor {
                tuning: &Tuning::INTEL,
                amx: true,
                ..avx512
            },
        ]
    };
    const CLASSES: [Class; 4] = [Class::F32, Class::Half, Class::WideBlock, Class::Block];

    /// Each row is chosen on some processor and for some class: for these rows of A, and for none below or above them.
    #[test]
    fn every_row_is_chosen_between_its_ends() {
        const ENDS: [(u32, u32); TABLE.len()] = [
            (9, MANY),
            (0, 4),
            (5, MANY),
            (17, MANY),
            (0, 4),
            (5, 16),
            (5, MANY),
            (0, 4),
            (0, 2),
            (3, MANY),
            (0, 6),
            (7, 16),
            (7, MANY),
            (0, 6),
            (7, MANY),
        ];
        for (index, rule) in TABLE.iter().enumerate() {
            let chosen = |m: &u32| {
                PROCESSORS.iter().any(|processor| {
                    let row = |class: &Class| processor.choose(rule.layout, *class, *m);
                    CLASSES.iter().any(|class| row(class) == Some(index))
                })
            };
            let rows = || (0..=64).chain([MANY]).filter(chosen);
            let ends = (rows().min(), rows().max());
            assert_eq!(ends, (Some(ENDS[index].0), Some(ENDS[index].1)), "{rule:?}");
        }
    }

    #[test]
    fn every_shape_has_a_strategy() {
        for processor in PROCESSORS {
            for m in (0..40).chain([1000, MANY]) {
                for class in [Class::Block, Class::WideBlock, Class::F32, Class::Half] {
                    assert!(processor.choose(Layout::Rows, class, m).is_some());
                    assert!(processor.choose(Layout::X16, class, m).is_some());
                }
                assert!(processor.choose(Layout::Columns, Class::F32, m).is_some());
                assert!(processor.choose(Layout::Columns, Class::Half, m).is_some());
            }
        }
    }

    /// The boundaries, as docs/KERNELS.md has them.
    #[test]
    fn boundaries() {
        use Strategy::*;
        let [baseline, zen_4, zen_5, intel, amx] = PROCESSORS;
        for (processor, layout, class, m, expected) in [
            (amx, Layout::X16, Class::Block, 8, QuantGemmPackedB),
            (amx, Layout::X16, Class::Block, 9, Amx),
            (amx, Layout::X16, Class::Half, 16, GemmX16),
            (amx, Layout::X16, Class::Half, 17, Amx),
            (zen_5, Layout::X16, Class::Block, 4, QuantGemvX16),
            (zen_5, Layout::X16, Class::Block, 5, QuantGemmPackedB),
            (zen_5, Layout::X16, Class::Half, 4, GemvX16),
            (zen_5, Layout::X16, Class::Half, 5, GemmX16),
            (zen_5, Layout::X16, Class::Half, 17, GemmPackedB),
            (zen_4, Layout::X16, Class::Half, 5, GemmPackedB),
            (zen_4, Layout::Rows, Class::WideBlock, 4, QuantGemvWide),
            (zen_4, Layout::Rows, Class::WideBlock, 5, QuantGemmPackedB),
            (baseline, Layout::Rows, Class::WideBlock, 2, QuantGemvDot),
            (zen_4, Layout::Rows, Class::Block, 2, QuantGemvDot),
            (zen_4, Layout::Rows, Class::Block, 3, QuantGemmPackedB),
            (zen_4, Layout::Rows, Class::F32, 6, GemvDot),
            (zen_4, Layout::Rows, Class::F32, 7, GemmDot),
            (zen_4, Layout::Rows, Class::F32, 16, GemmDot),
            (zen_4, Layout::Rows, Class::F32, 17, GemmPackedA),
            (zen_4, Layout::Rows, Class::Half, 7, GemmPackedA),
            (intel, Layout::Rows, Class::F32, 7, GemmPackedA),
            (baseline, Layout::Rows, Class::F32, 7, GemmPackedA),
            (baseline, Layout::Columns, Class::F32, 6, GemvAxpy),
            (baseline, Layout::Columns, Class::F32, 7, GemmPackedB),
        ] {
            let row = processor.choose(layout, class, m).expect("a row");
            assert_eq!(TABLE[row].strategy, expected, "{layout}, {class:?}, {m}");
        }
    }

    /// docs/KERNELS.md has the table row by row, with all limits.
    #[test]
    fn the_design_has_the_same_table() {
        static ALL: Tuning = Tuning {
            gemm_x16_rows: 16,
            gemm_dot_rows: 16,
            ..Tuning::INTEL
        };
        let processor = Processor {
            tuning: &ALL,
            ..PROCESSORS[4]
        };
        let page = include_str!("../../../../docs/KERNELS.md");
        let mut lines = page
            .lines()
            .skip_while(|line| !line.starts_with("| B | rows of A"));
        lines.nth(1);
        for rule in &TABLE {
            let Description {
                b,
                rows,
                needs,
                strategy,
                ..
            } = processor.describe(rule);
            let needs = if needs.is_empty() {
                String::new()
            } else {
                format!("{needs} ")
            };
            let row = format!("| {b} | {rows} | {needs}| `{strategy}` |");
            let line = lines.next().unwrap_or_default();
            assert!(line.starts_with(&row), "{row}\n{line}");
        }
        assert_eq!(lines.next(), Some(""));
    }
}
