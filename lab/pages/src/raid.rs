//! Where slots lie on the disks.

use crate::setup::Redundancy;

/// A page of one disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    pub disk: u32,
    /// Page of the disk.
    pub page: u32,
}

/// The places of segments. Chunk `s` of each disk belongs to segment `s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raid {
    pub disks: u32,
    pub chunk_pages: u32,
    pub segments: u32,
    data: u32,
}

impl Raid {
    pub fn new(redundancy: Redundancy, disks: u32, chunk_pages: u32, segments: u32) -> Self {
        let parity = u32::from(redundancy == Redundancy::Raid5);
        Self {
            disks,
            chunk_pages,
            segments,
            data: disks.saturating_sub(parity).max(1),
        }
    }

    pub fn segment_pages(&self) -> u32 {
        self.data * self.chunk_pages
    }

    pub fn has_parity(&self) -> bool {
        self.data < self.disks
    }

    /// I/Os of one page that is overwritten: with parity, the old page and the old parity are read first.
    pub fn ios_of_page_write(&self) -> u32 {
        if self.has_parity() { 4 } else { 1 }
    }

    /// The disk with the parity of `segment`.
    fn parity_disk(&self, segment: u32) -> u32 {
        self.disks - 1 - segment % self.disks
    }

    #[inline]
    pub fn spot(&self, slot: u32) -> Spot {
        let segment = slot / self.segment_pages();
        let within = slot % self.segment_pages();
        let chunk = within / self.chunk_pages;
        let disk = if self.has_parity() {
            (self.parity_disk(segment) + 1 + chunk) % self.disks
        } else {
            chunk
        };
        Spot {
            disk,
            page: segment * self.chunk_pages + within % self.chunk_pages,
        }
    }

    /// The page of parity for `slot`.
    pub fn parity(&self, slot: u32) -> Spot {
        Spot {
            disk: self.parity_disk(slot / self.segment_pages()),
            page: self.spot(slot).page,
        }
    }

    /// Chunks of a segment that have data.
    pub fn data_chunk_count(&self) -> u32 {
        self.data
    }

    /// The first pages of the chunks of `segment` that have data.
    pub fn data_chunks(&self, segment: u32) -> impl Iterator<Item = Spot> + use<> {
        let raid = *self;
        let first = segment * self.segment_pages();
        (0..self.data).map(move |chunk| raid.spot(first + chunk * raid.chunk_pages))
    }

    /// The first page of the chunk with the parity of `segment`.
    pub fn parity_chunk(&self, segment: u32) -> Option<Spot> {
        self.has_parity()
            .then(|| self.parity(segment * self.segment_pages()))
    }
}
