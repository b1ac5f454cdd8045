//! The difference of two versions of a block, in words, for the log.

use tonearm_format::ENTRY_BYTES;
use tonearm_trail::{Word, patch_slots};

/// Bytes of one comparison.
const STRIDE: usize = 256;
/// Words that are compared before all others, evenly spread.
const PROBES: usize = 8;
/// Most equal words between two that differ that are logged with them: they take less space than another entry.
const GAP_MAX: u32 = 2;

/// The words by which `new` differs from `old`, of the same length; `None` when they would take more than half of the
/// block's space in the log, or probably would. At least one word, even if none differs.
pub(crate) fn difference(old: &[u8], new: &[u8]) -> Option<Vec<Word>> {
    if is_all_new(old, new) {
        return None;
    }
    let most = new.len() / 2;
    let strides = || old.chunks(STRIDE).zip(new.chunks(STRIDE)).enumerate();
    // The first pass counts, so that blocks with too many differences cost no memory.
    let mut differing = 0;
    for (_, (old, new)) in strides() {
        if old != new {
            let pairs = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
            differing += pairs.filter(|(old, new)| old != new).count();
            if 8 * differing > most {
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
    (patch_slots(&words) * ENTRY_BYTES as u64 <= most as u64).then_some(words)
}

/// True when all of the words that are compared first differ. The old version has often left the processor's cache; it
/// need not be read to its end then. Of blocks in which half of the words differ at random, one in 256 is taken for
/// new.
pub(crate) fn is_all_new(old: &[u8], new: &[u8]) -> bool {
    let part = new.len() / PROBES;
    (0..PROBES).all(|probe| {
        // In the middle of each part: contents often have headers at the beginning of a sector.
        let at = (probe * part + part / 2) / 8 * 8;
        old[at..at + 8] != new[at..at + 8]
    })
}

fn word_at(block: &[u8], at: u32) -> Word {
    let start = at as usize;
    let bytes = block[start..start + 8].try_into();
    Word {
        at,
        value: u64::from_le_bytes(bytes.expect("eight bytes")),
    }
}
