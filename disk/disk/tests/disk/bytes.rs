//! Volumes are interfaces of bytes: a write to a part of a block keeps what other writers put into the rest
//! of it.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, begun, bytes, store, with, with_rt};
use proptest::prelude::*;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Aru, Disk, DiskError, ErrorKind, OpenOptions, Volume};
use tonearm_world::SimOptions;

const B: u64 = BLOCK as u64;

fn small_memory() -> OpenOptions {
    OpenOptions {
        memory_bytes: 64 << 10,
        ..OpenOptions::default()
    }
}

/// A file of `blocks` blocks of sevens; none of it is in memory.
async fn cold_file(disk: &Disk, blocks: u64) -> Volume {
    let mut aru = disk.begin();
    let file = aru.create_volume("f", blocks * B, [1; 16], 1);
    let file = file.await.unwrap();
    aru.write(&file, 0, &vec![7; (blocks * B) as usize])
        .await
        .unwrap();
    aru.end().await.unwrap();
    disk.engine().drain().await.unwrap();
    file
}

async fn read_all(volume: &Volume) -> Vec<u8> {
    bytes(volume.read(0, volume.size_bytes()).await.unwrap())
}

async fn volume_write(volume: &Volume, offset: u64, data: &[u8]) -> Result<(), DiskError> {
    let mut data = BufPool::new(0).copy_of(data);
    // As if its memory were paid for: it waits for none.
    data.attach(Rc::new(()));
    volume.write(offset, data.share(), false).await
}

type Work = Pin<Box<dyn Future<Output = Result<(), DiskError>>>>;

/// A writer of bytes of one block.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Writer {
    /// A unit.
    Unit,
    /// A unit that has no room for the block in memory.
    LargeUnit,
    /// A write of one call, as of `Files` and `Store`.
    Plain,
    /// A write as of NBD.
    Volume,
    /// A zeroing as of NBD.
    Zeroes,
}

const WRITERS: [Writer; 5] = [
    Writer::Unit,
    Writer::LargeUnit,
    Writer::Plain,
    Writer::Volume,
    Writer::Zeroes,
];

impl Writer {
    /// Writes `range`; gives the byte that is there then.
    fn start(self, disk: &Disk, file: &Volume, range: Range<u64>) -> (Work, u8) {
        let (disk, file) = (disk.clone(), file.clone());
        let (offset, len) = (range.start, range.end - range.start);
        let byte = range.start as u8 | 1;
        let data = vec![byte; len as usize];
        let work: Work = match self {
            Writer::Unit => Box::pin(async move {
                let mut aru = disk.begin();
                aru.write(&file, offset, &data).await?;
                // What others do meanwhile comes between the write and the end.
                file.read(2 * B, B).await?;
                aru.end().await.map(drop)
            }),
            Writer::LargeUnit => Box::pin(async move {
                let mut aru = disk.begin();
                aru.write(&file, offset, &data).await?;
                let name = format!("large{offset}");
                let rest = aru.create_volume(&name, 8 * B, [2; 16], 1).await?;
                aru.write(&rest, 0, &[3; 8 * BLOCK]).await?;
                assert_eq!(aru.spilled_blocks(), 9, "the block of f, too");
                file.read(2 * B, B).await?;
                aru.end().await.map(drop)
            }),
            Writer::Plain => {
                Box::pin(async move { disk.write(&file, offset, &data).await.map(drop) })
            }
            Writer::Volume => Box::pin(async move { volume_write(&file, offset, &data).await }),
            Writer::Zeroes => {
                let zero = async move { file.write_zeroes(offset, len, false, false).await };
                return (Box::pin(zero), 0);
            }
        };
        (work, byte)
    }
}

