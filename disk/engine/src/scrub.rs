//! Verifying every block of a store in use, and the parity of its array. What an array can compute is repaired.
//!
//! All groups come first. Parity is made right after that, in a stripe at a time, and only where the layout says that all
//! content of the stripe is right (`ParityHome::scrub_stripes`).

use crate::engine::Engine;
use crate::error::EngineError;
use async_recursion::async_recursion as boxed;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::{ByteRate, Device, Pace};
use tonearm_layout::GroupReport;

/// Bytes of an array whose parity is compared in one step.
const STEP_BYTES: u64 = 4 << 20;
/// Longest time for which a step waits for reads of clients. A scrub ends although clients read all the time.
const PATIENCE: Nanos = Nanos::from_millis(10);
/// Time between two looks for such reads.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// What a scrub does with damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scrub {
    /// It reports it.
    Look,
    /// It repairs what the array can compute, and reports the rest.
    Repair,
}

/// The result of a scrub.
#[derive(Clone, Debug, Default)]
pub struct ScrubReport {
    /// Groups looked at.
    pub groups: u64,
    /// Blocks with content, each verified.
    pub blocks: u64,
    /// Groups with damage that is left.
    pub damaged: Vec<GroupReport>,
    /// Blocks, tables and other places that were damaged, and that the array has repaired.
    pub repaired: u64,
    /// Stripes whose parity was wrong and was made right.
    pub parity_repaired: u64,
    /// Stripes whose parity is wrong: nothing was to be repaired, or the stripe has damage that cannot be.
    pub parity_damaged: u64,
    /// It was ended before it had looked at everything.
    pub cancelled: bool,
}

impl ScrubReport {
    /// True when no damage is left in what was looked at.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.parity_damaged == 0
    }
}

impl Engine {
    /// Verifies group `group` while the store is in use.
    ///
    /// # Errors
    /// When the device fails; damage is in the report.
    #[boxed(?Send)]
    pub async fn scrub_group(&self, group: u64, scrub: Scrub) -> Result<GroupReport, EngineError> {
        let blocks = self.0.shape.get().group_blocks;
        let first = group * blocks;
        // A round that is under way may be writing this group. After the round, the guard keeps others away.
        while self.0.is_home_written() {
            self.0.check_alive()?;
            self.0.access.changed.wait().await;
        }
        let count = blocks.min(self.size_blocks() - first);
        let _guard = self.0.access.read(first, count);
        let home = &self.0.home;
        let mut report = match home.parity().filter(|_| self.repairs(scrub)) {
            Some(parity) => parity.scrub_group(group).await?,
            None => home.check_group(group).await?,
        };
        // After a crash the home may hold blocks that were half written. Recovery has pinned the newer content of these
        // blocks: it is written home later, and no read returns the old one.
        let pinned = |block| self.0.pinned.borrow().get(block).is_some();
        report.leave_out(pinned, (first..first + count).any(pinned));
        Ok(report)
    }

    /// As [`Engine::scrub_at`], as fast as clients leave time for it.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn scrub(
        &self,
        scrub: Scrub,
        progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<ScrubReport, EngineError> {
        self.scrub_at(&ByteRate::default(), scrub, progress).await
    }

    /// Verifies all groups, and then the parity of all stripes, at most at `rate`: bytes of verified blocks, and then of the
    /// array, in a second. Reads of clients at home go first: a step begins when none is under way, or after 10 ms.
    /// `progress` gets the steps done, and all steps; the scrub ends early when it returns false.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn scrub_at(
        &self,
        rate: &ByteRate,
        scrub: Scrub,
        mut progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<ScrubReport, EngineError> {
        let mut pace = Pace::new(&self.0.rt, rate);
        let (groups, arrays) = (self.groups(), self.arrays_with_parity());
        let steps = arrays
            .iter()
            .map(|(_, device)| device.size_bytes().div_ceil(STEP_BYTES));
        let total = groups + steps.sum::<u64>();
        let mut report = ScrubReport::default();
        for group in 0..groups {
            if !progress(group, total) {
                report.cancelled = true;
                return Ok(report);
            }
            self.let_reads_go_first().await;
            let found = self.scrub_group(group, scrub).await?;
            let bytes = found.allocated * self.block_size() as u64;
            pace.pause(bytes, || progress(group, total)).await;
            report.groups += 1;
            report.blocks += found.allocated;
            report.repaired += found.repaired;
            if !found.is_sound() {
                report.damaged.push(found);
            }
        }
        let mut step = groups;
        for (member, device) in arrays {
            let size = device.size_bytes();
            for start in (0..size).step_by(STEP_BYTES as usize) {
                if !progress(step, total) {
                    report.cancelled = true;
                    return Ok(report);
                }
                self.let_reads_go_first().await;
                let range = start..size.min(start + STEP_BYTES);
                let bytes = range.end - range.start;
                self.scrub_stripes(member, &device, range, scrub, &mut report)
                    .await?;
                pace.pause(bytes, || progress(step, total)).await;
                step += 1;
            }
        }
        progress(total, total);
        Ok(report)
    }

    /// Waits for the reads of clients that are under way at home, but not for ever.
    async fn let_reads_go_first(&self) {
        let (rt, until) = (&self.0.rt, self.0.rt.now() + PATIENCE.0);
        while self.0.access.has_read() && rt.now() < until {
            rt.sleep(LOOK_EVERY).await;
        }
    }

    /// Groups of the home.
    pub fn groups(&self) -> u64 {
        self.0.shape.get().groups()
    }

    /// True when a scrub may write.
    fn repairs(&self, scrub: Scrub) -> bool {
        scrub == Scrub::Repair && self.0.check_writable().is_ok()
    }

    /// The data members that have parity, with their numbers.
    fn arrays_with_parity(&self) -> Vec<(usize, Rc<dyn Device>)> {
        let has_parity = |device: &Rc<dyn Device>| {
            let status = device.redundancy().and_then(|array| array.status());
            status.is_some_and(|status| status.stripes.parity)
        };
        let members = self.0.home.parity().map(|parity| parity.members());
        let members = members.into_iter().flatten().enumerate();
        members.filter(|(_, device)| has_parity(device)).collect()
    }

    async fn scrub_stripes(
        &self,
        member: usize,
        device: &Rc<dyn Device>,
        range: Range<u64>,
        scrub: Scrub,
        report: &mut ScrubReport,
    ) -> Result<(), EngineError> {
        let (Some(array), Some(parity)) = (device.redundancy(), self.0.home.parity()) else {
            return Ok(());
        };
        for stripe in array.compare(range).await? {
            if !self.repairs(scrub) {
                report.parity_damaged += 1;
                continue;
            }
            let repaired = parity.scrub_stripes(member, stripe).await?;
            report.repaired += repaired.places;
            report.parity_repaired += repaired.stripes;
            report.parity_damaged += u64::from(repaired.wrong > 0);
        }
        Ok(())
    }
}
