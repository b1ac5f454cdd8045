//! Files of an open store.

use crate::Place;
use tonearm_store::Lsn;
use tonearm_store::files::{AruId, FileId, Files, FilesErrorKind, Level, Open};

pub const CREATE: Open = Open {
    create: true,
    exclusive: false,
};

pub fn content(files: &dyn Files, file: FileId, aru: Option<AruId>) -> Vec<u8> {
    let mut buf = vec![0; files.size(file, aru).unwrap() as usize + 100];
    let read = files.read(file, aru, 0, &mut buf).unwrap();
    buf.truncate(read);
    buf
}

/// Checks the promises of every implementation, over two sessions with one store.
pub fn check(one: &dyn Files, two: &dyn Files) {
    names(one, two);
    units(one, two);
    bytes(one, two);
    locks(one, two);
    marks(one, two);
    errors(one);
}

/// The marks of commits, and waits for them.
fn marks(one: &dyn Files, two: &dyn Files) {
    let file = one.open("marks", CREATE).unwrap();
    let empty = one.begin().unwrap();
    assert_eq!(one.end(empty, false).unwrap(), Lsn(0), "no changes, no LSN");
    let before = one.marks().unwrap().appended;
    let mut last = before;
    for round in 0..5u64 {
        let unit = one.begin().unwrap();
        one.write(file, Some(unit), round, b"x").unwrap();
        let lsn = one.end(unit, false).unwrap();
        assert_eq!(lsn, last + 1);
        last = lsn;
        let marks = two.marks().unwrap();
        assert_eq!(marks.appended, last);
        assert!(marks.appended >= marks.flushed && marks.flushed >= marks.durable);
    }
    two.wait_durable(last).unwrap();
    assert_eq!(one.marks().unwrap().durable, last);
    two.wait_durable(before).unwrap();
    let error = two.wait_durable(last + 1).unwrap_err();
    let text = format!(
        "there is no commit {} yet: the last one is {last}",
        last + 1
    );
    assert_eq!((error.kind, error.text), (FilesErrorKind::Failed, text));
    let unit = two.begin().unwrap();
    let other = two.open("marks", Open::default()).unwrap();
    two.write(other, Some(unit), 0, b"y").unwrap();
    let lsn = two.end(unit, true).unwrap();
    assert_eq!(one.marks().unwrap().durable, lsn);
    one.close(file);
    two.close(other);
    one.delete("marks").unwrap();
}

/// Two sessions write parts of the same blocks at a time, in units and without: none loses what the other one wrote.
fn bytes(one: &dyn Files, two: &dyn Files) {
    const BLOCKS: usize = 100;
    let all = one.open("bytes", CREATE).unwrap();
    one.write(all, None, 0, &vec![7; BLOCKS * 4096]).unwrap();
    let write = |files: &dyn Files, at: usize, byte: u8, in_unit: bool| {
        let file = files.open("bytes", Open::default()).unwrap();
        for block in 0..BLOCKS {
            let unit = in_unit.then(|| files.begin().unwrap());
            let offset = (block * 4096 + at) as u64;
            files.write(file, unit, offset, &[byte; 100]).unwrap();
            if let Some(unit) = unit {
                files.end(unit, false).unwrap();
            }
        }
        files.close(file);
    };
    for (round, units) in [(true, true), (true, false), (false, false)]
        .into_iter()
        .enumerate()
    {
        let byte = round as u8 * 2;
        std::thread::scope(|scope| {
            scope.spawn(|| write(two, 2000, byte + 1, units.1));
            write(one, 0, byte, units.0);
        });
        let found = content(one, all, None);
        for block in found.chunks(4096) {
            assert_eq!(block[..100], [byte; 100]);
            assert_eq!(block[2000..2100], [byte + 1; 100]);
            assert_eq!((block[100], block[1999], block[2100]), (7, 7, 7));
        }
    }
    one.close(all);
    one.delete("bytes").unwrap();
}

