//! Reads an array: directly from the members, or computed from all others if one is missing or unreadable.

use super::array::{Array, Raid5};
use super::geometry::Part;
use super::io::{Failed, Place, copy_to, read_places};
use super::state::{ARRAY_LOST, RaidError, is_of_medium, is_refusal};
use super::xor::xor_into;
use crate::device::{Device, DeviceIo};
use std::ops::Range;
use std::rc::Rc;
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
            if self.alive(place.member, part.row) {
                straight.push(place)
            } else {
                computed.push(place)
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
        self.repair_degraded_row(row).await?;
        let range = start..start + place.len;
        let read = self.read_cell(row, place.member, range, Unreadable::Fails);
        read.await.map_err(|failed| failed.error)
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

/// A place near the middle of `range`, which is longer than `least`, at a multiple of `least`.
fn half(range: &Range<u64>, least: u64) -> u64 {
    let middle = (range.start + range.end) / 2;
    let below = middle / least * least;
    if below > range.start {
        below
    } else {
        below + least
    }
}

/// Least bytes that are read apart from others after an error: a sector of most drives.
const SECTOR_BYTES: u64 = 4096;

/// What a read does where too few members of a stripe can be read to compute the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    /// It fails.
    Fails,
    /// It gives the unreadable sectors up, which are lost in any case ([`Array::give_up`]).
    GivenUp,
}

impl Array {
    /// Least bytes of a read of a member.
    fn least_bytes(&self) -> u64 {
        SECTOR_BYTES.max(u64::from(self.block_size))
    }

    /// The error for a stripe that cannot be computed.
    pub(super) fn unreadable(&self, failed: Failed) -> RaidError {
        match self.health.borrow().lost.clone() {
            Some(lost) => lost,
            None => RaidError::Unreadable {
                row: failed.offset / self.stripes.unit,
                member: self.member_name(failed.member),
                offset: failed.offset,
                error: failed.error,
            },
        }
    }

    /// Bytes `range` of the unit of `row` on `member`, data or parity. An unreadable range is computed from all other
    /// members and rewritten. Where that fails, too, it is done again for each half, down to a sector: two members may
    /// have unreadable sectors in different places of a unit. The caller holds the stripe's lock.
    pub(super) async fn read_cell(
        &self,
        row: u64,
        member: usize,
        range: Range<u64>,
        unreadable: Unreadable,
    ) -> Result<Buf, Failed> {
        let least = self.least_bytes();
        let mut whole: Option<Buf> = None;
        let mut parts = vec![range.clone()];
        while let Some(part) = parts.pop() {
            let mut found = self.read_part(row, member, part.clone()).await;
            let len = part.end - part.start;
            if let Err(failed) = &found
                && failed.error != ARRAY_LOST
            {
                if len > least {
                    let middle = half(&part, least);
                    parts.extend([middle..part.end, part.start..middle]);
                    continue;
                }
                if unreadable == Unreadable::GivenUp {
                    self.give_up(row, part.clone()).await?;
                    found = self.read_part(row, member, part.clone()).await;
                }
            }
            let found = found?;
            if part == range {
                return Ok(found);
            }
            let bytes = (range.end - range.start) as usize;
            let whole = whole.get_or_insert_with(|| self.pool.alloc_zeroed(bytes));
            let from = (part.start - range.start) as usize;
            whole[from..from + len as usize].copy_from_slice(&found);
        }
        Ok(whole.expect("a range has parts"))
    }

