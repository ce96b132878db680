//! Which protocols of Objective-C a file has the data of. clang writes that of all that a file sees into each file, and
//! the runtime registers all of it before `main`. Only a class that adopts a protocol needs it.

use std::path::{Path, PathBuf};

/// Whose protocols the classes of a file adopt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Adopts {
    None,
    Metal,
    Foundation,
}

impl Adopts {
    fn of(source: &Path) -> Adopts {
        // Metal's classes can be copied: NSCopying.
        let classes_of_metal = ["SoftConstants.m", "MetalClasses.m"];
        if source.starts_with("native/bridge") {
            Adopts::None
        } else if classes_of_metal.iter().any(|name| source.ends_with(name)) {
            Adopts::Foundation
        } else {
            Adopts::Metal
        }
    }

    /// Files that are compiled alike. Those in C, which see no protocol, need nothing of it.
    pub fn groups(sources: Vec<PathBuf>) -> impl Iterator<Item = (Adopts, Vec<PathBuf>)> {
        let is_c = |source: &Path| source.extension().is_some_and(|kind| kind == "c");
        let groups = [Adopts::None, Adopts::Metal, Adopts::Foundation].into_iter();
        groups.map(move |adopts| {
            let of_them = sources.iter().filter(|source| match is_c(source) {
                true => adopts == Adopts::Foundation,
                false => Adopts::of(source) == adopts,
            });
            (adopts, of_them.cloned().collect())
        })
    }

    /// Gives a group the compiler's flags, where Metal's headers are ours.
    pub fn configure(self, group: &mut cc::Build, out: &Path) {
        if self == Adopts::None {
            group.flag("-DMTL_MESSAGES_ONLY");
        }
        if self != Adopts::Foundation {
            let compiled = out.join(format!("foundation_messages_{self:?}.pch"));
            match precompile(group, &compiled) {
                true => group.flag("-include-pch").flag(&compiled),
                false => group.flag("-include").flag(WITHOUT_FOUNDATION),
            };
        }
    }
}

const WITHOUT_FOUNDATION: &str = "native/softmetal/headers/foundation_messages.h";

/// Compiles the header that every file of a group begins with. Whether that is possible.
fn precompile(group: &cc::Build, compiled: &Path) -> bool {
    let Ok(compiler) = group.try_get_compiler() else {
        return false;
    };
    let mut command = compiler.to_command();
    command.args(["-x", "objective-c-header", WITHOUT_FOUNDATION, "-o"]);
    command.arg(compiled);
    command.output().is_ok_and(|output| output.status.success())
}
