//! Which crate may depend on which, and what every manifest must contain.

use std::collections::BTreeMap;
use std::fs;
use tidy::{none, root, sources};
use toml::{Table, Value};

/// The crates from the lowest up, each with the crates that it may depend on: the table of docs/architecture/layers.md.
/// Dependencies point down only. No crate that also runs in a simulation depends on `uring`, and neither the disk nor a front end depends
/// on a crate of `lab`, except `tonearm` on `drive-file`.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("disk/base", &[]),
    ("disk/format", &["base"]),
    ("disk/rt", &["base"]),
    ("disk/uring", &["base", "rt"]),
    ("disk/head", &["base"]),
    ("disk/device", &["base", "format", "rt"]),
    ("disk/trail", &["base", "format", "rt", "device", "head"]),
    ("disk/layout", &["base", "format", "rt", "device"]),
    (
        "disk/engine",
        &["base", "format", "rt", "device", "head", "trail", "layout"],
    ),
    (
        "disk/archive",
        &["base", "format", "rt", "layout", "engine"],
    ),
    ("disk/disk", &["base", "format", "rt", "layout", "engine"]),
    (
        "disk/fs",
        &["base", "format", "rt", "layout", "engine", "disk"],
    ),
    // `bucket` is where archives lie in the real world.
    ("disk/bucket", &["rt", "archive"]),
    // `store` chooses the real world for a store inside a program.
    (
        "disk/store",
        &[
            "base", "format", "rt", "uring", "device", "trail", "layout", "engine", "archive",
            "disk", "fs",
        ],
    ),
    ("fronts/requests", &["base", "rt"]),
    ("fronts/nbd", &["base", "rt", "uring", "disk", "requests"]),
    ("fronts/fuse", &["base", "rt", "fs", "requests"]),
    ("fronts/vhost", &["base", "rt", "uring", "disk", "requests"]),
    (
        "fronts/attach",
        &["base", "rt", "uring", "disk", "requests"],
    ),
    ("fronts/capi", &["base", "bucket", "disk", "store", "uring"]),
    ("fronts/sqlite", &["bucket", "store"]),
    ("fronts/terminal", &[]),
    // The command `tonearm` runs in the real world. It reads drive files, and depends on nothing else of the laboratory.
    (
        "fronts/cli",
        &[
            "base",
            "format",
            "rt",
            "uring",
            "device",
            "head",
            "trail",
            "layout",
            "engine",
            "disk",
            "archive",
            "bucket",
            "store",
            "requests",
            "nbd",
            "vhost",
            "attach",
            "fs",
            "fuse",
            "terminal",
            "drive-file",
        ],
    ),
    ("test/command-rig", &[]),
    ("test/vhost-driver", &[]),
    ("test/world", &["base", "rt", "device"]),
    ("lab/trace", &["base"]),
    ("lab/workload", &["base", "trace"]),
    ("lab/drive-file", &["base", "head"]),
    ("lab/drive", &["base", "world", "drive-file"]),
    (
        "lab/pages",
        &["base", "layout", "world", "drive-file", "drive", "workload"],
    ),
    ("lab/head-study", &["base", "head"]),
    (
        "lab/calibrate",
        &[
            "base",
            "rt",
            "world",
            "drive-file",
            "drive",
            "device",
            "head",
            "head-study",
        ],
    ),
];

/// Crates that choose between the real and the simulated world. They may depend on every crate.
const CHOOSERS: &[&str] = &[
    "lab/cli",
    "lab/experiments",
    "test/bench",
    "test/e2e",
    "test/sim",
    "test/sqlite-suite",
    "test/tidy",
];

/// Crates with a clippy.toml of their own, because they use clocks, threads or the environment. The workspace's strict
/// lints apply to all others.
const OWN_LINTS: &[&str] = &[
    "disk/uring",
    "disk/bucket",
    "disk/store",
    "fronts/nbd",
    "fronts/fuse",
    "fronts/vhost",
    "fronts/attach",
    "fronts/capi",
    "fronts/sqlite",
    "fronts/terminal",
    "fronts/cli",
    "lab/calibrate",
    "test/command-rig",
    "test/vhost-driver",
];

/// The manifest of each crate, by the crate's folder.
fn manifests() -> BTreeMap<String, Table> {
    let mut manifests = BTreeMap::new();
    for source in sources("Cargo.toml") {
        let Some(folder) = source.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        if folder != "test/fuzz" {
            let manifest = source
                .text
                .parse()
                .unwrap_or_else(|error| panic!("{}: {error}", source.path));
            manifests.insert(folder.to_owned(), manifest);
        }
    }
    assert!(
        manifests.len() > MAY_NAME.len(),
        "the manifests of the crates are found"
    );
    manifests
}

