//! The archive that a file name asks for: `archive=URL`, with `archive_interval=SECONDS`, `archive_keep=SECONDS`,
//! `archive_keep_every_commit=SECONDS` and `archive_recipient=AGE1...`.

use crate::failure::{Failure, Result};
use crate::ffi;
use std::path::Path;
use std::time::Duration;
use tonearm_bucket::{RealBucket, Writer};
use tonearm_store::{ArchiverOptions, Nanos, Store, StoreError};

/// Parameters of a URI besides the address, as they are written there.
#[derive(Default)]
pub struct Parameters<'a> {
    /// `archive_interval`.
    pub interval: Option<&'a str>,
    /// `archive_keep`.
    pub keep: Option<&'a str>,
    /// `archive_keep_every_commit`.
    pub keep_every_commit: Option<&'a str>,
    /// `archive_recipient`.
    pub recipient: Option<&'a str>,
}

/// An archive that is asked for.
pub struct RequestedArchive<'a> {
    /// Its address.
    pub url: &'a str,
    options: ArchiverOptions,
    recipients: Vec<String>,
}

impl<'a> RequestedArchive<'a> {
    /// What the parameters of a URI ask for.
    ///
    /// # Errors
    /// `CANTOPEN` when a time is none.
    pub fn of(url: &'a str, parameters: &Parameters<'_>) -> Result<Self> {
        let mut options = ArchiverOptions::default();
        if let Some(span) = seconds("archive_interval", parameters.interval)? {
            options.interval = Nanos(span.as_nanos() as u64);
        }
        if let Some(span) = seconds("archive_keep", parameters.keep)? {
            options.keep_ms = span.as_millis() as u64;
        }
        let every = seconds("archive_keep_every_commit", parameters.keep_every_commit)?;
        if let Some(span) = every {
            options.keep_every_commit_ms = span.as_millis() as u64;
        }
        let recipients = parameters.recipient.map(str::to_string);
        Ok(Self {
            url,
            options,
            recipients: recipients.into_iter().collect(),
        })
    }

    /// Whether `url` names the same place.
    pub fn is(&self, url: &str) -> bool {
        is_same(self.url, url)
    }

    /// Begins to archive `store`, which is at `path`.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn begin(&self, store: &Store, path: &Path) -> std::result::Result<(), StoreError> {
        let bucket = RealBucket::open_to_write(self.url, Writer::of_store(path));
        let bucket = bucket.and_then(|bucket| bucket.with_recipients(&self.recipients));
        let bucket = bucket.map_err(|error| StoreError::Archive(error.to_string()))?;
        store.start_archive(bucket, self.options.clone())
    }
}

fn seconds(name: &str, text: Option<&str>) -> Result<Option<Duration>> {
    let Some(text) = text else { return Ok(None) };
    let number = text.parse().ok();
    // A century. More does not fit into nanoseconds.
    let number = number.filter(|number| (0.001..=3.2e9).contains(number));
    let span = number.and_then(|number| Duration::try_from_secs_f64(number).ok());
    match span {
        Some(span) => Ok(Some(span)),
        None => Err(Failure::new(
            ffi::CANTOPEN,
            format!("{name}={text} in the URI is no time; write seconds, such as {name}=0.5"),
        )),
    }
}

/// Whether two addresses name the same place.
pub fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::{Parameters, RequestedArchive};
    use tonearm_store::Nanos;

    #[test]
    fn times_are_seconds() {
        let parameters = Parameters {
            interval: Some("0.25"),
            keep: Some("86400"),
            keep_every_commit: Some("3600"),
            recipient: None,
        };
        let wanted = RequestedArchive::of("file:///a/", &parameters).unwrap();
        assert_eq!(wanted.options.keep_every_commit_ms, 3_600_000);
        assert_eq!(wanted.options.interval, Nanos::from_millis(250));
        assert_eq!(wanted.options.keep_ms, 86_400_000);
        assert!(wanted.is("file:///a") && !wanted.is("file:///b"));
        for wrong in ["", "1s", "-1", "0", "nan", "1e30"] {
            let (interval, keep) = (Some(wrong), Some(wrong));
            let none = Parameters::default;
            for parameters in [
                Parameters { interval, ..none() },
                Parameters { keep, ..none() },
                Parameters {
                    keep_every_commit: keep,
                    ..none()
                },
            ] {
                assert!(
                    RequestedArchive::of("file:///a", &parameters).is_err(),
                    "{wrong}"
                );
            }
        }
    }
}
