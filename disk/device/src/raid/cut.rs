//! Cuts a request's payload along stripes.

use super::xor::xor_slices;
use std::collections::VecDeque;
use std::ops::Range;
use tonearm_base::Slice;
use tonearm_rt::{Data, Op};

/// New content of a range.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// These bytes, in order.
    Bytes(Vec<Slice>),
    /// Zeroes, by `Punch` or `Zero`.
    Zeroes(Op),
}

/// New content for a range of one data unit.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub column: usize,
    /// Bytes, counted from the start of the unit.
    pub range: Range<u64>,
    pub payload: Payload,
}

/// A payload from which parts are taken in order.
pub(crate) enum Source {
    Bytes(VecDeque<Slice>),
    Zeroes(Op),
}

/// The memory of a write as shared slices.
pub(crate) fn slices_of(data: Data) -> Vec<Slice> {
    match data {
        Data::None => Vec::new(),
        Data::Buf(buf, range) => vec![buf.share().slice(range)],
        Data::Slices(slices) => slices,
    }
}

impl Source {
    /// The next `len` bytes.
    pub fn take(&mut self, len: u64) -> Payload {
        match self {
            Source::Zeroes(op) => Payload::Zeroes(*op),
            Source::Bytes(rest) => {
                let (mut left, mut taken) = (len as usize, Vec::new());
                while left > 0 {
                    let slice = rest.pop_front().expect("a payload is as long as its range");
                    if slice.len() > left {
                        taken.push(slice.slice(0..left));
                        rest.push_front(slice.slice(left..slice.len()));
                        left = 0;
                    } else {
                        left -= slice.len();
                        if !slice.is_empty() {
                            taken.push(slice);
                        }
                    }
                }
                Payload::Bytes(taken)
            }
        }
    }
}

impl From<Payload> for Source {
    fn from(payload: Payload) -> Self {
        match payload {
            Payload::Bytes(slices) => Source::Bytes(slices.into()),
            Payload::Zeroes(op) => Source::Zeroes(op),
        }
    }
}

impl Piece {
    /// True when both change the same byte.
    pub fn overlaps(&self, other: &Piece) -> bool {
        self.column == other.column
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }

    /// Cuts at each of `places`, which are in ascending order.
    fn cut(self, places: &[u64], pieces: &mut Vec<Piece>) {
        let Piece {
            column,
            range,
            payload,
        } = self;
        let mut source = Source::from(payload);
        let mut at = range.start;
        let inside = places
            .iter()
            .filter(|p| range.start < **p && **p < range.end);
        for end in inside.copied().chain([range.end]) {
            pieces.push(Piece {
                column,
                range: at..end,
                payload: source.take(end - at),
            });
            at = end;
        }
    }
}

/// Bytes of a stripe unit, over all columns, that are updated together.
#[derive(Debug)]
pub(crate) struct Band {
    pub range: Range<u64>,
    /// By column, then by range; none overlap.
    pub pieces: Vec<Piece>,
}

/// Groups pieces of one stripe into bands that share no byte of parity. With `apart`, each band either
/// changes all of that column or none of it.
pub(crate) fn bands(pieces: Vec<Piece>, apart: Option<usize>) -> Vec<Band> {
    let mut cuts: Vec<u64> = pieces
        .iter()
        .filter(|piece| Some(piece.column) == apart)
        .flat_map(|piece| [piece.range.start, piece.range.end])
        .collect();
    cuts.sort_unstable();
    let mut parts = Vec::with_capacity(pieces.len());
    for piece in pieces {
        piece.cut(&cuts, &mut parts);
    }
    parts.sort_by_key(|piece| (piece.range.start, piece.column));
    let mut bands: Vec<Band> = Vec::new();
    for piece in parts {
        match bands.last_mut() {
            // Adjacent pieces join too, so that their parity is one operation.
            Some(band)
                if piece.range.start <= band.range.end && !cuts.contains(&piece.range.start)
                    || piece.range.start < band.range.end =>
            {
                band.range.end = band.range.end.max(piece.range.end);
                band.pieces.push(piece);
            }
            _ => bands.push(Band {
                range: piece.range.clone(),
                pieces: vec![piece],
            }),
        }
    }
    for band in &mut bands {
        band.pieces
            .sort_by_key(|piece| (piece.column, piece.range.start));
    }
    bands
}

impl Band {
    pub fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// True when none of it is zeroes.
    pub fn is_of_bytes(&self) -> bool {
        let all_bytes = |piece: &Piece| matches!(piece.payload, Payload::Bytes(_));
        self.pieces.iter().all(all_bytes)
    }

    /// `parity ^=` the new content; `parity` is that of the band's range.
    pub fn xor_into(&self, parity: &mut [u8]) {
        for piece in &self.pieces {
            if let Payload::Bytes(slices) = &piece.payload {
                let from = (piece.range.start - self.range.start) as usize;
                let len = (piece.range.end - piece.range.start) as usize;
                xor_slices(&mut parity[from..from + len], slices);
            }
        }
    }

    /// Changed runs of `column` in ascending order; adjacent ones are joined.
    pub fn changed(&self, column: usize) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for piece in self.pieces.iter().filter(|piece| piece.column == column) {
            match runs.last_mut() {
                Some(run) if run.end == piece.range.start => run.end = piece.range.end,
                _ => runs.push(piece.range.clone()),
            }
        }
        runs
    }

    /// Unchanged runs of `column` within the band.
    pub fn kept(&self, column: usize) -> Vec<Range<u64>> {
        let (mut kept, mut at) = (Vec::new(), self.range.start);
        for run in self.changed(column) {
            if at < run.start {
                kept.push(at..run.start);
            }
            at = run.end;
        }
        if at < self.range.end {
            kept.push(at..self.range.end);
        }
        kept
    }
}
