//! Stores that earlier versions of the program have made must open with the same content. `test/e2e/golden/README.md`
//! says how they were made.

use tonearm_tests::{Bench, DIFFERENCES, contains, golden_block, golden_differences, tool};

/// Unpacks a golden image as `s.tn`, and its other members under their names.
fn unpacked(name: &str, files: &[&str]) -> Bench {
    let bench = Bench::new();
    for file in files {
        let packed = format!("{}/golden/{name}.{file}.gz", env!("CARGO_MANIFEST_DIR"));
        let output = tool(bench.folder(), "gzip")
            .args(["-d", "-c", &packed])
            .output()
            .expect("timeout runs");
        assert!(output.status.success(), "{output:?}");
        bench.write(file, &output.stdout);
    }
    bench
}

#[track_caller]
fn is(bench: &Bench, state: &str, version: u32) {
    let info = bench.json(&["info", "s.tn", "--json"]);
    let found = (&info["state"], &info["format_version"]);
    assert_eq!(found, (&state.into(), &version.into()));
    if state == "crashed" {
        assert!(info["log"]["commits"].as_u64() > Some(0), "{info}");
    }
}

/// Checks the flushed content of a golden image: known blocks, a hole between them, unaligned bytes, and a second
/// volume.
fn flushed_content_is_there(bench: &Bench) {
    let server = bench.serve_store();
    let mut client = server.client("main");
    assert_eq!(client.size, 1 << 20);
    for block in 0..8 {
        let read = client.read(block * 4096, 4096).expect("read");
        let right = if block == 5 {
            vec![0; 4096]
        } else {
            golden_block(block)
        };
        assert!(read == right, "block {block}");
    }
    assert_eq!(client.read(40_000, 7).expect("read"), b"tonearm");
    let mut other = server.client("other");
    assert!(other.read(0, 4096).expect("read") == golden_block(77));
    server.end_ok();
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}

#[test]
fn format_1_closed_in_order() {
    let bench = unpacked("format-1-clean", &["s.tn"]);
    is(&bench, "clean", 1);
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    flushed_content_is_there(&bench);
}

#[test]
fn format_1_killed_with_commits_in_the_log() {
    let bench = unpacked("format-1-crashed", &["s.tn"]);
    is(&bench, "crashed", 1);
    contains(&bench.ok(&["check", "s.tn"]), "for recovery");
    flushed_content_is_there(&bench);
}

#[test]
fn format_2_closed_in_order() {
    let bench = unpacked("format-2-clean", &["s.tn", "a.log", "b.log"]);
    is(&bench, "clean", 2);
    contains(
        &bench.ok(&["info", "s.tn"]),
        "formula, on physical tracks of 2 drives in turn",
    );
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    flushed_content_is_there(&bench);
}

#[test]
fn format_2_killed_with_commits_in_the_log() {
    let bench = unpacked("format-2-crashed", &["s.tn", "a.log", "b.log"]);
    is(&bench, "crashed", 2);
    flushed_content_is_there(&bench);
}

#[test]
fn format_3_of_the_segments_layout_closed_in_order() {
    let bench = unpacked("format-3-clean", &["s.tn"]);
    is(&bench, "clean", 3);
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    flushed_content_is_there(&bench);
    // The home can be rebuilt from the segment summaries alone.
    bench.ok(&["check", "s.tn", "--rebuild"]);
    flushed_content_is_there(&bench);
}

#[test]
fn format_3_of_the_segments_layout_killed() {
    let bench = unpacked("format-3-crashed", &["s.tn"]);
    is(&bench, "crashed", 3);
    contains(&bench.ok(&["check", "s.tn"]), "for recovery");
    flushed_content_is_there(&bench);
}

