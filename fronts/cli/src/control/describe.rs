//! Describes a store and its volumes in the types of the protocol, both for an open store and for one that is only
//! inspected.

use super::protocol::{
    ArrayInfo, ArrayMemberInfo, DamagedGroup, HotBlocks, MemberInfo, ScrubResult, SpaceInfo,
    VolumeInfo, Volumes,
};
use super::space::used_bytes;
use super::usage::Counted;
use std::path::Path;
use tonearm_device::raid::{ArrayStatus, MemberState, MemberStatus, Trouble};
use tonearm_disk::{Disk, ScrubReport, StoreStats};
use tonearm_format::{
    HeadKind, Layout, MemberEntry, Placement, Roles, SYSTEM_BLOCKS, Superblock, VolumeEntry,
};
use tonearm_layout::{GroupReport, SlotReport};
use tonearm_store::Executor;
use tonearm_terminal::report;

/// The name of a layout, as `create --layout` takes it.
pub fn layout_text(layout: Layout) -> &'static str {
    match layout {
        Layout::Overwrite => "overwrite",
        Layout::Segments { placement, .. } => match placement {
            Placement::Append => "segments",
            Placement::Wolf => "wolf",
            Placement::Hylog => "hylog",
        },
    }
}

/// How the log finds the place of its next write, in words.
pub fn head_text(superblock: &Superblock) -> String {
    let how = match superblock.head {
        HeadKind::Sequential => return "sequential".to_string(),
        HeadKind::Formula => "formula",
        HeadKind::Mimic => "mimic",
        HeadKind::Online => "online",
    };
    let tracks = if superblock.physical_tracks {
        "physical tracks"
    } else {
        "stripes"
    };
    let drives = match superblock.log_members().count() {
        1 => String::new(),
        count => format!(" of {count} drives in turn"),
    };
    let sector = superblock.log_sector_bytes;
    format!("{how}, on {tracks}{drives}, log sectors of {sector} bytes")
}

/// What a member carries, in words.
pub fn carries_text(roles: Roles) -> &'static str {
    match (roles.log, roles.data) {
        (true, true) => "log and blocks",
        (true, false) => "log",
        (false, true) => "blocks",
        (false, false) => "nothing but the superblock",
    }
}

impl Volumes {
    /// The volumes as they are now.
    pub fn of(disk: &Disk, executor: &Executor) -> Self {
        let array = disk.engine().array().as_ref().map(ArrayInfo::of);
        let mut volumes: Vec<_> = disk.volumes().iter().map(VolumeInfo::of).collect();
        VolumeInfo::set_space(&mut volumes, &disk.reserved(), Counted::No);
        Self {
            volumes,
            free_bytes: disk.free_bytes(),
            used_bytes: used_bytes(executor, array.as_ref()),
        }
    }
}

impl MemberInfo {
    /// The members of a store, which are at `paths`.
    pub fn all(superblock: &Superblock, paths: &[String]) -> Vec<Self> {
        let block_bytes = u64::from(superblock.block_size);
        let group_bytes = match superblock.segments() {
            Some(layout) => u64::from(layout.segment_bytes),
            None => (tonearm_format::slot_entries(superblock.block_size) as u64 + 2) * block_bytes,
        };
        let members = superblock.members.iter().zip(paths);
        let info = |(member, path): (&MemberEntry, &String)| Self {
            path: path.clone(),
            uuid: report::uuid(member.uuid),
            carries: carries_text(member.roles).to_string(),
            data_bytes: member.groups * group_bytes,
        };
        members.map(info).collect()
    }
}

impl HotBlocks {
    /// The last decision; none before the first, and where blocks are not separated.
    pub fn of(stats: &StoreStats) -> Option<Self> {
        let percent = |permille: u64| permille as f64 / 10.0;
        let cost = |milli: u64| milli as f64 / 1000.0;
        (stats.efficiency_milli > 0).then(|| Self {
            blocks_percent: percent(stats.hot_share_permille),
            writes_percent: percent(stats.hot_writes_permille),
            threshold: stats.hot_threshold,
            write_cost: cost(stats.write_cost_milli),
            efficiency: cost(stats.efficiency_milli),
            overwritten_blocks: stats.overwritten_blocks,
        })
    }

    /// Rows for a table.
    pub fn rows(&self) -> [(&'static str, String); 2] {
        let hot = format!(
            "{:.1} % of the blocks get {:.1} % of the writes, from {} recent writes on; {} blocks overwritten in place",
            self.blocks_percent,
            self.writes_percent,
            self.threshold,
            report::count(self.overwritten_blocks)
        );
        let cost = format!(
            "{:.1} expected, {:.1} if all were overwritten (an appended block without cleaning costs 1)",
            self.write_cost, self.efficiency
        );
        [("hot blocks", hot), ("write cost", cost)]
    }
}

impl ArrayInfo {
    /// Describes an array.
    pub fn of(status: &ArrayStatus) -> Self {
        let member = |member: &MemberStatus| {
            let (state, percent) = match (member.state, &member.trouble) {
                (MemberState::InUse, _) => ("in use", 100.0),
                (MemberState::Missing, Some(Trouble::Stale(_))) => ("stale", 0.0),
                (MemberState::Missing, _) => ("missing", 0.0),
                (MemberState::Rebuilding { rebuilt_rows }, _) => {
                    let share = rebuilt_rows as f64 / status.stripes.rows as f64;
                    ("rebuilding", (share * 1000.0).floor() / 10.0)
                }
            };
            ArrayMemberInfo {
                path: member.name.clone(),
                state: state.to_string(),
                rebuilt_percent: percent,
                trouble: member.trouble.as_ref().map(ToString::to_string),
            }
        };
        Self {
            level: status.level.name().to_string(),
            stripe_bytes: status.stripes.unit,
            degraded: status.is_degraded(),
            lost: status.lost.as_ref().map(ToString::to_string),
            members: status.members.iter().map(member).collect(),
        }
    }

