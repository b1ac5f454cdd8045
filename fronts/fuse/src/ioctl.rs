//! The requests by ioctl(2) with which programs make units. `fronts/capi/include/tonearm_unit.h` says what each does.

use crate::message::Operation;
use rustix::io::Errno;

/// Type of the requests.
const TYPE: u32 = 0xe7;
/// Bits of a request that passes eight bytes to the server, and of one that takes eight bytes back.
const IN: u32 = 1 << 30 | 8 << 16;
const OUT: u32 = 2 << 30 | 8 << 16;

/// Begins a unit, which lives as long as the descriptor. The argument has flags, and then the number of the unit.
pub(crate) const BEGIN: u32 = IN | OUT | TYPE << 8 | 1;
/// Makes a descriptor of a regular file belong to the unit with this number.
pub(crate) const ENLIST: u32 = IN | TYPE << 8 | 2;
/// Ends the unit that was begun on the descriptor.
pub(crate) const COMMIT: u32 = TYPE << 8 | 3;
/// Ends it without any effect.
pub(crate) const ABORT: u32 = TYPE << 8 | 4;

/// Flag of [`BEGIN`]: what the calling process and its descendants ask for belongs to the unit.
pub(crate) const PROCESSES: u64 = 1;

/// The operation of a request that `thread` makes.
pub(crate) fn operation(request: u32, argument: &[u8], thread: u32) -> Result<Operation, Errno> {
    match request {
        BEGIN => match number(argument)? {
            0 => Ok(Operation::BeginUnit { processes: None }),
            PROCESSES => Ok(Operation::BeginUnit {
                processes: Some(thread),
            }),
            _ => Err(Errno::INVAL),
        },
        ENLIST => Ok(Operation::Enlist {
            unit: number(argument)?,
        }),
        COMMIT => Ok(Operation::Commit { is_notified: false }),
        ABORT => Ok(Operation::Abort),
        _ => Err(Errno::NOTTY),
    }
}

#[expect(
    clippy::host_endian_bytes,
    reason = "a variable of a program on this machine"
)]
fn number(argument: &[u8]) -> Result<u64, Errno> {
    let bytes = argument.try_into().map_err(|_| Errno::INVAL)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A number as the argument of a request.
#[expect(
    clippy::host_endian_bytes,
    reason = "a variable of a program on this machine"
)]
pub(crate) fn argument(number: u64) -> [u8; 8] {
    number.to_ne_bytes()
}
