//! The check of an archive.

use super::fetch::fetch;
use super::history::{tell_faults, tell_strays};
use super::open;
use crate::cli::Identities;
use std::process::ExitCode;
use tonearm_archive::{ArchiveError, Catalog, KeyError};
use tonearm_format::ArchiveReader;
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::{report, size};

/// Reads all of an archive. Without an identity, the contents of what is encrypted are not checked.
///
/// # Errors
/// When there is none, or the bucket fails.
pub fn verify(url: &str, identities: &Identities, json: bool) -> anyhow::Result<ExitCode> {
    let bucket = open(url, identities)?;
    let catalog = bucket.block_on(Catalog::load(&bucket))?;
    let mut faults = catalog.faults();
    let (mut objects, mut bytes, mut entries, mut closed) = (0u64, 0u64, 0u64, 0u64);
    let mut missing = Vec::new();
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
        let (payload, _share) = match fetched {
            Ok((_, payload, share)) => (payload, share),
            Err(error) => {
                let cause = error.downcast_ref::<ArchiveError>();
                match cause {
                    Some(ArchiveError::Key {
                        error: KeyError::NoIdentity,
                        ..
                    }) => closed += 1,
                    Some(
                        ArchiveError::Bucket { .. }
                        | ArchiveError::Key {
                            error: KeyError::OtherIdentity,
                            ..
                        },
                    ) => return Err(error),
                    Some(ArchiveError::Missing { .. }) => missing.push((object, error)),
                    _ => faults.push(error.to_string()),
                }
                continue;
            }
        };
        objects += 1;
        bytes += payload.len() as u64;
        let Some(block_size) = block_size.filter(|_| object.has_entries) else {
            continue;
        };
        let mut reader = ArchiveReader::new(&payload, block_size);
        while let Some(entry) = reader.next() {
            match entry {
                Ok(_) => entries += 1,
                Err(error) => {
                    faults.push(format!("object {}: {error}", object.name));
                    break;
                }
            }
        }
    }
    unreadable.retain(|fault| !faults.contains(fault));
    faults.append(&mut unreadable);
    if !missing.is_empty() {
        // Objects are merged and deleted while they are read.
        let now = bucket.block_on(Catalog::load(&bucket))?;
        let (needed, _) = bucket.block_on(now.objects(&bucket))?;
        let is_needed = |name: &str| needed.iter().any(|object| object.name == name);
        let missing = missing.iter().filter(|(object, _)| is_needed(&object.name));
        let told = missing.map(|(_, error)| error.to_string());
        let mut told: Vec<String> = told.chain(now.faults()).collect();
        told.retain(|fault| !faults.contains(fault));
        faults.append(&mut told);
    }
    if json {
        report::json(&serde_json::json!({
            "archive": url, "objects": objects, "bytes": bytes, "entries": entries, "encrypted": closed,
            "faults": faults, "strays": catalog.strays,
        }))?;
    } else {
        report::line(format_args!(
            "{} objects, {} of changes and blocks: {}",
            report::count(objects),
            size::text(bytes),
            match faults.len() {
                0 => "all right".to_string(),
                count => format!("{count} damaged"),
            }
        ))?;
        if closed > 0 {
            report::line(format_args!(
                "{} encrypted objects: headers, order and checksums were checked, their contents were not; give --identity \
                 FILE to check them",
                report::count(closed)
            ))?;
        }
    }
    if !json {
        tell_strays(&catalog);
    }
    Ok(tell_faults(&faults, json))
}
