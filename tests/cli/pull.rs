//! `ironbridge pull` against a local server that speaks the hub's protocol: the list of a repository's files, headers
//! that name a file's hash and commit, and parts of files by `Range`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use sha2::{Digest, Sha256};

const MODEL: &str = "assets/tiny-rustbook-q8_0.gguf";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A file as the hub has it.
struct Served {
    bytes: Vec<u8>,
    /// The name that the hub gives to the content.
    hash: String,
}

impl Served {
    fn new(bytes: Vec<u8>) -> Served {
        let hash = Sha256::digest(&bytes);
        let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Served { bytes, hash }
    }
}

struct Hub {
    endpoint: String,
    /// The first byte of each transfer.
    transfers: Arc<Mutex<Vec<usize>>>,
}

impl Hub {
    /// A hub with one repository, `somebody/model`. Transfers break off after `breaks` bytes of a file that is longer.
    fn serve(files: BTreeMap<String, Served>, breaks: Option<usize>) -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let transfers = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&transfers);
        thread::spawn(move || {
            for connection in listener.incoming() {
                answer(connection.expect("a client"), &files, breaks, &seen);
            }
        });
        Hub {
            endpoint,
            transfers,
        }
    }

    fn of(files: &[(&str, &[u8])]) -> Hub {
        let served = |(name, bytes): &(&str, &[u8])| ((*name).into(), Served::new(bytes.to_vec()));
        Hub::serve(files.iter().map(served).collect(), None)
    }

    fn pull(&self, home: &Path, arguments: &[&str]) -> Output {
        pull_from(&self.endpoint, home, arguments)
    }
}

fn pull_from(endpoint: &str, home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .arg("pull")
        .args(arguments)
        .env("HF_ENDPOINT", endpoint)
        .env("HF_HOME", home)
        .env_remove("HF_TOKEN")
        .output()
        .expect("it starts")
}