    /// What the user must know and do: a line if the array is lost, else one for each member that is not in use. `written`
    /// shows that the store is open for writing, which makes a member that is missing stale.
    pub fn warnings(&self, store: &str, written: bool) -> Vec<String> {
        if let Some(lost) = &self.lost {
            return vec![format!("the {} array is LOST: {lost}", self.level)];
        }
        let store = report::shell_word(Path::new(store));
        let warning = |member: &ArrayMemberInfo| {
            let (path, level) = (&member.path, &self.level);
            let trouble = member.trouble.as_deref().unwrap_or("it has failed");
            match member.state.as_str() {
                "in use" => None,
                "rebuilding" => Some(format!(
                    "the {level} array is DEGRADED: {path} is rebuilt to {} %; go on with \
                     `tonearm member rebuild {store}`",
                    member.rebuilt_percent
                )),
                state => {
                    let first = match (state, written) {
                        ("missing", false) => {
                            "connect it again before the store is opened for writing, or "
                        }
                        _ => "",
                    };
                    Some(format!(
                        "the {level} array is DEGRADED, and the failure of another member loses data: {path}: {trouble}; \
                         {first}put a new file or device in its place with `tonearm member replace {store} NEW`"
                    ))
                }
            }
        };
        self.members.iter().filter_map(warning).collect()
    }
}

impl VolumeInfo {
    /// Describes a volume of an open store.
    pub fn of(volume: &tonearm_disk::VolumeInfo) -> Self {
        Self {
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            space: SpaceInfo::default(),
            uuid: report::uuid(volume.uuid),
            read_only: volume.read_only,
            created_unix_s: volume.created_unix_s,
            clients: 0,
            users: Vec::new(),
        }
    }

    /// Describes an entry of the volume table.
    pub fn of_entry(entry: &VolumeEntry) -> Self {
        Self {
            name: entry.name.clone(),
            size_bytes: entry.size_bytes,
            space: SpaceInfo::default(),
            uuid: report::uuid(entry.uuid),
            read_only: entry.read_only,
            created_unix_s: entry.created_unix_s,
            clients: 0,
            users: Vec::new(),
        }
    }
}

impl ScrubResult {
    /// The `report` of a scrub of `disk`.
    pub fn of(report: &ScrubReport, disk: &Disk) -> Self {
        let entries = disk.entries();
        let damaged = report.damaged.iter();
        Self {
            groups: report.groups,
            groups_total: disk.engine().groups(),
            cancelled: report.cancelled,
            blocks: report.blocks,
            damaged: damaged
                .filter_map(|found| DamagedGroup::of(found, &entries, disk.block_size()))
                .collect(),
            repaired: report.repaired,
            parity_repaired: report.parity_repaired,
            parity_damaged: report.parity_damaged,
            array: disk.engine().array().as_ref().map(ArrayInfo::of),
        }
    }

    /// True when no damage is left.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.parity_damaged == 0
    }

    /// True when a member of the array does not have all of its data.
    pub fn is_degraded(&self) -> bool {
        self.array.as_ref().is_some_and(|array| array.degraded)
    }
}

impl DamagedGroup {
    /// The damage of `report` in a store with these volumes; `None` when it is sound.
    pub fn of(report: &GroupReport, entries: &[VolumeEntry], block_size: u32) -> Option<Self> {
        if report.is_sound() {
            return None;
        }
        let mut damages = Vec::new();
        for (index, slot) in report.slots.iter().enumerate() {
            if let SlotReport::Damaged(why) = slot {
                damages.push(format!("checksum table, copy {index}: {why}"));
            }
        }
        let bad = report.bad.iter().map(|bad| {
            let owner = owner(entries, bad.block, block_size);
            format!("{} ({owner})", bad.error)
        });
        damages.extend(bad);
        Some(Self {
            group: report.group,
            member: report.member.clone(),
            offset: report.offset,
            table_lost: report.table_lost,
            damages,
        })
    }
}

/// Which volume has home block `block`, and where.
fn owner(entries: &[VolumeEntry], block: u64, block_size: u32) -> String {
    if block < SYSTEM_BLOCKS {
        return "the volume table".into();
    }
    for entry in entries {
        let mut before = 0;
        for extent in &entry.extents {
            if (extent.start..extent.start + extent.count).contains(&block) {
                let byte = (before + block - extent.start) * u64::from(block_size);
                return format!("volume {}, byte {byte}", entry.name);
            }
            before += extent.count;
        }
    }
    "in no volume".into()
}

#[cfg(test)]
#[path = "describe_test.rs"]
mod describe_test;