async fn poll_once(work: &mut Work) -> Option<Result<(), DiskError>> {
    poll_fn(|context| {
        Poll::Ready(match work.as_mut().poll(context) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}

/// Every kind of writer against every other, over one cold block, by turns of the device's calls: the first one goes
/// `ahead` turns before the second one begins.
#[test]
fn two_writers_of_one_block_keep_each_others_bytes() {
    for (index, first) in WRITERS.into_iter().enumerate() {
        for second in WRITERS {
            for ahead in 0..12 {
                let (_, closed) = with_rt(
                    &store(8 << 20),
                    small_memory(),
                    SimOptions::default(),
                    async move |rt, disk| {
                        let file = cold_file(&disk, 3).await;
                        let (mut a, in_a) = first.start(&disk, &file, B..B + 100);
                        let (mut b, in_b) = second.start(&disk, &file, B + 2000..B + 2100);
                        let (mut left_a, mut left_b) = (true, true);
                        let mut turn = 0;
                        while left_a || left_b {
                            if left_a && let Some(done) = poll_once(&mut a).await {
                                done.unwrap();
                                left_a = false;
                            }
                            if left_b
                                && turn >= ahead
                                && let Some(done) = poll_once(&mut b).await
                            {
                                done.unwrap();
                                left_b = false;
                            }
                            turn += 1;
                            rt.sleep(Nanos::from_micros(20)).await;
                        }
                        let mut expected = vec![7; 3 * BLOCK];
                        expected[BLOCK..BLOCK + 100].fill(in_a);
                        expected[BLOCK + 2000..BLOCK + 2100].fill(in_b);
                        let found = read_all(&file).await;
                        assert!(found == expected, "{first:?}, {second:?}, {ahead} ahead");
                    },
                );
                if index == 0 && ahead == 0 {
                    with(&closed, OpenOptions::default(), async |disk| {
                        let found = read_all(&disk.volume("f").unwrap()).await;
                        assert!(found[BLOCK + 101] == 7 && found[BLOCK] != 7);
                    });
                }
            }
        }
    }
}

/// A unit over two volumes, beside a writer of one of them: either one. Its end is a change of both.
#[test]
fn a_unit_over_two_volumes_keeps_others_bytes_in_both() {
    for (writer, index) in WRITERS.into_iter().flat_map(|w| [(w, 0), (w, 1)]) {
        for ahead in 0..12 {
            with_rt(
                &store(8 << 20),
                small_memory(),
                SimOptions::default(),
                async move |rt, disk| {
                    let mut aru = disk.begin();
                    let mut files = Vec::new();
                    for name in ["f", "g"] {
                        let file = aru.create_volume(name, 3 * B, [1; 16], 1).await.unwrap();
                        aru.write(&file, 0, &[7; 3 * BLOCK]).await.unwrap();
                        files.push(file);
                    }
                    aru.end().await.unwrap();
                    disk.engine().drain().await.unwrap();
                    let (mut work, byte) = writer.start(&disk, &files[index], B..B + 100);
                    let mut done = None;
                    for _ in 0..ahead {
                        if done.is_none() {
                            done = poll_once(&mut work).await;
                        }
                        rt.sleep(Nanos::from_micros(20)).await;
                    }
                    let mut aru = disk.begin();
                    for file in &files {
                        aru.write(file, B + 2000, &[9; 100]).await.unwrap();
                    }
                    aru.end().await.unwrap();
                    match done {
                        Some(done) => done.unwrap(),
                        None => work.await.unwrap(),
                    }
                    for (at, file) in files.iter().enumerate() {
                        let mut expected = vec![7; 3 * BLOCK];
                        expected[BLOCK + 2000..BLOCK + 2100].fill(9);
                        if at == index {
                            expected[BLOCK..BLOCK + 100].fill(byte);
                        }
                        let found = read_all(file).await;
                        assert!(found == expected, "{writer:?} of {index}, {ahead} ahead");
                    }
                },
            );
        }
    }
}

#[test]
fn a_unit_sees_its_own_bytes_over_what_others_commit() {
    for options in [OpenOptions::default(), small_memory()] {
        with(&store(8 << 20), options, async |disk| {
            let file = cold_file(&disk, 20).await;
            let mut aru = disk.begin();
            for block in 0..12 {
                aru.write(&file, block * B + 10, b"own").await.unwrap();
            }
            disk.write(&file, 0, &vec![b'x'; 12 * BLOCK]).await.unwrap();
            let mut expected = vec![b'x'; BLOCK];
            expected[10..13].copy_from_slice(b"own");
            for block in 0..12 {
                let seen = bytes(aru.read(&file, block * B, B).await.unwrap());
                assert!(seen == expected, "block {block}");
            }
            aru.write(&file, 13, b" more").await.unwrap();
            expected[13..18].copy_from_slice(b" more");
            assert!(bytes(aru.read(&file, 0, B).await.unwrap()) == expected);
            aru.end().await.unwrap();
            assert!(read_all(&file).await[..BLOCK] == expected);
            assert_eq!(disk.shadow_bytes(), 0);
        });
    }
}

#[test]
fn two_units_in_a_block_that_is_new_keep_each_others_bytes() {
    with(&store(8 << 20), OpenOptions::default(), async |disk| {
        let file = cold_file(&disk, 1).await;
        disk.resize(&file, 2 * B).await.unwrap();
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.write(&file, B + 100, b"a").await.unwrap();
        b.write(&file, B + 50, b"b").await.unwrap();
        a.end().await.unwrap();
        b.end().await.unwrap();
        let mut expected = vec![0; BLOCK];
        (expected[50], expected[100]) = (b'b', b'a');
        assert_eq!(read_all(&file).await[BLOCK..], expected);
    });
}

#[test]
fn truncation_keeps_what_others_write_before_the_new_end() {
    with(&store(8 << 20), OpenOptions::default(), async |disk| {
        let file = cold_file(&disk, 3).await;
        let mut aru = disk.begin();
        aru.resize(&file, B + 90).await.unwrap();
        disk.write(&file, B + 80, &[1; 20]).await.unwrap();
        volume_write(&file, B + 10, &[2; 20]).await.unwrap();
        aru.end().await.unwrap();
        disk.resize(&file, 2 * B).await.unwrap();
        let mut expected = vec![7; 2 * BLOCK];
        expected[BLOCK + 10..BLOCK + 30].fill(2);
        expected[BLOCK + 80..BLOCK + 90].fill(1);
        expected[BLOCK + 90..].fill(0);
        assert!(read_all(&file).await == expected);
    });
}

/// The unit reads the rest of its blocks before it waits.
#[test]
fn commit_waiting_for_memory_keeps_others_writes() {
    for options in [OpenOptions::default(), small_memory()] {
        with(&store(8 << 20), options, async |disk| {
            let file = cold_file(&disk, 12).await;
            let mut aru = disk.begin();
            for block in 0..12 {
                aru.write(&file, block * B + 10, b"own").await.unwrap();
            }
            let engine = disk.engine();
            let all_memory = engine.reserve(engine.options().memory_bytes).await.unwrap();
            let mut end = Box::pin(aru.end());
            begun(&mut end).await;
            for block in 0..12 {
                let written = volume_write(&file, block * B + 100, b"other").await;
                written.unwrap();
            }
            begun(&mut end).await;
            drop(all_memory);
            end.await.unwrap();
            let mut expected = vec![7; BLOCK];
            expected[10..13].copy_from_slice(b"own");
            expected[100..105].copy_from_slice(b"other");
            let found = read_all(&file).await;
            assert!(found.chunks(BLOCK).all(|block| block == expected));
        });
    }
}

/// The unit conflicts, a call of its own does not: it comes after the truncation.
#[test]
fn plain_write_after_concurrent_truncation_is_no_conflict() {
    for size in [100, 2 * B + 50] {
        with(&store(8 << 20), OpenOptions::default(), async move |disk| {
            let file = cold_file(&disk, 3).await;
            let (mut write, _) = Writer::Plain.start(&disk, &file, 2 * B + 10..2 * B + 20);
            begun(&mut write).await;
            disk.resize(&file, size).await.unwrap();
            let written = write.await;
            let mut expected = vec![7; size as usize];
            if size > 2 * B {
                written.unwrap();
                expected[2 * BLOCK + 10..2 * BLOCK + 20].fill(11);
            } else {
                assert_eq!(written.unwrap_err().kind(), ErrorKind::OutOfRange);
            }
            assert!(read_all(&file).await == expected);
        });
    }
}

/// Zeroes over whole blocks, of which some edge is a part of a block, beside each kind of writer of the rest of that block.
#[test]
fn zeroes_over_whole_blocks_keep_others_bytes_at_their_edges() {
    for first in WRITERS {
        for (start, end, others) in [
            (B, 2 * B + 100, 2 * B + 2000),
            (B - 100, 2 * B, 100),
            (B + 1, 3 * B - 1, B),
        ] {
            for ahead in [0, 1, 3, 5, 8] {
                let options = small_memory();
                let sim = SimOptions::default();
                with_rt(&store(8 << 20), options, sim, async move |rt, disk| {
                    let file = cold_file(&disk, 4).await;
                    let len = if others == B { 1 } else { 100 };
                    let (mut a, in_a) = first.start(&disk, &file, others..others + len);
                    let zeroed = file.clone();
                    let mut b: Work = Box::pin(async move {
                        zeroed.write_zeroes(start, end - start, false, false).await
                    });
                    let (mut left_a, mut left_b, mut turn) = (true, true, 0);
                    while left_a || left_b {
                        if left_b && let Some(done) = poll_once(&mut b).await {
                            done.unwrap();
                            left_b = false;
                        }
                        if left_a
                            && turn >= ahead
                            && let Some(done) = poll_once(&mut a).await
                        {
                            done.unwrap();
                            left_a = false;
                        }
                        turn += 1;
                        rt.sleep(Nanos::from_micros(20)).await;
                    }
                    let mut expected = vec![7; 4 * BLOCK];
                    expected[start as usize..end as usize].fill(0);
                    expected[others as usize..(others + len) as usize].fill(in_a);
                    let found = read_all(&file).await;
                    assert!(found == expected, "{first:?}, {start}, {ahead} turns later");
                });
            }
        }
    }
}

/// Zeroes up to the end of a file take its last block as a whole, as long as that is the end.
#[test]
fn zeroes_to_the_end_keep_what_others_append_meanwhile() {
    for whole_start in [false, true] {
        with(&store(8 << 20), OpenOptions::default(), async move |disk| {
            let file = cold_file(&disk, 3).await;
            disk.resize(&file, 2 * B + 100).await.unwrap();
            disk.engine().drain().await.unwrap();
            let start = if whole_start { B } else { 100 };
            let zeroed = file.clone();
            let len = 2 * B + 100 - start;
            let mut zero: Work =
                Box::pin(async move { zeroed.write_zeroes(start, len, false, false).await });
            if poll_once(&mut zero).await.is_none() {
                disk.resize(&file, 3 * B).await.unwrap();
                volume_write(&file, 2 * B + 200, &[5; 50]).await.unwrap();
                zero.await.unwrap();
            } else {
                assert!(whole_start, "it reads the rest of its first block");
                disk.resize(&file, 3 * B).await.unwrap();
                volume_write(&file, 2 * B + 200, &[5; 50]).await.unwrap();
            }
            let mut expected = vec![0; 3 * BLOCK];
            expected[..start as usize].fill(7);
            expected[2 * BLOCK + 200..2 * BLOCK + 250].fill(5);
            assert!(read_all(&file).await == expected);
        });
    }
}

/// A unit makes a file shorter that others have made longer meanwhile: all that it cuts off is gone from the medium's space, too.
#[test]
fn truncating_others_growth_zeroes_the_freed_blocks() {
    with(&store(8 << 20), OpenOptions::default(), async |disk| {
        let file = cold_file(&disk, 1).await;
        let mut unit = disk.begin();
        unit.resize(&file, 2 * B).await.unwrap();
        disk.resize(&file, 41 * B).await.unwrap();
        disk.write(&file, B, &vec![9; 40 * BLOCK]).await.unwrap();
        disk.engine().drain().await.unwrap();
        unit.end().await.unwrap();
        assert_eq!(file.size_bytes(), 2 * B);
        let mut blocks = disk.size_bytes() / B;
        while disk.resize_volume("main", blocks * B).await.is_err() {
            blocks -= 1;
        }
        assert!(blocks > 1500, "{blocks}");
        let found = read_all(&disk.volume("main").unwrap()).await;
        assert!(
            found.iter().all(|byte| *byte == 0),
            "content of another file"
        );
    });
}

/// A volume of two runs, whose blocks get another owner while the first run is read.
#[test]
fn a_read_gives_no_bytes_of_the_next_owner_of_blocks() {
    with_rt(
        &store(8 << 20),
        OpenOptions::default(),
        SimOptions::default(),
        async |_, disk| {
            let mut files = Vec::new();
            for (name, byte) in [("f", 1), ("g", 2)] {
                let mut aru = disk.begin();
                let file = aru.create_volume(name, B, [byte; 16], 1);
                let file = file.await.unwrap();
                aru.write(&file, 0, &[byte; BLOCK]).await.unwrap();
                aru.end().await.unwrap();
                files.push(file);
            }
            let file = &files[0];
            // The rest of its blocks follow those of the other volume.
            disk.resize(file, 40 * B).await.unwrap();
            disk.write(file, B, &[1; 39 * BLOCK]).await.unwrap();
            disk.engine().drain().await.unwrap();
            let reader = file.clone();
            let mut read = Box::pin(async move { reader.read(0, 40 * B).await });
            let polled = poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending()));
            assert!(polled.await);
            disk.resize(file, 1).await.unwrap();
            for name in ["h", "i", "j", "k"] {
                let mut aru = disk.begin();
                let next = aru.create_volume(name, 16 * B, [3; 16], 1);
                let next = next.await.unwrap();
                aru.write(&next, 0, &[9; 16 * BLOCK]).await.unwrap();
                aru.end().await.unwrap();
            }
            disk.resize(file, 40 * B).await.unwrap();
            let found = bytes(read.await.unwrap());
            assert_eq!(found.len(), 40 * BLOCK);
            assert!(!found.contains(&9), "bytes of another file");
        },
    );
}

#[test]
fn partial_block_state_is_bounded() {
    with(&store(32 << 20), small_memory(), async |disk| {
        let file = cold_file(&disk, 200).await;
        let mut aru = disk.begin();
        let mut written = 0;
        let error = loop {
            match aru.write(&file, written * B, b"part").await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(disk.shadow_bytes() <= 24 << 10);
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(written > 30, "{written}");
        disk.write(&file, 4, &vec![1; 100 * BLOCK])
            .await
            .unwrap_err();
        volume_write(&file, 4, &[1; BLOCK]).await.unwrap();
        aru.end().await.unwrap();
        assert_eq!(disk.shadow_bytes(), 0);
        let found = read_all(&file).await;
        assert_eq!(found[..6], *b"part\x01\x01");
        assert_eq!(found[BLOCK..BLOCK + 6], *b"part\x07\x07");
    });
}

/// A step of a case: a change of the file, in bytes.
#[derive(Clone, Debug)]
enum Op {
    Write(u64, u64, u8),
    Resize(u64),
}

impl Op {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Op::Write(offset, len, byte) => {
                // Others may have shortened the volume: the unit cannot end then.
                if let Some(bytes) = file.get_mut(*offset as usize..(offset + len) as usize) {
                    bytes.fill(*byte);
                }
            }
            Op::Resize(size) => file.resize(*size as usize, 0),
        }
    }
}

