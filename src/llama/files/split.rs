//! GGUF in several files, as llama.cpp's `gguf-split` writes it: `NAME-00001-of-00003.gguf` and so on. The first has
//! the metadata, each has `split.no`, `split.count` and some of the tensors.

use std::path::{Path, PathBuf};

use super::gguf::{GgufFile, Metadata};
use super::model_file::{ModelFile, ModelFormat, ModelTensor, Place, RowOrder};
use crate::llama::error::LlamaError;

/// The most parts. The largest models have some hundred.
const PARTS: u32 = 1 << 12;

/// What the metadata of a part says.
struct Part {
    number: u32,
    count: u32,
}

impl Part {
    /// `None` for a file that is whole.
    fn of(metadata: &Metadata) -> Result<Option<Part>, LlamaError> {
        let count: u32 = metadata.get("split.count")?.unwrap_or(0);
        match count {
            0 | 1 => Ok(None),
            _ => Ok(Some(Part {
                number: metadata.require("split.no")?,
                count,
            })),
        }
    }

    fn suffix(number: u32, count: u32) -> String {
        format!("-{:05}-of-{count:05}.gguf", u64::from(number) + 1)
    }
}

/// The whole of what an open file is a part of, any of them: the others stand beside it.
pub(super) fn complete(path: &Path, file: GgufFile) -> Result<ModelFile, LlamaError> {
    let Some(part) = Part::of(file.header().metadata())? else {
        return Ok(ModelFile::from(file));
    };
    let wrong = |path: &Path, reason: String| LlamaError::Split {
        path: path.to_owned(),
        reason,
    };
    if part.number >= part.count || part.count > PARTS {
        let reason = format!(
            "it says that it is part {} of {}; up to {PARTS} parts are read",
            u64::from(part.number) + 1,
            part.count
        );
        return Err(wrong(path, reason));
    }
    let suffix = Part::suffix(part.number, part.count);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(prefix) = name.strip_suffix(&suffix) else {
        let reason = format!(
            "it is part {} of {}, and its name does not end in \"{suffix}\", by which the others would be found",
            part.number + 1,
            part.count
        );
        return Err(wrong(path, reason));
    };
    let beside = |number| -> PathBuf {
        path.with_file_name(format!("{prefix}{}", Part::suffix(number, part.count)))
    };
    let mut files = Vec::new();
    for number in 0..part.count {
        let path = beside(number);
        let file = match number == part.number {
            true => file.clone(),
            false => GgufFile::open(&path)?,
        };
        match Part::of(file.header().metadata())? {
            Some(found) if (found.number, found.count) == (number, part.count) => files.push(file),
            _ => {
                let reason = format!(
                    "it does not say that it is part {} of {}",
                    number + 1,
                    part.count
                );
                return Err(wrong(&path, reason));
            }
        }
    }
    join(&files).map_err(|reason| wrong(path, reason))
}

