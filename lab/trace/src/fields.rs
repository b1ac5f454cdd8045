//! The fields of a line, each with its number for the error.

use crate::error::{Reason, excerpt};
use crate::number;
use tonearm_base::Nanos;

/// More fields than any format uses.
const FIELDS_MAX: usize = 32;

/// A line, cut into fields. Fields after the 32nd are ignored.
pub(crate) struct Fields<'a> {
    fields: [&'a [u8]; FIELDS_MAX],
    count: usize,
}

impl<'a> Fields<'a> {
    /// Fields with blanks between them.
    pub fn blanks(line: &'a [u8]) -> Self {
        Self::collect(
            line.split(u8::is_ascii_whitespace)
                .filter(|field| !field.is_empty()),
        )
    }

    /// Fields separated by commas; they may be empty.
    pub fn commas(line: &'a [u8]) -> Self {
        Self::collect(line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii))
    }

    fn collect(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut fields: [&[u8]; FIELDS_MAX] = [&[]; FIELDS_MAX];
        let mut count = 0;
        for part in parts.take(FIELDS_MAX) {
            fields[count] = part;
            count += 1;
        }
        Self { fields, count }
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.fields[..self.count].iter().copied()
    }

    /// Field `index`, counted from 0, if it is there.
    pub fn peek(&self, index: usize) -> Option<&'a [u8]> {
        self.fields[..self.count].get(index).copied()
    }

    pub fn get(&self, index: usize, what: &'static str) -> Result<&'a [u8], Reason> {
        self.peek(index).ok_or(Reason::Missing {
            field: index + 1,
            what,
        })
    }

    /// Field `index`, as `read` takes it.
    pub fn read<T>(
        &self,
        index: usize,
        what: &'static str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, Reason> {
        let field = self.get(index, what)?;
        read(field).ok_or_else(|| Reason::NotA {
            field: index + 1,
            text: excerpt(field),
            what,
        })
    }

    pub fn integer(&self, index: usize, what: &'static str) -> Result<u64, Reason> {
        self.read(index, what, number::integer)
    }

    pub fn small(&self, index: usize, what: &'static str) -> Result<u32, Reason> {
        self.read(index, what, |field| {
            number::integer(field).and_then(|number| number.try_into().ok())
        })
    }

    pub fn time(&self, index: usize, what: &'static str, unit_ns: u64) -> Result<Nanos, Reason> {
        self.read(index, what, |field| number::time_ns(field, unit_ns))
            .map(Nanos)
    }
}
