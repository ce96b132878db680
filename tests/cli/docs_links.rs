//! Links of the documentation lead somewhere: to a file, a heading in it, or the symbol that the link names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// `[text](target)`, or `[text]: target` with the same meaning.
#[derive(Debug, PartialEq)]
struct Link<'a> {
    text: &'a str,
    target: &'a str,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Markdown files that people read, in the root, in docs/ and in assets/.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, pages: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            if path.is_dir() {
                below(&path, pages);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    let names = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ];
    let mut pages = names.map(|name| root().join(name)).to_vec();
    below(&root().join("docs"), &mut pages);
    below(&root().join("assets"), &mut pages);
    pages
}

/// The lines of a page that are not in a fenced block of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The links of a paragraph, whose text may go over the end of a line.
fn links(page: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    let fences: Vec<&str> = page.split("```").collect();
    for outside in fences.iter().step_by(2) {
        let mut rest = *outside;
        while let Some(middle) = rest.find("](") {
            let text = &rest[..middle];
            let text = &text[text.rfind('[').map_or(0, |at| at + 1)..];
            let after = &rest[middle + 2..];
            let end = after.find(')').expect("a link's target ends");
            let target = after[..end].split_whitespace().next().unwrap_or_default();
            found.push(Link { text, target });
            rest = &after[end..];
        }
    }
    for line in prose(page) {
        if let Some((text, target)) = line.strip_prefix('[').and_then(|it| it.split_once("]: ")) {
            found.push(Link { text, target });
        }
    }
    found
}

/// As GitHub makes anchors of headings.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

/// What is wrong with a link of `page`, if anything.
fn fault(page: &Path, text: &str, link: &Link) -> Option<String> {
    let target = link.target;
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = page.parent().unwrap_or(root()).join(file);
    if !file.is_empty() && !path.exists() {
        return Some(format!("{target}: there is no such file"));
    }
    let read = || fs::read_to_string(&path).unwrap_or_default();
    let content = if file.is_empty() {
        text.to_owned()
    } else {
        read()
    };
    let is_heading = |line: &str| line.starts_with('#') && anchor(line) == heading;
    if !heading.is_empty() && !prose(&content).any(is_heading) {
        return Some(format!("{target}: there is no such heading"));
    }
    None
}

/// The identifier that a link names: `parallel_for` of `` `ThreadPool::parallel_for` ``.
fn symbol<'a>(link: &Link<'a>) -> Option<&'a str> {
    let name = link.text.strip_prefix('`')?.strip_suffix('`')?;
    let source = [".rs", ".m", ".h", ".c", ".metal"];
    let is_source = source.iter().any(|end| link.target.ends_with(end));
    is_source.then(|| name.rsplit("::").next().unwrap_or(name))
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[test]
fn every_relative_link_leads_to_a_file_and_heading() {
    let mut faults = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("the page is readable");
        let links = links(&text);
        count += links.len();
        let wrong = links.iter().filter_map(|link| fault(&page, &text, link));
        faults.extend(wrong.map(|fault| format!("{}: {fault}", page.display())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 100, "only {count} links were found");
}

#[test]
fn each_hop_of_the_life_of_a_token_is_in_the_file_that_it_links() {
    let page = root().join("docs/LIFE_OF_A_TOKEN.md");
    let text = fs::read_to_string(&page).expect("the page is readable");
    let mut faults = Vec::new();
    let mut count = 0;
    for link in links(&text) {
        let Some(symbol) = symbol(&link) else {
            continue;
        };
        count += 1;
        let file = root().join("docs").join(link.target);
        let source = fs::read_to_string(&file).unwrap_or_default();
        if !has_word(&source, symbol) {
            faults.push(format!("{} has no {symbol}", link.target));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 40, "only {count} symbols were found");
}

#[test]
fn drawings_that_pages_show_are_there_and_used() {
    let shown: Vec<PathBuf> = pages()
        .iter()
        .flat_map(|page| {
            let text = fs::read_to_string(page).expect("the page is readable");
            let folder = page.parent().unwrap_or(root()).to_owned();
            let targets: Vec<PathBuf> = links(&text)
                .iter()
                .filter(|link| link.target.ends_with(".svg"))
                .filter_map(|link| folder.join(link.target).canonicalize().ok())
                .collect();
            targets
        })
        .collect();
    let mut folders = vec![root().join("docs")];
    let drawings = iter::from_fn(|| {
        let folder = folders.pop()?;
        let entries = fs::read_dir(&folder).expect("the folder is readable");
        let paths: Vec<PathBuf> = entries.map(|it| it.expect("readable").path()).collect();
        folders.extend(paths.iter().filter(|path| path.is_dir()).cloned());
        Some(paths)
    });
    let is_drawing = |path: &PathBuf| path.extension().is_some_and(|it| it == "svg");
    for drawing in drawings.flatten().filter(is_drawing) {
        let drawing = drawing.canonicalize().expect("it is there");
        assert!(
            shown.contains(&drawing),
            "no page shows {}",
            drawing.display()
        );
    }
}

#[test]
fn a_broken_link_is_found() {
    let text = "# A heading\nSee [one](no/such.md), [two](#a-heading), [three\nlines](#another) and\n\
                ```\n[not](a/link.md)\n```\n[four]: gone.md\n";
    let targets: Vec<&str> = links(text).iter().map(|link| link.target).collect();
    assert_eq!(targets, ["no/such.md", "#a-heading", "#another", "gone.md"]);
    let page = root().join("docs/none.md");
    let faults: Vec<bool> = links(text)
        .iter()
        .map(|link| fault(&page, text, link).is_some())
        .collect();
    assert_eq!(faults, [true, false, true, true]);
    let link = Link {
        text: "`ThreadPool::parallel_for`",
        target: "../src/pool.rs",
    };
    assert_eq!(symbol(&link), Some("parallel_for"));
    assert!(has_word("fn parallel_for(", "parallel_for"));
    assert!(!has_word("fn parallel_for_each(", "parallel_for"));
}

/// The environment variables in the product's code. Names of tests, and those that the build passes on, are not a
/// user's.
fn variables(folder: &Path, found: &mut BTreeSet<String>) {
    const PREFIX: &str = "IRONBRIDGE_";
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            variables(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for (at, _) in text.match_indices(&format!("\"{PREFIX}")) {
            let name: String = text[at + 1..]
                .chars()
                .take_while(|&letter| letter.is_ascii_uppercase() || letter == '_')
                .collect();
            let kind = &name[PREFIX.len()..];
            if !["TEST_", "BUILT_", "NATIVE_"]
                .iter()
                .any(|start| kind.starts_with(start))
            {
                found.insert(name);
            }
        }
    }
}

#[test]
fn every_environment_variable_is_documented() {
    let page =
        fs::read_to_string(root().join("docs/ENVIRONMENT.md")).expect("the page is readable");
    let mut names = BTreeSet::new();
    for folder in ["src", "native", "build"] {
        variables(&root().join(folder), &mut names);
    }
    assert!(names.len() > 10, "only {names:?} were found");
    names.retain(|name| !page.contains(&format!("`{name}`")));
    assert!(names.is_empty(), "docs/ENVIRONMENT.md lacks {names:?}");
}