    async fn read_part(&self, row: u64, member: usize, range: Range<u64>) -> Result<Buf, Failed> {
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
        let is_suspect = self.is_suspect_row(row);
        if let Some(device) = own.as_ref().filter(|_| is_suspect && !self.read_only)
            && let Some(bytes) = self.read_suspect(device, member, offset, len).await?
        {
            return Ok(bytes);
        }
        let bytes = self.compute_cell(row, member, range.clone()).await?;
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

    /// Reads again what `member` could not read of a stripe whose parity may be wrong. What is computed may be wrong then, and
    /// parity that is made of it would count as corrected, so nothing but an unreadable sector is computed: `None`. A
    /// member that answers no read has failed.
    async fn read_suspect(
        &self,
        device: &Rc<dyn Device>,
        member: usize,
        offset: u64,
        len: usize,
    ) -> Result<Option<Buf>, Failed> {
        let failed = |error| Failed {
            member,
            offset,
            error,
        };
        if len as u64 > self.least_bytes() {
            // The caller divides it.
            return Err(failed(IoError::EIO));
        }
        match self.is_bad_place(member, offset, len as u64).await {
            Ok(true) => Ok(None),
            Ok(false) => {
                let again = device.read(offset, self.pool.alloc(len)).await;
                again.map(Some).map_err(failed)
            }
            Err(error) => {
                self.mark_failed(member, error);
                self.check_lost().map_err(failed)?;
                Ok(None)
            }
        }
    }

    /// The XOR of `range` of all units of `row` but that of `member`.
    pub(super) async fn compute_cell(
        &self,
        row: u64,
        member: usize,
        range: Range<u64>,
    ) -> Result<Buf, Failed> {
        let failed = |member, error| Failed {
            member,
            offset: row * self.stripes.unit + range.start,
            error,
        };
        let others = (0..self.stripes.members).filter(|other| *other != member);
        let others: Vec<usize> = others.collect();
        if others.iter().any(|other| !self.alive(*other, row)) {
            self.check_lost().map_err(|error| failed(member, error))?;
            return Err(failed(member, IoError::EIO));
        }
        let len = (range.end - range.start) as usize;
        let mut bytes = self.pool.alloc_zeroed(len);
        let reads = self.start_reads(row, &others, range.clone());
        for (other, read) in others.into_iter().zip(reads) {
            let (result, data) = read.await;
            let got = result.map_err(|error| failed(other, error))?;
            if got != len {
                return Err(failed(other, IoError::EIO));
            }
            xor_into(&mut bytes, &data.into_buf());
        }
        Ok(bytes)
    }

    /// Zeroes the unreadable sectors of `range` of the units of `row`, where so few members can be read that nothing is
    /// computed. Their content is lost, and so is that of the unit that no member holds: the writer's checksums show
    /// each block. After that, the stripe can be read and written again. Where the errors have passed nothing is changed.
    ///
    /// # Errors
    /// When a member has failed as a whole, as far as its reads show: what it holds may be readable again later.
    async fn give_up(&self, row: u64, range: Range<u64>) -> Result<(), Failed> {
        let offset = row * self.stripes.unit + range.start;
        let absent = self.absent(row).is_some();
        let mut bad = Vec::new();
        for member in (0..self.stripes.members).filter(|member| self.alive(*member, row)) {
            let is_bad = self.is_bad_place(member, offset, range.end - range.start);
            let failed = |error| Failed {
                member,
                offset,
                error,
            };
            if is_bad.await.map_err(failed)? {
                bad.push(member);
            }
        }
        // With all members there, the last unreadable unit follows from the others.
        let zeroed = bad.len() - usize::from(!absent && !bad.is_empty());
        for member in bad.drain(..zeroed) {
            let Some(device) = self.member(member) else {
                continue;
            };
            let zeroes = self.pool.alloc_zeroed((range.end - range.start) as usize);
            let written = device.write(offset, Data::whole(zeroes)).await;
            if let Err(error) = written {
                if !is_refusal(error) {
                    self.mark_failed(member, error);
                }
                return Err(Failed {
                    member,
                    offset,
                    error,
                });
            }
            let place = Failed {
                member,
                offset,
                error: IoError::EIO,
            };
            self.note_given_up(place, range.end - range.start);
        }
        Ok(())
    }

    /// True if `member` cannot read these bytes, but can read others. Its error if it reads nothing.
    async fn is_bad_place(&self, member: usize, offset: u64, len: u64) -> Result<bool, IoError> {
        let read = async |offset: u64| {
            let Some(device) = self.member(member) else {
                return Err(IoError::EIO);
            };
            let buf = self.pool.alloc(len as usize);
            device.read(offset, buf).await.map(|_| ())
        };
        let Err(error) = read(offset).await else {
            return Ok(false);
        };
        if !is_of_medium(error) {
            return Err(error);
        }
        let end = self.stripes.rows * self.stripes.unit;
        let least = self.least_bytes();
        let mut answers = false;
        for far in [end / 2, end / 3] {
            let other = (offset + far) % end / least * least;
            let apart = other + len <= offset || offset + len <= other;
            answers |= apart && other + len <= end && read(other).await.is_ok();
        }
        match read(offset).await {
            Ok(()) => Ok(false),
            Err(_) if answers => Ok(true),
            Err(error) => Err(error),
        }
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
