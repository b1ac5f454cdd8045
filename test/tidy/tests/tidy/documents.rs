//! Which documents must exist, and what the format documents must mention.

use std::fs;
use tidy::{none, root};

/// For each on-disk structure: the name of its document, and words that the byte table must contain.
const FORMATS: &[(&str, &[&str])] = &[
    ("superblock", &["TONEARM", "4096", "480", "256"]),
    ("record", &["TNREC", "128", "24", "4096"]),
    ("table", &["0x4c425401", "32"]),
    ("volume", &["TNVOLUME", "512", "4096"]),
    ("members", &["1 MiB"]),
    ("lists", &["256", "40", "16", "2^40"]),
    ("tree", &["TNTREE", "TNND", "TNFR", "128", "64", "19"]),
    (
        "segments",
        &["TASEGSUM", "TAMAP", "TACHKPNT", "96", "24", "32", "16"],
    ),
    ("parity", &["TNPARITY", "512", "256"]),
    ("array", &["TNARRAY", "16384", "480", "128"]),
    ("archive", &["TNARCHIV", "128", "120"]),
    ("track-sheet", &["TNTRACKS", "128", "48", "72"]),
];

#[test]
fn every_structure_on_disk_has_a_byte_table() {
    let mut faults = Vec::new();
    for (name, words) in FORMATS {
        let path = format!("docs/format/{name}.md");
        let Ok(text) = fs::read_to_string(root().join(&path)) else {
            faults.push(format!("{path} is missing"));
            continue;
        };
        // A byte table may group digits, as in 0x4c42_5401 or 4,096.
        let text = text.replace([',', '_'], "");
        for word in *words {
            if !text.contains(word) {
                faults.push(format!("{path} does not mention {word}"));
            }
        }
    }
    none("docs/format has a byte table of each structure", &faults);
}

#[test]
fn every_format_document_is_of_a_structure() {
    let folder = root().join("docs/format");
    let mut faults = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let known = FORMATS
            .iter()
            .any(|(format, _)| name == format!("{format}.md"));
        if !known && name != "README.md" {
            faults.push(name);
        }
    }
    none(
        "a document of docs/format is named in test/tidy/tests/tidy/documents.rs",
        &faults,
    );
}

#[test]
fn decisions_are_numbered_in_a_row() {
    let mut names: Vec<String> = fs::read_dir(root().join("docs/decisions"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    names.sort();
    let mut faults = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let number = name
            .split('-')
            .next()
            .and_then(|number| number.parse::<usize>().ok());
        if number != Some(index + 1) || !name.ends_with(".md") {
            faults.push(format!("{name}: number {} is expected", index + 1));
        }
    }
    none(
        "decisions are NUMBER-title.md, from 1 on without a gap",
        &faults,
    );
    assert!(!names.is_empty(), "decisions are recorded");
}

#[test]
fn the_documents_that_people_look_for_exist() {
    let names = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/operations/README.md",
        "docs/results/README.md",
    ];
    let missing = names.into_iter().filter(|name| !root().join(name).exists());
    let missing: Vec<String> = missing.map(str::to_owned).collect();
    none("these are missing", &missing);
}
