//! A drive of an array dies while the store is served, and another takes its place, without an end of service.

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonearm_tests::mount::{Fuse, Loop, possible};
use tonearm_tests::stamp::{Found, Ledger, SPAN};
use tonearm_tests::{Bench, MIB, Ran, contains, skipped, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

fn member(bench: &Bench, index: usize) -> (String, f64) {
    let list = bench.json(&["member", "list", "s.tn", "--json"]);
    let member = &list["members"][index];
    let state = member["state"].as_str().expect("a state").to_string();
    (state, member["rebuilt_percent"].as_f64().expect("a number"))
}

/// A block device of this size over a new file.
fn drive(bench: &Bench, file: &str, bytes: u64) -> Loop {
    let made = std::fs::File::create(bench.path(file)).expect("made");
    made.set_len(bytes).expect("a size");
    Loop::new(bench, &bench.path(file), 512)
}

#[test]
fn a_drive_that_dies_is_replaced_under_load() {
    if let Err(why) = possible() {
        return skipped("an array with a drive that dies", &why);
    }
    const { assert!(SPAN <= 16 * MIB) };
    let bench = Bench::new();
    // The drive that dies is a block device whose content another server has.
    bench.ok(&["create", "x.tn", "--size", "160MiB", "--log-size", "8MiB"]);
    let content = bench.serve(&["x.tn", "--socket", "x.sock"]);
    let fuse = Fuse::new(&bench, "x", &content.uri_of("main"));
    let dying = Loop::new(&bench, &fuse.file(), 512);
    let new = drive(&bench, "new", 160 * MIB);
    let small = drive(&bench, "small", 16 * MIB);
    bench.ok(&[
        "create",
        "s.tn",
        "--size",
        "256MiB",
        "--log-size",
        "16MiB",
        "--redundancy",
        "raid5",
        "--head",
        "online",
        "--data",
        "a",
        "--data",
        &dying.device,
        "--data",
        "c",
        "--force",
    ]);
    let mut ledger = Ledger::new(3);
    let server = bench.serve_store();
    let mut client = server.client("main");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (own, ended) = (&mut ledger, &ended);
        scope.spawn(move || {
            own.write_until_cut(&mut client);
            ended.store(true, Ordering::Release);
        });
        std::thread::sleep(Duration::from_millis(300));
        content.kill9();
        wait_until("a failure", LIMIT, || member(&bench, 1).0 == "missing");
        contains(&bench.ok(&["stats", "s.tn"]), "3 members, DEGRADED");
        // The server has closed the dead drive, so it can be taken out.
        let backing = format!(
            "/sys/block/{}/loop",
            dying.device.trim_start_matches("/dev/")
        );
        drop(dying);
        assert!(!Path::new(&backing).exists(), "{backing}");
        let replace = |new: &str, force: &[&str]| {
            bench.run(&[&["member", "replace", "s.tn", new], force].concat())
        };
        for (new, force, why) in [
            (
                &small.device,
                &["--force"][..],
                "are wanted; choose a smaller size, or another device",
            ),
            (
                &new.device,
                &[],
                "is a block device, and all that is on it would be lost; use --force",
            ),
        ] {
            let refused = replace(new, force);
            assert_eq!(refused.code, Some(1), "{refused:?}");
            contains(&refused.err, why);
        }
        hanging_member(&bench, &new);
        let replaced = replace(&new.device, &["--force"]);
        contains(
            &replaced.out,
            &format!("{} takes the place of member 1", new.device),
        );
        assert_eq!(member(&bench, 1), ("rebuilding".to_string(), 0.0));
        let mut slow = bench.command(&["member", "rebuild", "s.tn", "--rate", "40MiB"]);
        let mut slow = slow.stderr(Stdio::null()).spawn().expect("tonearm runs");
        wait_until("a part of the rebuild", LIMIT, || {
            member(&bench, 1).1 > 60.0
        });
        assert!(!ended.load(Ordering::Acquire), "the load has seen an error");
        server.kill9();
        slow.wait().expect("an end");
    });
    let server = bench.serve_store();
    let found = ledger.verify(&mut server.client("main"));
    assert_goes_on(&found);
    // The rebuild goes on where it was saved last: at each 64 MiB.
    let (state, percent) = member(&bench, 1);
    assert!(
        state == "rebuilding" && percent > 40.0,
        "{state}, {percent} %"
    );
    let mut client = server.client("main");
    std::thread::scope(|scope| {
        let own = &mut ledger;
        scope.spawn(move || own.write_until_cut(&mut client));
        let rebuilt = bench.ok(&["member", "rebuild", "s.tn"]);
        contains(&rebuilt, "all members of the array are in use");
        let refused = bench.run(&["member", "replace", "s.tn", "n"]);
        contains(
            &refused.err,
            "all members of the array are in use; nothing is to be replaced",
        );
        std::thread::sleep(Duration::from_millis(200));
        server.kill9();
    });
    let server = bench.serve_store();
    assert_goes_on(&ledger.verify(&mut server.client("main")));
    server.end_ok();
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    // What the new drive has is all of the data, so another may die.
    std::fs::remove_file(bench.path("a")).expect("removed");
    let server = bench.serve_store();
    ledger.verify(&mut server.client("main"));
    server.end_ok();
}

/// Without flushed writes the rounds would prove nothing.
fn assert_goes_on(found: &Found) {
    println!("{found:?}");
    assert!(found.promised > 20, "{found:?}");
}

/// A replacement whose drive does not answer: the service goes on, and a second replacement is refused meanwhile.
fn hanging_member(bench: &Bench, other: &Loop) {
    bench.ok(&["create", "y.tn", "--size", "160MiB", "--log-size", "8MiB"]);
    let content = bench.serve(&["y.tn", "--socket", "y.sock"]);
    let fuse = Fuse::new(bench, "y", &content.uri_of("main"));
    let silent = Loop::new(bench, &fuse.file(), 512);
    let pid = Pid::from_raw(content.pid() as i32).expect("a process");
    kill_process(pid, Signal::STOP).expect("sent");
    let start = || {
        let mut hangs = bench.command(&["member", "replace", "s.tn", &silent.device, "--force"]);
        hangs.stderr(Stdio::piped()).spawn().expect("tonearm runs")
    };
    let mut hangs = start();
    let is_busy = |ran: &Ran| {
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.err.contains("a member is being replaced already")
    };
    wait_until("a second replacement", LIMIT, || {
        // The one that hangs was refused if it came while the server looked at the other.
        if hangs.try_wait().expect("a child").is_some() {
            let refused = std::mem::replace(&mut hangs, start()).wait_with_output();
            let refused = Ran::of(&refused.expect("an end"));
            assert!(is_busy(&refused), "{refused:?}");
        }
        is_busy(&bench.run(&["member", "replace", "s.tn", &other.device]))
    });
    assert_eq!(member(bench, 1).0, "missing");
    content.kill9();
    let ran = Ran::of(&hangs.wait_with_output().expect("an end"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    contains(
        &ran.err,
        "cannot replace the missing member: its header area cannot be written",
    );
    assert_eq!(member(bench, 1).0, "missing");
}
