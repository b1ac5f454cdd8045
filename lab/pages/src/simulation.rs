//! The simulation: users, buffers, cleaner and separator between a stream of requests and the array.

use crate::array::{Array, disk_bytes};
use crate::buffers::Buffers;
use crate::choice::{FREE_MIN, Pass};
use crate::counts::{Counts, Work};
use crate::raid::{Raid, Spot};
use crate::sepbit::Sepbit;
use crate::setup::{Layout, Setup, SetupError};
use crate::space::Space;
use std::collections::VecDeque;
use tonearm_layout::separation::cost::Efficiency;
use tonearm_layout::separation::{Decision, Estimate, Inputs, Separator, cost};
use tonearm_workload::{Access, Workload, WorkloadError};

/// In place of a user: the cleaner.
pub(crate) const CLEANER: u32 = u32::MAX;
/// I/Os of disks after which the efficiency is computed again.
const REFRESH_IOS: u64 = 10_000;

/// Fewest pages that are appended in an interval for the cost of appending, and segments that the cleaner reads for each
/// one that is written when it keeps pace, as in the product (`disk/layout/src/separation/service.rs`).
const APPENDED_MIN: u64 = 4096;
const CLEANED_MIN: f64 = 0.9;

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Read {
        user: u32,
    },
    /// The old page and its parity are read before both are written.
    OldRead {
        user: u32,
        slot: u32,
    },
    Write {
        user: u32,
    },
    Segment {
        segment: u32,
        buffer: u32,
    },
    CleanRead,
}

/// An operation, which ends when its last I/O has ended.
#[derive(Clone, Copy, Debug)]
struct Op {
    left: u32,
    what: What,
}

/// A user that waits for a buffer.
struct Blocked {
    user: u32,
    page: u32,
    buffer: usize,
}

/// A system under simulation.
///
/// The cleaner's part is in `clean.rs`.
pub struct Simulation<W> {
    pub(crate) setup: Setup,
    pub(crate) raid: Raid,
    workload: W,
    pub(crate) array: Array,
    pub(crate) space: Space,
    pub(crate) buffers: Buffers,
    separator: Option<Separator>,
    pub(crate) sepbit: Sepbit,
    pub(crate) pass: Option<Pass>,
    /// Segments that the pass may still write.
    pub(crate) outputs: usize,
    /// Users that take a request next.
    ready: Vec<u32>,
    blocked: VecDeque<Blocked>,
    ops: Vec<Op>,
    free_ops: Vec<u32>,
    ended: Vec<u32>,
    pub(crate) counts: Counts,
    /// Page writes since the begin.
    pub(crate) clock: u32,
    pub(crate) efficiency: f64,
    /// Counts when the efficiency was computed.
    refreshed: Counts,
    ios: u64,
    next_decision: u64,
    decision: Decision,
    decisions: u64,
    /// Counts at the last decision.
    decided: Counts,
    /// The measured cost of appending all pages, divided by that of equation 4.
    cleaning: Option<f64>,
}

impl<W: Workload> Simulation<W> {
    /// The system at time 0: the pages are packed at the front of the disks. `workload` has no page beyond
    /// `setup.pages`.
    ///
    /// # Errors
    /// When the setup is none that can be simulated.
    pub fn new(setup: &Setup, workload: W) -> Result<Self, SetupError> {
        let segments = setup.check(disk_bytes(setup))?;
        let raid = setup.raid(segments);
        let pages = setup.pages as u32;
        let cold = setup.layout == Layout::Overwrite || setup.layout.separates();
        let estimate = match setup.layout {
            Layout::Hylog(estimate) => Some(estimate),
            Layout::Forced(_) => Some(Estimate::SameWrites),
            // WOLF sorts by the separator's aged counters.
            Layout::Wolf => Some(Estimate::LaterWrites),
            Layout::Overwrite | Layout::Lfs | Layout::Sepbit => None,
        };
        let mut simulation = Self {
            raid,
            array: Array::new(setup, segments),
            space: Space::new(pages, segments, raid.segment_pages(), cold),
            buffers: Buffers::new(setup, raid.segment_pages()),
            separator: estimate
                .map(|estimate| Separator::new(u64::from(pages), setup.counter_bytes, estimate)),
            sepbit: Sepbit::default(),
            pass: None,
            outputs: 0,
            ready: (0..setup.users).rev().collect(),
            blocked: VecDeque::new(),
            ops: Vec::new(),
            free_ops: Vec::new(),
            ended: Vec::new(),
            counts: Counts::default(),
            clock: 0,
            efficiency: 0.0,
            refreshed: Counts::default(),
            ios: 0,
            next_decision: setup.interval.0,
            decision: Decision::default(),
            decisions: 0,
            decided: Counts::default(),
            cleaning: None,
            setup: setup.clone(),
            workload,
        };
        simulation.refresh();
        Ok(simulation)
    }

