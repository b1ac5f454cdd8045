//! Lists in the model.

use super::content::Block;
use super::model::{State, cells};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tonearm_disk::{Disk, ListId};

/// The blocks of a list in order, with their content.
pub type List = Vec<(u64, Block)>;

/// A list operation of a unit. The end of the unit repeats it on the committed lists.
pub enum ListOp {
    NewList(u64),
    DeleteList(u64),
    Insert {
        block: u64,
        list: u64,
        after: Option<u64>,
    },
    Delete(u64),
}

/// The changes of a unit to lists.
#[derive(Default)]
pub struct UnitLists {
    pub log: Vec<ListOp>,
    /// Blocks that the unit has written.
    pub written: BTreeMap<u64, Block>,
}

/// Reads all lists of `disk` with the contents of their blocks.
///
/// # Errors
/// When something cannot be read, or a block is torn.
pub async fn read(disk: &Disk) -> Result<BTreeMap<u64, Rc<List>>, String> {
    let text = |error: tonearm_disk::DiskError| error.to_string();
    let cell = disk.block_size() as usize / super::content::CELLS;
    let mut lists = BTreeMap::new();
    for ListId(list) in disk.lists().await.map_err(text)? {
        let mut blocks = Vec::new();
        for block in disk.list_blocks(ListId(list)).await.map_err(text)? {
            let piece = disk.read_block(block).await.map_err(text)?;
            let stamps = cells(&[piece], cell).map_err(|what| format!("{block:?}: {what}"))?;
            let content = stamps.try_into().map_err(|_| "no whole block")?;
            blocks.push((block.0, content));
        }
        lists.insert(list, Rc::new(blocks));
    }
    Ok(lists)
}

/// Checks that every allocated block is on a list, so that what units that never ended had allocated is free.
///
/// # Errors
/// When a block is on no list, or a list is not consistent.
pub async fn check(disk: &Disk, state: &State) -> Result<(), String> {
    let report = disk.check_lists().await;
    let report = report.map_err(|error| error.to_string())?;
    if let Some(problem) = report.problems.first() {
        return Err(format!("the lists are inconsistent: {problem}"));
    }
    let blocks: u64 = state.lists.values().map(|list| list.len() as u64).sum();
    match (report.lists, report.blocks) == (state.lists.len() as u64, blocks) {
        true => Ok(()),
        false => Err(format!("the check of the lists counts {report:?}")),
    }
}

/// The list of `block`, and the position of the block in it.
pub fn find(lists: &BTreeMap<u64, Rc<List>>, block: u64) -> Option<(u64, usize)> {
    lists.iter().find_map(|(list, blocks)| {
        let at = blocks.iter().position(|(known, _)| *known == block)?;
        Some((*list, at))
    })
}

impl UnitLists {
    /// Applies the unit's changes to `lists`.
    ///
    /// # Errors
    /// Why a change is impossible.
    pub fn apply(&self, lists: &mut BTreeMap<u64, Rc<List>>) -> Result<(), String> {
        let mut freed = BTreeSet::new();
        for op in &self.log {
            match op {
                ListOp::NewList(list) => {
                    if lists.insert(*list, Rc::default()).is_some() {
                        return Err(format!("list {list} is there"));
                    }
                }
                ListOp::DeleteList(list) => {
                    let gone = lists.remove(list).ok_or("no list to delete")?;
                    freed.extend(gone.iter().map(|(block, _)| *block));
                }
                ListOp::Insert { block, list, after } => {
                    if find(lists, *block).is_some() {
                        return Err(format!("block {block} is on a list"));
                    }
                    let blocks = lists.get_mut(list).ok_or("no list to insert into")?;
                    let at = match after {
                        None => Some(0),
                        Some(after) => {
                            let at = blocks.iter().position(|(known, _)| known == after);
                            at.map(|at| at + 1)
                        }
                    };
                    let at = at.ok_or("no predecessor")?;
                    Rc::make_mut(blocks).insert(at, (*block, Block::default()));
                }
                ListOp::Delete(block) => {
                    let (list, at) = find(lists, *block).ok_or("no block to delete")?;
                    let blocks = lists.get_mut(&list).ok_or("no list")?;
                    Rc::make_mut(blocks).remove(at);
                    freed.insert(*block);
                }
            }
        }
        for (block, content) in &self.written {
            match find(lists, *block) {
                Some((list, at)) => {
                    let blocks = lists.get_mut(&list).ok_or("no list")?;
                    Rc::make_mut(blocks)[at].1 = *content;
                }
                None if freed.contains(block) => {}
                None => return Err(format!("block {block} was written and is gone")),
            }
        }
        Ok(())
    }
}
