//! A profile as bytes.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | `TONEPROF` |
//! | 8 | 4 | version, 1 |
//! | 12 | 60 | sizes, thinks, skips: first (8), step (8), count (4) of each |
//! | 72 | 4 | samples at each point |
//! | 76 | 8 | nanoseconds of a revolution; 0 for none |
//! | 84 | points | samples taken at each point, one byte each |
//! | then | 2 each | the samples, point by point |
//! | end - 4 | 4 | CRC-32C of all before |
//!
//! Numbers are little-endian. A file is valid if and only if its length matches its parts, its checksum is right, and
//! no point has more samples than there is space for.

use super::{Grid, Profile, ProfileError, Steps};
use tonearm_base::Nanos;

const MAGIC: &[u8; 8] = b"TONEPROF";
const VERSION: u32 = 1;
const HEADER: usize = 84;

impl Profile {
    /// The bytes of a file with this profile.
    pub fn encode(&self) -> Vec<u8> {
        let taken = self.taken() as usize;
        let mut bytes = Vec::with_capacity(HEADER + self.counts.len() + 2 * taken + 4);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        let grid = &self.grid;
        for axis in [grid.sizes, grid.thinks, grid.skips] {
            bytes.extend(axis.first.to_le_bytes());
            bytes.extend(axis.step.to_le_bytes());
            bytes.extend(axis.count.to_le_bytes());
        }
        bytes.extend(u32::from(grid.samples).to_le_bytes());
        bytes.extend(grid.turn.map_or(0, |turn| turn.0).to_le_bytes());
        bytes.extend(&self.counts);
        for index in 0..self.counts.len() {
            for sample in self.samples_at(index) {
                bytes.extend(sample.to_le_bytes());
            }
        }
        bytes.extend(tonearm_base::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// The profile in `bytes`, which may be any bytes.
    ///
    /// # Errors
    /// When they are not a result of [`Profile::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ProfileError> {
        let fail = |why| Err(ProfileError::File(why));
        if !bytes.starts_with(MAGIC) {
            return fail("it does not begin as one");
        }
        if bytes.len() < HEADER + 4 {
            return fail("it ends too early");
        }
        let (body, crc) = bytes.split_at(bytes.len() - 4);
        let mut fields = Fields(&body[MAGIC.len()..]);
        if fields.u32()? != VERSION {
            return fail("it was made by a later version");
        }
        if Fields(crc).u32()? != tonearm_base::crc32c(body) {
            return fail("its checksum does not hold");
        }
        let (sizes, thinks, skips) = (fields.steps()?, fields.steps()?, fields.steps()?);
        let Ok(samples) = u8::try_from(fields.u32()?) else {
            return fail("it has more than 255 samples a point");
        };
        let turn = fields.u64()?;
        let grid = Grid {
            sizes,
            thinks,
            skips,
            samples,
            turn: (turn != 0).then_some(Nanos(turn)),
        };
        grid.check()?;
        // Checked before any memory is allocated for a size that a few bytes claim.
        let counts = fields.take(grid.cells())?;
        if counts.iter().any(|count| *count > samples) {
            return fail("a point has too many samples");
        }
        let mut profile = Self::new(grid)?;
        profile.counts.copy_from_slice(counts);
        for (index, count) in counts.iter().enumerate() {
            let first = index * usize::from(samples);
            for sample in &mut profile.samples[first..first + usize::from(*count)] {
                *sample = fields.u16()?;
            }
        }
        if !fields.0.is_empty() {
            return fail("there is more after its end");
        }
        Ok(profile)
    }
}

/// The bytes that have not been read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ProfileError> {
        let (head, tail) = self
            .0
            .split_at_checked(count)
            .ok_or(ProfileError::File("it ends too early"))?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProfileError> {
        Ok(self.take(N)?.try_into().expect("so many were taken"))
    }

    fn u16(&mut self) -> Result<u16, ProfileError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, ProfileError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ProfileError> {
        self.array().map(u64::from_le_bytes)
    }

    fn steps(&mut self) -> Result<Steps, ProfileError> {
        Ok(Steps {
            first: self.u64()?,
            step: self.u64()?,
            count: self.u32()?,
        })
    }
}
