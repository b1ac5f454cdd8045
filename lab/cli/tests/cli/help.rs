//! Help texts.

use crate::common::{bench, contains};

#[test]
fn help_shows_the_way_from_a_drive_to_a_store_on_it() {
    let help = bench().ok(&["--help"]);
    for step in [
        "tonearm-lab drive list",
        "tonearm-lab calibrate /dev/sdx",
        "tonearm-lab lab run",
        "tonearm-lab study --trace",
        "tonearm create",
        "Exit codes",
    ] {
        contains(&help, step);
    }
}

#[test]
fn no_argument_is_a_usage_error_with_help() {
    let ran = bench().run(&[]);
    assert_eq!(ran.code, Some(2));
    contains(&ran.err, "tonearm-lab calibrate");
}

#[test]
fn manual_pages_and_completions_are_made() {
    let bench = bench();
    contains(&bench.ok(&["man"]), ".TH tonearm-lab 1");
    bench.ok(&["man", "--out", "man1"]);
    for name in [
        "drive-replay",
        "calibrate",
        "lab-run",
        "study",
        "workload-tpcc",
    ] {
        let page = bench.path(&format!("man1/tonearm-lab-{name}.1"));
        let page = std::fs::read_to_string(page).expect("a page");
        contains(&page, &format!(".TH tonearm-lab-{name} 1"));
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.ok(&["completions", shell]);
        contains(&script, "tonearm-lab");
        contains(&script, "calibrate");
    }
}
