//! Where objects lie.

use crate::keys::{Keys, NoKeys};
use bytes::Bytes;
use tonearm_rt::Boxed;

/// A folder or a bucket, as far as an archive needs it. Names are relative, with `/` between their parts.
pub trait Bucket {
    /// Puts an object where there is none, whole or not at all; false when the place answers that there is one. Of several such
    /// puts of one name at most one succeeds. The answer that there is one may be wrong: the caller looks.
    ///
    /// # Errors
    /// When the object may or may not be there; the caller puts it again.
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>>;

    /// The object, or `None` when there is none. Of one that is longer than `most` bytes only the
    /// first `most` + 1: anybody who can write to the place chooses how long objects are, so memory is never taken for more.
    ///
    /// # Errors
    /// When it is not known.
    fn get<'a>(
        &'a self,
        name: &'a str,
        most: u64,
    ) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>>;

    /// The first `bytes` bytes of each of the objects, as far as they exist and are so long. Several may be read at once.
    ///
    /// # Errors
    /// When one of them is not known.
    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>>;

    /// The names of the objects whose names begin with `folder` and a `/`, ascending. Young objects may be missing.
    /// What one list has shown, later lists show, too, until it is deleted.
    ///
    /// # Errors
    /// When they are not known.
    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>>;

    /// Deletes an object, if there is one.
    ///
    /// # Errors
    /// When it may still be there.
    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>>;

    /// What people call the place.
    fn url(&self) -> String;

    /// What encrypts and decrypts the payloads of objects there.
    fn keys(&self) -> &dyn Keys {
        &NoKeys
    }
}

/// Why a bucket did not do what it was asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BucketError {
    /// The same request may succeed later. Of a put it is not known whether the object is there.
    #[error("{0}")]
    Transient(String),
    /// It may succeed once keys, permissions or clocks have changed, which may happen without the archiver.
    #[error("{0}")]
    Denied(String),
    /// This place cannot be used, for a reason that is proved. Of a place that could be used before, that passes, too.
    #[error("{0}")]
    Refused(String),
}
