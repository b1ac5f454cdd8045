//! What the files of a store take.

use super::used_bytes;
use crate::control::{ArrayInfo, ArrayMemberInfo, MemberInfo};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn member(path: &Path) -> MemberInfo {
    MemberInfo {
        path: path.display().to_string(),
        uuid: String::new(),
        carries: "blocks".into(),
        data_bytes: 0,
    }
}

#[test]
fn holes_take_nothing_and_devices_are_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1"), dir.path().join("2"));
    fs::write(&one, vec![1; 1 << 20]).unwrap();
    fs::File::create(&two).unwrap().set_len(1 << 30).unwrap();
    let blocks = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    let used = used_bytes(&[member(&one), member(&two)], None).unwrap();
    assert_eq!(used, blocks(&one) + blocks(&two));
    assert!(used < 1 << 29, "{used}");
    assert_eq!(
        used_bytes(&[member(&one), member(Path::new("/dev/null"))], None),
        None
    );
    assert_eq!(
        used_bytes(&[member(&one), member(&dir.path().join("3"))], None),
        None
    );
    // The members of an array stand for it.
    let array = ArrayInfo {
        level: "raid0".into(),
        stripe_bytes: 65536,
        degraded: false,
        lost: None,
        members: vec![ArrayMemberInfo {
            path: two.display().to_string(),
            state: "in use".into(),
            rebuilt_percent: 100.0,
            trouble: None,
        }],
    };
    let members = [member(&one), member(Path::new("raid0 of one"))];
    assert_eq!(used_bytes(&members, Some(&array)), Some(used));
}
