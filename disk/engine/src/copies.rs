//! Which of the four copies of a superblock, or of an array's descriptor, count on a device.
//!
//! Copies 0 and 1 lie in the header area, at the front of the device, and 2 and 3 in the trailer area, at its end. Where the
//! trailer area is follows from the size of the device. A device may have had another size or another use before, and
//! what was at its end then may still be there. So each copy says where the trailer area was when it was written.
//!
//! Invariants:
//! 1. The newest valid copy at the front decides. Copies at the end count only if they are of the same member of the same
//!    store, and the copy at the front was written when the trailer area was where it is now. Then all four come from the
//!    same updates, and the one with the highest generation counts.
//! 2. Without a valid copy at the front those at the end count alone, if they were written where they are. A whole drive ends
//!    where its last partition ends, and is not the member that lies in the partition.
//! 3. A pair that has no copy that counts is the first one to be written. So an update never overwrites the only copies.

use std::cmp::Ordering;
use tonearm_format::{ArrayDescriptor, SUPERBLOCK_SLOTS, Superblock};

/// Copies in the header area, and as many in the trailer area.
const PAIR: usize = SUPERBLOCK_SLOTS as usize / 2;

/// A structure of which each device has four copies.
pub(crate) trait Replicated {
    /// Number of the update that wrote it.
    fn generation(&self) -> u64;
    /// Byte offset of the trailer area when it was written.
    fn trailer_offset(&self) -> u64;
    /// True when both are of the same member of the same store.
    fn is_of_member(&self, other: &Self) -> bool;
}

impl Replicated for Superblock {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn trailer_offset(&self) -> u64 {
        self.trailer_offset
    }

    fn is_of_member(&self, other: &Self) -> bool {
        (self.store, self.member_index) == (other.store, other.member_index)
    }
}

impl Replicated for ArrayDescriptor {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn trailer_offset(&self) -> u64 {
        self.trailer_offset
    }

    fn is_of_member(&self, other: &Self) -> bool {
        (self.store, self.array, self.own_index) == (other.store, other.array, other.own_index)
    }
}

/// The valid copies on a device, by their slot.
pub(crate) struct Copies<T>([Option<T>; SUPERBLOCK_SLOTS as usize]);

impl<T> Default for Copies<T> {
    fn default() -> Self {
        Self([const { None }; SUPERBLOCK_SLOTS as usize])
    }
}

impl<T: Replicated> Copies<T> {
    /// Takes the valid copy of `slot`.
    pub fn put(&mut self, slot: u64, copy: T) {
        self.0[slot as usize] = Some(copy);
    }

    /// Drops the copies at the end that do not count, on a device whose trailer area is at `trailer_offset`.
    pub fn drop_foreign(&mut self, trailer_offset: u64) {
        let (front, end) = self.0.split_at_mut(PAIR);
        let front = front.iter().flatten().max_by_key(|copy| copy.generation());
        let is_here = |copy: &T| copy.trailer_offset() == trailer_offset;
        for copy in end {
            copy.take_if(|copy| {
                !is_here(copy)
                    || front.is_some_and(|front| !is_here(front) || !copy.is_of_member(front))
            });
        }
    }

    /// Slots without a copy that counts.
    pub fn missing(&self) -> Vec<u64> {
        let slots = (0..SUPERBLOCK_SLOTS).zip(&self.0);
        let missing = slots.filter(|(_, copy)| copy.is_none());
        missing.map(|(slot, _)| slot).collect()
    }

    /// The first slot of the pair to which an update of `generation` goes first: that without the newest copy.
    pub fn first_pair(&self, generation: u64) -> u64 {
        let newest = |pair: &[Option<T>]| pair.iter().flatten().map(T::generation).max();
        let (front, end) = self.0.split_at(PAIR);
        match newest(front).cmp(&newest(end)) {
            Ordering::Less => 0,
            Ordering::Greater => PAIR as u64,
            Ordering::Equal => generation % 2 * PAIR as u64,
        }
    }

    /// The copy with the highest generation and its slot, the first of several.
    pub fn into_newest(self) -> Option<(T, u64)> {
        let copies = self.0.into_iter().enumerate();
        let copies = copies.filter_map(|(slot, copy)| Some((copy?, slot as u64)));
        // Of several highest ones `max_by_key` returns the last.
        copies.rev().max_by_key(|(copy, _)| copy.generation())
    }
}

#[cfg(test)]
#[path = "copies_test.rs"]
mod copies_test;