fn workspace() -> Table {
    let text = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    text.parse().unwrap()
}

/// The workspace's own crates among the dependencies in `section`, without the prefix `tonearm-`.
fn own_dependencies(manifest: &Table, section: &str) -> Vec<String> {
    let workspace = workspace();
    let known = workspace["workspace"]["dependencies"].as_table().unwrap();
    let is_own = |name: &String| {
        known
            .get(name)
            .is_some_and(|value| value.get("path").is_some())
    };
    let table = manifest.get(section).and_then(Value::as_table);
    let table = table.into_iter().flat_map(Table::keys);
    let own = table.filter(|name| is_own(name));
    own.map(|name| name.trim_start_matches("tonearm-").to_owned())
        .collect()
}

#[test]
fn dependencies_point_down() {
    let mut faults = Vec::new();
    for (name, manifest) in manifests() {
        if CHOOSERS.contains(&name.as_str()) {
            continue;
        }
        let Some((_, allowed)) = MAY_NAME.iter().find(|(known, _)| *known == name) else {
            faults.push(format!(
                "{name} has no place among the layers of test/tidy/tests/tidy/crates.rs"
            ));
            continue;
        };
        for dependency in own_dependencies(&manifest, "dependencies") {
            if !allowed.contains(&dependency.as_str()) {
                faults.push(format!("{name} names {dependency}, which is not below it"));
            }
        }
    }
    none(
        "a crate depends only on crates below it, and only binaries and tests depend on uring",
        &faults,
    );
}

#[test]
fn the_documents_have_the_same_table() {
    let path = "docs/architecture/layers.md";
    let text = fs::read_to_string(root().join(path)).unwrap();
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let mut rows = Vec::new();
    for (name, allowed) in MAY_NAME {
        rows.push(format!("| `{name}` | {} |", allowed.join(", ")).replace("|  |", "| |"));
    }
    assert_eq!(found, rows, "{path} has the table MAY_NAME");
}

#[test]
fn own_crates_come_from_the_workspace() {
    let mut faults = Vec::new();
    for (name, manifest) in manifests() {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let table = manifest.get(section).and_then(Value::as_table);
            for (dependency, value) in table.into_iter().flatten() {
                if value.get("workspace") != Some(&Value::Boolean(true)) {
                    faults.push(format!("{name}: {dependency} in [{section}]"));
                }
            }
        }
    }
    none("versions are only in the workspace's Cargo.toml", &faults);
}

#[test]
fn every_crate_has_licence_version_and_lints() {
    let mut faults = Vec::new();
    for (name, manifest) in manifests() {
        for field in ["version", "edition", "rust-version", "license", "publish"] {
            let value = manifest["package"]
                .get(field)
                .and_then(|value| value.get("workspace"));
            if value != Some(&Value::Boolean(true)) {
                faults.push(format!("{name}: {field}.workspace = true is missing"));
            }
        }
        if manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .is_none()
        {
            faults.push(format!("{name}: [lints] workspace = true is missing"));
        }
    }
    none("each crate takes these from the workspace", &faults);
    let package = &workspace()["workspace"]["package"];
    assert_eq!(package["license"].as_str(), Some("MIT OR Apache-2.0"));
    assert!(package.get("rust-version").is_some());
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(root().join(file).exists(), "{file} exists");
    }
}

#[test]
fn engine_crates_have_the_strict_lints() {
    let mut faults = Vec::new();
    for name in manifests().keys() {
        if OWN_LINTS.contains(&name.as_str()) || CHOOSERS.contains(&name.as_str()) {
            continue;
        }
        // A clippy.toml next to the crate's Cargo.toml would replace that of the workspace.
        for file in ["clippy.toml", ".clippy.toml"] {
            if root().join(name).join(file).exists() {
                faults.push(format!("{name}/{file}"));
            }
        }
    }
    none("only crates of OWN_LINTS have a clippy.toml", &faults);
    let strict = fs::read_to_string(root().join("clippy.toml")).unwrap();
    for method in [
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "std::thread::spawn",
        "std::env::var",
    ] {
        assert!(
            strict.contains(&format!("\"{method}\"")),
            "{method} is forbidden"
        );
    }
}
