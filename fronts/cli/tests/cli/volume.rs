use crate::common::{Bench, contains};

/// The same steps on a closed and on a served store.
fn steps(bench: &Bench) {
    contains(
        &bench.ok(&["volume", "resize", "a", "main", "--size", "8MiB"]),
        "8 MiB free",
    );
    contains(
        &bench.ok(&["volume", "create", "a", "two", "--size", "3MiB"]),
        "made volume two of 3 MiB; 5 MiB free",
    );
    contains(
        &bench.fails(&["volume", "create", "a", "two", "--size", "1MiB"]),
        "there is a volume \"two\" already",
    );
    contains(
        &bench.fails(&["volume", "delete", "a", "three"]),
        "there is no volume \"three\"",
    );
    contains(
        &bench.fails(&["volume", "create", "a", "x/y", "--size", "1MiB"]),
        "cannot name a volume",
    );
    let list = bench.json(&["volume", "list", "a", "--json"]);
    assert_eq!(list["volumes"][1]["size_bytes"], 3 << 20);
    assert_eq!(list["free_bytes"], 5 << 20);
    contains(&bench.ok(&["volume", "delete", "a", "two"]), "8 MiB free");
    bench.ok(&["volume", "resize", "a", "main", "--size", "16MiB"]);
}

#[test]
fn volumes_of_a_closed_store() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    steps(&bench);
    assert_eq!(bench.json(&["info", "a", "--json"])["state"], "clean");
}

#[test]
fn volumes_of_a_served_store() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let serving = bench.serve(&["a"]);
    steps(&bench);
    assert_eq!(serving.end("-TERM").code, Some(0));
    contains(&bench.ok(&["check", "a"]), "no damage found");
}

/// The store becomes larger for its volumes, and by itself.
fn growth(bench: &Bench) {
    std::fs::write(bench.path("image"), vec![7; 10 << 20]).expect("written");
    bench.ok(&["volume", "put", "a", "main", "image"]);
    contains(
        &bench.ok(&["volume", "create", "a", "two", "--size", "1GiB"]),
        "made volume two of 1 GiB",
    );
    bench.ok(&["volume", "resize", "a", "main", "--size", "40MiB"]);
    let list = bench.json(&["volume", "list", "a", "--json"]);
    assert_eq!(list["volumes"][0]["size_bytes"], 40 << 20);
    let free = list["free_bytes"].as_u64().expect("bytes");
    contains(
        &bench.ok(&["grow", "a", "--by", "100MiB"]),
        "made the store larger by 100 MiB",
    );
    let list = bench.json(&["volume", "list", "a", "--json"]);
    let now = list["free_bytes"].as_u64().expect("bytes");
    assert!((free + (100 << 20)..free + (110 << 20)).contains(&now));
    // All of the new space can be used.
    std::fs::write(bench.path("image"), vec![8; 40 << 20]).expect("written");
    bench.ok(&["volume", "put", "a", "main", "image"]);
    bench.ok(&["volume", "get", "a", "main", "copy", "--force"]);
    assert!(std::fs::read(bench.path("copy")).expect("a copy") == vec![8; 40 << 20]);
}

#[test]
fn a_closed_store_grows() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    growth(&bench);
    contains(&bench.ok(&["check", "a"]), "no damage found");
}

#[test]
fn a_served_store_grows_and_survives_a_kill() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let serving = bench.serve(&["a"]);
    growth(&bench);
    // Below a client, too.
    let client = bench.connect("a.sock");
    bench.ok(&["grow", "a", "--by", "5MiB"]);
    bench.ok(&["volume", "resize", "a", "main", "--size", "60MiB"]);
    drop(client);
    let info = bench.json(&["info", "a", "--json"]);
    serving.kill();
    assert_eq!(
        bench.json(&["info", "a", "--json"])["size_bytes"],
        info["size_bytes"]
    );
    contains(&bench.ok(&["check", "a", "--repair"]), "shut down in order");
    contains(&bench.ok(&["check", "a"]), "no damage found");
    bench.ok(&["volume", "get", "a", "main", "copy", "--force"]);
    let copy = std::fs::read(bench.path("copy")).expect("a copy");
    assert_eq!(copy.len(), 60 << 20);
    assert!(copy[..40 << 20] == vec![8; 40 << 20]);
}

