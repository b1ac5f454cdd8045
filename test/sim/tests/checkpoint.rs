//! The steps of a checkpoint, on a trace of the devices' I/O (Durable WAL 5.4; docs/decisions/0025): the log is durable, then
//! blocks are written home, then each data device is flushed once, then a record with the new log start is durable, and
//! only then the log's tracks are used again. The test fails when a step is left out or comes too early.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{BufPool, LooseBuf, Lsn, Nanos};
use tonearm_device::{Device, DeviceIo, Filter};
use tonearm_disk::{CreateParams, Disk, MemberDevice, OpenOptions, StoreStats};
use tonearm_format::{RecordHeader, Roles};
use tonearm_rt::{Data, Op, Rt};
use tonearm_world::{SimOptions, SimWorld};

const BLOCK: u64 = 4096;
const TRACK: u64 = 64 << 10;
const TRACKS: u64 = 16;
const MAIN: u64 = 8 << 20;
/// The log's device; the others hold blocks.
const LOG: usize = 0;

/// A record of the log, from its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    seq: u64,
    log_start_seq: u64,
}

/// An operation: its device, when it began and ended in the order of all such events, and what it wrote to the log.
#[derive(Clone, Debug)]
struct Event {
    device: usize,
    op: Op,
    offset: u64,
    began: usize,
    ended: Option<usize>,
    records: Vec<Record>,
}

#[derive(Clone, Default)]
struct Trace(Rc<RefCell<(usize, Vec<Event>)>>);

impl Trace {
    fn begin(&self, device: usize, op: Op, offset: u64, data: &Data) -> usize {
        let (clock, events) = &mut *self.0.borrow_mut();
        *clock += 1;
        events.push(Event {
            device,
            op,
            offset,
            began: *clock,
            ended: None,
            records: match device {
                LOG => records_of(data),
                _ => Vec::new(),
            },
        });
        events.len() - 1
    }

    fn end(&self, event: usize) {
        let (clock, events) = &mut *self.0.borrow_mut();
        *clock += 1;
        events[event].ended = Some(*clock);
    }

    fn now(&self) -> usize {
        self.0.borrow().0
    }

    fn events(&self) -> Vec<Event> {
        self.0.borrow().1.clone()
    }
}

fn records_of(data: &Data) -> Vec<Record> {
    let Data::Buf(buf, range) = data else {
        return Vec::new();
    };
    let (bytes, mut records, mut at) = (&buf[range.clone()], Vec::new(), 0);
    while let Some(sector) = bytes.get(at..at + BLOCK as usize)
        && let Ok((header, _)) = RecordHeader::decode(sector)
    {
        records.push(Record {
            seq: header.seq.0,
            log_start_seq: header.log_start_seq.0,
        });
        at += header.sectors() as usize * BLOCK as usize;
    }
    records
}

/// Writes the operations of a device into a trace.
struct Traced {
    inner: Rc<dyn Device>,
    device: usize,
    trace: Trace,
}

impl Filter for Traced {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let event = self.trace.begin(self.device, op, offset, &data);
        let (io, trace) = (self.inner.io(op, offset, len, data), self.trace.clone());
        Box::pin(async move {
            let ended = io.await;
            trace.end(event);
            ended
        })
    }
}

/// Runs `work` on a new store with a log of its own and two data devices.
fn traced<T: 'static, F: Future<Output = T> + 'static>(
    work: impl FnOnce(Rt, Disk, Trace) -> F + 'static,
) -> T {
    let params = CreateParams {
        log_bytes: Some(TRACKS * TRACK),
        track_bytes: Some(TRACK as u32),
        block_size: BLOCK as u32,
        ..CreateParams::new(MAIN, *b"simulated store!")
    };
    let roles = |log, data| Roles { log, data };
    let roles = [roles(true, false), roles(false, true), roles(false, true)];
    let images = tonearm_sim::create(&params, &roles, MAIN).unwrap();
    let sizes: Vec<u64> = images.iter().map(|image| image.size).collect();
    let rt = Rt::new(SimWorld::new(SimOptions::default(), images).driver());
    let own = rt.clone();
    let result = rt.block_on(async move {
        let trace = Trace::default();
        let members = tonearm_sim::members(&own, sizes.into_iter(), BLOCK as usize);
        let members = members.into_iter().enumerate();
        let members = members.map(|(device, member)| MemberDevice {
            device: Rc::new(Traced {
                inner: member.device,
                device,
                trace: trace.clone(),
            }),
            path: member.path,
        });
        let options = OpenOptions {
            write_back_after: Nanos::from_secs(1_000),
            ..OpenOptions::default()
        };
        let pool = BufPool::new(1 << 20);
        let disk = Disk::open(&own, &pool, members.collect(), options, |_| {}).await;
        work(own.clone(), disk.unwrap(), trace).await
    });
    rt.shut_down();
    result
}

