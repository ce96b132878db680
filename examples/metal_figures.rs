//! The figures of docs/perf: how long Metal source takes to compile on the software device, and how fast kernels run
//! there, from source and native.
//!
//! `cargo run --release --example metal_figures`. Takes about a minute; says at the end how busy the machine was.

use std::env;
use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use ironbridge::kernel::Library;
use ironbridge::ops::{
    Argmax, Attention, CopyRows, Elementwise, Embedding, Matmul, RmsNorm, Rope, Softmax, Transpose,
};
use ironbridge::{Commands, DType, Device, f16};

type Outcome = Result<(), Box<dyn Error>>;

macro_rules! texts {
    ($($file:literal)*) => { [$(($file, include_str!(concat!("../native/kernels/", $file)))),*] };
}
const HEADERS: [(&str, &str); 5] = texts!["args.h" "blocks.h" "caches.h" "plain.h" "tiles.h"];
/// With a kernel of each.
const SOURCES: [((&str, &str), &str); 18] = {
    let texts = texts![
        "activation.metal" "add_bias.metal" "argmax.metal" "attention.metal" "attention_split.metal" "attention_tiled.metal"
        "copy.metal" "elementwise.metal" "embedding.metal" "matmul.metal" "matmul_blocks.metal" "matmul_tiled.metal"
        "matvec.metal" "matvec_blocks.metal" "rms_norm.metal" "rope.metal" "softmax.metal" "transpose.metal"
    ];
    let kernels = [
        "tanh",
        "add_bias",
        "argmax",
        "attention_f16",
        "attention_split_f16",
        "attention_tiled_64_f16",
        "copy_f32_f16",
        "silu_mul",
        "embedding_q8_0",
        "matmul_f32_f32",
        "matmul_tiled_q4_k_f32",
        "matmul_tiled_f16_f16",
        "matvec_f16_f32",
        "matvec_q4_k_f32",
        "rms_norm",
        "rope",
        "softmax",
        "transpose_32",
    ];
    let mut all = [(("", ""), ""); 18];
    let mut index = 0;
    while index < all.len() {
        all[index] = (texts[index], kernels[index]);
        index += 1;
    }
    all
};

fn main() -> Outcome {
    match env::args().nth(1).as_deref() {
        Some("throughput") => return throughput(),
        Some("compile") => return compile(),
        _ => {}
    }
    // Each part in a process of its own, with a cache of its own.
    let cache = env::temp_dir().join(format!("ironbridge-figures-{}", std::process::id()));
    let part = |what: &str, kernels: &str| -> Result<String, Box<dyn Error>> {
        let output = Command::new(env::current_exe()?)
            .arg(what)
            .env("IRONBRIDGE_DEVICE", "cpu")
            .env("IRONBRIDGE_SOFT_KERNELS", kernels)
            .env("IRONBRIDGE_THREADS", "1")
            .env("XDG_CACHE_HOME", &cache)
            .output()?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    };
    std::fs::create_dir_all(&cache)?;
    print!("{}", part("compile", "msl")?);
    let (metal, native) = (part("throughput", "msl")?, part("throughput", "native")?);
    std::fs::remove_dir_all(&cache)?;
    println!(
        "\n| one thread, through the bridge | Metal source | native | unit |\n| --- | --- | --- | --- |"
    );
    for (metal, native) in metal.lines().zip(native.lines()) {
        let [name, unit, metal] = fields(metal)?;
        let [_, _, native] = fields(native)?;
        println!("| {name} | {metal} | {native} | {unit} |");
    }
    let info = Device::open("cpu")?.info()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    println!("\n{}, load {load}", info.name);
    Ok(())
}

fn fields(line: &str) -> Result<[&str; 3], String> {
    let fields: Vec<&str> = line.split('\t').collect();
    fields
        .try_into()
        .map_err(|_| format!("{line:?} is no line of three fields"))
}

/// A source with its headers in place, as the build embeds it.
fn inlined(text: &str) -> String {
    let mut whole = String::new();
    for line in text.lines() {
        let included = line
            .strip_prefix("#include \"")
            .and_then(|rest| rest.strip_suffix('"'));
        let header = HEADERS.iter().find(|(name, _)| Some(*name) == included);
        whole += header.map_or(line, |(_, text)| text);
        whole.push('\n');
    }
    whole
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    match milliseconds < 10.0 {
        true => format!("{milliseconds:.1}"),
        false => format!("{milliseconds:.0}"),
    }
}

fn compile() -> Outcome {
    let device = Device::open("cpu")?;
    println!(
        "| source, ms | library cold | cached | one kernel of it | cold | cached |\n| --- | --- | --- | --- | --- | --- |"
    );
    let mut totals = [Duration::ZERO; 4];
    for ((file, text), kernel) in SOURCES {
        let source = inlined(text);
        let mut times = [Duration::ZERO; 4];
        for round in 0..2 {
            let start = Instant::now();
            let library = Library::from_source(&device, &source)?;
            times[round] = start.elapsed();
            let start = Instant::now();
            library.kernel(kernel)?;
            times[2 + round] = start.elapsed();
        }
        let [cold, cached, kernel_cold, kernel_cached] = times.map(milliseconds);
        println!("| {file} | {cold} | {cached} | {kernel} | {kernel_cold} | {kernel_cached} |");
        totals
            .iter_mut()
            .zip(times)
            .for_each(|(total, time)| *total += time);
    }
    let [cold, cached, kernel_cold, kernel_cached] = totals.map(milliseconds);
    println!("| all of these | {cold} | {cached} | | {kernel_cold} | {kernel_cached} |");
    Ok(())
}

