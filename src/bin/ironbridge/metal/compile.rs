//! How a Metal source is compiled: the options that `check`, `run` and `trial` share.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use ironbridge::Device;
use ironbridge::kernel::{Constant, Library, MathMode, Options};

use super::argument::{TypedConstant, constant};
use crate::input::read_text;

#[derive(Args, Clone, Debug)]
pub struct CompileOptions {
    /// A folder with files that the source includes; the source's own folder comes first
    #[arg(short = 'I', long = "include", value_name = "FOLDER")]
    include: Vec<PathBuf>,
    /// A macro that the source knows, by itself 1
    #[arg(short = 'D', long = "define", value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// A file whose text goes before each source, as a host program puts it there; may be given several times
    #[arg(long, value_name = "FILE")]
    prefix: Vec<PathBuf>,
    /// The version of the Metal Shading Language, as Apple's compiler names it; else the newest that there is
    #[arg(long, value_name = "metal3.1", value_parser = language_version)]
    std: Option<u32>,
    /// What the compiler may do with floating-point numbers
    #[arg(long, value_enum, default_value_t = Math::Default)]
    math: Math,
    /// The value of a function constant by its index or name, as 3=u32:7 or tile=u16:8,8; types: bool, i8 to u64, f16,
    /// bf16, f32
    #[arg(long, value_name = "CONSTANT=TYPE:VALUE", value_parser = constant)]
    constant: Vec<TypedConstant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Math {
    Default,
    Safe,
    Relaxed,
    Fast,
}

/// `metal3.1`, also with the name of a system before it.
fn language_version(text: &str) -> Result<u32, String> {
    let version = text
        .strip_prefix("macos-")
        .or(text.strip_prefix("ios-"))
        .unwrap_or(text);
    let number = version.strip_prefix("metal").and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        (major < 10 && minor < 10).then_some(100 * major + 10 * minor)
    });
    number.ok_or_else(|| String::from("versions are metal2.4, metal3.0, metal3.1 and the like"))
}

impl CompileOptions {
    /// Compiles a file. The error of the source is [`ironbridge::Error::Compile`].
    pub fn library(&self, device: &Device, file: &Path) -> Result<Library, Box<dyn Error>> {
        // An empty text is none to a device, and an empty file is a source without kernels.
        let source = Some(read_text(Some(file))?).filter(|text| !text.is_empty());
        let mut source = source.unwrap_or_else(|| String::from("\n"));
        if !self.prefix.is_empty() {
            let mut whole = String::new();
            for prefix in &self.prefix {
                whole += &read_text(Some(prefix))?;
                whole += "\n";
            }
            // Messages have the lines of the source itself.
            source = whole + "#line 1\n" + &source;
        }
        let mut options = Options::default()
            .include_folder(file.parent().unwrap_or(Path::new("")))
            .math_mode(match self.math {
                Math::Default => MathMode::Default,
                Math::Safe => MathMode::Safe,
                Math::Relaxed => MathMode::Relaxed,
                Math::Fast => MathMode::Fast,
            });
        for folder in &self.include {
            options = options.include_folder(folder);
        }
        for define in &self.define {
            let (name, value) = define.split_once('=').unwrap_or((define, "1"));
            options = options.macro_value(name, value);
        }
        if let Some(version) = self.std {
            options = options.language_version(version);
        }
        Ok(Library::with_options(device, &source, &options)?)
    }

    pub fn constants(&self) -> Vec<Constant> {
        let constants = self.constant.iter();
        constants.map(|typed| typed.constant.clone()).collect()
    }

    /// The same options for another process of this program.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        for folder in &self.include {
            arguments.extend(["-I".into(), folder.as_os_str().to_owned()]);
        }
        for define in &self.define {
            arguments.extend(["-D".into(), define.into()]);
        }
        for prefix in &self.prefix {
            arguments.extend(["--prefix".into(), prefix.as_os_str().to_owned()]);
        }
        if let Some(version) = self.std {
            let (major, minor) = (version / 100, version % 100 / 10);
            arguments.push(format!("--std=metal{major}.{minor}").into());
        }
        let math = match self.math {
            Math::Default => "default",
            Math::Safe => "safe",
            Math::Relaxed => "relaxed",
            Math::Fast => "fast",
        };
        arguments.push(format!("--math={math}").into());
        for constant in &self.constant {
            arguments.push(format!("--constant={}", constant.text).into());
        }
        arguments
    }
}