fn answer(
    mut connection: TcpStream,
    files: &BTreeMap<String, Served>,
    breaks: Option<usize>,
    transfers: &Mutex<Vec<usize>>,
) {
    let mut lines = BufReader::new(connection.try_clone().expect("a handle")).lines();
    let Some(Ok(request)) = lines.next() else {
        return;
    };
    let mut range = None;
    for line in lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
    {
        let line = line.to_ascii_lowercase();
        if let Some(bytes) = line.strip_prefix("range: bytes=") {
            let (first, last) = bytes.split_once('-').expect("a range");
            range = Some((
                first.parse::<usize>().expect("a number"),
                last.parse::<usize>().ok(),
            ));
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, headers, body) = if path == "/api/models/somebody/model/revision/main" {
        let names: Vec<_> = files
            .keys()
            .map(|name| serde_json::json!({ "rfilename": name }))
            .collect();
        let info = serde_json::json!({ "sha": COMMIT, "siblings": names }).to_string();
        ("200 OK", String::new(), info.into_bytes())
    } else if let Some(file) = path
        .strip_prefix("/somebody/model/resolve/main/")
        .and_then(|name| files.get(name))
    {
        let (first, last) = range.unwrap_or((0, None));
        let end = last.map_or(file.bytes.len(), |last| last + 1);
        if last.is_none() {
            transfers.lock().expect("no panic").push(first);
        }
        let headers = format!(
            "etag: \"{}\"\r\nx-repo-commit: {COMMIT}\r\ncontent-range: bytes {first}-{}/{}\r\n",
            file.hash,
            end.saturating_sub(1),
            file.bytes.len()
        );
        (
            "206 Partial Content",
            headers,
            file.bytes[first..end].to_vec(),
        )
    } else {
        ("404 Not Found", String::new(), Vec::new())
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    let sent = body.len().min(breaks.unwrap_or(usize::MAX));
    // A client that has gone away is its own business.
    let _ = connection.write_all(head.as_bytes());
    let _ = connection.write_all(&body[..sent]);
    let _ = connection.shutdown(Shutdown::Both);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What failed with status 1, in one line.
fn error_of(output: &Output) -> String {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// All that lies below a folder.
fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.expect("it is there").path();
        match entry.is_dir() {
            true => found.extend(files_below(&entry)),
            false => found.push(entry.display().to_string()),
        }
    }
    found
}

#[test]
fn a_model_is_fetched_once_and_runs() {
    let model = fs::read(MODEL).expect("the model is here");
    let hub = Hub::of(&[
        ("m-Q8_0.gguf", &model),
        ("m-Q4_0.gguf", b"other"),
        ("README.md", b"text"),
    ]);
    let home = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        let output = hub.pull(home.path(), &["somebody/model:q8_0"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let path = text(&output.stdout).trim_end().to_string();
        let place = format!("hub/models--somebody--model/snapshots/{COMMIT}/m-Q8_0.gguf");
        assert_eq!(Path::new(&path), home.path().join(place));
        assert_eq!(fs::read(&path).expect("it is here"), model);
    }
    assert_eq!(*hub.transfers.lock().expect("no panic"), [0]);

    let output = hub.pull(home.path(), &["somebody/model:Q8_0", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["files"][0]["bytes"], model.len());
    let inspect = Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .args(["inspect", json["model"].as_str().expect("a path")])
        .output();
    assert!(inspect.expect("it starts").status.success());
}

#[test]
fn a_folder_is_fetched_with_what_belongs_to_it() {
    let hub = Hub::of(&[
        ("config.json", b"{}"),
        ("model.safetensors", b"weights"),
        ("picture.png", b""),
    ]);
    let home = tempfile::tempdir().expect("a folder");
    let output = hub.pull(home.path(), &["somebody/model"]);
    let folder = text(&output.stdout);
    let mut names: Vec<_> = fs::read_dir(folder.trim_end())
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
        .map(|entry| entry.expect("it is there").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["config.json", "model.safetensors"]);
}

#[test]
fn a_broken_transfer_goes_on_where_it_broke() {
    let bytes: Vec<u8> = (0..250_000u32).map(|i| (i % 251) as u8).collect();
    let files = BTreeMap::from([(String::from("m.gguf"), Served::new(bytes.clone()))]);
    let hub = Hub::serve(files, Some(100_000));
    let home = tempfile::tempdir().expect("a folder");
    let output = hub.pull(home.path(), &["somebody/model"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        *hub.transfers.lock().expect("no panic"),
        [0, 100_000, 200_000]
    );
    assert_eq!(
        fs::read(text(&output.stdout).trim_end()).expect("it is here"),
        bytes
    );
}

#[test]
fn another_file_than_the_hub_promised_is_removed() {
    let mut file = Served::new(b"what was promised".to_vec());
    file.bytes = b"what has been sent".to_vec();
    let hub = Hub::serve(BTreeMap::from([(String::from("m.gguf"), file)]), None);
    let home = tempfile::tempdir().expect("a folder");
    let error = error_of(&hub.pull(home.path(), &["somebody/model"]));
    assert!(error.contains("SHA-256"), "{error}");
    let left = files_below(home.path());
    assert!(
        !left.iter().any(|path| path.contains("snapshots")),
        "{left:?}"
    );
}

#[test]
fn a_hub_cannot_name_places_outside_its_cache() {
    let mut file = Served::new(b"GGUF".to_vec());
    file.hash = "../../../../stolen".into();
    let files = BTreeMap::from([
        (
            String::from("../../evil.gguf"),
            Served::new(b"GGUF".to_vec()),
        ),
        (String::from("m.gguf"), file),
    ]);
    let hub = Hub::serve(files, None);
    let home = tempfile::tempdir().expect("a folder");
    let error = error_of(&hub.pull(home.path(), &["somebody/model"]));
    assert!(error.contains("no hub does"), "{error}");
    assert_eq!(files_below(home.path()), [] as [String; 0]);
}

#[test]
fn what_cannot_be_had_is_said_in_one_line() {
    let home = tempfile::tempdir().expect("a folder");
    let hub = Hub::of(&[("m-Q8_0.gguf", b""), ("m-Q6_K.gguf", b"")]);
    for (arguments, expected) in [
        (&["somebody/model:Q4_0"][..], "m-Q6_K.gguf, m-Q8_0.gguf"),
        (&["somebody/model"], "choose one by :TYPE"),
        (&["somebody/other"], "no model somebody/other"),
        (&["model"], "OWNER/NAME"),
        (&["somebody/model", "--revision", "../x"], "revision"),
    ] {
        let error = error_of(&hub.pull(home.path(), arguments));
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    // A port where nobody listens.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let endpoint = format!("http://{}", port.expect("a port is free"));
    let error = error_of(&pull_from(&endpoint, home.path(), &["somebody/model"]));
    assert!(
        error.contains(&format!("cannot reach {endpoint}")),
        "{error}"
    );
}
