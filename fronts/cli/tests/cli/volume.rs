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
    contains(
        &bench.fails(&["volume", "create", "a", "two", "--size", "1MiB"]),
        "0 bytes free, 1048576 are needed; shrink or delete a volume or file, or stop the server",
    );
    steps(&bench);
    assert_eq!(serving.end("-TERM").code, Some(0));
    contains(&bench.ok(&["check", "a"]), "no damage found");
}

#[test]
fn a_closed_store_grows_for_a_volume() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    contains(
        &bench.ok(&["volume", "create", "a", "two", "--size", "1GiB"]),
        "made volume two of 1 GiB",
    );
    bench.ok(&["volume", "resize", "a", "main", "--size", "40MiB"]);
    let list = bench.json(&["volume", "list", "a", "--json"]);
    assert_eq!(list["volumes"][0]["size_bytes"], 40 << 20);
    contains(&bench.ok(&["check", "a"]), "no damage found");
}
