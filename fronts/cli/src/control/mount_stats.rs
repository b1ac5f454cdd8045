//! The numbers of a mount, as they go over the control socket and into metrics.

use serde::{Deserialize, Serialize};
use tonearm_disk::NumberKind;
use tonearm_fs::UnitCounts;
use tonearm_fuse::{Counters, FuseServer, Kind};

/// What programs have asked of the mount.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct MountStats {
    /// Each kind of operation.
    pub operations: Vec<OperationStats>,
    /// Units of programs.
    pub units: UnitStats,
}

/// Units of programs: several operations that happen at once or not at all.
#[derive(Serialize, Deserialize, Clone, Copy, Default, Debug)]
pub struct UnitStats {
    /// Those that are open.
    pub open: u64,
    /// Those begun.
    pub begun: u64,
    /// Those that have taken effect.
    pub committed: u64,
    /// Those without effect.
    pub aborted: u64,
    /// Those of them that were in conflict with others.
    pub conflicts: u64,
}

/// A number of [`UnitStats`]; its name as a metric begins with `mount_units_`.
pub struct UnitNumber {
    /// Its name.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: NumberKind,
    /// Takes it out of a snapshot.
    pub value: fn(&UnitStats) -> u64,
}

impl UnitStats {
    /// All of its numbers.
    pub const NUMBERS: &[UnitNumber] = &[
        UnitNumber {
            name: "open",
            help: "Units of programs that are open",
            kind: NumberKind::Gauge,
            value: |units| units.open,
        },
        UnitNumber {
            name: "begun",
            help: "Units of programs begun",
            kind: NumberKind::Counter,
            value: |units| units.begun,
        },
        UnitNumber {
            name: "committed",
            help: "Units of programs that have taken effect",
            kind: NumberKind::Counter,
            value: |units| units.committed,
        },
        UnitNumber {
            name: "aborted",
            help: "Units of programs without effect",
            kind: NumberKind::Counter,
            value: |units| units.aborted,
        },
        UnitNumber {
            name: "conflicts",
            help: "Units of programs without effect because of a conflict",
            kind: NumberKind::Counter,
            value: |units| units.conflicts,
        },
    ];
}

/// Counters of one kind of operation.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct OperationStats {
    /// Its name.
    pub operation: String,
    /// Requests answered.
    pub requests: u64,
    /// Bytes of content in those that succeeded.
    pub bytes: u64,
    /// Those that did not.
    pub errors: u64,
    /// Time from their arrival to their answer, in nanoseconds, summed.
    pub time_ns: u64,
}

impl MountStats {
    /// A snapshot.
    pub fn of(server: &FuseServer) -> Self {
        let operation = |kind: &Kind| {
            let Counters {
                requests,
                bytes,
                errors,
                time_ns,
            } = server.metrics().of(*kind);
            OperationStats {
                operation: kind.name().to_string(),
                requests,
                bytes,
                errors,
                time_ns,
            }
        };
        let UnitCounts {
            open,
            begun,
            committed,
            aborted,
            conflicts,
        } = server.units();
        Self {
            operations: Kind::ALL.iter().map(operation).collect(),
            units: UnitStats {
                open,
                begun,
                committed,
                aborted,
                conflicts,
            },
        }
    }
}
