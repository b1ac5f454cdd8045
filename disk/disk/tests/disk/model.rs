//! Recovery units over lists against a naive Logical Disk with its three states: a shadow for each open unit, the
//! committed state, and the persistent state, which is left after a power cut.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, bytes, live, store};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_disk::{Aru, BlockId, Disk, DiskError, ErrorKind, ListId, OpenOptions};

/// Units that may be open at once; one more stands for simple operations.
const UNITS: usize = 3;

/// A state: lists in order, and the byte that fills each block.
#[derive(Clone, Default, PartialEq, Debug)]
struct State {
    lists: BTreeMap<ListId, Vec<BlockId>>,
    data: BTreeMap<BlockId, u8>,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    NewList(ListId),
    DeleteList(ListId),
    Insert(BlockId, ListId, Option<BlockId>),
    Delete(BlockId),
}

impl State {
    /// Does an operation; `None` when it is not possible. Gives the blocks that it frees.
    fn apply(&mut self, op: Op) -> Option<Vec<BlockId>> {
        match op {
            Op::NewList(list) => {
                self.lists.insert(list, Vec::new());
                Some(Vec::new())
            }
            Op::DeleteList(list) => {
                let blocks = self.lists.remove(&list)?;
                for block in &blocks {
                    self.data.remove(block);
                }
                Some(blocks)
            }
            Op::Insert(block, list, after) => {
                let blocks = self.lists.get_mut(&list)?;
                let at = match after {
                    None => 0,
                    Some(after) => 1 + blocks.iter().position(|other| *other == after)?,
                };
                blocks.insert(at, block);
                self.data.insert(block, 0);
                Some(Vec::new())
            }
            Op::Delete(block) => {
                self.data.remove(&block)?;
                for blocks in self.lists.values_mut() {
                    blocks.retain(|other| *other != block);
                }
                Some(vec![block])
            }
        }
    }
}

/// An open unit of the model.
#[derive(Default)]
struct Unit {
    log: Vec<Op>,
    writes: BTreeMap<BlockId, u8>,
    /// Commits to lists when its first list operation came: while none has come since, its view is exact.
    since: Option<u64>,
}

impl Unit {
    /// The state as this unit sees it, or `None` when what it did is not possible any more. Its own writes are
    /// on top, where the blocks still are.
    fn over(&self, committed: &State) -> Option<(State, BTreeSet<BlockId>)> {
        let (mut state, mut freed) = (committed.clone(), BTreeSet::new());
        for op in &self.log {
            freed.extend(state.apply(*op)?);
        }
        for (block, byte) in &self.writes {
            match state.data.get_mut(block) {
                Some(content) => *content = *byte,
                None if freed.contains(block) => {}
                None => return None,
            }
        }
        Some((state, freed))
    }
}

#[derive(Default)]
struct Model {
    /// Committed states since the persistent one, which is the first; never empty.
    history: Vec<State>,
    units: [Option<Unit>; UNITS],
    /// Commits that have changed lists.
    version: u64,
    /// Identifiers that are free again, and the units that may know them.
    quarantine: Vec<(Result<BlockId, ListId>, BTreeSet<usize>)>,
}

impl Model {
    fn committed(&self) -> &State {
        self.history.last().unwrap()
    }

    fn open(&self) -> BTreeSet<usize> {
        (0..UNITS)
            .filter(|unit| self.units[*unit].is_some())
            .collect()
    }

    fn check_fresh(&self, id: Result<BlockId, ListId>) {
        let quarantined = self
            .quarantine
            .iter()
            .any(|(other, units)| *other == id && !units.is_empty());
        assert!(!quarantined, "{id:?} is given out while a unit may know it");
        let used = match id {
            Ok(block) => self.committed().data.contains_key(&block),
            Err(list) => self.committed().lists.contains_key(&list),
        };
        let inserted = self.units.iter().flatten().flat_map(|unit| &unit.log);
        let taken = inserted.into_iter().any(|op| match op {
            Op::NewList(list) => Err(*list) == id,
            Op::Insert(block, ..) => Ok(*block) == id,
            _ => false,
        });
        assert!(!used && !taken, "{id:?} is given out twice");
    }

    fn ended(&mut self, slot: usize) {
        for (_, units) in &mut self.quarantine {
            units.remove(&slot);
        }
    }

    /// A unit commits; false when it conflicts.
    fn commit(&mut self, unit: &Unit, slot: Option<usize>) -> bool {
        let Some((state, freed)) = unit.over(self.committed()) else {
            return false;
        };
        let mut open = self.open();
        if let Some(slot) = slot {
            open.remove(&slot);
        }
        let lists = unit.log.iter().filter_map(|op| match op {
            Op::DeleteList(list) => Some(Err(*list)),
            _ => None,
        });
        for id in freed.into_iter().map(Ok).chain(lists) {
            self.quarantine.push((id, open.clone()));
        }
        if !unit.log.is_empty() {
            self.version += 1;
        }
        self.history.push(state);
        true
    }
}

