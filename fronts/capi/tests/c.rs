//! Programs in C, compiled with `cc` against the header and linked with both forms of the library.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the static library needs of the system.
const SYSTEM: &[&str] = &["-lpthread", "-ldl", "-lm", "-lgcc_s", "-lc"];

/// The folder with `libtonearm.so` and `libtonearm.a`, which is the folder of this test's program.
fn libraries() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().to_path_buf()
}

fn run(command: &mut Command, name: &str) {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{name} is needed for this test and does not start: {error}")
    });
    assert!(
        output.status.success(),
        "{name}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Compiles `tests/c/NAME.c`, runs it with the path of a new store, and expects exit code 0. Twice, once for each
/// library.
fn check(name: &str) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = libraries();
    for linked in ["shared", "static"] {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"])
            .arg("-I")
            .arg(crate_folder.join("include"))
            .arg(crate_folder.join("tests/c").join(name).with_extension("c"))
            .arg("-o")
            .arg(&program);
        match linked {
            "shared" => cc
                .arg("-L")
                .arg(&libraries)
                .arg("-ltonearm")
                .arg("-lpthread"),
            _ => cc.arg(libraries.join("libtonearm.a")).args(SYSTEM),
        };
        run(&mut cc, "cc");
        let mut test = Command::new(&program);
        test.arg(folder.path().join("store.tn"))
            .env("LD_LIBRARY_PATH", &libraries);
        run(&mut test, &format!("{name}, {linked}"));
    }
}

#[test]
fn files_in_units() {
    check("units");
}

#[test]
fn lists_in_concurrent_units() {
    check("lists");
}

#[test]
fn the_archive_of_a_store() {
    check("archive");
}

#[test]
fn misuse_is_refused() {
    check("misuse");
}

#[test]
fn threads() {
    check("threads");
}

/// The header declares exactly the functions of the library.
#[test]
fn header_and_library_name_the_same_functions() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(crate_folder.join("include/tonearm.h")).unwrap();
    let sources = ["src/archive.rs", "src/lib.rs", "src/lists.rs"]
        .map(|source| std::fs::read_to_string(crate_folder.join(source)).unwrap());
    let names = |text: &str, before: &str| {
        let mut names: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with(before) && line.contains("tonearm_"))
            .filter_map(|line| line.split_once('('))
            .filter_map(|(head, _)| head.rsplit([' ', '*']).next().map(str::to_string))
            .collect();
        names.sort();
        names
    };
    let mut declared = names(&header, "int tonearm_");
    declared.extend(names(&header, "void tonearm_"));
    declared.extend(names(&header, "const char *tonearm_"));
    declared.sort();
    let defined = names(&sources.concat(), "pub ");
    assert!(declared.len() > 10);
    assert_eq!(declared, defined);
}
