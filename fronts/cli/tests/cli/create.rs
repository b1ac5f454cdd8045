use crate::common::{Bench, contains};
use std::os::unix::fs::MetadataExt;

#[test]
fn a_new_store_is_described_as_it_is() {
    let bench = Bench::new();
    let out = bench.ok(&["create", "a", "--size", "64MiB"]);
    contains(&out, "64 MiB");
    contains(&out, "next: tonearm serve a");
    let info = bench.json(&["info", "a", "--json"]);
    assert_eq!(info["state"], "clean");
    assert_eq!(info["size_bytes"], 64 << 20);
    assert_eq!(info["volumes"][0]["name"], "main");
    assert_eq!(info["volumes"][0]["size_bytes"], 64 << 20);
    contains(&bench.ok(&["check", "a"]), "no damage found");
}

#[test]
fn looking_changes_nothing() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let before = std::fs::read(bench.path("a")).expect("a file");
    bench.ok(&["info", "a"]);
    bench.ok(&["check", "a"]);
    bench.ok(&["volume", "list", "a"]);
    assert!(before == std::fs::read(bench.path("a")).expect("a file"));
    assert_eq!(bench.files(), ["a"]);
}

#[test]
fn sixteen_tebibytes_take_no_time_and_no_space() {
    let bench = Bench::new();
    let parts = ["--data", "a.2", "--data", "a.3", "--data", "a.4"];
    let started = std::time::Instant::now();
    bench.ok(&[
        &["create", "a", "--size", "16TiB", "--log-size", "64MiB"],
        &parts[..],
    ]
    .concat());
    let info = bench.json(&["info", "a", "--json"]);
    assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());
    assert_eq!(info["members"].as_array().map(Vec::len), Some(4));
    let used: u64 = bench
        .files()
        .iter()
        .map(|name| bench.path(name).metadata().expect("a file").blocks())
        .sum();
    assert!(used * 512 < 80 << 20, "{used} sectors");
}

#[test]
fn a_preallocated_store_has_all_its_space() {
    let bench = Bench::new();
    bench.ok(&[
        "create",
        "a",
        "--size",
        "16MiB",
        "--log-size",
        "8MiB",
        "--preallocate",
    ]);
    let file = bench.path("a").metadata().expect("a file");
    assert!(file.blocks() * 512 >= file.len());
    contains(&bench.ok(&["check", "a"]), "no damage found");
}

#[test]
fn create_allocates_log_space_in_an_existing_file() {
    let bench = Bench::new();
    let create = ["create", "a", "--size", "64MiB", "--log-size", "8MiB"];
    bench.ok(&create);
    let used = || bench.path("a").metadata().expect("a file").blocks() * 512;
    assert!(used() >= 8 << 20, "{} bytes", used());
    let file = std::fs::File::create(bench.path("a")).expect("emptied");
    file.set_len(80 << 20).expect("all of it a hole");
    assert!(used() < 1 << 20, "{} bytes", used());
    bench.ok(&[&create[..], &["--force"]].concat());
    assert!(used() >= 8 << 20, "{} bytes", used());
}

#[test]
fn members_are_found_in_the_primary_folder_or_as_named() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("one")).expect("a folder");
    bench.ok(&[
        "create",
        "one/a",
        "--size",
        "64MiB",
        "--log",
        "one/a.log",
        "--data",
        "one/a.2",
    ]);
    std::fs::rename(bench.path("one"), bench.path("two")).expect("renamed");
    contains(&bench.ok(&["info", "two/a"]), "a.log: log");
    std::fs::rename(bench.path("two/a.2"), bench.path("elsewhere")).expect("renamed");
    let error = bench.fails(&["info", "two/a"]);
    contains(
        &error,
        "member 2 of two/a (if it was moved, name its place with --member)",
    );
    contains(&error, "does not exist");
    contains(
        &bench.ok(&["check", "two/a", "--member", "elsewhere"]),
        "no damage found",
    );
    let error = bench.fails(&["info", "two/a.log"]);
    contains(&error, "not the primary one");
}

#[test]
fn failed_create_leaves_no_files() {
    let bench = Bench::new();
    std::fs::write(bench.path("there"), "precious").expect("written");
    for (arguments, why) in [
        (
            &["a", "--size", "1KiB"][..],
            "the size must be at least 1 MiB",
        ),
        (
            &["a", "--size", "64MiB", "--log-size", "64KiB"],
            "the log is too small",
        ),
        (
            &["a", "--size", "64MiB", "--block-size", "5000"],
            "power of two",
        ),
        (&["a", "--size", "64MiB", "--log", "a"], "a is named twice"),
        (
            &["a", "--size", "64MiB", "--data", "no/such"],
            "does not exist",
        ),
        (
            &["a", "--size", "64MiB", "--data", "there"],
            "there exists already",
        ),
        (&["there", "--size", "64MiB"], "use --force to overwrite"),
        (&["a", "--size", "4000TiB"], "use --size"),
        (
            &[".", "--size", "64MiB"],
            "neither a regular file nor a block device",
        ),
    ] {
        let error = bench.fails(&[&["create"], arguments].concat());
        contains(&error, why);
        assert_eq!(bench.files(), ["there"], "{arguments:?}");
    }
    assert_eq!(
        std::fs::read(bench.path("there")).expect("a file"),
        b"precious"
    );
    bench.ok(&["create", "there", "--size", "16MiB", "--force"]);
    contains(&bench.ok(&["check", "there"]), "no damage found");
}