/// A step of a case.
#[derive(Clone, Debug)]
struct Step {
    what: u8,
    who: usize,
    a: usize,
    b: usize,
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..32, 0..=UNITS, any::<u16>(), any::<u16>()).prop_map(|(what, who, a, b)| Step {
        what,
        who,
        a: a.into(),
        b: b.into(),
    })
}

fn pick<T: Copy>(from: impl Iterator<Item = T>, index: usize) -> Option<T> {
    let all: Vec<T> = from.collect();
    all.get(index % all.len().max(1)).copied()
}

struct Run {
    disk: Disk,
    units: [Option<Aru>; UNITS],
    model: Model,
}

fn is_miss(error: &DiskError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Conflict
    )
}

impl Run {
    /// One list operation or write of a unit, or a simple one; `Some` when it was possible.
    async fn change(&mut self, step: &Step) {
        let slot = step.who;
        let open = slot < UNITS && self.units[slot].is_some();
        // The unit that does it: for a simple operation one that ends at once.
        let mut simple = Unit::default();
        let version = self.model.version;
        let committed = self.model.committed().clone();
        let unit = if open {
            self.model.units[slot].as_mut().unwrap()
        } else {
            &mut simple
        };
        let view = unit.over(&committed).map(|(state, _)| state);
        // A unit that cannot end any more, because others have deleted what it wrote, has no state to compare with.
        let exact = view.is_some() && unit.since.is_none_or(|since| since == version);
        // If others have committed in between, any known identifier serves.
        let seen = view.clone().unwrap_or_else(|| committed.clone());
        let list = pick(seen.lists.keys().copied(), step.a).unwrap_or(ListId(9999));
        let block = pick(seen.data.keys().copied(), step.b).unwrap_or(BlockId(9999));
        let of_list = seen.lists.get(&list).cloned().unwrap_or_default();
        let after = match step.b % 4 {
            0 => None,
            1 => Some(block),
            _ => pick(of_list.iter().copied(), step.b / 4),
        };
        let disk = self.disk.clone();
        macro_rules! call {
            ($name:ident ( $($argument:expr),* )) => {
                if open {
                    self.units[slot].as_mut().unwrap().$name($($argument),*).await
                } else {
                    disk.$name($($argument),*).await
                }
            };
        }
        let byte = (step.a % 255) as u8 + 1;
        let mut write = None;
        let done: Result<Option<Op>, DiskError> = match step.what {
            0..=2 => call!(new_list()).map(|list| Some(Op::NewList(list))),
            3 => call!(delete_list(list)).map(|()| Some(Op::DeleteList(list))),
            4..=11 => call!(new_block(list, after)).map(|new| Some(Op::Insert(new, list, after))),
            12..=14 => call!(delete_block(block)).map(|()| Some(Op::Delete(block))),
            _ => {
                write = Some(block);
                call!(write_block(block, &[byte; BLOCK])).map(|()| None)
            }
        };
        let expected = match (step.what, write) {
            (_, Some(block)) => seen.data.contains_key(&block),
            (0..=2, _) => true,
            (3, _) => seen.lists.contains_key(&list),
            (4..=11, _) => {
                seen.lists.contains_key(&list) && after.is_none_or(|after| of_list.contains(&after))
            }
            _ => seen.data.contains_key(&block),
        };
        let op = match done {
            Err(error) => {
                assert!(is_miss(&error), "{error}");
                assert!(!expected || !exact, "{error}: {step:?}");
                return;
            }
            Ok(op) => op,
        };
        assert!(expected || !exact, "was possible: {step:?}");
        match op {
            Some(Op::NewList(list)) => self.model.check_fresh(Err(list)),
            Some(Op::Insert(block, ..)) => self.model.check_fresh(Ok(block)),
            _ => {}
        }
        let unit = if open {
            self.model.units[slot].as_mut().unwrap()
        } else {
            &mut simple
        };
        if let Some(op) = op {
            unit.since.get_or_insert(version);
            unit.log.push(op);
            if let Op::Delete(block) = op {
                unit.writes.remove(&block);
            }
        }
        if let Some(block) = write {
            unit.writes.insert(block, byte);
        }
        if !open {
            assert!(
                self.model.commit(&simple, None),
                "{simple_step:?}",
                simple_step = step
            );
        }
    }

    async fn look(&self, step: &Step) {
        let slot = step.who;
        let unit = self.units.get(slot).and_then(Option::as_ref);
        let of_model = self.model.units.get(slot).and_then(Option::as_ref);
        let committed = self.model.committed();
        let block = pick(committed.data.keys().copied(), step.a);
        let block = block.unwrap_or(BlockId(step.a as u64 % 600));
        let list = pick(committed.lists.keys().copied(), step.b).unwrap_or(ListId(77));
        let exact =
            of_model.is_none_or(|unit| unit.since.is_none_or(|since| since == self.model.version));
        let view = match of_model {
            Some(unit) => unit.over(committed).map(|(state, _)| state),
            None => Some(committed.clone()),
        };
        let read = match unit {
            Some(unit) => unit.read_block(block).await,
            None => self.disk.read_block(block).await,
        };
        let read = read.map(|piece| bytes(vec![piece])[BLOCK - 1]);
        if let Some(view) = view.as_ref().filter(|_| exact) {
            let expected = view.data.get(&block).copied();
            assert_eq!(read.ok(), expected, "{block} {step:?}");
        }
        let walked = match unit {
            Some(unit) => unit.list_blocks(list).await,
            None => self.disk.list_blocks(list).await,
        };
        if let Err(error) = &walked {
            assert!(is_miss(error), "{error}");
        }
        if let Some(view) = view.filter(|_| exact) {
            assert_eq!(
                walked.ok(),
                view.lists.get(&list).cloned(),
                "{list} {step:?}"
            );
        }
    }

