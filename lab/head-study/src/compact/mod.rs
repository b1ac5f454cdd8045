//! The compact forms of the table (Disk Mimic 3). Each guarantees that its skip is in the candidate set at every point
//! of the grid.

mod basic;
mod line;
mod plane;

pub use basic::BasicCompact;
pub use line::LineCompact;
pub use plane::PlaneCompact;

/// Pieces of all sizes, one after the other, and the start of those of each size.
#[derive(Clone, Debug)]
struct BySize<P> {
    pieces: Vec<P>,
    starts: Vec<u16>,
}

impl<P> BySize<P> {
    fn new(sizes: impl Iterator<Item = Vec<P>>) -> Self {
        let (mut pieces, mut starts) = (Vec::new(), Vec::new());
        for of_size in sizes {
            starts.push(u16::try_from(pieces.len()).expect("fewer pieces than 2^16"));
            pieces.extend(of_size);
        }
        Self { pieces, starts }
    }

    fn of_size(&self, size: usize) -> &[P] {
        let end = self
            .starts
            .get(size + 1)
            .map_or(self.pieces.len(), |end| usize::from(*end));
        &self.pieces[usize::from(self.starts[size])..end]
    }

    fn stored_bytes(&self) -> usize {
        size_of_val(&self.pieces[..]) + size_of_val(&self.starts[..])
    }
}

#[cfg(test)]
mod compact_test;
