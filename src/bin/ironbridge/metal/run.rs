//! `ironbridge metal run`

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use ironbridge::Device;
use ironbridge::kernel::{Argument, ArgumentInfo, ArgumentKind, Dispatch, Grid};
use serde_json::{Value as Json, json};

use super::argument::extents;
use super::compile::CompileOptions;
use super::elements::Values;
use super::npy;
use super::values;
use crate::output;

#[derive(Args)]
pub struct RunArguments {
    /// A Metal source
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    compile: CompileOptions,
    /// Which kernel; may be left out when there is one
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// What a buffer holds, in the order of indices or with its index: f32:1024 (zeroes), f32:1024:ramp (0, 1, 2, …),
    /// u32:[4,5,6] or FILE.npy
    #[arg(long, value_name = "[INDEX=]VALUES", value_parser = values::buffer)]
    buffer: Vec<(Option<u32>, Values)>,
    /// Bytes of threadgroup memory at an index
    #[arg(long, value_name = "INDEX=BYTES", value_parser = threadgroup)]
    threadgroup: Vec<(u32, usize)>,
    /// Threads, as X,Y,Z; else one for each element of the largest buffer
    #[arg(long, value_name = "X,Y,Z", value_parser = extents)]
    grid: Option<[u32; 3]>,
    /// Threads in a threadgroup, as X,Y,Z
    #[arg(long, value_name = "X,Y,Z", value_parser = extents)]
    threads: Option<[u32; 3]>,
    /// Device: default, metal, cpu, or an index of `ironbridge devices`
    #[arg(long, default_value = "default")]
    device: String,
    /// Elements of each buffer to print; 0: all
    #[arg(long, default_value_t = 16, value_name = "N")]
    print: usize,
    /// Write a buffer into a .npy file afterwards
    #[arg(long, value_name = "INDEX=FILE", value_parser = file)]
    save: Vec<(u32, PathBuf)>,
    /// Write one JSON object, with all elements
    #[arg(long)]
    json: bool,
}

fn threadgroup(text: &str) -> Result<(u32, usize), String> {
    let pair = text.split_once('=');
    let pair = pair.and_then(|(index, bytes)| Some((index.parse().ok()?, bytes.parse().ok()?)));
    pair.ok_or_else(|| format!("{text:?} is not of the form 0=1024"))
}

fn file(text: &str) -> Result<(u32, PathBuf), String> {
    let pair = text.split_once('=');
    let pair = pair.and_then(|(index, file)| Some((index.parse().ok()?, file.into())));
    pair.ok_or_else(|| format!("{text:?} is not of the form 1=out.npy"))
}