/// Tensors of all files with the metadata of the first, but for what says that it is a part.
fn join(files: &[GgufFile]) -> Result<ModelFile, String> {
    let first = files[0].header();
    let mut metadata = Metadata::default();
    for (key, value) in first.metadata().iter() {
        if !key.starts_with("split.") {
            // The alignment was right when it was read.
            metadata
                .set(key, value.clone())
                .map_err(|error| error.to_string())?;
        }
    }
    let mut tensors = Vec::new();
    for (number, file) in files.iter().enumerate() {
        tensors.extend(file.header().tensors().iter().map(|tensor| ModelTensor {
            name: tensor.name().to_owned(),
            stored_name: tensor.name().to_owned(),
            tensor_type: tensor.tensor_type(),
            dimensions: tensor.dimensions().to_vec(),
            row_order: RowOrder::Same,
            place: Place::File(number, tensor.bytes()),
        }));
    }
    let mut names: Vec<&str> = tensors.iter().map(ModelTensor::name).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two of its parts have the tensor {:?}", twice[0]));
    }
    let stated: Option<u64> = first
        .metadata()
        .get("split.tensors.count")
        .map_err(|error| error.to_string())?;
    if let Some(stated) = stated.filter(|stated| *stated != tensors.len() as u64) {
        let found = tensors.len();
        return Err(format!(
            "its parts have {found} tensors, and the first one says {stated}"
        ));
    }
    let mapped = files.iter().map(|file| file.mapped().clone());
    Ok(ModelFile::new(
        ModelFormat::Gguf(first.version()),
        metadata,
        tensors,
        mapped.collect(),
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;
    use crate::llama::files::gguf::{GgufWriter, NewTensor, TensorType};

    /// A part with a vector for each name, which holds the name's length.
    fn part(path: &Path, number: u32, count: u32, total: u32, names: &[&str]) {
        let mut metadata = Metadata::default();
        for (key, value) in [
            ("split.no", number),
            ("split.count", count),
            ("split.tensors.count", total),
            ("some.key", 7),
        ] {
            metadata.set(key, value).unwrap();
        }
        let tensors = names.iter().map(|name| NewTensor {
            name: (*name).to_owned(),
            dimensions: vec![1],
            tensor_type: TensorType::F32,
        });
        let tensors: Vec<NewTensor> = tensors.collect();
        let mut file = Vec::new();
        let mut writer = GgufWriter::new(&mut file, &metadata, &tensors).unwrap();
        for name in names {
            writer.write(&(name.len() as f32).to_le_bytes()).unwrap();
        }
        writer.finish().unwrap();
        fs::File::create(path).unwrap().write_all(&file).unwrap();
    }

    #[test]
    fn every_part_opens_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let at = |number: u32| folder.path().join(format!("a-0000{number}-of-00003.gguf"));
        let parts = [&["one"][..], &["three", "seven"], &["eleven"]];
        for (number, names) in (0..).zip(parts) {
            part(&at(number + 1), number, 3, 4, names);
        }
        for number in 1..=3 {
            let model = ModelFile::open(at(number)).unwrap();
            assert_eq!(model.metadata().require("some.key"), Ok(7u32));
            assert!(model.metadata().value("split.count").is_none());
            for name in parts.concat() {
                let tensor = model.tensor(name).unwrap();
                assert_eq!(model.bytes(tensor), (name.len() as f32).to_le_bytes());
            }
        }
    }

    #[test]
    fn what_is_not_one_whole_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("a-00001-of-00002.gguf");
        let second = folder.path().join("a-00002-of-00002.gguf");
        let error = |path: &Path| ModelFile::open(path).unwrap_err().to_string();
        part(&first, 0, 2, 2, &["one"]);
        assert!(
            error(&first).contains("a-00002-of-00002.gguf"),
            "{}",
            error(&first)
        );
        for (number, count, names, expected) in [
            (0, 2, &["two"][..], "part 2 of 2"),
            (1, 3, &["two"], "part 2 of 2"),
            (1, 2, &["one"], "two of its parts have the tensor \"one\""),
            (
                1,
                2,
                &["two", "three"],
                "have 3 tensors, and the first one says 2",
            ),
        ] {
            part(&second, number, count, 2, names);
            assert!(
                error(&first).contains(expected),
                "{expected}: {}",
                error(&first)
            );
        }
        for (number, count) in [(2, 2), (u32::MAX, 2), (0, u32::MAX), (u32::MAX, u32::MAX)] {
            part(&first, number, count, 2, &["one"]);
            assert!(
                error(&first).contains("it says that it is part"),
                "{}",
                error(&first)
            );
        }
        let renamed = folder.path().join("model.gguf");
        part(&renamed, 0, 2, 2, &["one"]);
        assert!(
            error(&renamed).contains("-00001-of-00002.gguf"),
            "{}",
            error(&renamed)
        );
    }
}
