//! Puts what a store's space is used for into the types of the protocol.

use super::protocol::{CountedInfo, Info, SpaceInfo, VolumeInfo};
use tonearm_disk::{Space, Usage};

/// Whether the data of a usage was counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// What is reserved is known, and nothing else.
    No,
    Yes,
}

impl SpaceInfo {
    fn of(space: Space, counted: Counted) -> Self {
        Self {
            reserved_bytes: space.reserved_bytes,
            used_bytes: (counted == Counted::Yes).then_some(space.used_bytes),
        }
    }
}

impl VolumeInfo {
    /// Sets the space of `volumes`. A volume that was made since has none.
    pub fn set_space(volumes: &mut [Self], usage: &Usage, counted: Counted) {
        for volume in volumes {
            let mut found = usage
                .volumes
                .iter()
                .filter(|(name, _)| *name == volume.name);
            if let Some((_, space)) = found.next() {
                volume.space = SpaceInfo::of(*space, counted);
            }
        }
    }
}

impl Info {
    /// Sets the space of all parts of the store.
    pub fn set_space(&mut self, usage: &Usage, counted: Counted) {
        VolumeInfo::set_space(&mut self.volumes, usage, counted);
        self.files = SpaceInfo::of(usage.files, counted);
        self.units = SpaceInfo::of(usage.units, counted);
        self.counted = (counted == Counted::Yes).then(|| CountedInfo {
            data_bytes: usage.total().used_bytes,
            commits_meanwhile: usage.commits_meanwhile,
        });
    }
}
