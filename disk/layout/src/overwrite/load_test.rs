use crate::overwrite::load::{Choice, choose, decode_slots};
use tonearm_format::{FormatError, TableSlot};

const BLOCK: u32 = 4096;

fn slot(generation: u64) -> TableSlot {
    TableSlot {
        generation,
        ..TableSlot::empty(BLOCK)
    }
}

fn encoded(group: u64, slots: [Option<&TableSlot>; 2]) -> Vec<u8> {
    let mut bytes = vec![0; 2 * BLOCK as usize];
    for (slot, out) in slots.iter().zip(bytes.chunks_exact_mut(BLOCK as usize)) {
        if let Some(slot) = slot {
            slot.encode(group, out);
        }
    }
    bytes
}

#[test]
fn every_pair_of_slots_has_one_row_of_the_decision_table() {
    let damaged = || Err(FormatError::Checksum("checksum table"));
    let valid = |generation| Ok(Some(slot(generation)));
    let cases = [
        ([Ok(None), Ok(None)], Choice::Sound(slot(0))),
        ([valid(2), Ok(None)], Choice::Sound(slot(2))),
        ([Ok(None), valid(1)], Choice::Sound(slot(1))),
        ([valid(2), valid(1)], Choice::Sound(slot(2))),
        ([valid(2), valid(3)], Choice::Sound(slot(3))),
        ([valid(2), damaged()], Choice::Fallback(slot(2))),
        ([damaged(), valid(1)], Choice::Fallback(slot(1))),
        ([Ok(None), damaged()], Choice::Fallback(slot(0))),
        ([damaged(), Ok(None)], Choice::Fallback(slot(0))),
        ([damaged(), damaged()], Choice::Neither),
    ];
    for (slots, choice) in cases {
        assert_eq!(choose(slots.clone(), BLOCK), choice, "{slots:?}");
    }
}

#[test]
fn a_slot_of_another_group_or_of_the_other_parity_is_damaged() {
    let (even, odd) = (slot(4), slot(5));
    let bytes = encoded(9, [Some(&even), Some(&odd)]);
    assert_eq!(
        decode_slots(9, &bytes),
        [Ok(Some(even.clone())), Ok(Some(odd.clone()))]
    );
    assert!(decode_slots(8, &bytes).iter().all(Result::is_err));
    let bytes = encoded(9, [Some(&odd), Some(&even)]);
    assert!(decode_slots(9, &bytes).iter().all(Result::is_err));
}
