//! Converts places to members and byte offsets, and runs whole operations on the devices.

use crate::error::HomeError;
use crate::home::HomeStats;
use crate::queue::{ClientRead, Queue, Turn};
use crate::segments::SegmentsMember;
use crate::separation::{Kind, ServiceTimes};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool, Slice};
use tonearm_device::Device;
use tonearm_format::SegmentLayout;
use tonearm_rt::{Data, IoError, Op, Rt};

/// Takes the first `most` bytes off `slices`. Returns them and their number.
fn first_part(slices: &mut VecDeque<Slice>, most: u64) -> (Vec<Slice>, u64) {
    let (mut part, mut bytes) = (Vec::new(), 0);
    while let Some(slice) = slices.pop_front() {
        let (len, room) = (slice.len(), (most - bytes) as usize);
        if len > room {
            slices.push_front(slice.slice(room..len));
            if room > 0 {
                part.push(slice.slice(0..room));
            }
            return (part, most);
        }
        bytes += len as u64;
        part.push(slice);
    }
    (part, bytes)
}

/// The data members, their segments concatenated and numbered from 1.
pub(crate) struct Media {
    members: Vec<SegmentsMember>,
    queues: Vec<Rc<Queue>>,
    /// Number of the first segment of each member.
    first: Vec<u64>,
    /// Written since its last flush.
    touched: Vec<Cell<bool>>,
    pub layout: SegmentLayout,
    pub pool: BufPool,
    pub stats: Cell<HomeStats>,
    /// How long the devices take for overwritten and for appended blocks.
    pub times: RefCell<ServiceTimes>,
    rt: Rt,
}

impl Media {
    pub fn new(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<SegmentsMember>,
        layout: SegmentLayout,
        appended_min: u64,
        writes_while_reading: u64,
    ) -> Self {
        let mut next = 1;
        let first = members.iter().map(|member| {
            next += member.segments;
            next - member.segments
        });
        let queue = |member: &SegmentsMember| {
            let device = member.device.clone();
            Rc::new(Queue::new(rt, device, writes_while_reading))
        };
        Self {
            first: first.collect(),
            queues: members.iter().map(queue).collect(),
            touched: members.iter().map(|_| Cell::new(true)).collect(),
            members,
            layout,
            pool: pool.clone(),
            stats: Cell::default(),
            times: RefCell::new(ServiceTimes::new(appended_min)),
            rt: rt.clone(),
        }
    }

    /// Runs `io`, a device operation of `pages` blocks, and measures it.
    pub async fn measured<T>(&self, kind: Kind, pages: u64, io: impl Future<Output = T>) -> T {
        let began = self.rt.now();
        let result = io.await;
        let ended = self.rt.now();
        self.times.borrow_mut().ended(kind, pages, began, ended);
        result
    }

    pub fn block_size(&self) -> usize {
        self.layout.block_size as usize
    }

