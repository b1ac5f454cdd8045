//! From a volume's blocks to home blocks, and allocation of extents.

use tonearm_engine::CommitChange;
use tonearm_format::{EXTENTS_MAX, Extent};

/// One of the disk's own volumes grows by one part in so many of its size.
const GROWTH_PART: u64 = 8;

/// The home of the volume block `index`, which the extents must cover.
pub(crate) fn home(extents: &[Extent], mut index: u64) -> u64 {
    for extent in extents {
        if index < extent.count {
            return extent.start + index;
        }
        index -= extent.count;
    }
    unreachable!("extents cover the volume");
}

/// The block of the volume whose home this is.
pub(crate) fn index(extents: &[Extent], home: u64) -> Option<u64> {
    let mut before = 0;
    for extent in extents {
        if (extent.start..extent.start + extent.count).contains(&home) {
            return Some(before + home - extent.start);
        }
        before += extent.count;
    }
    None
}

/// The change that makes an extent holes.
pub(crate) fn trim_of(extent: &Extent) -> CommitChange {
    CommitChange::Trim {
        first: extent.start,
        count: extent.count,
    }
}

/// Blocks of all extents.
pub(crate) fn blocks(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.count).sum()
}

/// `extents` with `more` after them; what is adjacent is joined.
pub(crate) fn append(mut extents: Vec<Extent>, more: &[Extent]) -> Vec<Extent> {
    for next in more {
        match extents.last_mut() {
            Some(last) if last.start + last.count == next.start => last.count += next.count,
            _ => extents.push(*next),
        }
    }
    extents
}

/// The first `count` blocks of `extents`, and what lies after them.
pub(crate) fn split(extents: &[Extent], count: u64) -> (Vec<Extent>, Vec<Extent>) {
    let (mut kept, mut cut, mut left) = (Vec::new(), Vec::new(), count);
    for extent in extents {
        let part = left.min(extent.count);
        if part > 0 {
            kept.push(Extent {
                start: extent.start,
                count: part,
            });
        }
        if part < extent.count {
            cut.push(Extent {
                start: extent.start + part,
                count: extent.count - part,
            });
        }
        left -= part;
    }
    (kept, cut)
}

/// Free runs of `bounds` that no extent of `used` takes, in ascending order.
pub(crate) fn free(
    bounds: std::ops::Range<u64>,
    used: impl Iterator<Item = Extent>,
) -> Vec<Extent> {
    let mut used: Vec<Extent> = used.collect();
    used.sort_by_key(|extent| extent.start);
    let (mut at, mut found) = (bounds.start, Vec::new());
    for extent in used {
        if extent.start > at {
            found.push(Extent {
                start: at,
                count: extent.start - at,
            });
        }
        at = at.max(extent.start + extent.count);
    }
    if at < bounds.end {
        found.push(Extent {
            start: at,
            count: bounds.end - at,
        });
    }
    found
}

/// Blocks by which one of the disk's own volumes, of `have` blocks, grows at best in a store with `free` free ones. It doubles
/// if that takes at most one part in `plenty` of the free space. Then it grows in proportion to its size, so that it has few
/// extents, and leaves half of the free space to the others.
pub(crate) fn growth(have: u64, free: u64, plenty: u64) -> u64 {
    if have <= free / plenty {
        have
    } else {
        (have / GROWTH_PART).min(free / 2)
    }
}

/// Adds `count` blocks to `extents`: what follows the last extent first, then first fit, then the largest
/// pieces. `None` when that takes too many extents or there is not enough.
pub(crate) fn allocate(extents: &[Extent], count: u64, free: &[Extent]) -> Option<Vec<Extent>> {
    let (mut result, mut left, mut free) = (extents.to_vec(), count, free.to_vec());
    if let Some(last) = result.last_mut()
        && let Some(next) = free
            .iter_mut()
            .find(|piece| piece.start == last.start + last.count)
    {
        let part = left.min(next.count);
        last.count += part;
        *next = Extent {
            start: next.start + part,
            count: next.count - part,
        };
        left -= part;
    }
    if left > 0
        && let Some(piece) = free.iter().find(|piece| piece.count >= left)
    {
        result.push(Extent {
            start: piece.start,
            count: left,
        });
        left = 0;
    }
    free.sort_by_key(|piece| std::cmp::Reverse(piece.count));
    for piece in free.iter().filter(|piece| piece.count > 0) {
        if left == 0 {
            break;
        }
        let part = left.min(piece.count);
        result.push(Extent {
            start: piece.start,
            count: part,
        });
        left -= part;
    }
    (left == 0 && result.len() <= EXTENTS_MAX).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::{Extent, allocate, blocks, free, growth};
    use tonearm_format::EXTENTS_MAX;

    /// Two volumes that grow by turns until the store is full. Each finds the other one after its last extent.
    #[test]
    fn volumes_that_grow_by_turns_fill_a_store_with_few_extents() {
        for (size, plenty, least) in [(1u64 << 19, [8, 16], [258, 64]), (1 << 22, [8, 8], [1, 1])] {
            let mut volumes: [Vec<Extent>; 2] = Default::default();
            let mut turn = 0;
            loop {
                let used = volumes.iter().flatten().copied();
                let left = free(0..size, used);
                let (have, room) = (blocks(&volumes[turn]), blocks(&left));
                let more = growth(have, room, plenty[turn]).max(least[turn]).min(room);
                if more == 0 {
                    break;
                }
                let grown = allocate(&volumes[turn], more, &left);
                volumes[turn] = grown.expect("few extents");
                turn = 1 - turn;
            }
            let most = volumes.iter().map(Vec::len).max();
            assert!(most < Some(EXTENTS_MAX / 2), "{most:?} extents");
        }
    }
}
