use crate::place::MountEntry;
use crate::{MountError, Mountable};
use std::path::{Path, PathBuf};

#[test]
fn a_line_of_the_list_of_mounts_is_read() {
    let line = br"36 35 98:0 /mnt1 /mnt\0402/a\134b rw,noatime master:1 shared:2 - fuse.tonearm /srv/my\040disk.tn rw";
    let listed = MountEntry::parse(line).expect("a line");
    assert_eq!(
        listed,
        MountEntry {
            place: PathBuf::from(r"/mnt 2/a\b"),
            fs_type: "fuse.tonearm".into(),
            source: "/srv/my disk.tn".into(),
        }
    );
    assert_eq!(MountEntry::parse(b""), None);
    assert_eq!(MountEntry::parse(b"1 2 3 -"), None);
}

#[test]
fn each_unsuitable_place_has_its_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, b"").expect("a file");
    let find = |place: &Path| Mountable::find(place).map(|_| ());
    assert!(find(folder.path()).is_ok());
    let missing = find(&folder.path().join("none"));
    assert!(
        matches!(missing, Err(MountError::NoDirectory(_))),
        "{missing:?}"
    );
    for place in [file.clone(), file.join("below")] {
        let none = find(&place);
        assert!(matches!(none, Err(MountError::NotDirectory(_))), "{none:?}");
    }
    let busy = find(Path::new("/proc"));
    assert!(matches!(busy, Err(MountError::Busy { .. })), "{busy:?}");
}
