//! Takes the chain over: finds out that it is this store's, and puts an opening at its end.

use super::end::{self, End};
use super::{Archiver, DENIED_MAX, PAUSE_MIN, hex};
use crate::chain::{self, FOLDER_BITS, LAST_LINKS, PROBE, link_name, object_error};
use crate::error::ArchiveError;
use crate::object::Packer;
use crate::source::{KnownCommit, SeekResult};
use bytes::Bytes;
use tonearm_base::Lsn;
use tonearm_format::{ArchiveHeader, ArchiveKind, ArchiveOpening, FormatError};

/// Objects at the end of the chain of which the headers are read.
const END_LINKS: u64 = 64;
/// Bytes of commits whose digests are compared with those of the log.
const COMPARED_BYTES: u64 = 64 << 20;
/// How often it is looked whether the end can be restored before that is given up.
const BASE_TRIES: usize = 3;
/// Objects in a chain, and openings of it. An archive that puts one each millisecond has fewer after 500 years.
const NUMBER_MAX: u64 = 1 << (64 - FOLDER_BITS);

impl Archiver<'_> {
    /// Tries whether the place refuses a second object of one name. Without that, two servers could write one chain.
    async fn probe(&mut self) -> Result<(), ArchiveError> {
        let probe = Bytes::from_static(b"tonearm\n");
        // Whoever has put the first one: now there is one.
        self.put(PROBE, &probe).await?;
        if self.put_once(PROBE, &probe).await? {
            return Err(ArchiveError::Unconditional {
                url: self.bucket.url(),
            });
        }
        Ok(())
    }

    /// Takes the chain over, and begins a base if there is none.
    pub(super) async fn open(&mut self) -> Result<(), ArchiveError> {
        self.probe().await?;
        self.shape = self.source.shape().await?;
        let mut pause = self.options.interval.min(PAUSE_MIN);
        while !self.take_over().await? {
            let reason = "other openings of the store put objects at the same time";
            self.pause(&mut pause, reason.into()).await?;
        }
        self.has_begun = true;
        match self.base_number {
            0 => self.begin_base(),
            number => {
                // The ranges since then are not counted: their number may be large.
                let header = self.header_of(&link_name(number)).await?;
                if let Some(Ok(header)) = header {
                    self.base_made_ms = header.unix_ms;
                    self.restorable_from = Lsn(header.last);
                }
            }
        }
        self.report().await
    }

    /// False when another one was faster: its object is the end of the chain now.
    async fn take_over(&mut self) -> Result<bool, ArchiveError> {
        let found = self.find_end().await?;
        let end = found.last;
        (self.number, self.crc, self.epoch) = (0, 0, 0);
        self.exact.clear();
        let mut known = Vec::new();
        if let Some(end) = &end {
            self.check_end(end)?;
            (self.number, self.crc, self.epoch) = (end.number, end.crc(), end.epoch);
            (self.archived, self.digest) = (end.archived(), end.digest);
            self.base_number = end.base;
            let heads = self.end_heads(end).await?;
            known = self.known(&heads);
            let follows = |before: &ArchiveHeader| before.crc() == end.previous_crc;
            if end.number > 1 && !heads.get(1).is_some_and(follows) {
                // The last objects are never deleted.
                self.base_number = 0;
            }
            if end.base != 0 && (self.base_number == 0 || !self.has_base(&found).await?) {
                // Without a new base nothing that follows could be restored.
                self.info.gaps += 1;
                self.base_number = 0;
            }
        }
        self.ages
            .open(self.source.now(), self.source.unix_ms(), end.as_ref());
        self.epoch += 1;
        match self.source.seek(known).await? {
            SeekResult::After(lsn, digest) => (self.archived, self.digest) = (lsn, digest),
            SeekResult::Lost => self.skip().await?,
            SeekResult::Differs => {
                return Err(ArchiveError::Diverged {
                    url: self.bucket.url(),
                    lsn: self.archived,
                });
            }
            SeekResult::Ahead(own) => {
                return Err(ArchiveError::Behind {
                    url: self.bucket.url(),
                    archived: self.archived,
                    own,
                });
            }
        }
        let opening = ArchiveOpening {
            block_size: self.shape.block_size,
            size_blocks: self.shape.size_blocks,
            creator: self.options.creator.clone(),
        };
        let header = self.header(ArchiveKind::Opening, self.archived.0, self.archived.0);
        match self.put_link(header, Packer::of(&opening.encode())).await {
            Err(ArchiveError::Fenced { .. }) => Ok(false),
            Err(error) => Err(error),
            Ok(_) => self.is_end().await,
        }
    }

    /// The end of the chain. An object that lists show and that is not there is asked for again for minutes: answers of some
    /// places are wrong for seconds.
    async fn find_end(&mut self) -> Result<End, ArchiveError> {
        let store = self.shape.store;
        let (mut pause, begun) = (self.options.interval.min(PAUSE_MIN), self.source.now());
        let found = loop {
            let found = self.retry(async |bucket| end::find(bucket, &store).await);
            match found.await {
                Err(error @ ArchiveError::Missing { .. })
                    if self.source.now().since(begun) < DENIED_MAX =>
                {
                    self.pause(&mut pause, error.to_string()).await?;
                }
                found => break found?,
            }
        };
        if found.last.is_none() {
            if let Some(foreign) = &found.foreign {
                self.check_end(foreign)?;
            }
            // The whole chain is damaged.
            if let Some((number, Some(error))) = found.odd.last()
                && *number <= LAST_LINKS
            {
                let name = link_name(*number);
                return Err(object_error(self.bucket, &name, *error));
            }
        }
        self.note_odd(found.odd.iter().map(|(number, _)| *number));
        Ok(found)
    }

    /// True when the end can be restored from the base that it names. What is missing is asked for again: an answer may be wrong.
    async fn has_base(&mut self, found: &End) -> Result<bool, ArchiveError> {
        for tries in 0..BASE_TRIES {
            let whole = self.retry(async |bucket| end::is_restorable(bucket, found).await);
            if whole.await? {
                return Ok(true);
            }
            if tries + 1 < BASE_TRIES {
                self.source
                    .sleep(self.options.interval.min(PAUSE_MIN))
                    .await;
            }
        }
        Ok(false)
    }

    /// Whether the chain can be continued after `end`.
    fn check_end(&self, end: &ArchiveHeader) -> Result<(), ArchiveError> {
        if end.store != self.shape.store {
            return Err(ArchiveError::OtherStore {
                url: self.bucket.url(),
                found: hex(&end.store),
                own: hex(&self.shape.store),
            });
        }
        // What is made from them would not fit in names.
        if end.number >= NUMBER_MAX || end.epoch >= NUMBER_MAX {
            let error = FormatError::Inconsistent {
                what: "archive object",
                why: "no chain has so many objects",
            };
            return Err(object_error(self.bucket, &link_name(end.number), error));
        }
        Ok(())
    }

    /// The headers of the last objects of the chain, the last one first. Those that cannot be read are left out: what the others say
    /// is enough.
    async fn end_heads(&mut self, end: &ArchiveHeader) -> Result<Vec<ArchiveHeader>, ArchiveError> {
        let first = end.number.saturating_sub(END_LINKS - 1).max(1);
        let names: Vec<String> = (first..end.number).map(link_name).collect();
        let mut heads = vec![*end];
        if let Some(before) = names.last() {
            let earlier = self.retry(async |bucket| chain::any_heads(bucket, &names).await);
            let mut earlier = earlier.await?;
            if let Some(head @ None) = earlier.last_mut() {
                *head = self.header_of(before).await?;
            }
            let earlier = (first..end.number).rev().zip(earlier.into_iter().rev());
            heads.extend(
                earlier.filter_map(|(number, head)| end::link(head, number, &self.shape.store)),
            );
        }
        Ok(heads)
    }

    /// The commits of which objects at the end of the chain have digests, ascending, back to where commits are missing. Notes which
    /// of the last states cannot be had. `heads` are descending.
    fn known(&mut self, heads: &[ArchiveHeader]) -> Vec<KnownCommit> {
        let last = heads.iter().find(|link| link.has_commits());
        if let Some(last) = last
            && last.exact_from > heads[0].archived().0
        {
            self.exact.note(Lsn(1), Lsn(last.exact_from));
        }
        let (mut known, mut bytes) = (Vec::new(), 0);
        for (at, link) in heads.iter().enumerate() {
            let joins = |after: &ArchiveHeader| {
                let goes_on = match after.kind {
                    ArchiveKind::Range => link.archived().0 + 1 == after.first,
                    _ => link.archived() == after.archived(),
                };
                goes_on && link.crc() == after.previous_crc
            };
            let after = at.checked_sub(1).map(|after| &heads[after]);
            if bytes > COMPARED_BYTES || !after.is_none_or(joins) {
                break;
            }
            known.push(KnownCommit {
                lsn: link.archived(),
                digest: link.digest,
                begins: link.kind == ArchiveKind::Opening,
            });
            bytes += link.raw_bytes;
        }
        known.reverse();
        known
    }
}
