//! Encryption with age (<https://age-encryption.org/v1>).

use age::{DecryptError, Decryptor, Encryptor, Identity, IdentityFile, Recipient, x25519};
use std::io::{Read, Write};
use std::path::Path;
use tonearm_archive::{KeyError, Keys};

/// Recipients for what is written, and identities for what is read.
#[derive(Default)]
pub(crate) struct AgeKeys {
    recipients: Vec<x25519::Recipient>,
    identities: Vec<Box<dyn Identity + Send + Sync>>,
}

impl AgeKeys {
    /// Adds a recipient, a public key as `age-keygen` prints it.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn add_recipient(&mut self, text: &str) -> Result<(), String> {
        let recipient = text.parse().map_err(|_| {
            format!("'{text}' is no recipient; give a public key of age: it begins with age1")
        })?;
        self.recipients.push(recipient);
        Ok(())
    }

    /// Adds the identities in a file as `age-keygen` makes it.
    ///
    /// # Errors
    /// When it cannot be read, or has something else than identities.
    pub(crate) fn add_identities(&mut self, path: &Path) -> Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| {
            format!(
                "{} cannot be used as an identity ({why}); give a file with a line that begins with AGE-SECRET-KEY-1, not \
                 encrypted",
                path.display()
            )
        };
        let text = std::fs::read(path).map_err(|error| wrong(&error))?;
        let file = IdentityFile::from_buffer(&text[..]).map_err(|error| wrong(&error))?;
        let identities = file.into_identities().map_err(|error| wrong(&error))?;
        if identities.is_empty() {
            return Err(wrong(&"it has none"));
        }
        self.identities.extend(identities);
        Ok(())
    }
}

impl Keys for AgeKeys {
    fn encrypt(&self, payload: &[u8]) -> Option<Vec<u8>> {
        if self.recipients.is_empty() {
            return None;
        }
        let recipients = self.recipients.iter().map(|one| one as &dyn Recipient);
        let encryptor = Encryptor::with_recipients(recipients);
        let encryptor = encryptor.expect("recipients of one kind go together");
        let mut encrypted = Vec::with_capacity(payload.len() + payload.len() / 1024 + 1024);
        let written = (|| {
            let mut writer = encryptor.wrap_output(&mut encrypted)?;
            writer.write_all(payload)?;
            writer.finish()
        })();
        written.expect("memory takes any number of bytes");
        Some(encrypted)
    }

    fn decrypt(&self, encrypted: &[u8]) -> Result<Vec<u8>, KeyError> {
        if self.identities.is_empty() {
            return Err(KeyError::NoIdentity);
        }
        let wrong = |error: DecryptError| match error {
            DecryptError::NoMatchingKeys => KeyError::OtherIdentity,
            other => KeyError::Damaged(other.to_string()),
        };
        let identities = self.identities.iter().map(|one| &**one as &dyn Identity);
        let decryptor = Decryptor::new_buffered(encrypted).map_err(wrong)?;
        let mut reader = decryptor.decrypt(identities).map_err(wrong)?;
        let mut payload = Vec::with_capacity(encrypted.len());
        let read = reader.read_to_end(&mut payload);
        read.map_err(|error| KeyError::Damaged(error.to_string()))?;
        Ok(payload)
    }
}

#[cfg(test)]
#[path = "keys_test.rs"]
mod keys_test;
