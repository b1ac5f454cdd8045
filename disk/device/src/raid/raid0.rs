//! RAID-0: stripes without redundancy over any devices. An error of a member is an error of the array.

use super::cut::{Payload, Source, slices_of};
use super::geometry::Stripes;
use super::io::{Place, Transfer, min_size, read_places, run};
use super::state::RaidError;
use crate::device::{
    ArrayFuture, Device, DeviceIo, DirtyRanges, Redundancy, allows, at_once, span,
};
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_rt::{Data, IoError, Op};

/// The array.
pub struct Raid0 {
    pool: BufPool,
    name: String,
    members: Vec<Rc<dyn Device>>,
    stripes: Stripes,
    block_size: u32,
}

impl Raid0 {
    /// An array of `members` with stripe units of `unit` bytes. Each member is used up to the size of the smallest.
    ///
    /// # Errors
    /// When there is no member, or the unit is not of whole blocks.
    pub fn new(
        pool: &BufPool,
        name: &str,
        members: Vec<Rc<dyn Device>>,
        unit: u64,
    ) -> Result<Self, RaidError> {
        let (size, block_size) = min_size(members.iter().map(|member| &**member), 1, unit)?;
        let stripes = Stripes {
            members: members.len(),
            unit,
            rows: size / unit,
            parity: false,
        };
        Ok(Self {
            pool: pool.clone(),
            name: name.into(),
            members,
            stripes,
            block_size,
        })
    }

    /// Its division into stripes.
    pub fn stripes(&self) -> Stripes {
        self.stripes
    }

    /// The members that have redundancy, each with its index.
    fn arrays(&self) -> impl Iterator<Item = (usize, &dyn Redundancy)> {
        let members = self.members.iter().enumerate();
        members.filter_map(|(index, member)| Some((index, member.redundancy()?)))
    }

    /// Ranges of the array as ranges of each member.
    fn cut(&self, ranges: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
        let mut of_member: Vec<Vec<Range<u64>>> = self.members.iter().map(|_| Vec::new()).collect();
        let end = self.stripes.size_bytes();
        for range in ranges {
            for part in self.stripes.parts(range.start.min(end)..range.end.min(end)) {
                let start = part.row * self.stripes.unit;
                let next = start + part.range.start..start + part.range.end;
                match of_member[part.column].last_mut() {
                    Some(last) if last.end == next.start => last.end = next.end,
                    _ => of_member[part.column].push(next),
                }
            }
        }
        of_member
    }

    /// The operations on members of a write, punch or zeroing.
    fn transfers(&self, offset: u64, len: u64, mut source: Source) -> Vec<Transfer> {
        let mut open: Vec<Option<Transfer>> = self.members.iter().map(|_| None).collect();
        let mut done = Vec::new();
        for part in self.stripes.parts(offset..offset + len) {
            let bytes = part.range.end - part.range.start;
            let at = part.row * self.stripes.unit + part.range.start;
            let payload = source.take(bytes);
            let next = Transfer::new(part.column, at, bytes, payload);
            if let Some(full) = Transfer::join(&mut open[part.column], next) {
                done.push(full);
            }
        }
        done.extend(open.into_iter().flatten());
        done
    }
}

impl Device for Raid0 {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.stripes.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let len = span(op, len, &data);
        if !allows(self, op, offset, len) {
            return at_once(Err(IoError::EINVAL), data);
        }
        match op {
            Op::Flush => {
                let flushes: Vec<DeviceIo> = self
                    .members
                    .iter()
                    .map(|member| member.io(Op::Flush, 0, 0, Data::None))
                    .collect();
                Box::pin(async move {
                    let mut result = Ok(0);
                    for flush in flushes {
                        result = result.and(flush.await.0.map(|_| 0));
                    }
                    (result, data)
                })
            }
            Op::Read => {
                if matches!(data, Data::Slices(_)) {
                    return at_once(Err(IoError::EINVAL), data);
                }
                let (unit, mut dest) = (self.stripes.unit, 0);
                let places = self.stripes.parts(offset..offset + len).map(move |part| {
                    let len = part.range.end - part.range.start;
                    let at = part.row * unit + part.range.start;
                    dest += len;
                    Place {
                        member: part.column,
                        at,
                        len,
                        dest: dest - len,
                    }
                });
                let reads = read_places(&self.pool, places, len, data, |member, at, data| {
                    self.members[member].io(Op::Read, at, 0, data)
                });
                Box::pin(async move {
                    let (failed, data) = reads.end().await;
                    let result = failed.into_iter().next();
                    (
                        result.map_or(Ok(len as usize), |failed| Err(failed.error)),
                        data,
                    )
                })
            }
            _ => {
                let (source, back) = match op {
                    Op::Punch | Op::Zero => (Source::Zeroes(op), data),
                    _ => {
                        let slices = slices_of(data);
                        let source = Source::from(Payload::Bytes(slices.clone()));
                        (source, Data::Slices(slices))
                    }
                };
                let durable = op == Op::WriteDurable;
                let under_way: Vec<_> = self
                    .transfers(offset, len, source)
                    .into_iter()
                    .flat_map(|transfer| run(&*self.members[transfer.member], transfer, durable))
                    .collect();
                let moved = back.len();
                Box::pin(async move {
                    let mut result = Ok(moved);
                    for (_, io) in under_way {
                        result = result.and(io.await.0.map(|_| moved));
                    }
                    (result, back)
                })
            }
        }
    }

    fn redundancy(&self) -> Option<&dyn Redundancy> {
        self.arrays().next().map(|_| self as &dyn Redundancy)
    }
}

/// RAID-0 has no redundancy of its own. It passes recovery on to members that are arrays.
impl Redundancy for Raid0 {
    fn is_suspect(&self) -> bool {
        self.arrays().any(|(_, array)| array.is_suspect())
    }

    fn recover(&self, interrupted: DirtyRanges) -> ArrayFuture<()> {
        let changed = self.cut(&interrupted.changed);
        let zeroed = self.cut(&interrupted.zeroed);
        let mut ranges: Vec<DirtyRanges> = changed
            .into_iter()
            .zip(zeroed)
            .map(|(changed, zeroed)| DirtyRanges { changed, zeroed })
            .collect();
        let under_way: Vec<ArrayFuture<()>> = self
            .arrays()
            .map(|(index, array)| array.recover(std::mem::take(&mut ranges[index])))
            .collect();
        Box::pin(async move {
            let mut result = Ok(());
            for recovering in under_way {
                result = result.and(recovering.await);
            }
            result
        })
    }
}
