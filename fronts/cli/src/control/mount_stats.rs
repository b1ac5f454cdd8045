//! The numbers of a mount, as they go over the control socket and into metrics.

use serde::{Deserialize, Serialize};
use tonearm_fuse::{Counters, FuseServer, Kind};

/// What programs have asked of the mount.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct MountStats {
    /// Each kind of operation.
    pub operations: Vec<OperationStats>,
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
        Self {
            operations: Kind::ALL.iter().map(operation).collect(),
        }
    }
}
