//! All that programs and the kernel ask of a mount, on a file system of hostile origin. Whatever fails is an error.

use super::{By, Changes, Create, Make, Mount, Operation, Read, When, Write, WriteKind};
use tonearm_fs::{ACL_ACCESS, Allocate, Fs, ROOT_INO, Rename, Seek, SetXattr, Time};
use tonearm_rt::Rt;

/// Most answers to the listing of a directory, and most files and directories.
const ANSWERS_MAX: usize = 4;
const FILES_MAX: usize = 40;
/// The handle on which units are begun, and the first one of files.
const UNIT: u64 = 1;
const FIRST: u64 = 10;
/// A user who is not root.
const USER: (u32, u32) = (7, 7);

type Name = (u64, Vec<u8>);

/// Asks for everything, outside of a unit and in one.
///
/// # Panics
/// When the server has, or does not end.
pub async fn use_all(rt: &Rt, fs: &Fs) {
    let mount = Mount::start(fs, rt);
    let ask = async |by: By, operation| mount.ask(by, operation).await;
    let _ = ask(By::default(), Operation::Space).await;
    let (dirs, files) = walk(&mount).await;
    let dir = Operation::Open {
        ino: ROOT_INO,
        direct: false,
    };
    let on_unit = By {
        handle: UNIT,
        ..By::default()
    };
    let _ = ask(on_unit, dir).await;
    for member in [false, true] {
        let begin = Operation::BeginUnit { processes: None };
        let unit = if member {
            ask(on_unit, begin).await.ok().map(|said| said.number)
        } else {
            None
        };
        for (number, (name, ino)) in files.iter().enumerate() {
            let handle = FIRST + number as u64;
            use_file(&mount, handle, unit, name, *ino).await;
        }
        for dir in &dirs {
            use_names(&mount, unit, *dir).await;
        }
        let _ = ask(on_unit, Operation::Commit { is_notified: false }).await;
    }
    for dir in dirs.into_iter().rev() {
        let listed = Operation::List { dir, after: 0 };
        let said = ask(By::default(), listed).await.unwrap_or_default();
        for (_, _, name) in said.lines {
            let file = Operation::Unlink {
                dir,
                name: name.clone(),
            };
            let _ = ask(By::default(), file).await;
            let _ = ask(By::default(), Operation::RemoveDir { dir, name }).await;
        }
    }
    assert!(mount.end().await, "all is answered");
}

/// The directories, and the other files with a name of each.
async fn walk(mount: &Mount) -> (Vec<u64>, Vec<(Name, u64)>) {
    let (mut dirs, mut files) = (vec![ROOT_INO], Vec::new());
    let mut looked = 0;
    while let Some(dir) = dirs.get(looked).copied() {
        looked += 1;
        let mut after = 0;
        for number in 0..ANSWERS_MAX {
            let list = match number % 2 {
                0 => Operation::ListWithAttrs { dir, after },
                _ => Operation::List { dir, after },
            };
            let said = mount.ask(By::default(), list).await.unwrap_or_default();
            let Some(last) = said.lines.last() else { break };
            after = last.0;
            for (_, ino, name) in said.lines {
                let own = (dir, name.clone());
                let found = mount
                    .ask(By::default(), Operation::LookUp { dir, name })
                    .await;
                let is_dir = found.is_ok_and(|said| {
                    let inode = said.file.map_or(0, |(_, inode)| inode.mode);
                    inode & 0o170_000 == 0o040_000
                });
                let is_own = matches!(&own.1[..], b"." | b"..");
                if is_dir && !is_own && dirs.len() < FILES_MAX {
                    dirs.push(ino);
                } else {
                    files.push((own, ino));
                }
            }
        }
    }
    files.truncate(FILES_MAX);
    (dirs, files)
}

async fn use_file(mount: &Mount, handle: u64, unit: Option<u64>, name: &Name, ino: u64) {
    let direct = true;
    let opened = By {
        handle,
        member: unit,
        ..By::default()
    };
    let by = By {
        handle: 0,
        ..opened
    };
    let user = By { user: USER, ..by };
    let _ = mount.ask(opened, Operation::Open { ino, direct }).await;
    let found = mount.ask(by, Operation::Attr { ino }).await;
    let size = found.map_or(0, |said| said.file.map_or(0, |(_, inode)| inode.size));
    use_content(mount, opened, ino, size).await;
    for ask in [by, user] {
        let names = mount
            .ask(ask, Operation::Xattrs { ino })
            .await
            .unwrap_or_default();
        for name in names.bytes.split(|byte| *byte == 0).take(3) {
            let name = name.to_vec();
            let _ = mount.ask(ask, Operation::Xattr { ino, name }).await;
        }
    }
    use_attributes(mount, user, name, ino, size).await;
    if ino.is_multiple_of(3) {
        let (dir, name) = name.clone();
        let _ = mount.ask(by, Operation::Unlink { dir, name }).await;
    }
    let _ = mount.ask(opened, Operation::Close { ino }).await;
}

