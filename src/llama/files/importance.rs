//! Importance matrices: how much each column of a weight matters, measured over a text.
//!
//! Both forms are read that llama.cpp's `llama-imatrix` writes: a GGUF file whose `general.type` is `imatrix`, and the
//! older one, a table of its own (`save_imatrix` in `tools/imatrix/imatrix.cpp`).

mod error;

use std::collections::BTreeMap;
use std::path::Path;

use super::gguf::{GgufHeader, TensorType, Value};
use super::mapped_file::MappedFile;
use crate::llama::error::LlamaError;
pub use error::ImportanceError;

/// How much each column of a weight matters: the mean square of what it is multiplied by.
///
/// ```no_run
/// use ironbridge::llama::{ImportanceMatrix, ModelFile, QuantizeMix, Quantizer};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let importance = ImportanceMatrix::open("some-model.imatrix.gguf")?;
/// Quantizer::mix(QuantizeMix::Q4_K_M)
///     .importance(importance)
///     .write(&ModelFile::open("some-model/")?, "some-model-q4_k_m.gguf", &mut |_| ())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportanceMatrix {
    columns: BTreeMap<String, Vec<f32>>,
    datasets: Vec<String>,
    chunks: u32,
}

impl ImportanceMatrix {
    /// Reads a file of `llama-imatrix`, in GGUF or in the older form.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Open`] when the file cannot be read, [`LlamaError::Importance`] when it is no importance matrix.
    pub fn open(path: impl AsRef<Path>) -> Result<ImportanceMatrix, LlamaError> {
        let path = path.as_ref();
        let file = MappedFile::open(path)?;
        ImportanceMatrix::parse(file.bytes()).map_err(|source| LlamaError::Importance {
            path: path.to_owned(),
            source,
        })
    }

    /// Reads the bytes of such a file.
    ///
    /// # Errors
    ///
    /// [`ImportanceError`]: they end early, name a weight twice, or hold what is no mean square.
    pub fn parse(bytes: &[u8]) -> Result<ImportanceMatrix, ImportanceError> {
        let matrix = match bytes.starts_with(b"GGUF") {
            true => of_gguf(bytes)?,
            false => Table { bytes, at: 0 }.matrix()?,
        };
        match matrix.columns.is_empty() {
            true => Err(ImportanceError::Empty),
            false => Ok(matrix),
        }
    }

    /// The importance of each column of the weight of that name, as GGUF names it.
    pub fn columns(&self, name: &str) -> Option<&[f32]> {
        self.columns.get(name).map(Vec::as_slice)
    }

    /// The weights that it knows, in alphabetical order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// The texts that it was measured over, where the file names them.
    pub fn datasets(&self) -> &[String] {
        &self.datasets
    }

    /// How many chunks of text it was measured over, 0 where the file does not say.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    fn insert(&mut self, name: &str, columns: Vec<f32>) -> Result<(), ImportanceError> {
        let is_square = |value: &f32| *value >= 0.0 && value.is_finite();
        if let Some(column) = columns.iter().position(|value| !is_square(value)) {
            return Err(ImportanceError::Value {
                name: name.to_owned(),
                column,
                value: columns[column],
            });
        }
        match self.columns.insert(name.to_owned(), columns) {
            None => Ok(()),
            Some(_) => Err(ImportanceError::Twice(name.to_owned())),
        }
    }
}

/// The suffixes of the two tensors of a weight: sums of squares, and how many were added.
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

