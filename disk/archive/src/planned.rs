//! One object of an archive that is to be read.

use crate::bucket::Bucket;
use crate::chain::{self, bucket_error, object_error, object_name, part_name};
use crate::error::ArchiveError;
use crate::object;
use async_recursion::async_recursion as boxed;
use std::ops::Range;
use tonearm_base::Lsn;
use tonearm_format::{
    ARCHIVE_HEADER_BYTES, ArchiveBase, ArchiveHeader, ArchivePart, SYSTEM_BLOCKS, Uuid,
};

/// How often an object is asked for that is known to be there: one answer may be wrong.
const GETS: usize = 2;

/// Bytes of a payload, as its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sizes {
    stored: u64,
    raw: u64,
}

/// One object that is to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedObject {
    /// Its name.
    pub name: String,
    /// Its payload has entries: commits, or blocks of a base.
    pub has_entries: bool,
    /// The blocks that it may change.
    pub(crate) blocks: Range<u64>,
    /// CRC-32C in its header.
    pub(crate) crc: u32,
    /// Its store.
    store: Uuid,
    /// The commits that cannot be restored without it.
    commits: (Lsn, Lsn),
    /// How large it is. Of a part of a base that is not known before its header is read.
    sizes: Option<Sizes>,
}

impl Sizes {
    fn of(header: &ArchiveHeader) -> Self {
        Self {
            stored: header.stored_bytes,
            raw: header.raw_bytes,
        }
    }
}

impl PlannedObject {
    /// True when `other` is the same object. Which commits it is needed for changes while the archive grows.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (&self.name, self.crc, self.store) == (&other.name, other.crc, other.store)
    }

    /// An object of the chain, without which commits up to `until` cannot be restored.
    pub(crate) fn of_chain(header: &ArchiveHeader, until: Lsn) -> Self {
        Self {
            name: object_name(header),
            has_entries: header.has_commits(),
            blocks: if header.spares_table {
                SYSTEM_BLOCKS
            } else {
                0
            }..u64::MAX,
            crc: header.crc(),
            store: header.store,
            commits: (Lsn(header.first), until),
            sizes: Some(Sizes::of(header)),
        }
    }

    /// The parts of base `header`, without which `commits` cannot be restored.
    pub(crate) fn parts(
        header: &ArchiveHeader,
        base: &ArchiveBase,
        commits: (Lsn, Lsn),
    ) -> impl Iterator<Item = Self> {
        let part = move |(index, part): (usize, &ArchivePart)| {
            let before = index.checked_sub(1).map(|before| &base.parts[before]);
            Self {
                name: part_name(base.folder, index as u64),
                has_entries: true,
                blocks: before.map_or(0, |before| before.end_block)..part.end_block,
                crc: part.crc,
                store: header.store,
                commits,
                sizes: None,
            }
        };
        base.parts.iter().enumerate().map(part)
    }

    /// Reads how large it is, if that is not known yet.
    ///
    /// # Errors
    /// When it is not there, or its header is damaged or that of another object.
    #[boxed(?Send)]
    pub async fn measure(&mut self, bucket: &dyn Bucket) -> Result<(), ArchiveError> {
        self.sizes = Some(self.sizes(bucket).await?);
        Ok(())
    }

    /// Bytes of memory that [`PlannedObject::fetch`] takes, once it was measured.
    pub fn memory_bytes(&self) -> u64 {
        // Of an encrypted object there is what is stored and what it decrypts to.
        self.sizes.map_or(0, |sizes| 2 * sizes.stored + sizes.raw)
    }

    async fn sizes(&self, bucket: &dyn Bucket) -> Result<Sizes, ArchiveError> {
        if let Some(known) = self.sizes {
            return Ok(known);
        }
        let names = std::slice::from_ref(&self.name);
        for _ in 0..GETS {
            let heads = chain::any_heads(bucket, names).await?;
            if let Some(header) = heads.into_iter().flatten().next() {
                let header =
                    header.map_err(|error| chain::object_error(bucket, &self.name, error))?;
                self.check(bucket, &header)?;
                return Ok(Sizes::of(&header));
            }
        }
        Err(self.missing(bucket))
    }

    fn missing(&self, bucket: &dyn Bucket) -> ArchiveError {
        ArchiveError::Missing {
            url: bucket.url(),
            name: self.name.clone(),
            first: self.commits.0,
            last: self.commits.1,
        }
    }

    /// Checks that `header` is that of this object.
    fn check(&self, bucket: &dyn Bucket, header: &ArchiveHeader) -> Result<(), ArchiveError> {
        if header.crc() == self.crc && header.store == self.store {
            Ok(())
        } else {
            Err(ArchiveError::Unlinked {
                url: bucket.url(),
                name: self.name.clone(),
            })
        }
    }

    /// Its payload.
    ///
    /// # Errors
    /// When it is not there, damaged, or another one; and when it is encrypted, and there is no key. In that case all else is
    /// right.
    pub async fn fetch(&self, bucket: &dyn Bucket) -> Result<Vec<u8>, ArchiveError> {
        let (name, mut object) = (&self.name, None);
        // A longer object is damaged, and not read to its end.
        let most = ARCHIVE_HEADER_BYTES as u64 + self.sizes(bucket).await?.stored;
        for _ in 0..GETS {
            let found = bucket.get(name, most).await;
            object = found.map_err(|error| bucket_error(bucket, error))?;
            if object.is_some() {
                break;
            }
        }
        let Some(object) = object else {
            return Err(self.missing(bucket));
        };
        let wrong = |error| object_error(bucket, name, error);
        let (header, stored) = object::check(&object).map_err(wrong)?;
        self.check(bucket, &header)?;
        if !header.encrypted {
            return object::unpack(&header, stored).map_err(wrong);
        }
        let decrypted = bucket.keys().decrypt(stored);
        let decrypted = decrypted.map_err(|error| ArchiveError::Key {
            url: bucket.url(),
            name: name.clone(),
            error,
        })?;
        object::unpack(&header, &decrypted).map_err(wrong)
    }
}
