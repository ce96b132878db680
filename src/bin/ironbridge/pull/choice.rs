//! Which files of a repository make a model.

use std::path::{Path, PathBuf};

/// What is taken where nobody says which GGUF file.
const USUAL: &str = "Q4_K_M";

/// Files of a folder that are read beside its weights, where they are there.
const BESIDE_WEIGHTS: &[&str] = &[
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
];

/// OWNER/NAME and, behind a colon, TYPE.
pub fn name_and_type(text: &str) -> Result<(&str, Option<&str>), String> {
    let (name, wanted) = match text.split_once(':') {
        Some((name, wanted)) => (name, Some(wanted)),
        None => (text, None),
    };
    let part = |part: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !part.is_empty() && part.chars().all(known) && !part.contains("..")
    };
    let fits = name
        .split_once('/')
        .is_some_and(|(owner, name)| part(owner) && part(name));
    match fits && wanted.is_none_or(part) {
        true => Ok((name, wanted)),
        false => Err(format!("`{text}` is not OWNER/NAME or OWNER/NAME:TYPE")),
    }
}

pub fn check_revision(revision: &str) -> Result<(), String> {
    match is_safe(revision) {
        true => Ok(()),
        false => Err(format!("`{revision}` is no name of a revision")),
    }
}

/// Whether a path from the hub stays inside the folder that it is joined to.
pub fn is_safe(path: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    !path.contains(['\\', ':', '?', '#', '%'])
        && !path.contains(char::is_control)
        && path.split('/').all(part)
}

/// The files of the model that is meant.
pub fn choose(files: &[String], wanted: Option<&str>) -> Result<Vec<String>, String> {
    let models = gguf_models(files);
    if models.is_empty() {
        return match wanted {
            Some(wanted) => Err(format!("there is no GGUF file, so none of type {wanted}")),
            None => folder(files),
        };
    }
    let of_type = |wanted: &str| -> Vec<_> {
        let fits = |model: &&Vec<String>| has_type(&model[0], wanted);
        models.iter().filter(fits).cloned().collect()
    };
    let found = match wanted {
        Some(wanted) => of_type(wanted),
        None if models.len() == 1 => models.clone(),
        None => of_type(USUAL),
    };
    match <[_; 1]>::try_from(found) {
        Ok([model]) => Ok(model),
        Err(found) => {
            let several = if found.is_empty() { &models } else { &found };
            let names: Vec<_> = several.iter().map(|model| model[0].as_str()).collect();
            let asked = wanted.map_or(String::new(), |wanted| format!(" for {wanted}"));
            Err(format!(
                "there are {} GGUF models{asked}, choose one by :TYPE: {}",
                if found.is_empty() { "other" } else { "several" },
                names.join(", ")
            ))
        }
    }
}

/// GGUF models, each with its parts in order. Projectors of pictures and importance matrices are none.
fn gguf_models(files: &[String]) -> Vec<Vec<String>> {
    let mut files: Vec<_> = files
        .iter()
        .filter(|file| {
            let file = file.to_ascii_lowercase();
            file.ends_with(".gguf") && !file.contains("mmproj") && !file.contains("imatrix")
        })
        .collect();
    files.sort();
    let mut models: Vec<Vec<String>> = Vec::new();
    for file in files {
        let whole = without_part(file);
        match models.last_mut() {
            Some(last) if whole.is_some() && without_part(&last[0]) == whole => {
                last.push(file.clone())
            }
            _ => models.push(vec![file.clone()]),
        }
    }
    models
}

/// A part's name, `…-00001-of-00003.gguf`, without that.
fn without_part(file: &str) -> Option<&str> {
    let stem = file.get(..file.len().checked_sub(5)?)?;
    let (front, of) = stem.rsplit_once("-of-")?;
    let (whole, part) = front.rsplit_once('-')?;
    let number = |text: &str| text.len() == 5 && text.bytes().all(|digit| digit.is_ascii_digit());
    (number(of) && number(part)).then_some(whole)
}

/// Whether a name has the type as a word of its own.
fn has_type(file: &str, wanted: &str) -> bool {
    let (file, wanted) = (file.to_ascii_lowercase(), wanted.to_ascii_lowercase());
    let of_a_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    file.match_indices(&wanted).any(|(at, found)| {
        let (before, after) = (&file[..at], &file[at + found.len()..]);
        !before.ends_with(of_a_word) && !after.starts_with(of_a_word)
    })
}

