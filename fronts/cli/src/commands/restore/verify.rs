//! The check of an archive.

use super::fetch::fetch;
use super::history::{report_faults, report_strays};
use super::open;
use crate::cli::Identities;
use std::process::ExitCode;
use tonearm_archive::{ArchiveError, Catalog, KeyError};
use tonearm_format::ArchiveReader;
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::{report, size};

/// What was read of an archive.
#[derive(Default)]
struct Verified {
    objects: u64,
    bytes: u64,
    entries: u64,
    /// Encrypted objects of which only the outside was checked.
    closed: u64,
    faults: Vec<String>,
    /// Names of objects that were not there, each with its error.
    missing: Vec<(String, String)>,
}

/// Reads all of an archive. Without an identity, the contents of what is encrypted are not checked.
///
/// # Errors
/// When there is none, or the bucket fails.
pub fn verify(url: &str, identities: &Identities, json: bool) -> anyhow::Result<ExitCode> {
    let bucket = open(url, identities)?;
    let catalog = bucket.block_on(Catalog::load(&bucket))?;
    let mut verified = Verified {
        faults: catalog.faults(),
        ..Verified::default()
    };
    let (all, mut unreadable) = bucket.block_on(catalog.objects(&bucket))?;
    let shape = bucket.block_on(async {
        let last = catalog.links.keys().last().copied().unwrap_or(0);
        catalog.shape(&bucket, last).await
    });
    // Without a shape, contents cannot be checked.
    let block_size = match shape {
        Ok(shape) => Some(shape.block_size as usize),
        Err(error @ ArchiveError::Bucket { .. }) => return Err(error.into()),
        Err(error) => {
            unreadable.push(error.to_string());
            None
        }
    };
    let mut bar = Progress::new("verifying", Unit::Count);
    for (at, (object, fetched)) in all.iter().zip(fetch(&bucket, &all)).enumerate() {
        bar.at(at as u64 + 1, all.len() as u64);
        // Its memory is given back at the end of the round.
        match fetched {
            Ok((_, payload, _share)) => {
                let block_size = block_size.filter(|_| object.has_entries);
                verified.check(&object.name, &payload, block_size);
            }
            Err(error) => verified.note(&object.name, error)?,
        }
    }
    let faults = &mut verified.faults;
    unreadable.retain(|fault| !faults.contains(fault));
    faults.append(&mut unreadable);
    if !verified.missing.is_empty() {
        // Objects are merged and deleted while they are read.
        let now = bucket.block_on(Catalog::load(&bucket))?;
        let (needed, _) = bucket.block_on(now.objects(&bucket))?;
        let is_needed = |name: &str| needed.iter().any(|object| object.name == name);
        let missing = verified.missing.iter();
        let missing = missing.filter(|(name, _)| is_needed(name));
        let reported = missing.map(|(_, error)| error.clone());
        let mut reported: Vec<String> = reported.chain(now.faults()).collect();
        reported.retain(|fault| !faults.contains(fault));
        faults.append(&mut reported);
    }
    verified.show(&catalog, url, json)?;
    Ok(report_faults(&verified.faults, json))
}

impl Verified {
    /// Counts an object, and checks its entries if it has any.
    fn check(&mut self, name: &str, payload: &[u8], block_size: Option<usize>) {
        self.objects += 1;
        self.bytes += payload.len() as u64;
        let Some(block_size) = block_size else {
            return;
        };
        let mut reader = ArchiveReader::new(payload, block_size);
        while let Some(entry) = reader.next() {
            match entry {
                Ok(_) => self.entries += 1,
                Err(error) => {
                    self.faults.push(format!("object {name}: {error}"));
                    break;
                }
            }
        }
    }

    /// Notes that an object could not be read.
    ///
    /// # Errors
    /// When the others cannot be read either.
    fn note(&mut self, name: &str, error: anyhow::Error) -> anyhow::Result<()> {
        match error.downcast_ref::<ArchiveError>() {
            Some(ArchiveError::Key {
                error: KeyError::NoIdentity,
                ..
            }) => self.closed += 1,
            Some(
                ArchiveError::Bucket { .. }
                | ArchiveError::Key {
                    error: KeyError::OtherIdentity,
                    ..
                },
            ) => return Err(error),
            Some(ArchiveError::Missing { .. }) => {
                self.missing.push((name.to_string(), error.to_string()));
            }
            _ => self.faults.push(error.to_string()),
        }
        Ok(())
    }

    fn show(&self, catalog: &Catalog, url: &str, json: bool) -> anyhow::Result<()> {
        if json {
            return report::json(&serde_json::json!({
                "archive": url, "objects": self.objects, "bytes": self.bytes, "entries": self.entries,
                "encrypted": self.closed, "faults": self.faults, "strays": catalog.strays,
            }));
        }
        report::line(format_args!(
            "{} objects, {} of changes and blocks: {}",
            report::count(self.objects),
            size::text(self.bytes),
            match self.faults.len() {
                0 => "all right".to_string(),
                count => format!("{count} damaged"),
            }
        ))?;
        if self.closed > 0 {
            report::line(format_args!(
                "{} encrypted objects: headers, order and checksums were checked, their contents were not; give --identity \
                 FILE to check them",
                report::count(self.closed)
            ))?;
        }
        report_strays(catalog);
        Ok(())
    }
}
