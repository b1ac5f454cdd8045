//! A log that cannot be written or flushed, or whose store has failed: every wait ends, with the first reason.

use super::fixture::{Log, Setup};
use crate::{FlushCause, TrailError};
use tonearm_base::{Lsn, Nanos};
use tonearm_rt::{IoError, JoinHandle, Op};

/// The operation that fails.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fails {
    Write,
    Flush,
    Store,
}

/// What a caller waits for.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Waits {
    Durable,
    Flushed,
    Space,
    /// After another one that waits for space.
    SpaceInTurn,
    Synced,
    Finished,
}

const WAITS: [Waits; 6] = [
    Waits::Durable,
    Waits::Flushed,
    Waits::Space,
    Waits::SpaceInTurn,
    Waits::Synced,
    Waits::Finished,
];

impl Waits {
    fn begin(self, own: &Log, lsn: Lsn) -> JoinHandle<Result<(), TrailError>> {
        let log = own.clone();
        own.rt.spawn(async move {
            match self {
                Self::Durable => log.wait_durable(lsn, FlushCause::Commit).await,
                Self::Flushed => log.wait_flushed(lsn).await,
                Self::Space | Self::SpaceInTurn => log.admit(50, 0, false).await.map(drop),
                Self::Synced => log.sync_written().await,
                Self::Finished => log.finish().await,
            }
        })
    }
}

#[test]
fn a_failure_ends_every_wait_with_its_reason() {
    for fails in [Fails::Write, Fails::Flush, Fails::Store] {
        for waits in WAITS {
            // A write that has failed makes nothing of a flush, and a failed flush nothing of a write.
            let meets = !matches!(
                (fails, waits),
                (Fails::Write | Fails::Store, Waits::Synced) | (Fails::Flush, Waits::Flushed)
            );
            if meets {
                ends(fails, waits);
            }
        }
    }
}

fn ends(fails: Fails, waits: Waits) {
    let mut setup = Setup::new(8, 16);
    let drive = setup.world.clone();
    setup.run(|log| async move {
        let mut lsn = Lsn(0);
        // None is released, and a large commit has no space next to them.
        for version in 0..20 {
            lsn = log.write(1, 1, version).await;
            log.hold(lsn);
            if fails == Fails::Flush {
                // Without FUA: nothing waits for it yet.
                log.wait_flushed(lsn).await.unwrap();
            }
        }
        let operations = match fails {
            Fails::Write => [Op::Write, Op::WriteDurable],
            Fails::Flush => [Op::Flush; 2],
            Fails::Store => [Op::Write, Op::WriteDurable],
        };
        let case = format!("{fails:?}, {waits:?}");
        let mut seen = 0;
        drive.set_fault(move |request| {
            let hits = operations.contains(&request.op) && fails != Fails::Store;
            seen += u64::from(hits);
            // A second failure has another number.
            hits.then_some(IoError {
                errno: if seen == 1 { 5 } else { 110 },
            })
        });
        let other = (waits == Waits::SpaceInTurn).then(|| waits.begin(&log, lsn));
        let waiting = waits.begin(&log, lsn);
        // Somebody asks for the log, whatever the caller waits for.
        let asks = log.clone();
        log.rt
            .spawn(async move { asks.wait_durable(lsn, FlushCause::Commit).await.ok() });
        log.rt.yield_now().await;
        if fails == Fails::Store {
            log.give_up("a home has failed");
            log.give_up("another one");
        }
        log.rt.sleep(Nanos::from_secs(1)).await;
        let ended = waiting
            .take()
            .unwrap_or_else(|| panic!("{case}: it waits for ever"));
        let text = match ended {
            // Everything was written and durable before.
            Ok(()) => panic!("{case}: no failure is reported"),
            Err(error) => error.to_string(),
        };
        let expected = match fails {
            Fails::Store => "a home has failed",
            _ => "os error 5",
        };
        assert!(text.contains(expected), "{case}: {text}");
        if let Some(other) = other {
            assert!(
                other.take().is_some_and(|ended| ended.is_err()),
                "{case}: the first in turn"
            );
        }
        // The failure stays.
        let later = log.wait_durable(lsn + 1, FlushCause::Commit);
        assert!(later.await.is_err(), "{case}");
        log.stop();
    });
}
