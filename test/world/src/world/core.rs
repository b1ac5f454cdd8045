//! The state of a world: requests under way, and the times of their ends.

mod effect;

use super::crash::{Crash, CutDisk, Unstable};
use super::disk::Disk;
use super::{SimDisk, SimOptions, Zeroing};
use crate::fault::{Mischief, Struck};
use crate::payload::{Payload, SECTOR};
use crate::timing::{Done, DriveRequest, Kind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tonearm_base::Nanos;
use tonearm_rt::{Completion, Data, IoError, Op, Request};

type Hook = Box<dyn FnMut(u64, &Crash)>;
type FaultRule = Box<dyn FnMut(&Request) -> Option<IoError>>;

/// A request under way.
struct Flight {
    token: u64,
    serial: u64,
    submitted: Nanos,
    request: Request,
    /// Its content, once a crash state has needed it.
    payload: Option<Payload>,
    /// For a flush: number of the writes that it covers.
    covers: u64,
    mischief: Option<Mischief>,
}

/// A request that has ended. Requests that end at one moment are ordered by submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready {
    serial: u64,
    slot: usize,
}

pub(super) struct World {
    pub now: Nanos,
    options: SimOptions,
    /// Random choices of what failed writes leave.
    rng: ChaCha8Rng,
    pub disks: Vec<Disk>,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    under_way: usize,
    /// Ends to report, some of which faults delay.
    late: BinaryHeap<Reverse<(Nanos, Ready)>>,
    done: Vec<Done>,
    serial: u64,
    pub ios: u64,
    pub hash: u64,
    pub hook: Option<Hook>,
    pub rule: Option<FaultRule>,
    pub struck: Vec<Struck>,
}

impl World {
    pub fn new(options: SimOptions, disks: Vec<SimDisk>) -> Self {
        let disk = |disk| Disk::new(disk, options.power_cuts);
        Self {
            now: Nanos(0),
            rng: ChaCha8Rng::seed_from_u64(options.seed ^ 0xfa17_ed00),
            disks: disks.into_iter().map(disk).collect(),
            options,
            flights: Vec::new(),
            free: Vec::new(),
            under_way: 0,
            late: BinaryHeap::new(),
            done: Vec::new(),
            serial: 0,
            ios: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            hook: None,
            rule: None,
            struck: Vec::new(),
        }
    }

    /// The crash state at this moment.
    pub fn crash(&mut self) -> Crash {
        let mut disks: Vec<CutDisk> = Vec::with_capacity(self.disks.len());
        for disk in &self.disks {
            disks.push(CutDisk {
                stable: disk.surely(self.options.power_cuts),
                unstable: disk.unstable().cloned().collect(),
            });
        }
        for flight in self.flights.iter_mut().flatten() {
            if flight.payload.is_none() {
                flight.payload = Payload::of(&flight.request);
            }
            if let Some(payload) = &flight.payload {
                disks[flight.request.device.0 as usize]
                    .unstable
                    .push(Unstable {
                        serial: flight.serial,
                        offset: flight.request.offset,
                        payload: payload.clone(),
                        in_flight: true,
                        covered: Vec::new(),
                    });
            }
        }
        for disk in &mut disks {
            disk.unstable.sort_by_key(|write| write.serial);
        }
        Crash { disks }
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }

    fn mix_content(&mut self, data: &Data) {
        if !self.options.hash_content {
            return;
        }
        match data {
            Data::None => {}
            Data::Buf(buf, range) => self.mix(u64::from(tonearm_base::crc32c(&buf[range.clone()]))),
            Data::Slices(slices) => {
                for slice in slices {
                    self.mix(u64::from(tonearm_base::crc32c(slice)));
                }
            }
        }
    }

