//! The operations of clients on lists.

use super::client::{Client, Done, done};
use super::content::{Block, CELLS, bytes_of};
use super::lists::{ListOp, find};
use super::model::{Unit, cells};
use std::rc::Rc;
use tonearm_disk::{Aru, BlockId, DiskError, ErrorKind, ListId};

/// Approximate number of lists.
const LISTS: usize = 5;
/// Approximate number of blocks on all lists.
const BLOCKS: usize = 60;

impl Client {
    /// A random operation on lists within a unit.
    pub async fn list(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        // The lists as the unit sees them, unless another client commits before the operation.
        let mut lists = self.now().lists.clone();
        if unit.lists.apply(&mut lists).is_err() {
            return Ok(Done::Yes);
        }
        let count: usize = lists.values().map(|list| list.len()).sum();
        let ids: Vec<u64> = lists.keys().copied().collect();
        let Some(list) = ids.get(self.below(ids.len() as u64) as usize).copied() else {
            return self.new_list(aru, unit).await;
        };
        let blocks: Vec<u64> = lists[&list].iter().map(|(block, _)| *block).collect();
        let block = blocks
            .get(self.below(blocks.len() as u64) as usize)
            .copied();
        match (self.below(20), block) {
            (0..2, _) if ids.len() < LISTS => self.new_list(aru, unit).await,
            (2, _) => {
                let made = aru.delete_list(ListId(list)).await;
                self.log(unit, made, ListOp::DeleteList(list))
            }
            (3..6, Some(block)) => {
                let made = aru.delete_block(BlockId(block)).await;
                let done = self.log(unit, made, ListOp::Delete(block))?;
                if matches!(done, Done::Yes) {
                    unit.lists.written.remove(&block);
                }
                Ok(done)
            }
            (6..12, Some(block)) => {
                let stamps = self.stamps(CELLS as u64);
                let data = bytes_of(&stamps, self.cell());
                let wrote = done_or_gone(aru.write_block(BlockId(block), &data).await)?;
                if matches!(wrote, Done::Yes) {
                    let content: Block =
                        stamps.try_into().map_err(|_| "a block has eight cells")?;
                    unit.lists.written.insert(block, content);
                }
                Ok(wrote)
            }
            (12..14, Some(block)) => self.look_at(aru, unit, block).await,
            _ if count < BLOCKS => {
                let after = block.filter(|_| self.below(4) > 0);
                match aru.new_block(ListId(list), after.map(BlockId)).await {
                    Ok(BlockId(block)) => {
                        unit.lists.log.push(ListOp::Insert { block, list, after });
                        Ok(Done::Yes)
                    }
                    Err(error) => done_or_gone(Err(error)),
                }
            }
            _ => Ok(Done::Yes),
        }
    }

    /// A random operation on lists outside of a unit.
    pub async fn simple_list(&mut self) -> Result<(), String> {
        let state = self.now();
        let ids: Vec<u64> = state.lists.keys().copied().collect();
        let list = ids.get(self.below(ids.len() as u64) as usize).copied();
        let blocks = list.map_or_else(Rc::default, |list| state.lists[&list].clone());
        let block = blocks
            .get(self.below(blocks.len() as u64) as usize)
            .map(|(block, _)| *block);
        let mut unit = Unit::default();
        let result = match (self.below(8), list, block) {
            (0, Some(list), _) => {
                unit.lists.log.push(ListOp::DeleteList(list));
                self.disk.delete_list(ListId(list)).await
            }
            (1, _, Some(block)) => {
                unit.lists.log.push(ListOp::Delete(block));
                self.disk.delete_block(BlockId(block)).await
            }
            (2..5, _, Some(block)) => {
                let stamps = self.stamps(CELLS as u64);
                let data = bytes_of(&stamps, self.cell());
                let content: Block = stamps.try_into().map_err(|_| "a block has eight cells")?;
                unit.lists.written.insert(block, content);
                self.disk.write_block(BlockId(block), &data).await
            }
            (_, Some(list), after) if blocks.len() < BLOCKS => {
                let made = self.disk.new_block(ListId(list), after.map(BlockId)).await;
                made.map(|BlockId(block)| {
                    unit.lists.log.push(ListOp::Insert { block, list, after });
                })
            }
            (_, None, _) => {
                let made = self.disk.new_list().await;
                made.map(|ListId(list)| unit.lists.log.push(ListOp::NewList(list)))
            }
            _ => return Ok(()),
        };
        // There was no await since the commit.
        let mut model = self.model.borrow_mut();
        match result {
            Ok(()) => {
                let after = unit.apply(&model.states.now());
                let after = after.map_err(|why| {
                    format!("a simple operation has succeeded although it must not: {why}")
                })?;
                model.end(&unit, after);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
            // Only a commit of another client can have removed what the operation needs.
            Err(error) if gone(&error) && !Rc::ptr_eq(&state, &model.states.now()) => Ok(()),
            Err(error) => Err(format!("a simple operation on lists: {error}")),
        }
    }

    async fn new_list(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        match aru.new_list().await {
            Ok(ListId(list)) => {
                unit.lists.log.push(ListOp::NewList(list));
                Ok(Done::Yes)
            }
            Err(error) => done(Err(error), "a new list"),
        }
    }

    fn log(
        &mut self,
        unit: &mut Unit,
        made: Result<(), DiskError>,
        op: ListOp,
    ) -> Result<Done, String> {
        let done = done_or_gone(made)?;
        if matches!(done, Done::Yes) {
            unit.lists.log.push(op);
        }
        Ok(done)
    }

    /// Reads a block as the unit sees it, and compares it with the model.
    async fn look_at(&mut self, aru: &Aru, unit: &Unit, block: u64) -> Result<Done, String> {
        let before = self.now();
        let piece = match aru.read_block(BlockId(block)).await {
            Ok(piece) => piece,
            Err(error) => return done_or_gone(Err(error)),
        };
        let found = cells(&[piece], self.cell())?;
        let mut lists = before.lists.clone();
        let same = Rc::ptr_eq(&before, &self.now()) && unit.lists.apply(&mut lists).is_ok();
        match find(&lists, block) {
            Some((list, at)) if same && lists[&list][at].1[..] != found[..] => Err(format!(
                "a unit sees block {block} as {found:x?} in place of {:x?}",
                lists[&list][at].1
            )),
            _ => Ok(Done::Yes),
        }
    }
}

/// Another client may have deleted the list or block. The unit may notice that now or only at its end.
fn done_or_gone(result: Result<(), DiskError>) -> Result<Done, String> {
    match result {
        Err(error) if gone(&error) => Ok(Done::NoRoom),
        other => done(other, "an operation on lists"),
    }
}

/// True when another client has deleted or changed the list or block.
fn gone(error: &DiskError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Conflict
    )
}