/// A folder of safetensors with what belongs to them.
fn folder(files: &[String]) -> Result<Vec<String>, String> {
    let top = || files.iter().filter(|file| !file.contains('/'));
    let mut weights: Vec<_> = top()
        .filter(|file| file.ends_with(".safetensors"))
        .cloned()
        .collect();
    // Some repositories have the same weights twice.
    if weights.iter().any(|file| file.starts_with("model")) {
        weights.retain(|file| file.starts_with("model"));
    }
    if weights.is_empty() || !top().any(|file| file == "config.json") {
        return Err("there is neither a GGUF file nor config.json with safetensors".into());
    }
    let beside = top().filter(|file| BESIDE_WEIGHTS.contains(&file.as_str()));
    Ok(beside.cloned().chain(weights).collect())
}

/// What commands take as `-m`: the first GGUF file, or the folder.
pub fn place_of_model(chosen: &[String], files: &[PathBuf]) -> PathBuf {
    match chosen[0].to_ascii_lowercase().ends_with(".gguf") {
        true => files[0].clone(),
        false => files[0]
            .parent()
            .map_or_else(PathBuf::new, Path::to_path_buf),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str]) -> Vec<String> {
        files.iter().map(|file| (*file).into()).collect()
    }

    #[test]
    fn names_are_of_two_parts_and_a_type() {
        assert_eq!(name_and_type("a/b"), Ok(("a/b", None)));
        assert_eq!(
            name_and_type("a-1/b.c_d:Q4_K_M"),
            Ok(("a-1/b.c_d", Some("Q4_K_M")))
        );
        for wrong in [
            "", "a", "a/", "/b", "a/b/c", "a/..", "a/b:", "a b/c", "a/b?x", "a/b:../c", "ä/b",
        ] {
            assert!(name_and_type(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_stay_inside() {
        for good in ["a.gguf", "folder/a-b_c.gguf", "v1.0", "refs/pr/1"] {
            assert!(is_safe(good), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "../a",
            "a/../b",
            "a//b",
            "a/",
            "C:\\a",
            "a\nb",
            "a?b",
            "a#b",
            "a%2fb",
            ".",
        ] {
            assert!(!is_safe(bad), "{bad}");
        }
    }

    #[test]
    fn a_type_is_a_word() {
        let files = names(&[
            "m-Q4_K_M.gguf",
            "m-Q4_K.gguf",
            "m-IQ4_K.gguf",
            "m.Q8_0.gguf",
            "mmproj-m-F16.gguf",
            "a.md",
        ]);
        assert_eq!(choose(&files, Some("q4_k")), Ok(names(&["m-Q4_K.gguf"])));
        assert_eq!(choose(&files, Some("Q8_0")), Ok(names(&["m.Q8_0.gguf"])));
        assert_eq!(choose(&files, None), Ok(names(&["m-Q4_K_M.gguf"])));
        let error = choose(&files, Some("F16")).expect_err("only the projector has it");
        assert!(
            error.contains("m.Q8_0.gguf") && !error.contains("mmproj"),
            "{error}"
        );
    }

    #[test]
    fn parts_of_a_model_come_together_and_in_order() {
        let part = |number| format!("Q8_0/m-Q8_0-0000{number}-of-00003.gguf");
        let mut files: Vec<_> = [3, 1, 2].into_iter().map(part).collect();
        let all: Vec<_> = [1, 2, 3].into_iter().map(part).collect();
        assert_eq!(choose(&files, None), Ok(all.clone()));
        files.push("m-Q8_0-of-x.gguf".into());
        let error = choose(&files, Some("Q8_0")).expect_err("there are two");
        assert!(error.contains("several"), "{error}");
        files.push("m-q4_k_m.gguf".into());
        assert_eq!(choose(&files, None), Ok(names(&["m-q4_k_m.gguf"])));
    }

    #[test]
    fn a_folder_is_its_weights_and_what_belongs_to_them() {
        let files = names(&[
            "README.md",
            "config.json",
            "consolidated.safetensors",
            "model-1.safetensors",
            "onnx/model.onnx",
            "sub/model.safetensors",
            "tokenizer.json",
        ]);
        let chosen = names(&["config.json", "tokenizer.json", "model-1.safetensors"]);
        assert_eq!(choose(&files, None), Ok(chosen));
        assert!(choose(&files, Some("Q4_0")).is_err());
        assert!(choose(&names(&["config.json", "a.bin"]), None).is_err());
        assert!(choose(&[], None).is_err());
    }
}