    pub fn submit(&mut self, token: u64, request: Request) {
        let (op, offset) = (request.op, request.offset);
        let index = request.device.0 as usize;
        let len = match op {
            Op::Punch | Op::Zero => request.len,
            Op::Recv | Op::RecvAll | Op::Send | Op::Close | Op::Command => {
                panic!("the simulated world has no streams and no kernel")
            }
            _ => request.data.len() as u64,
        };
        assert!(
            op == Op::Read || offset + len <= self.disks[index].view.size,
            "a write beyond the device's end"
        );
        self.ios += 1;
        let moved = request.data.len() as u64;
        self.now += self.options.cpu_per_request.0 + moved * self.options.cpu_ps_per_byte / 1000;
        self.mix(u64::from(request.device.0) ^ offset ^ ((op as u64) << 56));
        if op != Op::Read {
            self.mix_content(&request.data);
        }
        let mischief = self.mischief(index, op, offset, len);
        let serial = self.serial;
        self.serial += 1;
        let slot = self.free.pop().unwrap_or(self.flights.len());
        let now = self.now;
        self.catch_up(index);
        let disk = &mut self.disks[index];
        let sectors = match (op, disk.zeroing) {
            (Op::Punch | Op::Zero, Zeroing::Command) | (Op::Flush, _) => 0,
            _ => (offset + len).div_ceil(SECTOR as u64) - offset / SECTOR as u64,
        };
        let timed = DriveRequest {
            id: slot as u64,
            kind: match op {
                Op::Read => Kind::Read,
                Op::Flush => Kind::Flush,
                _ => Kind::Write,
            },
            fua: op == Op::WriteDurable,
            lba: offset / SECTOR as u64,
            sectors: u32::try_from(sectors).unwrap_or(u32::MAX),
        };
        let flight = Flight {
            token,
            serial,
            submitted: now,
            request,
            payload: None,
            covers: disk.completed(),
            mischief,
        };
        match self.flights.get_mut(slot) {
            Some(place) => *place = Some(flight),
            None => self.flights.push(Some(flight)),
        }
        self.under_way += 1;
        self.disks[index].timing.submit(now, timed);
    }

    /// Time of the next event.
    pub fn next(&self) -> Option<Nanos> {
        let drives = self.disks.iter().filter_map(|disk| disk.timing.next());
        let late = self.late.peek().map(|Reverse((at, _))| *at);
        drives.chain(late).min()
    }

    pub fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// Appends the requests that have ended by now, in order.
    pub fn advance(&mut self, ready: &mut Vec<Ready>) {
        for index in 0..self.disks.len() {
            self.catch_up(index);
        }
        while let Some(Reverse((at, end))) = self.late.peek().copied()
            && at <= self.now
        {
            self.late.pop();
            ready.push(end);
        }
    }

    /// Processes the events inside a drive up to now.
    fn catch_up(&mut self, index: usize) {
        let disk = &mut self.disks[index];
        if disk.timing.next().is_none_or(|at| at > self.now) {
            return;
        }
        disk.timing.advance(self.now, &mut self.done);
        for done in self.done.drain(..) {
            let slot = done.id as usize;
            let flight = self.flights[slot]
                .as_ref()
                .expect("a drive ends only requests that it was given");
            let end = Ready {
                serial: flight.serial,
                slot,
            };
            let reported = if disk.faults.is_idle() {
                Some(done.at)
            } else {
                disk.faults.reported_at(flight.submitted, done.at)
            };
            if let Some(at) = reported {
                self.late.push(Reverse((at, end)));
            }
        }
    }

    /// Carries out a request that has ended.
    pub fn finish(&mut self, ready: Ready) -> (Op, Completion) {
        let flight = self.flights[ready.slot].take();
        let mut flight = flight.expect("a request ends once");
        self.free.push(ready.slot);
        self.under_way -= 1;
        let op = flight.request.op;
        let result = self.carry_out(&mut flight);
        self.mix(self.now.0 ^ flight.serial.rotate_left(40));
        if op == Op::Read && result.is_ok() {
            self.mix_content(&flight.request.data);
        }
        let completion = Completion {
            token: flight.token,
            result,
            data: flight.request.data,
        };
        (op, completion)
    }
}
