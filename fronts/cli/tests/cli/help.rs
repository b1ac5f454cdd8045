use crate::common::{Bench, contains};

#[test]
fn help_shows_the_way_from_nothing_to_a_served_disk() {
    let help = Bench::new().ok(&["--help"]);
    for step in [
        "tonearm create disk.tonearm",
        "tonearm serve disk.tonearm",
        "nbdcopy",
        "Exit codes",
    ] {
        contains(&help, step);
    }
}

#[test]
fn no_argument_is_a_usage_error_with_help() {
    let ran = Bench::new().run(&[]);
    assert_eq!(ran.code, Some(2));
    contains(&ran.err, "tonearm create");
}

#[test]
fn a_bad_size_is_a_usage_error_with_advice() {
    let bench = Bench::new();
    for size in ["10Gigs", "ten", "-5", "0"] {
        let ran = bench.run(&["create", "a", "--size", size]);
        assert_eq!(ran.code, Some(2), "{size}: {ran:?}");
    }
    contains(
        &bench.run(&["create", "a", "--size", "10Gigs"]).err,
        "such as 10GiB, 512MiB",
    );
    assert!(bench.files().is_empty());
}

#[test]
fn manual_pages_and_completions_are_made() {
    let bench = Bench::new();
    contains(&bench.ok(&["man"]), ".TH tonearm 1");
    bench.ok(&["man", "--out", "man1"]);
    let pages = std::fs::read_dir(bench.path("man1"))
        .expect("a folder")
        .count();
    assert!(
        pages >= 14,
        "a page for each command and each action on volumes: {pages}"
    );
    for name in [
        "volume-create",
        "files-mkdir",
        "files-mv",
        "files-put",
        "sqlite-import",
    ] {
        let page = bench.path(&format!("man1/tonearm-{name}.1"));
        let page = std::fs::read_to_string(page).expect("a page");
        contains(&page, &format!(".TH tonearm-{name} 1"));
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.ok(&["completions", shell]);
        contains(&script, "tonearm");
        contains(&script, "sqlite");
        contains(&script, "mkdir");
        contains(&script, "recursive");
    }
}