fn of_gguf(bytes: &[u8]) -> Result<ImportanceMatrix, ImportanceError> {
    let header = GgufHeader::parse(bytes)?;
    let text = |key: &str| header.metadata().value(key).and_then(Value::as_str);
    let kind = text("general.type").unwrap_or_default();
    if kind != "imatrix" {
        return Err(ImportanceError::Kind(kind.to_owned()));
    }
    let number = |key: &str| header.metadata().value(key).and_then(Value::as_u64);
    let datasets = header.metadata().get::<&[Box<[u8]>]>("imatrix.datasets");
    let datasets = datasets.ok().flatten().unwrap_or_default().iter();
    let mut matrix = ImportanceMatrix {
        datasets: datasets
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect(),
        chunks: number("imatrix.chunk_count")
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0),
        ..ImportanceMatrix::default()
    };
    let floats = |name: &str| {
        let tensor = header.tensor(name)?;
        let range = tensor.bytes();
        let bytes = bytes.get(range.start as usize..range.end as usize)?;
        let numbers = bytes.as_chunks().0.iter();
        (tensor.tensor_type() == TensorType::F32)
            .then(|| numbers.map(|number| f32::from_le_bytes(*number)).collect())
    };
    for tensor in header.tensors() {
        let Some(name) = tensor.name().strip_suffix(SUMS) else {
            continue;
        };
        let wrong = || ImportanceError::Tensor(tensor.name().to_owned());
        let mut sums: Vec<f32> = floats(tensor.name()).ok_or_else(wrong)?;
        let counts: Vec<f32> = floats(&format!("{name}{COUNTS}")).ok_or_else(wrong)?;
        // A count for each matrix of the weight: one, or one for each expert.
        if sums.is_empty() || counts.is_empty() || !sums.len().is_multiple_of(counts.len()) {
            return Err(wrong());
        }
        let columns = sums.len() / counts.len();
        for (sums, count) in sums.chunks_exact_mut(columns).zip(&counts) {
            // What was never used is of even importance, as in llama.cpp.
            sums.iter_mut().for_each(|sum| match *count > 0.0 {
                true => *sum /= count,
                false => *sum = 1.0,
            });
        }
        matrix.insert(name, sums)?;
    }
    Ok(matrix)
}

