//! The content of drives after a power cut.

use crate::image::DiskImage;
use crate::payload::{Payload, SECTOR};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::ops::Range;

#[derive(Clone)]
pub(super) struct Unstable {
    /// Number in the order of submission.
    pub serial: u64,
    pub offset: u64,
    pub payload: Payload,
    pub in_flight: bool,
    /// Bytes of the device that later stable writes hide.
    pub covered: Vec<Range<u64>>,
}

/// One drive at the moment of a power cut.
#[derive(Clone)]
pub(super) struct CutDisk {
    /// Content that is certain.
    pub stable: DiskImage,
    /// Unstable writes in order of submission.
    pub unstable: Vec<Unstable>,
}

/// The state at the moment of a power cut: certain content and unstable writes.
#[derive(Clone)]
pub struct Crash {
    pub(super) disks: Vec<CutDisk>,
}

impl Crash {
    /// The devices after a power cut now. `seed` selects the kind of outcome (all writes kept, all lost, an ordered
    /// prefix kept, any subset of sectors, garbled sectors) and its details.
    pub fn images(&self, seed: u64) -> Vec<DiskImage> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let manner = rng.next_u32() % 8;
        let share = rng.next_u32() % 101;
        let mut images = Vec::new();
        for disk in &self.disks {
            let mut image = disk.stable.clone();
            let cut = match disk.unstable.len() {
                0 => 0,
                count => rng.next_u32() as usize % (count + 1),
            };
            for (index, write) in disk.unstable.iter().enumerate() {
                match manner {
                    0 if !write.in_flight => write.put(&mut image),
                    1 => {}
                    2 if index < cut => write.put(&mut image),
                    2 if index > cut => {}
                    _ => write.scatter(&mut image, share, manner >= 6, &mut rng),
                }
            }
            images.push(image);
        }
        images
    }

    /// The devices after a power cut now, for storage that keeps every completed write. Only writes under way are
    /// uncertain.
    pub fn images_ordered(&self, seed: u64) -> Vec<DiskImage> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let share = rng.next_u32() % 101;
        let mut images = Vec::new();
        for disk in &self.disks {
            let mut image = disk.stable.clone();
            for write in &disk.unstable {
                if write.in_flight {
                    write.scatter(&mut image, share, seed.is_multiple_of(3), &mut rng);
                } else {
                    write.put(&mut image);
                }
            }
            images.push(image);
        }
        images
    }

    /// True when `seed` makes [`Crash::images`], or [`Crash::images_ordered`], garble sectors of unstable writes.
    pub fn garbles(seed: u64, ordered: bool) -> bool {
        if ordered {
            seed.is_multiple_of(3)
        } else {
            ChaCha8Rng::seed_from_u64(seed).next_u32() % 8 >= 6
        }
    }

    /// True when there are no unstable writes.
    pub fn is_settled(&self) -> bool {
        self.disks.iter().all(|disk| disk.unstable.is_empty())
    }
}

impl Unstable {
    /// Applies the whole write to the medium.
    pub fn put(&self, image: &mut DiskImage) {
        if self.covered.is_empty() {
            self.payload
                .apply(image, self.offset, 0, self.payload.len());
            return;
        }
        for (from, part) in self.sectors() {
            if !self.is_covered(from) {
                self.payload.apply(image, self.offset, from, part);
            }
        }
    }

    /// Applies each sector with a probability of `share` percent, or as garbage.
    pub fn scatter(&self, image: &mut DiskImage, share: u32, garble: bool, rng: &mut ChaCha8Rng) {
        for (from, part) in self.sectors() {
            let roll = rng.next_u32();
            if self.is_covered(from) {
                continue;
            }
            if garble && roll.is_multiple_of(7) {
                let mut garbage = [0u8; SECTOR];
                rng.fill_bytes(&mut garbage);
                image.write(self.offset + from, &garbage[..part as usize]);
            } else if (roll >> 8) % 100 < share {
                self.payload.apply(image, self.offset, from, part);
            }
        }
    }

    /// Its range on the device.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.payload.len()
    }

    /// Notes that a later stable write hides `range`.
    pub fn cover(&mut self, range: &Range<u64>) {
        let own = self.range();
        let (from, to) = (range.start.max(own.start), range.end.min(own.end));
        if from < to {
            self.covered.push(from..to);
        }
    }

    fn is_covered(&self, from: u64) -> bool {
        let at = self.offset + from;
        self.covered.iter().any(|range| range.contains(&at))
    }

    /// Start within the write, and length, of each sector.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let len = self.payload.len();
        let starts = (0..len).step_by(SECTOR);
        starts.map(move |from| (from, (SECTOR as u64).min(len - from)))
    }
}
