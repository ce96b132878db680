//! `ironbridge metal`: sources of other people, good and bad.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// In a folder with `files`.
struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[(&str, &str)]) -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            let parent = path.parent().expect("a folder");
            std::fs::create_dir_all(parent).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        Place(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// `ironbridge metal` with arguments that spaces part.
    fn metal(&self, arguments: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_ironbridge"))
            .arg("metal")
            .args(arguments.split(' '))
            .current_dir(self.path())
            .env_remove("IRONBRIDGE_DEVICE")
            .output()
            .expect("the command line starts")
    }

    fn json(&self, arguments: &str) -> Value {
        let output = self.metal(arguments);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)))
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

const HEADER: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

fn source(text: &str) -> String {
    format!("{HEADER}{text}")
}

#[test]
fn errors_are_printed_as_a_compiler_prints_them() {
    let broken = source(
        "kernel void k(device float *out [[buffer(0)]]) {\n  out[0] = missing;\n  out[1] = absent;\n}\n",
    );
    let good = source("kernel void g(device float *out [[buffer(0)]]) { out[0] = 1; }\n");
    let place = Place::new(&[("dir/broken.metal", &broken), ("good.metal", &good)]);
    let output = place.metal("check dir/broken.metal good.metal");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "dir/broken.metal:4:12: error: use of undeclared identifier 'missing'\n  out[0] = missing;\n           ^\n\
         dir/broken.metal:5:12: error: use of undeclared identifier 'absent'\n  out[1] = absent;\n           ^\n"
    );
    assert_eq!(
        stdout(&output),
        "1 of 2 files compile, and 1 of 1 kernels; 2 errors, 0 warnings\n"
    );
    let output = place.metal("check good.metal");
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
}

/// Each target finds what is its own, and what is wrong for all is told once.
#[test]
fn sources_are_checked_for_every_target() {
    let text = source(
        "float first(device const float *p) { return p[0]; }\n\
         kernel void spaces(device float *o [[buffer(0)]]) { float t[1] = {1}; o[0] = first(t); }\n\
         kernel void textures(texture2d<float> t [[texture(0)]], device float *o [[buffer(0)]]) { o[0] = t.read(uint2(0)).x; }\n\
         constant bool unset [[function_constant(0)]];\n\
         kernel void plain(device float *o [[buffer(0)]], uint i [[thread_position_in_grid]]) { o[i] = unset ? 1 : 2; }\n",
    );
    let wrong = source("kernel void k(device float *o [[buffer(0)]]) { o[0] = missing; }\n");
    let place = Place::new(&[("k.metal", &text), ("wrong.metal", &wrong)]);
    let found = |arguments: &str| {
        let report = place.json(&format!("check --json {arguments} k.metal"));
        let file = &report["files"][0];
        let told = file["findings"].as_array().expect("findings").iter();
        let told: Vec<_> = told
            .map(|it| {
                let message = it["message"].as_str().expect("a text");
                (it["line"].as_u64().expect("a line"), String::from(message))
            })
            .collect();
        let compiled = file["kernels"].as_array().expect("kernels").iter();
        let compiled: Vec<_> = compiled.map(|it| it["compiled"] == true).collect();
        (told, compiled)
    };
    assert_eq!(found("--target cpu"), (vec![], vec![true; 3]));
    let (told, compiled) = found("--target cpu,apple7,nvptx");
    assert_eq!(compiled, [true, false, true]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].0 == 4
            && told[0].1.contains("no matching function")
            && told[0].1.ends_with(" (target apple7)"),
        "{told:?}"
    );
    assert!(
        told[1].0 == 5
            && told[1]
                .1
                .contains("textures are not supported on this backend")
            && told[1].1.ends_with(" (target nvptx)"),
        "{told:?}"
    );
    assert_eq!(found("--target apple7").0[..], told[..1]);
    assert_eq!(found("--target nvptx").0[..], told[1..]);
    let all = place.metal("check --target nvptx,apple7,cpu wrong.metal");
    assert_eq!(
        stderr(&all).matches("error:").count(),
        1,
        "{}",
        stderr(&all)
    );
    let run = place.metal("check --run --target apple7 k.metal");
    assert!(stderr(&run).contains("--run needs the target cpu"));
}