    /// Continues until `requests` more requests are done. False when the workload ended before.
    ///
    /// # Errors
    /// When the workload cannot go on.
    ///
    /// # Panics
    /// When the cleaner cannot gain a segment, which [`Setup`] excludes.
    pub fn run(&mut self, requests: u64) -> Result<bool, WorkloadError> {
        let until = self.counts.requests + requests;
        loop {
            while !self.users_wait()
                && let Some(user) = self.ready.pop()
            {
                if self.counts.requests >= until {
                    self.ready.push(user);
                    return Ok(true);
                }
                let Some(request) = self.workload.next_access()? else {
                    self.ready.push(user);
                    return Ok(false);
                };
                if self.serve(user, request) {
                    self.end_request(user);
                }
            }
            assert!(self.step(), "a user waits for an I/O");
        }
    }

    /// Waits until the next I/O has ended, and does what follows. False when none is under way.
    fn step(&mut self) -> bool {
        let Some((now, disk)) = self.array.next() else {
            return false;
        };
        self.counts.nanos = now;
        let mut ended = std::mem::take(&mut self.ended);
        self.array.end(now, disk, &mut self.counts, &mut ended);
        for op in ended.drain(..) {
            self.ios += 1;
            self.end_io(op);
        }
        self.ended = ended;
        if self.ios >= REFRESH_IOS {
            self.refresh();
        }
        if now >= self.next_decision {
            self.decide();
        }
        true
    }

    /// Reads `pages` pages from `first` on in the order of their numbers, `together` of them at a time, as a scan of a table
    /// with read-ahead does. What is under way ends before it, and users do nothing meanwhile. Neighbours on a disk are one
    /// I/O. Returns the nanoseconds, and the number of I/Os.
    ///
    /// # Panics
    /// When there are no such pages.
    pub fn scan(&mut self, first: u64, pages: u64, together: u64) -> (u64, u64) {
        while self.step() {}
        let (begin, before) = (self.counts.nanos, self.counts.ios);
        let end = first + pages;
        for from in (first..end).step_by(together.max(1) as usize) {
            let pages = from as u32..end.min(from + together) as u32;
            let slots = pages.filter_map(|page| self.space.slot(page));
            let mut spots: Vec<Spot> = slots.map(|slot| self.raid.spot(slot)).collect();
            spots.sort_unstable_by_key(|spot| (spot.disk, spot.page));
            let next = |a: &Spot, b: &Spot| a.disk == b.disk && a.page + 1 == b.page;
            let runs: Vec<&[Spot]> = spots.chunk_by(next).collect();
            if runs.is_empty() {
                continue;
            }
            let op = self.begin(runs.len() as u32, What::Read { user: CLEANER });
            for run in runs {
                let (now, pages) = (self.counts.nanos, run.len() as u32);
                self.array
                    .push(now, run[0], pages, false, Work::PageRead, op);
            }
            while self.step() {}
        }
        let read = Work::PageRead as usize;
        (
            self.counts.nanos - begin,
            self.counts.ios[read] - before[read],
        )
    }

