//! Content of one drive: what reads see, what is stable, and the unstable writes between them.

use super::crash::Unstable;
use super::{SimDisk, Zeroing};
use crate::fault::DriveFaults;
use crate::image::DiskImage;
use crate::payload::Payload;
use crate::timing::Timing;
use std::collections::VecDeque;

pub(super) struct Disk {
    /// The content that reads see.
    pub view: DiskImage,
    /// Stable content, which a power cut cannot change; kept only if the options ask for power cuts.
    pub stable: DiskImage,
    /// Completed unstable writes, in order of completion. The first has the number `completed - cache.len()`.
    cache: VecDeque<Unstable>,
    completed: u64,
    /// Writes that a failed flush was to cover. They may or may not ever reach the medium.
    orphans: Vec<Unstable>,
    pub timing: Box<dyn Timing>,
    pub write_cache: bool,
    pub zeroing: Zeroing,
    pub faults: DriveFaults,
}

impl Disk {
    pub fn new(mut disk: SimDisk, power_cuts: bool) -> Self {
        let faults = DriveFaults::new(std::mem::take(&mut disk.image.bad));
        Self {
            stable: if power_cuts {
                disk.image.clone()
            } else {
                DiskImage::default()
            },
            view: disk.image,
            cache: VecDeque::new(),
            completed: 0,
            orphans: Vec::new(),
            timing: disk.timing,
            write_cache: disk.write_cache,
            zeroing: disk.zeroing,
            faults,
        }
    }

    /// The content after an orderly switch-off.
    pub fn image(&self) -> DiskImage {
        self.with_bad(&self.view)
    }

    /// The content that a power cut cannot change.
    pub fn surely(&self, power_cuts: bool) -> DiskImage {
        self.with_bad(if power_cuts { &self.stable } else { &self.view })
    }

    fn with_bad(&self, image: &DiskImage) -> DiskImage {
        let mut image = image.clone();
        image.bad = self.faults.bad().clone();
        image
    }

    /// Number of writes that a flush beginning now covers.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Completed writes that are not stable.
    pub fn unstable(&self) -> impl Iterator<Item = &Unstable> {
        self.orphans.iter().chain(&self.cache)
    }

    /// Takes a completed write.
    pub fn write(&mut self, serial: u64, offset: u64, payload: Payload, durable: bool) {
        let len = payload.len();
        payload.apply(&mut self.view, offset, 0, len);
        let write = Unstable {
            serial,
            offset,
            payload,
            in_flight: false,
            covered: Vec::new(),
        };
        if durable {
            self.make_stable(&write);
        } else {
            self.cache.push_back(write);
            self.completed += 1;
        }
    }

    /// Makes the writes before number `until` stable.
    pub fn flush(&mut self, until: u64) {
        while let Some(write) = self.pop_before(until) {
            // Later writes in the cache completed after this one, so this write does not hide them.
            write.put(&mut self.stable);
            for orphan in &mut self.orphans {
                orphan.cover(&write.range());
            }
        }
    }

    /// A flush of the writes before number `until` has failed. No later flush makes them stable.
    pub fn fail_flush(&mut self, until: u64) {
        while let Some(write) = self.pop_before(until) {
            self.orphans.push(write);
        }
    }

    fn pop_before(&mut self, until: u64) -> Option<Unstable> {
        let first = self.completed - self.cache.len() as u64;
        (first < until).then(|| self.cache.pop_front()).flatten()
    }

    /// Inverts bits on the medium. Writes in the cache are not affected.
    pub fn rot(&mut self, byte: u64, mask: u8, power_cuts: bool) {
        if power_cuts {
            self.stable.flip(byte, mask);
        }
        let over = |write: &Unstable| write.range().contains(&byte);
        if !self.unstable().any(over) {
            self.view.flip(byte, mask);
        }
    }

    /// Makes `write` stable at once. It hides older writes in the cache.
    fn make_stable(&mut self, write: &Unstable) {
        write.put(&mut self.stable);
        let range = write.range();
        for older in self.cache.iter_mut().chain(&mut self.orphans) {
            older.cover(&range);
        }
    }
}
