//! Stores over arrays, with real files: members that are deleted, come back, are swapped, replaced and rebuilt.

use crate::common::{Bench, contains};

const SIZE: usize = 12 << 20;
const DISKS: [&str; 4] = ["d1", "d2", "d3", "d4"];

/// A store `a` of the level over four files, with an image in it.
fn created(level: &str, layout: &str) -> Bench {
    let bench = Bench::new();
    let text = bench.ok(&[
        "create",
        "a",
        "--size",
        "16MiB",
        "--log-size",
        "8MiB",
        "--redundancy",
        level,
        "--layout",
        layout,
        "--data",
        "d1",
        "--data",
        "d2",
        "--data",
        "d3",
        "--data",
        "d4",
    ]);
    contains(
        &text,
        &format!("{level} over 4 members, stripe units of 64 KiB"),
    );
    put(&bench, 1);
    bench
}

fn image(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ (state >> 29)).to_le_bytes()
    };
    (0..SIZE / 8).flat_map(|_| word()).collect()
}

fn put(bench: &Bench, seed: u64) {
    std::fs::write(bench.path("image"), image(seed)).expect("written");
    bench.ok(&["volume", "put", "a", "main", "image"]);
}

/// The content of `main` is image `seed`.
#[track_caller]
fn has(bench: &Bench, seed: u64) {
    bench.ok(&["volume", "get", "a", "main", "copy", "--force"]);
    let copy = std::fs::read(bench.path("copy")).expect("read");
    assert!(copy[..SIZE] == image(seed)[..], "image {seed}");
}

#[track_caller]
fn states(bench: &Bench) -> Vec<String> {
    let list = bench.json(&["member", "list", "a", "--json"]);
    let members = list["members"].as_array().expect("members");
    let state = |member: &serde_json::Value| member["state"].as_str().expect("a state").to_string();
    members.iter().map(state).collect()
}

fn remove(bench: &Bench, name: &str) {
    std::fs::remove_file(bench.path(name)).expect("removed");
}

#[test]
fn each_member_may_be_lost_in_turn_and_is_replaced() {
    for layout in ["overwrite", "segments"] {
        let bench = created("raid5", layout);
        let info = bench.json(&["info", "a", "--json"]);
        assert_eq!(
            (&info["format_version"], &info["array"]["degraded"]),
            (&tonearm_format::FORMAT_VERSION.into(), &false.into())
        );
        assert_eq!(states(&bench), ["in use"; 4]);
        for (round, disk) in DISKS.iter().enumerate() {
            remove(&bench, disk);
            has(&bench, round as u64 + 1);
            assert_eq!(states(&bench)[round], "missing");
            contains(&bench.ok(&["info", "a"]), "DEGRADED");
            put(&bench, round as u64 + 2);
            has(&bench, round as u64 + 2);
            let new = format!("n{round}");
            let replaced = bench.ok(&["member", "replace", "a", &new]);
            contains(
                &replaced,
                &format!("{new} takes the place of member {round}, {disk}"),
            );
            assert_eq!(states(&bench)[round], "rebuilding");
            contains(
                &bench.ok(&["member", "rebuild", "a"]),
                "all members of the array are in use",
            );
            assert_eq!(states(&bench), ["in use"; 4]);
            has(&bench, round as u64 + 2);
        }
        contains(&bench.ok(&["check", "a"]), "no damage found");
    }
}

