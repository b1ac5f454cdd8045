use crate::common::{Bench, contains};
use tonearm_base::BufPool;
use tonearm_disk::OpenOptions;
use tonearm_engine::CommitChange;
use tonearm_format::{ListRecord, VolumeEntry, VolumeKind, Zones};
use tonearm_layout::Piece;
use tonearm_store::{Executor, ListId, Members, Store, StoreOptions, open_disk};

/// Offset after the log of these stores: superblocks and 8 MiB of log.
const HOME: u64 = 9 << 20;

fn store(bench: &Bench) {
    bench.ok(&["create", "a", "--size", "16MiB", "--log-size", "8MiB"]);
}

#[test]
fn a_damaged_copy_of_the_superblock_is_found_and_repaired() {
    let bench = Bench::new();
    store(&bench);
    bench.flip("a", bench.superblock("a", 2) + 40);
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
fn an_overwritten_first_or_last_mib_is_found_and_repaired() {
    const MIB: usize = 1 << 20;
    for fill in [0, 0xa5] {
        let bench = Bench::new();
        store(&bench);
        std::fs::write(bench.path("image"), [7; 4096]).unwrap();
        bench.ok(&["volume", "put", "a", "main", "image"]);
        let size = std::fs::metadata(bench.path("a")).unwrap().len() as usize;
        // The repair of each end makes the loss of the other one harmless.
        for (at, slots) in [(0, [0, 1]), (size - MIB, [2, 3]), (0, [0, 1])] {
            bench.overwrite("a", at, &[fill; MIB]);
            contains(&bench.ok(&["info", "a"]), "main");
            let ran = bench.run(&["check", "a", "--json"]);
            assert_eq!(ran.code, Some(3), "{ran:?}");
            let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
            let damaged = &report["superblocks"][0]["damaged_slots"];
            assert_eq!(*damaged, serde_json::json!(slots));
            contains(
                &bench.ok(&["check", "a", "--repair"]),
                "the store is whole again",
            );
            contains(&bench.ok(&["check", "a"]), "no damage found");
        }
        bench.ok(&["volume", "get", "a", "main", "copy"]);
        let copy = std::fs::read(bench.path("copy")).unwrap();
        assert!(copy[..4096] == [7; 4096]);
    }
}

#[test]
fn corrupt_block_is_found_and_named() {
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
fn corrupt_block_of_a_volume_is_damage() {
    let bench = Bench::new();
    store(&bench);
    std::fs::write(bench.path("image"), [7; 4096]).unwrap();
    bench.ok(&["volume", "put", "a", "main", "image"]);
    let block = bench.find("a", HOME, &[7; 64]);
    bench.flip("a", block + 100);
    let ran = bench.run(&["check", "a"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    contains(&ran.out, "main");
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
fn commands_read_a_crashed_store_without_changing_it() {
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

#[test]
fn repair_reports_the_commits_it_gives_up() {
    let bench = Bench::new();
    store(&bench);
    let serving = bench.serve(&["a"]);
    bench.ok(&["volume", "resize", "a", "main", "--size", "8MiB"]);
    for name in ["one", "two", "three", "four"] {
        bench.ok(&["volume", "create", "a", name, "--size", "1MiB"]);
    }
    serving.kill();
    let bytes = std::fs::read(bench.path("a")).expect("a file");
    let places = (1 << 20..HOME as usize).step_by(tonearm_format::SECTOR);
    let records = places.filter_map(|at| {
        let sector = &bytes[at..at + tonearm_format::SECTOR];
        let (header, _) = tonearm_format::RecordHeader::decode(sector).ok()?;
        Some((at, header))
    });
    let mut records: Vec<_> = records.collect();
    let epoch = records.iter().map(|(_, header)| header.epoch).max();
    records.retain(|(_, header)| Some(header.epoch) == epoch && !header.entries.is_empty());
    records.sort_by_key(|(_, header)| header.seq);
    let (at, header) = &records[1];
    let (first, last) = (header.first_lsn.0, records[records.len() - 1].1.first_lsn.0);
    assert!(last > first, "several commits are after it");
    bench.overwrite("a", *at, &[0x5a; 16]);
    std::fs::copy(bench.path("a"), bench.path("b")).expect("a copy");

    let ran = bench.run(&["check", "a"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    contains(&ran.out, "tonearm check --repair");
    let lost = last - first + 1;
    let text = bench.ok(&["check", "a", "--repair"]);
    contains(
        &text,
        &format!("given up: {lost} commits, numbers {first} to {last}"),
    );
    contains(&bench.ok(&["check", "a"]), "no damage found");
    let report = bench.json(&["check", "b", "--repair", "--json"]);
    assert_eq!(
        report["repair"]["given_up"],
        serde_json::json!({
            "commits": lost,
            "first_lsn": first,
            "last_lsn": last,
            "records": records.len() - 2,
        })
    );
}

/// A store whose space belongs to no volume.
fn store_for_lists(bench: &Bench) {
    let sizes = ["--size", "16MiB", "--log-size", "8MiB"];
    bench.ok(&[&["create", "a", "--no-volume"][..], &sizes].concat());
}

/// Makes a list of three blocks; the list.
fn make_list(bench: &Bench) -> ListId {
    let store = Store::open(&bench.path("a"), StoreOptions::default()).expect("a store");
    let mut unit = store.begin().expect("a unit");
    let list = unit.new_list().expect("a list");
    for _ in 0..3 {
        unit.new_block(list, None).expect("a block");
    }
    unit.end().expect("it ends");
    store.close().expect("closed in order");
    list
}

/// How a store comes out of use.
enum End {
    Close,
    Crash,
}

/// Writes `record` over that of `list`, in a page that is otherwise whole, with a right checksum.
fn overwrite_list(bench: &Bench, list: ListId, words: [u64; 2]) {
    write_list(bench, list, words, End::Close);
}

fn write_list(bench: &Bench, list: ListId, words: [u64; 2], end: End) {
    let executor = Executor::new().expect("an executor");
    let opened = open_disk(
        &executor,
        &bench.path("a"),
        &Members::default(),
        OpenOptions::default(),
        |_| {},
    );
    let disk = opened.expect("a store");
    let overwritten = executor.rt.block_on(async move {
        let engine = disk.engine();
        let mut area = None;
        for slot in 0..tonearm_format::SYSTEM_BLOCKS {
            if let [Piece::Data(block)] = &engine.read(slot, 1).await?[..] {
                let entry =
                    VolumeEntry::decode(&block[..tonearm_format::SECTOR]).expect("an entry");
                area = area.or(entry.filter(|entry| entry.kind == VolumeKind::Lists));
            }
        }
        let area = area.expect("the lists area");
        let zones = Zones::new(disk.block_size());
        let record = zones.list_record(list.0).expect("its place");
        assert_eq!(record.page, 0, "in the first block of the area");
        let home = area.extents[0].start;
        let page = engine.read(home, 1).await?.remove(0);
        let Piece::Data(page) = page else {
            panic!("a page that holds a list");
        };
        let mut data = BufPool::new(0).alloc(page.len());
        data.copy_from_slice(&page);
        let at = record.at as usize;
        data[at..at + 8].copy_from_slice(&words[0].to_le_bytes());
        data[at + 8..at + 16].copy_from_slice(&words[1].to_le_bytes());
        let admission = engine.admit(1, 0).await?;
        let data = data.share();
        engine.commit(admission, vec![CommitChange::Write { first: home, data }])?;
        match end {
            End::Close => disk.close().await,
            End::Crash => disk.flush().await,
        }
    });
    overwritten.expect("it is committed, and durable");
    executor.rt.shut_down();
}

#[test]
fn lists_that_contradict_themselves_are_found() {
    let bench = Bench::new();
    store_for_lists(&bench);
    let list = make_list(&bench);
    let whole = bench.ok(&["check", "a"]);
    contains(&whole, "verified 1 lists of 3 blocks");
    contains(&whole, "no damage found");

    // The zone starts with two pages; the blocks of the list are 2 to 4, the last one made at its head.
    let record = |count| ListRecord {
        first: 4,
        last: 2,
        count,
    };
    overwrite_list(&bench, list, ListRecord::encode(Some(record(2))));
    let ran = bench.run(&["check", "a"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    contains(&ran.out, "list 1 has 3 blocks up to 2 and says 2 up to 2");

    // No list at all, whose blocks are left over.
    overwrite_list(&bench, list, [0; 2]);
    let report = bench.run(&["check", "a", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report.out).expect("JSON");
    assert_eq!(report["sound"], false);
    let problems = report["lists"]["problems"].as_array().expect("problems");
    assert_eq!(problems.len(), 3, "{report}");

    // No record.
    overwrite_list(&bench, list, [0, 7 << 56]);
    let ran = bench.run(&["check", "a", "--repair"]);
    assert_eq!(ran.code, Some(3), "nothing tells what it was: {ran:?}");
    contains(&ran.out, "its state is neither free nor used");
    contains(&ran.out, "still damaged");

    overwrite_list(&bench, list, ListRecord::encode(Some(record(3))));
    contains(&bench.ok(&["check", "a"]), "no damage found");
}

/// Recovery runs in memory: what the log holds is verified, and nothing is written.
#[test]
fn check_verifies_lists_of_a_crashed_store_read_only() {
    let bench = Bench::new();
    store_for_lists(&bench);
    let list = make_list(&bench);
    let serving = bench.serve(&["a"]);
    bench.ok(&["volume", "create", "a", "two", "--size", "4MiB"]);
    serving.kill();
    let look = || {
        let before = std::fs::read(bench.path("a")).expect("a file");
        let ran = bench.run(&["check", "a"]);
        let after = std::fs::read(bench.path("a")).expect("a file");
        assert!(before == after, "a look has changed the store");
        contains(&ran.out, "not shut down in order");
        ran
    };
    let ran = look();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    contains(&ran.out, "verified 1 lists of 3 blocks");
    // Damage that is in the log alone.
    write_list(&bench, list, [0; 2], End::Crash);
    let ran = look();
    assert_eq!(ran.code, Some(3), "{ran:?}");
    contains(&ran.out, "damage: ");
    bench.run(&["check", "a", "--repair"]);
    assert_eq!(bench.run(&["check", "a"]).code, Some(3));
}
