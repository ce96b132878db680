//! `ironbridge metal trial`: runs kernels of one file, each with every access checked, and says on a line of JSON each
//! what came of it. `check --run` reads the lines. Kernels are native code: one that takes its process with it takes
//! this one.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use ironbridge::Device;
use ironbridge::kernel::{
    Argument, ArgumentInfo, ArgumentKind, Dispatch, Grid, Kernel, PixelFormat, Sampler,
    TextureValue,
};
use serde_json::{Value as Json, json};

use super::argument::extents;
use super::compile::CompileOptions;
use super::elements::Values;
use super::texels;
use super::values;
use crate::output;

/// Bytes of threadgroup memory that every device has.
const THREADGROUP_MEMORY: u32 = 32 << 10;

/// Of textures that have a third extent: planes, elements and cubes.
const LAYERS: u32 = 4;

/// What each kernel is run with.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// With --run: the size of every buffer, in bytes
    #[arg(long, default_value_t = 65536, value_name = "BYTES")]
    pub bytes: u32,
    /// With --run: what every buffer is full of: numbers of a type, as u32:1, f16:0.5 or u32:ramp, which is 0, 1, 2, …
    #[arg(long, default_value = "u32:0", value_name = "TYPE:VALUE", value_parser = fill)]
    pub fill: Fill,
    /// With --run: the same of buffers that a kernel takes by pointer, where they are to have other numbers than those
    /// that it takes by reference
    #[arg(long, value_name = "TYPE:VALUE", value_parser = fill)]
    pub pointers: Option<Fill>,
    /// With --run: the size of every texture, zeroed, in texels, as X,Y; what has a third extent has 4 along it
    #[arg(long, default_value = "64,64", value_name = "X,Y", value_parser = texels)]
    pub texture: [u32; 2],
    /// With --run: threads, as X,Y,Z
    #[arg(long, default_value = "256", value_name = "X,Y,Z", value_parser = extents)]
    pub grid: [u32; 3],
    /// With --run: threads in a threadgroup, as X,Y,Z; a kernel that takes fewer gets fewer
    #[arg(long, default_value = "64", value_name = "X,Y,Z", value_parser = extents)]
    pub threads: [u32; 3],
}

/// What a buffer is full of, and how it was typed.
#[derive(Clone, Debug)]
pub struct Fill {
    pub text: String,
    values: Values,
}

impl Fill {
    fn bytes(&self, length: usize) -> Vec<u8> {
        let all = self.values.bytes.iter().copied();
        all.cycle().take(length).collect()
    }
}

/// `TYPE:VALUE` or `TYPE:ramp`.
fn fill(text: &str) -> Result<Fill, String> {
    /// Of a ramp, which then begins again: small enough for every type but bytes.
    const STEPS: usize = 128;
    let values = match text.split_once(':') {
        Some((kind, "ramp")) => values::parse(&format!("{kind}:{STEPS}:ramp")),
        Some((kind, value)) => values::parse(&format!("{kind}:[{value}]")),
        None => return Err(format!("{text:?} is not of the form u32:1 or u32:ramp")),
    }?;
    let text = text.into();
    Ok(Fill { text, values })
}

/// `X,Y`, as large as textures can be.
fn texels(text: &str) -> Result<[u32; 2], String> {
    let extent = |text: &str| {
        let extent = text.parse().ok();
        extent.filter(|extent| (1..=16384).contains(extent))
    };
    let pair = text.split_once(',');
    let pair = pair.and_then(|(x, y)| Some([extent(x)?, extent(y)?]));
    pair.ok_or_else(|| format!("{text:?} is not of the form 64,64, with at most 16384 of each"))
}

#[derive(Args)]
pub struct TrialArguments {
    file: PathBuf,
    #[command(flatten)]
    compile: CompileOptions,
    #[command(flatten)]
    load: Load,
    #[arg(long)]
    kernel: Vec<String>,
    /// Where the kernels run
    #[arg(long, default_value = "cpu")]
    device: String,
    /// A folder for what each kernel leaves in its buffers: a file named by its place among those above
    #[arg(long)]
    keep: Option<PathBuf>,
}

