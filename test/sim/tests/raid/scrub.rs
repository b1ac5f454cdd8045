//! Members that return wrong content: a scrub computes it from the others, as far as checksums show it, and
//! makes parity right after that. Meanwhile the store is in use, and the power is cut.

use crate::blocks::{BLOCK, patient, restless, same, stamps, workload};
use crate::stores::{
    HYLOG, OVERWRITE, SEGMENTS, check_cuts, close, crashed, expect_prefix, known, open, read_all,
    with_store,
};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_engine::{ByteRate, CommitChange, Engine, Scrub, ScrubReport};
use tonearm_format::{HEADER_AREA_BYTES, trailer_offset};
use tonearm_layout::Piece;
use tonearm_rt::Op;
use tonearm_sim::{ArrayImage, ArrayShape, Oracle, fill};

/// Blocks that no workload touches.
const COLD: std::ops::Range<u64> = 300..700;

const FIVE: ArrayShape = ArrayShape {
    members: 5,
    ..OVERWRITE
};

fn content(number: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    fill(&mut block, (77 << 40) + (number << 8), number, false);
    block
}

/// Writes the cold blocks.
async fn write_cold(engine: &Engine) {
    for first in COLD.step_by(20) {
        let permit = engine.reserve(20 * BLOCK as u64).await.unwrap();
        let mut buf = BufPool::new(0).alloc(20 * BLOCK);
        for (block, number) in buf.chunks_exact_mut(BLOCK).zip(first..) {
            block.copy_from_slice(&content(number));
        }
        buf.attach(Rc::new(permit));
        let admission = engine.admit(20, 0).await.unwrap();
        let data = buf.share();
        engine
            .commit(admission, vec![CommitChange::Write { first, data }])
            .unwrap();
    }
    engine.drain().await.unwrap();
}

/// The cold blocks that cannot be read.
async fn damaged_cold(engine: &Engine) -> Vec<u64> {
    let mut damaged = Vec::new();
    for number in COLD {
        match engine.read(number, 1).await.as_deref() {
            Ok([Piece::Data(data)]) => assert!(data[..] == content(number)[..], "{number}"),
            Ok(_) => panic!("block {number} is a hole"),
            Err(_) => damaged.push(number),
        }
    }
    damaged
}

/// The cold blocks that cannot be read without the drives that are `away`.
fn damaged_without(store: &ArrayImage, seed: u64, away: &[usize]) -> Vec<u64> {
    let damaged = with_store(store, seed, away, patient(), async |_, _, open| {
        Ok(damaged_cold(&open.engine).await)
    });
    damaged.unwrap().0
}

/// A store with content, closed in order, and the stamps of its blocks.
fn written(plan: ArrayShape, seed: u64) -> (ArrayImage, Vec<u64>) {
    let store = plan.create();
    let written = with_store(&store, seed, &[], restless(), async move |_, rt, open| {
        write_cold(&open.engine).await;
        let worked = workload(rt, open.engine.clone(), Rc::default(), true, seed);
        worked.await.unwrap();
        let found = stamps(&open.engine).await?;
        close(&open).await?;
        Ok(found)
    });
    let (found, written) = written.unwrap();
    (written, found)
}

/// Scrubs the store. The report, the number of changes of the array's members meanwhile, and what is left.
fn scrubbed(store: &ArrayImage, seed: u64, scrub: Scrub) -> (ScrubReport, u64, ArrayImage) {
    let writes = Rc::new(Cell::new(0));
    let (count, members) = (writes.clone(), store.shape.members as u32);
    let scrubbed = with_store(store, seed, &[], patient(), async move |world, _, open| {
        world.set_fault(move |request| {
            let changes = !matches!(request.op, Op::Read | Op::Flush);
            let of_array = (1..=members).contains(&request.device.0);
            count.set(count.get() + u64::from(changes && of_array));
            None
        });
        let report = open.engine.scrub(scrub, |_, _| true).await.unwrap();
        world.clear_fault();
        close(&open).await?;
        Ok(report)
    });
    let (report, left) = scrubbed.unwrap();
    (report, writes.get(), left)
}