/// The committed content, and how often some of the file was cut off.
struct Model {
    file: Vec<u8>,
    cuts: u64,
}

impl Model {
    /// The file with `log` done.
    fn with(&self, log: &[Op]) -> Vec<u8> {
        let mut file = self.file.clone();
        log.iter().for_each(|op| op.apply(&mut file));
        file
    }

    fn commit(&mut self, log: &[Op]) {
        let file = self.with(log);
        let sizes = log.iter().filter_map(|op| match op {
            Op::Resize(size) => Some(size.div_ceil(B)),
            Op::Write(..) => None,
        });
        let cut = sizes.chain([(file.len() as u64).div_ceil(B)]).min();
        let kept = cut.map_or(0, |cut| cut * B).min(file.len() as u64);
        self.cuts += u64::from(kept < self.file.len() as u64);
        self.file = file;
    }
}

/// A client: an open unit or none, and what it is doing.
#[derive(Default)]
struct Client {
    unit: Option<Aru>,
    log: Vec<Op>,
    /// Cuts when the unit first changed the file.
    since: Option<u64>,
    busy: Option<Busy>,
}

type UnitWork = Pin<Box<dyn Future<Output = (Option<Aru>, Result<(), DiskError>)>>>;

/// An operation under way.
struct Busy {
    work: UnitWork,
    /// The entry that it adds to the unit's log, or commits if there is no unit.
    op: Option<Op>,
    /// Cuts when it began.
    since: u64,
    /// It ends the unit.
    ends: bool,
}

