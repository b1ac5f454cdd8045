//! Reads an array: directly from the members, or computed from all others if one is missing or unreadable.

use super::array::{Array, Raid5};
use super::geometry::Part;
use super::io::{Place, copy_to, read_places};
use super::state::is_refusal;
use super::xor::xor_into;
use crate::device::DeviceIo;
use std::ops::Range;
use tonearm_base::Buf;
use tonearm_rt::{Data, IoError, Op};

impl Raid5 {
    /// Reads `len` bytes at `offset` into `data`.
    pub(super) async fn read_range(
        self,
        offset: u64,
        len: u64,
        data: Data,
    ) -> (Result<usize, IoError>, Data) {
        let (mut straight, mut computed) = (Vec::new(), Vec::new());
        let mut dest = 0;
        for part in self.stripes.parts(offset..offset + len) {
            let place = self.place(&part, dest);
            dest += place.len;
            match self.alive(place.member, part.row) {
                true => straight.push(place),
                false => computed.push(place),
            }
        }
        let reads = read_places(
            &self.pool,
            straight.into_iter(),
            len,
            data,
            |member, at, data| match self.member(member) {
                Some(device) => device.io(Op::Read, at, 0, data),
                None => Box::pin(std::future::ready((Err(IoError::EIO), data))),
            },
        );
        let (failed, mut data) = reads.end().await;
        computed.extend(failed.into_iter().flat_map(|read| read.places));
        let tasks: Vec<_> = computed
            .into_iter()
            .map(|place| (place.dest, self.rt.spawn(self.clone().compute_place(place))))
            .collect();
        let mut result = Ok(());
        for (dest, task) in tasks {
            match task.await {
                Ok(bytes) => copy_to(&mut data, dest, &bytes),
                Err(error) => result = result.and(Err(error)),
            }
        }
        if let Err(error) = result {
            return (Err(error), data);
        }
        if self.has_unsaved_failure() {
            // The data is right even if the save fails. Writes depend on the save.
            self.publish().await.ok();
        }
        (Ok(len as usize), data)
    }

    async fn compute_place(self, place: Place) -> Result<Buf, IoError> {
        let _job = self.jobs.acquire(1).await;
        let (row, start) = (place.at / self.stripes.unit, place.at % self.stripes.unit);
        let _lock = self.locks.lock(row..row + 1).await;
        self.mend_degraded_row(row).await?;
        self.read_cell(row, place.member, start..start + place.len)
            .await
    }

    fn place(&self, part: &Part, dest: u64) -> Place {
        Place {
            member: self.stripes.member(part.row, part.column),
            at: part.row * self.stripes.unit + part.range.start,
            len: part.range.end - part.range.start,
            dest,
        }
    }
}

impl Array {
    /// Bytes `range` of the unit of `row` on `member`, data or parity. An unreadable range is computed from all other
    /// members and rewritten. The caller holds the stripe's lock.
    pub(super) async fn read_cell(
        &self,
        row: u64,
        member: usize,
        range: Range<u64>,
    ) -> Result<Buf, IoError> {
        let offset = row * self.stripes.unit + range.start;
        let len = (range.end - range.start) as usize;
        let mut own = None;
        if self.alive(member, row)
            && let Some(device) = self.member(member)
        {
            let data = Data::whole(self.pool.alloc(len));
            match device.io(Op::Read, offset, 0, data).await {
                (Ok(got), data) if got == len => return Ok(data.into_buf()),
                _ => own = Some(device),
            }
        }
        let bytes = self.compute_cell(row, member, range).await?;
        self.count(|stats| stats.reconstructed += 1);
        // In a suspect stripe the computed data may be wrong, so it is not written.
        if let Some(device) = own.filter(|_| !self.read_only && !self.is_suspect_row(row)) {
            let copy = Data::whole(self.pool.copy_of(&bytes));
            match device.write(offset, copy).await {
                Ok(()) => self.count(|stats| stats.repaired += 1),
                // It stays unreadable. The drive needs no new space to replace a sector, but a file system may.
                Err(error) if is_refusal(error) => {}
                Err(error) => self.mark_failed(member, error),
            }
        }
        Ok(bytes)
    }

    /// The XOR of `range` of all units of `row` but that of `member`.
    pub(super) async fn compute_cell(
        &self,
        row: u64,
        member: usize,
        range: Range<u64>,
    ) -> Result<Buf, IoError> {
        let others = (0..self.stripes.members).filter(|other| *other != member);
        let others: Vec<usize> = others.collect();
        if others.iter().any(|other| !self.alive(*other, row)) {
            self.check_lost()?;
            return Err(IoError::EIO);
        }
        let len = (range.end - range.start) as usize;
        let mut bytes = self.pool.alloc_zeroed(len);
        for read in self.start_reads(row, &others, range) {
            let (result, data) = read.await;
            if result? != len {
                return Err(IoError::EIO);
            }
            xor_into(&mut bytes, &data.into_buf());
        }
        Ok(bytes)
    }

    /// Starts to read `range` of the units of `row` on `members`.
    pub(super) fn start_reads(
        &self,
        row: u64,
        members: &[usize],
        range: Range<u64>,
    ) -> Vec<DeviceIo> {
        let offset = row * self.stripes.unit + range.start;
        let start = |member: &usize| -> DeviceIo {
            let data = Data::whole(self.pool.alloc((range.end - range.start) as usize));
            match self.member(*member) {
                Some(device) => device.io(Op::Read, offset, 0, data),
                None => Box::pin(std::future::ready((Err(IoError::EIO), data))),
            }
        };
        members.iter().map(start).collect()
    }
}
