use crate::translate::{attributes, file_type, requested_time, without_privilege};
use fuser::FileType;
use std::time::{Duration, SystemTime};
use tonearm_fs::{Attr, Inode, Time};

fn attr(mode: u32, time: Time) -> Attr {
    Attr {
        ino: 7,
        inode: Inode {
            mode,
            blocks: 3,
            mtime: time,
            ..Inode::default()
        },
    }
}

#[test]
fn times_before_1970_have_their_nanoseconds_after_the_second() {
    let half_before = Time {
        s: -1,
        ns: 500_000_000,
    };
    let given = attributes(&attr(0o100_644, half_before), 4096).mtime;
    assert_eq!(given, SystemTime::UNIX_EPOCH - Duration::from_millis(500));
    // What fuser makes of the kernel's (-1, 500,000,000).
    let asked = SystemTime::UNIX_EPOCH - Duration::new(1, 500_000_000);
    assert_eq!(requested_time(asked), half_before);
}

#[test]
fn the_earliest_and_the_latest_time_are_kept() {
    let latest = Time {
        s: i64::MAX,
        ns: 999_999_999,
    };
    let earliest = Time { s: i64::MIN, ns: 0 };
    for time in [latest, earliest] {
        let given = attributes(&attr(0o100_644, time), 4096).mtime;
        assert_eq!(requested_time(given), time);
    }
}

#[test]
fn blocks_are_counted_in_512_bytes() {
    let given = attributes(&attr(0o040_755, Time::default()), 4096);
    assert_eq!((given.blocks, given.blksize), (24, 4096));
    assert_eq!((given.kind, given.perm), (FileType::Directory, 0o755));
}

#[test]
fn each_kind_has_its_number() {
    let kinds = [
        (0o010_000, FileType::NamedPipe),
        (0o020_000, FileType::CharDevice),
        (0o040_000, FileType::Directory),
        (0o060_000, FileType::BlockDevice),
        (0o100_000, FileType::RegularFile),
        (0o120_000, FileType::Symlink),
        (0o140_000, FileType::Socket),
    ];
    for (mode, kind) in kinds {
        assert_eq!(file_type((mode >> 12) as u8), kind, "{mode:o}");
    }
}

#[test]
fn set_group_id_goes_only_where_the_group_may_execute() {
    assert_eq!(without_privilege(0o106_755), 0o100_755);
    assert_eq!(without_privilege(0o106_745), 0o102_745);
    assert_eq!(without_privilege(0o042_755), 0o042_755);
}
