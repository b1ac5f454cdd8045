//! Address arithmetic over all members: store blocks and groups to members and byte offsets.

use crate::queue::Queue;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use tonearm_device::Device;
use tonearm_format::Geometry;
use tonearm_rt::Rt;

/// One data member.
pub struct OverwriteMember {
    /// Its device.
    pub device: Rc<dyn Device>,
    /// Where its groups lie.
    pub geometry: Geometry,
}

/// One data member in use.
pub(crate) struct Member {
    pub queue: Rc<Queue>,
    pub geometry: Cell<Geometry>,
    /// Store number of its first group.
    pub first_group: u64,
    /// True when everything that reads of its tables return is durable. Then the other slot of a table that was read
    /// may be written.
    pub is_durable: Cell<bool>,
}

/// All data members, concatenated.
pub(crate) struct Places {
    pub members: Vec<Member>,
    pub block_size: usize,
    pub group_blocks: u64,
    pub size_blocks: Cell<u64>,
}

impl Places {
    /// # Panics
    /// When the members differ in block size or do not cover the size: the superblock was checked.
    pub fn new(
        rt: &Rt,
        members: Vec<OverwriteMember>,
        size_blocks: u64,
        writes_while_reading: u64,
    ) -> Self {
        let first = members.first().expect("a store has a data member");
        let first = first.geometry;
        let mut groups = 0;
        let members: Vec<_> = members
            .into_iter()
            .map(|OverwriteMember { device, geometry }| {
                assert_eq!(geometry.block_size, first.block_size, "one block size");
                let first_group = groups;
                groups += geometry.groups;
                Member {
                    queue: Rc::new(Queue::new(rt, device, writes_while_reading)),
                    geometry: Cell::new(geometry),
                    first_group,
                    is_durable: Cell::new(false),
                }
            })
            .collect();
        assert!(
            size_blocks <= groups * first.group_blocks(),
            "the members cover the store"
        );
        Self {
            members,
            block_size: first.block_size as usize,
            group_blocks: first.group_blocks(),
            size_blocks: Cell::new(size_blocks),
        }
    }

    /// Adds blocks at the end: the store has `size_blocks` then, and the last member `groups`.
    ///
    /// # Panics
    /// When the members do not cover the size: the superblock was checked.
    pub fn grow(&self, size_blocks: u64, groups: u64) {
        let last = self.members.last().expect("a store has a data member");
        let all = last.first_group + groups;
        assert!(
            size_blocks <= all * self.group_blocks,
            "the members cover the store"
        );
        let geometry = last.geometry.get();
        last.geometry.set(Geometry { groups, ..geometry });
        self.size_blocks.set(size_blocks);
    }

    /// Groups that hold blocks of the store.
    pub fn groups(&self) -> u64 {
        self.size_blocks.get().div_ceil(self.group_blocks)
    }

    pub fn group_of(&self, block: u64) -> u64 {
        block / self.group_blocks
    }

    /// The blocks of `group`; the last group may be cut by the store's size.
    pub fn blocks_of(&self, group: u64) -> Range<u64> {
        let first = group * self.group_blocks;
        first..(first + self.group_blocks).min(self.size_blocks.get())
    }

    /// Index of the member that holds `group`.
    pub fn member_of(&self, group: u64) -> usize {
        self.members
            .partition_point(|member| member.first_group <= group)
            - 1
    }

    /// Groups up to `end` that lie on the same member as `first`, and the member's index.
    pub fn run_on_member(&self, first: u64, end: u64) -> (usize, Range<u64>) {
        let index = self.member_of(first);
        let member = &self.members[index];
        let member_end = member.first_group + member.geometry.get().groups;
        (index, first..end.min(member_end))
    }

    /// Byte offset of the group's first slot, which is the group's first byte.
    pub fn slot_offset(&self, group: u64, slot: u64) -> u64 {
        let member = &self.members[self.member_of(group)];
        member
            .geometry
            .get()
            .slot_offset(group - member.first_group, slot)
    }

    /// Byte offset of store block `block` on its member.
    pub fn block_offset(&self, block: u64) -> u64 {
        let group = self.group_of(block);
        let member = &self.members[self.member_of(group)];
        let within = block - member.first_group * self.group_blocks;
        member.geometry.get().block_offset(within)
    }

    pub fn name(&self, member: usize) -> &str {
        self.members[member].queue.device.name()
    }
}
