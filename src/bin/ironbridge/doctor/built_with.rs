//! What the build script found and used, as it said when this program was built.

use std::io::{self, Write};

use serde_json::{Value, json};

pub struct BuiltWith {
    compiler: Option<Compiler>,
    /// Both are absent on a Mac, whose Foundation and runtime are Apple's.
    gnustep: Option<GnuStep>,
    libobjc: Option<Runtime>,
}

struct Compiler {
    path: &'static str,
    version: &'static str,
}

struct GnuStep {
    version: &'static str,
    include: &'static str,
    found_by: &'static str,
}

struct Runtime {
    version: &'static str,
    folder: &'static str,
}

impl BuiltWith {
    /// Everything is absent where nothing native was built (`IRONBRIDGE_CHECK_ONLY`).
    pub fn read() -> BuiltWith {
        let compiler = || {
            Some(Compiler {
                path: option_env!("IRONBRIDGE_BUILT_BY")?,
                version: option_env!("IRONBRIDGE_BUILT_BY_VERSION")?,
            })
        };
        let gnustep = || {
            Some(GnuStep {
                version: option_env!("IRONBRIDGE_BUILT_WITH_GNUSTEP_VERSION")?,
                include: option_env!("IRONBRIDGE_BUILT_WITH_GNUSTEP")?,
                found_by: option_env!("IRONBRIDGE_BUILT_WITH_GNUSTEP_FOUND_BY")?,
            })
        };
        let libobjc = || {
            Some(Runtime {
                version: option_env!("IRONBRIDGE_BUILT_WITH_LIBOBJC_VERSION")?,
                folder: option_env!("IRONBRIDGE_BUILT_WITH_LIBOBJC")?,
            })
        };
        BuiltWith {
            compiler: compiler(),
            gnustep: gnustep(),
            libobjc: libobjc(),
        }
    }

    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if let Some(Compiler { path, version }) = &self.compiler {
            writeln!(out, "built by    {path} ({version})")?;
        }
        if let Some(gnustep) = &self.gnustep {
            let found_by = match gnustep.found_by {
                "search" => "a search of the usual folders",
                tool => tool,
            };
            writeln!(
                out,
                "GNUstep     {}, headers in {}, found by {found_by}",
                gnustep.version, gnustep.include
            )?;
        }
        if let Some(Runtime { version, folder }) = &self.libobjc {
            writeln!(out, "libobjc     GCC {version}'s, in {folder}")?;
        }
        Ok(())
    }

    pub fn json(&self) -> Value {
        json!({
            "compiler": self.compiler.as_ref().map(|compiler| json!({
                "path": compiler.path,
                "version": compiler.version,
            })),
            "gnustep": self.gnustep.as_ref().map(|gnustep| json!({
                "version": gnustep.version,
                "include": gnustep.include,
                "found_by": gnustep.found_by,
            })),
            "libobjc": self.libobjc.as_ref().map(|libobjc| json!({
                "version": libobjc.version,
                "folder": libobjc.folder,
            })),
        })
    }
}