#[test]
fn kernels_are_given_textures_and_samplers() {
    let text = source(
        "kernel void blur(texture2d<half> from [[texture(2)]], texture2d<half, access::write> to [[texture(1)]],\n\
                          sampler s [[sampler(0)]], uint2 i [[thread_position_in_grid]]) {\n\
           to.write(from.sample(s, float2(i) / 4) + from.read(i + 100), i);\n}\n\
         kernel void race(texture2d<uint, access::read_write> t [[texture(0)]], uint i [[thread_position_in_grid]]) {\n\
           t.write(i, uint2(0));\n}\n",
    );
    let place = Place::new(&[("k.metal", &text)]);
    let report = place.json("check --run --texture 4,3 --grid 8,8 --threads 8,8 --json k.metal");
    let kernels = report["files"][0]["kernels"].as_array().expect("kernels");
    let wanted = kernels[0]["arguments"].as_array().expect("arguments");
    let kinds: Vec<_> = wanted
        .iter()
        .map(|it| {
            let access = ["readable", "writable"].map(|key| it[key].as_bool() == Some(true));
            (it["kind"].as_str(), it["index"].as_u64(), access)
        })
        .collect();
    let want = [
        ("texture", 2, [true, false]),
        ("texture", 1, [false, true]),
        ("sampler", 0, [true, false]),
    ];
    assert_eq!(
        kinds,
        want.map(|(kind, index, access)| (Some(kind), Some(index), access))
    );
    assert!(kernels.iter().all(|it| it["ran"].as_bool() == Some(true)));
    let findings = report["files"][0]["findings"].as_array().expect("findings");
    let told: Vec<_> = findings
        .iter()
        .map(|it| (it["rule"].as_str(), it["kernel"].as_str()))
        .collect();
    assert_eq!(told, [(Some("lane-order"), Some("race"))]);
}

#[test]
fn a_run_finds_what_lies_beside_a_buffer_and_what_nobody_wrote() {
    let text = source(
        "kernel void beside(device uint *out [[buffer(0)]], const device uint *in [[buffer(1)]],\n\
                            uint i [[thread_position_in_grid]]) { out[i] = in[int(i) - 1]; }\n\
         kernel void unwritten(device float *out [[buffer(0)]], threadgroup float *t [[threadgroup(0)]],\n\
                               uint i [[thread_position_in_grid]]) { out[i] = t[i % 64]; }\n",
    );
    let place = Place::new(&[("k.metal", &text)]);
    let report = place.json("check --run --json k.metal");
    let findings = report["files"][0]["findings"].as_array().expect("findings");
    let told: Vec<_> = findings
        .iter()
        .map(|it| (it["rule"].as_str(), it["kernel"].as_str()))
        .collect();
    let want = [("fault", "beside"), ("lane-order", "unwritten")];
    assert_eq!(told, want.map(|(rule, name)| (Some(rule), Some(name))));
}

