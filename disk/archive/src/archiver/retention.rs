//! Deletes what is needed for no state that is kept, and parts of bases that were never completed.
//!
//! What is deleted cannot be had back, so nothing is concluded from what an answer lacks. From the first object that is kept to
//! the end of the chain, every object must have been read, and all parts of the bases there must exist. Otherwise nothing is
//! deleted, and the next base tries again.
//!
//! A base says from which number on the chain is kept. It is put before anything is deleted. So nobody takes an object that
//! was deleted for one that is missing, and none that a stalled writer has put at a number that is free again for one of the
//! chain.

use super::Archiver;
use crate::catalog::{Catalog, number_in};
use crate::chain::{
    BASES, FOLDER_BITS, LAST_LINKS, bucket_error, folder_of, names, object_name, part_name,
};
use crate::error::ArchiveError;
use std::collections::BTreeSet;
use tonearm_base::Nanos;
use tonearm_format::ArchiveHeader;

/// Objects that are deleted in one step, and for how long one goes on.
const DELETES: usize = 16;
const DELETING: Nanos = Nanos::from_millis(100);

/// What a base keeps.
pub(super) struct Kept {
    /// The chain is kept from this number on.
    pub(super) first: u64,
    /// Names of what is deleted, in this order.
    pub(super) old: Vec<String>,
}

impl Archiver<'_> {
    /// What is kept when the next base is complete, whose parts have this folder. Else why that cannot be said now.
    pub(super) async fn kept(&self, folder: u64) -> Result<Kept, String> {
        // A request that fails is not repeated: commits would wait for it.
        match self.plan(folder).await {
            Ok(Ok(kept)) => Ok(kept),
            Ok(Err(why)) => Err(format!("nothing is deleted until the next base: {why}")),
            Err(error) => Err(format!("nothing is deleted until the next base: {error}")),
        }
    }

    async fn plan(&self, own_folder: u64) -> Result<Result<Kept, String>, ArchiveError> {
        let mut catalog = Catalog::load(self.bucket).await?;
        catalog.objects.extend(self.merging.unlisted());
        let floor = catalog.bases().map(ArchiveHeader::kept_from).max();
        let first = self.first_kept(&catalog).max(floor.unwrap_or(1));
        if !catalog.is_whole(first, self.number) {
            let why = "objects that later states may need are missing or cannot be used (`tonearm history` names them)";
            return Ok(Err(why.into()));
        }
        let mut folders = BTreeSet::from([own_folder]);
        let mut needed = BTreeSet::new();
        let kept: Vec<u64> = catalog.bases().map(|base| base.number).collect();
        for number in kept.into_iter().filter(|number| *number >= first) {
            let base = catalog.base(self.bucket, number).await?;
            folders.insert(base.folder);
            needed.extend((0..base.parts.len() as u64).map(|part| part_name(base.folder, part)));
        }
        let mut parts = names(self.bucket, BASES).await?;
        parts.sort_unstable();
        needed.retain(|part| parts.binary_search(part).is_err());
        // A list may lack young ones.
        let needed: Vec<String> = needed.into_iter().collect();
        let found = self.bucket.heads(&needed, 1).await;
        let found = found.map_err(|error| bucket_error(self.bucket, error))?;
        if let Some(part) = found.iter().position(Option::is_none) {
            return Ok(Err(format!("object {} is missing", needed[part])));
        }
        let mut objects = catalog.objects;
        objects.retain(|object| object.number < first && object.number + LAST_LINKS <= self.number);
        // Ascending: a writer whose next number is free finds that the one before is gone.
        objects.sort_unstable_by_key(ArchiveHeader::numbers);
        let mut old: Vec<String> = objects.iter().map(object_name).collect();
        // Those of later openings may be under way.
        let is_left =
            |folder: u64| !folders.contains(&folder) && folder >> FOLDER_BITS <= self.epoch;
        old.extend(
            parts
                .into_iter()
                .filter(|part| folder_of(part).is_some_and(is_left)),
        );
        Ok(Ok(Kept { first, old }))
    }

    /// The first number that a state needs that is not too old. 0 when all are kept.
    fn first_kept(&self, catalog: &Catalog) -> u64 {
        if self.options.keep_ms == 0 {
            return 0;
        }
        let (now, passed) = (self.source.now(), self.ages.passed(catalog.links.values()));
        let links = catalog.links.values().map(|link| link.number);
        let is_old = |number: &u64| self.ages.of(*number, &passed, now) >= self.options.keep_ms;
        let old: BTreeSet<u64> = links.filter(is_old).collect();
        let parts = catalog.restorable().into_iter().rev();
        let part = parts.map(|part| part.base).find(|base| old.contains(base));
        part.map_or(0, |number| {
            let base = &catalog.links[&number];
            let ranges = catalog.ranges_of(base).unwrap_or_default();
            let range = ranges.first().map_or(number, |range| range.numbers().0);
            range.min(number)
        })
    }

    /// Deletes some of what is not kept: commits do not wait for all of it. False when there is nothing to delete.
    ///
    /// # Errors
    /// When another opening has taken over, which may keep more.
    pub(super) async fn step_deleting(&mut self) -> Result<bool, ArchiveError> {
        if self.old.is_empty() {
            return Ok(false);
        }
        self.check_place().await?;
        let begun = self.source.now();
        for _ in 0..DELETES {
            let Some(name) = self.old.pop_front() else {
                break;
            };
            if let Err(error) = self.bucket.delete(&name).await {
                // The rest is deleted after the next base.
                self.old.clear();
                self.info.notes.undeleted = Some(format!("not before the next base: {error}"));
                break;
            }
            if self.source.now().since(begun) >= DELETING {
                break;
            }
        }
        // They are not to be merged any more.
        if self.old.is_empty() {
            self.merging.forget();
        }
        Ok(true)
    }
}

impl Catalog {
    /// True when all objects from `first` to `end` have been read, and each follows the one before it. What is after the end is
    /// none of the chain.
    fn is_whole(&self, first: u64, end: u64) -> bool {
        let mut next = first;
        for (at, link) in self.links.range(..=end) {
            if link.number >= first {
                if *at > next {
                    return false;
                }
                next = next.max(link.number + 1);
            }
        }
        let unread = self.unread.iter().map(number_in);
        let mut unusable = unread.chain(self.unlinked.iter().copied());
        next > end && !unusable.any(|number| (first..=end).contains(&number))
    }
}
