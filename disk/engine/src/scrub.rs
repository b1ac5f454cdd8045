//! Verifying every block of a store in use.

use crate::engine::Engine;
use crate::error::EngineError;
use tonearm_layout::GroupReport;

/// The result of a scrub.
#[derive(Clone, Debug, Default)]
pub struct ScrubReport {
    /// Groups looked at.
    pub groups: u64,
    /// Blocks with content, each verified.
    pub blocks: u64,
    /// Groups with damage.
    pub damaged: Vec<GroupReport>,
}

impl Engine {
    /// Verifies group `group` while the store is in use.
    ///
    /// # Errors
    /// When the device fails; damage is in the report.
    pub async fn scrub_group(&self, group: u64) -> Result<GroupReport, EngineError> {
        let blocks = self.0.shape.group_blocks;
        let first = group * blocks;
        // A round that is under way may be writing this group. After the round, the guard keeps others away.
        while self.0.is_home_written() {
            self.0.check_alive()?;
            self.0.access.changed.wait().await;
        }
        let count = blocks.min(self.size_blocks() - first);
        let _guard = self.0.access.read(first, count);
        let mut report = self.0.home.check_group(group).await?;
        // After a crash the home may hold blocks that were half written. Recovery has pinned the newer content of these
        // blocks: it is written home later, and no read returns the old one.
        let pinned = |block| self.0.pinned.borrow().get(block).is_some();
        report.leave_out(pinned, (first..first + count).any(pinned));
        Ok(report)
    }

    /// Verifies all groups. `progress` gets groups done and all groups.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn scrub(
        &self,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<ScrubReport, EngineError> {
        let groups = self.groups();
        let mut report = ScrubReport::default();
        for group in 0..groups {
            let found = self.scrub_group(group).await?;
            report.groups += 1;
            report.blocks += found.allocated;
            if !found.is_sound() {
                report.damaged.push(found);
            }
            progress(group + 1, groups);
        }
        Ok(report)
    }

    /// Groups of the home.
    pub fn groups(&self) -> u64 {
        self.0.shape.groups()
    }
}
