//! `ironbridge pull`: a model from a hub that speaks Hugging Face's protocol, into that hub's own cache folder, where
//! other programs find it, too.

mod choice;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use hf_hub::api::Progress;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo, Metadata};
use hf_hub::{Cache, Repo, RepoType};
use indicatif::ProgressBar;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::output;
use crate::terminal::{bytes, printable, progress};

#[derive(Args)]
pub struct PullArguments {
    /// OWNER/NAME, as the hub has it; :TYPE chooses among GGUF files, Q4_K_M for instance
    #[arg(value_name = "OWNER/NAME[:TYPE]")]
    name: String,
    /// A branch, tag or commit
    #[arg(long, default_value = "main", value_name = "NAME")]
    revision: String,
    /// Write the paths and sizes as one JSON object
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Times that a broken transfer is taken up again, from where it broke.
const RETRIES: usize = 3;

pub fn run(arguments: &PullArguments) -> Result<(), Box<dyn Error>> {
    let (name, wanted) = choice::name_and_type(&arguments.name)?;
    choice::check_revision(&arguments.revision)?;
    let hub = Hub::new(name, &arguments.revision)?;
    let offered = hub.files()?;
    let chosen = choice::choose(&offered, wanted)?;
    let mut files = Vec::new();
    for file in &chosen {
        files.push(hub.pull(file, arguments.quiet)?);
    }
    let model = choice::place_of_model(&chosen, &files);
    let mut out = output::stdout();
    match arguments.json {
        true => {
            let files: Vec<_> = files
                .iter()
                .map(|path| {
                    let bytes = fs::metadata(path).map_or(0, |found| found.len());
                    json!({ "path": path, "bytes": bytes })
                })
                .collect();
            let found = json!({ "model": model, "files": files });
            writeln!(out, "{found}")?;
        }
        false => writeln!(out, "{}", model.display())?,
    }
    Ok(())
}

/// A repository of the hub, at one revision.
struct Hub {
    api: Api,
    repo: ApiRepo,
    cached: hf_hub::CacheRepo,
    name: String,
    endpoint: String,
}

impl Hub {
    fn new(name: &str, revision: &str) -> Result<Hub, Box<dyn Error>> {
        let endpoint = std::env::var("HF_ENDPOINT");
        let cache = Cache::from_env();
        let mut builder = ApiBuilder::from_env().with_progress(false);
        if let Ok(token) = std::env::var("HF_TOKEN") {
            builder = builder.with_token(Some(token));
        }
        let api = builder.build()?;
        let repo = Repo::with_revision(name.into(), RepoType::Model, revision.into());
        Ok(Hub {
            repo: api.repo(repo.clone()),
            cached: cache.repo(repo),
            api,
            name: name.into(),
            endpoint: endpoint.unwrap_or_else(|_| "https://huggingface.co".into()),
        })
    }

    /// The names of its files.
    fn files(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let info = self.repo.info().map_err(|error| self.explain(error))?;
        let names = info.siblings.into_iter().map(|file| file.rfilename);
        Ok(names.filter(|name| choice::is_safe(name)).collect())
    }

    /// One file, which is here afterwards, complete and checked.
    fn pull(&self, file: &str, quiet: bool) -> Result<PathBuf, Box<dyn Error>> {
        let found = self.api.metadata(&self.repo.url(file));
        let found = found.map_err(|error| self.explain(error))?;
        if !is_hash(found.etag()) || !is_hash(found.commit_hash()) {
            return Err(format!("{} names {file} in a way that no hub does", self.endpoint).into());
        }
        let path = self.cached.pointer_path(found.commit_hash()).join(file);
        if !path.exists() {
            let mut tries = 0;
            while let Err(error) = self.repo.download_with_progress(file, Bar::new(quiet)) {
                tries += 1;
                if tries > RETRIES || !is_broken_transfer(&error) {
                    return Err(self.explain(error));
                }
            }
        }
        self.check(file, &path, &found)?;
        Ok(path)
    }

    /// What is not the file that the hub has is removed.
    fn check(&self, file: &str, path: &Path, expected: &Metadata) -> Result<(), Box<dyn Error>> {
        let length = fs::metadata(path)?.len();
        let mut wrong = None;
        if length != expected.size() as u64 {
            wrong = Some(format!(
                "has {} where the hub has {}",
                bytes(length),
                bytes(expected.size() as u64)
            ));
        } else if expected.etag().len() == SHA256_DIGITS {
            // Large files are named by their SHA-256, small ones by Git's hash.
            let found = sha256(path)?;
            if found != expected.etag().to_lowercase() {
                wrong = Some(format!(
                    "has the SHA-256 {found} and not {}",
                    expected.etag()
                ));
            }
        }
        let Some(wrong) = wrong else { return Ok(()) };
        fs::remove_file(path)?;
        fs::remove_file(self.cached.blob_path(expected.etag()))?;
        Err(format!("{file} of {} {wrong}: it was removed", self.name).into())
    }

    /// What a failure means to somebody who wants a model.
    fn explain(&self, error: ApiError) -> Box<dyn Error> {
        let (name, endpoint) = (&self.name, &self.endpoint);
        match &error {
            ApiError::RequestError(request) => match **request {
                ureq::Error::StatusCode(401 | 403 | 404) => format!(
                    "{endpoint} has no model {name} for you; if it is private or asks for consent, HF_TOKEN needs a \
                     token that may read it"
                ),
                ureq::Error::StatusCode(status) => {
                    format!("{endpoint} answers with status {status}")
                }
                ref request => format!(
                    "cannot reach {endpoint}: {}; HF_ENDPOINT names another hub",
                    printable(&request.to_string())
                ),
            },
            ApiError::LockAcquisition(path) => {
                format!("another process pulls the same file: {}", path.display())
            }
            other => format!("{name}: {}", printable(&other.to_string())),
        }
        .into()
    }
}

/// Whether what came is kept, and the rest may come.
fn is_broken_transfer(error: &ApiError) -> bool {
    match error {
        ApiError::IoError(_) => true,
        ApiError::RequestError(request) => matches!(**request, ureq::Error::Io(_)),
        _ => false,
    }
}

const SHA256_DIGITS: usize = 64;
const SHA1_DIGITS: usize = 40;

/// These become names of files.
fn is_hash(text: &str) -> bool {
    matches!(text.len(), SHA1_DIGITS | SHA256_DIGITS)
        && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn sha256(path: &Path) -> io::Result<String> {
    let (mut hash, mut file) = (Sha256::new(), File::open(path)?);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => hash.update(&buffer[..length]),
        }
    }
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Progress on a terminal.
struct Bar {
    bar: ProgressBar,
}

impl Bar {
    fn new(quiet: bool) -> Bar {
        let bar = match quiet {
            true => ProgressBar::hidden(),
            false => progress(
                0,
                "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
            ),
        };
        Bar { bar }
    }
}

impl Progress for Bar {
    fn init(&mut self, size: usize, file: &str) {
        self.bar.set_length(size as u64);
        self.bar.set_position(0);
        self.bar.set_message(printable(file).into_owned());
    }

    fn update(&mut self, size: usize) {
        self.bar.inc(size as u64);
    }

    fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}
