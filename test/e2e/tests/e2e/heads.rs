//! Stores whose log is on drives of its own, with heads that the store follows.

use tonearm_tests::{Bench, contains, text_block};

const CREATE: [&str; 6] = ["create", "s.tn", "--size", "32MiB", "--log-size", "16MiB"];

fn create(bench: &Bench, more: &[&str]) -> String {
    bench.ok(&[&CREATE[..], more].concat())
}

#[test]
fn killed_and_recovered_with_every_head() {
    let drive = ["--log", "a.log", "--log-drive", "st41601n"];
    let two = [&drive[..], &["--log", "b.log", "--log-drive", "atlas10k"]].concat();
    let cases: [(Vec<&str>, &str); 4] = [
        (
            drive.to_vec(),
            "online, on physical tracks, log sectors of 4096 bytes",
        ),
        (
            [&two[..], &["--head", "online"]].concat(),
            "online, on physical tracks of 2 drives in turn",
        ),
        (
            [&two[..], &["--head", "formula"]].concat(),
            "formula, on physical tracks of 2",
        ),
        (
            vec!["--log", "a.log", "--head", "online"],
            "online, on stripes",
        ),
    ];
    for (more, text) in cases {
        let bench = Bench::new();
        contains(&create(&bench, &more), text);
        contains(&bench.ok(&["info", "s.tn"]), text);
        for round in 0..3 {
            let server = bench.serve_store();
            let mut client = server.client("main");
            for block in 0..200 {
                let data = text_block(1000 * round + block);
                client.write(block * 4096, &data, 0).expect("written");
                if block % 7 == 0 {
                    client.flush().expect("flushed");
                }
            }
            client.flush().expect("flushed");
            server.kill9();
            let server = bench.serve_store();
            let mut client = server.client("main");
            for block in 0..200 {
                let read = client.read(block * 4096, 4096).expect("read");
                assert!(
                    read == text_block(1000 * round + block),
                    "{more:?}: {block}"
                );
            }
            server.end_ok();
        }
        contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    }
}

#[test]
fn a_log_that_cannot_be_followed_is_refused_with_advice() {
    let bench = Bench::new();
    let fails = |more: &[&str]| {
        let line = bench.fails(&[&CREATE[..], more].concat());
        for name in ["s.tn", "a.log", "b.log"] {
            assert!(!bench.path(name).exists(), "{more:?} leaves {name}");
        }
        line
    };
    contains(&fails(&["--head", "online"]), "name it with --log");
    let log = ["--log", "a.log"];
    contains(
        &fails(&[&log[..], &["--head", "formula"]].concat()),
        "tonearm-lab calibrate",
    );
    contains(
        &fails(&[&log[..], &["--head", "mimic"]].concat()),
        "tonearm-lab calibrate --profile",
    );
    contains(
        &fails(&[&log[..], &["--log-drive", "ssd"]].concat()),
        "ssd has no platter",
    );
    contains(
        &fails(&[&log[..], &["--log", "b.log"]].concat()),
        "several log drives need --head",
    );
    let two = [&log[..], &["--log", "b.log", "--log-drive", "atlas10k"]].concat();
    contains(
        &fails(&two),
        "there are 2 log drives and 1 --log-drive: give one for each",
    );
    let wrong = [&log[..], &["--log-drive", "nothing"]].concat();
    contains(&fails(&wrong), "there is no drive 'nothing'");
    bench.write("p", b"TONEPROFile that is none, of some length");
    let wrong = [&log[..], &["--head", "mimic", "--log-profile", "p"]].concat();
    contains(&fails(&wrong), "p");
}

#[test]
fn one_copy_of_the_track_sheet_is_enough_and_none_is_refused() {
    let bench = Bench::new();
    create(&bench, &["--log", "a.log", "--log-drive", "st41601n"]);
    bench.overwrite("a.log", 4096 + 100, &[0xaa; 64]);
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    let size = std::fs::metadata(bench.path("a.log"))
        .expect("a file")
        .len();
    bench.overwrite("a.log", size - (1 << 20) + 4096 + 7, &[0xaa; 64]);
    let line = bench.fails(&["serve", "s.tn"]);
    contains(&line, "both copies of the track sheet are damaged");
    contains(&line, "a.log");
}

#[test]
fn a_truncated_log_is_refused() {
    let bench = Bench::new();
    create(&bench, &["--log", "a.log", "--log-drive", "st41601n"]);
    let file = std::fs::File::options()
        .write(true)
        .open(bench.path("a.log"))
        .expect("a file");
    file.set_len(9 << 20).expect("cut");
    contains(&bench.fails(&["serve", "s.tn"]), "a.log is truncated");
}