/// No block is damaged, so `check` ends with 0, as with all members. A script sees the state in the output.
#[test]
fn check_reports_a_degraded_array_and_exits_with_0() {
    let bench = created("raid5", "overwrite");
    let degraded = || {
        let found = bench.json(&["check", "a", "--json"]);
        assert_eq!(found["sound"], true, "{found}");
        found["array"]["degraded"].as_bool()
    };
    assert_eq!(degraded(), Some(false));
    remove(&bench, "d2");
    assert_eq!(degraded(), Some(true));
    for arguments in [&["check", "a"][..], &["check", "a", "--json"]] {
        let check = bench.run(arguments);
        assert_eq!(check.code, Some(0), "{check:?}");
        contains(
            &check.err,
            "the raid5 array is DEGRADED, and the failure of another member loses data: d2: it does not exist",
        );
    }
    contains(
        &bench.ok(&["check", "a"]),
        "no damage found, but the array is DEGRADED",
    );
    // Nor does a scrub, by the server or in process.
    for serving in [Some(bench.serve(&["a"])), None] {
        let scrub = bench.run(&["scrub", "a"]);
        assert_eq!(scrub.code, Some(0), "{scrub:?}");
        contains(&scrub.out, "no damage found, but the array is DEGRADED");
        contains(
            &scrub.err,
            "the raid5 array is DEGRADED, and the failure of another member loses data: d2",
        );
        let found = bench.json(&["scrub", "a", "--json"]);
        assert_eq!(found["array"]["degraded"], true, "{found}");
        assert_eq!(found["array"]["members"][1]["state"], "missing", "{found}");
        if let Some(serving) = serving {
            serving.end("-TERM");
        }
    }
    // A repair closes the store after a crash. It does not restore the member.
    put(&bench, 2);
    bench.serve(&["a"]).kill();
    let repair = bench.run(&["check", "a", "--repair"]);
    assert_eq!(repair.code, Some(0), "{repair:?}");
    contains(
        &repair.out,
        "no damage is left and the store is shut down in order, but the array is DEGRADED",
    );
}

#[test]
fn a_stale_member_that_comes_back_is_not_used() {
    let bench = created("raid5", "overwrite");
    std::fs::rename(bench.path("d2"), bench.path("away")).expect("renamed");
    put(&bench, 2);
    std::fs::rename(bench.path("away"), bench.path("d2")).expect("renamed");
    assert_eq!(states(&bench), ["in use", "stale", "in use", "in use"]);
    let list = bench.run(&["info", "a"]);
    contains(&list.err, "is stale: the array was in use without it");
    contains(&list.err, "tonearm member replace a NEW");
    has(&bench, 2);
    let check = bench.run(&["check", "a"]);
    contains(&check.out, "no damage found, but the array is DEGRADED");
    contains(&check.err, "d2: it is stale");
    assert_eq!(check.code, Some(0), "{check:?}");
    // Without another one as well, the store does not open, and nothing is taken from the stale one.
    std::fs::rename(bench.path("d3"), bench.path("away")).expect("renamed");
    let refused = bench.fails(&["volume", "list", "a"]);
    contains(
        &refused,
        "cannot be opened without these members: d2: it is stale",
    );
    contains(&refused, "d3: it does not exist");
    std::fs::rename(bench.path("away"), bench.path("d3")).expect("renamed");
    contains(
        &bench.fails(&["member", "replace", "a", "d2"]),
        "exists already",
    );
    for (used, what) in [("d1", "member 0 of the array"), ("a", "the primary member")] {
        let before = std::fs::read(bench.path(used)).expect("read");
        let refused = bench.fails(&["member", "replace", "a", used, "--force"]);
        contains(&refused, &format!("{used} is {what}"));
        // Each opening saves a descriptor in the first MiB and in the last one.
        let after = std::fs::read(bench.path(used)).expect("read");
        let content = 1 << 20..before.len() - (1 << 20);
        assert!(before[content.clone()] == after[content], "{used}");
    }
    contains(
        &bench.ok(&["member", "replace", "a", "d2", "--force"]),
        "d2 takes the place of member 1, d2",
    );
    assert_eq!(states(&bench)[1], "rebuilding");
    contains(
        &bench.fails(&["member", "replace", "a", "d2", "--force"]),
        "d2 is member 1 of the array, in use",
    );
    bench.ok(&["member", "rebuild", "a", "--skip-unreadable"]);
    assert_eq!(states(&bench), ["in use"; 4]);
    remove(&bench, "d1");
    has(&bench, 2);
}

