use crate::{FormatError, SHEET_BYTES_MAX, SheetRun, SkipAxis, SkipTable, TrackSheet};
use proptest::prelude::*;

fn sheet(runs: usize, skips: u32) -> TrackSheet {
    let run = |index: u64| SheetRun {
        first: 2048 + index * 1000,
        tracks: 17,
        sectors: 85,
        turn_sectors: 85,
        angle: 1 << 31,
        group: 17,
        at: index as u32 % 17,
        short: 6,
        track_skew: 0x0605_0403,
        cylinder_skew: 0x3020_1000,
    };
    TrackSheet {
        store: [7; 16],
        member_index: 3,
        period_ps: 11_117_287_382,
        leads: [14, 18, 11],
        lead_turn_sectors: 85,
        read_ahead_sectors: 384,
        read_lag_ns: -120_000,
        switch_ns: 1_700_000,
        runs: (0..runs as u64).map(run).collect(),
        table: (skips > 0).then(|| table(skips)),
    }
}

fn table(skips: u32) -> SkipTable {
    let axis = |first, step, count| SkipAxis { first, step, count };
    SkipTable {
        axes: [axis(8, 8, skips), axis(0, 100_000, 1), axis(0, 2, 300)],
        turn_ns: 8_333_333,
        skips: (0..skips).map(|skip| (skip % 300) as u16).collect(),
    }
}

#[test]
fn a_table_that_does_not_fit_its_axes_is_refused() {
    let mut wrong = sheet(2, 50);
    wrong.table.as_mut().unwrap().axes[1].count = 2;
    let found = TrackSheet::decode(&wrong.encode());
    assert!(
        matches!(found, Err(FormatError::Inconsistent { .. })),
        "{found:?}"
    );
    let mut wrong = sheet(2, 50);
    wrong.table.as_mut().unwrap().skips[49] = 300;
    let found = TrackSheet::decode(&wrong.encode());
    assert!(
        matches!(found, Err(FormatError::Inconsistent { .. })),
        "{found:?}"
    );
}

#[test]
fn impossible_times_are_refused_by_field() {
    type Spoil = fn(&mut TrackSheet);
    let spoils: [(&str, Spoil); 5] = [
        ("period_ps", |sheet| sheet.period_ps = u64::MAX),
        ("switch_ns", |sheet| sheet.switch_ns = u64::MAX),
        ("read_lag_ns", |sheet| sheet.read_lag_ns = i64::MIN),
        ("read_lag_ns", |sheet| sheet.read_lag_ns = i64::MAX),
        ("turn_ns", |sheet| {
            sheet.table.as_mut().unwrap().turn_ns = u64::MAX
        }),
    ];
    for (field, spoil) in spoils {
        let mut wrong = sheet(2, 50);
        spoil(&mut wrong);
        let error = TrackSheet::decode(&wrong.encode()).unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn a_sheet_comes_back() {
    for (runs, skips) in [(0, 0), (1, 0), (0, 4550), (60, 4550), (4900, 1000)] {
        let before = sheet(runs, skips);
        let bytes = before.encode();
        assert_eq!(TrackSheet::bytes_of(&bytes), Ok(bytes.len()));
        assert_eq!(TrackSheet::decode(&bytes), Ok(before));
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = sheet(3, 5).encode();
    for at in 0..128 + 3 * 48 + 72 + 10 {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        assert!(TrackSheet::decode(&bytes).is_err(), "byte {at}");
    }
}

#[test]
fn a_sheet_that_is_cut_off_or_too_long_is_refused() {
    let bytes = sheet(200, 0).encode();
    let cut = TrackSheet::decode(&bytes[..4096]);
    assert!(
        matches!(cut, Err(FormatError::Inconsistent { .. })),
        "{cut:?}"
    );
    let mut long = sheet(0, 0).encode();
    long[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(
        TrackSheet::bytes_of(&long),
        Err(FormatError::Inconsistent { .. })
    ));
    assert!(sheet(5000, 0).encode().len() <= SHEET_BYTES_MAX);
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..9000), real: bool) {
        if real && bytes.len() > 16 {
            bytes[..12].copy_from_slice(b"TNTRACKS\x01\0\0\0");
        }
        let _ = TrackSheet::decode(&bytes);
        if let Ok(length) = TrackSheet::bytes_of(&bytes) {
            prop_assert!(length <= SHEET_BYTES_MAX);
        }
    }
}
