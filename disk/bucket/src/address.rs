//! Addresses of archives. An address names its place to the letter: nothing in it is decoded, cut off or completed. So two
//! addresses that differ never meet in one place, but for a slash at the end. What could be read in two ways is refused.

use std::path::PathBuf;

/// A place that an address names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// `file:///folder`.
    Folder(PathBuf),
    /// `s3://bucket/prefix`.
    Service {
        /// The bucket.
        bucket: String,
        /// What names of objects begin with, without a slash at its end; empty when they begin with nothing.
        prefix: String,
    },
}

impl Address {
    /// What `url` names.
    ///
    /// # Errors
    /// Why it names no place, or not only one.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        if url.chars().any(char::is_control) {
            return Err("an address has no line ends, tabs or other control characters".into());
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(
                "this is no address of an archive; write file:///folder or s3://bucket/prefix"
                    .into(),
            );
        };
        match scheme {
            "file" => folder(rest),
            "s3" => service(rest),
            other => Err(format!(
                "archives are at file:// or s3://, not at {other}://"
            )),
        }
    }
}

fn folder(path: &str) -> Result<Address, String> {
    if !path.starts_with('/') {
        return Err("write an absolute path: file:///folder".into());
    }
    let parts = parts(&path[1..])?;
    if parts.is_empty() {
        return Err("the root folder is no place for an archive; name a folder of its own".into());
    }
    // Browsers and other programs write a blank as %20, and mean a blank.
    if let Some(code) = escaped(path) {
        return Err(format!(
            "{code} may stand for itself or for another character; write the path as `ls` shows it, and choose a folder \
             without a percent sign before two hexadecimal digits"
        ));
    }
    Ok(Address::Folder(PathBuf::from(format!("/{parts}"))))
}

fn service(rest: &str) -> Result<Address, String> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if bucket.is_empty() || !bucket.chars().all(fits) {
        return Err(format!(
            "'{bucket}' is no name of a bucket, which has letters, digits and characters of . _ -; write s3://bucket/prefix"
        ));
    }
    Ok(Address::Service {
        bucket: bucket.to_string(),
        prefix: parts(prefix)?,
    })
}

/// The path without a slash at its end.
fn parts(path: &str) -> Result<String, String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let wrong = |part: &&str| matches!(*part, "" | "." | "..");
    if !path.is_empty() && path.split('/').any(|part| wrong(&part)) {
        return Err("write the path without empty parts, . and ..".into());
    }
    Ok(path.to_string())
}

/// The first percent sign before two hexadecimal digits, with these.
fn escaped(path: &str) -> Option<&str> {
    let at = path.as_bytes().windows(3).position(|three| {
        three[0] == b'%' && three[1].is_ascii_hexdigit() && three[2].is_ascii_hexdigit()
    })?;
    path.get(at..at + 3)
}

#[cfg(test)]
#[path = "address_test.rs"]
mod address_test;