#[test]
fn an_old_copy_of_a_member_is_stale() {
    let bench = created("raid5", "overwrite");
    std::fs::copy(bench.path("d4"), bench.path("old")).expect("copied");
    put(&bench, 2);
    std::fs::copy(bench.path("old"), bench.path("d4")).expect("copied");
    assert_eq!(states(&bench)[3], "stale");
    has(&bench, 2);
    // The old copy is of the primary member.
    let bench = created("raid5", "overwrite");
    std::fs::copy(bench.path("a"), bench.path("old")).expect("copied");
    put(&bench, 2);
    std::fs::copy(bench.path("old"), bench.path("a")).expect("copied");
    contains(
        &bench.fails(&["volume", "list", "a"]),
        "that is an old copy; use the present one",
    );
}

#[test]
fn members_are_known_by_their_identity() {
    let bench = created("raid5", "overwrite");
    for (from, to) in [("d1", "x"), ("d3", "d1"), ("x", "d3")] {
        std::fs::rename(bench.path(from), bench.path(to)).expect("renamed");
    }
    assert_eq!(states(&bench), ["in use"; 4]);
    has(&bench, 1);
    std::fs::rename(bench.path("d2"), bench.path("moved")).expect("renamed");
    bench.ok(&[
        "volume", "get", "a", "main", "copy", "--force", "--member", "moved",
    ]);
    std::fs::rename(bench.path("moved"), bench.path("d2")).expect("renamed");
    assert_eq!(states(&bench), ["in use"; 4], "it was not away");
    contains(
        &bench.fails(&["info", "d2"]),
        "is a member of a store's array",
    );
    bench.ok(&[
        "create",
        "b",
        "--size",
        "16MiB",
        "--log-size",
        "8MiB",
        "--redundancy",
        "raid5",
        "--data",
        "e1",
        "--data",
        "e2",
        "--data",
        "e3",
    ]);
    std::fs::copy(bench.path("e2"), bench.path("d2")).expect("copied");
    contains(
        &bench.fails(&["info", "a"]),
        "is a member of another store than a",
    );
}

#[test]
fn crashed_array_needs_all_members_unless_degraded_is_set() {
    let bench = created("raid5", "overwrite");
    let crash = |seed| {
        let serving = bench.serve(&["a"]);
        put(&bench, seed);
        serving.kill();
    };
    crash(2);
    std::fs::rename(bench.path("d2"), bench.path("away")).expect("renamed");
    let refused = bench.fails(&["serve", "a"]);
    contains(&refused, "member 1 of the array, last at d2, is missing");
    contains(
        &refused,
        "after a crash the parity cannot be corrected without it",
    );
    contains(&refused, "--degraded opens the store without it");
    for command in [
        &["member", "replace", "a", "n"][..],
        &["member", "rebuild", "a"],
        &["volume", "get", "a", "main", "copy"],
    ] {
        contains(&bench.fails(command), "cannot be corrected without it");
    }
    // A look comes before the repair.
    let check = bench.run(&["check", "a", "--repair"]);
    assert_eq!(check.code, Some(1), "{check:?}");
    contains(&check.err, "cannot be corrected without it");
    contains(
        &check.err,
        "connect it again before the store is opened for writing",
    );
    bench.ok(&["info", "a"]);
    // The drive was late.
    std::fs::rename(bench.path("away"), bench.path("d2")).expect("renamed");
    assert_eq!(states(&bench), ["in use"; 4]);
    has(&bench, 2);
    // This time it does not come back.
    crash(3);
    remove(&bench, "d2");
    bench.ok(&["member", "replace", "a", "n", "--degraded"]);
    contains(
        &bench.ok(&["member", "rebuild", "a"]),
        "all members of the array are in use",
    );
    has(&bench, 3);
}

#[test]
fn raid0_needs_all_of_its_members() {
    let bench = created("raid0", "overwrite");
    has(&bench, 1);
    assert_eq!(states(&bench), ["in use"; 4]);
    contains(
        &bench.fails(&["member", "replace", "a", "n"]),
        "nothing is to be replaced",
    );
    std::fs::rename(bench.path("d2"), bench.path("away")).expect("renamed");
    contains(
        &bench.fails(&["volume", "list", "a"]),
        "without these members: d2: it does not exist",
    );
    std::fs::rename(bench.path("away"), bench.path("d2")).expect("renamed");
    has(&bench, 1);
}

