//! A server: requests come at any time, are computed together, stream their text, and end when their client hangs up.
//!
//! `cargo run --example serve -- 127.0.0.1:8080`, then `curl -N -d 'Ownership is' 127.0.0.1:8080`. Without an address
//! it has three clients of its own, one of which hangs up, and ends.

use std::collections::VecDeque;
use std::env::args;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use ironbridge::Device;
use ironbridge::llama::{
    GenerationOptions, LlamaError, Model, Sampler, SamplerOptions, Sequences, SessionOptions, Stop,
    Writer,
};

/// Texts that are computed together; the others wait.
const TEXTS: usize = 4;
/// Tokens of a prompt that are read in a step, so that a long prompt does not keep the other texts waiting.
const PROMPT_STEP: usize = 64;
/// Tokens that each answer may have.
const LIMIT: usize = 400;
/// Bytes of the longest prompt that is read from a client.
const LONGEST_PROMPT: u64 = 64 << 10;

/// What a client wants, and where the text goes.
struct Request {
    prompt: String,
    limit: usize,
    text: Sender<String>,
}

/// A text in the making.
struct Running {
    writer: Writer,
    /// Tokens that the model has not seen.
    unread: VecDeque<u32>,
    request: Request,
}

/// Computes all requests until nobody can make one any more. One thread owns the sequences; any number of threads send.
fn compute(
    model: &Model,
    requests: &Receiver<Request>,
    ended: &Sender<String>,
) -> Result<(), Box<dyn Error>> {
    let mut sequences = Sequences::new(model, TEXTS, SessionOptions::default())?;
    let mut running: [Option<Running>; TEXTS] = Default::default();
    loop {
        for index in 0..TEXTS {
            if running[index].is_none() {
                let request = match running.iter().all(Option::is_none) {
                    true => match requests.recv() {
                        Ok(request) => request,
                        Err(_) => return Ok(()),
                    },
                    false => match requests.try_recv() {
                        Ok(request) => request,
                        Err(_) => break,
                    },
                };
                running[index] = begin(model, &mut sequences, index, request)?;
            }
        }

        // One pass for all of them: the weights are read once.
        let mut work = Vec::new();
        for (index, running) in running.iter_mut().enumerate() {
            if let Some(Running { unread, .. }) = running {
                let step = unread.len().min(PROMPT_STEP);
                work.push((index, unread.drain(..step).collect::<Vec<u32>>()));
            }
        }
        if work.is_empty() {
            continue;
        }
        let slices: Vec<_> = work
            .iter()
            .map(|(index, tokens)| (*index, &tokens[..]))
            .collect();
        sequences.feed(&slices)?;

        for (index, _) in work {
            let slot = &mut running[index];
            let Some(text) = slot.as_mut().filter(|text| text.unread.is_empty()) else {
                continue;
            };
            let piece = text.writer.write(&sequences.logits(index)?)?;
            let stop = match text.request.text.send(piece.text) {
                Ok(()) => text.writer.stop(),
                // Nobody listens: the client has hung up.
                Err(_) => Some(Stop::Cancelled),
            };
            match stop {
                None => text.unread.push_back(piece.token),
                Some(stop) => {
                    let _ = ended.send(format!("{:?}: {stop:?}", text.request.prompt));
                    *slot = None;
                }
            }
        }
    }
}

/// A text begins where it parts from the one that stood in its place before: a shared system prompt is read once.
fn begin(
    model: &Model,
    sequences: &mut Sequences,
    index: usize,
    request: Request,
) -> Result<Option<Running>, LlamaError> {
    let prompt = model.encode_prompt(&request.prompt);
    if prompt.is_empty() || prompt.len() + request.limit > sequences.context() {
        let _ = request
            .text
            .send("the prompt is empty or too long\n".into());
        return Ok(None);
    }
    let kept = sequences.keep_prefix(index, &prompt);
    let options = GenerationOptions {
        limit: Some(request.limit),
        ..Default::default()
    };
    let sampler = Sampler::new(SamplerOptions::default())?;
    Ok(Some(Running {
        writer: Writer::new(model, &prompt, sampler, options),
        unread: prompt[kept..].iter().copied().collect(),
        request,
    }))
}

/// Reads a prompt, and writes the text as it comes.
fn answer(stream: TcpStream, requests: &Sender<Request>) -> io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?).take(LONGEST_PROMPT);
    let (mut line, mut length) = (String::new(), 0);
    while input.read_line(&mut line)? > 0 && line.trim() != "" {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut prompt = Vec::new();
    input.take(length).read_to_end(&mut prompt)?;

    let (text, pieces) = mpsc::channel();
    let request = Request {
        prompt: String::from_utf8_lossy(&prompt).into_owned(),
        limit: LIMIT,
        text,
    };
    let mut out = stream;
    out.set_nodelay(true)?;
    write!(
        out,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    )?;
    if requests.send(request).is_err() {
        return writeln!(out, "the server is going down");
    }
    // When the client has hung up, this fails and drops the receiver, which ends the text.
    pieces
        .iter()
        .try_for_each(|piece| out.write_all(piece.as_bytes()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    let here = listener.local_addr()?;
    let model = Model::open(&Device::open("default")?, "assets/tiny-rustbook-q8_0.gguf")?;
    let (requests, queue) = mpsc::channel();
    let (ended, endings) = mpsc::channel();
    thread::spawn(move || {
        if let Err(error) = compute(&model, &queue, &ended) {
            eprintln!("{error}");
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let requests = requests.clone();
            thread::spawn(move || answer(stream, &requests));
        }
    });
    match address {
        Some(_) => {
            println!("listening on {here}");
            endings.iter().for_each(|ending| println!("{ending}"));
        }
        None => be_clients(here, &endings)?,
    }
    Ok(())
}

/// Three clients at once, of which the last hangs up after the first bytes of its text.
fn be_clients(server: SocketAddr, endings: &Receiver<String>) -> Result<(), Box<dyn Error>> {
    let ask = move |prompt: &str, bytes: u64| -> io::Result<String> {
        let mut stream = TcpStream::connect(server)?;
        write!(
            stream,
            "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{prompt}",
            prompt.len()
        )?;
        let mut answer = String::new();
        stream.take(bytes).read_to_string(&mut answer)?;
        let (_, text) = answer.split_once("\r\n\r\n").unwrap_or_default();
        Ok(format!(
            "{prompt}{}",
            text.lines().next().unwrap_or_default()
        ))
    };
    let clients = [
        ("Ownership is", u64::MAX),
        ("Unsafe Rust", u64::MAX),
        ("Macros", 100),
    ];
    let clients = clients.map(|(prompt, bytes)| thread::spawn(move || ask(prompt, bytes)));
    for client in clients {
        println!("{}", client.join().expect("no client panics")?);
    }
    let mut endings: Vec<String> = endings.iter().take(3).collect();
    endings.sort();
    endings.iter().for_each(|ending| println!("{ending}"));
    Ok(())
}
