//! Puts objects, and looks at what is there when the answer may be wrong.
//!
//! A place may answer that an object exists although it has none: S3 answers 409 to two puts at one time and may store
//! neither, and the answer to a put that is repeated says nothing of the first one. So nothing is concluded from that answer. The
//! archiver looks: its own object is a success, no object is put again, and only another object means another writer.
//!
//! A writer that was stalled for long may find the next number of the chain free, because what another opening had put
//! there has been deleted meanwhile. Objects are deleted in ascending order. So the object before it, which this writer
//! has put, was deleted first: after each put the archiver looks whether that one is still there.

use super::end::{self, ODD_MAX};
use super::{Archiver, PAUSE_MIN, Placed};
use crate::chain::{READS, bucket_error, link_name, object_error};
use crate::error::ArchiveError;
use crate::object::{self, Packer};
use bytes::Bytes;
use tonearm_format::{
    ARCHIVE_HEADER_BYTES, ArchiveHeader, ArchiveKind, ArchiveOpening, FormatError,
};

/// Most bytes of the payload of an opening that is read for the name of its writer.
const OPENING_BYTES_MAX: u64 = 64 << 10;

/// How often an object is asked for that has the own header and was not there as a whole.
const LOOKS: usize = 10;
/// How often the last object is looked for before it is given up.
const LAST_TRIES: usize = 5;

