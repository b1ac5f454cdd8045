//! Sessions and the mount use the same files: what each sees of the other, and which file is open in which way.

use crate::Jobs;
use crate::Place;
use crate::files::{CREATE, content};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tonearm_fs::{Fs, FsError, NewInode, ROOT_INO};
use tonearm_store::files::{FileInfo, Files, FilesErrorKind, Open};
use tonearm_store::{Context, Store, StoreError};

const FILE: NewInode = NewInode {
    mode: 0o100_600,
    uid: 5,
    gid: 6,
    rdev: 0,
};

/// Runs `job` with the file system as the mount has it.
fn on_mount<T, F>(store: &Store, job: impl FnOnce(Fs) -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = Result<T, FsError>> + 'static,
{
    let done = store.run(move |context: Context| async move {
        let fs = context.files.get().await?;
        job(fs).await
    });
    done.unwrap().unwrap()
}

fn names(files: &dyn Files, path: &str) -> Vec<String> {
    let files: Vec<FileInfo> = files.list_all(path).unwrap();
    files.into_iter().map(|file| file.name).collect()
}

#[test]
fn files_of_sessions_and_of_the_mount_are_the_same() {
    let place = Place::new();
    let store = place.open();
    let files = store.files().unwrap();
    assert!(!files.exists("dir/made").unwrap());
    let app = files.open("app.db", CREATE).unwrap();
    files.write(app, None, 0, b"session").unwrap();
    files.close(app);
    let seen = on_mount(&store, async |fs: Fs| {
        let dir = fs
            .make(
                ROOT_INO,
                b"dir",
                NewInode {
                    mode: 0o040_755,
                    ..FILE
                },
            )
            .await?
            .ino;
        let made = fs.make(dir, b"made", FILE).await?.ino;
        fs.write(made, 0, b"mount").await?;
        fs.at(b"/app.db").await
    });
    assert_eq!((seen.inode.size, seen.inode.mode), (7, 0o100_600));
    assert!(
        files.exists("dir/made").unwrap(),
        "a name that was not there is looked up again"
    );
    let made = files.open("/dir//made", Open::default()).unwrap();
    assert_eq!(content(&files, made, None), b"mount");
    files.close(made);
    assert_eq!(names(&files, ""), ["app.db", "dir"]);
    assert_eq!(names(&files, "dir"), ["made"]);
    let info = files.look("dir/made").unwrap();
    assert_eq!(
        (info.mode, info.uid, info.gid, info.size_bytes),
        (0o100_600, 5, 6, 5)
    );
    assert!(files.look("").unwrap().is_dir());
    // A file in a directory belongs to the directory's owner.
    let own = files.open("dir/own", CREATE).unwrap();
    files.close(own);
    assert_eq!(files.look("dir/own").unwrap().uid, 5);
    let missing = files.open("nowhere/file", CREATE).unwrap_err();
    assert_eq!(missing.kind, FilesErrorKind::NotFound);
    assert_eq!(
        files.delete("dir").unwrap_err().kind,
        FilesErrorKind::Failed
    );
    files.make_dir("dir/sub").unwrap();
    assert_eq!(
        files.make_dir("dir/sub").unwrap_err().kind,
        FilesErrorKind::Exists
    );
    files.rename("dir/own", "dir/sub/own").unwrap();
    assert_eq!(names(&files, "dir/sub"), ["own"]);
    for path in ["dir/sub/own", "dir/sub", "dir/made", "dir"] {
        files.delete(path).unwrap();
    }
    assert_eq!(names(&files, ""), ["app.db"]);
    drop(files);
    store.close().unwrap();
}

#[test]
fn a_file_is_open_in_one_way_at_a_time() {
    let place = Place::new();
    let store = place.open();
    let files = store.files().unwrap();
    let open = files.open("app.db", CREATE).unwrap();
    let busy = |fs: Fs| async move {
        let ino = fs.at(b"app.db").await?.ino;
        let (refused, checked) = (fs.open_handle(ino), fs.check_not_busy(ino));
        Ok((
            ino,
            refused.err().map(|error| error.to_string()),
            checked.is_err(),
        ))
    };
    let (ino, refused, checked) = on_mount(&store, busy);
    assert!(refused.unwrap().contains("SQLite's VFS") && checked);
    let other = store.files().unwrap();
    other.open("app.db", Open::default()).unwrap();
    files.close(open);
    assert!(on_mount(&store, busy).2, "another session has it open");
    drop(other);
    on_mount(&store, async move |fs: Fs| fs.open_handle(ino));
    let started = Instant::now();
    let refused = files.open("app.db", Open::default()).unwrap_err();
    assert_eq!(refused.kind, FilesErrorKind::Busy);
    assert!(
        refused
            .text
            .contains("\"app.db\": the file is open on the mount"),
        "{refused}"
    );
    assert!(
        started.elapsed() > Duration::from_millis(300),
        "the kernel tells late that a file is closed"
    );
    on_mount(&store, async move |fs: Fs| {
        fs.close_handle(ino);
        Ok(())
    });
    let open = files.open("app.db", Open::default()).unwrap();
    files.close(open);
    drop(files);
    store.close().unwrap();
}

/// Two units fill the same hole: each has taken a block of its own for it.
#[test]
fn units_that_change_the_blocks_of_one_file_conflict() {
    let place = Place::new();
    let store = place.open();
    let mut make = store.begin().unwrap();
    make.create_file("f").unwrap();
    make.resize("f", 1 << 20).unwrap();
    make.write("f", 0, &[1; 4096]).unwrap();
    make.end().unwrap();
    let (mut one, mut two, mut third) = (
        store.begin().unwrap(),
        store.begin().unwrap(),
        store.begin().unwrap(),
    );
    one.write("f", 8192, &[2; 100]).unwrap();
    two.write("f", 8192, &[3; 100]).unwrap();
    third.write("f", 10, &[4; 10]).unwrap();
    one.end().unwrap();
    for late in [two, third] {
        match late.end() {
            Err(StoreError::Files(error)) => assert_eq!(error.kind, FilesErrorKind::Conflict),
            ended => panic!("{ended:?}"),
        }
    }
    assert_eq!(store.read("f", 8192, 100).unwrap(), [2; 100]);
    let checked =
        store.run(|context: Context| async move { tonearm_fs::check(&context.disk).await });
    assert!(checked.unwrap().unwrap().unwrap().problems.is_empty());
    store.close().unwrap();
}

/// What others cut off does not come back with a unit, whether a block was freed or not.
#[test]
fn a_unit_conflicts_with_a_truncation_of_its_file() {
    let place = Place::new();
    let store = place.open();
    let files = store.files().unwrap();
    let file = files.open("f", CREATE).unwrap();
    let lists = store.lists().unwrap().len();
    // Within a block.
    files.write(file, None, 0, &[1; 100]).unwrap();
    let mut unit = store.begin().unwrap();
    unit.write("f", 50, &[2; 10]).unwrap();
    files.truncate(file, None, 40).unwrap();
    assert!(
        matches!(unit.end(), Err(StoreError::Files(error)) if error.kind == FilesErrorKind::Conflict)
    );
    files.truncate(file, None, 100).unwrap();
    assert_eq!(content(&files, file, None)[40..], [0; 60]);
    // All blocks are a hole, and the list is there still. The truncation takes it away.
    files.truncate(file, None, 4096).unwrap();
    files.zero(file, 0, 4096).unwrap();
    files.truncate(file, None, 8000).unwrap();
    assert_eq!(
        store.lists().unwrap().len(),
        lists,
        "a file without blocks has no list"
    );
    files.write(file, None, 0, &[1; 4096]).unwrap();
    files.zero(file, 0, 4096).unwrap();
    let mut unit = store.begin().unwrap();
    unit.write("f", 0, &[3; 10]).unwrap();
    files.truncate(file, None, 8192).unwrap();
    assert!(unit.end().is_err());
    files.write(file, None, 0, &[4; 10]).unwrap();
    let checked =
        store.run(|context: Context| async move { tonearm_fs::check(&context.disk).await });
    let report = checked.unwrap().unwrap().unwrap();
    assert!(report.problems.is_empty() && report.blocks == 1);
    files.close(file);
    drop(files);
    store.close().unwrap();
}

/// A session may close a file that its unit has changed. The mount can open it then, and loses nothing.
#[test]
fn a_unit_whose_file_is_open_on_the_mount_has_no_effect() {
    let place = Place::new();
    let store = place.open();
    let files = store.files().unwrap();
    let file = files.open("f", CREATE).unwrap();
    files.write(file, None, 0, &[1; 10]).unwrap();
    let unit = files.begin().unwrap();
    files.write(file, Some(unit), 0, &[2; 10]).unwrap();
    files.close(file);
    let ino = on_mount(&store, async |fs: Fs| {
        let ino = fs.at(b"f").await?.ino;
        fs.open_handle(ino)?;
        fs.write(ino, 0, &[3; 10]).await?;
        Ok(ino)
    });
    assert_eq!(
        files.end(unit, false).unwrap_err().kind,
        FilesErrorKind::Busy
    );
    assert_eq!(store.read("f", 0, 10).unwrap(), [3; 10]);
    on_mount(&store, async move |fs: Fs| {
        fs.close_handle(ino);
        Ok(())
    });
    drop(files);
    store.close().unwrap();
}

#[test]
fn a_unit_changes_volumes_lists_and_files_together() {
    let place = Place::new();
    let store = place.open();
    let made = store.run(|context: Context| async move {
        context
            .disk
            .create_volume("main", 1 << 20, [1; 16], 0)
            .await
    });
    made.unwrap().unwrap();
    let mut unit = store.begin().unwrap();
    let list = unit.new_list().unwrap();
    unit.create_file("f").unwrap();
    unit.write("main", 0, b"volume").unwrap();
    unit.write("f", 0, b"file").unwrap();
    let block = unit.new_block(list, None).unwrap();
    assert!(store.size("f").is_err() && store.read("main", 0, 6).unwrap() == [0; 6]);
    unit.end().unwrap();
    assert_eq!(store.read("f", 0, 9).unwrap(), b"file");
    assert_eq!(store.read("main", 0, 6).unwrap(), b"volume");
    assert_eq!(store.list_blocks(list).unwrap(), [block]);
    let mut unit = store.begin().unwrap();
    unit.write("f", 0, b"lost").unwrap();
    unit.write("main", 0, b"lost").unwrap();
    unit.rename("f", "g").unwrap();
    unit.abort();
    assert_eq!(store.read("f", 0, 9).unwrap(), b"file");
    assert_eq!(store.read("main", 0, 6).unwrap(), b"volume");
    store.close().unwrap();
}

#[test]
fn mount_is_notified_of_session_changes() {
    let place = Place::new();
    let store = place.open();
    let files = store.files().unwrap();
    let open = files.open("app.db", CREATE).unwrap();
    let (tell, acknowledged) = channel();
    let ino = on_mount(&store, async move |fs: Fs| {
        fs.watch_sessions(move |news| tell.send((news.files, news.names)).unwrap());
        // What the mount does itself it knows.
        fs.make(ROOT_INO, b"by-mount", FILE).await?;
        Ok(fs.at(b"app.db").await?.ino)
    });
    assert!(acknowledged.try_recv().is_err());
    files.write(open, None, 0, b"x").unwrap();
    assert_eq!(acknowledged.try_recv().unwrap(), (vec![ino], vec![]));
    let unit = files.begin().unwrap();
    files.write(open, Some(unit), 0, b"y").unwrap();
    assert!(acknowledged.try_recv().is_err(), "nothing has changed yet");
    files.end(unit, false).unwrap();
    assert_eq!(acknowledged.try_recv().unwrap().0, [ino]);
    files.rename("app.db", "other").unwrap();
    let (changed, mut names) = acknowledged.try_recv().unwrap();
    assert!(changed.contains(&ROOT_INO) && changed.contains(&ino));
    names.sort();
    let name = |name: &[u8]| (ROOT_INO, name.to_vec());
    assert_eq!(names, [name(b"app.db"), name(b"other")]);
    files.close(open);
    files.delete("other").unwrap();
    assert_eq!(acknowledged.try_recv().unwrap().1, [name(b"other")]);
    drop(files);
    store.close().unwrap();
}
