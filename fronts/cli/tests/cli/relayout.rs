//! A store gets another layout: where it is, and in a new store.

use crate::common::{Bench, contains};

#[test]
fn relayout_copies_a_store_or_explains_the_refusal() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let image: Vec<u8> = (0..5_000_000_u32).map(|at| (at / 7) as u8).collect();
    std::fs::write(bench.path("image"), &image).expect("written");
    bench.ok(&["volume", "put", "a", "main", "image"]);
    let copy = ["relayout", "a", "--to", "b"];
    contains(
        &bench.fails(&copy),
        "b does not exist; make it first, with the layout that it is to have: tonearm create b --size 16MiB --no-volume",
    );
    bench.ok(&["create", "small", "--size", "8MiB", "--no-volume"]);
    contains(
        &bench.fails(&["relayout", "a", "--to", "small"]),
        "it has 2304 blocks, the source 4352; name a new store",
    );
    contains(
        &bench.fails(&["relayout", "a", "--to", "image"]),
        "image cannot take a copy",
    );
    contains(
        &bench.fails(&["relayout", "a", "--to", "a"]),
        "a cannot take a copy: a is in use",
    );
    contains(
        &bench.fails(&["relayout", "a", "--layout", "wolf"]),
        "the layout overwrite has no segments; copy the store into a new one",
    );

    bench.ok(&[
        "create",
        "b",
        "--size",
        "32MiB",
        "--no-volume",
        "--layout",
        "hylog",
    ]);
    let done = bench.json(&["relayout", "a", "--to", "b", "--json"]);
    assert_eq!(done["layout"], "hylog");
    assert_eq!(done["copied_bytes"], 5_000_000_u64.next_multiple_of(4096));
    assert_eq!(done["present_bytes"], 0);
    contains(
        &bench.fails(&copy),
        "it has \"main\", and a copy would overwrite it",
    );
    let list = |store: &str| bench.json(&["volume", "list", store, "--json"])["volumes"].clone();
    assert_eq!(list("a"), list("b"));
    bench.ok(&["volume", "get", "b", "main", "out"]);
    let out = std::fs::read(bench.path("out")).expect("an image");
    assert!(out[..image.len()] == image && out.len() == 16 << 20);

    let layout =
        |layout| bench.json(&["relayout", "b", "--layout", layout, "--json"])["layout"].clone();
    assert_eq!(layout("segments"), "segments");
    contains(&bench.ok(&["info", "b"]), "segments");
    assert_eq!(layout("wolf"), "wolf");
    contains(
        &bench.fails(&["relayout", "b", "--layout", "overwrite"]),
        "only in a new store: `tonearm relayout b --to NEW`",
    );
    bench.ok(&["check", "b"]);
}