/// Everything reads as it was written, also without each of the members.
fn assert_whole(store: &ArrayImage, expected: &[u64], when: &str) {
    for away in [&[][..]]
        .into_iter()
        .chain([[1], [2], [3], [4], [5]].iter().map(|away| &away[..]))
    {
        if away.iter().any(|member| *member > store.shape.members) {
            continue;
        }
        let (found, _) = read_all(store, 1, away).unwrap();
        same(&found, expected, when, away.first().copied()).unwrap();
        let damaged = damaged_without(store, 2, away);
        assert_eq!(damaged, [0; 0], "{when}, without {away:?}");
    }
}

/// One byte in each stripe of one member is wrong: in blocks, tables, map pages, summaries, parity, and free space.
#[test]
fn scrub_repairs_corruption_of_one_member() {
    for plan in [OVERWRITE, FIVE, SEGMENTS, HYLOG] {
        let (store, expected) = written(plan, 5);
        let mut repaired = 0;
        for corrupt in 1..=plan.members {
            let mut store = store.clone();
            let end = trailer_offset(store.disks[corrupt].size);
            let rows = (end - HEADER_AREA_BYTES) / plan.stripe_bytes;
            for row in 0..rows {
                // Each time in another place of the unit.
                let within = (row * 4999 + 100) % plan.stripe_bytes;
                store.disks[corrupt]
                    .flip(HEADER_AREA_BYTES + row * plan.stripe_bytes + within, 0x08);
            }
            let (looked, writes, looked_at) = scrubbed(&store, 8, Scrub::Look);
            assert!(!looked.is_sound() && looked.parity_damaged > rows / 2);
            assert_eq!((looked.repaired, looked.parity_repaired, writes), (0, 0, 0));
            let (report, writes, after) = scrubbed(&looked_at, 9, Scrub::Repair);
            assert!(report.is_sound(), "member {corrupt}: {report:?}");
            assert!(report.repaired > 0 && report.parity_repaired > 0);
            assert_eq!(report.repaired + report.parity_repaired, writes);
            repaired += report.repaired;
            let (again, writes, after) = scrubbed(&after, 10, Scrub::Repair);
            assert!(again.is_sound() && again.repaired + again.parity_repaired == 0);
            assert_eq!(writes, 0);
            assert_whole(&after, &expected, "repaired");
        }
        println!("{:?}: {repaired} places", plan.store.home);
        assert!(repaired > 30, "{repaired}");
    }
}

/// The places of the members that have this content as data. Next to holes the parity has it, too.
fn places(store: &ArrayImage, content: &[u8]) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    for member in 1..=store.shape.members {
        let disk = &store.disks[member];
        for at in (HEADER_AREA_BYTES..trailer_offset(disk.size)).step_by(BLOCK) {
            let mut bytes = vec![0; BLOCK];
            disk.read(at, &mut bytes);
            let row = (at - HEADER_AREA_BYTES) / store.shape.stripe_bytes;
            let of_parity = store.shape.members - (row % store.shape.members as u64) as usize;
            if bytes == content && member != of_parity {
                found.push((member, at));
            }
        }
    }
    found
}

/// Two members are wrong in the same place of a stripe: nothing shows what is right, and nothing is written.
#[test]
fn scrub_only_reports_corruption_of_two_members() {
    for plan in [OVERWRITE, FIVE, SEGMENTS] {
        let (store, _) = written(plan, 6);
        for (number, mask) in COLD
            .step_by(41)
            .flat_map(|number| [(number, 1), (number, 2)])
        {
            let mut store = store.clone();
            let places = places(&store, &content(number));
            assert!(!places.is_empty());
            for (member, at) in places {
                let others = store.shape.members - 1;
                let other = 1 + (member + number as usize % others) % store.shape.members;
                store.disks[member].flip(at + 1000, 1);
                store.disks[other].flip(at + 1000, mask);
            }
            let (report, writes, left) = scrubbed(&store, number, Scrub::Repair);
            let bad = report.damaged.iter().flat_map(|group| &group.bad);
            assert!(bad.map(|bad| bad.block).any(|block| block == number));
            assert_eq!((report.repaired, report.parity_repaired, writes), (0, 0, 0));
            // Where the same bit has changed twice, the parity agrees.
            assert_eq!(report.parity_damaged > 0, mask == 2, "block {number}");
            assert!(damaged_without(&left, 3, &[]).contains(&number));
        }
    }
}

