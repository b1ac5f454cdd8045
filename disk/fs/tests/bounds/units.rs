//! Units that use several files or directories: each of them counts, and the first look at each, not only one of them.

use crate::{FILE, with_drive};
use std::collections::BTreeMap;
use tonearm_fs::{Fs, FsError, NewInode, ROOT_INO, Rename, Unit};

const DIRECTORY: NewInode = NewInode {
    mode: 0o040_755,
    ..FILE
};
const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";

async fn make(fs: &Fs, name: &[u8], content: &[u8]) -> u64 {
    let ino = fs.make(ROOT_INO, name, FILE).await.unwrap().ino;
    fs.write(ino, 0, content).await.unwrap();
    ino
}

async fn read(fs: &Fs, ino: u64) -> Result<Vec<u8>, FsError> {
    let mut bytes = Vec::new();
    for piece in fs.read(ino, 0, 100).await? {
        piece.append_to(&mut bytes);
    }
    Ok(bytes)
}

async fn is_conflict(unit: Unit) -> bool {
    matches!(unit.commit().await, Err(FsError::Conflict(_)))
}

#[test]
fn a_unit_conflicts_with_each_file_another_one_wrote() {
    with_drive(16 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let mut files = Vec::new();
        for name in [b"a", b"b", b"c"] {
            files.push(make(&fs, name, OLD).await);
        }
        for (number, file) in files.iter().enumerate() {
            let reader = fs.begin().unwrap();
            read(reader.fs(), *file).await.unwrap();
            make(reader.fs(), b"seen", OLD).await;
            let writer = fs.begin().unwrap();
            for file in &files {
                writer.fs().write(*file, 0, NEW).await.unwrap();
            }
            writer.commit().await.unwrap();
            assert!(is_conflict(reader).await, "file {number}");
        }
    });
}

#[test]
fn a_unit_that_reads_a_changed_file_again_still_conflicts() {
    with_drive(16 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let file = make(&fs, b"file", OLD).await;
        for looks in 0..3 {
            let unit = fs.begin().unwrap();
            read(unit.fs(), file).await.unwrap();
            make(unit.fs(), b"seen", OLD).await;
            fs.write(file, 0, NEW).await.unwrap();
            for _ in 0..looks {
                // It fails, or gives what is there now. Either way the unit has relied on what was there before.
                let _ = read(unit.fs(), file).await;
            }
            assert!(is_conflict(unit).await, "{looks} looks");
        }
    });
}

#[test]
fn units_that_move_several_directories_make_no_cycle() {
    with_drive(16 << 20, async |drive| {
        let fs = drive.open_fs().await;
        // The directories that meet are the first ones of the unit, and then the last ones.
        for (round, names) in [[b"a", b"b", b"x", b"y"], [b"x", b"y", b"a", b"b"]]
            .into_iter()
            .enumerate()
        {
            let top = [b'0' + round as u8];
            let top = fs.make(ROOT_INO, &top, DIRECTORY).await.unwrap().ino;
            let mut dirs = BTreeMap::new();
            for name in names {
                let made = fs.make(top, name, DIRECTORY).await.unwrap();
                dirs.insert(name, made.ino);
            }
            let move_into = async |unit: &Unit, name: &[u8; 1], into: &[u8; 1]| {
                let (from, to) = ((top, &name[..]), (dirs[into], &name[..]));
                unit.fs().rename(from, to, Rename::Replace).await.unwrap();
            };
            let (one, other) = (fs.begin().unwrap(), fs.begin().unwrap());
            move_into(&one, b"a", b"b").await;
            move_into(&other, b"b", b"a").await;
            move_into(&other, b"x", b"y").await;
            one.commit().await.unwrap();
            assert!(is_conflict(other).await, "round {round}");
        }
    });
}