async fn write(disk: &Disk, block: u64, byte: u8) -> Lsn {
    let volume = disk.volume("main").unwrap();
    let data = LooseBuf::copy_of(&[byte; BLOCK as usize]);
    disk.write_buf(&volume, block * BLOCK, data).await.unwrap()
}

fn is_write(event: &Event) -> bool {
    matches!(
        event.op,
        Op::Write | Op::WriteDurable | Op::Zero | Op::Punch
    )
}

/// When the write `event` of the log is durable: at its end if it has FUA, else at the end of a flush that began later.
fn durable_at(event: &Event, events: &[Event]) -> Option<usize> {
    let ended = event.ended?;
    if event.op == Op::WriteDurable {
        return Some(ended);
    }
    let flushes = events.iter().filter(|flush| {
        flush.device == event.device && flush.op == Op::Flush && flush.began > ended
    });
    flushes.filter_map(|flush| flush.ended).min()
}

#[test]
fn a_checkpoint_takes_the_steps_in_their_order() {
    traced(|rt, disk, trace| async move {
        let main_blocks = MAIN / BLOCK;
        // The first write to a data device after an opening has a flush before it, too.
        for block in [0, main_blocks - 1] {
            write(&disk, block, 99).await;
        }
        disk.flush().await.unwrap();
        disk.engine().drain().await.unwrap();
        let before = disk.stats();
        for n in 0..40 {
            // Both data devices get some.
            write(&disk, n * (main_blocks / 40), n as u8 + 1).await;
        }
        assert!(disk.marks().durable < disk.marks().appended);
        let asked = trace.now();
        let last = disk.checkpoint().await.unwrap();
        let answered = trace.now();
        assert_eq!(disk.stats().replayed_from_lsn, last.0 + 1);
        let events = trace.events();
        let of = |device: usize| events.iter().filter(move |event| event.device == device);
        // 1. The log is durable up to the last commit before anything is written home.
        let home = events.iter().filter(|event| event.device != LOG);
        let home: Vec<&Event> = home.filter(|event| event.began > asked).collect();
        let first_home = home.iter().filter(|event| is_write(event));
        let first_home = first_home.map(|event| event.began).min().unwrap();
        let logged: Vec<&Event> = of(LOG)
            .filter(|event| {
                is_write(event) && event.began < first_home && !event.records.is_empty()
            })
            .collect();
        assert!(!logged.is_empty());
        for write in &logged {
            let durable = durable_at(write, &events).unwrap();
            assert!(
                durable < first_home,
                "step 1: {write:?}, home at {first_home}"
            );
        }
        let newest = logged.iter().flat_map(|event| &event.records);
        let newest = newest.map(|record| record.seq).max().unwrap();
        // 4. A record with a log start after all of these commits, which is durable before the answer.
        let named: Vec<&Event> = of(LOG)
            .filter(|event| {
                event
                    .records
                    .iter()
                    .any(|record| record.log_start_seq > newest)
            })
            .collect();
        let record = named.iter().map(|event| event.began).min().unwrap();
        assert!(record > first_home, "step 4 before step 2");
        let durable = named
            .iter()
            .filter_map(|event| durable_at(event, &events))
            .min();
        assert!(durable.is_some_and(|durable| durable <= answered), "step 4");
        // 2 and 3. Each data device is written, and flushed once after its last write and before that record.
        for device in 1..3 {
            let own: Vec<&Event> = home
                .iter()
                .filter(|event| event.device == device)
                .copied()
                .collect();
            let writes = own.iter().filter(|event| is_write(event));
            let written = writes.map(|event| event.ended.unwrap()).max();
            let written = written.expect("step 2: blocks of both devices are dirty");
            let flushes: Vec<&&Event> = own.iter().filter(|event| event.op == Op::Flush).collect();
            assert_eq!(flushes.len(), 1, "step 3, device {device}: {flushes:?}");
            let flush = flushes[0];
            assert!(
                flush.began > written,
                "step 3: device {device} is flushed too early"
            );
            assert!(
                flush.ended.is_some_and(|ended| ended < record),
                "step 4 before step 3"
            );
        }
        // Each flush is counted under its cause.
        let stats = disk.stats();
        assert_eq!((stats.checkpoints, stats.home_checkpoint_flushes), (1, 2));
        assert_eq!(stats.home_flushes - before.home_flushes, 2);
        assert!(stats.checkpoint_flushes > before.checkpoint_flushes);
        let others = |stats: &StoreStats| {
            (
                stats.commit_flushes,
                stats.bound_flushes,
                stats.home_write_flushes,
            )
        };
        assert_eq!(others(&stats), others(&before));
        // A second one has nothing to do.
        disk.checkpoint().await.unwrap();
        assert_eq!(trace.now(), answered);
        assert_eq!(disk.stats().checkpoints, 2);
        // The next causes: a caller, the write-back.
        let lsn = write(&disk, 1, 77).await;
        disk.wait_durable(lsn).await.unwrap();
        write(&disk, 2, 78).await;
        rt.sleep(Nanos::from_millis(1)).await;
        disk.engine().drain().await.unwrap();
        let stats = disk.stats();
        let (commits, homes) = (before.commit_flushes, before.home_write_flushes);
        assert_eq!(stats.commit_flushes, commits + 1);
        assert_eq!(stats.home_write_flushes, homes + 1);
        assert_eq!(stats.home_checkpoint_flushes, 2);
        let log = stats.log_flushes + stats.log_durable_writes;
        let causes = stats.commit_flushes + stats.home_write_flushes + stats.checkpoint_flushes;
        assert_eq!(log, causes + stats.bound_flushes + stats.log_space_flushes);
    });
}

