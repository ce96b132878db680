//! Buffers of weights: which of their rows lie in x16 panels, and how they get there.
//!
//! Of a type that has the layout, a matrix's rows are packed as far as they fill panels; the others, and all rows of
//! other types, lie as they came. Both take the same bytes, so every matrix is where the plain layout has it.

use std::ptr::NonNull;
use std::sync::{PoisonError, RwLock};

use half::{bf16, f16};

use super::machine::Machine;
use super::quants::packing;
use super::quants::x16::x16_types;
use super::quants::*;
use crate::backend::fault::Fault;
use crate::backend::vtable::Matrix;

/// The matrices of a buffer.
pub struct Weights {
    machine: &'static Machine,
    packs: bool,
    /// By offset.
    matrices: RwLock<Vec<Placed>>,
}

/// A matrix, and how it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Placed {
    matrix: Matrix,
    row_bytes: u64,
    /// Its first rows, which lie in x16 panels.
    x16_rows: u64,
}

/// How rows of a type become panels.
#[derive(Clone, Copy)]
struct Packing {
    elements: u64,
    pack: unsafe fn(*const u8, *mut u8, usize),
    unpack: unsafe fn(*const u8, usize, usize, usize, *mut u8),
}

impl Packing {
    /// That of an `iron_dtype`, if it has the layout.
    fn of(dtype: u32) -> Option<Packing> {
        macro_rules! packings {
            ($($class:ident $block:ident $name:literal $constant:ident,)*) => {
                match dtype {
                    $(crate::ffi::$constant => Some(Packing {
                        elements: $block::ELEMENTS as u64,
                        pack: packing::pack::<$block>,
                        unpack: packing::unpack::<$block>,
                    }),)*
                    _ => None,
                }
            };
        }
        x16_types!(packings)
    }
}

/// A pointer that the threads of one call share.
#[derive(Clone, Copy)]
struct Shared<T>(T);

// SAFETY: whoever makes one says why the threads may follow the pointer.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// A method, so that a closure captures the whole.
    fn pointer(&self) -> T {
        self.0
    }
}

impl Weights {
    /// `packs`: whether kernels know the layout.
    pub fn new(machine: &'static Machine, packs: bool) -> Weights {
        Weights {
            machine,
            packs,
            matrices: RwLock::default(),
        }
    }

    /// How many rows from byte `offset` of the buffer on lie in x16 panels, one after another.
    pub fn x16_rows(&self, offset: u64) -> u64 {
        let matrices = self.matrices.read().unwrap_or_else(PoisonError::into_inner);
        let after = matrices.partition_point(|placed| placed.matrix.offset <= offset);
        let Some(first) = after.checked_sub(1).map(|index| matrices[index]) else {
            return 0;
        };
        let row = (offset - first.matrix.offset) / first.row_bytes;
        if row >= first.x16_rows {
            return 0;
        }
        let mut rows = first.x16_rows - row;
        let mut last = first;
        for next in &matrices[after..] {
            let like =
                (next.matrix.dtype, next.matrix.width) == (last.matrix.dtype, last.matrix.width);
            if last.x16_rows != last.matrix.rows || next.matrix.offset != last.end() || !like {
                break;
            }
            rows += next.x16_rows;
            last = *next;
        }
        rows
    }

    /// The matrix with its layout, which is decided with its first rows.
    fn place(&self, matrix: &Matrix, begins: bool) -> Result<Placed, Fault> {
        let mut matrices = self
            .matrices
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let index = matrices.partition_point(|placed| placed.matrix.offset < matrix.offset);
        let known = matrices
            .get(index)
            .filter(|placed| placed.matrix == *matrix);
        match (known, begins) {
            (Some(placed), _) => Ok(*placed),
            (None, false) => Err(Fault::Invalid(String::from(
                "no row of this matrix is written",
            ))),
            (None, true) => {
                let packed = self.packs && Packing::of(matrix.dtype).is_some();
                let panels = matrix.rows - matrix.rows % X16_ROWS as u64;
                let placed = Placed {
                    matrix: *matrix,
                    row_bytes: matrix.row_bytes()?,
                    x16_rows: if packed { panels } else { 0 },
                };
                // What was there before was never finished.
                matrices.retain(|other| {
                    other.matrix.offset >= placed.end() || other.end() <= matrix.offset
                });
                let index = matrices.partition_point(|placed| placed.matrix.offset < matrix.offset);
                matrices.insert(index, placed);
                Ok(placed)
            }
        }
    }

