//! Stores of several files.

use tonearm_store::{ArrayLevel, CreateOptions, Store, StoreOptions, create};

#[test]
fn a_program_makes_stores_of_all_kinds_of_members() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let files = |names: &[&str]| names.iter().map(|name| path(name)).collect::<Vec<_>>();
    let size_bytes = 64 << 20;
    for (name, options) in [
        (
            "split",
            CreateOptions {
                size_bytes,
                log: files(&["split.log"]),
                data: files(&["split.2"]),
                ..CreateOptions::default()
            },
        ),
        (
            "raid",
            CreateOptions {
                size_bytes,
                data: files(&["raid.1", "raid.2", "raid.3"]),
                array: Some((ArrayLevel::Raid5, 64 << 10)),
                ..CreateOptions::default()
            },
        ),
    ] {
        create(&path(name), &options).unwrap();
        let store = Store::open(&path(name), StoreOptions::default()).unwrap();
        let mut unit = store.begin().unwrap();
        unit.create_file("file").unwrap();
        unit.end().unwrap();
        store.close().unwrap();
    }
}

#[test]
fn a_store_that_cannot_be_made_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::write(&there, "precious").unwrap();
    let options = CreateOptions {
        size_bytes: 64 << 20,
        data: vec![folder.path().join("new"), there.clone()],
        ..CreateOptions::default()
    };
    let error = create(&folder.path().join("store"), &options).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    let twice = CreateOptions {
        data: vec![there.clone(), there.clone()],
        ..options
    };
    let error = create(&folder.path().join("store"), &twice).unwrap_err();
    assert!(error.to_string().contains("is named twice"), "{error}");
    assert_eq!(std::fs::read(&there).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
