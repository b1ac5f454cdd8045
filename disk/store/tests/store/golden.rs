//! Stores of an earlier program can get lists and files, and keep their content.

use flate2::read::GzDecoder;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tonearm_store::{Store, StoreOptions};

/// The members of the golden store `name`, unpacked; the primary one's path.
fn unpacked(folder: &Path, name: &str, members: &[&str]) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e/golden");
    for member in members {
        let packed = File::open(golden.join(format!("{name}.{member}.gz"))).unwrap();
        let mut file = File::create(folder.join(member)).unwrap();
        std::io::copy(&mut GzDecoder::new(packed), &mut file).unwrap();
    }
    folder.join(members[0])
}

/// `full` is a volume that goes first, because nothing is free.
fn gets_lists_and_files(name: &str, members: &[&str], full: Option<&str>) {
    let folder = TempDir::new().unwrap();
    let path = unpacked(folder.path(), name, members);
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    assert!(store.lists().unwrap().is_empty());
    let before = store.read("main", 0, 1 << 20).unwrap();
    assert!(before.starts_with(b"block 000000000 "));
    assert_eq!(before[40_000..40_007], *b"tonearm");

    if let Some(volume) = full {
        let mut unit = store.begin().unwrap();
        unit.delete(volume).unwrap();
        unit.end().unwrap();
    }
    let mut unit = store.begin().unwrap();
    let list = unit.new_list().unwrap();
    let second = unit.new_block(list, None).unwrap();
    let first = unit.new_block(list, None).unwrap();
    unit.write_block(first, &[1; 4096]).unwrap();
    unit.create_file("file").unwrap();
    unit.write("file", 5000, b"content").unwrap();
    unit.write("other", 0, b"both").unwrap();
    unit.end().unwrap();
    store.close().unwrap();

    let store = Store::open(&path, StoreOptions::default()).unwrap();
    assert!(store.lists().unwrap().contains(&list));
    assert_eq!(store.list_blocks(list).unwrap(), [first, second]);
    assert_eq!(store.read_block(first).unwrap(), [1; 4096]);
    assert_eq!(store.read_block(second).unwrap(), [0; 4096]);
    assert_eq!(store.read("file", 5000, 100).unwrap(), b"content");
    assert_eq!(store.read("other", 0, 4).unwrap(), b"both");
    assert!(store.read("main", 0, 1 << 20).unwrap() == before);
    store.close().unwrap();
}

#[test]
fn format_1_closed_in_order() {
    gets_lists_and_files("format-1-clean", &["s.tn"], None);
}

#[test]
fn format_1_killed() {
    gets_lists_and_files("format-1-crashed", &["s.tn"], None);
}

#[test]
fn format_2_closed_in_order() {
    gets_lists_and_files("format-2-clean", &["s.tn", "a.log", "b.log"], None);
}

#[test]
fn format_3_closed_in_order() {
    gets_lists_and_files("format-3-clean", &["s.tn"], Some("filled"));
}

#[test]
fn format_3_killed() {
    gets_lists_and_files("format-3-crashed", &["s.tn"], Some("filled"));
}

#[test]
fn format_2_killed() {
    gets_lists_and_files("format-2-crashed", &["s.tn", "a.log", "b.log"], None);
}