#[test]
fn arrays_that_are_not_possible_are_refused() {
    let bench = Bench::new();
    let create = |more: &[&str]| bench.fails(&[&["create", "a", "--size", "16MiB"], more].concat());
    let two = ["--data", "d1", "--data", "d2"];
    let of = |level: &'static str| [&["--redundancy", level], &two[..]].concat();
    contains(&create(&of("raid5")), "raid5 takes 3 to 32 members");
    contains(
        &create(&["--redundancy", "raid0", "--data", "d1"]),
        "raid0 takes 2 to 32 members",
    );
    contains(
        &create(&[&of("raid0")[..], &["--stripe", "5000"]].concat()),
        "a stripe unit of 5000 bytes is not possible",
    );
    contains(
        &create(&[&of("raid0")[..], &["--log", "l"]].concat()),
        "leave --log out",
    );
    assert_eq!(bench.files(), [""; 0], "nothing was made");
    bench.ok(&["create", "a", "--size", "16MiB"]);
    contains(&bench.fails(&["member", "list", "a"]), "a has no array");
}

#[test]
fn a_served_store_is_rebuilt_under_load_and_after_a_kill() {
    let bench = created("raid5", "overwrite");
    remove(&bench, "d2");
    let serving = bench.serve(&["a"]);
    assert_eq!(states(&bench)[1], "missing");
    contains(
        &bench.fails(&["member", "rebuild", "a"]),
        "no replacement is in its place",
    );
    contains(&bench.ok(&["stats", "a"]), "4 members, DEGRADED");
    let replaced = bench.ok(&["member", "replace", "a", "n"]);
    contains(&replaced, "n takes the place of member 1, ");
    contains(&replaced, "next: tonearm member rebuild a");
    // At this rate the rebuild takes longer than the test.
    let slow = bench
        .command(&["member", "rebuild", "a", "--rate", "1MiB"])
        .spawn();
    let mut slow = slow.expect("tonearm runs");
    let rebuilt =
        || bench.json(&["member", "list", "a", "--json"])["members"][1]["rebuilt_percent"].as_f64();
    while rebuilt() == Some(0.0) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    contains(
        &bench.fails(&["member", "rebuild", "a"]),
        "a rebuild is running already",
    );
    contains(
        &bench.fails(&["member", "replace", "a", "n2"]),
        "the replacement of a member is being rebuilt; wait until that has ended",
    );
    put(&bench, 2);
    serving.kill();
    slow.wait().expect("an end");
    assert_eq!(states(&bench)[1], "rebuilding");
    let serving = bench.serve(&["a"]);
    contains(
        &bench.ok(&["member", "rebuild", "a", "--skip-unreadable"]),
        "all members of the array are in use",
    );
    assert_eq!(states(&bench), ["in use"; 4]);
    serving.end("-TERM");
    remove(&bench, "d3");
    has(&bench, 2);
}

