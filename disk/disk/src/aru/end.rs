//! The end of a recovery unit: repeats all its operations over the committed state, as one commit.

use super::names::Overlay;
use super::volume::Outcome;
use super::{Aru, DiskError};
use crate::lists::area::Lists;
use crate::lists::replay::Replay;
use crate::map;
use crate::memory::CommitMemory;
use crate::pages::Edits;
use crate::partial::{Parts, reread_changed};
use crate::shadow::{Key, Version};
use crate::spill::Spilled;
use crate::state::Life;
use crate::table;
use crate::tree;
use async_recursion::async_recursion as boxed;
use std::rc::Rc;
use tonearm_base::Lsn;
use tonearm_engine::CommitChange;

/// The changes that the end of a unit makes.
struct Plan {
    changes: Vec<CommitChange>,
    /// One for each volume of the unit.
    outcomes: Vec<Outcome>,
    names: Overlay,
}

impl Aru {
    /// Ends the unit. All callers see all of it from then on. It is durable with `Disk::wait_durable` of the result, or
    /// with a flush. The end of a unit without changes costs nothing.
    ///
    /// # Errors
    /// `Conflict` when units of others that have ended before make it impossible; read-only, full or failed. Nothing of
    /// the unit is applied then.
    #[boxed(?Send)]
    pub async fn end(mut self) -> Result<Lsn, DiskError> {
        if self.has_no_changes() && self.tree.is_none() {
            return Ok(Lsn(0));
        }
        let core = self.core.clone();
        let engine = &core.engine;
        let mut memory = CommitMemory::default();
        let (admission, replay, tree) = loop {
            self.refresh(true).await?;
            let replay = self.replay(&core.lists).await?;
            let tree = match &mut self.tree {
                Some(edit) => Some(tree::run(&core, self.frees, edit).await?),
                None => None,
            };
            let mut cost = self.cost(replay.as_ref(), tree.as_ref());
            while self.shadow.in_memory() > 0 && !engine.fits(cost.0, cost.1) {
                self.spill_oldest().await?;
                cost = self.cost(replay.as_ref(), tree.as_ref());
            }
            let (blocks, ranges) = cost;
            memory.reserve(engine, cost).await?;
            let admission = engine.admit(blocks, ranges).await?;
            self.refresh(false).await?;
            let now = self.cost(replay.as_ref(), tree.as_ref());
            let fits = now.0 <= blocks && now.1 <= ranges;
            let current = replay.as_ref().is_none_or(Replay::is_current)
                && tree.as_ref().is_none_or(Edits::is_current)
                && self.holds.as_ref().is_none_or(|holds| holds());
            if fits && current && self.shadow.stale().is_empty() {
                break (admission, replay, tree);
            }
        };
        if let (Some(replay), Some(serial)) = (&replay, core.lists.serial()) {
            for block in &replay.freed {
                self.shadow.remove(&core.shadows, (serial, *block));
            }
        }
        let mut plan = self.plan()?;
        let replayed = replay.map(|replay| replay.changes(&mut plan.changes));
        let pages = tree.map(|tree| tree.finish(&mut plan.changes));
        if plan.changes.is_empty() {
            return Ok(Lsn(0));
        }
        let lsn = engine.commit(admission, plan.changes)?;
        // The engine has charged each buffer.
        drop(memory);
        self.invalidate_watches();
        self.shadow.committed(&self.core.shadows, lsn);
        self.apply(plan.outcomes, plan.names);
        if let Some(replayed) = replayed {
            let taken = std::mem::take(&mut self.lists.taken);
            core.lists.release(&taken);
            replayed.apply(&core.lists);
        }
        if let Some(pages) = pages.filter(|pages| !pages.is_empty()) {
            core.tree.commit(pages);
        }
        Ok(lsn)
    }