#[test]
fn format_3_of_the_layout_hylog_closed_in_order() {
    let bench = unpacked("format-3-hylog-clean", &["s.tn"]);
    is(&bench, "clean", 3);
    contains(&bench.ok(&["info", "s.tn"]), "hylog");
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    flushed_content_is_there(&bench);
    // The home can be rebuilt from the segment summaries alone, notes of overwritten blocks included.
    bench.ok(&["check", "s.tn", "--rebuild"]);
    flushed_content_is_there(&bench);
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}

#[test]
fn format_3_of_the_layout_hylog_killed() {
    let bench = unpacked("format-3-hylog-crashed", &["s.tn"]);
    is(&bench, "crashed", 3);
    contains(&bench.ok(&["check", "s.tn"]), "for recovery");
    flushed_content_is_there(&bench);
}

#[test]
fn records_with_runs_of_words_in_the_log_of_a_killed_program() {
    let bench = unpacked("records-3-crashed", &["s.tn"]);
    let store = std::fs::read(bench.path("s.tn")).expect("read");
    let with_runs =
        |sector: &[u8]| sector.starts_with(b"\xffTNREC\r\n") && sector[8..12] == 3u32.to_le_bytes();
    let records = store.chunks(512).filter(|sector| with_runs(sector)).count();
    assert!(records >= 3, "{records} records of version 3");
    contains(&bench.ok(&["check", "s.tn"]), "for recovery");
    let server = bench.serve_store();
    let read = server.client("main").read(12 * 4096, 4096).expect("read");
    assert!(read == golden_differences(DIFFERENCES));
    server.end_ok();
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}

#[test]
fn format_4_closed_in_order_opens_without_any_member_of_its_array() {
    let files = ["s.tn", "d1", "d2", "d3"];
    for lost in &files[1..] {
        let bench = unpacked("format-4-clean", &files);
        is(&bench, "clean", 4);
        contains(&bench.ok(&["check", "s.tn"]), "no damage found");
        std::fs::remove_file(bench.path(lost)).expect("removed");
        flushed_content_is_there(&bench);
    }
}

/// What `numbers` in the stores of files has.
fn numbers() -> Vec<u8> {
    (0..5000)
        .flat_map(|number| format!("{number:07}\n").into_bytes())
        .collect()
}

#[test]
fn files_of_the_volume_table_become_files_of_the_file_system() {
    let bench = unpacked("files-3-table", &["s.tn"]);
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    let note = "were made by an earlier version";
    let server = bench.serve_store();
    assert_eq!(bench.stored_names(), ["a b", "app.db", "empty", "numbers"]);
    contains(&server.end().err, note);
    for (name, content) in [
        ("numbers", numbers()),
        ("a b/c", numbers()),
        ("empty", Vec::new()),
    ] {
        bench.ok(&["files", "get", "s.tn", name, "copy", "--force"]);
        assert!(
            std::fs::read(bench.path("copy")).expect("a copy") == content,
            "{name}"
        );
    }
    bench.ok(&["sqlite", "export", "s.tn", "app.db", "copy.db"]);
    let database = std::fs::read(bench.path("copy.db")).expect("a copy");
    assert!(database.starts_with(b"SQLite format 3\0") && database.len() == 20 << 10);
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    // Nothing is left to be moved.
    let server = bench.serve_store();
    assert!(!server.end().err.contains(note));
}

#[test]
fn a_file_system_that_was_killed_is_whole() {
    let bench = unpacked("files-3-tree", &["s.tn"]);
    is(&bench, "crashed", 3);
    bench.ok(&["files", "get", "s.tn", "-r", "d"]);
    let read = |name: &str| std::fs::read(bench.path("d").join(name)).expect("a copy");
    assert!(read("numbers") == numbers());
    let mut sparse = vec![0; 1_000_000];
    sparse.extend(b"end");
    assert!(read("sparse") == sparse);
    let link = std::fs::read_link(bench.path("d/link")).expect("a link");
    assert_eq!(link.to_str(), Some("numbers"));
    assert!(
        bench
            .path("d/empty")
            .read_dir()
            .expect("a folder")
            .next()
            .is_none()
    );
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}
