//! Converts places to members and byte offsets, and runs whole operations on the devices.

use crate::error::HomeError;
use crate::home::HomeStats;
use crate::segments::SegmentsMember;
use crate::separation::{Kind, ServiceTimes};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool};
use tonearm_device::Device;
use tonearm_format::SegmentLayout;
use tonearm_rt::{Data, IoError, Op, Rt, Semaphore};

const READS_MAX: u64 = 64;

/// The data members, their segments concatenated and numbered from 1.
pub(crate) struct Media {
    members: Vec<SegmentsMember>,
    /// Number of the first segment of each member.
    first: Vec<u64>,
    /// Written since its last flush.
    touched: Vec<Cell<bool>>,
    pub layout: SegmentLayout,
    pub pool: BufPool,
    /// Bound on reads under way.
    reads: Semaphore,
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
    ) -> Self {
        let mut next = 1;
        let first = members.iter().map(|member| {
            next += member.segments;
            next - member.segments
        });
        Self {
            first: first.collect(),
            touched: members.iter().map(|_| Cell::new(true)).collect(),
            members,
            layout,
            pool: pool.clone(),
            reads: Semaphore::new(rt, READS_MAX),
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
        let permit = self.reads.acquire(1).await;
        self.count(|stats| {
            stats.reads += 1;
            stats.read_bytes += len as u64;
        });
        let device = &self.members[member].device;
        let data = Data::whole(self.pool.alloc(len));
        let io = device.io(Op::Read, offset, len as u64, data);
        let pages = (len / self.block_size()) as u64;
        let (result, data) = self.measured(kind, pages, io).await;
        drop(permit);
        let whole = result.and_then(|moved| {
            if moved == len {
                Ok(data.into_buf())
            } else {
                Err(IoError::EIO)
            }
        });
        whole.map_err(|error| HomeError::of_device(Op::Read, device.name(), offset, error))
    }

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

    /// Makes all writes durable. Members without writes since the last flush are left out.
    pub async fn flush(&self) -> Result<(), HomeError> {
        let began = self.rt.now();
        let ios = self.members.iter().zip(&self.touched);
        let ios = ios
            .filter(|(_, touched)| touched.get())
            .map(|(member, touched)| {
                self.count(|stats| stats.flushes += 1);
                (
                    member.device.io(Op::Flush, 0, 0, Data::None),
                    member,
                    touched,
                )
            });
        let mut failed = None;
        for (io, member, touched) in ios.collect::<Vec<_>>() {
            match io.await.0 {
                Ok(_) => touched.set(false),
                Err(error) => {
                    let error = HomeError::of_device(Op::Flush, member.device.name(), 0, error);
                    failed = failed.or(Some(error));
                }
            }
        }
        self.times.borrow_mut().flushed(began, self.rt.now());
        failed.map_or(Ok(()), Err)
    }
}
