//! `tonearm info` tells what the space of a store is reserved for, and with `--used` what of it holds data.

use crate::common::{Bench, contains};
use serde_json::Value;

/// A volume of 8 MiB in a store of 16 MiB, with data in the first 3 MiB.
fn store(bench: &Bench) {
    bench.ok(&["create", "a", "--size", "16MiB", "--log-size", "4MiB"]);
    bench.ok(&["volume", "resize", "a", "main", "--size", "8MiB"]);
    std::fs::write(bench.path("image"), vec![7; 3 << 20]).expect("written");
    bench.ok(&["volume", "put", "a", "main", "image"]);
}

fn info(bench: &Bench) -> Value {
    let info = bench.json(&["info", "a", "--used", "--json"]);
    let reserved = |of: &Value| of["reserved_bytes"].as_u64().expect("bytes");
    let volumes = info["volumes"].as_array().expect("volumes");
    let parts = volumes.iter().chain([&info["files"], &info["units"]]);
    let reserved: u64 = parts.map(reserved).sum();
    let free = info["free_bytes"].as_u64().expect("bytes");
    assert_eq!(Some(reserved + free), info["size_bytes"].as_u64());
    info
}

/// The bytes that hold data: of all, of `main` and of the files.
fn used(bench: &Bench) -> [u64; 3] {
    let info = info(bench);
    assert_eq!(info["counted"]["commits_meanwhile"], 0);
    let parts = [
        &info["counted"]["data_bytes"],
        &info["volumes"][0]["used_bytes"],
        &info["files"]["used_bytes"],
    ];
    parts.map(|bytes| bytes.as_u64().expect("bytes"))
}

#[test]
fn used_space_of_a_closed_served_and_crashed_store_is_the_same() {
    let bench = Bench::new();
    store(&bench);
    assert_eq!(used(&bench), [3 << 20, 3 << 20, 0]);
    let serving = bench.serve(&["a"]);
    assert_eq!(used(&bench), [3 << 20, 3 << 20, 0]);
    std::fs::write(bench.path("image"), vec![7; 1 << 20]).expect("written");
    bench.ok(&["volume", "put", "a", "main", "image"]);
    assert_eq!(used(&bench), [1 << 20, 1 << 20, 0]);
    bench.ok(&["files", "put", "a", "image"]);
    let served = used(&bench);
    assert!(served[2] > 1 << 20, "{served:?}");
    serving.kill();
    assert_eq!(bench.json(&["info", "a", "--json"])["state"], "crashed");
    assert_eq!(used(&bench), served);
    bench.ok(&["check", "a", "--repair"]);
    assert_eq!(used(&bench), served);
}

#[test]
fn info_counts_only_when_asked() {
    let bench = Bench::new();
    store(&bench);
    for is_served in [false, true] {
        let serving = is_served.then(|| bench.serve(&["a"]));
        let info = bench.json(&["info", "a", "--json"]);
        assert!(info["counted"].is_null(), "{info}");
        assert!(info["volumes"][0]["used_bytes"].is_null(), "{info}");
        assert_eq!(info["volumes"][0]["reserved_bytes"], 8 << 20);
        let list = bench.json(&["volume", "list", "a", "--json"]);
        assert_eq!(list["volumes"][0]["reserved_bytes"], 8 << 20);
        let text = bench.ok(&["info", "a"]);
        contains(&text, "16 MiB: 8 MiB for volumes, 8 MiB free");
        let text = bench.ok(&["info", "a", "--used"]);
        contains(&text, "3 MiB: 3 MiB in volumes");
        contains(&text, "┆ 8 MiB ┆ 3 MiB ┆ read-write");
        if let Some(serving) = serving {
            assert_eq!(serving.end("-TERM").code, Some(0));
        }
    }
}
