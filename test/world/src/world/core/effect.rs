//! Effects of requests on the content of their drive, and of faults on requests.

use super::{Flight, World};
use crate::fault::{Fault, FaultKind, Mischief, Struck, place};
use crate::image::DiskImage;
use crate::payload::{PAGE, Payload, apply_request};
use crate::world::crash::Unstable;
use rand_chacha::rand_core::Rng;
use tonearm_rt::{Data, IoError, Op};

/// Longest request that may fail in part; zeroing can be of any length.
const PART_MAX: u64 = 64 << 20;

impl World {
    /// Begins the faults that are due with this request. What one of them does to it.
    pub(super) fn mischief(
        &mut self,
        index: usize,
        op: Op,
        offset: u64,
        len: u64,
    ) -> Option<Mischief> {
        if self.disks[index].faults.is_idle() {
            return None;
        }
        for fault in self.disks[index].faults.due() {
            self.strike(fault);
        }
        let disk = &mut self.disks[index];
        let size = disk.view.size;
        let (mischief, struck) = disk
            .faults
            .strike(self.now, op, offset, len, size, &disk.view)?;
        self.struck.push(struck);
        Some(mischief)
    }

    /// Begins `fault`.
    pub fn strike(&mut self, fault: Fault) {
        let disk = &mut self.disks[fault.drive as usize];
        disk.faults.begin(fault, self.now);
        let mut struck = Struck {
            fault,
            at: self.now,
            op: None,
            offset: 0,
            len: disk.view.size,
        };
        match fault.kind {
            FaultKind::LatentError => {
                let byte = place(fault.place, disk.view.size, &disk.view);
                (struck.offset, struck.len) = (byte / PAGE as u64 * PAGE as u64, PAGE as u64);
                disk.faults.spoil(struck.offset, struck.len);
            }
            FaultKind::BitRot => {
                let byte = place(fault.place, disk.view.size, &disk.view);
                disk.rot(byte, 1 << (byte % 8), self.options.power_cuts);
                (struck.offset, struck.len) = (byte, 1);
            }
            kind if kind.lasts() => {}
            // It is reported when it changes a request.
            _ => return,
        }
        self.struck.push(struck);
    }

    /// Applies a request to the content. Its result.
    pub(super) fn carry_out(&mut self, flight: &mut Flight) -> Result<usize, IoError> {
        let request = &mut flight.request;
        let (op, mut offset) = (request.op, request.offset);
        let bytes = request.data.len();
        let len = (bytes as u64).max(match op {
            Op::Punch | Op::Zero => request.len,
            _ => 0,
        });
        let rule = self.rule.as_mut().and_then(|rule| rule(request));
        let disk = &mut self.disks[request.device.0 as usize];
        let (mut lost, mut past_cache) = (false, false);
        let mut error = rule;
        if !disk.faults.is_idle() || flight.mischief.is_some() {
            match flight.mischief {
                Some(Mischief::Misdirect(to)) => offset = to,
                Some(Mischief::Lose) => lost = true,
                Some(Mischief::PastCache) => past_cache = true,
                Some(Mischief::Fail(failure)) => error = error.or(Some(failure)),
                None => {}
            }
            error = error.or_else(|| disk.faults.error(self.now, op, offset, len));
        }
        if let Some(error) = error {
            self.leave_a_part(flight, error);
            return Err(error);
        }
        if lost {
            return Ok(bytes);
        }
        match op {
            Op::Read => {
                if let Data::Buf(buf, range) = &mut request.data {
                    if offset + len > disk.view.size {
                        return Err(IoError::EIO);
                    }
                    let from: &DiskImage = if past_cache && self.options.power_cuts {
                        &disk.stable
                    } else {
                        &disk.view
                    };
                    from.read(offset, &mut buf[range.clone()]);
                }
            }
            Op::Flush => disk.flush(flight.covers),
            _ => {
                disk.faults.rewritten(offset, len);
                if self.options.power_cuts {
                    let payload = flight.payload.take().or_else(|| Payload::of(request));
                    let payload = payload.expect("a write has content");
                    let durable = op == Op::WriteDurable || !disk.write_cache;
                    disk.write(flight.serial, offset, payload, durable);
                } else {
                    apply_request(request, &mut disk.view, offset);
                }
            }
        }
        Ok(bytes)
    }

    /// Applies a failed request: any of its sectors, or nothing for lack of space.
    fn leave_a_part(&mut self, flight: &mut Flight, error: IoError) {
        let request = &flight.request;
        if request.op == Op::Flush {
            self.disks[request.device.0 as usize].fail_flush(flight.covers);
            return;
        }
        let payload = match flight.payload.take() {
            Some(payload) => Some(payload),
            None => Payload::of(request),
        };
        let keep = |payload: &Payload| error != IoError::ENOSPC && payload.len() <= PART_MAX;
        let Some(payload) = payload.filter(keep) else {
            return;
        };
        let share = [0, 0, 50, 100][self.rng.next_u32() as usize % 4];
        if share == 0 {
            return;
        }
        let disk = &mut self.disks[request.device.0 as usize];
        let write = Unstable {
            serial: flight.serial,
            offset: request.offset,
            payload,
            in_flight: false,
            covered: Vec::new(),
        };
        // The resulting mix of old and new content counts as written.
        let mut after = disk.view.clone();
        write.scatter(&mut after, share, false, &mut self.rng);
        let mut bytes = vec![0; write.payload.len() as usize];
        after.read(request.offset, &mut bytes);
        let payload = Payload::Bytes(bytes.into());
        disk.write(flight.serial, request.offset, payload, false);
    }
}
