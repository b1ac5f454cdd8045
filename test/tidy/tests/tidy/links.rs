//! Links of the documents, and the names of files in them.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use tidy::{Source, none, root, sources};

/// Templates of documents, whose links are relative to what is made from them.
const TEMPLATES: &[&str] = &["lab/experiments/src/page.md"];

/// Documents in which a name of a source file must be that of a file.
const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/architecture/"];

fn documents() -> Vec<Source> {
    let mut documents = sources(".md");
    documents.retain(|document| !TEMPLATES.contains(&document.path.as_str()));
    assert!(documents.len() > 50, "the documents are found");
    documents
}

/// The lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        let is_code = fenced || line.starts_with("    ");
        (!is_code).then_some((index + 1, line))
    })
}

/// A line without what is between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// What is between backticks in a line.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of the links in a line.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let parts = line.split("](").skip(1);
    parts
        .filter_map(|part| part.split(')').next().map(str::to_owned))
        .collect()
}

/// The anchor that a heading has, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    // A link counts by its text.
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, target)) = link.split_once("](") else {
            break;
        };
        text.push_str(before);
        text.push_str(label);
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let lower = text.trim().to_lowercase();
    let kept = lower.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ => character.is_alphanumeric().then_some(character),
    });
    kept.collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| anchor(line.trim_start_matches('#')))
        .collect()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut faults = Vec::new();
    for document in documents() {
        let folder = Path::new(&document.path).parent().expect("a folder");
        for (number, line) in prose(&document.text) {
            for target in targets(line) {
                let is_remote = target.contains("://") || target.starts_with("mailto:");
                let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
                if is_remote || (path.is_empty() && heading.is_empty()) {
                    continue;
                }
                let path = match path {
                    "" => PathBuf::from(&document.path),
                    path => plain(&folder.join(path)),
                };
                let place = format!("{}:{number}: {target}", document.path);
                if !root().join(&path).exists() {
                    faults.push(format!("{place}: there is no such file"));
                } else if !heading.is_empty() && path.extension().is_some_and(|it| it == "md") {
                    let text = std::fs::read_to_string(root().join(&path)).unwrap();
                    if !anchors(&text).contains(heading) {
                        faults.push(format!("{place}: there is no such heading"));
                    }
                }
            }
        }
    }
    none("links of documents lead somewhere", &faults);
}

#[test]
fn names_of_source_files_are_those_of_files() {
    let files: Vec<String> = sources(".rs").into_iter().map(|file| file.path).collect();
    let exists = |name: &str| {
        let end = format!("/{name}");
        files
            .iter()
            .any(|file| file == name || file.ends_with(&end))
    };
    let mut faults = Vec::new();
    for document in documents() {
        if !MAPS.iter().any(|map| document.path.starts_with(map)) {
            continue;
        }
        for (number, line) in prose(&document.text) {
            for name in code(line) {
                // NAME and STRUCTURE stand for what a reader adds.
                let stands_for = name
                    .split(['/', '.'])
                    .any(|part| part == "NAME" || part == "STRUCTURE");
                if name.ends_with(".rs")
                    && !name.contains([' ', '*'])
                    && !stands_for
                    && !exists(name)
                {
                    faults.push(format!("{}:{number}: {name}", document.path));
                }
            }
        }
    }
    none("a source file that a map names exists", &faults);
}
