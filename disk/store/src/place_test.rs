//! One place for all names of a store.

use super::{resolved, socket_of, store_folder};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn names_through_links_have_the_same_sockets_and_folder() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    fs::create_dir(top.join("real")).unwrap();
    let store = top.join("real/r.tn");
    fs::write(&store, "").unwrap();
    symlink("real", top.join("d")).unwrap();
    symlink("d/r.tn", top.join("link.tn")).unwrap();
    symlink("../link.tn", top.join("real/again.tn")).unwrap();
    for name in [
        "real/r.tn",
        "link.tn",
        "d/r.tn",
        "d/again.tn",
        "real/../d/r.tn",
    ] {
        let name = top.join(name);
        assert_eq!(resolved(&name), store, "{name:?}");
        assert_eq!(
            socket_of(&name, "ctl"),
            top.join("real/r.tn.ctl"),
            "{name:?}"
        );
        assert_eq!(store_folder(&name), top.join("real"), "{name:?}");
    }
}

#[test]
fn a_relative_name_without_links_stays_short() {
    // The folder of the tests is that of the crate.
    assert_eq!(
        socket_of(Path::new("Cargo.toml"), "ctl"),
        Path::new("Cargo.toml.ctl")
    );
    assert_eq!(store_folder(Path::new("Cargo.toml")), Path::new("."));
}

#[test]
fn a_store_that_does_not_exist_keeps_its_name() {
    assert_eq!(
        socket_of(Path::new("/nope/x"), "ctl"),
        Path::new("/nope/x.ctl")
    );
}
