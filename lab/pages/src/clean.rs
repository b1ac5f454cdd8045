//! The cleaner's part of the simulation: a pass reads its segments one after the other, then moves their live pages.

use crate::choice::{Choice, FREE_MIN, PLUGS_PER_DISK, Pass};
use crate::counts::Work;
use crate::setup::Layout;
use crate::simulation::{CLEANER, Simulation, What};
use tonearm_workload::Workload;

impl<W: Workload> Simulation<W> {
    /// Continues the pass, and begins new ones while there are few free segments.
    pub(crate) fn clean(&mut self) {
        loop {
            if self.pass.is_none() {
                self.begin_pass();
            }
            let Some(mut pass) = self.pass.take() else {
                return;
            };
            if !self.go_on(&mut pass) {
                self.pass = Some(pass);
                return;
            }
            for source in &pass.sources {
                self.space.segments[*source as usize].draining = false;
            }
            self.outputs = 0;
        }
    }

    fn begin_pass(&mut self) {
        if self.space.free() >= FREE_MIN || self.setup.layout == Layout::Overwrite {
            return;
        }
        let choice = Choice {
            space: &self.space,
            cleaning: self.setup.cleaning,
            now: self.clock,
            efficiency: self.efficiency,
            segment_bytes: u64::from(self.raid.segment_pages()) * u64::from(self.setup.page_bytes),
            buffers: self.buffers.cleaners(),
        };
        if let Some((pass, outputs, number)) = choice.best() {
            for source in &pass.sources {
                self.space.segments[*source as usize].draining = true;
            }
            self.counts.passes[number] += 1;
            self.outputs = outputs;
            self.pass = Some(pass);
        }
    }

    /// Continues a pass as far as it can go now. True at its end.
    fn go_on(&mut self, pass: &mut Pass) -> bool {
        let pages = match pass.pages.take() {
            Some(pages) => pages,
            None if pass.under_way > 0 || self.read_next(pass) => return false,
            None => self.collect(pass),
        };
        while pass.moved < pages.len() {
            let moved = if pass.plug {
                self.plug(pass, pages[pass.moved])
            } else {
                self.carry(pages[pass.moved])
            };
            if !moved {
                break;
            }
            pass.moved += 1;
        }
        let ends = pass.moved == pages.len() && pass.under_way == 0;
        pass.pages = Some(pages);
        ends
    }

    /// Reads the next source. False when there is none.
    fn read_next(&mut self, pass: &mut Pass) -> bool {
        while let Some(source) = pass.sources.get(pass.read).copied() {
            pass.read += 1;
            // Otherwise the last of its pages has been written meanwhile.
            if !self.space.segments[source as usize].draining {
                continue;
            }
            match pass.plug {
                true => self.counts.plug_reads += 1,
                false => self.counts.clean_reads += 1,
            }
            let chunks = self.raid.data_chunks(source);
            let op = self.begin(self.raid.data_chunk_count(), What::CleanRead);
            for spot in chunks {
                self.array.push(
                    self.counts.nanos,
                    spot,
                    self.raid.chunk_pages,
                    false,
                    Work::CleanRead,
                    op,
                );
            }
            pass.under_way = 1;
            return true;
        }
        false
    }

    /// The live pages of the sources, the oldest first, so that pages of one age stay together.
    fn collect(&mut self, pass: &mut Pass) -> Vec<u32> {
        let mut aged: Vec<u64> = Vec::new();
        for source in &pass.sources {
            let segment = self.space.segments[*source as usize];
            if !segment.draining {
                continue;
            }
            self.sepbit
                .collected(segment.class, self.clock - segment.created);
            for page in self.space.pages_of(*source) {
                let written = u64::from(self.space.written[page as usize]);
                aged.push(written << 32 | u64::from(page));
            }
        }
        if pass.plug {
            pass.targets = Choice::targets(&self.space);
        } else {
            aged.sort_unstable();
            self.counts.clean_live += aged.len() as u64;
        }
        aged.into_iter().map(|page| page as u32).collect()
    }

    /// The slot of `page`, if it still lies in a segment that is being emptied.
    fn slot_to_empty(&self, page: u32) -> Option<u32> {
        let slot = self.space.slot(page)?;
        self.space.segment_of(slot).draining.then_some(slot)
    }

    /// Moves a page into a buffer of the cleaner. False when that buffer has no space yet.
    fn carry(&mut self, page: u32) -> bool {
        let Some(slot) = self.slot_to_empty(page) else {
            return true;
        };
        let class = match self.setup.layout {
            Layout::Sepbit => {
                let age = self.clock - self.space.written[page as usize];
                let from = self.space.segment_of(slot).class;
                usize::from(self.sepbit.of_cleaner(from, age))
            }
            _ => self.buffers.users + usize::from(self.is_cold(page)),
        };
        if self.buffers.is_full(class) {
            self.write_buffer(class);
            if self.buffers.is_full(class) {
                return false;
            }
        }
        self.note_copy(page);
        self.space.remove(page);
        self.buffers.all[class].pages.push(page);
        if self.buffers.is_full(class) {
            self.write_buffer(class);
        }
        true
    }

    /// Begins to write a page into a hole. False when enough such writes are under way.
    fn plug(&mut self, pass: &mut Pass, page: u32) -> bool {
        if pass.under_way >= PLUGS_PER_DISK * self.raid.disks {
            return false;
        }
        if self.slot_to_empty(page).is_none() {
            return true;
        }
        let own = usize::from(self.is_cold(page));
        let hole = self
            .hole(&mut pass.targets[own])
            .or_else(|| self.hole(&mut pass.targets[1 - own]));
        // Without a hole the page stays, and so does its segment.
        if let Some(hole) = hole {
            self.space.remove(page);
            self.space.put(page, hole);
            self.note_copy(page);
            self.counts.plugged += 1;
            pass.under_way += 1;
            self.write_page(CLEANER, hole);
        }
        true
    }

    /// A hole in the last of `targets` that has one.
    fn hole(&mut self, targets: &mut Vec<u32>) -> Option<u32> {
        while let Some(target) = targets.last() {
            let hole = self.space.hole_in(*target);
            if hole.is_some() {
                return hole;
            }
            targets.pop();
        }
        None
    }
}