#[test]
fn formula_log_needs_the_deltas_of_the_drive_file() {
    let bench = Bench::new();
    let known = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../lab/drives/hp_c3323a.toml"
    );
    let known = std::fs::read_to_string(known).expect("a drive's file");
    let (without, _) = known.split_once("[disk.deltas]").expect("the section");
    std::fs::write(bench.path("mine.toml"), without).expect("written");
    let create = ["create", "a", "--size", "32MiB", "--log-size", "16MiB"];
    let log = ["--log", "a.log", "--log-drive", "./mine.toml"];
    let create = [&create[..], &log].concat();
    let formula = [&create[..], &["--head", "formula"]].concat();
    let printed = bench.fails(&formula);
    contains(&printed, "`tonearm-lab drive deltas ./mine.toml`");
    assert_eq!(bench.files(), ["mine.toml"]);
    std::fs::write(bench.path("mine.toml"), &known).expect("written");
    contains(&bench.ok(&formula), "formula, on physical tracks");
}

#[test]
fn no_file_is_made_among_the_devices() {
    let bench = Bench::new();
    let none = "/dev/tonearm-none";
    std::os::unix::fs::symlink("/dev", bench.path("d")).expect("a link");
    for arguments in [
        &["create", none, "--size", "16MiB"][..],
        &["create", "a", "--size", "16MiB", "--log", none],
        &["create", "a", "--size", "16MiB", "--data", none],
        &["create", "a", "--size", "16MiB", "--log", "d/tonearm-none"],
        &["restore", "file:///none", none],
    ] {
        let refused = bench.fails(arguments);
        contains(
            &refused,
            "is no block device, and a file below /dev lies in memory",
        );
        assert!(!std::path::Path::new(none).exists(), "{arguments:?}");
    }
    assert_eq!(bench.files(), ["d"]);
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let refused = bench.fails(&["volume", "get", "a", "main", none]);
    contains(&refused, "is no block device");
    assert!(!std::path::Path::new(none).exists());
}

#[test]
fn a_missing_folder_is_named() {
    let refused = Bench::new().fails(&["create", "no/such/a", "--size", "16MiB"]);
    contains(
        &refused,
        "no/such/a: the folder no/such does not exist; make it first: mkdir -p no/such",
    );
}

#[test]
fn create_reports_usage_and_how_to_make_space_for_files() {
    let bench = Bench::new();
    let out = bench.ok(&["create", "a", "--size", "64MiB", "--log-size", "8MiB"]);
    contains(&out, "make room first: tonearm grow a --by 32MiB");
    bench.ok(&["grow", "a", "--by", "32MiB"]);
    std::fs::write(bench.path("note"), "text").expect("written");
    bench.ok(&["files", "put", "a", "note"]);
    let segments = ["--layout", "segments"];
    let out = bench.ok(&[&["create", "c", "--size", "64MiB"][..], &segments].concat());
    contains(
        &out,
        "make room first: tonearm volume resize c main --size 32MiB",
    );
    let out = bench.ok(&["create", "b", "--size", "64MiB", "--no-volume"]);
    assert!(!out.contains("make room"), "{out}");
    let used = bench.path("a").metadata().expect("a file").blocks() * 512;
    assert_eq!(bench.json(&["info", "a", "--json"])["used_bytes"], used);
    assert_eq!(
        bench.json(&["volume", "list", "a", "--json"])["used_bytes"],
        used
    );
    contains(&bench.ok(&["info", "a"]), "with the log");
    contains(&bench.ok(&["volume", "list", "a"]), "used below the store");
}

/// The sizes are those of HyLog 5 for these drives; the paper's last drive is in no drive file with its seeks.
#[test]
fn segments_of_size_auto_follow_the_drive() {
    let bench = Bench::new();
    let create = |more: &[&str]| {
        let all = [
            "create", "a", "--size", "64MiB", "--force", "--layout", "segments", "--json",
        ];
        let auto = ["--segment-size", "auto"];
        [&all[..], &auto, more]
            .concat()
            .iter()
            .map(|word| word.to_string())
            .collect::<Vec<_>>()
    };
    let made = |more: &[&str]| {
        let arguments = create(more);
        bench.ok(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for (drive, bytes) in [("atlas10k", 512 << 10), ("hylog2003", 1 << 20)] {
        let printed = made(&["--data-drive", drive]);
        contains(&printed, &format!("\"segment_bytes\": {bytes}"));
    }
    // As much for each drive of an array that a segment keeps busy.
    let members = [
        "--redundancy",
        "raid5",
        "--data",
        "b",
        "--data",
        "c",
        "--data",
        "d",
    ];
    let printed = made(&[&members[..], &["--data-drive", "atlas10k"]].concat());
    contains(&printed, &format!("\"segment_bytes\": {}", 2 * (512 << 10)));
    let fails = |more: &[&str]| {
        let arguments = create(more);
        bench.fails(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    contains(&fails(&[]), "--segment-size auto needs --data-drive");
    contains(&fails(&["--data-drive", "ssd"]), "has no platter");
}
