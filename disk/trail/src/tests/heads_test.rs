//! The log under heads that are followed: small sectors, uneven tracks, several drives.

use super::fixture::{BLOCK, Log, Setup, change, replayed};
use crate::{LogGeometry, LogTracks, RecoveredCommit};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tonearm_base::{Lsn, Nanos};
use tonearm_format::LogState;
use tonearm_head::{Access, Head, Place, Span, Track, TrackMap};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// The calls that a head has had.
#[derive(Default)]
pub(super) struct Seen {
    pub writes: Vec<Access>,
    pub reads: Vec<Access>,
    offers: Vec<Vec<Span>>,
}

/// The calls, shared with the test.
pub(super) type Shared = Rc<RefCell<Seen>>;

/// A head that answers with random places, or with wrong ones.
struct Scatter {
    state: u64,
    nonsense: bool,
    repositions: bool,
    seen: Rc<RefCell<Seen>>,
}

impl Scatter {
    fn next(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        self.state >> 33
    }
}

impl Head for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn written(&mut self, write: &Access) {
        self.seen.borrow_mut().writes.push(*write);
    }

    fn read(&mut self, read: &Access) -> bool {
        self.seen.borrow_mut().reads.push(*read);
        true
    }

    fn place(&mut self, _now: Nanos, sectors: u32, free: &[Span]) -> Option<Place> {
        self.seen.borrow_mut().offers.push(free.to_vec());
        if self.nonsense {
            let sector = free[0].end + self.next() % 7;
            return self.next().is_multiple_of(2).then_some(Place {
                sector,
                response: None,
            });
        }
        let at = self.next() as usize % free.len();
        let span = free.iter().cycle().skip(at).take(free.len());
        let span = span.clone().find(|span| span.len() >= u64::from(sectors))?;
        let sector = span.start + self.next() % (span.len() - u64::from(sectors) + 1);
        Some(Place {
            sector,
            response: None,
        })
    }

    fn reposition(&mut self, _now: Nanos, track: Span) -> Option<u64> {
        self.repositions.then(|| track.start + 3)
    }

    fn stale_after(&self) -> Option<Nanos> {
        Some(Nanos::from_secs(2))
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

/// Tracks of 60 sectors and of 40, a hole of 5 sectors after each third.
pub(super) fn map(tracks: u64) -> TrackMap {
    let mut first = 2048;
    let tracks = (0..tracks).map(move |index| {
        let sectors = if index % 2 == 0 { 60 } else { 40 };
        let track = Track {
            index,
            first,
            sectors,
            turn_sectors: 60,
            angle: 0,
        };
        first += u64::from(sectors) + if index % 3 == 2 { 5 } else { 0 };
        track
    });
    TrackMap::from_tracks(tracks).unwrap()
}

pub(super) fn geometry(drives: usize, tracks: u64) -> LogGeometry {
    let map = Rc::new(map(tracks / drives as u64));
    LogGeometry {
        sector: 512,
        track_sectors_min: 40,
        members: vec![LogTracks::Physical(map); drives],
        ..LogGeometry::even([5; 16], 1 << 20, tracks, 60, BLOCK)
    }
}

pub(super) fn heads(
    drives: usize,
    nonsense: bool,
    repositions: bool,
) -> (Vec<Box<dyn Head>>, Vec<Shared>) {
    let seen: Vec<Shared> = (0..drives).map(|_| Rc::default()).collect();
    let head = |(index, seen): (usize, &Shared)| {
        Box::new(Scatter {
            state: 7 + index as u64,
            nonsense,
            repositions,
            seen: seen.clone(),
        }) as Box<dyn Head>
    };
    (seen.iter().enumerate().map(head).collect(), seen)
}

pub(super) async fn write(log: &Log, block: u64) -> Lsn {
    let data = log.pool.copy_of(&[block as u8; BLOCK]).share();
    let lsn = log.append(vec![change(block, data)]).await;
    log.hold(lsn);
    log.wait(lsn).await;
    lsn
}

/// A log of `geometry` whose drives have these heads.
pub(super) fn setup(geometry: LogGeometry, heads: Vec<Box<dyn Head>>) -> Setup {
    let images = vec![DiskImage::new(4 << 20); heads.len()];
    let mut setup = Setup::on(geometry, SimWorld::new(SimOptions::default(), images));
    setup.start.heads = heads;
    setup
}

/// Writes `blocks` one by one, each held, and gives the images and what the heads have seen.
fn written(
    drives: usize,
    tracks: u64,
    blocks: u64,
    (nonsense, repositions): (bool, bool),
) -> (Vec<DiskImage>, Vec<Shared>, crate::TrailStats) {
    let (heads, seen) = heads(drives, nonsense, repositions);
    let mut setup = setup(geometry(drives, tracks), heads);
    let stats = setup.run(move |log| async move {
        for block in 1..=blocks {
            write(&log, block).await;
            log.rt.sleep(Nanos::from_millis(5)).await;
        }
        log.stats()
    });
    (setup.world.images(), seen, stats)
}

/// The blocks that a recovery finds, in its order.
fn recovered(images: Vec<DiskImage>, tracks: u64) -> Vec<u64> {
    let geometry = geometry(images.len(), tracks);
    let (commits, _) = replayed(images, &geometry, 1, LogState::default());
    let block = |commit: &RecoveredCommit| {
        let change = &commit.changes[0];
        let data = change.data.as_ref().unwrap();
        assert!(data.iter().all(|byte| *byte == change.block as u8));
        change.block
    };
    commits.iter().map(block).collect()
}

#[test]
fn records_anywhere_on_their_tracks_are_replayed_in_order() {
    for drives in [1, 2] {
        let (images, seen, stats) = written(drives, 64, 60, (false, true));
        assert_eq!(recovered(images, 64), Vec::from_iter(1..=60));
        assert_eq!(stats.durable_writes, 60, "each write has FUA");
        for seen in &seen {
            assert_eq!(seen.borrow().writes.len(), 60 / drives, "drives take turns");
        }
    }
}

#[test]
fn sectors_that_no_track_has_are_never_written() {
    let (_, seen, _) = written(1, 64, 60, (false, false));
    let map = map(64);
    for write in &seen[0].borrow().writes {
        let track = map.find(write.first).unwrap();
        assert!(write.end() < track.end(), "the last sector is a marker's");
    }
}

#[test]
fn the_head_moves_on_when_a_third_of_the_track_is_used() {
    let (_, seen, stats) = written(1, 64, 30, (false, true));
    let map = map(64);
    let seen = seen[0].borrow();
    let mut used = vec![0; 64];
    for write in &seen.writes {
        used[map.find(write.first).unwrap().index as usize] += write.sectors;
    }
    let tracks = used.iter().take_while(|used| **used > 0).count();
    // Two writes of nine sectors pass 30 % of both.
    assert!(
        used[..tracks - 1].iter().all(|used| *used == 18),
        "{used:?}"
    );
    assert_eq!(seen.reads.len() as u64, stats.repositions);
    assert!(seen.reads.len() >= tracks - 1, "{stats:?}");
    let read = |read: &Access| {
        let track = map.find(read.first).unwrap();
        assert_eq!(read.first, track.first + 3, "where the head asked");
        track.index
    };
    let read: Vec<u64> = seen.reads.iter().map(read).collect();
    assert!(
        read.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{read:?}"
    );
}

#[test]
fn only_heads_of_idle_drives_are_measured() {
    let (heads, seen) = heads(2, false, false);
    setup(geometry(2, 64), heads).run(|log| async move {
        let reads = || log.stats().refreshes;
        log.rt.sleep(Nanos::from_secs(11)).await;
        assert!((8..=10).contains(&reads()), "{} reads in 11 s", reads());
        let firsts = seen[1].borrow().reads.clone();
        assert!(firsts.windows(2).all(|pair| pair[0].first != pair[1].first));
        let before = reads();
        for block in 1..=100 {
            write(&log, block).await;
            log.rt.sleep(Nanos::from_millis(100)).await;
        }
        // The drive that does not have the current track may be idle for a while.
        let after = reads() - before;
        assert!(after <= 6, "{after} reads of drives in use");
    });
}

#[test]
fn wrong_answers_of_a_head_lose_nothing() {
    let (images, seen, _) = written(2, 64, 60, (true, false));
    assert_eq!(recovered(images, 64), Vec::from_iter(1..=60));
    let offers = seen.iter().map(|seen| seen.borrow().offers.len());
    assert!(offers.sum::<usize>() >= 60);
}

#[test]
fn search_of_3000_tracks_takes_at_most_14_reads() {
    let tracks = 3000;
    let mut search = crate::Search::new(tracks, 0);
    let mut reads = 0;
    while let Some(track) = search.probe() {
        reads += 1;
        search.feed((track <= 1234).then_some(tonearm_base::RecordSeq(track + 1)));
    }
    assert_eq!(search.result(), Some(1234));
    assert!(reads <= 14, "{reads}");
}

/// Reserved space comes before speed: with nothing released, a reservation must be kept after as many small commits as
/// are admitted next to it, one by one, wherever the head puts them.
#[test]
fn reserved_space_is_kept_whatever_the_head_does() {
    let even = LogTracks::Even { offset: 1 << 20 };
    let lengths = [(1, 41), (2, 41), (1, 33), (2, 33), (1, 25), (1, 28)];
    let shapes = lengths
        .into_iter()
        .flat_map(|shape| (1..80).map(move |blocks| (shape, blocks)));
    for ((drives, length), blocks) in shapes {
        let geometry = LogGeometry {
            sector: 512,
            members: vec![even.clone(); drives],
            ..LogGeometry::even([5; 16], 1 << 20, 24, length, BLOCK)
        };
        if blocks > geometry.commit_blocks_max() {
            continue;
        }
        let (heads, _) = heads(drives, false, true);
        setup(geometry, heads).run(move |log| async move {
            let promise = log.admit(blocks, 1, true).await.unwrap();
            let mut context = Context::from_waker(Waker::noop());
            let mut small = 0;
            loop {
                let mut admitting = Box::pin(log.admit(1, 1, true));
                let Poll::Ready(admission) = admitting.as_mut().poll(&mut context) else {
                    break;
                };
                small += 1;
                let data = log.pool.copy_of(&[small as u8; BLOCK]).share();
                let lsn = log
                    .trail
                    .append(admission.unwrap(), |_| vec![change(small, data)]);
                log.hold(lsn);
                while log.durable() < lsn {
                    log.rt.sleep(Nanos::from_micros(100)).await;
                }
            }
            let data = log.pool.copy_of(&vec![7; BLOCK * blocks as usize]).share();
            let lsn = log.trail.append(promise, |_| vec![change(100, data)]);
            log.hold(lsn);
            log.rt.spawn({
                let log = log.clone();
                async move { log.wait(lsn).await }
            });
            log.rt.sleep(Nanos::from_secs(5)).await;
            let stats = log.stats();
            assert!(
                log.durable() >= lsn,
                "{drives} drives, {blocks} blocks after {small} small commits: {stats:?}"
            );
        });
    }
}