/// Runs an operation for about a second at most and prints how much work it does in a second: name, unit and figure.
fn measure(
    device: &Device,
    name: &str,
    work: usize,
    unit: &str,
    record: impl Fn(&mut Commands) -> ironbridge::Result<()>,
) -> Outcome {
    let once = || -> ironbridge::Result<Duration> {
        let start = Instant::now();
        let mut commands = device.commands()?;
        record(&mut commands)?;
        commands.run()?;
        Ok(start.elapsed())
    };
    once()?; // compiles
    let mut best = once()?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(600) {
        best = best.min(once()?);
    }
    println!(
        "{name}\t{unit}\t{:.3}",
        work as f64 / best.as_secs_f64() / 1e9
    );
    Ok(())
}

fn throughput() -> Outcome {
    let device = Device::open("cpu")?;
    let memory = device.buffer_from(&vec![0.5f32; 1 << 20])?;
    let other = device.buffer_from(&vec![0.25f32; 1 << 20])?;
    let out = device.buffer::<f32>(1 << 20)?;
    let halves = device.buffer_from(&vec![f16::from_f32(0.5); 1 << 20])?;
    let bytes = device.buffer::<u8>(1 << 20)?;
    let ids = device.buffer::<u32>(1 << 10)?;

    const FLOPS: &str = "GFLOP/s";
    let weights = [
        ("f32", other.tensor()),
        ("f16", halves.tensor()),
        ("Q8_0", bytes.tensor_at(0, DType::Q8_0)),
        ("Q4_K", bytes.tensor_at(0, DType::Q4K)),
    ];
    for (kind, m) in [
        ("in tiles, m = 64", 64),
        ("narrow, m = 4", 4),
        ("mat-vec", 1),
    ] {
        let (n, k) = (512, 1024);
        for (ty, b) in weights {
            let matmul = Matmul::new(
                memory.matrix(m, k),
                b.matrix(n, k).transposed(),
                out.matrix(m, n),
            );
            let name = format!("matrix product {kind}, {ty} weights");
            measure(&device, &name, 2 * m * n * k, FLOPS, |commands| {
                commands.matmul(&matmul)
            })?;
        }
    }
    for (kind, tokens, positions) in [
        ("in tiles, 128 queries", 128, 128),
        ("of one query to 128 keys", 1, 128),
        ("in pieces, of one query to 1024 keys", 1, 1024),
    ] {
        let (heads, kv_heads, head_dim) = (8, 2, 64);
        let attention = Attention::new(
            memory.matrix(tokens, heads * head_dim),
            halves.matrix(positions, kv_heads * head_dim),
            halves.matrix(positions, kv_heads * head_dim),
            out.matrix(tokens, heads * head_dim),
            head_dim,
        );
        let keys = (0..tokens).map(|token| positions - tokens + token + 1);
        let work = 4 * heads * head_dim * keys.sum::<usize>();
        let name = format!("attention {kind}, f16 cache");
        measure(&device, &name, work, FLOPS, |commands| {
            commands.attention(&attention)
        })?;
    }

    const ELEMENTS: &str = "G elements/s";
    let (rows, width) = (128, 2048);
    let count = rows * width;
    let (x, y) = (memory.tensor(), out.tensor());
    measure(&device, "rms_norm", count, ELEMENTS, |commands| {
        commands.rms_norm(&RmsNorm::new(
            x.matrix(rows, width),
            other.tensor().vector(width),
            y.matrix(rows, width),
            1e-5,
        ))
    })?;
    measure(&device, "softmax", count, ELEMENTS, |commands| {
        commands.softmax(&Softmax::new(x.matrix(rows, width), y.matrix(rows, width)))
    })?;
    measure(&device, "rope", count, ELEMENTS, |commands| {
        commands.rope(&Rope::new(
            y.matrix(rows, width),
            ids.tensor().vector(rows),
            64,
            1e4,
        ))
    })?;
    let elementwise = Elementwise::new(
        x.vector(count),
        other.tensor().vector(count),
        y.vector(count),
    );
    measure(&device, "add", count, ELEMENTS, |commands| {
        commands.add(&elementwise)
    })?;
    measure(&device, "silu_mul", count, ELEMENTS, |commands| {
        commands.silu_mul(&elementwise)
    })?;
    measure(&device, "copy, f32 to f16", count, ELEMENTS, |commands| {
        commands.copy(&CopyRows::new(
            x.matrix(rows, width),
            halves.matrix(rows, width),
        ))
    })?;
    measure(&device, "copy, f32 to Q8_0", count, ELEMENTS, |commands| {
        commands.copy(&CopyRows::new(
            x.matrix(rows, width),
            bytes.tensor_at(0, DType::Q8_0).matrix(rows, width),
        ))
    })?;
    measure(&device, "transpose", count, ELEMENTS, |commands| {
        commands.transpose(&Transpose::new(
            x.matrix(rows, width),
            y.matrix(width, rows),
        ))
    })?;
    measure(&device, "embedding, Q8_0", count, ELEMENTS, |commands| {
        commands.embedding(&Embedding::new(
            bytes.tensor_at(0, DType::Q8_0).matrix(16, width),
            ids.tensor().vector(rows),
            y.matrix(rows, width),
        ))
    })?;
    measure(&device, "argmax", count, ELEMENTS, |commands| {
        commands.argmax(&Argmax::new(
            x.matrix(rows, width),
            ids.tensor().vector(rows),
        ))
    })
}
