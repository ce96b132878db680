//! The build script's search for GNUstep and GCC's Objective-C runtime, over trees of empty files and the tools' own
//! answers; and what it refuses.

#[path = "../../build/deployment.rs"]
mod deployment;
#[path = "../../build/gnustep.rs"]
mod gnustep;

use std::fs;
use std::path::{Path, PathBuf};

use gnustep::{Flags, GnuStep, Runtime, System, multiarch};
use tempfile::TempDir;

/// `gnustep-config --objc-flags` and `--base-libs` on Debian 12.
const DEBIAN_12: &str = "\
    -MMD -MP -DGNUSTEP -DGNUSTEP_BASE_LIBRARY=1 -DGNU_RUNTIME=1 -DGNUSTEP_BASE_LIBRARY=1 \
    -fno-strict-aliasing -fexceptions -fobjc-exceptions -D_NATIVE_OBJC_EXCEPTIONS -pthread -fPIC -Wall \
    -DGSWARN -DGSDIAGNOSE -Wno-import -g -O2 -fconstant-string-class=NSConstantString -I. \
    -I/root/GNUstep/Library/Headers -I/usr/local/include/GNUstep -I/usr/include/GNUstep\n-shared-libgcc \
    -pthread -fexceptions -rdynamic -L/root/GNUstep/Library/Libraries -L/usr/local/lib -L/usr/lib \
    -lgnustep-base -lobjc -lm\n";

/// The same on Debian 13.
const DEBIAN_13: &str = "\
    -MMD -MP -DGNUSTEP -DGNUSTEP_BASE_LIBRARY=1 -DGNU_RUNTIME=1 -DGNUSTEP_BASE_LIBRARY=1 \
    -fno-strict-aliasing -fexceptions -fobjc-exceptions -D_NATIVE_OBJC_EXCEPTIONS -pthread -fPIC -Wall \
    -DGSWARN -DGSDIAGNOSE -Wno-import -g -O2 -fconstant-string-class=NSConstantString -I. \
    -I/root/GNUstep/Library/Headers -I/usr/local/include/GNUstep -I/usr/include/x86_64-linux-gnu/GNUstep \
    -I/usr/include\n-shared-libgcc -pthread -fexceptions -rdynamic -L/root/GNUstep/Library/Libraries \
    -L/usr/local/lib -L/usr/lib/x86_64-linux-gnu -L/usr/lib -lgnustep-base -lobjc -lm\n";

/// In the manner of Fedora, which puts Foundation into /usr/include and libraries into /usr/lib64.
const FEDORA: &str = "\
    -MMD -MP -DGNUSTEP -DGNU_RUNTIME=1 -fexceptions -fobjc-exceptions -D_NATIVE_OBJC_EXCEPTIONS -pthread \
    -fPIC -specs=/usr/lib/rpm/redhat/redhat-hardened-cc1 -I. -I/usr/local/include -I/usr/include \
    -isystem /usr/lib/gcc/x86_64-redhat-linux/15/include\n-L/usr/local/lib64 -L /usr/lib64 \
    -lgnustep-base -lobjc -lm\n";

/// A GNUstep that was built for libobjc2.
const LIBOBJC2: &str = "\
    -MMD -MP -DGNUSTEP -DGNUSTEP_RUNTIME=1 -D_NONFRAGILE_ABI=1 -fexceptions -fobjc-runtime=gnustep-2.2 \
    -fblocks -I/usr/local/include/GNUstep\n-L/usr/local/lib -lgnustep-base -lobjc -lm\n";

const GSCONFIG: &str =
    "/* */\n#define GNUSTEP_BASE_MAJOR_VERSION 1\n#define GNUSTEP_BASE_VERSION            1.31.1\n";

const X86: &str = "x86_64-unknown-linux-gnu";

/// A root folder with these files, and no tool that knows anything.
fn system(target: &str, files: &[&str]) -> (TempDir, System) {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(
            path,
            if file.ends_with("GSConfig.h") {
                GSCONFIG
            } else {
                ""
            },
        )
        .unwrap();
    }
    let system = System {
        root: root.path().into(),
        target: target.into(),
        multiarch: None,
        gnustep_config: Err("not installed".into()),
        pkg_config: Err("not installed".into()),
        installed: None,
    };
    (root, system)
}

