//! Repairs what an array can compute: the part that all layouts share.

use crate::error::HomeError;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::crc32c;
use tonearm_device::{Device, Known, RepairOutcome};
use tonearm_rt::Op;

/// Repairs `known` places of `device`, and then the parity of `stripes` ([`tonearm_device::Redundancy::repair`]).
pub(crate) async fn repair(
    device: &Rc<dyn Device>,
    known: Vec<Known>,
    stripes: Range<u64>,
) -> Result<RepairOutcome, HomeError> {
    let Some(array) = device.redundancy() else {
        return Ok(RepairOutcome::default());
    };
    let at = known
        .first()
        .map_or(stripes.start, |place| place.range.start);
    let repaired = array.repair(known, stripes).await;
    repaired.map_err(|error| HomeError::of_device(Op::Write, device.name(), at, error.io_error()))
}

/// A place whose content has the CRC-32C `crc`.
pub(crate) fn of_crc(range: Range<u64>, crc: u32) -> Known {
    Known {
        range,
        is_right: Box::new(move |bytes| crc32c(bytes) == crc),
    }
}

/// A place of which nothing is known, so that the parity there stays as it is.
pub(crate) fn unknown(range: Range<u64>) -> Known {
    Known {
        range,
        is_right: Box::new(|_| false),
    }
}

/// What `a` and `b` have in common; empty if nothing.
pub(crate) fn common(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}
