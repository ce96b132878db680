//! The language of chat templates against Jinja2 itself: what its statements, operators, filters, tests and methods
//! write. `scripts/jinja_fixtures.py` makes the fixtures.

use ironbridge::llama::{ChatError, ChatTemplate};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixtures {
    context: serde_json::Map<String, serde_json::Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    template: String,
    expected: String,
}

#[test]
fn templates_write_what_jinja2_writes() {
    let fixtures: Fixtures =
        serde_json::from_str(include_str!("../data/jinja.json")).expect("the fixtures are JSON");
    assert!(fixtures.cases.len() > 60, "{}", fixtures.cases.len());
    let mut wrong = Vec::new();
    for case in &fixtures.cases {
        let rendered = ChatTemplate::parse(&case.template).and_then(|mut template| {
            for (name, value) in &fixtures.context {
                template = template.with(name, value);
            }
            template.render(&[], true)
        });
        if rendered.as_ref() != Ok(&case.expected) {
            let Case { template, expected } = case;
            let outcome = rendered.unwrap_or_else(|error| format!("{error:?}"));
            wrong.push(format!(
                "{template:?}\n  Jinja2:     {expected:?}\n  ironbridge: {outcome:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What Jinja2 refuses is refused, with the line.
#[test]
fn wrong_templates_are_errors() {
    for (template, line) in [
        ("\n{{ a b }}", 2),
        ("{{ }}", 1),
        ("{{ 1", 1),
        ("{% if 1 %}", 1),
        ("\n\n{% endif %}", 3),
        ("{% if 1 %}{% endfor %}", 1),
        ("{% nothing %}", 1),
        ("{{ (1 }}", 1),
        ("{{ [1) }}", 1),
        ("{{ 'a }}", 1),
        ("{# a", 1),
        ("{% raw %}", 1),
        ("{% set = 1 %}", 1),
        ("{% for in x %}{% endfor %}", 1),
        ("{% break %}", 1),
        ("{{ x[] }}", 1),
        ("{{ x is }}", 1),
        ("{{ x| }}", 1),
        ("{{ {1} }}", 1),
        ("{{ 1 if }}", 1),
        ("{% macro m(1) %}{% endmacro %}", 1),
        ("{{ \"\\x4\" }}", 1),
        ("{{ ? }}", 1),
    ] {
        let error = ChatTemplate::parse(template).unwrap_err();
        let found = matches!(error, ChatError::Syntax { line: found, .. } if found == line);
        assert!(found, "{template:?}: {error:?}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    for (template, line) in [
        ("\n{{ missing.a }}", 2),
        ("{{ missing() }}", 1),
        ("{{ 1 + 'a' }}", 1),
        ("{{ missing + 'a' }}", 1),
        ("{{ none.a.b }}", 1),
        ("{{ [1].append(2) }}", 1),
        ("{{ 'a'.nothing() }}", 1),
        ("{{ 1 | nothing }}", 1),
        ("{{ 1 is nothing }}", 1),
        ("{{ 1 // 0 }}{{ 1 % 0 }}", 1),
        ("{{ 1 < 'a' }}", 1),
        ("{% for x in 1 %}{% endfor %}", 1),
        ("{% for a, b in [1] %}{% endfor %}", 1),
        ("{% set a, b = [1] %}", 1),
        ("{% set x = 1 %}\n{% set x.y = 1 %}", 2),
        ("{% include 'a' %}", 1),
        ("{% macro m() %}{% endmacro %}{{ m(1) }}", 1),
        ("{% macro m() %}{% endmacro %}{{ m(a=1) }}", 1),
        ("{{ [1, 'a'] | sort }}", 1),
        ("{{ namespace() | tojson }}", 1),
        (
            "{% set l = namespace() %}{% for x in [1] %}{% set l.l = loop %}{% endfor %}{{ l.l.index }}",
            1,
        ),
    ] {
        let error = ChatTemplate::parse(template)
            .unwrap()
            .render(&[], true)
            .unwrap_err();
        let found = matches!(error, ChatError::Render { line: found, .. } if found == line);
        assert!(found, "{template:?}: {error:?}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
}