    /// Repeats the unit's list operations over the present committed lists.
    ///
    /// # Errors
    /// When one is not possible any more, or a block that was written is gone.
    async fn replay<'a>(&self, lists: &'a Lists) -> Result<Option<Replay<'a>>, DiskError> {
        let area = lists.serial();
        let first = area.and_then(|area| self.shadow.next(area, 0..u64::MAX));
        if self.lists.log.is_empty() && first.is_none() {
            return Ok(None);
        }
        loop {
            let mut replay = Replay::new(lists);
            let written = area.into_iter().flat_map(|area| self.shadow.indexes(area));
            match replay.run(&self.lists.log, written).await {
                Ok(()) => return Ok(Some(replay)),
                Err(error) if replay.is_current() => return Err(error),
                // The replay has read pages of different commits.
                Err(_) => {}
            }
        }
    }

    /// Reads again the rest of blocks that the unit has written in part, if others have committed to it. Afterwards
    /// none of these blocks is stale, except for blocks in home space. With `spilled` those are read again too, and
    /// come to memory.
    ///
    /// # Errors
    /// `Conflict` when others have deleted or shrunk the volume, or the store fails.
    async fn refresh(&mut self, spilled: bool) -> Result<(), DiskError> {
        let unit = self;
        reread_changed(&mut UnitParts { unit, spilled }).await
    }

    /// Notes the commit's changes in the watches of the volumes: writers of parts of these blocks read the rest again.
    fn invalidate_watches(&self) {
        for volume in &self.volumes {
            let watched = volume.shared.borrow().watched.clone();
            if !watched.is_empty() {
                let indexes = self.shadow.indexes(volume.serial);
                indexes.for_each(|index| watched.change(index..index + 1));
            }
        }
    }

    /// Most blocks of data and ranges that the unit's commit can have, in the present state.
    fn cost(&self, replay: Option<&Replay<'_>>, tree: Option<&Edits>) -> (u64, u64) {
        let (mut blocks, mut ranges) = replay.map_or((0, 0), Replay::cost);
        blocks += tree.map_or(0, Edits::len);
        (blocks, ranges) = (
            blocks + self.shadow.in_memory(),
            ranges.max(u64::from(self.frees)) + self.shadow.spilled(),
        );
        for volume in &self.volumes {
            if volume.changes_entry() || !self.names.is_empty() {
                blocks += 1;
            }
            if volume.deleted || volume.size.is_some() {
                ranges += volume.shared.borrow().entry.extents.len() as u64;
            }
        }
        (blocks, ranges)
    }

    fn plan(&mut self) -> Result<Plan, DiskError> {
        let core = self.core.clone();
        let (engine, pool, block_size) = (&core.engine, &core.pool, self.block());
        let mut table = core.table();
        let names = self.names.replay(&table.volumes)?;
        let mut changes = Vec::with_capacity(self.volumes.len() + 1);
        let mut outcomes = Vec::with_capacity(self.volumes.len());
        for volume in &mut self.volumes {
            let new_name = names
                .iter()
                .find(|(_, of)| of.as_ref().is_some_and(|of| Rc::ptr_eq(of, &volume.shared)))
                .map(|(name, _)| name.as_str());
            let outcome = volume.outcome(new_name, &mut table, engine.size_blocks(), block_size)?;
            let state = volume.shared.borrow();
            match &outcome {
                Outcome::Same => {}
                Outcome::Put { entry, cut } => {
                    // The cut comes first in the commit, before what is written after it.
                    let lost = map::split(&state.entry.extents, *cut).1;
                    changes.extend(lost.iter().map(map::trim_of));
                    changes.push(table::put(engine, pool, state.slot, entry));
                }
                Outcome::Gone if volume.created => {}
                Outcome::Gone => {
                    changes.extend(state.entry.extents.iter().map(map::trim_of));
                    changes.push(table::clear(engine, pool, state.slot));
                }
            }
            drop(state);
            outcomes.push(outcome);
        }
        self.push_blocks(&outcomes, &mut changes);
        Ok(Plan {
            changes,
            outcomes,
            names,
        })
    }

    /// Adds the shadow blocks at their homes.
    fn push_blocks(&self, outcomes: &[Outcome], changes: &mut Vec<CommitChange>) {
        let block_size = self.block() as usize;
        let mut blocks = self.shadow.blocks().peekable();
        while let Some(((serial, _), _)) = blocks.peek() {
            let serial = *serial;
            let mut volumes = self.volumes.iter().zip(outcomes);
            let (volume, outcome) = volumes
                .find(|(volume, _)| volume.serial == serial)
                .expect("a shadow block is of a volume of the unit");
            let state = volume.shared.borrow();
            let extents = match outcome {
                Outcome::Put { entry, .. } => &entry.extents,
                Outcome::Same | Outcome::Gone => &state.entry.extents,
            };
            while let Some(((_, index), version)) = blocks.next_if(|((of, _), _)| *of == serial) {
                let home = map::home(extents, index);
                let data = match version {
                    Version::Memory(data) => data,
                    Version::Spilled(spilled) => {
                        push_move(changes, home, *spilled);
                        continue;
                    }
                };
                match changes.last_mut() {
                    Some(CommitChange::Write { first, data: last })
                        if *first + (last.len() / block_size) as u64 == home
                            && last.is_followed_by(data) =>
                    {
                        *last = last.joined(data);
                    }
                    _ => changes.push(CommitChange::Write {
                        first: home,
                        data: data.clone(),
                    }),
                }
            }
        }
    }

    /// Changes the table and the volumes after the commit.
    fn apply(&mut self, outcomes: Vec<Outcome>, names: Overlay) {
        let block_size = self.block();
        for (volume, outcome) in self.volumes.iter().zip(outcomes) {
            let mut state = volume.shared.borrow_mut();
            match outcome {
                Outcome::Same => state.changes.note(),
                Outcome::Put { entry, cut } => {
                    state.change(entry, cut.saturating_mul(block_size));
                    state.life = Life::Live;
                }
                Outcome::Gone => {
                    state.changes.note();
                    state.life = Life::Deleted;
                }
            }
        }
        if names.is_empty() {
            return;
        }
        let mut table = self.core.table();
        table.names.note();
        for (name, volume) in names {
            match volume {
                Some(volume) => table.volumes.insert(name, volume),
                None => table.volumes.remove(&name),
            };
        }
    }
}

