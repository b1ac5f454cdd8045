//! An archiver over objects that somebody else has put, changed or copied, with valid checksums: between two openings and while it
//! runs. It ends in time without a panic, and deletes nothing that a state needs which is to be kept.

use super::rig_test::{Rig, options};
use super::*;
use crate::catalog::Catalog;
use crate::testing::{START_MS, now, written};
use crate::{Plan, Target};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use tonearm_base::crc32c;
use tonearm_format::ARCHIVE_HEADER_BYTES;

/// Commits of a history, and of the opening after its objects were changed.
const BEFORE: u64 = 60;
const AFTER: u64 = 20;
/// Ages in seconds up to which all states are kept, where old ones are deleted, and where ranges are merged.
const KEPT: u64 = 50;
const UNMERGED: u64 = 30;
/// Commits of an object.
const RANGE: u64 = 3;

/// Numbers that look like chance, and are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    /// A number near those of the archive, or at an end of all numbers.
    fn number(&mut self, near: u64) -> u64 {
        match self.below(6) {
            0 => self.below(200),
            1 => u64::MAX - self.below(3),
            2 => 1 << self.below(64),
            3 => near.wrapping_sub(1 + self.below(3)),
            4 => near.wrapping_add(1 + self.below(3)),
            _ => near,
        }
    }
}

fn change(chance: &mut Chance, header: &mut ArchiveHeader, payload: &mut Vec<u8>) {
    let kinds = [
        ArchiveKind::Opening,
        ArchiveKind::Range,
        ArchiveKind::Base,
        ArchiveKind::BasePart,
        ArchiveKind::Mark,
        ArchiveKind::Merged,
    ];
    match chance.below(16) {
        0 => header.number = chance.number(header.number),
        1 => header.epoch = chance.number(header.epoch),
        2 => header.first = chance.number(header.first),
        3 => header.last = chance.number(header.last),
        4 => header.inexact_from = chance.number(header.number),
        5 => header.exact_from = chance.number(header.last),
        6 => header.unix_ms = [0, START_MS, u64::MAX][chance.below(3) as usize],
        7 => header.raw_bytes = chance.number(header.raw_bytes),
        8 => header.base = chance.number(header.base),
        9 => header.kind = kinds[chance.below(6) as usize],
        10 => payload.truncate(chance.below(payload.len() as u64 + 1) as usize),
        11 => header.encrypted = !header.encrypted,
        12 => header.store = [chance.below(5) as u8; 16],
        13 => header.previous_crc = chance.below(1 << 32) as u32,
        14 => header.level = chance.below(256) as u8,
        _ if payload.is_empty() => {}
        _ => {
            let at = chance.below(payload.len() as u64) as usize;
            payload[at] = chance.below(256) as u8;
        }
    }
    (header.stored_bytes, header.payload_crc) = (payload.len() as u64, crc32c(payload));
}

/// What somebody does to the objects who may write to the bucket.
fn attack(chance: &mut Chance, rig: &Rig) {
    for _ in 0..=chance.below(3) {
        let names: Vec<String> = rig.memory.objects.borrow().keys().cloned().collect();
        // The last objects and those that are no range of commits, more often.
        let near = names.len() as u64 - chance.below(8).min(names.len() as u64 - 1) - 1;
        let few: Vec<usize> = (0..names.len())
            .filter(|at| {
                ArchiveHeader::decode(&rig.object(&names[*at]))
                    .is_ok_and(|it| it.kind != ArchiveKind::Range)
            })
            .collect();
        let at = match chance.below(3) {
            0 => chance.below(names.len() as u64) as usize,
            1 if !few.is_empty() => few[chance.below(few.len() as u64) as usize],
            _ => near as usize,
        };
        let name = &names[at];
        let object = rig.object(name);
        if chance.below(12) == 0 {
            rig.remove(name);
            continue;
        }
        let Ok(mut header) = ArchiveHeader::decode(&object) else {
            continue;
        };
        let mut payload = object[ARCHIVE_HEADER_BYTES..].to_vec();
        let changes = chance.below(3);
        for _ in 0..changes {
            change(chance, &mut header, &mut payload);
        }
        let number = chance.number(header.number);
        let place = match chance.below(8) {
            0 => format!("chain/{number:016x}"),
            1 => format!("merged/{:016x}-{number:016x}", chance.number(number)),
            2 => format!("base/{number:016x}/{:08x}", chance.below(3)),
            3 => format!("mark/{number}"),
            4 => crate::chain::object_name(&header),
            _ => name.clone(),
        };
        rig.place(&place, [&header.encode()[..], &payload].concat());
    }
}

/// Which of the commits can be restored, with their content.
fn states(rig: &Rig, commits: impl Iterator<Item = u64>) -> BTreeSet<u64> {
    let Ok(catalog) = now(Catalog::load(&rig.memory)) else {
        return BTreeSet::new();
    };
    let has = |lsn: &u64| {
        let plan = now(Plan::make(&rig.memory, &catalog, &Target::Lsn(Lsn(*lsn))));
        plan.is_ok_and(|plan| written(&rig.memory, &plan).is_ok_and(|byte| byte == *lsn as u8))
    };
    commits.filter(has).collect()
}

/// Archives a history, and goes on when its objects were changed.
fn archive(seed: u64) {
    let mut chance = Chance(seed);
    let kept = [u64::MAX, KEPT][chance.below(2) as usize];
    let unmerged = [u64::MAX, UNMERGED][chance.below(2) as usize];
    let ms = |seconds: u64| {
        if seconds == u64::MAX {
            0
        } else {
            1000 * seconds
        }
    };
    let options = ArchiverOptions {
        keep_ms: ms(kept),
        keep_every_commit_ms: ms(unmerged),
        levels: [MergeLevel {
            after_ms: 0,
            span_ms: 4000,
        }; 3],
        ..options()
    };
    let rig = Rig::new();
    for _ in 0..2 {
        rig.commits(BEFORE / 2);
        rig.open(&options).expect("a sound archive");
    }
    let last = rig.durable.get() + AFTER;
    // What is older may be deleted or merged.
    let first = last.saturating_sub(kept.min(unmerged)) + RANGE;
    let sample = move || (first + seed % 3..=last).step_by(3);
    let before = Rc::new(RefCell::new(BTreeSet::new()));
    let note = before.clone();
    let mut act = move |rig: &Rig| {
        attack(&mut chance, rig);
        *note.borrow_mut() = states(rig, sample());
    };
    let is_running = seed.is_multiple_of(3);
    if is_running {
        rig.after(1000 * (seed / 3 % AFTER), move |rig| act(rig));
    } else {
        act(&rig);
    }
    rig.commits(AFTER);
    let ended = rig.open(&options);
    let after = states(&rig, sample());
    let lost: Vec<u64> = before.borrow().difference(&after).copied().collect();
    assert!(lost.is_empty(), "seed {seed}: {lost:?}, {ended:?}");
    // An opening looks at headers, and takes nothing for archived that it finds damaged.
    let info = rig.info();
    if !is_running && info.restorable && info.archived_lsn > 0 {
        let target = Target::Lsn(Lsn(info.archived_lsn));
        let plan = now(Plan::make(&rig.memory, &rig.catalog(), &target));
        assert!(plan.is_ok(), "seed {seed}: {:?}, {info:?}", plan.err());
    }
}

#[test]
fn hostile_objects_cost_no_state_that_is_kept() {
    // With the last one, a damaged copy of a merged object pretends to stand for more than the sound one.
    (0..600).chain([3353]).for_each(archive);
}