/// The scrub runs during a load that shares stripes with what is repaired. A cut at any time leaves a store of which nothing
/// is lost that was not corrupt, and nothing at all once the scrub has ended.
#[test]
fn a_scrub_under_load_survives_every_cut() {
    let (mut count, mut repaired) = (0, 0);
    for (plan, seed) in [(OVERWRITE, 3), (FIVE, 4), (SEGMENTS, 5), (HYLOG, 6)] {
        let (mut store, before) = written(plan, seed);
        let corrupt = 1 + seed as usize % plan.members;
        let mut blocks = Vec::new();
        for number in COLD.step_by(3) {
            for (member, at) in places(&store, &content(number)) {
                if member == corrupt {
                    store.disks[member].flip(at + 2000, 0x04);
                    blocks.push(number);
                }
            }
        }
        let oracle = known(&before);
        let (world, rt) = store.start(seed);
        let done = Rc::new(Cell::new(false));
        let ended = done.clone();
        let cuts = check_cuts(
            &world,
            &store,
            &oracle,
            (seed, 19),
            move |left, oracle, io| after_cut(left, oracle, &blocks, ended.get(), io),
        );
        let (own_rt, own) = (rt.clone(), store.clone());
        let report = rt.block_on(async move {
            let rt = own_rt;
            let open = open(&own, &rt, &[], restless()).await.unwrap();
            let engine = open.engine.clone();
            let scrub = rt.spawn(async move {
                let report = engine.scrub(Scrub::Repair, |_, _| true).await.unwrap();
                done.set(true);
                report
            });
            for round in 0..3 {
                let (rt, engine, seed) = (rt.clone(), open.engine.clone(), seed + 100 + round);
                let load = workload(rt, engine, oracle.clone(), true, seed);
                load.await.unwrap();
            }
            let report = scrub.await;
            assert_eq!(damaged_cold(&open.engine).await, [0; 0]);
            open.engine.close().await.unwrap();
            report
        });
        world.clear_hook();
        let closed = store.with(world.images());
        rt.shut_down();
        count += cuts.count.get();
        assert_eq!(*cuts.failure.borrow(), None);
        assert!(report.is_sound(), "{report:?}");
        assert!(report.repaired > 20, "{report:?}");
        repaired += report.repaired;
        let (expected, _) = read_all(&closed, 1, &[]).unwrap();
        assert_whole(&closed, &expected, "scrubbed under load");
    }
    println!("{repaired} places repaired, {count} cuts");
    assert!(count > 60, "{count} cuts");
}

/// Verifies what a cut has left: `corrupt` blocks may be damaged unless the scrub has ended.
fn after_cut(
    left: &ArrayImage,
    oracle: &Oracle,
    corrupt: &[u64],
    ended: bool,
    cut: u64,
) -> Result<(), String> {
    let (expected, closed) = read_all(left, cut, &[])?;
    expect_prefix(oracle, &expected)?;
    for away in 0..=left.shape.members {
        let away = if away == 0 { vec![] } else { vec![away] };
        let read = with_store(&closed, cut, &away, patient(), async |_, _, open| {
            let found = stamps(&open.engine).await?;
            Ok((found, damaged_cold(&open.engine).await))
        });
        let ((found, damaged), _) = read?;
        same(&found, &expected, "closed", away.first().copied())?;
        let excused = |block: &u64| !ended && (!away.is_empty() || corrupt.contains(block));
        if let Some(block) = damaged.iter().find(|block| !excused(block)) {
            return Err(format!("block {block} is damaged, without {away:?}"));
        }
    }
    Ok(())
}