    /// Writes `count` rows from row `first` on to the memory of the buffer, which has `length` bytes.
    ///
    /// # Safety
    /// `pages` is writable for `length` bytes, and until this returns nobody else reads or writes the bytes of these
    /// rows in the plain layout. `first` is a multiple of [`X16_ROWS`], and so is `count` unless it ends the matrix.
    pub unsafe fn write(
        &self,
        (pages, length): (NonNull<u8>, u64),
        matrix: &Matrix,
        (first, count): (u64, u64),
        rows: &[u8],
    ) -> Result<(), Fault> {
        let bytes = matrix.place(first, count, length)?;
        check_rows(
            matrix,
            first,
            count,
            rows.len() as u64,
            bytes.end - bytes.start,
        )?;
        let placed = self.place(matrix, first == 0)?;
        let row_bytes = placed.row_bytes as usize;
        let packed = placed.x16_rows.clamp(first, first + count) - first;
        let to = Shared(pages.as_ptr().wrapping_add(bytes.start as usize));
        let split = packed as usize * row_bytes;
        if let Some(packing) = Packing::of(matrix.dtype).filter(|_| packed > 0) {
            let panel_bytes = X16_ROWS * row_bytes;
            let blocks = (matrix.width / packing.elements) as usize;
            let grain = self.machine.grain(X16_ROWS * matrix.width as usize);
            self.machine
                .for_ranges(packed as usize / X16_ROWS, grain, |panels| {
                    for panel in panels {
                        let from = &rows[panel * panel_bytes..][..panel_bytes];
                        let to = to.pointer().wrapping_add(panel * panel_bytes);
                        // SAFETY: both are 16 rows, and the caller promises that the place is ours alone. Each panel
                        // has one thread.
                        unsafe { (packing.pack)(from.as_ptr(), to, blocks) };
                    }
                });
        }
        let rest = &rows[split..];
        // SAFETY: the caller's promise; the rest of the rows lies behind the panels.
        unsafe {
            let to = to.pointer().wrapping_add(split);
            to.copy_from_nonoverlapping(rest.as_ptr(), rest.len());
        }
        Ok(())
    }

    /// Copies `count` rows from row `first` on to `rows`, in the plain layout.
    ///
    /// # Safety
    /// `pages` is readable for `length` bytes, and nobody writes these rows meanwhile.
    pub unsafe fn read(
        &self,
        (pages, length): (NonNull<u8>, u64),
        matrix: &Matrix,
        (first, count): (u64, u64),
        rows: &mut [u8],
    ) -> Result<(), Fault> {
        let bytes = matrix.place(first, count, length)?;
        if rows.len() as u64 != bytes.end - bytes.start {
            return Err(wrong_length(rows.len()));
        }
        let placed = self.place(matrix, false)?;
        let row_bytes = placed.row_bytes as usize;
        let start = pages.as_ptr().wrapping_add(matrix.offset as usize);
        let packing = Packing::of(matrix.dtype);
        for (row, to) in (first as usize..).zip(rows.chunks_exact_mut(row_bytes)) {
            match packing.filter(|_| (row as u64) < placed.x16_rows) {
                Some(packing) => {
                    let panel = start.wrapping_add((row - row % X16_ROWS) * row_bytes);
                    let blocks = (matrix.width / packing.elements) as usize;
                    // SAFETY: a panel of the matrix, and a row's bytes.
                    unsafe { (packing.unpack)(panel, row % X16_ROWS, 0, blocks, to.as_mut_ptr()) };
                }
                // SAFETY: a row of the matrix, and as many bytes.
                None => unsafe {
                    let from = start.wrapping_add(row * row_bytes);
                    to.as_mut_ptr().copy_from_nonoverlapping(from, row_bytes);
                },
            }
        }
        Ok(())
    }
}

impl Placed {
    /// Where it ends in the buffer.
    fn end(&self) -> u64 {
        self.matrix.offset + self.matrix.rows * self.row_bytes
    }
}

fn check_rows(
    matrix: &Matrix,
    first: u64,
    count: u64,
    given: u64,
    bytes: u64,
) -> Result<(), Fault> {
    let unit = X16_ROWS as u64;
    let ends = first + count == matrix.rows;
    match first.is_multiple_of(unit) && (ends || count.is_multiple_of(unit)) {
        true if given == bytes => Ok(()),
        true => Err(wrong_length(given as usize)),
        false => Err(Fault::Invalid(format!(
            "{count} rows from row {first} on are not whole panels of {unit}"
        ))),
    }
}

