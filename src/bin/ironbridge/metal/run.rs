//! `ironbridge metal run`

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use ironbridge::Device;
use ironbridge::kernel::{Argument, ArgumentInfo, ArgumentKind, Dispatch, Grid, Sampler, Texture};
use serde_json::{Value as Json, json};

use super::argument::extents;
use super::compile::CompileOptions;
use super::elements::Values;
use super::npy;
use super::texels::{self, Texels};
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
    /// A texture, in the order of indices or with its index: rgba8unorm:64x64 (zeroes), r32float:4x4:ramp,
    /// r8uint:2x2:[1,2,3,4] or r8uint:4x4:FILE.npy; the numbers are what the format stores. It is of the shape that the
    /// kernel takes, 2D or another: r8uint:64, r8uint:4x4x4
    #[arg(long, value_name = "[INDEX=]FORMAT:WxHxD", value_parser = texels::texture)]
    texture: Vec<(Option<u32>, Texels)>,
    /// A sampler, as linear,repeat; those that are not given take the nearest texel, and the one at the edge
    #[arg(long, value_name = "[INDEX=]WORDS", value_parser = texels::sampler)]
    sampler: Vec<(Option<u32>, Sampler)>,
    /// Bytes of threadgroup memory at an index
    #[arg(long, value_name = "INDEX=BYTES", value_parser = threadgroup)]
    threadgroup: Vec<(u32, usize)>,
    /// Threads, as X,Y,Z; else one for each texel of the largest texture, or each element of the largest buffer
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
    /// Write a buffer, or as texture1=FILE a texture's components, into a .npy file afterwards
    #[arg(long, value_name = "INDEX=FILE", value_parser = file)]
    save: Vec<(Place, PathBuf)>,
    /// Write one JSON object, with all elements
    #[arg(long)]
    json: bool,
}

fn threadgroup(text: &str) -> Result<(u32, usize), String> {
    let pair = text.split_once('=');
    let pair = pair.and_then(|(index, bytes)| Some((index.parse().ok()?, bytes.parse().ok()?)));
    pair.ok_or_else(|| format!("{text:?} is not of the form 0=1024"))
}

/// What a kernel has values of, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Buffer(u32),
    Texture(u32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Place::Buffer(index) => write!(formatter, "buffer {index}"),
            Place::Texture(index) => write!(formatter, "texture {index}"),
        }
    }
}

