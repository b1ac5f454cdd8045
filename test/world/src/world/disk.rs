//! One drive's content: what reads see, what is stable, and what lies between.

use super::crash::Unstable;
use super::{SimDisk, Zeroing};
use crate::fault::DriveFaults;
use crate::image::DiskImage;
use crate::payload::Payload;
use crate::timing::Timing;
use std::collections::VecDeque;

pub(super) struct Disk {
    /// What reads see.
    pub view: DiskImage,
    /// What a power cut cannot take; kept only when power cuts are of interest.
    pub stable: DiskImage,
    /// Completed writes that are not stable, in the order of completion; the first has the number
    /// `completed - cache.len()`.
    cache: VecDeque<Unstable>,
    /// Completed writes so far.
    completed: u64,
    /// Writes that a failed flush was to cover: whether they ever reach the medium is left open.
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

    /// What a switch-off in order leaves.
    pub fn image(&self) -> DiskImage {
        self.with_bad(&self.view)
    }

    /// What a power cut cannot take.
    pub fn surely(&self, power_cuts: bool) -> DiskImage {
        self.with_bad(if power_cuts { &self.stable } else { &self.view })
    }

    fn with_bad(&self, image: &DiskImage) -> DiskImage {
        let mut image = image.clone();
        image.bad = self.faults.bad().clone();
        image
    }

    /// What a flush that begins now covers.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// What is completed and not stable.
    pub fn unstable(&self) -> impl Iterator<Item = &Unstable> {
        self.orphans.iter().chain(&self.cache)
    }

    /// A completed write.
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
            self.settle(&write);
        } else {
            self.cache.push_back(write);
            self.completed += 1;
        }
    }

    /// What had been completed at number `until` becomes stable.
    pub fn flush(&mut self, until: u64) {
        while let Some(write) = self.pop_before(until) {
            // What is behind it in the cache was completed later: it is not under this write.
            write.put(&mut self.stable);
            for orphan in &mut self.orphans {
                orphan.cover(&write.range());
            }
        }
    }

    /// A flush of what had been completed at number `until` has failed: no later one makes up for it.
    pub fn fail_flush(&mut self, until: u64) {
        while let Some(write) = self.pop_before(until) {
            self.orphans.push(write);
        }
    }

    fn pop_before(&mut self, until: u64) -> Option<Unstable> {
        let first = self.completed - self.cache.len() as u64;
        (first < until).then(|| self.cache.pop_front()).flatten()
    }

    /// A bit on the medium turns over. What is in the cache is not on the medium.
    pub fn rot(&mut self, byte: u64, mask: u8, power_cuts: bool) {
        if power_cuts {
            self.stable.flip(byte, mask);
        }
        let over = |write: &Unstable| write.range().contains(&byte);
        if !self.unstable().any(over) {
            self.view.flip(byte, mask);
        }
    }

    /// `write` is stable at once, over everything that is in the cache already.
    fn settle(&mut self, write: &Unstable) {
        write.put(&mut self.stable);
        let range = write.range();
        for older in self.cache.iter_mut().chain(&mut self.orphans) {
            older.cover(&range);
        }
    }
}
