//! Faults as text, one line each: `drive=0 after=120 bit-rot used:77 span_ns=0 times=1`.

use super::{Fault, FaultKind, Place};
use std::fmt;
use std::str::FromStr;
use tonearm_base::Nanos;

impl FaultKind {
    /// Its name in scripts.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::LatentError => "latent-error",
            FaultKind::BitRot => "bit-rot",
            FaultKind::LostWrite => "lost-write",
            FaultKind::MisdirectedWrite => "misdirected-write",
            FaultKind::MisdirectedRead => "misdirected-read",
            FaultKind::StaleRead => "stale-read",
            FaultKind::Stuck => "stuck",
            FaultKind::Slow => "slow",
            FaultKind::FailedFlush => "failed-flush",
            FaultKind::LyingFlush => "lying-flush",
            FaultKind::Full => "full",
            FaultKind::Failed => "failed",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|kind| kind.name() == text);
        named.ok_or_else(|| format!("{text:?} is not a kind of fault"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::At(byte) => write!(f, "at:{byte}"),
            Place::Used(pick) => write!(f, "used:{pick}"),
            Place::Any(pick) => write!(f, "any:{pick}"),
        }
    }
}

impl FromStr for Place {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a place: at:BYTE, used:NUMBER or any:NUMBER");
        let (kind, number) = text.split_once(':').ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        match kind {
            "at" => Ok(Place::At(number)),
            "used" => Ok(Place::Used(number)),
            "any" => Ok(Place::Any(number)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "drive={} after={} {} {} span_ns={} times={}",
            self.drive, self.after, self.kind, self.place, self.span.0, self.times
        )
    }
}

impl FromStr for Fault {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[drive, after, kind, place, span, times] = words.as_slice() else {
            return Err(format!("a fault has six words: {text:?}"));
        };
        let number = |word: &str, key: &str| {
            let value = word
                .strip_prefix(key)
                .and_then(|rest| rest.strip_prefix('='));
            let value = value.and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| format!("{word:?} is not {key}=NUMBER"))
        };
        let small = |word: &str, key: &str| {
            u32::try_from(number(word, key)?).map_err(|_| format!("{word:?} is too large"))
        };
        Ok(Fault {
            drive: small(drive, "drive")?,
            after: number(after, "after")?,
            kind: kind.parse()?,
            place: place.parse()?,
            span: Nanos(number(span, "span_ns")?),
            times: small(times, "times")?,
        })
    }
}