    /// True while the cleaner keeps all users from their next requests.
    fn users_wait(&self) -> bool {
        self.setup.cleaner_blocks && self.pass.is_some()
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Disks.
    pub fn disks(&self) -> u32 {
        self.raid.disks
    }

    /// Pages of a segment.
    pub fn segment_pages(&self) -> u32 {
        self.raid.segment_pages()
    }

    /// Segment I/O efficiency, adjusted for disks and idleness, of the last 10,000 I/Os of disks.
    pub fn efficiency(&self) -> f64 {
        self.efficiency
    }

    /// Mean service times of the last 10,000 I/Os of a page and of a chunk of a segment, in milliseconds.
    pub fn service_ms(&self) -> (f64, f64) {
        (self.array.page.mean() / 1e6, self.array.chunk.mean() / 1e6)
    }

    /// The separator's last decision, and how many there were.
    pub fn decision(&self) -> (Decision, u64) {
        (self.decision, self.decisions)
    }

    /// Computes the efficiency from the service times and the idleness since the last time.
    fn refresh(&mut self) {
        let since = self.counts - self.refreshed;
        let idle = if since.nanos > 0 {
            since.idle(self.raid.disks).clamp(0.0, 0.99)
        } else {
            0.0
        };
        let page = self.array.page.mean() * f64::from(self.raid.ios_of_page_write());
        let pages = f64::from(self.raid.segment_pages());
        let efficiency = cost::efficiency(page, self.array.chunk.mean(), pages);
        self.efficiency = cost::adjusted(efficiency, f64::from(self.raid.disks), idle);
        (self.refreshed, self.ios) = (self.counts, 0);
    }

    /// Ends an interval of the separator.
    fn decide(&mut self) {
        self.next_decision += self.setup.interval.0;
        let since = self.counts - self.decided;
        self.decided = self.counts;
        if self.separator.is_none() {
            return;
        }
        let kept = if self.setup.counts_reserve {
            FREE_MIN as u32
        } else {
            0
        };
        let slots = f64::from(self.raid.segments - kept) * f64::from(self.raid.segment_pages());
        let utilisation = (self.setup.pages as f64 / slots).min(1.0);
        if self.setup.layout == Layout::Hylog(Estimate::LaterWrites)
            && let Some(cost) = self.appending_cost(since)
        {
            let cleaning = cost / cost::appending(utilisation);
            let known = self.cleaning.unwrap_or(cleaning);
            self.cleaning = Some((known + cleaning) / 2.0);
        }
        let inputs = Inputs {
            live_pages: self.setup.pages,
            utilisation,
            efficiency: Efficiency::constant(self.efficiency),
            cleaning: self.cleaning.unwrap_or(1.0),
        };
        let Some(separator) = &mut self.separator else {
            return;
        };
        self.decision = match self.setup.layout {
            Layout::Forced(share) => separator.decide_share(share, inputs),
            _ => separator.decide(inputs),
        };
        self.decisions += 1;
    }

    /// The cost of a page that was appended with the cleaning that it needed, in units of an appended page, by the I/Os of an
    /// interval in which all pages were hot. None otherwise, when there were too few, and while the cleaner is behind: the
    /// product's rule (`ServiceTimes::appending_cost`).
    fn appending_cost(&self, since: Counts) -> Option<f64> {
        let pages = self.raid.segment_pages();
        let cleaned = (since.clean_reads + since.plug_reads) as f64;
        let keeps_pace = cleaned >= CLEANED_MIN * (since.appended + since.clean_writes) as f64;
        let enough = since.appended * u64::from(pages) >= APPENDED_MIN;
        (self.decision.threshold == 0 && enough && keeps_pace)
            .then(|| since.write_cost(pages, self.efficiency))
    }

    /// True when the data that were packed at the front lie where their layout puts them: every segment that they filled
    /// has been emptied. In a layout with cold pages, those stay.
    pub fn has_spread(&self) -> bool {
        let stays = match self.setup.layout {
            Layout::Overwrite => true,
            layout if layout.separates() => self.decisions > 0 && self.decision.threshold > 0,
            _ => false,
        };
        stays || self.space.untouched() == 0
    }

    /// True when the separator has made `count` decisions, or the layout has none to make.
    pub(crate) fn has_decided(&self, count: u64) -> bool {
        !self.setup.layout.separates() || self.decisions >= count
    }

    fn end_request(&mut self, user: u32) {
        self.counts.requests += 1;
        self.ready.push(user);
    }

    /// Begins a request. True when it is done at once.
    fn serve(&mut self, user: u32, request: Access) -> bool {
        let page = request.page as u32;
        if !request.write {
            self.counts.reads += 1;
            return match self.space.slot(page) {
                Some(slot) if !self.space.in_memory(page) => {
                    let op = self.begin(1, What::Read { user });
                    let spot = self.raid.spot(slot);
                    self.array
                        .push(self.counts.nanos, spot, 1, false, Work::PageRead, op);
                    false
                }
                _ => {
                    self.counts.buffer_hits += 1;
                    true
                }
            };
        }
        self.counts.writes += 1;
        self.clock += 1;
        let before = std::mem::replace(&mut self.space.written[page as usize], self.clock);
        if let Some(separator) = &mut self.separator {
            separator.note_write(u64::from(page));
        }
        if self.space.slot(page).is_none() {
            self.counts.absorbed += 1;
            return true;
        }
        if self.is_cold(page) {
            self.overwrite(user, page);
            return false;
        }
        let buffer = match self.setup.layout {
            Layout::Sepbit => {
                let lifespan = (before > 0).then(|| self.clock - before);
                usize::from(self.sepbit.of_user(lifespan))
            }
            _ => 0,
        };
        self.counts.hot_writes += 1;
        self.append(user, page, buffer)
    }

    /// Notes that the cleaner writes `page`.
    pub(crate) fn note_copy(&mut self, page: u32) {
        if self.setup.counts_copies
            && let Some(separator) = &mut self.separator
        {
            separator.note_write(u64::from(page));
        }
    }

    pub(crate) fn is_cold(&self, page: u32) -> bool {
        match (&self.separator, self.setup.layout) {
            (_, Layout::Overwrite) => true,
            (Some(separator), layout) if layout.separates() => !separator.is_hot(u64::from(page)),
            _ => false,
        }
    }

    pub(crate) fn begin(&mut self, left: u32, what: What) -> u32 {
        let op = Op { left, what };
        if let Some(at) = self.free_ops.pop() {
            self.ops[at as usize] = op;
            return at;
        }
        self.ops.push(op);
        self.ops.len() as u32 - 1
    }

    fn end_io(&mut self, at: u32) {
        let op = &mut self.ops[at as usize];
        op.left -= 1;
        if op.left > 0 {
            return;
        }
        let what = op.what;
        self.free_ops.push(at);
        match what {
            What::Read { user } | What::Write { user } if user != CLEANER => self.end_request(user),
            What::OldRead { user, slot } => {
                let op = self.begin(2, What::Write { user });
                self.push_both(slot, true, user, op);
            }
            What::Segment { segment, buffer } => {
                self.space.seal(segment);
                self.buffers.all[buffer as usize].writing -= 1;
                self.proceed();
            }
            What::CleanRead | What::Read { .. } | What::Write { .. } => {
                if let Some(pass) = &mut self.pass {
                    pass.under_way -= 1;
                }
                self.proceed();
            }
        }
    }

    /// Puts a page into a buffer. False when the user waits until it has space.
    fn append(&mut self, user: u32, page: u32, buffer: usize) -> bool {
        if self.buffers.is_full(buffer) {
            self.write_buffer(buffer);
            if self.buffers.is_full(buffer) {
                self.blocked.push_back(Blocked { user, page, buffer });
                return false;
            }
        }
        // Another user may have written the page in the meantime.
        if self.space.slot(page).is_some() {
            self.space.remove(page);
            self.buffers.all[buffer].pages.push(page);
            if self.buffers.is_full(buffer) {
                self.write_buffer(buffer);
                self.clean();
            }
        }
        true
    }

    /// Free segments that users leave to the cleaner.
    fn reserve(&self) -> usize {
        self.buffers.cleaners() + self.outputs
    }

    /// Writes a full buffer, if its last segments have been written and there are free ones.
    pub(crate) fn write_buffer(&mut self, at: usize) {
        let pages = self.raid.segment_pages() as usize;
        let of_users = at < self.buffers.users;
        let needed = self.buffers.all[at].capacity / pages;
        let reserve = if of_users { self.reserve() } else { 0 };
        if !self.buffers.is_full(at)
            || self.buffers.all[at].writing > 0
            || self.space.free() < needed + reserve
        {
            return;
        }
        let mut content = std::mem::take(&mut self.buffers.all[at].pages);
        if self.setup.sorts()
            && of_users
            && let Some(separator) = &self.separator
        {
            content.sort_by_key(|page| std::cmp::Reverse(separator.frequency(u64::from(*page))));
        }
        let (cold, class) = (self.buffers.all[at].cold, self.buffers.all[at].class);
        for part in content.chunks(pages) {
            let segment = self
                .space
                .take_free(cold, class, self.clock)
                .expect("there are free segments");
            for (slot, page) in (segment * self.raid.segment_pages()..).zip(part) {
                self.space.put(*page, slot);
            }
            self.buffers.all[at].writing += 1;
            self.write_segment(segment, at as u32, of_users);
        }
        content.clear();
        self.buffers.all[at].pages = content;
    }

    fn write_segment(&mut self, segment: u32, buffer: u32, of_users: bool) {
        let work = if of_users {
            self.counts.appended += 1;
            Work::Append
        } else {
            self.counts.clean_writes += 1;
            self.outputs = self.outputs.saturating_sub(1);
            Work::CleanWrite
        };
        let op = self.begin(self.raid.disks, What::Segment { segment, buffer });
        let chunks = self.raid.data_chunks(segment);
        for spot in chunks.chain(self.raid.parity_chunk(segment)) {
            self.array.push(
                self.counts.nanos,
                spot,
                self.raid.chunk_pages,
                true,
                work,
                op,
            );
        }
    }

    /// Overwrites a cold page, in its place or in the cold partition.
    fn overwrite(&mut self, user: u32, page: u32) {
        self.counts.cold_writes += 1;
        let Some(mut slot) = self.space.slot(page) else {
            return;
        };
        if !self.setup.cools_in_place
            && !self.space.segment_of(slot).cold
            && let Some(place) = self.cold_place(page)
        {
            self.counts.cooled += 1;
            slot = place;
        }
        self.space.rewritten(slot, self.clock);
        self.write_page(user, slot);
    }

    /// Moves a page that was hot to the cold partition, if there is space.
    fn cold_place(&mut self, page: u32) -> Option<u32> {
        if let Some(hole) = self.space.cold_hole() {
            self.space.remove(page);
            self.space.put(page, hole);
            return Some(hole);
        }
        if self.space.free() <= FREE_MIN + self.reserve() {
            return None;
        }
        let segment = self.space.take_free(true, 0, self.clock)?;
        let slot = segment * self.raid.segment_pages();
        self.space.remove(page);
        self.space.put(page, slot);
        self.space.seal(segment);
        Some(slot)
    }

    pub(crate) fn write_page(&mut self, user: u32, slot: u32) {
        if self.raid.has_parity() {
            let op = self.begin(2, What::OldRead { user, slot });
            self.push_both(slot, false, user, op);
            return;
        }
        let op = self.begin(1, What::Write { user });
        let spot = self.raid.spot(slot);
        let work = work_of(user);
        self.array.push(self.counts.nanos, spot, 1, true, work, op);
    }

    /// A page and its parity.
    fn push_both(&mut self, slot: u32, write: bool, user: u32, op: u32) {
        let work = work_of(user);
        for spot in [self.raid.spot(slot), self.raid.parity(slot)] {
            self.array.push(self.counts.nanos, spot, 1, write, work, op);
        }
    }

    /// Does what may have become possible: continues the pass, writes buffers, lets users go on, begins a pass.
    fn proceed(&mut self) {
        self.clean();
        for at in 0..self.buffers.all.len() {
            self.write_buffer(at);
        }
        for _ in 0..self.blocked.len() {
            let Some(blocked) = self.blocked.pop_front() else {
                break;
            };
            if self.append(blocked.user, blocked.page, blocked.buffer) {
                self.end_request(blocked.user);
            }
        }
        self.clean();
    }
}

fn work_of(user: u32) -> Work {
    if user == CLEANER {
        Work::Plug
    } else {
        Work::PageWrite
    }
}
