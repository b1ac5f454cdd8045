//! Takes the chain over: finds out that it is this store's, and puts an opening at its end.

use super::{Archiver, hex};
use crate::chain::{self, FOLDER_BITS, PROBE, link_name, object_error};
use crate::error::ArchiveError;
use crate::object::Packer;
use crate::source::{KnownCommit, Sought};
use bytes::Bytes;
use tonearm_base::Lsn;
use tonearm_format::{ArchiveHeader, ArchiveKind, ArchiveOpening, FormatError};

/// Objects at the end of the chain of which the headers are read.
const END_LINKS: u64 = 64;
/// Bytes of commits whose digests are compared with those of the log.
const COMPARED_BYTES: u64 = 64 << 20;
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
        while !self.take_over().await? {}
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
        let links = self.retry(async |bucket| chain::links(bucket).await);
        let (_, end) = links.await?;
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
                // The last objects are never deleted. Without a new base nothing that follows could be restored.
                self.info.gaps += 1;
                self.base_number = 0;
            }
        }
        self.ages
            .open(self.source.now(), self.source.unix_ms(), end.as_ref());
        self.epoch += 1;
        match self.source.seek(known).await? {
            Sought::Behind(lsn, digest) => (self.archived, self.digest) = (lsn, digest),
            Sought::Lost => self.skip().await?,
            Sought::Differs => {
                return Err(ArchiveError::Diverged {
                    url: self.bucket.url(),
                    lsn: self.archived,
                });
            }
            Sought::Ahead(own) => {
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
            who: self.options.who.clone(),
        };
        let header = self.header(ArchiveKind::Opening, self.archived.0, self.archived.0);
        match self.put_link(header, Packer::of(&opening.encode())).await {
            Err(ArchiveError::Fenced { .. }) => Ok(false),
            Err(error) => Err(error),
            Ok(_) => self.is_end().await,
        }
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

    /// The headers of the last objects of the chain up to a hole, the last one first.
    async fn end_heads(&mut self, end: &ArchiveHeader) -> Result<Vec<ArchiveHeader>, ArchiveError> {
        let first = end.number.saturating_sub(END_LINKS - 1).max(1);
        if end.number == first {
            return Ok(vec![*end]);
        }
        let before = self.header_of(&link_name(end.number - 1)).await?;
        let mut heads = vec![before.and_then(Result::ok)];
        let names: Vec<String> = (first..end.number - 1).map(link_name).collect();
        let earlier = self.retry(async |bucket| chain::heads(bucket, &names).await);
        match earlier.await {
            Ok(earlier) => heads.extend(earlier.into_iter().rev()),
            // One is damaged. What the others say is enough.
            Err(ArchiveError::Object { .. }) => {}
            Err(error) => return Err(error),
        }
        let before = heads.into_iter().map_while(|head| head);
        Ok([*end].into_iter().chain(before).collect())
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
                goes_on && link.number + 1 == after.number && link.crc() == after.previous_crc
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