/// The blocks that a unit has written in part; those in home space only if `spilled`.
struct UnitParts<'a> {
    unit: &'a mut Aru,
    spilled: bool,
}

impl Parts for UnitParts<'_> {
    type Block = Key;

    fn stale(&self) -> Vec<Key> {
        let shadow = &self.unit.shadow;
        let mut stale = shadow.stale();
        if !self.spilled {
            stale.retain(|key| matches!(shadow.get(*key), Some(Version::Memory(_))));
        }
        stale
    }

    async fn read_rest(&mut self, key: Key) -> Result<(), DiskError> {
        let unit = &mut *self.unit;
        if self.spilled {
            unit.make_room(unit.block()).await?;
        }
        let known = unit.volumes.iter().find(|known| known.serial == key.0);
        let known = known.expect("a shadow block is of a volume of the unit");
        known.check()?;
        let volume = unit.core.handle(known.shared.clone());
        let part = unit.shadow.part(key).cloned().map(Box::new);
        let part = part.expect("a stale block is written in part");
        part.watch.look();
        let mut buf = unit.core.pool.alloc(unit.block() as usize);
        unit.merge(&volume, key.1, &mut buf).await?;
        let version = Version::Memory(buf.share());
        unit.shadow
            .put(&unit.core.shadows, key, version, Some(part));
        Ok(())
    }
}

/// Adds a block that gets spilled content.
fn push_move(changes: &mut Vec<CommitChange>, home: u64, spilled: Spilled) {
    if let Some(CommitChange::Move { to, from, crcs }) = changes.last_mut()
        && *to + crcs.len() as u64 == home
        && *from + crcs.len() as u64 == spilled.block
    {
        crcs.push(spilled.crc);
        return;
    }
    changes.push(CommitChange::Move {
        to: home,
        from: spilled.block,
        crcs: vec![spilled.crc],
    });
}
