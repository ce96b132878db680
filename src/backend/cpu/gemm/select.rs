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

/// Classes that a row of the table is for, as a text and one by one.
type Types = (&'static str, &'static [Class]);

const FLOAT: Types = ("float", &[Class::F32, Class::Half]);
const F32: Types = ("F32", &[Class::F32]);
const BLOCK: Types = ("block", &[Class::Block, Class::WideBlock]);
const WIDE_BLOCK: Types = ("Q4_0, Q4_K, Q6_K", &[Class::WideBlock]);

/// What a strategy needs beside the shape, as a text, and the most rows of A that it takes on a processor: 0 where it
/// cannot be used.
type Needs = (&'static str, fn(Processor) -> u32);

const NOTHING: Needs = ("", |_| MANY);
const AMX: Needs = ("AMX", |of| u32::from(of.amx) * MANY);
const VBMI: Needs = ("VBMI and GFNI", |of| u32::from(of.vbmi) * MANY);
const GEMM_X16_ROWS: Needs = ("AVX-512, from Zen 5 on and Intel", |of| {
    u32::from(of.avx512) * of.tuning.gemm_x16_rows
});
const GEMM_DOT_ROWS: Needs = ("AVX-512, not Intel", |of| {
    u32::from(of.avx512) * of.tuning.gemm_dot_rows
});

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

/// One row of the table, with the fewest and the most rows of A.
type Rule = (Layout, Types, (u32, u32), Needs, Strategy);

const MANY: u32 = u32::MAX;

/// With AMX, fewer rows keep 15 bits of the activations of block-quantized weights. Of floats, vectors multiply a
/// tile's rows with less work than it takes to split the weights.
const TABLE: [Rule; 15] = {
    use Layout::{Columns, Rows, X16};
    use Strategy::*;
    [
        (X16, BLOCK, (9, MANY), AMX, Amx),
        (X16, BLOCK, (0, 4), NOTHING, QuantGemvX16),
        (X16, BLOCK, (0, MANY), NOTHING, QuantGemmPackedB),
        (X16, FLOAT, (17, MANY), AMX, Amx),
        (X16, FLOAT, (0, 4), NOTHING, GemvX16),
        (X16, FLOAT, (0, 16), GEMM_X16_ROWS, GemmX16),
        (X16, FLOAT, (0, MANY), NOTHING, GemmPackedB),
        (Rows, WIDE_BLOCK, (0, 4), VBMI, QuantGemvWide),
        (Rows, BLOCK, (0, 2), NOTHING, QuantGemvDot),
        (Rows, BLOCK, (0, MANY), NOTHING, QuantGemmPackedB),
        (Rows, FLOAT, (0, 6), NOTHING, GemvDot),
        (Rows, F32, (3, 16), GEMM_DOT_ROWS, GemmDot),
        (Rows, FLOAT, (0, MANY), NOTHING, GemmPackedA),
        (Columns, FLOAT, (0, 6), NOTHING, GemvAxpy),
        (Columns, FLOAT, (0, MANY), NOTHING, GemmPackedB),
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

    /// The first row of the table that fits.
    fn choose(self, layout: Layout, class: Class, m: u32) -> Option<usize> {
        TABLE
            .iter()
            .position(|(of, (_, classes), (least, most), (_, limit), _)| {
                *of == layout
                    && classes.contains(&class)
                    && (*least..=*most).contains(&m)
                    && (1..=limit(self)).contains(&m.max(1))
            })
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
        |row| {
            let (.., strategy) = TABLE[row];
            strategy
        },
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
    fn describe(self, (layout, (types, _), m, (needs, limit), strategy): &Rule) -> Description {
        let used = limit(self) > 0;
        let limit = if used { limit(self) } else { MANY };
        let (least, most) = (m.0.max(1), m.1.min(limit));
        Description {
            b: format!("{layout}, {types}"),
            rows: match (least, most) {
                (1, MANY) => "any".into(),
                (_, MANY) => format!("{least} or more"),
                _ => format!("{least} to {most}"),
            },
            needs,
            strategy: strategy.file(),
            used,
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
                    let row = |class: &Class| processor.choose(rule.0, *class, *m);
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
            assert_eq!(TABLE[row].4, expected, "{layout}, {class:?}, {m}");
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