/// Recovery computes parity from what the members hold, and does not verify it: with segments everywhere, with overwriting
/// only where the log says that writes were interrupted. What is corrupt there by then cannot be repaired any more. It stays an
/// error: its checksum is kept elsewhere.
#[test]
fn corruption_before_parity_recovery_stays_an_error() {
    let number = 401;
    for (plan, stays) in [(OVERWRITE, false), (SEGMENTS, true), (HYLOG, true)] {
        let (mut store, before) = written(plan, 7);
        for (member, at) in places(&store, &content(number)) {
            store.disks[member].flip(at + 1000, 1);
        }
        let oracle = known(&before);
        let crashed = crashed(&store, 7, &oracle, 107);
        let (found, opened) = read_all(&crashed, 8, &[]).unwrap();
        expect_prefix(&oracle.borrow(), &found).unwrap();
        let damaged = |store: &ArrayImage| damaged_without(store, 9, &[]);
        assert_eq!(damaged(&opened), [number]);
        let (report, _, after) = scrubbed(&opened, 10, Scrub::Repair);
        let bad = report.damaged.iter().flat_map(|group| &group.bad);
        let bad: Vec<u64> = bad.map(|bad| bad.block).collect();
        match stays {
            true => {
                assert_eq!(bad, [number], "{report:?}");
                assert_eq!(
                    (report.parity_damaged, report.repaired),
                    (0, 0),
                    "made again"
                );
                assert_eq!(damaged(&after), [number]);
            }
            false => {
                assert!(report.is_sound() && report.repaired > 0, "{report:?}");
                assert_eq!(damaged(&after), [0; 0]);
            }
        }
    }
}

/// How long a scrub of the store takes, with `readers` clients that read all the time. It is asked to end after `limit`.
fn duration(store: &ArrayImage, rate: u64, readers: u64, limit: Nanos) -> (Nanos, ScrubReport) {
    let took = with_store(store, 11, &[], patient(), async move |_, rt, open| {
        let ended = Rc::new(Cell::new(false));
        let mut tasks = Vec::new();
        for reader in 0..readers {
            let (engine, ended) = (open.engine.clone(), ended.clone());
            tasks.push(rt.spawn(async move {
                let mut number = COLD.start + reader * 31;
                while !ended.get() {
                    engine.read(number, 1).await.unwrap();
                    number = COLD.start + (number + 17) % (COLD.end - COLD.start);
                }
            }));
        }
        let begun = rt.now();
        let goes_on = |_, _| rt.now().since(begun) < limit;
        let rate = ByteRate::new(rate);
        let scrub = open.engine.scrub_at(&rate, Scrub::Repair, goes_on);
        let report = scrub.await.unwrap();
        let took = rt.now().since(begun);
        ended.set(true);
        for task in tasks {
            task.await;
        }
        close(&open).await?;
        Ok((took, report))
    });
    took.unwrap().0
}

#[test]
fn scrub_keeps_its_rate_and_cancels_at_once() {
    let (store, _) = written(OVERWRITE, 12);
    let long = Nanos::from_secs(3600);
    let (fast, report) = duration(&store, 0, 0, long);
    let bytes = with_store(&store, 0, &[], patient(), async |_, _, open| {
        Ok(open.array.member().device.size_bytes())
    });
    let (bytes, _) = bytes.unwrap();
    let bytes = report.blocks * BLOCK as u64 + bytes;
    assert!(fast < Nanos::from_secs(1), "{fast:?}");
    let (slow, same) = duration(&store, 1 << 20, 0, long);
    assert_eq!(same.blocks, report.blocks);
    let least = Nanos(bytes * 1_000_000_000 / (1 << 20));
    assert!(
        slow >= least && slow.0 < least.0 + fast.0,
        "{slow:?}, {least:?}"
    );
    // The first group alone would take hours.
    let (ended, report) = duration(&store, 100, 0, Nanos::from_secs(2));
    assert!(report.cancelled);
    assert!(ended < Nanos::from_millis(2200), "{ended:?}");
}

#[test]
fn scrub_yields_to_client_reads_and_still_ends() {
    let (store, _) = written(OVERWRITE, 13);
    let long = Nanos::from_secs(3600);
    let (alone, report) = duration(&store, 0, 0, long);
    let (shared, same) = duration(&store, 0, 8, long);
    assert!(!same.cancelled && same.blocks == report.blocks);
    // It waits at each step, but no longer than 10 ms.
    let steps = report.groups + 2;
    println!("{steps} steps, alone {alone:?}, with readers {shared:?}");
    assert!(
        shared.0 > alone.0 + (steps - 1) * 8_000_000,
        "{shared:?}, {alone:?}"
    );
    assert!(
        shared.0 < 2 * alone.0 + steps * 20_000_000,
        "{shared:?}, {alone:?}"
    );
}