/// Step 5: a track is used again only when a durable record names a log start after all records that it holds. Writers go on
/// during the checkpoints, and the log wraps several times.
#[test]
fn tracks_are_reused_only_after_a_durable_record() {
    let events = traced(|rt, disk, trace| async move {
        let checkpoints = disk.clone();
        let timer = rt.clone();
        let asking = rt.spawn(async move {
            for _ in 0..12 {
                timer.sleep(Nanos::from_millis(2)).await;
                checkpoints.checkpoint().await.unwrap();
            }
        });
        for n in 0..700u64 {
            write(&disk, n * 37 % (MAIN / BLOCK), n as u8).await;
            if n % 5 == 0 {
                rt.sleep(Nanos::from_micros(300)).await;
            }
        }
        asking.await;
        disk.flush().await.unwrap();
        trace.events()
    });
    let log: Vec<&Event> = events
        .iter()
        .filter(|event| event.device == LOG && !event.records.is_empty())
        .collect();
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut current, mut reused) = (u64::MAX, 0);
    for write in &log {
        let track = write.offset / TRACK;
        if track != current
            && let Some(newest) = held.remove(&track)
        {
            reused += 1;
            let freed = log.iter().any(|freeing| {
                let names = freeing
                    .records
                    .iter()
                    .any(|record| record.log_start_seq > newest);
                let durable = durable_at(freeing, &events);
                names && durable.is_some_and(|durable| durable < write.began)
            });
            assert!(freed, "step 5: track {track} is used again too early");
        }
        current = track;
        let newest = write.records.iter().map(|record| record.seq).max().unwrap();
        held.insert(track, newest);
    }
    assert!(reused > TRACKS as usize, "{reused} tracks were used again");
}