fn names(one: &dyn Files, two: &dyn Files) {
    assert_eq!(
        one.open("a", Open::default()).unwrap_err().kind,
        FilesErrorKind::NotFound
    );
    let a = one.open("a", CREATE).unwrap();
    let exclusive = Open {
        create: true,
        exclusive: true,
    };
    assert_eq!(
        two.open("a", exclusive).unwrap_err().kind,
        FilesErrorKind::Exists
    );
    assert!(two.exists("a").unwrap() && !two.exists("b").unwrap());
    one.write(a, None, 5, b"tail").unwrap();
    let infos = two.list_all("").unwrap();
    assert_eq!(
        (infos.len(), infos[0].name.as_str(), infos[0].size_bytes),
        (1, "a", 9)
    );
    two.rename("a", "b").unwrap();
    assert_eq!(
        content(one, a, None),
        b"\0\0\0\0\0tail",
        "a handle stays on its file"
    );
    one.open("a", exclusive).unwrap();
    assert_eq!(
        two.rename("a", "b").unwrap_err().kind,
        FilesErrorKind::Exists
    );
    two.delete("b").unwrap();
    assert!(!one.exists("b").unwrap());
    assert_eq!(
        content(one, a, None),
        b"\0\0\0\0\0tail",
        "a handle keeps its file"
    );
    assert_eq!(two.delete("b").unwrap_err().kind, FilesErrorKind::NotFound);
    one.close(a);
    one.delete("a").unwrap();
    assert_eq!(one.list_all("").unwrap(), []);
}

fn units(one: &dyn Files, two: &dyn Files) {
    let (x, y) = (
        one.open("x", CREATE).unwrap(),
        one.open("y", CREATE).unwrap(),
    );
    let (x2, y2) = (
        two.open("x", CREATE).unwrap(),
        two.open("y", CREATE).unwrap(),
    );
    let unit = one.begin().unwrap();
    one.write(x, Some(unit), 0, &[1; 5000]).unwrap();
    one.write(y, Some(unit), 4090, b"across").unwrap();
    one.write(x, Some(unit), 10, b"more").unwrap();
    one.truncate(x, Some(unit), 4100).unwrap();
    assert_eq!(
        (two.size(x2, None).unwrap(), two.size(y2, None).unwrap()),
        (0, 0)
    );
    let mut expected = vec![1; 4100];
    expected[10..14].copy_from_slice(b"more");
    assert_eq!(content(one, x, Some(unit)), expected);
    one.end(unit, true).unwrap();
    assert_eq!(content(two, x2, None), expected);
    assert_eq!(&content(two, y2, None)[4090..], b"across");
    let unit = one.begin().unwrap();
    one.write(x, Some(unit), 0, b"gone").unwrap();
    one.abort(unit);
    assert_eq!(content(one, x, None), expected);
    // More than any message holds, by a unit and without.
    let long: Vec<u8> = (0..5 << 20).map(|at: u32| (at % 251) as u8).collect();
    two.write(x2, None, 3, &long).unwrap();
    assert!(content(one, x, None)[3..] == long);
    let unit = two.begin().unwrap();
    two.write(y2, Some(unit), 0, &long).unwrap();
    two.end(unit, false).unwrap();
    assert!(content(one, y, None) == long);
    two.flush().unwrap();
    for name in ["x", "y"] {
        one.delete(name).unwrap();
    }
}

fn locks(one: &dyn Files, two: &dyn Files) {
    let (a, b) = (
        one.open("l", CREATE).unwrap(),
        two.open("l", CREATE).unwrap(),
    );
    assert!(one.lock(a, Level::Shared).unwrap() && two.lock(b, Level::Shared).unwrap());
    assert!(one.lock(a, Level::Reserved).unwrap() && !two.lock(b, Level::Reserved).unwrap());
    assert!(two.reserved(b).unwrap());
    assert!(!one.lock(a, Level::Exclusive).unwrap());
    let third = two.open("l", CREATE).unwrap();
    assert!(!two.lock(third, Level::Shared).unwrap(), "pending");
    two.unlock(b, Level::None).unwrap();
    assert!(one.lock(a, Level::Exclusive).unwrap() && !two.lock(b, Level::Shared).unwrap());
    one.close(a);
    assert!(two.lock(b, Level::Shared).unwrap() && !two.reserved(b).unwrap());
    two.close(b);
    two.close(third);
    one.delete("l").unwrap();
}

