//! The log's records of a commit.

use crate::commit::{CommitChange, record};
use crate::pinned::{LogRetention, Pinned};
use tonearm_base::{BufPool, Lsn, crc32c};
use tonearm_trail::Change;

const BLOCK: usize = 128;

struct NoAccount;

impl LogRetention for NoAccount {
    fn hold(&self, _: Lsn) {}
    fn release(&self, _: Lsn) {}
}

/// First block of each change, blocks of data in it, and their checksums.
fn recorded(pinned: &mut Pinned, lsn: u64, bytes: &[u8]) -> Vec<(u64, Vec<u32>)> {
    let data = BufPool::new(0).copy_of(bytes).share();
    let changes = vec![CommitChange::Write { first: 10, data }];
    let recorded = record(pinned, Lsn(lsn), changes, BLOCK, &NoAccount);
    let shape = |change: Change| match change {
        Change::Write { first, data, crcs } => {
            assert_eq!(data.len(), crcs.len() * BLOCK);
            (first, crcs)
        }
        Change::Patch { block, .. } => (block, Vec::new()),
        other => panic!("{other:?}"),
    };
    recorded.into_iter().map(shape).collect()
}

#[test]
fn adjacent_blocks_of_one_write_are_logged_each_as_it_needs() {
    let mut pinned = Pinned::default();
    let mut bytes = vec![1; 5 * BLOCK];
    let found = recorded(&mut pinned, 1, &bytes);
    assert_eq!(found, [(10, vec![crc32c(&[1; BLOCK]); 5])]);
    // The first, the third and the last one change in a word, the others wholly.
    for block in 0..5 {
        match block % 2 {
            0 => bytes[block * BLOCK] = 2,
            _ => bytes[block * BLOCK..][..BLOCK].fill(3),
        }
    }
    let image = vec![crc32c(&[3; BLOCK])];
    let expected = [
        (10, Vec::new()),
        (11, image.clone()),
        (12, Vec::new()),
        (13, image),
        (14, Vec::new()),
    ];
    assert_eq!(recorded(&mut pinned, 2, &bytes), expected);
}
