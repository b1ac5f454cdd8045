//! Which folders are among the devices.

use super::{Medium, is_devtmpfs};
use std::os::unix::fs::symlink;
use std::path::Path;

const MOUNTS: &str = "\
22 28 0:21 / /proc rw,nosuid - proc proc rw
23 28 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=16k
24 23 0:23 / /dev/shm rw - tmpfs tmpfs rw
28 1 252:1 / / rw,relatime - ext4 /dev/vda1 rw";

#[test]
fn devtmpfs_is_known_by_its_number() {
    let number = |major, minor| rustix::fs::makedev(major, minor);
    assert!(is_devtmpfs(MOUNTS, number(0, 5)));
    for other in [number(0, 21), number(0, 23), number(252, 1), number(5, 0)] {
        assert!(!is_devtmpfs(MOUNTS, other));
    }
}

#[test]
fn names_below_dev_are_devices_also_through_links() {
    let dir = tempfile::tempdir().unwrap();
    symlink("/dev", dir.path().join("d")).unwrap();
    symlink("/dev/tonearm-none", dir.path().join("l")).unwrap();
    symlink("l", dir.path().join("again")).unwrap();
    for name in ["/dev/tonearm-none", "/dev/../dev/tonearm-none"] {
        assert_eq!(Medium::of(Path::new(name)), Medium::Devices, "{name}");
    }
    for name in ["d/tonearm-none", "l", "again"] {
        assert_eq!(
            Medium::of(&dir.path().join(name)),
            Medium::Devices,
            "{name}"
        );
    }
    assert_ne!(Medium::of(&dir.path().join("file")), Medium::Devices);
    assert_ne!(Medium::of(Path::new("/dev/shm/file")), Medium::Devices);
}

#[test]
fn file_systems_are_known_by_their_numbers() {
    for (number, medium) in [
        (0x0102_1994, Medium::Memory),
        (0x8584_58f6, Medium::Memory),
        (0x9123_683e, Medium::CopyOnWrite("btrfs")),
        (0xca45_1a4e, Medium::CopyOnWrite("bcachefs")),
        (0x2fc1_2fc1, Medium::CopyOnWrite("ZFS")),
        // ext4 and XFS.
        (0xef53, Medium::Plain),
        (0x5846_5342, Medium::Plain),
    ] {
        assert_eq!(Medium::of_type(number), medium, "{number:x}");
    }
}