#[test]
fn stores_that_cannot_grow_say_why() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB", "--layout", "segments"]);
    let create = ["volume", "create", "a", "two", "--size", "1MiB"];
    let grow = ["grow", "a", "--by", "1MiB"];
    for command in [&create[..], &grow] {
        contains(
            &bench.fails(command),
            "cannot grow, because its layout has segments",
        );
    }
    let serving = bench.serve(&["a"]);
    for command in [&create[..], &grow] {
        contains(
            &bench.fails(command),
            "cannot grow, because its layout has segments",
        );
    }
    assert_eq!(serving.end("-TERM").code, Some(0));
}

/// A volume is not made smaller over data, nor below a client, unless the command says so.
fn shrinking(bench: &Bench) {
    std::fs::write(bench.path("image"), vec![7; 10 << 20]).expect("written");
    bench.ok(&["volume", "put", "a", "main", "image"]);
    let smaller = ["volume", "resize", "a", "main", "--size", "9MiB"];
    contains(
        &bench.fails(&smaller),
        "volume main has data beyond 9 MiB, which would be lost; use --shrink",
    );
    // Nothing is there, and nothing lost.
    bench.ok(&["volume", "resize", "a", "main", "--size", "10MiB"]);
    bench.ok(&["volume", "get", "a", "main", "copy"]);
    assert!(std::fs::read(bench.path("copy")).expect("a copy") == vec![7; 10 << 20]);
    bench.ok(&[&smaller[..], &["--shrink"]].concat());
    bench.ok(&["volume", "resize", "a", "main", "--size", "16MiB"]);
}

#[test]
fn shrinking_over_data_needs_an_explicit_option() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    shrinking(&bench);
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let serving = bench.serve(&["a"]);
    shrinking(&bench);
    assert_eq!(serving.end("-TERM").code, Some(0));
}

#[test]
fn volumes_below_clients_are_neither_shrunk_nor_deleted() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let serving = bench.serve(&["a"]);
    let client = bench.connect("a.sock");
    let own = format!("the NBD client unix:pid={}", std::process::id());
    let smaller = ["volume", "resize", "a", "main", "--size", "8MiB"];
    for command in [
        &smaller[..],
        &[&smaller[..], &["--shrink"]].concat(),
        &["volume", "delete", "a", "main"],
    ] {
        let refused = bench.fails(command);
        contains(&refused, &format!("volume main is in use by {own}"));
        contains(&refused, "--force");
    }
    let list = bench.json(&["volume", "list", "a", "--json"]);
    assert_eq!(list["volumes"][0]["size_bytes"], 16 << 20);
    assert_eq!(list["volumes"][0]["clients"], 1);
    bench.ok(&[&smaller[..], &["--force"]].concat());
    bench.ok(&["volume", "resize", "a", "main", "--size", "16MiB"]);
    bench.ok(&["volume", "delete", "a", "main", "--force"]);
    drop(client);
    assert_eq!(serving.end("-TERM").code, Some(0));
}

#[test]
fn images_that_are_not_plain_are_refused() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let mut image = b"QFI\xfb".to_vec();
    image.resize(1 << 20, 1);
    std::fs::write(bench.path("image"), &image).expect("written");
    let refused = bench.fails(&["volume", "put", "a", "main", "image"]);
    contains(&refused, "qcow2 is no plain image");
    contains(&refused, "qemu-img convert -f qcow2 -O raw image image.raw");
    bench.ok(&["volume", "get", "a", "main", "copy"]);
    let copy = std::fs::read(bench.path("copy")).expect("a copy");
    assert!(copy.iter().all(|byte| *byte == 0));
    bench.ok(&["volume", "put", "a", "main", "image", "--raw"]);
    bench.ok(&["volume", "get", "a", "main", "copy", "--force"]);
    let copy = std::fs::read(bench.path("copy")).expect("a copy");
    assert!(copy[..1 << 20] == image);
    // The same from a pipe, of which nothing is lost by the look.
    for (raw, code) in [(&[][..], Some(1)), (&["--raw"], Some(0))] {
        let mut command = bench.command(&[&["volume", "put", "a", "main", "-"], raw].concat());
        let input = std::fs::File::open(bench.path("image")).expect("opened");
        let status = command.stdin(input).status().expect("tonearm runs");
        assert_eq!(status.code(), code, "{raw:?}");
    }
    bench.ok(&["volume", "get", "a", "main", "copy", "--force"]);
    assert!(std::fs::read(bench.path("copy")).expect("a copy")[..1 << 20] == image);
}
