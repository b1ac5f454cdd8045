//! The default text output of blkparse: `major,minor cpu sequence time pid action rwbs ...`.
//!
//! A request arrives with its Q event, or with D if the trace has no Q, and is done when C events have covered its
//! sectors. All other events, the lines about input files and the summary at the end are skipped. So are discards, and
//! commands without sectors that flush nothing.

use crate::error::{Reason, excerpt};
use crate::fields::Fields;
use crate::number;
use crate::pairs::{Pairs, Span};
use crate::parser::Parser;
use crate::record::{Extent, Op};
use crate::sink::Sink;
use tonearm_base::Nanos;

const S: u64 = 1_000_000_000;
/// Bits of a minor device number in the kernel.
const MINOR_BITS: u32 = 20;
const MAJOR_MAX: u64 = 1 << 12;

/// The start of the line about an input file, and that of the summary.
const INPUT_FILE: &[u8] = b"Input file ";
const SUMMARY: [&[u8]; 5] = [b"CPU", b"Total", b"Throughput ", b"Events ", b"Skips:"];

#[derive(Default)]
pub(crate) struct Blkparse {
    pairs: Pairs,
    /// The summary has begun. Every line that is no event is part of it.
    summary: bool,
}

/// The content of rwbs.
struct Flags {
    /// Flushes the cache first, or alone.
    flush: bool,
    op: Option<Op>,
    discard: bool,
    fua: bool,
}

impl Parser for Blkparse {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Reason> {
        let fields = Fields::blanks(line);
        let Some(device) = fields.peek(0).and_then(device) else {
            self.summary |= SUMMARY.iter().any(|start| line.starts_with(start));
            return if self.summary || line.starts_with(INPUT_FILE) {
                Ok(())
            } else {
                Err(Reason::NotAnEvent {
                    text: excerpt(line),
                })
            };
        };
        let at = fields.time(3, "a time in seconds", S)?;
        let action = fields.get(5, "an action")?;
        if !matches!(action, b"Q" | b"D" | b"C") {
            return Ok(());
        }
        let flags = Flags::read(fields.get(6, "what the request does")?);
        let extent = match fields.peek(8) {
            Some(b"+") => {
                let sector = fields.integer(7, "a sector number")?;
                match fields.integer(9, "a number of sectors")? {
                    0 => None,
                    sectors => Some(Extent::new(sector, sectors)?),
                }
            }
            _ => None,
        };
        if action == b"C" {
            self.done(device, &flags, extent, at);
        } else {
            self.arrive(action == b"Q", device, &flags, extent, at, sink)?;
        }
        self.pairs.hand_out(sink);
        Ok(())
    }

    fn end(&mut self, sink: &mut Sink) {
        self.pairs.end(sink);
    }
}

impl Blkparse {
    fn arrive(
        &mut self,
        queued: bool,
        device: u32,
        flags: &Flags,
        extent: Option<Extent>,
        at: Nanos,
        sink: &mut Sink,
    ) -> Result<(), Reason> {
        if !self.pairs.wants(queued) {
            return Ok(());
        }
        if flags.discard {
            sink.skipped += 1;
            return Ok(());
        }
        let at = sink.arrival(at)?;
        if flags.flush {
            let span = Span {
                device,
                op: Op::Flush,
                sector: 0,
                sectors: 0,
            };
            if extent.is_none() {
                self.pairs.arrive(span, false, at, sink.line);
            } else {
                // The kernel flushes first, and reports only the end of the write.
                self.pairs.arrive_only(span, at, sink.line);
            }
        }
        if let (Some(op), Some(extent)) = (flags.op, extent) {
            let Extent { sector, sectors } = extent;
            let span = Span {
                device,
                op,
                sector,
                sectors,
            };
            self.pairs.arrive(span, flags.fua, at, sink.line);
        }
        Ok(())
    }

    fn done(&mut self, device: u32, flags: &Flags, extent: Option<Extent>, at: Nanos) {
        match (flags.op, extent) {
            (Some(op), Some(Extent { sector, sectors })) => {
                let span = Span {
                    device,
                    op,
                    sector,
                    sectors,
                };
                self.pairs.done(span, at);
            }
            (_, None) if flags.flush => {
                let span = Span {
                    device,
                    op: Op::Flush,
                    sector: 0,
                    sectors: 0,
                };
                self.pairs.done(span, at);
            }
            _ => {}
        }
    }
}

impl Flags {
    /// The kernel's order: F (flush first), the operation, then F (FUA), A, S, M and others.
    fn read(rwbs: &[u8]) -> Self {
        let (flush, rest) = match rwbs {
            [b'F', rest @ ..] => (true, rest),
            _ => (false, rwbs),
        };
        let (op, discard) = match rest.first() {
            Some(b'R') => (Some(Op::Read), false),
            Some(b'W') => (Some(Op::Write), false),
            Some(b'D') => (None, true),
            _ => (None, false),
        };
        let fua = rest.get(1..).is_some_and(|rest| rest.contains(&b'F'));
        Self {
            flush,
            op,
            discard,
            fua,
        }
    }
}

/// `major,minor` as one number.
fn device(field: &[u8]) -> Option<u32> {
    let comma = field.iter().position(|byte| *byte == b',')?;
    let (major, minor) = (
        number::integer(&field[..comma])?,
        number::integer(&field[comma + 1..])?,
    );
    if major >= MAJOR_MAX || minor >= 1 << MINOR_BITS {
        return None;
    }
    u32::try_from(major << MINOR_BITS | minor).ok()
}