pub fn run(arguments: &TrialArguments) -> Result<(), Box<dyn Error>> {
    let device = Device::open(&arguments.device)?;
    let library = arguments.compile.library(&device, &arguments.file)?;
    let mut out = output::stdout();
    for (place, name) in arguments.kernel.iter().enumerate() {
        writeln!(out, "{}", json!({ "begins": name }))?;
        out.flush()?;
        let line = match library.kernel_with(name, &arguments.compile.constants()) {
            Err(ironbridge::Error::Compile(failure)) => {
                json!({ "kernel": name, "refused": failure.message() })
            }
            Err(other) => return Err(other.into()),
            Ok(kernel) => {
                let wanted: Vec<Json> = kernel.arguments()?.iter().map(describe).collect();
                let (digest, fault) = match left(&device, &kernel, &arguments.load) {
                    Ok(left) => {
                        if let Some(folder) = &arguments.keep {
                            fs::write(folder.join(place.to_string()), left.concat())?;
                        }
                        let mut hasher = DefaultHasher::new();
                        left.hash(&mut hasher);
                        (Some(hasher.finish().to_string()), None)
                    }
                    Err(error) => (None, Some(about_kernel(&error.to_string(), name))),
                };
                json!({ "kernel": name, "arguments": wanted, "digest": digest, "fault": fault })
            }
        };
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    Ok(())
}

/// What a kernel wants bound at an index.
pub fn describe(it: &ArgumentInfo) -> Json {
    json!({
        "kind": match it.kind {
            ArgumentKind::Threadgroup => "threadgroup",
            ArgumentKind::Texture => "texture",
            ArgumentKind::Sampler => "sampler",
            _ => "buffer",
        },
        "index": it.index,
        "readable": it.readable,
        "writable": it.writable,
        "byte_size": it.byte_size,
        "alignment": it.alignment,
    })
}

/// What a message says behind the name of the kernel, which the finding has.
fn about_kernel(message: &str, name: &str) -> String {
    let rest = message.split_once(&format!("kernel `{name}`: "));
    String::from(rest.map_or(message, |(_, rest)| rest))
}

/// Runs a kernel; what each of its buffers holds afterwards.
fn left(device: &Device, kernel: &Kernel, load: &Load) -> ironbridge::Result<Vec<Vec<u8>>> {
    let (info, wanted) = (kernel.info()?, kernel.arguments()?);
    // Between two buffers lies one that is not bound: what is beside the one would else be in the other.
    let (mut buffers, mut between) = (Vec::new(), Vec::new());
    for argument in wanted.iter().filter(|it| it.kind == ArgumentKind::Buffer) {
        let length = argument.byte_size.max(load.bytes.max(1).into());
        let fill = match (&load.pointers, argument.byte_size) {
            (Some(fill), 0) => fill,
            _ => &load.fill,
        };
        let bytes = fill.bytes(length as usize);
        buffers.push((argument.index, device.buffer_from(&bytes)?));
        between.push(device.buffer::<u8>(bytes.len())?);
    }
    let [width, height] = load.texture;
    let mut textures = Vec::new();
    for it in &wanted {
        let shape = it.texture.and_then(|texture| {
            let size = [width, height, LAYERS];
            texels::shaped(texture.kind, widest(texture.value), size)
        });
        if let Some((texture, count)) = shape {
            let zeroes = vec![0u8; 16 * count];
            textures.push((it, texture, device.buffer_from(&zeroes)?));
        }
    }
    let lengths = wanted
        .iter()
        .filter(|it| it.kind == ArgumentKind::Threadgroup);
    let free = THREADGROUP_MEMORY.saturating_sub(info.static_threadgroup_memory);
    let each = free as usize / lengths.clone().count().max(1) / 16 * 16;
    let mut arguments: Vec<Argument> = buffers
        .iter()
        .map(|(index, buffer)| Argument::read_write(*index, buffer))
        .collect();
    arguments.extend(textures.iter().map(|(it, texture, buffer)| {
        let bound = match (it.readable, it.writable) {
            (true, false) => Argument::read(it.index, buffer),
            (false, true) => Argument::write(it.index, buffer),
            _ => Argument::read_write(it.index, buffer),
        };
        bound.texture(*texture)
    }));
    let samplers = wanted.iter().filter(|it| it.kind == ArgumentKind::Sampler);
    arguments.extend(samplers.map(|it| Argument::sampler(it.index, Sampler::default())));
    arguments.extend(lengths.map(|it| Argument::threadgroup(it.index, each.max(16))));
    let dispatch = Dispatch {
        arguments: &arguments,
        grid: Grid::Threads(load.grid),
        threadgroup: fitting(load.threads, info.max_threads_per_threadgroup),
    };
    let mut commands = device.commands()?;
    // SAFETY: `check` set IRONBRIDGE_SOFT_VALIDATE: an access outside the buffers, which may all be written, ends the
    // kernel. What is not watched, as on a GPU, can harm this process alone, which is made for it.
    unsafe { commands.dispatch(kernel, &dispatch)? };
    commands.run()?;
    let all = buffers.iter().map(|(_, buffer)| buffer);
    let all = all.chain(textures.iter().map(|(.., buffer)| buffer));
    all.map(|buffer| buffer.to_vec()).collect()
}

/// The format whose components a kernel can take for any of these.
fn widest(value: TextureValue) -> PixelFormat {
    match value {
        TextureValue::Unsigned => PixelFormat::Rgba32Uint,
        TextureValue::Signed => PixelFormat::Rgba32Sint,
        _ => PixelFormat::Rgba32Float,
    }
}

/// Threads of a threadgroup of at most `most`: the outer extents shrink first.
fn fitting(wanted: [u32; 3], most: u32) -> [u32; 3] {
    let mut left = most.max(1);
    wanted.map(|extent| {
        let extent = extent.min(left);
        left /= extent;
        extent
    })
}

#[cfg(test)]
mod tests {
    use super::{fill, fitting, texels};

    #[test]
    fn buffers_are_full_of_a_number_or_a_ramp() {
        let bytes = |text: &str| fill(text).map(|it| it.bytes(5));
        assert_eq!(bytes("u32:0"), Ok(vec![0; 5]));
        assert_eq!(bytes("u16:258"), Ok(vec![2, 1, 2, 1, 2]));
        assert_eq!(bytes("u8:ramp"), Ok(vec![0, 1, 2, 3, 4]));
        for wrong in ["", "1", "u32", "u32:", "u8:256", "u99:1", "x.npy:1"] {
            assert!(fill(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_of_textures_have_ends() {
        assert_eq!(texels("3,16384"), Ok([3, 16384]));
        for wrong in ["3", "0,1", "1,16385", "1,2,3", "-1,1"] {
            assert!(texels(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_threadgroup_shrinks_to_what_a_kernel_takes() {
        assert_eq!(fitting([64, 1, 1], 1024), [64, 1, 1]);
        assert_eq!(fitting([64, 32, 2], 1024), [64, 16, 1]);
        assert_eq!(fitting([64, 2, 2], 32), [32, 1, 1]);
    }
}
