//! Chat templates from strangers: every one ends with text or with one error that says why, in bounded time and memory,
//! however small the stack of the thread is that asks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ironbridge::llama::{
    ChatError, ChatMessage, ChatTemplate, ChatTemplateLimit, ChatTemplateLimits,
};

crate::harness::cases! {
    hostile_templates_end_with_text_or_one_error,
    the_stack_suffices_for_what_the_limits_allow,
    limits_can_be_raised_and_lowered,
    long_conversations_are_rendered,
}

/// Bytes that are allocated, and the most that were.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator with what it came with; the counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `pointer` came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The processor time of this process, which other processes do not lengthen.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that the call may write to.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn outcome(source: &str) -> Result<String, ChatError> {
    let hello = [ChatMessage::user("hello")];
    ChatTemplate::parse(source)?.render(&hello, true)
}

/// Checks what must hold of any outcome.
fn check(name: &str, source: &str, limits: &mut [usize; 5]) {
    let (start, memory) = (processor_time(), NOW.load(Ordering::Relaxed));
    PEAK.store(memory, Ordering::Relaxed);
    let outcome = outcome(source);
    let time = processor_time() - start;
    let memory = PEAK.load(Ordering::Relaxed) - memory;
    eprintln!(
        "{name:<18} {:>5} ms {:>4} MiB  {}",
        time.as_millis(),
        memory >> 20,
        match &outcome {
            Ok(text) => format!("{} bytes", text.len()),
            Err(error) => error.to_string(),
        }
    );
    assert!(time < Duration::from_secs(2), "{name}: {time:?}");
    assert!(memory < 256 << 20, "{name}: {memory} bytes");
    if let Err(error) = outcome {
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{name}: {message}");
        assert!(message.chars().count() < 1100, "{name}: {message}");
        if let ChatError::Limit { limit, value, .. } = error {
            assert_eq!(value, ChatTemplateLimits::default().value(limit));
            assert!(
                message.contains(&value.to_string()) && message.contains(&limit.to_string()),
                "{message}"
            );
            limits[limit as usize] += 1;
        }
    }
}

/// Templates of the kinds that brought down or held up another engine.
fn hostile() -> Vec<(&'static str, String)> {
    let chain = |start: &str, link: &str, count: usize, end: &str| {
        format!("{start}{}{end}", link.repeat(count))
    };
    let around = |open: &str, count: usize, middle: &str, close: &str| {
        format!(
            "{{{{ {}{middle}{} }}}}",
            open.repeat(count),
            close.repeat(count)
        )
    };
    let numbered = |end: &str| {
        (0..9999)
            .map(|name| format!("a{name}{end},"))
            .collect::<String>()
    };
    let mut templates: Vec<(&str, String)> = SHORT
        .iter()
        .map(|(name, text)| {
            (
                *name,
                text.replace("PARAMETERS", &numbered(""))
                    .replace("ARGUMENTS", &numbered("=1")),
            )
        })
        .collect();
    templates.extend([
        ("parens", around("(", 200_000, "1", ")")),
        ("lists", around("[", 200_000, "", "]")),
        (
            "index",
            format!("{{{{ a{}1{} }}}}", "[".repeat(100_000), "]".repeat(100_000)),
        ),
        ("dicts", around("{1:", 100_000, "1", "}")),
        ("not", chain("{{ ", "not ", 200_000, "1 }}")),
        ("minus", chain("{{ ", "-", 200_000, "1 }}")),
        ("plus", chain("{{ 1", "+1", 300_000, " }}")),
        ("filters", chain("{{ 1", "|string", 140_000, " }}")),
        ("attrs", chain("{{ a", ".b", 300_000, " }}")),
        ("calls", chain("{{ a", "()", 300_000, " }}")),
        ("tern", chain("{{ ", "1 if 1 else ", 80_000, "2 }}")),
        ("concat", chain("{{ 1", "~1", 300_000, " }}")),
        ("pows", chain("{{ 1", "**1", 300_000, " }}")),
        ("and", chain("{{ 1", " and 1", 170_000, " }}")),
        ("comparisons", chain("{{ 1", "<1", 300_000, " }}")),
        (
            "ifs",
            "{% if 1 %}".repeat(45_000) + &"{% endif %}".repeat(45_000),
        ),
        (
            "fors",
            "{% for a in [1] %}".repeat(30_000) + &"{% endfor %}".repeat(30_000),
        ),
        (
            "elifs",
            chain("{% if 0 %}", "{% elif 0 %}", 80_000, "{% endif %}"),
        ),
        (
            "sets",
            "{% set x = x ~ x %}".replace("x ~", "('a' * 99) ~")
                + &"{% set x = x ~ x %}".repeat(40),
        ),
        ("tags", "{{a}}".repeat(200_000)),
        ("items", chain("{{ [", "1,", 500_000, "] }}")),
        (
            "names",
            (0..100_000)
                .map(|name| format!("{{{{a{name}}}}}"))
                .collect(),
        ),
        ("long", "x".repeat(2 << 20)),
        (
            "refusal",
            r#"{{ raise_exception("a\nb\x1b[31mred"*100000) }}"#.into(),
        ),
    ]);
    templates
}

