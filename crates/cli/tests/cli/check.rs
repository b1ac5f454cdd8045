use crate::common::{Bench, contains};

const SLOT: usize = 256 << 10;
/// Behind the log of the stores here: superblocks and 8 MiB of log.
const HOME: u64 = 9 << 20;

fn store(bench: &Bench) {
    bench.ok(&["create", "a", "--size", "16MiB", "--log-size", "8MiB"]);
}

#[test]
fn a_damaged_copy_of_the_superblock_is_found_and_repaired() {
    let bench = Bench::new();
    store(&bench);
    bench.flip("a", 2 * SLOT + 40);
    let ran = bench.run(&["check", "a"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    contains(&ran.out, "3 copies of the superblock are whole, 1 are not");
    let report = bench.run(&["check", "a", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report.out).expect("JSON");
    assert_eq!(report["sound"], false);
    assert_eq!(
        report["superblocks"][0]["damaged_slots"],
        serde_json::json!([2])
    );
    contains(
        &bench.ok(&["check", "a", "--repair"]),
        "the store is whole again",
    );
    contains(&bench.ok(&["check", "a"]), "no damage found");
}

#[test]
fn a_rotten_block_is_found_and_named() {
    let bench = Bench::new();
    store(&bench);
    let entry = bench.find("a", HOME, b"TNVOLUME");
    bench.flip("a", entry + 600);
    let ran = bench.run(&["check", "a"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    contains(&ran.out, "(the volume table)");
    let ran = bench.run(&["check", "a", "--repair"]);
    assert_eq!(ran.code, Some(3), "no second copy, no repair: {ran:?}");
    contains(&ran.out, "still damaged");
}

#[test]
fn a_damaged_table_copy_is_rewritten_from_the_other() {
    let bench = Bench::new();
    store(&bench);
    // The first group's slots lie before its blocks; the volume table is its first block.
    let entry = bench.find("a", HOME, b"TNVOLUME");
    let slots = [entry - 2 * 4096, entry - 4096];
    let empty = |at: &usize| {
        let file = std::fs::read(bench.path("a")).expect("a file");
        file[*at..at + 4096].iter().all(|byte| *byte == 0)
    };
    let other = slots
        .iter()
        .find(|slot| empty(slot))
        .or(slots.first())
        .expect("a slot");
    bench.overwrite("a", *other, &[0x5a; 4096]);
    let ran = bench.run(&["check", "a"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    contains(&ran.out, "checksum table, copy");
    contains(
        &bench.ok(&["check", "a", "--repair"]),
        "repaired: 1 copies of checksum tables",
    );
    contains(&bench.ok(&["check", "a"]), "no damage found");
}

#[test]
fn after_a_crash_looks_see_what_the_log_holds_and_change_nothing() {
    let bench = Bench::new();
    store(&bench);
    let serving = bench.serve(&["a"]);
    bench.ok(&["volume", "resize", "a", "main", "--size", "8MiB"]);
    bench.ok(&["volume", "create", "a", "two", "--size", "4MiB"]);
    serving.kill();
    let before = std::fs::read(bench.path("a")).expect("a file");
    let info = bench.json(&["info", "a", "--json"]);
    assert_eq!(info["state"], "crashed");
    assert_eq!(info["volumes"][1]["name"], "two");
    assert_eq!(info["free_bytes"], 4 << 20);
    contains(
        &bench.ok(&["check", "a"]),
        "not shut down in order; the log holds",
    );
    contains(&bench.ok(&["volume", "list", "a"]), "two");
    assert!(
        before == std::fs::read(bench.path("a")).expect("a file"),
        "a look has changed the store"
    );
    let error = bench.fails(&["serve", "a", "--read-only"]);
    contains(&error, "open it for writing once");
    contains(&bench.ok(&["check", "a", "--repair"]), "shut down in order");
    assert_eq!(bench.json(&["info", "a", "--json"])["state"], "clean");
}