    pub fn count(&self, change: impl FnOnce(&mut HomeStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    pub fn segment_of(&self, place: u64) -> u64 {
        place / self.layout.segment_blocks()
    }

    pub fn first_place(&self, segment: u64) -> u64 {
        segment * self.layout.segment_blocks()
    }

    /// True when `place` lies in a segment of the store.
    pub fn holds(&self, place: u64) -> bool {
        (1..=self.layout.segments).contains(&self.segment_of(place))
    }

    /// Member and byte offset of `place`.
    pub fn locate(&self, place: u64) -> (usize, u64) {
        let segment = self.segment_of(place);
        let member = self.first.partition_point(|first| *first <= segment) - 1;
        let within = (segment - self.first[member]) * u64::from(self.layout.segment_bytes)
            + place % self.layout.segment_blocks() * self.block_size() as u64;
        (member, self.members[member].first_segment + within)
    }

    pub fn name(&self, member: usize) -> &str {
        self.members[member].device.name()
    }

    pub fn device(&self, member: usize) -> &Rc<dyn Device> {
        &self.members[member].device
    }

    /// The segments of member `index`, and where the first one begins on it.
    pub fn segments(&self, index: usize) -> (Range<u64>, u64) {
        let (first, own) = (self.first[index], &self.members[index]);
        (first..first + own.segments, own.first_segment)
    }

    /// Name of the member of `place`, and the byte offset there.
    pub fn address(&self, place: u64) -> (String, u64) {
        let (member, offset) = self.locate(place);
        (self.name(member).to_string(), offset)
    }

    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Bytes of member `index` that belong to the home.
    pub fn area(&self, index: usize) -> Range<u64> {
        let member = &self.members[index];
        let before = if index == 0 {
            self.layout.checkpoint_bytes()
        } else {
            0
        };
        let first = member.first_segment;
        first - before..first + member.segments * u64::from(self.layout.segment_bytes)
    }

    /// Byte offset of checkpoint slot `slot` on the first member.
    pub fn slot_offset(&self, slot: u64) -> u64 {
        self.area(0).start + slot * self.layout.slot_bytes()
    }

    /// Reads `count` adjacent blocks of one segment.
    pub async fn read(&self, place: u64, count: u64) -> Result<Buf, HomeError> {
        self.read_as(Kind::Read, place, count).await
    }

    /// The same, measured as `kind`.
    pub async fn read_as(&self, kind: Kind, place: u64, count: u64) -> Result<Buf, HomeError> {
        let (member, offset) = self.locate(place);
        let len = count as usize * self.block_size();
        self.read_bytes(kind, member, offset, len).await
    }

    pub async fn read_at(&self, member: usize, offset: u64, len: usize) -> Result<Buf, HomeError> {
        self.read_bytes(Kind::Read, member, offset, len).await
    }

    async fn read_bytes(
        &self,
        kind: Kind,
        member: usize,
        offset: u64,
        len: usize,
    ) -> Result<Buf, HomeError> {
        let queue = &self.queues[member];
        // Reads of the cleaner go after those of clients, as writes do.
        let (_turn, _permit) = match kind {
            Kind::Clean => (Some(queue.turn(Op::Read, len as u64).await?), None),
            _ => (None, Some(queue.read_turn().await)),
        };
        self.count(|stats| {
            stats.reads += 1;
            stats.read_bytes += len as u64;
        });
        let device = &self.members[member].device;
        let data = Data::whole(self.pool.alloc(len));
        let io = device.io(Op::Read, offset, len as u64, data);
        let pages = (len / self.block_size()) as u64;
        let (result, data) = self.measured(kind, pages, io).await;
        let whole = result.and_then(|moved| {
            if moved == len {
                Ok(data.into_buf())
            } else {
                Err(IoError::EIO)
            }
        });
        whole.map_err(|error| HomeError::of_device(Op::Read, device.name(), offset, error))
    }

    /// Notes that a client reads at `place`, until the result is dropped.
    pub fn note_client_read(&self, place: u64) -> ClientRead {
        self.queues[self.locate(place).0].note_client_read()
    }

    /// Most blocks that the cleaner should read at once at `place`.
    pub fn part_blocks(&self, place: u64) -> u64 {
        self.queues[self.locate(place).0].part_bytes() / self.block_size() as u64
    }

    /// Writes `slices`, which are whole blocks, at `offset` in its turn, and measures it as `kind`. While clients read, it
    /// writes them in parts.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn write(
        &self,
        kind: Kind,
        member: usize,
        mut offset: u64,
        slices: Vec<Slice>,
    ) -> Result<(), HomeError> {
        let queue = &self.queues[member];
        let mut rest = VecDeque::from(slices);
        while !rest.is_empty() {
            let (part, bytes) = first_part(&mut rest, queue.part_bytes());
            let _turn = self.write_turn(kind, member, bytes).await?;
            let pages = bytes / self.block_size() as u64;
            let write = self.write_at(member, offset, Data::Slices(part));
            self.measured(kind, pages, write).await?;
            offset += bytes;
        }
        Ok(())
    }

    /// Waits for the turn of a write of `bytes` on `member`. A flush that goes before it counts as one of this `kind`.
    ///
    /// # Errors
    /// When the device cannot be flushed.
    pub async fn write_turn(
        &self,
        kind: Kind,
        member: usize,
        bytes: u64,
    ) -> Result<Turn, HomeError> {
        let turn = self.queues[member].turn(Op::Write, bytes).await?;
        if let Some((began, ended)) = turn.flushed {
            self.count(|stats| stats.flushes += 1);
            // It belongs to the time of the pages before it, which count up to the flush of their round.
            self.times.borrow_mut().ended(kind, 0, began, ended);
        }
        Ok(turn)
    }

    /// Writes `data` at `offset` at once. The caller has the turn of a write.
    pub async fn write_at(&self, member: usize, offset: u64, data: Data) -> Result<(), HomeError> {
        let len = data.len();
        self.count(|stats| {
            stats.writes += 1;
            stats.write_bytes += len as u64;
        });
        self.touched[member].set(true);
        let device = &self.members[member].device;
        let (result, data) = device.io(Op::Write, offset, len as u64, data).await;
        drop(data);
        let whole = result.and_then(|moved| {
            if moved == len {
                Ok(())
            } else {
                Err(IoError::EIO)
            }
        });
        whole.map_err(|error| HomeError::of_device(Op::Write, device.name(), offset, error))
    }

    /// Flushes of members that have failed.
    pub fn flush_failures(&self) -> u64 {
        self.queues
            .iter()
            .map(|queue| queue.flush_failures.get())
            .sum()
    }

    /// The error for writes that such a flush may have lost.
    pub fn flush_failed(&self) -> HomeError {
        let failed = self
            .queues
            .iter()
            .find(|queue| queue.flush_failures.get() > 0);
        failed
            .unwrap_or(&self.queues[0])
            .error(Op::Flush, 0, IoError::EIO)
    }

    /// Makes all writes durable. Members without writes since the last flush are left out.
    pub async fn flush(&self) -> Result<(), HomeError> {
        let began = self.rt.now();
        let touched = (0..self.members.len()).filter(|member| self.touched[*member].get());
        let flush = |member: usize| {
            self.count(|stats| stats.flushes += 1);
            let queue = self.queues[member].clone();
            (member, self.rt.spawn(async move { queue.flush().await }))
        };
        let mut failed = None;
        for (member, flush) in touched.map(flush).collect::<Vec<_>>() {
            match flush.await {
                Ok(_) => self.touched[member].set(false),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.times.borrow_mut().flushed(began, self.rt.now());
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
#[path = "media_test.rs"]
mod media_test;