const SHORT: &[(&str, &str)] = &[
    (
        "loop",
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    ),
    ("strmul", r#"{{ "x" * 10000000000 }}"#),
    (
        "strmul2",
        r#"{% set x = "a"*1000000 %}{% for i in range(90000) %}{{x}}{% endfor %}"#,
    ),
    (
        "strmul3",
        r#"{% set x="a"*1000000 %}{% for i in range(90000) %}{% set y = x ~ x %}{% endfor %}"#,
    ),
    (
        "double",
        r#"{% set ns = namespace(x="aaaaaaaaaaaaaaaa") %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"#,
    ),
    (
        "doublelist",
        "{% set ns = namespace(x=[1,2]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x|length }}",
    ),
    ("listmul", "{{ ([1]*10000000000)|length }}"),
    ("listmul2", "{% for i in [1]*10000000000 %}{% endfor %}"),
    ("listmul3", "{{ ([1]*10000000000)|join }}"),
    ("tojsonbig", "{{ ([messages]*1000000000)|tojson }}"),
    ("pow", "{{ 10**10**10 }}"),
    (
        "pow2",
        "{{ 9223372036854775807 + 1 }}{{ -9223372036854775808 // -1 }}{{ 1 // 0 }}",
    ),
    ("mod0", "{{ 1 % 0 }}"),
    ("minmod", "{{ (-9223372036854775807-1) % -1 }}"),
    ("range", "{{ range(10**18)|list|length }}"),
    ("range2", "{{ range(0,10,0)|list }}"),
    ("rangemany", "{{ range(99999)|list|length }}"),
    ("macro", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
    (
        "macro2",
        "{% macro f(n) %}{{ f(n+1) }}{{ f(n+1) }}{% endmacro %}{{ f(1) }}",
    ),
    (
        "rec",
        "{% for m in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    ),
    ("include", r#"{% include "chat" %}"#),
    ("import", r#"{% import "chat" as x %}"#),
    ("extends", r#"{% extends "chat" %}"#),
    ("block", "{% block a %}{{ self.a() }}{% endblock %}"),
    ("center", r#"{{ "x"|center(10000000000) }}"#),
    ("indent", "{{ \"x\ny\"|indent(10000000000) }}"),
    ("indent2", "{{ ((\"x\n\"*10000)|indent(1000000))|length }}"),
    ("tojson_indent", "{{ messages|tojson(indent=10000000000) }}"),
    ("tojson_indent2", "{{ messages|tojson(indent=-1) }}"),
    ("ljust", r#"{{ "x".ljust(10000000000) }}"#),
    ("zfill", r#"{{ "x".zfill(10000000000) }}"#),
    ("format", r#"{{ "%10000000000d"|format(1) }}"#),
    ("format2", r#"{{ "%.2147483647f"|format(1.0) }}"#),
    ("strformat", r#"{{ "{:>10000000000}".format("x") }}"#),
    ("strftime", r#"{{ strftime_now("%9999999999Y") }}"#),
    ("strftime2", r#"{{ strftime_now("%Q%!%") }}"#),
    ("strftime3", r#"{{ strftime_now("%c"*10000000) | length }}"#),
    ("batch", "{{ [1,2,3]|batch(10000000000, 1)|list|length }}"),
    ("slice", "{{ [1,2,3]|slice(10000000000)|list|length }}"),
    (
        "replace",
        r#"{{ ("a"*100000)|replace("a","b"*100000)|length }}"#,
    ),
    (
        "replace2",
        r#"{{ ("a"*100000).replace("","b"*100000)|length }}"#,
    ),
    ("split", r#"{{ ("a"*10000000).split("a")|length }}"#),
    (
        "join",
        r#"{{ (range(99999)|list)|join("x"*1000000)|length }}"#,
    ),
    ("attr", "{{ messages.__class__.__mro__ }}"),
    ("attr2", r#"{{ "".__class__ }}"#),
    ("lipsum", "{{ lipsum(10000000) }}"),
    ("debug", "{{ debug() }}"),
    ("raise", r#"{{ raise_exception("a\nb\x1b[31mred"*100) }}"#),
    ("nul", "{{ \"\\u0000\" }}\0"),
    ("slicing", "{{ messages[::0] }}"),
    (
        "slicing2",
        r#"{{ "abc"[-9223372036854775808:9223372036854775807:-9223372036854775808] }}"#,
    ),
    ("empty", ""),
    ("sort", r#"{{ (["a",1,none]|sort) }}"#),
    ("unicode", r#"{{ "\ud800" }}"#),
    (
        "big_int",
        "{{ 99999999999999999999999999999999999999999999 }}",
    ),
    ("wordwrap", r#"{{ ("x "*1000000)|wordwrap(1)|length }}"#),
    ("repeat_round", "{{ 1.5|round(10000000000) }}"),
    ("int", r#"{{ "9"*1000000 | int }}"#),
    ("pprint", "{{ messages|pprint }}"),
    ("unique", "{{ range(99999)|list|unique|list|length }}"),
    ("groupby", r#"{{ messages|groupby("x") }}"#),
    ("sum", "{{ [9223372036854775807,1]|sum }}"),
    (
        "namespace_cycle",
        "{% set ns=namespace() %}{% set ns.x=ns %}{{ ns }}",
    ),
    (
        "namespace_cycle2",
        "{% set ns=namespace() %}{% set ns.x=[ns] %}{{ ns.x|tojson }}",
    ),
    (
        "namespace_cycle3",
        "{% set ns=namespace() %}{% set ns.x=ns %}{{ ns == ns }}{{ ns|string }}",
    ),
    (
        "chain",
        "{% set ns=namespace(x=1) %}{% for i in range(99999) %}{% set ns.x=[ns.x] %}{% endfor %}{{ ns.x }}",
    ),
    (
        "chain2",
        "{% set ns=namespace(x=1) %}{% for i in range(99999) %}{% set ns.x=[ns.x] %}{% endfor %}ok",
    ),
    (
        "chain3",
        r#"{% set ns=namespace(x=1) %}{% for i in range(99999) %}{% set ns.x={"a":ns.x} %}{% endfor %}{{ ns.x|tojson }}"#,
    ),
    (
        "chainmap",
        r#"{% set ns=namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x=ns.x|map("string") %}{% endfor %}{{ ns.x|list }}"#,
    ),
    (
        "chaincat",
        "{% set ns=namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x=ns.x+[1] %}{% endfor %}{{ ns.x|length }}",
    ),
    (
        "chaineq",
        "{% set ns=namespace(x=1,y=1) %}{% for i in range(99999) %}{% set ns.x=[ns.x] %}{% set ns.y=[ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    ),
    (
        "shared",
        "{% set ns=namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x=[ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    ),
    (
        "shared_eq",
        "{% set ns=namespace(x=['a'],y=['a']) %}{% for i in range(60) %}{% set ns.x=[ns.x, ns.x] %}{% set ns.y=[ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    ),
    (
        "shared_json",
        "{% set ns=namespace(x={'a':1}) %}{% for i in range(60) %}{% set ns.x={'a':ns.x,'b':ns.x} %}{% endfor %}{{ ns.x|tojson }}",
    ),
    (
        "splat",
        "{% macro f() %}{% endmacro %}{{ f(*range(3000000)) }}",
    ),
    (
        "parameters",
        "{% macro f(PARAMETERS) %}{% endmacro %}{% for i in range(9999999) %}{{ f(ARGUMENTS) }}{% endfor %}",
    ),
    (
        "escaping",
        "{% set x = 'a' * 20000000 %}{% for i in range(99999) %}{% set y = x|e %}{% endfor %}",
    ),
    (
        "empty_lines",
        "{% set x = '\n' * 20000000 %}{% for i in range(99999) %}{% set y = x|indent %}{% endfor %}",
    ),
    ("no_filter", "{{ []|map(filter='upper') }}"),
    ("strip", "{{ ('a' * 3000000).strip('b' * 1000000 ~ 'a') }}"),
    (
        "keys",
        "{% set ns=namespace(m={}) %}{% for i in range(99999) %}{% set ns.m=dict(ns.m, **{i|string: i}) %}{% endfor %}",
    ),
    (
        "same_keys",
        "{% set k = 'x' * 1000000 %}{% set m = {k ~ 1: 1, k ~ 2: 2, k ~ 3: 3} %}{% for i in range(9999999) %}{{ m[k ~ 4] }}{% endfor %}",
    ),
    ("upper", "{{ ('\u{149}' * 8000000)|upper|length }}"),
    (
        "long_sort",
        "{% for i in range(9999) %}{{ (range(99999)|list|sort(reverse=true))|length }}{% endfor %}",
    ),
    (
        "captures",
        "{% macro f(n) %}{{ 'x' * 1000000 }}{{ f(n) if n else '' }}{% endmacro %}{{ f(1) }}",
    ),
    (
        "namespaces",
        "{% for i in range(9999999) %}{% set x = namespace(a=1) %}{% endfor %}",
    ),
    ("listing", "{{ ('ab' * 10000000)|list|length }}"),
    (
        "percent_width",
        "{{ '%*d' % 1 }}{{ '%99999999999999999999d' % 1 }}",
    ),
    (
        "finding",
        "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{{ (x ~ 'b') in (x ~ x) }}{% endfor %}",
    ),
    (
        "lookup",
        "{% for i in range(999999) %}{{ messages[0].nothing }}{% endfor %}",
    ),
    (
        "slices",
        "{% set x = range(1000000)|list %}{% for i in range(99999) %}{% set y = x[::-1] %}{% endfor %}",
    ),
    (
        "chars",
        "{% set x = 'é' * 10000000 %}{% for i in range(99999) %}{% set y = x[9999999] %}{% endfor %}",
    ),
    (
        "lengths",
        "{% set x = 'é' * 10000000 %}{% for i in range(99999) %}{% set y = x|length %}{% endfor %}",
    ),
];

fn hostile_templates_end_with_text_or_one_error() {
    let templates = hostile();
    assert!(templates.len() >= 88, "{}", templates.len());
    let mut limits = [0; 5];
    let stacks = [8 << 20, 2 << 20, 64 << 10];
    for stack in stacks {
        thread::scope(|scope| {
            let thread = thread::Builder::new()
                .stack_size(stack)
                .spawn_scoped(scope, || {
                    for (name, source) in &templates {
                        check(name, source, &mut limits);
                    }
                });
            thread.unwrap().join().unwrap();
        });
    }
    assert!(
        limits.iter().all(|count| *count > 0),
        "a limit was never met: {limits:?}"
    );
    println!("{} templates on {} stacks", templates.len(), stacks.len());
}

/// The deepest that the limits allow, in every way, on the thread that renders.
fn the_stack_suffices_for_what_the_limits_allow() {
    let nesting = ChatTemplateLimits::default().nesting;
    let around = |open: &str, middle: &str, close: &str, count: usize| {
        format!("{}{middle}{}", open.repeat(count), close.repeat(count))
    };
    // An `if` is a level, and so is each bracket.
    let write = |levels: usize, open: &str, middle: &str, close: &str| {
        format!("{{{{ {} }}}}", around(open, middle, close, levels))
    };
    let deepest = nesting - 1;
    for (levels, template) in [
        (deepest, write(deepest, "(", "1", ")")),
        (deepest, write(deepest, "[", "1", "]")),
        (deepest, write(deepest, "{1:", "1", "}")),
        (deepest, write(deepest, "x(", "1", ")")),
        (deepest, write(deepest, "x[", "1", "]")),
        (deepest, write(deepest, "1|default(", "1", ")")),
        (deepest, around("{% if 1 %}", "", "{% endif %}", deepest)),
        (
            nesting,
            around("{% for x in 'a' %}", "", "{% endfor %}", nesting - 1),
        ),
    ] {
        let outcome = outcome(&template);
        let limit = matches!(outcome, Err(ChatError::Limit { .. }));
        assert!(!limit, "{levels} levels of {template:.20}: {outcome:?}");
    }
    for recursive in [
        "{{ 'a'|map(*(['map'] * 999)) }}",
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(n) %}{{ [f([[n]]|map('list')|list|length)]|tojson|length }}{% endmacro %}{{ f(1) }}",
        "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}",
        "{% for m in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% macro f() %}{% filter upper %}{% set x %}{{ ((((f())))) }}{% endset %}{% endfilter %}{% endmacro %}{{ f() }}",
    ] {
        let error = outcome(recursive).unwrap_err();
        let nesting = matches!(
            error,
            ChatError::Limit {
                limit: ChatTemplateLimit::Nesting,
                ..
            }
        );
        assert!(nesting, "{recursive}: {error:?}");
    }
    let values = "{% set ns = namespace(x=1, y=1) %}{% for i in range(COUNT) %}{% set ns.x = [ns.x] %}\
                  {% set ns.y = {'a': ns.y} %}{% endfor %}{{ ns.x }}{{ ns.y|tojson }}{{ ns.x == ns.x }}{{ [ns.x, ns.x][:1]|sort|length }}";
    let deep = |count: usize| outcome(&values.replace("COUNT", &count.to_string()));
    assert!(deep(nesting - 1).is_ok());
    assert!(matches!(
        deep(nesting + 1),
        Err(ChatError::Limit {
            limit: ChatTemplateLimit::Nesting,
            ..
        })
    ));
}

fn limits_can_be_raised_and_lowered() {
    let hello = [ChatMessage::user("hello")];
    let run = |source: &str, limits: ChatTemplateLimits| {
        ChatTemplate::parse_with(source, limits).and_then(|template| template.render(&hello, true))
    };
    let limit = |outcome: Result<String, ChatError>| match outcome {
        Err(ChatError::Limit { limit, .. }) => Some(limit),
        _ => None,
    };
    let defaults = ChatTemplateLimits::default;
    let deep = format!("{{{{ {}1{} }}}}", "[".repeat(500), "]".repeat(500));
    assert_eq!(
        limit(run(&deep, defaults())),
        Some(ChatTemplateLimit::Nesting)
    );
    assert!(run(&deep, defaults().with_nesting(1000)).is_ok());

    let long = "x".repeat(3 << 20);
    assert_eq!(
        limit(run(&long, defaults())),
        Some(ChatTemplateLimit::Source)
    );
    assert_eq!(
        run(&long, defaults().with_source(3 << 20)).unwrap().len(),
        3 << 20
    );
    assert_eq!(
        limit(run("{{ messages }}", defaults().with_source(13))),
        Some(ChatTemplateLimit::Source)
    );

    let large = "{% for i in range(20) %}{{ 'x' * 1048576 }}{% endfor %}";
    assert_eq!(
        limit(run(large, defaults())),
        Some(ChatTemplateLimit::Output)
    );
    assert_eq!(
        run(large, defaults().with_output(20 << 20)).unwrap().len(),
        20 << 20
    );

    let held = "{{ ('x' * 100000000)|length }}";
    assert_eq!(
        limit(run(held, defaults())),
        Some(ChatTemplateLimit::Memory)
    );
    assert_eq!(
        run(held, defaults().with_memory(128 << 20)).unwrap(),
        "100000000"
    );

    let busy = "{% for i in range(3000) %}{% for j in range(999) %}{% endfor %}{% endfor %}done";
    assert_eq!(limit(run(busy, defaults())), Some(ChatTemplateLimit::Steps));
    assert_eq!(
        run(busy, defaults().with_steps(50_000_000)).unwrap(),
        "done"
    );

    // What no system can give is an error as well.
    let error = run("x", defaults().with_nesting(usize::MAX)).unwrap_err();
    assert!(matches!(error, ChatError::Thread { .. }), "{error:?}");
}

/// Memory is counted as what is held and not as what was ever made.
fn long_conversations_are_rendered() {
    let words = "A long message of a conversation. ".repeat(300);
    let messages: Vec<_> = (0..1000)
        .map(|turn| match turn % 2 {
            0 => ChatMessage::user(words.as_str()),
            _ => ChatMessage::assistant(format!("<think>\n{words}\n</think>\n\n{words}")),
        })
        .collect();
    let template = "{% for message in messages %}{% set content = message.content.split('</think>')[-1]|trim %}\
                    {{ '<|' + message.role + '|>\n' + content + '\n' }}{% endfor %}";
    let text = ChatTemplate::parse(template)
        .unwrap()
        .render(&messages, true)
        .unwrap();
    assert!(text.len() > 10_000_000, "{}", text.len());
}
