//! Counts of events in runs. They show whether a campaign has tested each kind of event.

use tonearm_layout::HomeStats;

/// Declares the events, group by group.
macro_rules! events {
    ($($(#[$of_group:meta])* $group:ident { $($(#[$of_event:meta])* $event:ident,)+ })+) => {
        /// An event in runs.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Met {
            $($($(#[$of_event])* $event,)+)+
        }

        impl Met {
            $($(#[$of_group])* pub const $group: &[Met] = &[$(Met::$event),+];)+
        }

        const COUNT: usize = [$($(Met::$event),+),+].len();
    };
}

events! {
    /// Events of runs with recovery units.
    UNITS {
        /// A unit that wrote a file has ended.
        VolumeWrite,
        /// A file was created.
        Creation,
        /// A file was deleted.
        Deletion,
        /// A file was renamed.
        Rename,
        /// A unit ended that did not fit in memory.
        Spill,
        /// A full store released space that was reserved for units that do not fit in memory.
        SpaceBack,
        /// A unit ended that set the size of a file which other clients had changed meanwhile.
        SharedResize,
        /// A unit could not end because of another client's commit.
        Conflict,
        /// A list was created.
        List,
        /// A list was deleted.
        ListDeletion,
        /// A block was inserted into a list.
        Insert,
        /// A block was removed from its list.
        Removal,
        /// A unit that wrote a block on a list ended.
        BlockWrite,
    }
    /// Events at the home of a store with segments.
    HOME {
        /// A block was written before its commit was in the log.
        Indirect,
        /// A block was overwritten in place in a segment.
        Overwrite,
        /// A block was overwritten in place that had been appended the time before.
        Cooled,
        /// A block was appended that had been overwritten in place the time before. It has left a hole.
        Heated,
        /// The cleaner has copied a block.
        Cleaned,
        /// The cleaner has moved a block into a hole of another segment.
        Plugged,
        /// The cleaner has copied a note of a block that was overwritten in place.
        CarriedNote,
        /// A checkpoint of the block map was written.
        Checkpoint,
    }
    /// Events of arrays.
    ARRAYS {
        /// A member of an array failed while the store was in use.
        Pulled,
        /// A second member failed, or one of an array without redundancy, and the store has failed.
        Lost,
        /// An opening found a member whose content was old.
        Stale,
        /// An opening after a crash was refused because a member was away.
        Refused,
        /// A store was opened without a member.
        Degraded,
        /// A drive was put in the place of a missing member.
        Replaced,
        /// A rebuild was stopped.
        Stopped,
        /// A rebuild has restored a member.
        Rebuilt,
        /// A rebuild went on from stripes that an earlier one had restored.
        Resumed,
        /// The power was cut while a member was being rebuilt.
        CutInRebuild,
    }
    /// Events of archives.
    ARCHIVES {
        /// A state was restored from an archive.
        Restored,
        /// An archive does not have the state of a commit.
        NotRestorable,
        /// An archive was continued after a cut.
        Continued,
    }
    /// Events of file systems.
    TREES {
        /// An operation of a file system.
        TreeOperation,
    }
}

/// The number of occurrences of each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; COUNT]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl Counts {
    /// Adds `times` occurrences.
    pub fn met(&mut self, what: Met, times: u64) {
        self.0[what as usize] += times;
    }

    /// Adds what happened at a home since it was opened.
    pub fn met_home(&mut self, stats: &HomeStats) {
        self.met(Met::Indirect, stats.segments.indirect_blocks);
        self.met(Met::Overwrite, stats.segments.overwritten_blocks);
        self.met(Met::Cooled, stats.segments.cooled_blocks);
        self.met(Met::Heated, stats.segments.heated_blocks);
        self.met(Met::Cleaned, stats.segments.cleaned_blocks);
        self.met(Met::Plugged, stats.segments.plugged_blocks);
        self.met(Met::CarriedNote, stats.segments.carried_notes);
        self.met(Met::Checkpoint, stats.segments.checkpoints);
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Counts) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }

    /// Number of occurrences of `what`.
    pub fn of(&self, what: Met) -> u64 {
        self.0[what as usize]
    }

    /// Each of the events `of` with its count.
    pub fn iter(&self, of: &'static [Met]) -> impl Iterator<Item = (Met, u64)> {
        of.iter().map(|what| (*what, self.of(*what)))
    }
}