#[derive(Clone, Debug)]
struct Step {
    what: u8,
    who: usize,
    offset: u64,
    len: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let offset = (0..3u8, 0..6u64, 0..200u64, 0..5 * B);
    let offset = offset.prop_map(|(kind, block, byte, any)| match kind {
        0 => (block * B + byte).saturating_sub(100),
        1 => any,
        _ => block.min(4) * B,
    });
    let len = (0..3u8, 1..64u64, 1..2 * B, 1..4u64);
    let len = len.prop_map(|(kind, few, any, blocks)| match kind {
        0 => few,
        1 => any,
        _ => blocks * B,
    });
    (0u8..20, 0..4usize, offset, len).prop_map(|(what, who, offset, len)| Step {
        what,
        who,
        offset,
        len,
    })
}

impl Client {
    fn start(&mut self, disk: &Disk, file: &Volume, model: &Model, step: &Step, byte: u8) {
        let (disk, file, offset) = (disk.clone(), file.clone(), step.offset);
        let write = Op::Write(offset, step.len, byte);
        let data = vec![byte; step.len as usize];
        let (op, ends) = match (step.what, &self.unit) {
            (0..=7 | 11..=12, _) => (Some(write), false),
            (8..=9, _) => (Some(Op::Resize(offset.max(1))), false),
            (_, Some(_)) => (None, true),
            (_, None) => (None, false),
        };
        let work: UnitWork = match (self.unit.take(), step.what) {
            (None, 0..=3) => {
                self.unit = Some(disk.begin());
                return;
            }
            (None, 4..=7) => Box::pin(async move {
                let written = disk.write(&file, offset, &data).await;
                (None, written.map(drop))
            }),
            (None, 8..=9) => Box::pin(async move {
                let resized = disk.resize(&file, offset.max(1)).await;
                (None, resized.map(drop))
            }),
            (None, 11..=12) => {
                Box::pin(async move { (None, volume_write(&file, offset, &data).await) })
            }
            (None, _) => return,
            (Some(unit), 15) => {
                unit.abort();
                (self.log, self.since) = (Vec::new(), None);
                return;
            }
            (Some(mut unit), 0..=9 | 11..=12) => {
                let resizes = matches!(op, Some(Op::Resize(_)));
                Box::pin(async move {
                    let done = if resizes {
                        unit.resize(&file, offset.max(1)).await
                    } else {
                        unit.write(&file, offset, &data).await
                    };
                    (Some(unit), done)
                })
            }
            (Some(unit), _) => Box::pin(async move { (None, unit.end().await.map(drop)) }),
        };
        let since = model.cuts;
        self.busy = Some(Busy {
            work,
            op,
            since,
            ends,
        });
    }

