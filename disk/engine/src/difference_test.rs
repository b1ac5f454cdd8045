//! The difference between two blocks, applied to the one, gives the other. It is small, or there is none.

// proptest's macros share their strategies.
#![allow(clippy::disallowed_types)]

use crate::commit::{difference, is_all_new};
use proptest::prelude::*;
use tonearm_format::ENTRY_BYTES;
use tonearm_trail::{Word, patch_slots};

const BLOCK: usize = 4096;

fn apply(block: &mut [u8], words: &[Word]) {
    for word in words {
        block[word.at as usize..][..8].copy_from_slice(&word.value.to_le_bytes());
    }
}

fn bytes(words: &[Word]) -> usize {
    patch_slots(words) as usize * ENTRY_BYTES
}

#[test]
fn a_block_that_is_all_new_has_no_difference() {
    assert_eq!(difference(&[1; BLOCK], &[2; BLOCK]), None);
}

#[test]
fn block_is_new_only_if_all_samples_differ() {
    let old = [0; BLOCK];
    let mut new = old;
    for part in 0..8 {
        assert!(!is_all_new(&old, &new) && difference(&old, &new).is_some());
        new[512 * part + 256] = 1;
    }
    assert!(is_all_new(&old, &new));
    assert_eq!(difference(&old, &new), None);
}

#[test]
fn the_same_content_is_one_word_of_it() {
    let words = difference(&[1; BLOCK], &[1; BLOCK]).unwrap();
    assert_eq!(words.len(), 1);
    assert_eq!(words[0].value, 0x0101_0101_0101_0101);
}

#[test]
fn small_gaps_are_bridged_and_large_ones_not() {
    let new = |places: &[usize]| {
        let mut new = vec![0; BLOCK];
        places.iter().for_each(|word| new[8 * word] = 1);
        difference(&[0; BLOCK], &new).unwrap()
    };
    assert_eq!(new(&[100, 103]).len(), 4);
    assert_eq!(new(&[100, 104]).len(), 2);
    // Across the border of what is compared at once.
    assert_eq!(new(&[31, 33]).len(), 3);
}

#[test]
fn half_of_a_block_is_the_most() {
    let new = |words: usize| {
        let mut new = vec![0; BLOCK];
        new[..8 * words].fill(1);
        difference(&[0; BLOCK], &new)
    };
    // A run of 252 words takes 85 slots of 24 bytes, 2,040 in all.
    assert_eq!(bytes(&new(252).unwrap()), 2040);
    assert_eq!(new(253), None);
}

proptest! {
    #[test]
    fn the_difference_makes_the_new_block_of_the_old_one(
        edits in prop::collection::vec((0..BLOCK, prop::collection::vec(any::<u8>(), 1..200)), 0..12),
        size in 1usize..5,
    ) {
        let old: Vec<u8> = (0..BLOCK * size).map(|at| (at / 3) as u8).collect();
        let mut new = old.clone();
        for (at, edit) in edits {
            let end = (at + edit.len()).min(new.len());
            new[at..end].copy_from_slice(&edit[..end - at]);
        }
        let changed = old.chunks(8).zip(new.chunks(8)).filter(|(old, new)| old != new).count();
        match difference(&old, &new) {
            Some(words) => {
                prop_assert!(words.is_sorted_by_key(|word| word.at));
                prop_assert!(bytes(&words) <= new.len() / 2);
                let mut made = old;
                apply(&mut made, &words);
                prop_assert_eq!(made, new);
            }
            // Each word in an entry of its own would still be too much, or they are many, or it looks so.
            None => prop_assert!(changed * ENTRY_BYTES > new.len() / 2 || is_all_new(&old, &new)),
        }
    }
}