/// The older form: a number of entries, each a name, how often it was computed and a sum for each column; then, in
/// newer files, the number of chunks and the name of the text. Numbers have 32 bits, little endian.
struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    fn matrix(mut self) -> Result<ImportanceMatrix, ImportanceError> {
        let mut matrix = ImportanceMatrix::default();
        for _ in 0..self.length("the number of entries")? {
            let name = self.text("a name")?;
            let calls = self.number("a number of calls")?;
            let count = self.length("a number of columns")?;
            let sums = self.take("the sums of a weight", count.saturating_mul(4))?;
            let sums = sums.as_chunks().0.iter();
            let sums = sums.map(|sum| f32::from_le_bytes(*sum));
            let columns = match calls > 0 {
                true => sums.map(|sum| sum / calls as f32).collect(),
                false => sums.collect(),
            };
            matrix.insert(name, columns)?;
        }
        if self.at < self.bytes.len() {
            let chunks = self.length("the number of chunks")?;
            matrix.chunks = u32::try_from(chunks).unwrap_or(0);
            matrix.datasets = vec![self.text("the name of the text")?.to_owned()];
        }
        Ok(matrix)
    }

    fn take(&mut self, what: &'static str, length: usize) -> Result<&'a [u8], ImportanceError> {
        let at = self.at;
        let rest = &self.bytes[at..];
        let taken = rest
            .get(..length)
            .ok_or(ImportanceError::Truncated { what, at })?;
        self.at += length;
        Ok(taken)
    }

    fn number(&mut self, what: &'static str) -> Result<i32, ImportanceError> {
        let mut number = [0; 4];
        number.copy_from_slice(self.take(what, 4)?);
        Ok(i32::from_le_bytes(number))
    }

    fn length(&mut self, what: &'static str) -> Result<usize, ImportanceError> {
        let at = self.at;
        let found = self.number(what)?;
        usize::try_from(found).map_err(|_| ImportanceError::Length { what, at, found })
    }

    fn text(&mut self, what: &'static str) -> Result<&'a str, ImportanceError> {
        let length = self.length(what)?;
        let at = self.at;
        std::str::from_utf8(self.take(what, length)?)
            .map_err(|_| ImportanceError::Text { what, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llama::files::gguf::{GgufWriter, Metadata, NewTensor};

    fn table(entries: &[(&str, i32, &[f32])], rest: Option<(i32, &str)>) -> Vec<u8> {
        let mut bytes = Vec::from((entries.len() as i32).to_le_bytes());
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as i32).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        for (name, calls, sums) in entries {
            text(&mut bytes, name);
            bytes.extend(calls.to_le_bytes());
            bytes.extend((sums.len() as i32).to_le_bytes());
            sums.iter().for_each(|sum| bytes.extend(sum.to_le_bytes()));
        }
        if let Some((chunks, dataset)) = rest {
            bytes.extend(chunks.to_le_bytes());
            text(&mut bytes, dataset);
        }
        bytes
    }

    fn gguf(kind: &str, tensors: &[(&str, &[u64], &[f32])]) -> Vec<u8> {
        let mut metadata = Metadata::default();
        metadata.set("general.type", kind).unwrap();
        metadata.set("imatrix.chunk_count", 7u32).unwrap();
        let texts = [b"a.txt", b"b.txt"].map(|name| Box::from(name.as_slice()));
        metadata.set("imatrix.datasets", Vec::from(texts)).unwrap();
        let described: Vec<NewTensor> = tensors
            .iter()
            .map(|(name, dimensions, _)| NewTensor {
                name: String::from(*name),
                tensor_type: TensorType::F32,
                dimensions: dimensions.to_vec(),
            })
            .collect();
        let mut file = GgufWriter::new(Vec::new(), &metadata, &described).unwrap();
        for (_, _, numbers) in tensors {
            for number in *numbers {
                file.write(&number.to_le_bytes()).unwrap();
            }
        }
        file.finish().unwrap()
    }

    #[test]
    fn both_forms_are_mean_squares() {
        let old = table(&[("a", 2, &[2.0, 8.0]), ("b", 0, &[3.0])], Some((5, "t")));
        let old = ImportanceMatrix::parse(&old).unwrap();
        assert_eq!(old.columns("a"), Some(&[1.0, 4.0][..]));
        assert_eq!(old.columns("b"), Some(&[3.0][..]));
        assert_eq!((old.chunks(), old.datasets()), (5, &["t".into()][..]));
        assert_eq!(old.names().collect::<Vec<_>>(), ["a", "b"]);

        let new = gguf(
            "imatrix",
            &[
                ("a.in_sum2", &[2], &[2.0, 8.0]),
                ("a.counts", &[1], &[2.0]),
                ("e.in_sum2", &[2, 2], &[4.0, 8.0, 9.0, 9.0]),
                ("e.counts", &[1, 2], &[4.0, 0.0]),
            ],
        );
        let new = ImportanceMatrix::parse(&new).unwrap();
        assert_eq!(new.columns("a"), Some(&[1.0, 4.0][..]));
        assert_eq!(new.columns("e"), Some(&[1.0, 2.0, 1.0, 1.0][..]));
        assert_eq!(new.chunks(), 7);
        assert_eq!(new.datasets(), ["a.txt", "b.txt"]);
        assert_eq!(new.columns("c"), None);
    }

    #[test]
    fn what_is_none_is_an_error() {
        let parse = |bytes: &[u8]| ImportanceMatrix::parse(bytes).unwrap_err().to_string();
        let whole = table(&[("a", 2, &[2.0, 8.0])], Some((5, "text")));
        let entries = table(&[("a", 2, &[2.0, 8.0])], None).len();
        for length in (0..whole.len()).filter(|length| *length != entries) {
            assert!(
                parse(&whole[..length]).contains("it ends at byte"),
                "{length}"
            );
        }
        assert_eq!(parse(&0i32.to_le_bytes()), "it has no entry");
        assert!(parse(&(-1i32).to_le_bytes()).contains("is -1"));
        assert!(parse(&table(&[("a", 1, &[1.0]), ("a", 1, &[1.0])], None)).contains("two entries"));
        for value in [f32::NAN, -1.0, f32::INFINITY] {
            assert!(parse(&table(&[("a", 1, &[1.0, value])], None)).contains("column 1 of \"a\""));
        }
        let sums: (&str, &[u64], &[f32]) = ("a.in_sum2", &[3], &[1.0; 3]);
        assert!(parse(&gguf("model", &[sums])).contains("not imatrix"));
        assert!(parse(&gguf("imatrix", &[sums])).contains("counts beside it"));
        let two: (&str, &[u64], &[f32]) = ("a.counts", &[2], &[1.0; 2]);
        assert!(parse(&gguf("imatrix", &[sums, two])).contains("whole columns"));
        assert_eq!(parse(&gguf("imatrix", &[two])), "it has no entry");
    }
}
