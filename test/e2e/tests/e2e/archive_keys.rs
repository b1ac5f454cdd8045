//! Encrypted archives, with keys as `age-keygen` makes them.

use super::archives::{archived, chain, insert, lose, rows, url};
use tonearm_tests::sqlite::host_sql;
use tonearm_tests::{Bench, Server, contains};

const SECRET: &str = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";
const PUBLIC: &str = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";
const SECOND_SECRET: &str =
    "AGE-SECRET-KEY-1XYCNZVF3XYCNZVF3XYCNZVF3XYCNZVF3XYCNZVF3XYCNZVF3XYCSU8085H";
const SECOND_PUBLIC: &str = "age1qn6l9ytzcvdgmmap3eh8gg3ya6qxlst33gnch6zehftzqspt3uaqpzukj8";
const OTHER_SECRET: &str =
    "AGE-SECRET-KEY-1XGERYV3JXGERYV3JXGERYV3JXGERYV3JXGERYV3JXGERYV3JXGEQ33GQPL";

/// Serves `s.tn` with an archive for both recipients.
fn serve(bench: &Bench) -> Server {
    let from = url(bench, "backup");
    let keys = [
        "--archive-recipient",
        PUBLIC,
        "--archive-recipient",
        SECOND_PUBLIC,
    ];
    bench.serve(&[&["s.tn", "--archive", &from], &keys[..]].concat())
}

fn identities(bench: &Bench) {
    for (name, secret) in [
        ("key.txt", SECRET),
        ("second.txt", SECOND_SECRET),
        ("other.txt", OTHER_SECRET),
    ] {
        let text = format!("# created: 2026-11-25\n{secret}\n");
        std::fs::write(bench.path(name), text).expect("written");
    }
}

#[test]
fn encrypted_archive_is_restored_only_by_its_recipients() {
    let bench = Bench::with_small_store(&[]);
    identities(&bench);
    // A server that is killed is followed by one that goes on without an identity. Rows inserted before the archive runs would be in
    // its base alone.
    let server = serve(&bench);
    archived(&bench);
    insert(&bench, 100);
    archived(&bench);
    server.kill9();
    let server = serve(&bench);
    archived(&bench);
    insert(&bench, 200);
    let last = archived(&bench);
    server.end_ok();
    lose(&bench);

    for path in chain(&bench) {
        let object = std::fs::read(path).expect("an object");
        let has_changes = object[108] == 2;
        let payload = &object[128..];
        assert_eq!(object[110] & 1 == 1, has_changes);
        assert_eq!(payload.starts_with(b"age-encryption.org/v1\n"), has_changes);
    }
    let from = url(&bench, "backup");
    let history = bench.json(&["history", &from, "--json"]);
    assert!(history["encrypted_ranges"].as_u64() >= Some(2), "{history}");
    contains(&bench.ok(&["history", &from]), " of them are encrypted");

    for key in ["key.txt", "second.txt"] {
        bench.ok(&["restore", &from, "s.tn", "--identity", key]);
        assert_eq!(rows(&bench), "200");
        lose(&bench);
    }
    let only = ["restore", &from, "app.db", "--only", "app.db"];
    bench.ok(&[
        &only[..],
        &["--identity", "other.txt", "--identity", "key.txt"],
    ]
    .concat());
    assert_eq!(host_sql(&bench, "app.db", "SELECT count(*) FROM t"), "200");
    let time = [
        "restore",
        &from,
        "s.tn",
        "--to-time",
        "0s",
        "--identity",
        "key.txt",
    ];
    assert_eq!(bench.json(&[&time[..], &["--json"]].concat())["lsn"], last);
    lose(&bench);

    let closed = "it is encrypted; give an identity of one of its recipients with --identity FILE";
    let other = "it is encrypted, and none of the given identities opens it; give one of its recipients' with --identity";
    for (key, text) in [(&[][..], closed), (&["--identity", "other.txt"], other)] {
        for command in [
            &["restore", &from, "n.tn"][..],
            &["restore", &from, "n.db", "--only", "app.db"],
        ] {
            // The second time it goes on with the first restore, and says so.
            let ran = bench.run(&[command, key].concat());
            assert_eq!(ran.code, Some(1), "{ran:?}");
            contains(&ran.err, text);
            for name in ["n.tn", "n.db"] {
                assert!(!bench.path(name).exists());
            }
        }
    }
    // The same command goes on once it has the key.
    bench.ok(&["restore", &from, "n.tn", "--identity", "key.txt"]);
    contains(&bench.fails(&["history", &from, "--names"]), closed);
    let names = bench.ok(&["history", &from, "--names", "--identity", "key.txt"]);
    contains(&names, "app.db");

    contains(
        &bench.ok(&["archive", "verify", &from]),
        "encrypted objects: headers, order and checksums were checked, their contents were not; give --identity FILE",
    );
    let verified = bench.json(&[
        "archive",
        "verify",
        &from,
        "--identity",
        "key.txt",
        "--json",
    ]);
    assert_eq!(
        (&verified["encrypted"], &verified["faults"]),
        (&0.into(), &serde_json::json!([]))
    );
    assert!(verified["entries"].as_u64() > Some(30), "{verified}");
    contains(
        &bench.fails(&["archive", "verify", &from, "--identity", "other.txt"]),
        other,
    );

    // Damage is reported without a key, and a changed payload with a right checksum with one.
    let path = chain(&bench).pop().expect("objects");
    let mut object = std::fs::read(&path).expect("an object");
    let at = object.len() - 5;
    object[at] ^= 1;
    std::fs::write(&path, &object).expect("written");
    let damaged = bench.run(&["archive", "verify", &from]);
    assert_eq!(damaged.code, Some(3), "{damaged:?}");
    contains(&damaged.err, "fails its checksum");
}

#[test]
fn invalid_keys_are_an_error() {
    let bench = Bench::with_small_store(&[]);
    identities(&bench);
    let place = url(&bench, "backup");
    for key in ["age1nobody", SECRET] {
        let refused = bench.fails(&[
            "serve",
            "s.tn",
            "--archive",
            &place,
            "--archive-recipient",
            key,
        ]);
        let text =
            format!("'{key}' is no recipient; give a public key of age: it begins with age1");
        contains(&refused, &text);
    }
    let server = bench.serve(&["s.tn"]);
    let start = ["archive", "start", "s.tn", &place, "--archive-recipient"];
    contains(
        &bench.fails(&[&start[..], &["x"]].concat()),
        "'x' is no recipient",
    );
    bench.ok(&[&start[..], &[PUBLIC]].concat());
    insert(&bench, 5);
    archived(&bench);
    server.end_ok();
    std::fs::write(bench.path("nothing.txt"), "# a comment\n").expect("written");
    for (file, part) in [
        (
            "missing.txt",
            "missing.txt cannot be used as an identity (No such file",
        ),
        (
            "nothing.txt",
            "nothing.txt cannot be used as an identity (it has none); give a file with a line that begins with",
        ),
        ("s.tn", "s.tn cannot be used as an identity ("),
    ] {
        contains(
            &bench.fails(&["restore", &place, "n.tn", "--identity", file]),
            part,
        );
    }
    assert!(!bench.path("n.tn.partial").exists());
    lose(&bench);
    bench.ok(&["restore", &place, "s.tn", "--identity", "key.txt"]);
    assert_eq!(rows(&bench), "5");
}