fn parse(text: &str) -> Flags {
    Flags::parse(text, Path::new("/"))
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn of_a_tools_flags_only_absolute_folders_are_taken() {
    let debian_12 = parse(DEBIAN_12);
    assert_eq!(
        debian_12.includes,
        paths(&[
            "/root/GNUstep/Library/Headers",
            "/usr/local/include/GNUstep",
            "/usr/include/GNUstep"
        ])
    );
    assert_eq!(
        debian_12.libraries,
        paths(&[
            "/root/GNUstep/Library/Libraries",
            "/usr/local/lib",
            "/usr/lib"
        ])
    );
    assert_eq!(debian_12.other_runtime, None);

    // GCC's own headers are not for clang, and an option may stand apart from its folder.
    let fedora = parse(FEDORA);
    assert_eq!(
        fedora.includes,
        paths(&["/usr/local/include", "/usr/include"])
    );
    assert_eq!(fedora.libraries, paths(&["/usr/local/lib64", "/usr/lib64"]));

    assert_eq!(parse("-I -L"), Flags::default());
    assert_eq!(parse(""), Flags::default());
}

#[test]
fn debian_12_and_13_are_found_by_gnustep_config() {
    for (answer, folder) in [
        (DEBIAN_12, "usr/include/GNUstep"),
        (DEBIAN_13, "usr/include/x86_64-linux-gnu/GNUstep"),
    ] {
        let header = format!("{folder}/Foundation/Foundation.h");
        let config = format!("{folder}/GNUstepBase/GSConfig.h");
        let library = "usr/lib/libgnustep-base.so";
        let (root, mut system) = system(X86, &[&header, &config, library]);
        system.gnustep_config = Ok(answer.into());
        assert_eq!(
            GnuStep::find(&system),
            Ok(GnuStep {
                include: root.path().join(folder),
                found_by: "gnustep-config",
                version: "1.31.1".into(),
                // Those of the answer that are not there, and those that compilers search anyway, are left out.
                includes: vec![root.path().join(folder)],
                libraries: vec![root.path().join("usr/lib")],
            })
        );
    }
}

#[test]
fn a_folder_that_compilers_search_anyway_is_not_put_before_their_own() {
    let (root, mut system) = system(X86, &["usr/include/Foundation/Foundation.h"]);
    for (answer, found_by) in [
        (Ok(FEDORA.into()), "gnustep-config"),
        (Err("".into()), "search"),
    ] {
        system.gnustep_config = answer;
        let found = GnuStep::find(&system).unwrap();
        assert_eq!(found.include, root.path().join("usr/include"));
        assert_eq!(found.found_by, found_by);
        assert_eq!(found.includes, paths(&[]));
        assert_eq!(found.version, "unknown");
    }
}

#[test]
fn pkg_config_is_believed_where_gnustep_config_leads_nowhere() {
    let header = "opt/gnustep/include/Foundation/Foundation.h";
    let (root, mut system) = system(X86, &[header, "opt/gnustep/lib/libgnustep-base.so"]);
    system.gnustep_config = Ok(DEBIAN_12.into());
    system.pkg_config = Ok("-I/opt/gnustep/include -L/opt/gnustep/lib -lgnustep-base".into());
    let found = GnuStep::find(&system).unwrap();
    assert_eq!(found.found_by, "pkg-config");
    assert_eq!(found.includes, [root.path().join("opt/gnustep/include")]);
    assert_eq!(found.libraries, [root.path().join("opt/gnustep/lib")]);
}

/// Debian 13 without `gnustep-config`, and arm64's packages in a sysroot.
#[test]
fn the_targets_own_folder_is_searched() {
    for (target, triplet) in [
        (X86, "x86_64-linux-gnu"),
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
        ("i686-unknown-linux-gnu", "i386-linux-gnu"),
        ("riscv64gc-unknown-linux-gnu", "riscv64-linux-gnu"),
        ("armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf"),
    ] {
        assert_eq!(multiarch(target).as_deref(), Some(triplet));
        let header = format!("usr/include/{triplet}/GNUstep/Foundation/Foundation.h");
        let (root, system) = system(target, &[&header]);
        let found = GnuStep::find(&system).unwrap();
        let folder = root.path().join(format!("usr/include/{triplet}/GNUstep"));
        assert_eq!(found.include, folder);
        assert_eq!(found.found_by, "search");
        assert_eq!(found.includes, [folder]);
    }

    // The compiler may know better than the name of the target.
    let header = "usr/include/x86_64-other-gnu/GNUstep/Foundation/Foundation.h";
    let (_root, mut other) = system(X86, &[header]);
    assert!(GnuStep::find(&other).is_err());
    other.multiarch = Some("x86_64-other-gnu".into());
    assert!(GnuStep::find(&other).is_ok());

    let (_root, elsewhere) = system("aarch64-unknown-linux-gnu", &[header]);
    assert!(GnuStep::find(&elsewhere).is_err());
}

#[test]
fn an_error_names_the_folders_and_the_package() {
    let (root, mut system) = system(X86, &[]);
    let error = GnuStep::find(&system).unwrap_err();
    for part in [
        "Foundation/Foundation.h",
        "gnustep-config: not installed",
        "pkg-config: not installed",
        "/usr/include/x86_64-linux-gnu/GNUstep",
        "/usr/include/GNUstep",
        "libgnustep-base-dev on Debian and Ubuntu, gnustep-base-devel on Fedora",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    assert!(error.contains(root.path().to_str().unwrap()), "{error}");

    system.installed = Some(|_| None);
    let error = GnuStep::find(&system).unwrap_err();
    assert!(
        error.contains("libgnustep-base-dev, which is not installed here"),
        "{error}"
    );

    // What is installed is not said to be missing.
    system.installed =
        Some(|package| (package == "libgnustep-base-dev").then(|| "1.31.1-3".into()));
    let error = GnuStep::find(&system).unwrap_err();
    assert!(
        error.contains("libgnustep-base-dev 1.31.1-3 is installed here"),
        "{error}"
    );
    for part in ["missing", "not installed here", "apt install"] {
        assert!(!error.contains(part), "{part:?} is in {error}");
    }
    let packages = system.packages();
    assert!(
        packages.contains("libgnustep-base-dev 1.31.1-3 is installed here"),
        "{packages}"
    );
    assert!(
        packages.contains("apt install libblocksruntime-dev"),
        "{packages}"
    );
}

#[test]
fn gccs_runtime_is_the_newest_whole_one_of_the_targets_processor() {
    let (root, debian) = system(
        X86,
        &[
            "usr/lib/gcc/x86_64-linux-gnu/9/include/objc/objc.h",
            "usr/lib/gcc/x86_64-linux-gnu/9/libobjc.so",
            "usr/lib/gcc/x86_64-linux-gnu/14/include/objc/objc.h",
            "usr/lib/gcc/x86_64-linux-gnu/14/libobjc.so",
            "usr/lib/gcc/x86_64-linux-gnu/15/crtbegin.o",
            "usr/lib/gcc/aarch64-linux-gnu/16/include/objc/objc.h",
            "usr/lib/gcc/aarch64-linux-gnu/16/libobjc.so",
        ],
    );
    let folder = root.path().join("usr/lib/gcc/x86_64-linux-gnu/14");
    assert_eq!(
        Runtime::find(&debian),
        Ok(Runtime {
            headers: folder.join("include/objc"),
            library: folder,
            version: "14".into(),
        })
    );

    // Arch has the headers in GCC's folder and the library with all others.
    let arch = [
        "usr/lib/gcc/x86_64-pc-linux-gnu/15.2.1/include/objc/objc.h",
        "usr/lib/libobjc.so",
    ];
    let (root, arch) = system(X86, &arch);
    let runtime = Runtime::find(&arch).unwrap();
    assert_eq!(runtime.library, root.path().join("usr/lib"));
    assert_eq!(runtime.version, "15.2.1");
}

#[test]
fn a_runtime_that_is_not_there_or_not_whole_is_told_by_its_package() {
    let (_root, mut bare) = system(X86, &["usr/lib/gcc/x86_64-linux-gnu/13/crtbegin.o"]);
    bare.installed = Some(|_| None);
    let error = Runtime::find(&bare).unwrap_err();
    for part in [
        "objc/objc.h",
        "usr/lib/gcc/x86_64-linux-gnu/13/include/objc",
        "apt install libobjc-13-dev",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    let header = "usr/lib/gcc/x86_64-linux-gnu/13/include/objc/objc.h";
    let (_root, half) = system(X86, &[header]);
    let error = Runtime::find(&half).unwrap_err();
    for part in [
        "libobjc.so",
        "/usr/lib/x86_64-linux-gnu",
        "gcc-objc on Fedora",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

#[test]
fn a_gnustep_for_libobjc2_is_refused_with_the_reason() {
    let files = [
        "usr/local/include/GNUstep/Foundation/Foundation.h",
        "usr/local/include/objc/objc-arc.h",
    ];
    let (_root, mut system) = system(X86, &files);
    let error = Runtime::find(&system).unwrap_err();
    assert!(error.contains("built for libobjc2"), "{error}");
    assert!(
        error.contains("usr/local/include/objc/objc-arc.h"),
        "{error}"
    );

    system.gnustep_config = Ok(LIBOBJC2.into());
    let error = GnuStep::find(&system).unwrap_err();
    assert!(
        error.contains("gnustep-config answers -DGNUSTEP_RUNTIME=1"),
        "{error}"
    );
    assert!(error.contains("gcc-objc"), "{error}");
}

#[test]
fn b9_a_mac_older_than_the_bridge_runs_on_is_no_target() {
    for target in [None, Some("13.0"), Some("13"), Some("26.1")] {
        assert_eq!(deployment::check(target), Ok(()), "{target:?}");
    }
    for target in ["11.0", "12.7.6", "10.15"] {
        let error = deployment::check(Some(target)).expect_err(target);
        assert!(error.contains(target) && error.contains("13.0"), "{error}");
    }
    assert!(
        deployment::check(Some("new"))
            .expect_err("no version")
            .contains("\"new\"")
    );
}

/// Cargo hands what the build script sets for the compiler to the programs of `cargo run` and `cargo test`, too. There
/// it would hide what the variable means to them, such as the search for a compiler of Metal source.
#[test]
fn the_build_sets_no_variable_that_is_read_at_run_time() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut set = Vec::new();
    for entry in fs::read_dir(root.join("build")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        set.extend(text.split("rustc-env=").skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_');
            String::from(&rest[..end.unwrap_or(rest.len())])
        }));
    }
    assert!(
        set.contains(&String::from("IRONBRIDGE_NATIVE_CLANG")),
        "{set:?}"
    );
    let documented = fs::read_to_string(root.join("docs/ENVIRONMENT.md")).unwrap();
    assert!(documented.contains("`IRONBRIDGE_CLANG`"));
    for name in set.iter().filter(|name| !name.is_empty()) {
        assert!(!documented.contains(&format!("`{name}`")), "{name}");
    }
}
