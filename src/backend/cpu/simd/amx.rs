//! Intel's Advanced Matrix Extensions, of processors from Sapphire Rapids on: registers of 16 rows of 64 bytes, and an
//! instruction that multiplies two of them as matrices of bf16 and adds up in f32.
//!
//! ("Intel 64 and IA-32 Architectures Software Developer's Manual", volume 1, on programming with AMX; `TDPBF16PS` in
//! volume 2.) Rust has no stable intrinsics for them. A register holds values only within a block of assembly here, so
//! that the compiler need not know of any.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::marker::PhantomData;

use super::Avx512;

/// Rows of a tile, and columns of a product of two.
pub const TILE: usize = 16;
/// Values of bf16 in a row of a tile: the steps of a product of two.
pub const DEPTH: usize = 32;
/// Bytes that are prefetched in a step of a product.
pub const PREFETCH_BYTES: usize = 128;
/// Bytes of a row.
const ROW: usize = 64;

/// What a register holds. A first factor has a row of C in each row; a second one two steps in each, of which every
/// column of C has a neighboring pair; C itself is of f32.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Tile([u8; TILE * ROW]);

/// The proof that the processor has them and that the system lets this process use them.
#[derive(Clone, Copy, Debug)]
pub struct Amx {
    vectors: Avx512<true>,
}

impl Amx {
    pub fn new() -> Option<Amx> {
        const BF16: u32 = 1 << 22;
        const TILES: u32 = 1 << 24;
        #[allow(
            unused_unsafe,
            reason = "safe in newer versions of Rust than the oldest that this builds with"
        )]
        // SAFETY: all processors of this architecture have the instruction.
        let has = unsafe {
            __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILES) == BF16 | TILES
        };
        let vectors = Avx512::new().filter(|_| has && may_be_used())?;
        Some(Amx { vectors })
    }

    /// The instructions for vectors, which all processors with AMX have.
    pub fn vectors(self) -> Avx512<true> {
        self.vectors
    }

    /// Makes this thread's registers whole tiles, for as long as the result lives. What they held before is lost, as
    /// the calling convention has it.
    pub fn configured(self) -> Configured {
        #[repr(C, align(64))]
        struct Configuration {
            palette: u8,
            start_row: u8,
            reserved: [u8; 14],
            row_bytes: [u16; 16],
            rows: [u8; 16],
        }
        let mut configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        configuration.row_bytes[..8].fill(ROW as u16);
        configuration.rows[..8].fill(TILE as u8);
        // SAFETY: `new` saw the instruction; these are 64 bytes of a valid configuration.
        unsafe {
            asm!(
                "ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, preserves_flags),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            );
        }
        Configured(PhantomData)
    }
}

