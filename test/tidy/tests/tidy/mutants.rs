//! Every planted fault (`scripts/mutants.sh`) applies to today's code and names its promise and its tests.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tidy::{none, root};

fn patches() -> Vec<PathBuf> {
    let files = fs::read_dir(root().join("test/mutants")).unwrap();
    let mut patches: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    patches.sort();
    patches
}

#[test]
fn every_planted_fault_applies() {
    let mut faults = Vec::new();
    for patch in patches() {
        // These are the options with which scripts/mutants.sh applies a patch.
        let check = Command::new("git")
            .args(["apply", "--check", "-C1", "--unidiff-zero"])
            .arg(&patch)
            .current_dir(root())
            .output();
        let check = check.expect("git runs");
        if !check.status.success() {
            let why = String::from_utf8_lossy(&check.stderr).trim().to_string();
            faults.push(why);
        }
    }
    none(
        "the code under a planted fault has changed: plant the same fault in the new code, and see with \
         scripts/mutants.sh NAME that it is noticed",
        &faults,
    );
    assert!(
        patches().len() >= 40,
        "test/mutants has at least 40 planted faults"
    );
}

#[test]
fn every_planted_fault_names_a_promise_and_its_tests() {
    let mut faults = Vec::new();
    for patch in patches() {
        let name = patch.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&patch).unwrap();
        let header: Vec<&str> = text
            .lines()
            .take_while(|line| !line.starts_with("diff --git "))
            .collect();
        let promises = header.iter().filter(|line| line.starts_with("promise: "));
        let is_command = |line: &&&str| {
            let kinds = ["test: -p ", "e2e: ", "guest: ", "crash: "];
            kinds.iter().any(|kind| line.starts_with(kind))
        };
        let commands = header.iter().filter(is_command).count();
        let targets = [" --lib", " --test ", " --bin "];
        let has_target = |line: &&str| targets.iter().any(|target| line.contains(target));
        let mut tests = header.iter().filter(|line| line.starts_with("test: "));
        let have_targets = tests.all(has_target);
        let production = text
            .lines()
            .filter_map(|line| line.strip_prefix("+++ b/"))
            .all(|path| !path.contains("/tests/") && !path.ends_with("_test.rs"));
        if promises.count() != 1
            || commands == 0
            || !have_targets
            || !production
            || !name.ends_with(".patch")
        {
            faults.push(name);
        }
    }
    none(
        "test/mutants/NAME.patch has one line `promise: ...`, then `test: -p CRATE --lib|--test|--bin ...`, `e2e: ...`, `guest: ...` or \
         `crash: ...`, then a diff of production code",
        &faults,
    );
}