fn wrong_length(bytes: usize) -> Fault {
    Fault::Invalid(format!("{bytes} bytes are not these rows"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::machines;
    use crate::ffi::{IRON_F16, IRON_F32, IRON_MXFP4, IRON_Q5_1, IRON_Q8_0, IRON_TQ2_0};

    /// Memory with its matrices, as a buffer has them.
    struct Buffer {
        bytes: Vec<u8>,
        weights: Weights,
    }

    impl Buffer {
        fn new(length: usize, packs: bool) -> Buffer {
            Buffer {
                bytes: vec![0; length],
                weights: Weights::new(&machines()[1], packs),
            }
        }

        fn memory(&self) -> (NonNull<u8>, u64) {
            (
                NonNull::from(&self.bytes[..]).cast(),
                self.bytes.len() as u64,
            )
        }

        fn write(
            &mut self,
            matrix: &Matrix,
            first: u64,
            count: u64,
            rows: &[u8],
        ) -> Result<(), Fault> {
            let length = self.bytes.len() as u64;
            let memory = (NonNull::from(&mut self.bytes[..]).cast(), length);
            // SAFETY: the buffer's own bytes, which nobody else has.
            unsafe { self.weights.write(memory, matrix, (first, count), rows) }
        }

        fn read(&self, matrix: &Matrix, first: u64, count: u64) -> Result<Vec<u8>, Fault> {
            let mut rows = vec![0; (count * matrix.row_bytes()?) as usize];
            // SAFETY: as above.
            unsafe {
                self.weights
                    .read(self.memory(), matrix, (first, count), &mut rows)?
            };
            Ok(rows)
        }
    }

    fn rows(bytes: u64) -> Vec<u8> {
        (0..bytes).map(|i| (i % 251) as u8).collect()
    }

    fn matrix(offset: u64, rows: u64, width: u64, dtype: u32) -> Matrix {
        Matrix {
            offset,
            rows,
            width,
            dtype,
        }
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        for (dtype, width, packs) in [
            (IRON_Q8_0, 64, true),
            (IRON_Q8_0, 64, false),
            (IRON_F16, 35, true),
            (IRON_Q5_1, 64, true),
            (IRON_MXFP4, 32, true),
            (IRON_TQ2_0, 256, true),
            (IRON_F32, 3, true),
        ] {
            let matrix = matrix(6, 75, width, dtype);
            let row = matrix.row_bytes().expect("whole blocks");
            let plain = rows(75 * row);
            let mut buffer = Buffer::new(6 + 75 * row as usize, packs);
            for (first, count) in [(0, 32), (32, 32), (64, 11)] {
                let part = &plain[(first * row) as usize..][..(count * row) as usize];
                buffer
                    .write(&matrix, first, count, part)
                    .expect("good rows");
            }
            let packed = packs && !matches!(dtype, IRON_TQ2_0 | IRON_F32);
            assert_eq!(buffer.weights.x16_rows(6), if packed { 64 } else { 0 });
            assert_eq!(buffer.bytes[6..] != plain[..], packed, "{dtype}");
            for (first, count) in [(0, 75), (17, 3), (60, 9), (74, 1)] {
                let expected = &plain[(first * row) as usize..][..(count * row) as usize];
                assert_eq!(
                    buffer.read(&matrix, first, count).expect("written"),
                    expected
                );
            }
        }
    }

    #[test]
    fn matrices_that_lie_end_to_end_are_one() {
        let mut buffer = Buffer::new(8 * 32 * 34, true);
        let of = |first: u64, rows: u64, width| matrix(first * 34, rows, width, IRON_Q8_0);
        for matrix in [
            of(0, 32, 32),
            of(32, 64, 32),
            of(96, 40, 32),
            of(136, 32, 32),
            of(168, 32, 64),
        ] {
            let bytes = rows(matrix.rows * matrix.row_bytes().expect("whole blocks"));
            buffer
                .write(&matrix, 0, matrix.rows, &bytes)
                .expect("good rows");
        }
        // 40 rows are two panels and a rest, where the run ends.
        let at = |row: u64| buffer.weights.x16_rows(row * 34);
        assert_eq!(
            [at(0), at(16), at(32), at(96), at(112)],
            [128, 112, 96, 32, 16]
        );
        // In the rest, in a matrix of its own, in one of another width, and behind all.
        assert_eq!([at(128), at(136), at(168), at(232)], [0, 32, 32, 0]);
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let good = matrix(0, 64, 32, IRON_Q8_0);
        let mut buffer = Buffer::new(64 * 34, true);
        let bytes = rows(64 * 34);
        let mut refused = |matrix: Matrix, first, count: u64| {
            let rows = &bytes[..(count as usize * 34).min(bytes.len())];
            buffer
                .write(&matrix, first, count, rows)
                .expect_err("they do not fit")
        };
        assert!(matches!(refused(good, 32, 64), Fault::OutOfBounds(_)));
        assert!(matches!(
            refused(Matrix { offset: 34, ..good }, 0, 64),
            Fault::OutOfBounds(_)
        ));
        assert!(matches!(
            refused(Matrix { width: 33, ..good }, 0, 64),
            Fault::Invalid(_)
        ));
        assert!(matches!(
            refused(Matrix { dtype: 99, ..good }, 0, 64),
            Fault::Invalid(_)
        ));
        assert!(matches!(refused(good, 0, 8), Fault::Invalid(_)));
        assert!(matches!(refused(good, 8, 56), Fault::Invalid(_)));
        assert!(matches!(refused(good, 32, 32), Fault::Invalid(_)));
        assert!(matches!(
            refused(
                Matrix {
                    width: 64,
                    rows: 32,
                    ..good
                },
                0,
                32
            ),
            Fault::Invalid(_)
        ));
        assert!(buffer.read(&good, 0, 1).is_err(), "nothing is written");
    }
}