/// Asks the system, which keeps room for the registers of those who do. ("Documentation/arch/x86/xstate.rst" of Linux.)
#[cfg(target_os = "linux")]
fn may_be_used() -> bool {
    const REQUEST_PERMISSION: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: the call gets two numbers.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn may_be_used() -> bool {
    false
}

/// While it lives, this thread's registers are whole tiles.
pub struct Configured(PhantomData<*const ()>);

impl Configured {
    /// Adds to two tiles of C the products of the tiles at `a` and of those at `b`, `steps` of them one after the
    /// other: of `b` two in each step. Each step prefetches [`PREFETCH_BYTES`] bytes at either of `prefetch`, which
    /// need not be readable.
    ///
    /// # Safety
    /// So many tiles are readable, at least one, and the two of C are writable.
    #[inline]
    pub unsafe fn add_row(
        &self,
        a: *const Tile,
        b: *const Tile,
        steps: usize,
        c: *mut Tile,
        prefetch: [*const u8; 2],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "tileloadd tmm0, [{c} + {row}]",
                "tileloadd tmm1, [{c} + {row} + 1024]",
                "2:",
                "tileloadd tmm4, [{a} + {row}]",
                "tileloadd tmm6, [{b} + {row}]",
                "tileloadd tmm7, [{b} + {row} + 1024]",
                "prefetcht1 [{prefetch}]",
                "prefetcht1 [{prefetch} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht1 [{other}]",
                "prefetcht1 [{other} + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "add {a}, 1024",
                "add {b}, 2048",
                "add {prefetch}, {bytes}",
                "add {other}, {bytes}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {row}], tmm0",
                "tilestored [{c} + {row} + 1024], tmm1",
                a = inout(reg) a => _,
                b = inout(reg) b => _,
                steps = inout(reg) steps => _,
                c = in(reg) c,
                prefetch = inout(reg) prefetch[0] => _,
                other = inout(reg) prefetch[1] => _,
                row = in(reg) ROW,
                bytes = const PREFETCH_BYTES,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// The same for two rows of tiles: of `a` one in each step in either row, of C two in either.
    ///
    /// # Safety
    /// So many tiles are readable, at least one, and the four of C are writable.
    #[inline]
    pub unsafe fn add_rows(
        &self,
        a: [*const Tile; 2],
        b: *const Tile,
        steps: usize,
        c: *mut Tile,
        prefetch: [*const u8; 2],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "tileloadd tmm0, [{c} + {row}]",
                "tileloadd tmm1, [{c} + {row} + 1024]",
                "tileloadd tmm2, [{c} + {row} + 2048]",
                "tileloadd tmm3, [{c} + {row} + 3072]",
                "2:",
                "tileloadd tmm4, [{a} + {row}]",
                "tileloadd tmm6, [{b} + {row}]",
                "tileloadd tmm7, [{b} + {row} + 1024]",
                "tileloadd tmm5, [{next} + {row}]",
                "prefetcht1 [{prefetch}]",
                "prefetcht1 [{prefetch} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht1 [{other}]",
                "prefetcht1 [{other} + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 1024",
                "add {next}, 1024",
                "add {b}, 2048",
                "add {prefetch}, {bytes}",
                "add {other}, {bytes}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {row}], tmm0",
                "tilestored [{c} + {row} + 1024], tmm1",
                "tilestored [{c} + {row} + 2048], tmm2",
                "tilestored [{c} + {row} + 3072], tmm3",
                a = inout(reg) a[0] => _,
                next = inout(reg) a[1] => _,
                b = inout(reg) b => _,
                steps = inout(reg) steps => _,
                c = in(reg) c,
                prefetch = inout(reg) prefetch[0] => _,
                other = inout(reg) prefetch[1] => _,
                row = in(reg) ROW,
                bytes = const PREFETCH_BYTES,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: `Amx::new` saw the instruction. A thread that has none in use costs the system nothing.
        unsafe {
            asm!(
                "tilerelease", options(nomem, nostack, preserves_flags),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    /// Two steps of two rows and two columns of tiles, with small integers, so that there is no rounding.
    #[test]
    fn products_of_tiles_are_those_of_matrices() {
        // As with every instruction set: what this processor has.
        let Some(amx) = Amx::new() else {
            return;
        };
        const STEPS: usize = 2;
        let number = |i: usize| ((i * 7919) % 23) as f32 - 11.0;
        let tile = |values: &dyn Fn(usize, usize) -> f32| {
            let mut bytes = [0; TILE * ROW];
            for (i, two) in bytes.chunks_exact_mut(2).enumerate() {
                let value = bf16::from_f32(values(i / DEPTH, i % DEPTH));
                two.copy_from_slice(&value.to_bits().to_ne_bytes());
            }
            Tile(bytes)
        };
        let a = |row: usize, step: usize| number(row * 64 + step);
        let b = |step: usize, column: usize| number(step * 37 + column);
        let rows =
            [0, 1].map(|row| [0, 1].map(|part| tile(&|i, x| a(row * TILE + i, part * DEPTH + x))));
        let columns = [0, 1].map(|part| {
            [0, 1].map(|column| {
                tile(&|pair, i| b(part * DEPTH + 2 * pair + i % 2, column * TILE + i / 2))
            })
        });
        let mut c = [Tile([0; TILE * ROW]); 4];
        let mut first = [Tile([0; TILE * ROW]); 2];
        let tiles = amx.configured();
        // SAFETY: there are as many as said.
        unsafe {
            let b = columns.as_ptr().cast();
            tiles.add_rows(
                rows.each_ref().map(|row| row.as_ptr()),
                b,
                STEPS,
                c.as_mut_ptr(),
                [std::ptr::null(); 2],
            );
            tiles.add_row(
                rows[0].as_ptr(),
                b,
                STEPS,
                first.as_mut_ptr(),
                [std::ptr::null(); 2],
            );
        }
        drop(tiles);
        assert!((0..2).all(|i| first[i].0 == c[i].0));
        for (i, j) in (0..2 * TILE).flat_map(|i| (0..2 * TILE).map(move |j| (i, j))) {
            let bytes = &c[i / TILE * 2 + j / TILE].0[(i % TILE * TILE + j % TILE) * 4..][..4];
            let expected: f32 = (0..STEPS * DEPTH).map(|x| a(i, x) * b(x, j)).sum();
            let value = f32::from_ne_bytes(bytes.try_into().unwrap());
            assert_eq!(value, expected, "{i}, {j}");
        }
    }
}
