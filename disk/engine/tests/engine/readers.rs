//! Reads of the data area during write-back: no read meets a write of the same blocks, however long it takes.

#![allow(clippy::unwrap_used)]

use crate::common::{Open, SEGMENTS, bytes, commit, run, slow, store, trims, writes, zeroes};
use tonearm_base::Nanos;
use tonearm_engine::{CommitChange, HomeParams, OpenOptions, Scrub};
use tonearm_rt::{IoError, Op};

/// Blocks that are at home when a read begins.
const BLOCKS: u64 = 12;

/// A change that the write-back writes back during the read: what is committed, and the blocks that change.
#[derive(Clone, Copy, PartialEq, Debug)]
enum During {
    Write,
    Trim,
    Zero,
}

impl During {
    fn of(self, block: u64) -> CommitChange {
        match self {
            Self::Write => writes(block, 1, 3),
            Self::Trim => trims(block, 1),
            Self::Zero => zeroes(block, 1),
        }
    }
}

/// What reads.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Reader {
    /// All blocks at once.
    Whole,
    /// In parts: some blocks between are in memory.
    Parts,
    /// A scrub of the blocks' group.
    Scrub(Scrub),
}

const READERS: [Reader; 4] = [
    Reader::Whole,
    Reader::Parts,
    Reader::Scrub(Scrub::Look),
    Reader::Scrub(Scrub::Repair),
];

/// A read of the home is under way and takes long. Each of its blocks in turn is changed and is written back, after a change of another
/// block, as the first and as the second one of its round. The read returns what was there when it began.
#[test]
fn slow_read_of_the_data_area_sees_no_write_back() {
    for home in [HomeParams::Overwrite, SEGMENTS] {
        let empty = store(home);
        let ((), world) = run(&empty, OpenOptions::default(), async |open: Open| {
            commit(&open.engine, vec![writes(0, BLOCKS as usize, 1)])
                .await
                .unwrap();
            open.engine.close().await.unwrap();
        });
        let filled = world.images();
        for reader in READERS {
            // A scrub reads the group's table, and then its blocks.
            let (moments, blocks): (u64, &[u64]) = match reader {
                Reader::Scrub(_) => (10, &[4]),
                _ => (1, &[0, 4, 6, BLOCKS - 1]),
            };
            for change in [During::Write, During::Trim, During::Zero] {
                for (moment, block) in
                    (0..moments).flat_map(|at| blocks.iter().map(move |b| (at, *b)))
                {
                    for other in [None, Some(200)] {
                        let after = Nanos::from_micros(500 + 5000 * moment);
                        let case =
                            format!("{reader:?}, {change:?} of {block}, {other:?}, {after:?}");
                        run(&filled, OpenOptions::default(), async move |open: Open| {
                            let changed = (other, block);
                            read_during(open, reader, after, change, changed, &case).await;
                        });
                    }
                }
            }
        }
    }
}

async fn read_during(
    open: Open,
    reader: Reader,
    after: Nanos,
    change: During,
    (other, block): (Option<u64>, u64),
    case: &str,
) {
    let Open { world, rt, engine } = open;
    let mut expected = vec![1; BLOCKS as usize];
    if reader == Reader::Parts {
        commit(&engine, vec![writes(5, 1, 2)]).await.unwrap();
        expected[5] = 2;
    }
    // The maps are in memory, so that the read asks the drive for the blocks at once.
    bytes(&engine, 0, BLOCKS).await.unwrap();
    slow(&world, 400);
    let own = engine.clone();
    let reading = rt.spawn(async move {
        if let Reader::Scrub(scrub) = reader {
            let report = own.scrub_group(0, scrub).await.unwrap();
            return report.is_sound().then(Vec::new);
        }
        Some(bytes(&own, 0, BLOCKS).await.unwrap())
    });
    // A request of the read is with the drive.
    rt.sleep(after).await;
    world.heal();
    for changed in other.into_iter().chain([block]) {
        commit(&engine, vec![change.of(changed)]).await.unwrap();
    }
    engine.drain().await.unwrap();
    match (reader, reading.await) {
        (Reader::Scrub(_), found) => assert!(found.is_some(), "{case}: damage is found"),
        (_, found) => assert_eq!(found, Some(expected), "{case}"),
    }
    let mut now = vec![1; BLOCKS as usize];
    if reader == Reader::Parts {
        now[5] = 2;
    }
    now[block as usize] = if change == During::Write { 3 } else { 0 };
    assert_eq!(bytes(&engine, 0, BLOCKS).await.unwrap(), now, "{case}");
    let report = engine.scrub(Scrub::Look, |_, _| true).await.unwrap();
    assert!(report.is_sound(), "{case}: {report:?}");
}

/// Blocks are read in parts, because some of them are in memory. Each request to the drive fails once.
#[test]
fn a_read_of_which_any_part_fails_is_an_error() {
    for home in [HomeParams::Overwrite, SEGMENTS] {
        run(&store(home), OpenOptions::default(), async |open: Open| {
            let Open { world, engine, .. } = open;
            commit(&engine, vec![writes(0, 12, 1)]).await.unwrap();
            engine.drain().await.unwrap();
            for block in [3, 8] {
                commit(&engine, vec![writes(block, 1, 2)]).await.unwrap();
            }
            let expected = [1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1, 1];
            assert_eq!(bytes(&engine, 0, 12).await.unwrap(), expected);
            for nth in 1.. {
                let (mut reads, seen) = (0, std::rc::Rc::new(std::cell::Cell::new(0)));
                let noted = seen.clone();
                world.set_fault(move |request| {
                    reads += u64::from(request.op == Op::Read);
                    noted.set(reads);
                    (request.op == Op::Read && reads == nth).then_some(IoError::EIO)
                });
                let found = bytes(&engine, 0, 12).await;
                world.clear_fault();
                if seen.get() < nth {
                    assert!(nth > 3, "{nth} parts");
                    assert_eq!(found.unwrap(), expected);
                    break;
                }
                assert!(found.is_err(), "read {nth} has failed: {found:?}");
            }
        });
    }
}