fn file(text: &str) -> Result<(Place, PathBuf), String> {
    let pair = text.split_once('=').and_then(|(place, file)| {
        let place = match place.strip_prefix("texture") {
            Some(index) => Place::Texture(index.parse().ok()?),
            None => Place::Buffer(place.parse().ok()?),
        };
        Some((place, file.into()))
    });
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
    let kernel = library.kernel_with(name, &arguments.compile.constants())?;
    let wanted = kernel.arguments()?;
    let given = with_indices(&arguments.buffer, &wanted, ArgumentKind::Buffer)?;
    let pictures = with_indices(&arguments.texture, &wanted, ArgumentKind::Texture)?;
    let mut samplers = with_indices(&arguments.sampler, &wanted, ArgumentKind::Sampler)?;
    for it in wanted.iter().filter(|it| it.kind == ArgumentKind::Sampler) {
        if !samplers.iter().any(|(index, _)| *index == it.index) {
            samplers.push((it.index, Sampler::default()));
        }
    }
    let mut places: Vec<(Place, &Values)> = Vec::new();
    places.extend(given.iter().map(|(index, it)| (Place::Buffer(*index), it)));
    places.extend(
        pictures
            .iter()
            .map(|(index, it)| (Place::Texture(*index), &it.values)),
    );
    for argument in &wanted {
        require(argument, &places, &arguments.threadgroup)?;
    }
    let saved = arguments.save.iter().map(|(place, _)| place);
    for place in saved {
        if !places.iter().any(|it| it.0 == *place) {
            return Err(format!("--save: there is no {place}").into());
        }
    }
    let most = kernel.info()?.max_threads_per_threadgroup;
    let (grid, threads) = threads(arguments, &given, &pictures, most);

    let mut buffers = Vec::new();
    for (place, values) in &places {
        buffers.push((*place, device.buffer_from(&values.bytes)?));
    }
    // A device that does not know its kernels' arguments is told the most.
    let access = |place: Place| {
        let (kind, index) = match place {
            Place::Buffer(index) => (ArgumentKind::Buffer, index),
            Place::Texture(index) => (ArgumentKind::Texture, index),
        };
        let known = wanted
            .iter()
            .find(|it| it.index == index && it.kind == kind);
        known.map_or((true, true), |it| (it.readable, it.writable))
    };
    let writes = |place: Place| access(place).1;
    let mut bound: Vec<Argument> = Vec::new();
    for (place, buffer) in &buffers {
        let (index, texture) = match *place {
            Place::Buffer(index) => (index, None),
            Place::Texture(index) => {
                let found = pictures.iter().find(|it| it.0 == index);
                let picture = found.map(|(_, it)| picture(it, index, &wanted));
                (index, picture.transpose()?)
            }
        };
        let argument = match access(*place) {
            (true, false) => Argument::read(index, buffer),
            (false, true) if texture.is_some() => Argument::write(index, buffer),
            _ => Argument::read_write(index, buffer),
        };
        bound.push(texture.map_or(argument, |texture| argument.texture(texture)));
    }
    bound.extend(
        samplers
            .iter()
            .map(|(index, it)| Argument::sampler(*index, *it)),
    );
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
    for ((place, buffer), (_, before)) in buffers.iter().zip(&places) {
        let values = Values {
            kind: before.kind,
            bytes: buffer.to_vec()?,
        };
        results.push((*place, values));
    }
    for (place, path) in &arguments.save {
        for (_, values) in results.iter().filter(|it| it.0 == *place) {
            let file = npy::write(values);
            fs::write(path, file).map_err(|it| format!("cannot write {}: {it}", path.display()))?;
        }
    }
    results.retain(|(place, _)| writes(*place));
    let mut out = output::buffered();
    if arguments.json {
        let (mut buffers, mut textures) = (Vec::new(), Vec::new());
        for (place, values) in &results {
            match place {
                Place::Buffer(index) => buffers.push(describe(*index, values)),
                Place::Texture(index) => textures.push(describe(*index, values)),
            }
        }
        let mut described = json!({ "kernel": name, "buffers": buffers });
        if !textures.is_empty() {
            described["textures"] = textures.into();
        }
        writeln!(out, "{described}")?;
    } else {
        for (place, values) in &results {
            print(&mut out, *place, values, arguments.print)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// The texture of the shape that the kernel takes at an index; 2D when a device does not know.
fn picture(texels: &Texels, index: u32, wanted: &[ArgumentInfo]) -> Result<Texture, String> {
    const TWO_DIMENSIONS: u32 = 2;
    let textures = wanted.iter().filter(|it| it.index == index);
    let kind = textures.filter_map(|it| it.texture).next();
    let kind = kind.map_or(TWO_DIMENSIONS, |texture| texture.kind);
    let (texture, texels_of_shape) =
        texels::shaped(kind, texels.format, texels.size).ok_or_else(|| {
            format!("texture {index} of the kernel is multisample: only rendering fills such")
        })?;
    let [x, y, z] = texels.size;
    let (given, has) = (x as usize * y as usize * z as usize, texels_of_shape);
    match given == has {
        true => Ok(texture),
        false => Err(format!(
            "texture {index} of the kernel has {has} texels of {x}x{y}x{z}, not {given}"
        )),
    }
}

/// The grid, and the threads of a threadgroup.
fn threads(
    arguments: &RunArguments,
    buffers: &[(u32, Values)],
    textures: &[(u32, Texels)],
    most: u32,
) -> ([u32; 3], [u32; 3]) {
    let largest = buffers.iter().map(|(_, values)| values.count()).max();
    let line = [largest.unwrap_or(1).max(1) as u32, 1, 1];
    let sizes = textures.iter().map(|(_, it)| it.size);
    let picture = sizes.max_by_key(|size| size.iter().map(|&it| u64::from(it)).product::<u64>());
    let grid = arguments.grid.unwrap_or(picture.unwrap_or(line));
    let threads = arguments.threads.unwrap_or(match grid[1] > 1 {
        true => [
            grid[0].min(most).min(16),
            grid[1].min(most / 16).clamp(1, 16),
            1,
        ],
        false => [grid[0].min(most).min(256), 1, 1],
    });
    (grid, threads)
}

/// What has no index takes those that the kernel has, in the order of indices.
fn with_indices<T: Clone>(
    given: &[(Option<u32>, T)],
    wanted: &[ArgumentInfo],
    kind: ArgumentKind,
) -> Result<Vec<(u32, T)>, String> {
    let taken: Vec<u32> = given.iter().filter_map(|(index, _)| *index).collect();
    let is_wanted = |it: &&ArgumentInfo| it.kind == kind;
    let mut free: Vec<u32> = wanted.iter().filter(is_wanted).map(|it| it.index).collect();
    if wanted.is_empty() {
        free = (0..31).collect();
    }
    free.retain(|index| !taken.contains(index));
    free.sort_unstable();
    let mut free = free.into_iter();
    let mut placed = Vec::new();
    for (index, values) in given {
        let index = index.or_else(|| free.next()).ok_or_else(|| {
            let what = match kind {
                ArgumentKind::Texture => "textures",
                ArgumentKind::Sampler => "samplers",
                _ => "buffers",
            };
            format!("there are more {what} than the kernel has arguments")
        })?;
        placed.push((index, values.clone()));
    }
    Ok(placed)
}

fn require(
    argument: &ArgumentInfo,
    places: &[(Place, &Values)],
    threadgroup: &[(u32, usize)],
) -> Result<(), String> {
    let index = argument.index;
    let has = |place: Place| places.iter().any(|it| it.0 == place);
    match argument.kind {
        ArgumentKind::Threadgroup if !threadgroup.iter().any(|it| it.0 == index) => Err(format!(
            "the kernel wants threadgroup memory {index}: --threadgroup {index}=BYTES"
        )),
        ArgumentKind::Buffer if !has(Place::Buffer(index)) => Err(format!(
            "the kernel wants buffer {index}: --buffer {index}=f32:1024 or the like"
        )),
        ArgumentKind::Texture if !has(Place::Texture(index)) => Err(format!(
            "the kernel wants texture {index}: --texture {index}=rgba8unorm:64x64 or the like"
        )),
        _ => Ok(()),
    }
}

fn print(out: &mut impl Write, place: Place, values: &Values, most: usize) -> std::io::Result<()> {
    let most = if most == 0 { usize::MAX } else { most };
    let shown: Vec<String> = values.elements().take(most).collect();
    let rest = if shown.len() < values.count() {
        " …"
    } else {
        ""
    };
    let (kind, count) = (values.kind.name(), values.count());
    writeln!(out, "{place}, {kind}[{count}]: {}{rest}", shown.join(" "))
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
