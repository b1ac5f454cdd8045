use crate::common::{Bench, contains};

/// The same steps on a closed and on a served store.
fn steps(bench: &Bench) {
    contains(
        &bench.fails(&["volume", "create", "a", "two", "--size", "1MiB"]),
        "shrink or delete a volume first",
    );
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
    contains(
        &bench.fails(&["volume", "resize", "a", "two", "--size", "1TiB"]),
        "bytes free",
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
