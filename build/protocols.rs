//! Which protocols of Objective-C a file has the data of. clang writes that of all that a file sees into each file, and
//! the runtime registers all of it before `main`. Only a class that adopts a protocol needs it.

use std::path::{Path, PathBuf};

/// Whose protocols the classes of a file adopt.
#[derive(Clone, Copy, PartialEq)]
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

    /// Files that are compiled alike.
    pub fn groups(sources: Vec<PathBuf>) -> impl Iterator<Item = (Adopts, Vec<PathBuf>)> {
        let groups = [Adopts::None, Adopts::Metal, Adopts::Foundation].into_iter();
        groups.map(move |adopts| {
            let of_them = sources.iter().filter(|source| Adopts::of(source) == adopts);
            (adopts, of_them.cloned().collect())
        })
    }

    /// The compiler's, where Metal's headers are ours.
    pub fn flags(self) -> &'static [&'static str] {
        const WITHOUT_FOUNDATION: &str = "-includenative/softmetal/headers/foundation_messages.h";
        match self {
            Adopts::None => &["-DMTL_MESSAGES_ONLY", WITHOUT_FOUNDATION],
            Adopts::Metal => &[WITHOUT_FOUNDATION],
            Adopts::Foundation => &[],
        }
    }
}
