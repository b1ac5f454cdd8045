//! `tonearm-bench-virtual layouts` on arrays: a small run as its user sees it, and options that do not go together.

use std::process::{Command, Output};

/// A run of less than a second.
const SMALL: &str = "layouts --mib 4 --times 1 --log-mib 4 --memory-mib 4 --drive sata2tb \
                     --utilisation 60 --layout segments";

fn bench(options: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tonearm-bench-virtual"))
        .args(options.split_whitespace())
        .env("RUST_BACKTRACE", "1")
        .output()
        .expect("the benchmark starts")
}

/// What a successful run prints.
fn printed(options: &str) -> String {
    let output = bench(options);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("the tables are text")
}

/// Cells of the rows of `layout`, in each table.
fn rows<'a>(printed: &'a str, layout: &str) -> Vec<Vec<&'a str>> {
    let rows = printed.lines().map(|line| {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        cells.collect::<Vec<_>>()
    });
    rows.filter(|cells| cells.get(1) == Some(&layout)).collect()
}

#[test]
fn on_raid5_segments_update_few_stripes_in_part() {
    let printed = printed(&format!(
        "{SMALL} --segment-kib 300 --redundancy raid5 --disks 3"
    ));
    // 300 KiB are two stripes of 128 KiB and a rest.
    assert!(printed.contains("segments of 256 KiB"), "{printed}");
    let number = |layout: &str, column: usize| {
        let rows = rows(&printed, layout);
        assert_eq!(rows.len(), 2, "{layout} is in both tables: {printed}");
        let number = rows[1][column].parse::<f64>();
        number.unwrap_or_else(|_| panic!("{layout}, column {column} is no number: {printed}"))
    };
    assert_eq!(number("overwrite", 2), 1.0, "{printed}");
    let parts = |layout: &str| number(layout, 4) + number(layout, 5);
    assert!(number("segments 60 %", 3) > 0.0, "whole stripes: {printed}");
    assert!(
        4.0 * parts("segments 60 %") < parts("overwrite"),
        "parts of stripes: {printed}"
    );
}

#[test]
fn raid0_has_no_parity_to_write() {
    let printed = printed(&format!(
        "{SMALL} --segment-kib 300 --redundancy raid0 --disks 2"
    ));
    let rows = rows(&printed, "segments 60 %");
    assert_eq!(rows[1][3..6], ["0", "0", "0"], "{printed}");
}

#[test]
fn without_an_array_there_is_one_table() {
    let printed = printed(SMALL);
    assert_eq!(rows(&printed, "overwrite").len(), 1, "{printed}");
    assert!(!printed.contains("stripe"), "{printed}");
}

/// Each is refused with one message, before anything is measured.
#[test]
fn options_that_do_not_work_are_refused() {
    for (options, wanted) in [
        (
            "--redundancy raid5 --disks 2",
            "--redundancy raid5 takes 3 to 32 --disks; 2 given",
        ),
        (
            "--redundancy raid0 --disks 1",
            "--redundancy raid0 takes 2 to 32 --disks; 1 given",
        ),
        (
            "--redundancy raid5 --disks 33",
            "--redundancy raid5 takes 3 to 32 --disks; 33 given",
        ),
        ("--redundancy raid6 --disks 5", "invalid value 'raid6'"),
        ("--redundancy raid5 --disks five", "invalid value 'five'"),
        ("--redundancy raid5", "--disks <DISKS>"),
        ("--disks 5", "--redundancy <REDUNDANCY>"),
        ("--utilisation 99", "utilisations are from 25 to 98"),
        (
            "--redundancy raid5 --disks 5 --segment-kib 4194304",
            "--segment-kib is too large",
        ),
    ] {
        let output = bench(&format!("{SMALL} {options}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options}");
        assert!(output.stdout.is_empty(), "{options}");
        assert!(errors.contains(wanted), "{options}: {errors}");
        let count = errors.to_lowercase().matches("error:").count();
        assert_eq!(count, 1, "{options}: {errors}");
    }
}

/// With a cache that sorts, this drive overwrites many blocks in the time that appending them takes with its cleaning, and
/// a lone block in ten times as much. HyLog finds out by samples of a large sweep.
#[test]
fn hylog_overwrites_where_only_large_sweeps_are_cheap() {
    let printed = printed(
        "layouts --mib 64 --times 6 --log-mib 16 --memory-mib 8 --drive sata2tb --segment-kib 512 \
         --separation-interval 20 --utilisation 95 --layout segments --layout hylog",
    );
    let rate = |layout: &str| {
        let rate = rows(&printed, layout)[0][2].parse::<f64>();
        rate.unwrap_or_else(|_| panic!("{layout} has no rate: {printed}"))
    };
    // The cleaner of segments plugs.
    assert!(rate("segments 95 %") < 0.9 * rate("overwrite"), "{printed}");
    assert!(rate("hylog 95 %") > 0.85 * rate("overwrite"), "{printed}");
}

/// Holes of segments that recovery reads are not filled, and their blocks are not moved. Without a checkpoint at its price the
/// longest wait is 107 ms here, and it was 323 ms when writers waited for cleaning alone (12 s with atlas10k and 256 MiB).
#[test]
fn cleaner_writes_a_checkpoint_where_holes_run_out() {
    let printed = printed(
        "layouts --mib 64 --times 4 --log-mib 8 --memory-mib 8 --drive hylog2003 --segment-kib 512 --hot 80 \
         --utilisation 90 --layout segments",
    );
    let longest = rows(&printed, "segments 90 %")[0][7].parse::<f64>();
    assert!(longest.expect("a time") < 50.0, "{printed}");
}

#[test]
fn error_is_one_line_without_a_backtrace() {
    let output = bench("layouts --mib 4 --drive no-such-drive");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.starts_with("error: "), "{errors}");
}
