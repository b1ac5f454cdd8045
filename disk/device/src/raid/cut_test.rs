use super::cut::{Payload, Piece, bands};
use tonearm_rt::Op;

fn piece(column: usize, start: u64, end: u64) -> Piece {
    Piece {
        column,
        range: start..end,
        payload: Payload::Zeroes(Op::Zero),
    }
}

fn ranges(pieces: Vec<Piece>, apart: Option<usize>) -> Vec<(u64, u64, usize)> {
    let bands = bands(pieces, apart);
    let shown = |band: &super::cut::Band| (band.range.start, band.range.end, band.pieces.len());
    bands.iter().map(shown).collect()
}

#[test]
fn pieces_that_share_no_parity_are_updated_apart() {
    // The end of one unit and the start of the next.
    let found = ranges(vec![piece(0, 60, 64), piece(1, 0, 8)], None);
    assert_eq!(found, [(0, 8, 1), (60, 64, 1)]);
    let found = ranges(vec![piece(0, 4, 64), piece(1, 0, 8)], None);
    assert_eq!(found, [(0, 64, 2)]);
    let found = ranges(vec![piece(0, 0, 8), piece(2, 8, 16)], None);
    assert_eq!(found, [(0, 16, 2)], "neighbours share an operation");
}

#[test]
fn a_band_changes_all_or_none_of_a_separate_column() {
    for apart in 0..3 {
        let pieces = vec![
            piece(0, 4, 64),
            piece(1, 0, 8),
            piece(2, 60, 64),
            piece(2, 0, 6),
        ];
        for band in bands(pieces, Some(apart)) {
            let changed = band.changed(apart);
            let whole = changed.first() == Some(&band.range);
            assert!(whole || changed.is_empty(), "{apart}: {band:?}");
        }
    }
}

#[test]
fn kept_and_changed_runs_cover_the_band() {
    let found = bands(
        vec![piece(0, 0, 64), piece(1, 8, 16), piece(1, 16, 20)],
        None,
    );
    let shown = |runs: Vec<std::ops::Range<u64>>| -> Vec<(u64, u64)> {
        runs.into_iter().map(|run| (run.start, run.end)).collect()
    };
    assert_eq!(shown(found[0].changed(1)), [(8, 20)]);
    assert_eq!(shown(found[0].kept(1)), [(0, 8), (20, 64)]);
    assert_eq!(shown(found[0].kept(0)), []);
    assert_eq!(shown(found[0].kept(2)), [(0, 64)]);
}
