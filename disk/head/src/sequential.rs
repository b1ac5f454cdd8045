//! No prediction: the next sector. It suits flash, where all places cost the same.

use crate::{Access, Head, Place, Span, first_fit};
use tonearm_base::Nanos;

/// The first free place.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sequential;

impl Head for Sequential {
    fn name(&self) -> &'static str {
        "sequential"
    }

    fn written(&mut self, _write: &Access) {}

    fn read(&mut self, _read: &Access) -> bool {
        true
    }

    fn place(&mut self, _now: Nanos, sectors: u32, free: &[Span]) -> Option<Place> {
        let sector = first_fit(free, 0, sectors)?;
        Some(Place {
            sector,
            response: None,
        })
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}
