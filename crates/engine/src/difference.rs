//! The difference of two versions of a block, in words, for the log.

use format::ENTRY_BYTES;
use trail::{Word, patch_slots};

/// Bytes that are compared at once.
const STRIDE: usize = 256;
/// Words that are the same and yet logged between two that differ: they take less room than another entry.
const GAP_MAX: u32 = 2;

/// The words by which `new` differs from `old`, of the same length; `None` when they would take more than half of
/// the room of the block in the log. At least one, be it the same.
pub(crate) fn difference(old: &[u8], new: &[u8]) -> Option<Vec<Word>> {
    let room = new.len() / 2;
    let strides = || old.chunks(STRIDE).zip(new.chunks(STRIDE)).enumerate();
    // Most blocks are all new: that is soon seen, without memory for it.
    let mut differing = 0;
    for (_, (old, new)) in strides() {
        if old != new {
            let pairs = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
            differing += pairs.filter(|(old, new)| old != new).count();
            if 8 * differing > room {
                return None;
            }
        }
    }
    let mut words: Vec<Word> = Vec::with_capacity(differing.max(1));
    for (index, (old, part)) in strides().filter(|(_, (old, new))| old != new) {
        let pairs = old.as_chunks::<8>().0.iter().zip(part.as_chunks::<8>().0);
        for (word, _) in pairs.enumerate().filter(|(_, (old, new))| old != new) {
            let at = (index * STRIDE + 8 * word) as u32;
            if let Some(before) = words.last().map(|last| last.at)
                && at - before <= 8 * (GAP_MAX + 1)
            {
                words.extend((before + 8..at).step_by(8).map(|at| word_at(new, at)));
            }
            words.push(word_at(new, at));
        }
    }
    if words.is_empty() {
        words.push(word_at(new, 0));
    }
    (patch_slots(&words) * ENTRY_BYTES as u64 <= room as u64).then_some(words)
}

fn word_at(block: &[u8], at: u32) -> Word {
    let start = at as usize;
    let bytes = block[start..start + 8].try_into();
    Word {
        at,
        value: u64::from_le_bytes(bytes.expect("eight bytes")),
    }
}
