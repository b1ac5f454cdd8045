//! Requests that wait for an update of a part of their stripe, so that one update serves several.

use super::cut::Piece;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_rt::{IoError, SLICES_MAX};

/// Most pieces of one update.
const BATCH_PIECES_MAX: usize = 64;

/// A request's part of a stripe that waits for an update.
pub(super) struct Pending {
    pub pieces: RefCell<Vec<Piece>>,
    pub durable: bool,
    pub result: RefCell<Option<Result<(), IoError>>>,
}

impl Pending {
    pub fn new(pieces: Vec<Piece>, durable: bool) -> Rc<Self> {
        Rc::new(Self {
            pieces: RefCell::new(pieces),
            durable,
            result: RefCell::new(None),
        })
    }
}

/// All of an array, by their stripe, the oldest first.
#[derive(Default)]
pub(super) struct Queue(RefCell<BTreeMap<u64, Vec<Rc<Pending>>>>);

impl Queue {
    pub fn push(&self, row: u64, one: Rc<Pending>) {
        self.0.borrow_mut().entry(row).or_default().push(one);
    }

    /// The oldest requests for `row` that do not overlap.
    pub fn take_batch(&self, row: u64) -> Vec<Rc<Pending>> {
        let mut pending = self.0.borrow_mut();
        let waiting = pending.entry(row).or_default();
        let (mut pieces, mut count): (Vec<Piece>, usize) = (Vec::new(), 0);
        for one in waiting.iter() {
            let more = one.pieces.borrow();
            let overlap = |piece: &Piece| pieces.iter().any(|other| piece.overlaps(other));
            if count > 0 && (more.iter().any(overlap) || pieces.len() >= BATCH_PIECES_MAX) {
                break;
            }
            pieces.extend(more.iter().cloned());
            count += 1;
        }
        let batch = waiting.drain(..count).collect();
        if waiting.is_empty() {
            pending.remove(&row);
        }
        batch
    }
}

const _: () = assert!(BATCH_PIECES_MAX + super::geometry::RAID5_MEMBERS_MAX <= SLICES_MAX);