pub fn run(arguments: &RunArguments) -> Result<(), Box<dyn Error>> {
    let device = Device::open(&arguments.device)?;
    let library = arguments.compile.library(&device, &arguments.file)?;
    let names = library.kernel_names()?;
    let name = match (&arguments.kernel, names.as_slice()) {
        (Some(name), _) | (None, [name]) => name,
        (None, []) => return Err("the source has no kernel".into()),
        (None, names) => {
            let some: Vec<&str> = names.iter().take(20).map(String::as_str).collect();
            return Err(format!("which kernel? --kernel takes one of {}", some.join(", ")).into());
        }
    };
    let kernel = library.kernel_with(name, arguments.compile.constants())?;
    let wanted = kernel.arguments()?;
    let given = with_indices(&arguments.buffer, &wanted)?;
    for argument in &wanted {
        require(argument, &given, &arguments.threadgroup)?;
    }
    if let Some((index, _)) = arguments
        .save
        .iter()
        .find(|(index, _)| !given.iter().any(|it| it.0 == *index))
    {
        return Err(format!("--save {index}: there is no buffer {index}").into());
    }
    let largest = given.iter().map(|(_, values)| values.count()).max();
    let grid = arguments
        .grid
        .unwrap_or([largest.unwrap_or(1).max(1) as u32, 1, 1]);
    let most = kernel.info()?.max_threads_per_threadgroup;
    let threads = arguments
        .threads
        .unwrap_or([grid[0].min(most).min(256), 1, 1]);

    let mut buffers = Vec::new();
    for (index, values) in &given {
        buffers.push((*index, device.buffer_from(&values.bytes)?));
    }
    let writes = |index: u32| {
        // A device that does not know its kernels' arguments is told the most.
        let known = wanted
            .iter()
            .find(|it| it.index == index && it.kind == ArgumentKind::Buffer);
        known.is_none_or(|it| it.writable)
    };
    let mut bound: Vec<Argument> = buffers
        .iter()
        .map(|(index, buffer)| match writes(*index) {
            true => Argument::read_write(*index, buffer),
            false => Argument::read(*index, buffer),
        })
        .collect();
    let memory = arguments.threadgroup.iter();
    bound.extend(memory.map(|(index, bytes)| Argument::threadgroup(*index, *bytes)));
    let dispatch = Dispatch {
        arguments: &bound,
        grid: Grid::Threads(grid),
        threadgroup: threads,
    };
    let mut commands = device.commands()?;
    // SAFETY: nothing here can vouch for a stranger's kernel. Who asks this program to run one does, as for any
    // program; no reference of this process is into the buffers while it runs.
    unsafe { commands.dispatch(&kernel, &dispatch)? };
    commands.run()?;

    let mut results = Vec::new();
    for ((index, buffer), (_, before)) in buffers.iter().zip(&given) {
        let values = Values {
            kind: before.kind,
            bytes: buffer.to_vec()?,
        };
        results.push((*index, values));
    }
    for (index, path) in &arguments.save {
        for (_, values) in results.iter().filter(|it| it.0 == *index) {
            let file = npy::write(values);
            fs::write(path, file).map_err(|it| format!("cannot write {}: {it}", path.display()))?;
        }
    }
    results.retain(|(index, _)| writes(*index));
    let mut out = output::buffered();
    match arguments.json {
        true => {
            let results: Vec<Json> = results
                .iter()
                .map(|(index, it)| describe(*index, it))
                .collect();
            writeln!(out, "{}", json!({ "kernel": name, "buffers": results }))?;
        }
        false => {
            for (index, values) in &results {
                print(&mut out, *index, values, arguments.print)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// Buffers without an index take those that the kernel has, in the order of indices.
fn with_indices(
    buffers: &[(Option<u32>, Values)],
    wanted: &[ArgumentInfo],
) -> Result<Vec<(u32, Values)>, String> {
    let taken: Vec<u32> = buffers.iter().filter_map(|(index, _)| *index).collect();
    let is_buffer = |it: &&ArgumentInfo| it.kind == ArgumentKind::Buffer;
    let mut free: Vec<u32> = wanted.iter().filter(is_buffer).map(|it| it.index).collect();
    if wanted.is_empty() {
        free = (0..31).collect();
    }
    free.retain(|index| !taken.contains(index));
    free.sort_unstable();
    let mut free = free.into_iter();
    let mut given = Vec::new();
    for (index, values) in buffers {
        let index = index.or_else(|| free.next());
        let index = index.ok_or("there are more buffers than the kernel has arguments")?;
        given.push((index, values.clone()));
    }
    Ok(given)
}

fn require(
    argument: &ArgumentInfo,
    buffers: &[(u32, Values)],
    threadgroup: &[(u32, usize)],
) -> Result<(), String> {
    let index = argument.index;
    match argument.kind {
        ArgumentKind::Threadgroup if !threadgroup.iter().any(|it| it.0 == index) => Err(format!(
            "the kernel wants threadgroup memory {index}: --threadgroup {index}=BYTES"
        )),
        ArgumentKind::Buffer if !buffers.iter().any(|it| it.0 == index) => Err(format!(
            "the kernel wants buffer {index}: --buffer {index}=f32:1024 or the like"
        )),
        _ => Ok(()),
    }
}

fn print(out: &mut impl Write, index: u32, values: &Values, most: usize) -> std::io::Result<()> {
    let most = if most == 0 { usize::MAX } else { most };
    let shown: Vec<String> = values.elements().take(most).collect();
    let rest = if shown.len() < values.count() {
        " …"
    } else {
        ""
    };
    let (kind, count) = (values.kind.name(), values.count());
    writeln!(
        out,
        "buffer {index}, {kind}[{count}]: {}{rest}",
        shown.join(" ")
    )
}

/// Numbers as JSON has them; NaN and infinity are text.
fn describe(index: u32, values: &Values) -> Json {
    let number = |text: String| serde_json::from_str(&text).unwrap_or(Json::String(text));
    json!({
        "index": index,
        "type": values.kind.name(),
        "values": values.elements().map(number).collect::<Vec<Json>>(),
    })
}
