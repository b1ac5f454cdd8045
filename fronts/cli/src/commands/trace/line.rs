//! The lines of a trace: the format csv of the laboratory, with named columns.

use crate::control::{TraceOp, TraceRequest};
use std::io::Write;

/// The columns.
pub const HEADER: &str = "arrival_ms,device,rw,lba,sectors,fua,response_ms\n";

/// Bytes of a sector of a trace.
const SECTOR_BYTES: u64 = 512;

/// Adds the comment that names a volume. Names may have any character, so it is quoted.
pub fn volume_line(lines: &mut Vec<u8>, number: usize, name: &str) {
    // A vector takes all bytes.
    let _ = writeln!(lines, "# device {number}: volume {name:?}");
}

/// Adds a request. A sector that it touches in part belongs to it as a whole.
pub fn request_line(lines: &mut Vec<u8>, request: &TraceRequest) {
    let TraceRequest {
        volume,
        op,
        fua,
        offset,
        bytes,
        arrival_ns,
        response_ns,
    } = *request;
    let end = offset.saturating_add(bytes.into());
    let first = offset / SECTOR_BYTES;
    let sectors = end.div_ceil(SECTOR_BYTES) - first;
    let letter = match op {
        TraceOp::Read => 'R',
        TraceOp::Write => 'W',
        TraceOp::Flush => 'F',
        TraceOp::Trim => 'T',
        TraceOp::Zero => 'Z',
    };
    let (arrival, response) = (ms(arrival_ns), ms(response_ns));
    let fua = u8::from(fua);
    let _ = writeln!(
        lines,
        "{}.{:06},{volume},{letter},{first},{sectors},{fua},{}.{:06}",
        arrival.0, arrival.1, response.0, response.1
    );
}

/// Milliseconds, and the nanoseconds behind the point.
fn ms(nanos: u64) -> (u64, u64) {
    (nanos / 1_000_000, nanos % 1_000_000)
}
