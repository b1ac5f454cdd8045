#![allow(clippy::disallowed_types, reason = "prop_oneof! has Arc")]

use super::*;
use proptest::prelude::*;

const BLOCK: usize = 64;
const BLOCKS: u64 = 12;

/// What one entry does.
#[derive(Clone, Debug)]
enum Op {
    Data(u64, u8),
    Zero(u64, u64, bool),
    Patch(u64, Vec<(u32, u64)>),
}

fn op() -> impl Strategy<Value = Op> {
    let block = 0..BLOCKS;
    let word = (0..BLOCK as u32 / 8, any::<u64>()).prop_map(|(at, value)| (8 * at, value));
    prop_oneof![
        (block.clone(), any::<u8>()).prop_map(|(block, byte)| Op::Data(block, byte)),
        (block.clone(), 1..BLOCKS, any::<bool>()).prop_map(|(first, count, keep)| Op::Zero(
            first,
            count.min(BLOCKS - first),
            keep
        )),
        (block, proptest::collection::vec(word, 1..9))
            .prop_map(|(block, words)| Op::Patch(block, words)),
    ]
}

fn payload(ops: &[Op], lsn: u64) -> Vec<u8> {
    let mut writer = ArchiveWriter::default();
    for op in ops {
        match op {
            Op::Data(block, byte) => {
                let data = [*byte; BLOCK];
                writer.data(*block, crc32c(&data), &data);
            }
            Op::Zero(first, count, keep) => writer.zero(*first, *count, *keep),
            Op::Patch(block, words) => writer.patch(*block, words),
        }
    }
    writer.commit(Lsn(lsn));
    writer.time(lsn);
    writer.into_bytes()
}

/// Content and whether the block has space, of each block.
type State = Vec<(Vec<u8>, bool)>;

fn apply(state: &mut State, payload: &[u8]) {
    let mut reader = ArchiveReader::new(payload, BLOCK);
    while let Some(entry) = reader.next() {
        match entry.unwrap() {
            ArchiveEntry::Data { block, data, .. } => state[block as usize] = (data.to_vec(), true),
            ArchiveEntry::Zero {
                first,
                count,
                keep_space,
            } => state[first as usize..(first + count) as usize].fill((vec![0; BLOCK], keep_space)),
            ArchiveEntry::Patch { block, words } => {
                let (data, has_space) = &mut state[block as usize];
                for (at, value) in words.iter() {
                    data[at..at + 8].copy_from_slice(&value);
                }
                *has_space = true;
            }
            ArchiveEntry::Commit(_) | ArchiveEntry::Time { .. } => {}
        }
    }
}

fn begin() -> State {
    let blocks = 0..BLOCKS as u8;
    blocks
        .map(|block| (vec![100 + block; BLOCK], true))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Ranges one after the other, or merged; merged again with what follows; and onto blocks that have the content of any
    /// of the commits, as a base has that was read meanwhile.
    #[test]
    fn merged_ranges_do_what_the_ranges_do(
        commits in proptest::collection::vec(proptest::collection::vec(op(), 1..6), 1..8),
        cut in any::<prop::sample::Index>(),
        read_at in proptest::collection::vec(any::<prop::sample::Index>(), BLOCKS as usize),
    ) {
        let payloads: Vec<_> = (1..).zip(&commits).map(|(lsn, ops)| payload(ops, lsn)).collect();
        let mut states = vec![begin()];
        for payload in &payloads {
            let mut next = states.last().unwrap().clone();
            apply(&mut next, payload);
            states.push(next);
        }
        let merged = |payloads: &[Vec<u8>]| {
            let mut merge = Merge::new(BLOCK as u32);
            for payload in payloads {
                merge.add(payload).unwrap();
            }
            let encoded = merge.encode(Lsn(9), 9);
            assert_eq!(encoded.len(), merge.len() + 18);
            encoded
        };
        let cut = cut.index(payloads.len());
        let all = merged(&payloads);
        let twice = merged(&[merged(&payloads[..cut]), merged(&payloads[cut..])]);
        let base: State = (0..BLOCKS as usize)
            .map(|block| states[read_at[block].index(states.len())][block].clone())
            .collect();
        for start in [begin(), base] {
            for merged in [&all, &twice] {
                let mut state = start.clone();
                apply(&mut state, merged);
                prop_assert_eq!(&state, states.last().unwrap());
            }
        }
        prop_assert_eq!(all, twice);
    }
}

#[test]
fn merge_keeps_each_block_and_word_once() {
    let words = |value| (0..4).map(|word| (8 * word, value)).collect();
    let mut merge = Merge::new(BLOCK as u32);
    for value in 0..100 {
        let ops = [
            Op::Data(1, value as u8),
            Op::Patch(2, words(value)),
            Op::Zero(4, 3, true),
            Op::Zero(5, 1, false),
        ];
        merge.add(&payload(&ops, value)).unwrap();
    }
    assert_eq!(
        merge.len(),
        HEAD_BYTES + BLOCK + HEAD_BYTES + 4 * WORD_BYTES + 3 * ZERO_BYTES
    );
}