#[test]
fn kernels_get_textures_of_their_shapes_and_buffers_full_of_numbers() {
    let text = source(
        "kernel void solid(texture3d<uint, access::read_write> t [[texture(0)]], device uint *n [[buffer(0)]],\n\
                           constant uint &by [[buffer(1)]], uint3 i [[thread_position_in_grid]]) {\n\
           t.write(t.read(i) + 1, i);\n\
           if (all(i == 0u)) n[by / 4] = n[1] + by + 10 * t.get_height() + 100 * t.get_depth();\n}\n",
    );
    let place = Place::new(&[("k.metal", &text)]);
    for (fill, clean) in [
        ("u32:0", true),
        ("u32:3", true),
        ("u32:ramp", true),
        ("u32:100000", false),
    ] {
        let report = place.json(&format!("check --run --fill {fill} --json k.metal"));
        let kernel = &report["files"][0]["kernels"][0];
        assert_eq!(kernel["ran"].as_bool(), Some(clean), "{report}");
    }
    let output =
        place.metal("run k.metal --texture r8uint:2x1x3:ramp --buffer u32:[8,7] --buffer u32:[2]");
    assert_eq!(
        stdout(&output),
        "buffer 0, u32[2]: 319 7\ntexture 0, u8[6]: 1 2 3 4 5 6\n",
        "{}",
        stderr(&output)
    );
    let output = place.metal("check --fill u32 --run k.metal");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_prefix_goes_before_each_source() {
    let text = "kernel void k(device TYPE *out [[buffer(0)]]) {\n  out[0] = VALUE;\n  out[1] = missing;\n}\n";
    let prefix = source("typedef float TYPE;\n#define VALUE 7\n");
    let place = Place::new(&[("k.metal", text), ("prefix.h", &prefix)]);
    let output = place.metal("check --prefix prefix.h k.metal");
    assert!(
        stderr(&output).starts_with("k.metal:3:12: error: use of undeclared identifier 'missing'"),
        "{}",
        stderr(&output)
    );
    let more = text.replace("missing", "1");
    let place = Place::new(&[("k.metal", &more), ("prefix.h", &prefix)]);
    let output = place.metal("check --run --prefix prefix.h k.metal");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_kernel_is_run_with_textures() {
    let text = source(
        "kernel void twice(texture2d<float> from [[texture(2)]], texture2d<float, access::write> to [[texture(0)]],\n\
                           sampler s [[sampler(1)]], device uint *n [[buffer(0)]], uint2 i [[thread_position_in_grid]],\n\
                           uint2 size [[threads_per_grid]]) {\n\
           to.write(from.sample(s, (float2(i) + 1.25) / float2(size)) * 2, i);\n\
           if (all(i == 0u)) n[0] = size.x * 10 + size.y;\n}\n",
    );
    let place = Place::new(&[("k.metal", &text)]);
    let with = |more: &str| {
        place.metal(&format!(
            "run k.metal --texture r32float:3x2 --texture r8unorm:3x2:[0,51,102,0,0,255] --buffer u32:1{more}"
        ))
    };
    let output = with("");
    assert_eq!(
        stdout(&output),
        "buffer 0, u32[1]: 32\ntexture 0, f32[6]: 0 2 2 0 2 2\n",
        "{}",
        stderr(&output)
    );
    let output = with(" --sampler linear,repeat --save texture0=out.npy --json");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let texels = report["textures"][0]["values"].as_array().expect("texels");
    let texels: Vec<f64> = texels
        .iter()
        .map(|it| it.as_f64().expect("a number"))
        .collect();
    for (found, want) in texels.iter().zip([0.075, 1.3, 0.425, 0.225, 0.9, 0.275]) {
        assert!((found - want).abs() < 1e-5, "{texels:?}");
    }
    assert_eq!(texels.len(), 6);
    assert!(place.path().join("out.npy").exists());
    let output = place.metal("run k.metal --texture r32float:3x2 --buffer u32:1");
    assert!(
        stderr(&output).contains("the kernel wants texture 2"),
        "{}",
        stderr(&output)
    );
    let output = with(" --save texture1=out.npy");
    assert!(
        stderr(&output).contains("there is no texture 1"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn kernels_are_run_in_several_orders_with_every_access_checked() {
    let text = source(
        "kernel void fine(device uint *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = i; }\n\
         kernel void wild(device uint *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i * 64] = i; }\n\
         kernel void race(device uint *out [[buffer(0)]], threadgroup uint *t [[threadgroup(0)]],\n\
                          uint i [[thread_index_in_threadgroup]]) {\n  t[i] = i;\n  out[i] = t[63 - i];\n}\n\
         kernel void endless(device uint *out [[buffer(0)]]) { while (!out[0]) out[1]++; }\n\
         kernel void last(device uint *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 7; }\n",
    );
    let place = Place::new(&[("k.metal", &text)]);
    let arguments =
        "check --run --bytes 4096 --grid 64 --timeout 1 --json --sarif out.sarif k.metal";
    let report = place.json(arguments);
    let kernels = report["files"][0]["kernels"].as_array().expect("kernels");
    let ran: Vec<_> = kernels
        .iter()
        .map(|it| (it["name"].as_str(), it["ran"].as_bool()))
        .collect();
    let want = [
        ("fine", true),
        ("wild", false),
        ("race", true),
        ("endless", false),
        ("last", true),
    ];
    assert_eq!(ran, want.map(|(name, ran)| (Some(name), Some(ran))));
    let findings = report["files"][0]["findings"].as_array().expect("findings");
    let told: Vec<_> = findings
        .iter()
        .map(|it| {
            (
                it["rule"].as_str(),
                it["kernel"].as_str(),
                it["line"].as_u64(),
            )
        })
        .collect();
    let want = [
        ("fault", "wild", 4),
        ("lane-order", "race", 5),
        ("fault", "endless", 10),
    ];
    assert_eq!(
        told,
        want.map(|(rule, name, line)| (Some(rule), Some(name), Some(line)))
    );
    let message = findings[0]["message"].as_str().expect("a text");
    assert!(
        message.starts_with("a write of 4 bytes by thread [16, 0, 0] at byte 4096 of the 4096 bytes of buffer index 0"),
        "{message}"
    );

    let text = std::fs::read_to_string(place.path().join("out.sarif")).expect("a report");
    let sarif: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), 3);
    assert_eq!(
        (&results[1]["ruleId"], &results[1]["level"]),
        (&"lane-order".into(), &"warning".into())
    );
    let location = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(location["artifactLocation"]["uri"], "k.metal");
    assert_eq!(location["region"]["startLine"], 4);

    // A warning fails when it is asked to.
    let race = "check --run --bytes 4096 --grid 64 --kernel race k.metal";
    assert_eq!(place.metal(race).status.code(), Some(0));
    assert_eq!(
        place.metal(&format!("{race} --strict")).status.code(),
        Some(1)
    );
}

#[test]
fn includes_macros_constants_and_versions_reach_the_compiler() {
    let text = source(
        "#include \"inner/a.h\"\nconstant uint more [[function_constant(4)]];\n\
         kernel void k(device uint *out [[buffer(0)]]) { out[0] = one() + TWO + more; out[1] = __METAL_VERSION__; }\n",
    );
    let place = Place::new(&[
        ("src/k.metal", &text),
        ("include/inner/a.h", "#pragma once\n#include \"b.h\"\n"),
        ("include/inner/b.h", "inline uint one() { return ONE; }\n"),
    ]);
    let output = place.metal(
        "run src/k.metal -I include -D ONE -D TWO=20 --std metal3.0 --math safe --constant 4=u32:300 --buffer u32:2",
    );
    assert_eq!(
        stdout(&output),
        "buffer 0, u32[2]: 321 300\n",
        "{}",
        stderr(&output)
    );
    // An error in a file that is included has its name and its line.
    let output = place.metal("check src/k.metal -I include -D TWO=20 --constant 4=u32:300");
    assert!(
        stderr(&output).starts_with(
            "include/inner/b.h:1:28: error: use of undeclared identifier 'ONE'\ninline uint one() { return ONE; }\n"
        ),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_kernel_is_run_and_what_it_wrote_printed() {
    let text = source(
        "kernel void scale(device const float *x [[buffer(2)]], device half *y [[buffer(0)]], constant float &by [[buffer(1)]],\n\
         threadgroup float *t [[threadgroup(0)]], uint i [[thread_position_in_grid]]) { t[0] = by; y[i] = half(x[i] * by); }\n",
    );
    let place = Place::new(&[("k.metal", &text)]);
    let output = place.metal(
        "run k.metal --buffer 2=f32:4:ramp --buffer f16:20 --buffer f32:[1.5] --threadgroup 0=16 --grid 4 --save 0=y.npy",
    );
    assert_eq!(
        stdout(&output),
        "buffer 0, f16[20]: 0 1.5 3 4.5 0 0 0 0 0 0 0 0 0 0 0 0 …\n",
        "{}",
        stderr(&output)
    );
    let json = place.json(
        "run k.metal --kernel scale --buffer y.npy --buffer f32:[inf] --buffer f32:[-1,0] --threadgroup 0=16 --grid 2 --json",
    );
    let values = &json["buffers"][0]["values"];
    assert_eq!(
        (&values[0], &values[1], &values[3]),
        (&"-inf".into(), &"NaN".into(), &4.5.into())
    );
    for (arguments, reason) in [
        ("--buffer f16:4", "the kernel wants buffer 2: --buffer 2="),
        (
            "--buffer f16:4 --buffer f32:1 --buffer f32:4",
            "the kernel wants threadgroup memory 0",
        ),
        (
            "--buffer f16:4 --buffer f32:1 --buffer f32:4 --buffer f32:4",
            "more buffers than",
        ),
        ("--kernel none", "none"),
    ] {
        let output = place.metal(&format!("run k.metal {arguments}"));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.lines().count() == 1 && text.contains(reason), "{text}");
    }
    assert_eq!(
        place.metal("run k.metal --buffer f33:4").status.code(),
        Some(2)
    );
}

/// One error with its place, in bounded time and memory, whatever the text is.
#[test]
fn bad_sources_are_one_error_with_its_place() {
    let many_buffers: String = (0..32)
        .map(|index| format!("device float *a{index} [[buffer({index})]],\n"))
        .collect();
    let files = [
        (
            "end.metal",
            source("kernel void k(device float *x [[buffer(0)]]) {\n  x[0] = (1"),
        ),
        ("comment.metal", source("/* without an end")),
        ("braces.metal", source(&"{".repeat(1_000_000))),
        (
            "buffers.metal",
            source(&format!(
                "kernel void k({many_buffers}uint i [[thread_position_in_grid]]) {{}}\n"
            )),
        ),
        (
            "recursion.metal",
            source(
                "int f(int m, int n) { return m == 0 ? n + 1 : f(m - 1, n == 0 ? 1 : f(m, n - 1)); }\n\
             kernel void k(device int *x [[buffer(0)]]) { x[0] = f(x[0] + 4, 2); }\n",
            ),
        ),
        (
            "bomb.metal",
            source(
                "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(x)))\n#define C(x) B(B(B(x)))\n\
             kernel void k(device int *x [[buffer(0)]]) { C(x[0] += 1;) }\n",
            ),
        ),
        ("loop.metal", source("#include \"loop.metal\"\n")),
        ("missing.metal", source("#include \"nowhere.h\"\n")),
        (
            "nul.metal",
            source("kernel void k\u{0}(device int *x [[buffer(0)]]) {}\n"),
        ),
    ];
    let texts: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let place = Place::new(&texts);
    for (name, _) in &files {
        let output = place.metal(&format!("check --run --timeout 2 {name}"));
        let text = stderr(&output);
        let first = text.lines().next().unwrap_or("");
        let errors = text
            .lines()
            .filter(|line| line.contains(": error: "))
            .count();
        println!("{first}");
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(
            first.contains(name) || first.starts_with("program_source"),
            "{name}: {text}"
        );
        assert!(errors <= 3 && text.len() < 4000, "{name}: {text}");
    }
    let empty = Place::new(&[("empty.metal", "")]).metal("check empty.metal");
    assert_eq!(empty.status.code(), Some(0), "{}", stderr(&empty));
    let output = place.metal("check nowhere.metal");
    assert_eq!(stderr(&output).lines().count(), 1);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_action_finds_files_by_patterns_and_passes_arguments_on() {
    let good =
        source("#include \"a.h\"\nkernel void k(device int *x [[buffer(0)]]) { x[0] = ONE; }\n");
    let place = Place::new(&[
        ("a/b c/k.metal", &good),
        ("k.metal", &good),
        ("inc/a.h", "#define ONE 1\n"),
        ("other.txt", ""),
    ]);
    let act = |variables: &[(&str, &str)]| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/metal-action.sh");
        Command::new(script)
            .current_dir(place.path())
            .env("IRONBRIDGE", env!("CARGO_BIN_EXE_ironbridge"))
            .envs(variables.iter().copied())
            .output()
            .expect("bash")
    };
    let output = act(&[
        ("ARGUMENTS", "-I\ninc\n"),
        ("RUN", "true"),
        ("SARIF", "out.sarif"),
    ]);
    let text = stdout(&output);
    assert!(
        text.starts_with("2 of 2 files compile, and 2 of 2 kernels; 2 kernels ran clean"),
        "{text}{}",
        stderr(&output)
    );
    assert!(place.path().join("out.sarif").is_file());
    let output = act(&[("FILES", "a/b c/*.metal\n")]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).starts_with("a/b c/k.metal:3:"),
        "{}",
        stderr(&output)
    );
    assert_eq!(act(&[("FILES", "none/*")]).status.code(), Some(2));
}
