//! What the files of a store take.

use super::used_bytes;
use crate::control::{ArrayInfo, ArrayMemberInfo};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tonearm_disk::MemberDevice;
use tonearm_store::Executor;
use tonearm_uring::{Medium, Member, MemberKind};

fn blocks(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn open(executor: &Executor, path: &Path) -> MemberDevice {
    let member = Member {
        fd: fs::File::open(path).unwrap().into(),
        size_bytes: 1 << 20,
        kind: MemberKind::File,
        logical_block_size: 4096,
        direct: false,
        medium: Medium::Plain,
        path: path.to_path_buf(),
    };
    tonearm_store::device_of(executor, member)
}

#[test]
fn holes_take_nothing_and_devices_are_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1"), dir.path().join("2"));
    fs::write(&one, vec![1; 1 << 20]).unwrap();
    fs::File::create(&two).unwrap().set_len(1 << 30).unwrap();
    let executor = Executor::new().unwrap();
    let _open = [open(&executor, &one), open(&executor, &two)];
    let used = used_bytes(&executor, None).unwrap();
    assert_eq!(used, blocks(&one) + blocks(&two));
    assert!(used < 1 << 29, "{used}");
    let _device = open(&executor, Path::new("/dev/null"));
    assert_eq!(used_bytes(&executor, None), None);
}

#[test]
fn usage_is_read_from_open_files_not_paths() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1");
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    let executor = Executor::new().unwrap();
    let _open = open(&executor, &path);
    let used = blocks(&path);
    // What has the name now may lie in the store's own mount.
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"").unwrap();
    assert_eq!(used_bytes(&executor, None), Some(used));
}

#[test]
fn a_missing_member_leaves_the_space_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1");
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    let executor = Executor::new().unwrap();
    let _open = open(&executor, &path);
    let array = |state: &str| ArrayInfo {
        level: "raid5".into(),
        stripe_bytes: 65536,
        degraded: false,
        lost: None,
        members: vec![ArrayMemberInfo {
            path: "1".into(),
            state: state.into(),
            rebuilt_percent: 100.0,
            trouble: None,
        }],
    };
    for known in ["in use", "rebuilding"] {
        assert_eq!(
            used_bytes(&executor, Some(&array(known))),
            Some(blocks(&path))
        );
    }
    for unknown in ["missing", "stale"] {
        assert_eq!(used_bytes(&executor, Some(&array(unknown))), None);
    }
}
