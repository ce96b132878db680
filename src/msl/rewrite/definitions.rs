//! The definitions of functions that may stay declarations, and which of them name which.

use std::collections::HashSet;
use std::ops::Range;

use super::needed_functions::{Definition, Needs};
use super::{Edit, Rewriter};

/// C++ calls functions of these names without saying so.
const SILENT: [&str; 3] = ["begin", "end", "get"];

impl Rewriter<'_> {
    /// Whether a definition can stay a declaration: its type is known without its body, and it is called by its name.
    pub(super) fn can_be_declared(&self, declaration: Range<usize>, name: &Range<usize>) -> bool {
        let words = |wanted: &[&str]| {
            let mut live = declaration
                .clone()
                .filter(|&at| self.edits[at] != Edit::Erase);
            live.any(|at| wanted.contains(&self.text(at)))
        };
        !words(&["constexpr", "auto", "consteval", "operator", "friend", "="])
            && !name.clone().any(|at| self.text(at) == "::")
            && !SILENT.contains(&self.text(name.start))
    }

    pub(super) fn needs(&self, definitions: &[Definition]) -> Needs {
        let mut needs = Needs::new(definitions);
        let heads: HashSet<usize> = definitions.iter().map(|it| it.head).collect();
        let mut bodies = definitions.iter().enumerate().peekable();
        let mut index = 0;
        while index < self.len() {
            while bodies.next_if(|(_, it)| it.body.end <= index).is_some() {}
            let inside = bodies.peek().filter(|(_, it)| it.body.contains(&index));
            let inside = inside.map(|(number, _)| *number);
            // A type is known without a body.
            if inside.is_none() && self.text(index) == "decltype" && self.next_text(index) == "(" {
                index = self.next(index).map_or(index, |open| self.closing(open));
            }
            if self.edits[index] != Edit::Erase && !heads.contains(&index) {
                needs.note(self.text(index), inside);
            }
            index += 1;
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use crate::msl::rewrite::Program;

    const SOURCE: &str = "float deep(float x);\n\
        template <typename T> T far(T x) {\n  return deep(x);\n}\n\
        float deep(float x) { return x; }\n\
        float near(float x) { return far(x); }\n\
        float other(float x) { return near(x); }\n\
        float given(float x) {\n  return 1;\n}\n\
        struct box { float v; float get() { return used_in_a_class(v); } };\n\
        constexpr int count(int n) { return n; }\n\
        box operator+(box a, box b) { return a; }\n\
        typedef decltype(g<given>) type;\n\
        kernel void f(device float *o [[buffer(0)]]) { o[0] = near(o[1]); }\n\
        template <float (*F)(float)> kernel void g(device float *o [[buffer(0)]]) { o[0] = F(o[1]); }\n\
        template [[host_name(\"h\")]] kernel void g<given>(device float *);\n\
        float used_in_a_class(float x) { return x; }\n";

    /// A part of each body.
    const BODIES: [(&str, &str); 8] = [
        ("far", "return deep(x);"),
        ("deep", "{ return x; }\nfloat near"),
        ("near", "return far(x)"),
        ("other", "return near(x)"),
        ("given", "return 1;"),
        ("f", "near(o[1])"),
        ("g", "F(o[1])"),
        ("used_in_a_class", "used_in_a_class(float x) { return x; }"),
    ];

    #[test]
    fn a_kernel_has_the_functions_that_it_needs() {
        let program = Program::parse(SOURCE).unwrap_or_else(|error| panic!("{error}"));
        let text_of = |name: &str| {
            let kernel = program.kernels.iter().find(|kernel| kernel.name == name);
            program.text_with(&[], false, Some(kernel.expect("a kernel")))
        };
        for (name, needed) in [
            ("f", &["far", "deep", "near", "f", "used_in_a_class"][..]),
            ("h", &["deep", "given", "g", "used_in_a_class"]),
        ] {
            let text = text_of(name);
            for (function, part) in BODIES {
                assert_eq!(
                    text.contains(part),
                    needed.contains(&function),
                    "{name}, {function}: {text}"
                );
            }
            for part in ["{ return n; }", "{ return a; }"] {
                assert!(text.contains(part), "{text}");
            }
            let lines = |text: &str| text.lines().count();
            assert_eq!(lines(&text), lines(&program.text(&[])), "{text}");
        }
    }
}
