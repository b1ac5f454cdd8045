//! The rules of `deny.toml` for dependencies, checked without installing cargo-deny.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use tidy::{none, root};
use toml::Table;

fn rules() -> Table {
    fs::read_to_string(root().join("deny.toml"))
        .unwrap()
        .parse()
        .unwrap()
}

/// What `cargo metadata` says of the workspace and its dependencies.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = [
        "metadata",
        "--format-version",
        "1",
        "--offline",
        "--filter-platform",
    ];
    let output = Command::new(cargo)
        .args(arguments)
        .arg("x86_64-unknown-linux-gnu")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// All packages of the workspace and its dependencies.
fn packages() -> Vec<Value> {
    let packages = metadata()["packages"].as_array().unwrap().clone();
    assert!(packages.len() > 20, "the dependencies are found");
    packages
}

#[test]
fn licences_are_permissive() {
    let rules = rules();
    let allowed: Vec<&str> = rules["licenses"]["allow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let mut faults = Vec::new();
    for package in packages() {
        let licence = package["license"].as_str().unwrap_or("none");
        if !satisfied(licence, &allowed) {
            faults.push(format!(
                "{} {}: {licence}",
                package["name"], package["version"]
            ));
        }
    }
    none("licences that deny.toml allows", &faults);
}

/// Evaluates an SPDX expression: an OR needs one satisfied side, an AND needs both.
fn satisfied(licence: &str, allowed: &[&str]) -> bool {
    let licence = licence.trim().replace('/', " OR ");
    if let Some(at) = outer(&licence, " OR ") {
        return satisfied(&licence[..at], allowed) || satisfied(&licence[at + 4..], allowed);
    }
    if let Some(at) = outer(&licence, " AND ") {
        return satisfied(&licence[..at], allowed) && satisfied(&licence[at + 5..], allowed);
    }
    match licence
        .strip_prefix('(')
        .and_then(|inner| inner.strip_suffix(')'))
    {
        Some(inner) => satisfied(inner, allowed),
        None => allowed.contains(&licence.trim()),
    }
}

/// Position of the first `word` outside of parentheses.
fn outer(text: &str, word: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, letter)| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0 && text[at..].starts_with(word)).then_some(at)
    })
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = ["MIT", "ISC"];
    for (licence, good) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT/Apache-2.0", true),
        ("ISC AND GPL-3.0", false),
        ("ISC AND (Apache-2.0 OR MIT)", true),
        ("(ISC AND GPL-3.0) OR (GPL-3.0 AND MIT)", false),
    ] {
        assert_eq!(satisfied(licence, &allowed), good, "{licence}");
    }
}

/// The packages that need each package, by names.
fn users() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let names: BTreeMap<&str, &str> = packages
        .map(|package| {
            let text = |key: &str| package[key].as_str().unwrap();
            (text("id"), text("name"))
        })
        .collect();
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let user = names[node["id"].as_str().unwrap()];
        for needed in node["dependencies"].as_array().unwrap() {
            let needed = names[needed.as_str().unwrap()];
            let entry = users.entry(needed.to_string()).or_default();
            entry.insert(user.to_string());
        }
    }
    assert!(users["tokio"].contains("tonearm-bucket"), "users are found");
    users
}

#[test]
fn packages_come_from_crates_io_and_none_is_banned() {
    let rules = rules();
    let sources = rules["sources"]["allow-registry"].as_array().unwrap();
    let sources: Vec<&str> = sources
        .iter()
        .map(|source| source.as_str().unwrap())
        .collect();
    let banned = rules["bans"]["deny"].as_array().unwrap();
    let mut faults = Vec::new();
    let users = users();
    for rule in banned {
        let name = rule["crate"].as_str().unwrap();
        let wrappers = rule.get("wrappers").and_then(toml::Value::as_array);
        let wrappers: Vec<&str> = wrappers
            .into_iter()
            .flatten()
            .map(|wrapper| wrapper.as_str().unwrap())
            .collect();
        for user in users.get(name).into_iter().flatten() {
            if !wrappers.contains(&user.as_str()) {
                faults.push(format!("{name} is banned, and {user} needs it"));
            }
        }
    }
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let Some(source) = package["source"].as_str() else {
            continue;
        };
        if !sources
            .iter()
            .any(|allowed| source == format!("registry+{allowed}"))
        {
            faults.push(format!("{name} comes from {source}"));
        }
    }
    none("sources and bans of deny.toml", &faults);
}