async fn use_content(mount: &Mount, opened: By, ino: u64, size: u64) {
    let write = |offset, kind| {
        Operation::Write(Write {
            ino,
            offset,
            data: vec![9; 200],
            kill_suid: true,
            durable: offset == 0,
            append: offset > 0,
            kind,
        })
    };
    let read = |offset, len, cached| {
        Operation::Read(Read {
            ino,
            offset,
            len,
            cached,
        })
    };
    let allocate = |how| Operation::Allocate {
        ino,
        offset: 3000,
        len: 20_000,
        how,
    };
    let seek = |what| Operation::Seek {
        ino,
        offset: size / 2,
        what,
    };
    let content = [
        read(0, 1 << 20, true),
        read(size.saturating_sub(100), 200, false),
        seek(Seek::Data),
        seek(Seek::Hole),
        write(0, WriteKind::Direct),
        write(4000, WriteKind::Mapped),
        write(size, WriteKind::Buffered),
        allocate(Allocate::Punch),
        allocate(Allocate::Zero),
        allocate(Allocate::KeepSize),
        allocate(Allocate::Grow),
        Operation::Copy {
            from: (ino, 100),
            from_handle: opened.handle,
            to: (ino, size),
            len: 5000,
        },
        Operation::Sync { ino },
    ];
    for operation in content {
        let _ = mount.ask(opened, operation).await;
    }
}

async fn use_attributes(mount: &Mount, user: By, name: &Name, ino: u64, size: u64) {
    let set = |size: Option<u64>| Changes {
        mode: Some(0o104_755).filter(|_| size.is_none()),
        uid: Some(7),
        size,
        atime: Some(When::At(Time { s: i64::MIN, ns: 1 })),
        mtime: Some(When::Now),
        ..Changes::default()
    };
    let set_xattr = |name: &[u8], value: &[u8]| Operation::SetXattr {
        ino,
        name: name.to_vec(),
        value: value.to_vec(),
        how: SetXattr::Any,
    };
    let remove = |name: &[u8]| Operation::RemoveXattr {
        ino,
        name: name.to_vec(),
    };
    let (dir, name) = name.clone();
    let attributes = [
        Operation::ReadLink { ino },
        set_xattr(b"new", &[7; 40]),
        set_xattr(ACL_ACCESS, &[2, 0, 0, 0]),
        remove(b"new"),
        remove(b"xa"),
        remove(ACL_ACCESS),
        Operation::SetAttr {
            ino,
            changes: set(None),
        },
        Operation::SetAttr {
            ino,
            changes: set(Some(size / 2)),
        },
        Operation::SetAttr {
            ino,
            changes: Changes::default(),
        },
        Operation::Link {
            ino,
            dir: ROOT_INO,
            name: format!("link {ino}").into(),
        },
        Operation::LookUp { dir, name },
        Operation::LookUp {
            dir: ino,
            name: b".".to_vec(),
        },
    ];
    for operation in attributes {
        let _ = mount.ask(user, operation).await;
    }
}

async fn use_names(mount: &Mount, member: Option<u64>, dir: u64) {
    let by = By {
        member,
        ..By::default()
    };
    let make = |name: &[u8], mode| {
        Operation::Make(Make {
            dir,
            name: name.to_vec(),
            mode,
            umask: 0o22,
            rdev: 0,
        })
    };
    let rename = |from: (u64, &[u8]), to: (u64, &[u8]), how| {
        let owned = |(dir, name): (u64, &[u8])| (dir, name.to_vec());
        Operation::Rename {
            from: owned(from),
            to: owned(to),
            how,
        }
    };
    let moved = format!("moved {dir}");
    let whiteout = Rename::Whiteout { uid: 7, gid: 7 };
    let names = [
        make(b"made", 0o100_644),
        make(b"directory", 0o040_755),
        Operation::MakeLink {
            dir,
            name: b"to".to_vec(),
            target: vec![b't'; 1200],
        },
        rename(
            (dir, b"directory"),
            (ROOT_INO, moved.as_bytes()),
            Rename::Replace,
        ),
        rename((ROOT_INO, b"c"), (dir, b"made"), Rename::Exchange),
        rename((ROOT_INO, b"c"), (dir, b"c"), Rename::NoReplace),
        rename((dir, b"to"), (dir, b"there"), whiteout),
        Operation::Sync { ino: dir },
    ];
    for operation in names {
        let _ = mount.ask(by, operation).await;
    }
    let create = Operation::Create(Create {
        dir,
        name: b"created".to_vec(),
        mode: 0o100_600,
        umask: 0,
        exclusive: false,
        direct: false,
    });
    let opened = By { handle: 2, ..by };
    if let Ok(said) = mount.ask(opened, create).await {
        let ino = said.ino();
        let _ = mount.ask(opened, Operation::Close { ino }).await;
    }
}