    async fn end(&mut self, slot: usize) {
        let (Some(aru), Some(unit)) = (self.units[slot].take(), self.model.units[slot].take())
        else {
            return;
        };
        let possible = self.model.commit(&unit, Some(slot));
        self.model.ended(slot);
        match aru.end().await {
            Ok(_) => assert!(
                possible,
                "it should have been a conflict: {unit_log:?}",
                unit_log = unit.log
            ),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(!possible, "{error}: {:?} {:?}", unit.log, unit.writes);
            }
        }
    }

    async fn whole(disk: &Disk) -> State {
        let mut state = State::default();
        for list in disk.lists().await.unwrap() {
            let blocks = disk.list_blocks(list).await.unwrap();
            for block in &blocks {
                let content = bytes(vec![disk.read_block(*block).await.unwrap()]);
                assert!(
                    content.iter().all(|byte| *byte == content[0]),
                    "all of a block"
                );
                state.data.insert(*block, content[0]);
            }
            state.lists.insert(list, blocks);
        }
        let report = disk.check_lists().await.unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(report.lists, state.lists.len() as u64);
        assert_eq!(report.blocks, state.data.len() as u64);
        state
    }
}

/// Runs steps until a power cut or the closing of the store. Returns the model after them, and the number of steps
/// done.
async fn life(disk: Disk, mut model: Model, steps: Vec<Step>) -> (Model, usize, bool) {
    // The disk must have a state that was committed at or after the last flush.
    let found = Run::whole(&disk).await;
    let known = model.history.iter().rposition(|state| *state == found);
    assert!(
        known.is_some(),
        "after a cut: {found:?} is none of {:?}",
        model.history
    );
    model = Model {
        history: vec![found],
        ..Model::default()
    };
    let mut run = Run {
        disk,
        units: [None, None, None],
        model,
    };
    for (index, step) in steps.iter().enumerate() {
        let slot = step.who;
        match step.what {
            0..=17 => run.change(step).await,
            18..=21 => run.look(step).await,
            22..=25 if slot < UNITS && run.units[slot].is_none() => {
                run.units[slot] = Some(run.disk.begin());
                run.model.units[slot] = Some(Unit::default());
            }
            22..=25 => {}
            26..=27 if slot < UNITS => run.end(slot).await,
            28 if slot < UNITS => {
                drop(run.units[slot].take());
                let unit = run.model.units[slot].take().unwrap_or_default();
                let open = run.model.open();
                for op in unit.log {
                    match op {
                        Op::NewList(list) => run.model.quarantine.push((Err(list), open.clone())),
                        Op::Insert(block, ..) => {
                            run.model.quarantine.push((Ok(block), open.clone()))
                        }
                        _ => {}
                    }
                }
                run.model.ended(slot);
            }
            29 => {
                run.disk.flush().await.unwrap();
                run.model.history.drain(..run.model.history.len() - 1);
            }
            30 if step.a % 4 == 0 => {
                // In order: what is committed is persistent, open units are not.
                run.model.history.drain(..run.model.history.len() - 1);
                return (run.model, index + 1, true);
            }
            31 if step.a % 3 == 0 => return (run.model, index + 1, false),
            _ => {}
        }
    }
    let whole = Run::whole(&run.disk).await;
    assert_eq!(whole, *run.model.committed());
    for slot in 0..UNITS {
        run.end(slot).await;
    }
    assert_eq!(Run::whole(&run.disk).await, *run.model.committed());
    run.model.history.drain(..run.model.history.len() - 1);
    (run.model, steps.len(), true)
}

fn case(steps: Vec<Step>, seed: u64, small: bool) {
    let mut image = store(2 << 20);
    let mut model = Model {
        history: vec![State::default()],
        ..Model::default()
    };
    let mut at = 0;
    let mut lives = 0;
    // One more life at the end, which looks at what there is.
    let mut over = false;
    while !over {
        over = at == steps.len();
        let rest = steps[at..].to_vec();
        let options = OpenOptions {
            memory_bytes: if small { 512 << 10 } else { 64 << 20 },
            ..OpenOptions::default()
        };
        let moved = std::mem::take(&mut model);
        let ((left, done), next) = live(&image, seed << 8 | lives, options, async move |disk| {
            let (model, done, orderly) = life(disk, moved, rest).await;
            ((model, done), orderly)
        });
        (model, image) = (left, next);
        at += done;
        lives += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_in_units_are_as_in_a_naive_logical_disk(
        steps in prop::collection::vec(step(), 1..160),
        seed: u16,
        small: bool,
    ) {
        case(steps, seed.into(), small);
    }
}
