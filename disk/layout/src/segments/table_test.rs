use crate::segments::table::{Candidates, SegmentTable};
use tonearm_base::Lsn;
use tonearm_format::SegmentEntry;

/// Four segments, all free, and nothing read.
fn table() -> SegmentTable {
    let mut table = SegmentTable::new((0..4).map(|_| SegmentEntry::default()));
    table.free_all(&[1, 2, 3, 4]);
    table
}

/// Writes segment `segment` once and releases its content.
fn write_and_empty(table: &mut SegmentTable, segment: u64, version: u64) {
    table.begin_use(segment, version);
    table.take(segment, version);
    table.release(segment);
}

#[test]
fn freed_segment_is_not_reused_before_earlier_reads_end() {
    let mut table = table();
    let first = table.allocate().unwrap();
    write_and_empty(&mut table, first, 1);
    let before = table.begin_read();
    table.free_all(&[first]);
    let second = table.begin_read();
    assert_eq!(table.free_and_held(), (3, 1));
    for _ in 0..3 {
        assert_ne!(table.allocate(), Some(first));
    }
    assert_eq!((table.allocate(), table.free_and_held()), (None, (0, 1)));
    // A read that began later does not use the segment.
    table.end_read(before);
    assert_eq!(table.free_and_held(), (1, 0));
    assert_eq!(table.allocate(), Some(first));
    table.end_read(second);
}

#[test]
fn empty_segment_needed_by_recovery_awaits_a_checkpoint() {
    let mut table = table();
    for (segment, version) in [(1, 1), (2, 2), (3, 3)] {
        assert_eq!(table.allocate(), Some(segment));
        write_and_empty(&mut table, segment, version);
    }
    // A partial of the chain is in the first segment; a page of the map was in the second.
    table.set_needed(1);
    table.take(2, 2);
    table.release_page(2);
    assert_eq!(table.reusable(None), [3]);
    assert_eq!(table.reusable(Some(3)), [0; 0], "the head goes on there");
    assert_eq!(table.emptied(), 3);
    let dead = table.dead(None);
    assert_eq!(dead, [1, 2, 3]);
    table.checkpointed(&dead);
    assert_eq!((table.emptied(), table.free_and_held()), (0, (4, 0)));
}

#[test]
fn cleaner_keeps_copied_segments_until_checkpoint() {
    for add in [SegmentTable::add_holes, SegmentTable::add_notes] {
        let mut table = table();
        assert_eq!(table.allocate(), Some(1));
        table.begin_use(1, 1);
        add(&mut table, 1, 2);
        table.take(1, 1);
        table.release(1);
        assert_eq!((table.reusable(None), table.dead(None)), (vec![], vec![]));
        table.set_drained(1);
        assert_eq!((table.reusable(None), table.dead(None)), (vec![1], vec![1]));
        table.free_all(&[1]);
        let free = |table: &SegmentTable| (table.free_and_held(), table.free_after_crash());
        assert_eq!(free(&table), ((4, 0), 3));
        assert_eq!(table.allocate(), Some(1));
        assert_eq!(free(&table), ((3, 0), 3));

        // The next checkpoint says that it is free.
        table.begin_use(1, 2);
        add(&mut table, 1, 2);
        table.set_drained(1);
        table.free_all(&[1]);
        assert_eq!(free(&table), ((4, 0), 3));
        table.checkpointed(&[]);
        assert_eq!(free(&table), ((4, 0), 4));
        assert_eq!(table.allocate(), Some(2));
    }
}

#[test]
fn candidates_after_a_checkpoint_are_all_but_the_held_segments() {
    let mut table = table();
    for (segment, version) in [(1, 10), (2, 11), (3, 12), (4, 13)] {
        table.claim(segment);
        table.begin_use(segment, version);
        table.take(segment, version);
    }
    table.checkpointed(&[]);
    table.set_needed(2);
    table.hold_for_log(3, Lsn(5));
    let of = |which| {
        let candidates = table.candidates(Some(4), which);
        candidates.map(|(segment, ..)| segment).collect::<Vec<_>>()
    };
    assert_eq!(of(Candidates::Now), [1]);
    assert_eq!(of(Candidates::AfterCheckpoint), [1, 2]);
}
