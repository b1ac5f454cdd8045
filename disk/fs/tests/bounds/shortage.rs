//! No space below the store: what gives up, what waits, and what goes on when there is some.

use crate::{FILE, with_drive};
use tonearm_base::Nanos;
use tonearm_fs::{Fs, FsError, ROOT_INO};
use tonearm_rt::{IoError, Op};

const PATIENCE: Nanos = Nanos::from_millis(50);
const SOON: Nanos = Nanos::from_secs(5);
/// The log lies before it, the blocks of files after it.
const HOME: u64 = 3 << 20;

#[test]
fn a_change_is_not_begun_while_the_log_waits_for_space() {
    with_drive(16 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let file = fs.make(ROOT_INO, b"file", FILE).await.unwrap().ino;
        drive.world.set_fault(|request| {
            let is_log =
                matches!(request.op, Op::Write | Op::WriteDurable) && request.offset < HOME;
            is_log.then_some(IoError::ENOSPC)
        });
        let own = fs.clone();
        let synced = drive.rt.spawn(async move { own.sync(Some(file)).await });
        drive.rt.sleep(SOON).await;
        assert!(fs.disk().engine().log_waits_for_space());
        let begun = drive.rt.now();
        let made = fs.unless_full(PATIENCE, fs.make(ROOT_INO, b"other", FILE));
        assert!(made.await.is_none());
        assert!(drive.rt.now().since(begun) < Nanos::from_secs(1));
        drive.world.clear_fault();
        synced.await.unwrap();
        let found = fs.look_up(ROOT_INO, b"other").await;
        assert!(matches!(found, Err(FsError::NotFound)), "it has no effect");
        let made = fs.unless_full(PATIENCE, fs.make(ROOT_INO, b"other", FILE));
        made.await.unwrap().unwrap();
    });
}

/// Writes to a file until nothing more fits in the log.
async fn fill(fs: &Fs, file: u64) {
    for at in 0.. {
        let written = fs.unless_full(SOON, fs.write(file, at * 4096, &[7; 4096]));
        if written.await.is_none() {
            return;
        }
        let synced = fs.unless_full(SOON, fs.sync(Some(file)));
        synced.await.unwrap().unwrap();
    }
}

#[test]
fn open_does_not_wait_for_the_deletion_of_orphans() {
    with_drive(16 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let mut orphans = Vec::new();
        for number in 0..20u64 {
            let name = format!("{number}").into_bytes();
            let ino = fs.make(ROOT_INO, &name, FILE).await.unwrap().ino;
            fs.write(ino, 0, &[1; 4096]).await.unwrap();
            fs.open_handle(ino).unwrap();
            fs.unlink(ROOT_INO, &name).await.unwrap();
            orphans.push(ino);
        }
        let file = fs.make(ROOT_INO, b"file", FILE).await.unwrap().ino;
        fs.sync(None).await.unwrap();
        drive.world.set_fault(|request| {
            let is_home =
                matches!(request.op, Op::Write | Op::WriteDurable) && request.offset >= HOME;
            is_home.then_some(IoError::ENOSPC)
        });
        fill(&fs, file).await;
        // The next opening of the same disk: the handles of this one are not its own.
        let begun = drive.rt.now();
        let next = Fs::open(fs.disk(), &drive.rt, tonearm_fs::Time::default);
        let next = next.await.unwrap();
        assert!(drive.rt.now().since(begun) < Nanos::from_secs(2));
        assert_eq!(next.orphans_left().len(), 0);
        next.attr(orphans[19]).await.unwrap();
        drive.world.clear_fault();
        drive.rt.sleep(SOON).await;
        for ino in orphans {
            let found = next.attr(ino).await;
            assert!(matches!(found, Err(FsError::NotFound)), "file {ino}");
        }
    });
}