    /// Goes on with what is under way. Nothing is committed before it is done, and all of it is then.
    async fn go_on(&mut self, model: &mut Model) {
        let Some(busy) = &mut self.busy else { return };
        let polled = poll_fn(|context| {
            Poll::Ready(match busy.work.as_mut().poll(context) {
                Poll::Ready(done) => Some(done),
                Poll::Pending => None,
            })
        });
        let Some((unit, done)) = polled.await else {
            return;
        };
        let Some(busy) = self.busy.take() else { return };
        self.unit = unit;
        match done {
            Ok(()) if busy.ends => {
                let since = self.since.take();
                assert!(since.is_none_or(|since| since == model.cuts), "no conflict");
                model.commit(&std::mem::take(&mut self.log));
            }
            Ok(()) if self.unit.is_some() => {
                self.since.get_or_insert(busy.since);
                self.log.extend(busy.op);
            }
            Ok(()) => model.commit(&busy.op.into_iter().collect::<Vec<_>>()),
            Err(error) if busy.ends => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(self.since.take().is_some_and(|since| since != model.cuts));
                self.log.clear();
            }
            // A write to a volume does not make it longer.
            Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfRange, "{error}"),
        }
    }
}

fn case(steps: Vec<Step>, options: OpenOptions, seed: u64) {
    let sim = SimOptions {
        seed,
        ..SimOptions::default()
    };
    let (expected, closed) = with_rt(&store(8 << 20), options, sim, async move |rt, disk| {
        let file = cold_file(&disk, 6).await;
        let mut model = Model {
            file: vec![7; 6 * BLOCK],
            cuts: 0,
        };
        let mut clients: [Client; 4] = Default::default();
        for (number, step) in steps.iter().enumerate() {
            let client = &mut clients[step.who];
            match step.what {
                18 => rt.sleep(Nanos::from_micros(step.len % 300)).await,
                // Not here: operations under way may read the blocks.
                19 => {
                    let engine = disk.engine().clone();
                    rt.spawn(async move { engine.drain().await });
                }
                _ => {
                    if client.busy.is_none() {
                        client.start(&disk, &file, &model, step, number as u8);
                    }
                    client.go_on(&mut model).await;
                }
            }
            for client in clients.iter().filter(|client| client.busy.is_none()) {
                let (cuts, before) = (model.cuts, model.with(&client.log));
                let Some(unit) = &client.unit else { continue };
                if client.since.is_none_or(|since| since == cuts) && number % 4 == 0 {
                    let seen = unit.read(&file, 0, before.len() as u64).await.unwrap();
                    assert!(
                        bytes(seen) == before,
                        "a unit sees another file at {number}"
                    );
                }
            }
        }
        while clients
            .iter()
            .any(|client| client.busy.is_some() || client.unit.is_some())
        {
            for client in &mut clients {
                if client.busy.is_none() && client.unit.is_some() {
                    let end = Step {
                        what: 10,
                        who: 0,
                        offset: 0,
                        len: 0,
                    };
                    client.start(&disk, &file, &model, &end, 0);
                }
                client.go_on(&mut model).await;
            }
            rt.sleep(Nanos::from_micros(20)).await;
        }
        assert!(
            read_all(&file).await == model.file,
            "another file is committed"
        );
        assert_eq!(disk.shadow_bytes(), 0);
        model.file
    });
    with(&closed, OpenOptions::default(), async move |disk| {
        let found = read_all(&disk.volume("f").unwrap()).await;
        assert!(found == expected, "another file after closing");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Units, plain writes, truncations and writes as of NBD, which wait for the drive side by side.
    #[test]
    fn each_byte_is_what_was_committed_last(
        steps in prop::collection::vec(step(), 1..120),
        small: bool,
        seed: u16,
    ) {
        let options = if small { small_memory() } else { OpenOptions::default() };
        case(steps, options, seed.into());
    }
}