fn errors(one: &dyn Files) {
    let e = one.open("e", CREATE).unwrap();
    let kind = |result: Result<(), _>| {
        let error: tonearm_store::files::FilesError = result.unwrap_err();
        error.kind
    };
    assert_eq!(
        kind(one.write(e, None, 0, &vec![1; 200 << 20])),
        FilesErrorKind::NoSpace
    );
    assert_eq!(one.size(e, None).unwrap(), 0);
    assert_eq!(
        kind(one.write(FileId(999), None, 0, b"x")),
        FilesErrorKind::Failed
    );
    assert_eq!(
        kind(one.lock(e, Level::Reserved).map(|_| ())),
        FilesErrorKind::Failed
    );
    assert_eq!(
        kind(one.open("", CREATE).map(|_| ())),
        FilesErrorKind::Failed
    );
    assert_eq!(
        kind(one.open(&"n".repeat(300), CREATE).map(|_| ())),
        FilesErrorKind::Failed
    );
    // A file that is closed in the middle of a unit.
    let closed = one.open("closed", CREATE).unwrap();
    let unit = one.begin().unwrap();
    one.write(closed, Some(unit), 0, b"kept").unwrap();
    one.close(closed);
    one.end(unit, false).unwrap();
    let closed = one.open("closed", Open::default()).unwrap();
    let mut four = [0; 4];
    assert_eq!(one.read(closed, None, 0, &mut four).unwrap(), 4);
    assert_eq!(&four, b"kept");
    one.close(closed);
    one.delete("closed").unwrap();
    // A file that is deleted in the middle of a unit.
    let unit = one.begin().unwrap();
    one.write(e, Some(unit), 0, b"lost").unwrap();
    one.delete("e").unwrap();
    assert_eq!(
        kind(one.end(unit, false).map(|_| ())),
        FilesErrorKind::Conflict
    );
    one.close(e);
    one.abort(unit);
}

#[test]
fn local_files_keep_the_rules() {
    let place = Place::new();
    let store = place.open();
    check(&store.files().unwrap(), &store.files().unwrap());
    store.close().unwrap();
}

#[test]
fn the_end_of_a_session_aborts_and_unlocks() {
    let place = Place::new();
    let store = place.open();
    let (one, two) = (store.files().unwrap(), store.files().unwrap());
    let (a, b) = (
        one.open("f", CREATE).unwrap(),
        two.open("f", CREATE).unwrap(),
    );
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        assert!(one.lock(a, level).unwrap());
    }
    let unit = one.begin().unwrap();
    one.write(a, Some(unit), 0, b"gone").unwrap();
    assert!(!two.lock(b, Level::Shared).unwrap());
    drop(one);
    assert!(two.lock(b, Level::Shared).unwrap());
    assert_eq!(two.size(b, None).unwrap(), 0);
    store.close().unwrap();
    assert_eq!(two.size(b, None).unwrap_err().kind, FilesErrorKind::Failed);
    assert_eq!(
        two.flush().unwrap_err().text,
        "the store has been closed; open it again"
    );
}

/// A unit is refused its first file while 1024 others use files, and has it when one of those has ended.
#[test]
fn a_unit_that_is_refused_at_the_limit_goes_on() {
    let place = Place::new();
    let store = place.open();
    let sessions: Vec<_> = (0..4).map(|_| store.files().unwrap()).collect();
    let late = store.files().unwrap();
    let file = late.open("f", CREATE).unwrap();
    let mut open = Vec::new();
    for session in &sessions {
        let file = session.open("f", Open::default()).unwrap();
        for _ in 0..256 {
            let unit = session.begin().unwrap();
            session.size(file, Some(unit)).unwrap();
            open.push((session, unit));
        }
    }
    let unit = late.begin().unwrap();
    for _ in 0..2 {
        let refused = late.size(file, Some(unit)).unwrap_err();
        assert_eq!(refused.text, "there are 1024 open units; end some");
    }
    let (session, ended) = open.remove(0);
    session.abort(ended);
    late.write(file, Some(unit), 0, b"late").unwrap();
    late.end(unit, false).unwrap();
    assert_eq!(content(&late, file, None), b"late");
    drop(sessions);
    store.close().unwrap();
}

#[test]
fn a_kept_write_that_fails_fails_the_end_of_its_unit() {
    let place = Place::new();
    let store = place.open();
    let files = store.files().unwrap();
    let (gone, kept) = (
        files.open("gone", CREATE).unwrap(),
        files.open("kept", CREATE).unwrap(),
    );
    let unit = files.begin().unwrap();
    files.write(kept, Some(unit), 0, b"half").unwrap();
    // Beyond any file: found out when the engine learns of it.
    files.write(gone, Some(unit), u64::MAX - 2, b"far").unwrap();
    let late = files.size(kept, Some(unit)).unwrap_err();
    // The unit has failed for all later requests.
    assert_eq!(files.write(kept, Some(unit), 0, b"more").unwrap_err(), late);
    assert_eq!(files.end(unit, false).unwrap_err(), late);
    assert_eq!(files.size(kept, None).unwrap(), 0, "nothing of it is there");
    store.close().unwrap();
}
