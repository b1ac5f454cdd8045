//! A recording of requests, as it goes over the control socket.

use serde::{Deserialize, Serialize};
use tonearm_requests::{CommandKind, Recorded, RecordedRequest};

/// What a recording is of.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct TraceStart {
    /// Identity of the store.
    pub store: String,
    /// Version of the server.
    pub version: String,
}

/// The requests since the last batch, and counts since the start.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Eq, Debug)]
pub struct TraceBatch {
    /// In the order in which they have ended.
    pub requests: Vec<TraceRequest>,
    /// Names of the volumes, by their numbers.
    pub volumes: Vec<String>,
    /// Requests that are missing because they were not taken in time.
    pub lost: u64,
    /// Requests that are left out because they were answered with an error.
    pub failed: u64,
    /// All requests that have ended by then have been given; nanoseconds since the start.
    pub until_ns: u64,
}

/// A request. As JSON it is an array of its fields, because there are many.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(from = "Fields", into = "Fields")]
pub struct TraceRequest {
    /// Number of its volume in [`TraceBatch::volumes`].
    pub volume: u32,
    /// The operation.
    pub op: TraceOp,
    /// Durable before the reply.
    pub fua: bool,
    /// First byte.
    pub offset: u64,
    /// Length of the range in bytes.
    pub bytes: u64,
    /// Arrival, in nanoseconds since the start.
    pub arrival_ns: u64,
    /// Nanoseconds until the reply was handed to the socket.
    pub response_ns: u64,
}

/// The operation of a request.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TraceOp {
    /// Read.
    #[serde(rename = "R")]
    Read,
    /// Write.
    #[serde(rename = "W")]
    Write,
    /// Flush.
    #[serde(rename = "F")]
    Flush,
    /// Trim.
    #[serde(rename = "T")]
    Trim,
    /// Write zeroes.
    #[serde(rename = "Z")]
    Zero,
}

/// The fields of a request, in the order of the array.
type Fields = (u32, TraceOp, bool, u64, u64, u64, u64);

impl From<Fields> for TraceRequest {
    fn from((volume, op, fua, offset, bytes, arrival_ns, response_ns): Fields) -> Self {
        Self {
            volume,
            op,
            fua,
            offset,
            bytes,
            arrival_ns,
            response_ns,
        }
    }
}

impl From<TraceRequest> for Fields {
    fn from(request: TraceRequest) -> Self {
        (
            request.volume,
            request.op,
            request.fua,
            request.offset,
            request.bytes,
            request.arrival_ns,
            request.response_ns,
        )
    }
}

impl TraceBatch {
    /// What the server has recorded.
    pub fn of(recorded: Recorded) -> Self {
        Self {
            requests: recorded.requests.iter().filter_map(request).collect(),
            volumes: recorded.volumes,
            lost: recorded.lost,
            failed: recorded.failed,
            until_ns: recorded.until.0,
        }
    }
}

fn request(recorded: &RecordedRequest) -> Option<TraceRequest> {
    let op = match recorded.kind {
        CommandKind::Read => TraceOp::Read,
        CommandKind::Write => TraceOp::Write,
        CommandKind::Flush => TraceOp::Flush,
        CommandKind::Trim => TraceOp::Trim,
        CommandKind::WriteZeroes => TraceOp::Zero,
        CommandKind::Cache | CommandKind::BlockStatus | CommandKind::Unknown => return None,
    };
    Some(TraceRequest {
        volume: recorded.volume,
        op,
        fua: recorded.fua,
        offset: recorded.offset,
        bytes: recorded.bytes,
        arrival_ns: recorded.arrival.0,
        response_ns: recorded.response.0,
    })
}
