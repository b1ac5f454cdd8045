//! Pages of the tree of files, which change with the ends of units.

#![allow(clippy::unwrap_used)]

use crate::common::{begun, on_disk};
use tonearm_disk::{Aru, Disk, TreePages, TreeStop};

/// Adds to the first word of page 0.
fn add(disk: &Disk, more: u64) -> Aru {
    let mut unit = disk.begin();
    unit.set_tree(Box::new(move |pages: &mut TreePages<'_>| {
        if pages.count() == 0 {
            return Err(TreeStop::Full);
        }
        let page = pages.page_mut(0)?;
        let (word, _) = page.split_first_chunk_mut::<8>().unwrap();
        *word = (u64::from_le_bytes(*word) + more).to_le_bytes();
        Ok(())
    }));
    unit
}

async fn sum(disk: &Disk) -> u64 {
    let mut sum = 0;
    let look = |pages: &mut TreePages<'_>| {
        let word = pages.page(0)?.first_chunk::<8>().unwrap();
        sum = u64::from_le_bytes(*word);
        Ok(())
    };
    disk.look_at_tree(look).await.unwrap();
    sum
}

/// Both have changed copies of the same page before either can commit.
#[test]
fn concurrent_units_both_commit_their_tree_changes() {
    on_disk(async |disk| {
        add(&disk, 1).end().await.unwrap();
        disk.engine().drain().await.unwrap();
        let memory = disk.engine().options().memory_bytes;
        let all = disk.engine().reserve(memory).await.unwrap();
        let (mut a, mut b) = (add(&disk, 10).end(), add(&disk, 100).end());
        begun(&mut a).await;
        begun(&mut b).await;
        drop(all);
        a.await.unwrap();
        b.await.unwrap();
        assert_eq!(sum(&disk).await, 111);
    });
}

/// A change that is refused, or a unit that is aborted, leaves the pages as they were.
#[test]
fn a_refused_change_changes_nothing() {
    on_disk(async |disk| {
        add(&disk, 1).end().await.unwrap();
        add(&disk, 10).abort();
        let mut unit = disk.begin();
        unit.set_tree(Box::new(|pages: &mut TreePages<'_>| {
            pages.page_mut(0)?.fill(0xff);
            Err(TreeStop::Refused)
        }));
        unit.end().await.unwrap_err();
        assert_eq!(sum(&disk).await, 1);
    });
}