impl Archiver<'_> {
    /// Puts an object. Returns when it is there, or another one is.
    pub(super) async fn put(&mut self, name: &str, object: &Bytes) -> Result<Placed, ArchiveError> {
        let (mut pause, mut looks) = (self.options.interval.min(PAUSE_MIN), 0);
        let placed = loop {
            if self.put_once(name, object).await? {
                break Placed::Own;
            }
            looks += 1;
            match self.look(name, object, looks).await? {
                Some(placed) => break placed,
                None => {
                    let reason = format!(
                        "the place answers that object {name} exists, and gives none; it is put again"
                    );
                    self.pause(&mut pause, reason).await?;
                }
            }
        };
        if matches!(placed, Placed::Own) {
            self.info.objects += 1;
            self.info.stored_bytes += object.len() as u64;
        }
        Ok(placed)
    }

    /// One request, repeated until it is answered. False when the answer is that there is an object.
    pub(super) async fn put_once(
        &mut self,
        name: &str,
        object: &Bytes,
    ) -> Result<bool, ArchiveError> {
        self.retry(async |bucket| {
            let put = bucket.put_new(name, object.clone()).await;
            put.map_err(|error| bucket_error(bucket, error))
        })
        .await
    }

    /// What is there in the place of `object`, as far as that is known after so many `looks`. Reads no more than that has.
    async fn look(
        &mut self,
        name: &str,
        object: &Bytes,
        looks: usize,
    ) -> Result<Option<Placed>, ArchiveError> {
        let found = self.begin_of(name, object.len()).await?;
        if found.as_deref() == Some(&object[..]) {
            return Ok(Some(Placed::Own));
        }
        if let Some(header) = self.header_of(name).await? {
            let is_own = |header: &ArchiveHeader| object.starts_with(&header.encode());
            if !header.as_ref().is_ok_and(is_own) {
                return Ok(Some(Placed::Other(header)));
            }
            // The answer that there was none was wrong. An object that stays shorter is cut off.
            let is_damaged = found.is_some() || looks > LOOKS;
            let damage = || Placed::Other(Err(FormatError::Checksum("archive object")));
            return Ok(is_damaged.then(damage));
        }
        // One that is shorter than a header is none of an archive.
        let any = self
            .retry(async |bucket| {
                let any = bucket.get(name, ARCHIVE_HEADER_BYTES as u64).await;
                any.map_err(|error| bucket_error(bucket, error))
            })
            .await?;
        let is_short = any.is_some_and(|any| any.len() < ARCHIVE_HEADER_BYTES);
        Ok(is_short.then(|| Placed::Other(ArchiveHeader::decode(&[]))))
    }

    /// The first `bytes` bytes of an object, if it is there and so long.
    async fn begin_of(
        &mut self,
        name: &str,
        bytes: usize,
    ) -> Result<Option<Vec<u8>>, ArchiveError> {
        let names = [name.to_string()];
        let found = self
            .retry(async |bucket| {
                let heads = bucket.heads(&names, bytes).await;
                heads.map_err(|error| bucket_error(bucket, error))
            })
            .await?;
        Ok(found.into_iter().next().flatten())
    }

    /// The header of an object. An answer that there is none may be wrong: the object is asked for again.
    pub(super) async fn header_of(
        &mut self,
        name: &str,
    ) -> Result<Option<Result<ArchiveHeader, FormatError>>, ArchiveError> {
        for _ in 0..READS {
            if let Some(head) = self.begin_of(name, ARCHIVE_HEADER_BYTES).await? {
                return Ok(Some(ArchiveHeader::decode(&head)));
            }
        }
        Ok(None)
    }

    /// Puts the next object of the chain. Returns its bytes.
    pub(super) async fn put_link(
        &mut self,
        mut header: ArchiveHeader,
        packer: Packer,
    ) -> Result<u64, ArchiveError> {
        let made = self.source.now();
        let begins_epoch = self.ages.must_begin_epoch(header.unix_ms, made);
        header.epoch += u64::from(begins_epoch);
        let (mut header, mut object) = packer.seal(self.bucket.keys(), header);
        let mut name = link_name(header.number);
        let (mut pause, mut tries) = (self.options.interval.min(PAUSE_MIN), 0);
        loop {
            if let Placed::Other(found) = self.put(&name, &object).await? {
                self.check_odd(header.number, &name, found).await?;
                // It stays. The chain goes on after it.
                header.number += 1;
                if header.kind == ArchiveKind::Base {
                    header.base = header.number;
                }
                name = link_name(header.number);
                object = [&header.encode(), &object[ARCHIVE_HEADER_BYTES..]]
                    .concat()
                    .into();
                continue;
            }
            if self.has_last(header.number).await? {
                break;
            }
            tries += 1;
            if tries > LAST_TRIES {
                // Nothing that follows could be restored without a new base.
                self.info.gaps += 1;
                self.base_number = 0;
                self.begin_base();
                break;
            }
            // A folder that is not mounted, for example. The object may be in another place than the one before.
            let before = link_name(self.number);
            let reason = format!("object {before}, which was there, is gone; put it back");
            self.pause(&mut pause, reason).await?;
        }
        let bytes = object.len() as u64;
        self.recycle(object);
        (self.number, self.crc) = (header.number, header.crc());
        self.epoch = header.epoch;
        self.ages.note(header.number, self.source.now());
        self.ages.note_epoch(header.unix_ms, made, begins_epoch);
        self.merging.note(&header);
        self.info.raw_bytes += header.raw_bytes;
        Ok(bytes)
    }

    /// False when the last object that was put is not there any more, or is damaged. `next` is the last number that may be of this
    /// writer, too.
    ///
    /// # Errors
    /// When that is so because another opening has continued the chain, and what is old was deleted since. Then that number
    /// may have been free, and have an object of yet another opening.
    pub(super) async fn has_last(&mut self, next: u64) -> Result<bool, ArchiveError> {
        if self.number == 0 {
            return Ok(true);
        }
        let name = link_name(self.number);
        let found = self.header_of(&name).await?;
        let found = found.and_then(Result::ok);
        if found.is_some_and(|header| header.crc() == self.crc) {
            return Ok(true);
        }
        match self.end_beyond(next).await? {
            Some(end) => Err(self.fenced(&link_name(end)).await),
            None if found.is_some() => Err(self.fenced(&name).await),
            None => Ok(false),
        }
    }

    /// Keeps the memory of an object that was put.
    pub(super) fn recycle(&mut self, object: Bytes) {
        if let Ok(own) = object.try_into_mut()
            && own.capacity() > self.buffer.capacity()
        {
            self.buffer = own.into();
        }
    }

    /// The number of the last object of the chain, if that is beyond `number`.
    async fn end_beyond(&mut self, number: u64) -> Result<Option<u64>, ArchiveError> {
        let store = self.shape.store;
        let end = self.retry(async |bucket| end::find(bucket, &store).await);
        match end.await {
            Ok(end) => Ok(end.last.map(|end| end.number).filter(|end| *end > number)),
            Err(ArchiveError::Missing { .. } | ArchiveError::Object { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// True when object `number`, an opening that was put just now, is the end of the chain. False when the writer was stalled
    /// before it put the opening, and the end was elsewhere by then: numbers before the end may be free again.
    ///
    /// # Errors
    /// When another opening has followed.
    pub(super) async fn is_end(&mut self) -> Result<bool, ArchiveError> {
        // Twice: a list may lack an object.
        for _ in 0..2 {
            if self.end_beyond(self.number).await?.is_none() {
                continue;
            }
            return match self.follower().await? {
                Some(next) if next.previous_crc == self.crc => {
                    Err(self.fenced(&link_name(next.number)).await)
                }
                _ => Ok(false),
            };
        }
        Ok(true)
    }

    /// Returns when what has the name of the next object of the chain is odd: damaged, or none of the chain of this store.
    ///
    /// # Errors
    /// When it is of another opening; when it has a later version; when too many are odd.
    async fn check_odd(
        &mut self,
        number: u64,
        name: &str,
        found: Result<ArchiveHeader, FormatError>,
    ) -> Result<(), ArchiveError> {
        let is_over = number >= self.number + ODD_MAX;
        match found {
            Ok(header) if end::is_link(&header, number, &self.shape.store) || self.number == 0 => {
                return Err(self.fenced(name).await);
            }
            Err(error) if is_over || matches!(error, FormatError::Version { .. }) => {
                return Err(object_error(self.bucket, name, error));
            }
            Ok(_) if is_over => return Err(self.fenced(name).await),
            _ => {}
        }
        self.note_odd([number].into_iter());
        Ok(())
    }

    /// The error for a writer whose place has been taken by object `name`.
    pub(super) async fn fenced(&mut self, name: &str) -> ArchiveError {
        let creator = self.writer_of(name).await;
        ArchiveError::Fenced {
            url: self.bucket.url(),
            creator: creator.unwrap_or("unknown".into()),
        }
    }

    /// Who has put this object, if it is an opening.
    async fn writer_of(&mut self, name: &str) -> Option<String> {
        let header = self.header_of(name).await.ok()??.ok()?;
        let is_small = header.raw_bytes.max(header.stored_bytes) <= OPENING_BYTES_MAX;
        if header.kind != ArchiveKind::Opening || !is_small {
            return None;
        }
        let bytes = ARCHIVE_HEADER_BYTES + header.stored_bytes as usize;
        let object = self.begin_of(name, bytes).await.ok()??;
        let (header, stored) = object::check(&object).ok()?;
        let payload = object::unpack(&header, stored).ok()?;
        Some(ArchiveOpening::decode(&payload).ok()?.creator)
    }
}
