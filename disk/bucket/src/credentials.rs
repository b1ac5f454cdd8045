//! Keys of a service, from a profile as the tools of Amazon keep them. The files are read again whenever they have changed, so
//! keys may be replaced while a server runs.

use crate::variables::Variables;
use futures_util::future::BoxFuture;
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Error};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Entries of a profile that other programs would follow to get keys.
const FOLLOWED: [&str; 5] = [
    "credential_process",
    "role_arn",
    "sso_session",
    "sso_start_url",
    "credential_source",
];

/// A profile.
#[derive(Debug)]
pub(crate) struct Profile {
    name: String,
    credentials: PathBuf,
    config: PathBuf,
}

impl Profile {
    /// The profile that `variables` name; none when they name none and there is no file of credentials.
    pub(crate) fn of(variables: &Variables) -> Option<Self> {
        let home = |file: &str| {
            variables
                .get("HOME")
                .map(|home| Path::new(home).join(".aws").join(file))
        };
        let file = |name, file| {
            variables
                .get(name)
                .map(PathBuf::from)
                .or_else(|| home(file))
        };
        let profile = Self {
            name: variables
                .get("AWS_PROFILE")
                .unwrap_or("default")
                .to_string(),
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials")?,
            config: file("AWS_CONFIG_FILE", "config")?,
        };
        let is_named = variables.get("AWS_PROFILE").is_some()
            || variables.get("AWS_SHARED_CREDENTIALS_FILE").is_some();
        (is_named || profile.keys().is_ok()).then_some(profile)
    }

    /// All entries of the profile. Those of the file of credentials count before those of the other file.
    fn entries(&self) -> BTreeMap<String, String> {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        let section = match self.name.as_str() {
            "default" => "default".to_string(),
            name => format!("profile {name}"),
        };
        let mut entries = self::entries(&text(&self.config), &section);
        entries.extend(self::entries(&text(&self.credentials), &self.name));
        entries
    }

    /// An entry of the profile.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.entries().remove(key)
    }

    fn keys(&self) -> Result<AwsCredential, String> {
        let mut entries = self.entries();
        let key_id = entries.remove("aws_access_key_id");
        let secret_key = entries.remove("aws_secret_access_key");
        if let (Some(key_id), Some(secret_key)) = (key_id, secret_key) {
            let token = entries.remove("aws_session_token");
            return Ok(AwsCredential {
                key_id,
                secret_key,
                token,
            });
        }
        let (name, file) = (&self.name, self.credentials.display());
        Err(
            match FOLLOWED.iter().find(|key| entries.contains_key(**key)) {
                Some(key) => format!(
                    "profile {name} gets its keys by {key}, which tonearm does not follow; put aws_access_key_id and \
                 aws_secret_access_key into {file}, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                ),
                None => format!(
                    "profile {name} has no aws_access_key_id and aws_secret_access_key in {file}; \
                 put them there, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                ),
            },
        )
    }
}

/// The entries of one section of a file in the form of INI files.
fn entries(text: &str, section: &str) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    let mut is_wanted = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            is_wanted = name.0.split_whitespace().eq(section.split_whitespace());
        } else if let Some((key, value)) = line.split_once('=')
            && is_wanted
            && !line.starts_with(['#', ';'])
        {
            entries.insert(key.trim().to_ascii_lowercase(), value.trim().to_string());
        }
    }
    entries
}

impl CredentialProvider for Profile {
    type Credential = AwsCredential;

    fn get_credential<'a, 'b>(&'a self) -> BoxFuture<'b, Result<Arc<AwsCredential>, Error>>
    where
        'a: 'b,
        Self: 'b,
    {
        let keys = self
            .keys()
            .map(Arc::new)
            .map_err(|why| Error::Unauthenticated {
                path: self.credentials.display().to_string(),
                source: why.into(),
            });
        Box::pin(async { keys })
    }
}

#[cfg(test)]
#[path = "credentials_test.rs"]
mod credentials_test;
