//! The bytes of a device, in pages of which only those that were written take memory.

use std::collections::BTreeMap;
use std::rc::Rc;

const PAGE: usize = 4096;

type Pages = BTreeMap<u64, Rc<[u8; PAGE]>>;

/// The bytes of one device that is switched off.
#[derive(Clone, Default)]
pub struct DiskImage {
    /// Size in bytes.
    pub size: u64,
    pages: Pages,
}

impl DiskImage {
    /// A device of `size` zero bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            pages: Pages::new(),
        }
    }

    /// Copies the bytes at `offset` into `out`; nothing lies beyond the end.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        for_pages(offset, out.len() as u64, |page, within, at| {
            let part = &mut out[at..at + within.len()];
            match self.pages.get(&page) {
                Some(bytes) => part.copy_from_slice(&bytes[within]),
                None => part.fill(0),
            }
        });
    }

    /// Overwrites the bytes at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for_pages(offset, data.len() as u64, |page, within, at| {
            let bytes = self.pages.entry(page).or_insert_with(|| Rc::new([0; PAGE]));
            let len = within.len();
            Rc::make_mut(bytes)[within].copy_from_slice(&data[at..at + len]);
        });
    }

    /// Makes `len` bytes at `offset` read as zeroes.
    pub fn zero(&mut self, offset: u64, len: u64) {
        for_pages(offset, len, |page, within, _| {
            if within.len() == PAGE {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page) {
                Rc::make_mut(bytes)[within].fill(0);
            }
        });
    }
}

fn for_pages(offset: u64, len: u64, mut each: impl FnMut(u64, std::ops::Range<usize>, usize)) {
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let within = (at % PAGE as u64) as usize;
        let part = (PAGE - within).min((end - at) as usize);
        each(
            at / PAGE as u64,
            within..within + part,
            (at - offset) as usize,
        );
        at += part as u64;
    }
}