/// Each error comes before anything is made or overwritten, and the next attempt succeeds.
/// As `create` does.
#[test]
fn a_new_member_in_memory_is_warned_of() {
    let shared = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let at = |name: &str| shared.path().join(name).to_string_lossy().into_owned();
    let (one, two, three) = (at("1"), at("2"), at("3"));
    let bench = Bench::new();
    let array = [
        "--redundancy",
        "raid5",
        "--data",
        &one,
        "--data",
        &two,
        "--data",
        &three,
    ];
    let sizes = ["create", "a", "--size", "16MiB", "--log-size", "8MiB"];
    contains(
        &bench.run(&[&sizes[..], &array].concat()).err,
        "lies in memory",
    );
    for (old, new, served) in [(&one, at("4"), false), (&two, at("5"), true)] {
        std::fs::remove_file(old).expect("removed");
        let serving = served.then(|| bench.serve(&["a"]));
        let ran = bench.run(&["member", "replace", "a", &new]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        contains(&ran.err, "lies in memory (tmpfs)");
        bench.ok(&["member", "rebuild", "a"]);
        drop(serving);
    }
}

#[test]
fn a_served_store_refuses_what_cannot_be_a_member() {
    let bench = created("raid5", "overwrite");
    bench.ok(&["create", "b", "--size", "16MiB", "--log-size", "8MiB"]);
    let other = bench.serve(&["b"]);
    contains(
        &bench.fails(&["member", "replace", "b", "n"]),
        "b has no array: it was made without --redundancy",
    );
    let serving = bench.serve(&["a"]);
    contains(
        &bench.fails(&["member", "replace", "a", "n"]),
        "all members of the array are in use; nothing is to be replaced",
    );
    serving.end("-TERM");
    std::fs::rename(bench.path("d2"), bench.path("away")).expect("renamed");
    std::fs::write(bench.path("full"), [7; 8192]).expect("written");
    std::fs::create_dir(bench.path("folder")).expect("made");
    let serving = bench.serve(&["a"]);
    let before = bench.files();
    for (new, force, why) in [
        ("d1", true, "/d1 is member 0 of the array, in use"),
        ("a", true, "/a is the primary member of the store, in use"),
        ("b", true, "/b is in use by process"),
        (
            "a.ctl",
            true,
            "is neither a regular file nor a block device",
        ),
        (
            "folder",
            true,
            "is neither a regular file nor a block device",
        ),
        (
            "full",
            false,
            "/full exists already; choose another path, or use --force",
        ),
        ("none/n", false, "/none does not exist"),
    ] {
        let arguments = ["member", "replace", "a", new, "--force"];
        let refused = bench.fails(&arguments[..4 + usize::from(force)]);
        contains(&refused, why);
        assert_eq!(refused.trim_end().lines().count(), 1, "{refused}");
        assert_eq!(states(&bench)[1], "missing", "{new}");
    }
    assert_eq!(bench.files(), before);
    assert_eq!(std::fs::read(bench.path("full")).expect("read"), [7; 8192]);
    bench.ok(&["member", "replace", "a", "full", "--force"]);
    assert_eq!(states(&bench)[1], "rebuilding");
    contains(
        &bench.fails(&["member", "replace", "a", "full", "--force"]),
        "/full is member 1 of the array, in use",
    );
    // A replacement without a rebuild may be replaced, too; the file that it had is free then.
    bench.ok(&["member", "replace", "a", "n"]);
    std::fs::remove_file(bench.path("full")).expect("removed");
    bench.ok(&["member", "rebuild", "a"]);
    assert_eq!(states(&bench), ["in use"; 4]);
    serving.end("-TERM");
    other.end("-TERM");
    // The old member is no member any more.
    std::fs::rename(bench.path("away"), bench.path("d2")).expect("renamed");
    assert_eq!(states(&bench), ["in use"; 4]);
    remove(&bench, "d3");
    has(&bench, 1);
    let serving = bench.serve(&["a", "--read-only"]);
    contains(
        &bench.fails(&["member", "replace", "a", "d3"]),
        "the store is served with --read-only",
    );
    serving.end("-TERM");
    assert!(!bench.path("d3").exists());
}

#[test]
fn a_server_that_stops_ends_its_rebuild_and_the_next_goes_on() {
    let bench = created("raid5", "segments");
    remove(&bench, "d4");
    bench.ok(&["member", "replace", "a", "n"]);
    let serving = bench.serve(&["a"]);
    let mut slow = bench
        .command(&["member", "rebuild", "a", "--rate", "2MiB"])
        .spawn()
        .expect("tonearm runs");
    let rebuilt =
        || bench.json(&["member", "list", "a", "--json"])["members"][3]["rebuilt_percent"].as_f64();
    while rebuilt() == Some(0.0) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(serving.end("-TERM").code, Some(0));
    slow.wait().expect("an end");
    assert!(rebuilt() > Some(0.0), "what was restored is kept");
    bench.ok(&["member", "rebuild", "a"]);
    remove(&bench, "d1");
    has(&bench, 1);
}

/// Inverts a byte of each of these members, where the image has a block. The members stand for different stripes.
fn rot(bench: &Bench, disks: &[&str]) {
    for (index, disk) in disks.iter().enumerate() {
        // Behind its header a member has blocks of the image in each of its first stripes.
        bench.flip(disk, (1 << 20) + (20 + 5 * index) * (64 << 10) + 777);
    }
}

#[test]
fn a_scrub_repairs_what_the_other_members_compute() {
    for (layout, served) in [
        ("overwrite", true),
        ("segments", true),
        ("overwrite", false),
    ] {
        let bench = created("raid5", layout);
        rot(&bench, &DISKS);
        let serving = served.then(|| bench.serve(&["a"]));
        if served {
            let looked = bench.run(&["scrub", "a", "--no-repair"]);
            assert_eq!(looked.code, Some(3), "{looked:?}");
            contains(
                &looked.out,
                "damage: the parity of 4 stripes does not match",
            );
        } else {
            contains(
                &bench.fails(&["scrub", "a", "--no-repair"]),
                "`tonearm check` verifies it and changes nothing",
            );
        }
        let repaired = bench.json(&["scrub", "a", "--json"]);
        let number = |name: &str| repaired[name].as_u64().expect("a number");
        assert_eq!(number("repaired") + number("parity_repaired"), 4);
        assert_eq!(number("parity_damaged"), 0);
        assert_eq!(repaired["damaged"].as_array().map(Vec::len), Some(0));
        contains(&bench.ok(&["scrub", "a"]), "no damage found\n");
        let started = std::time::Instant::now();
        let slow = bench.json(&["scrub", "a", "--json", "--rate", "40MiB"]);
        assert_eq!(slow["array"]["degraded"], false, "{slow}");
        // It verifies 12 MiB of blocks, and 16 MiB of the array.
        assert!(
            started.elapsed().as_millis() > 700,
            "{:?}",
            started.elapsed()
        );
        rot(&bench, &["d4", "d3"]);
        let text = bench.ok(&["scrub", "a"]);
        contains(&text, "repaired: ");
        contains(&text, "no damage is left");
        if let Some(serving) = serving {
            serving.end("-TERM");
        }
        contains(&bench.ok(&["check", "a"]), "no damage found");
        for disk in DISKS {
            std::fs::rename(bench.path(disk), bench.path("away")).expect("renamed");
            has(&bench, 1);
            // Written without it, the member is stale.
            bench.ok(&["member", "replace", "a", disk]);
            bench.ok(&["member", "rebuild", "a"]);
        }
    }
}

#[test]
fn a_scrub_leaves_alone_what_nothing_can_compute() {
    let bench = created("raid5", "overwrite");
    let at = (1 << 20) + 20 * (64 << 10) + 777;
    let good = std::fs::read(bench.path("d1")).expect("a file");
    bench.flip("d1", at);
    bench.overwrite("d2", at - 1, &[0x5a; 3]);
    let before = DISKS.map(|disk| std::fs::read(bench.path(disk)).expect("a file"));
    let serving = bench.serve(&["a"]);
    let scrub = bench.run(&["scrub", "a"]);
    assert_eq!(scrub.code, Some(3), "{scrub:?}");
    contains(&scrub.out, "(volume main, byte ");
    contains(&scrub.out, "damage: the parity of 1 stripes does not match");
    serving.end("-TERM");
    for (disk, before) in DISKS.iter().zip(before) {
        let after = std::fs::read(bench.path(disk)).expect("a file");
        // The copies of superblock and descriptor lie at both ends of the array, and of each member.
        let content = 2 << 20..before.len() - (3 << 20);
        assert!(before[content.clone()] == after[content], "{disk}");
    }
    // With one of them right again, a repair of the closed store computes the other.
    bench.overwrite("d1", at, &good[at..at + 1]);
    let repaired = bench.json(&["check", "a", "--repair", "--json"]);
    assert_eq!(repaired["repair"]["from_parity"], 1, "{repaired}");
    contains(&bench.ok(&["check", "a"]), "no damage found");
}
