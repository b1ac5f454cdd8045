//! Encryption of payloads.

/// What encrypts payloads as they are written, and decrypts them as they are read. It uses random numbers, so the real one is in
/// `tonearm-bucket`.
pub trait Keys {
    /// The payload, encrypted; none when payloads are to stay as they are.
    fn encrypt(&self, payload: &[u8]) -> Option<Vec<u8>>;

    /// What [`Keys::encrypt`] was given.
    ///
    /// # Errors
    /// When there is no key for it, or it is damaged.
    fn decrypt(&self, encrypted: &[u8]) -> Result<Vec<u8>, KeyError>;
}

/// Why a payload cannot be decrypted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no identity at all.
    #[error("it is encrypted; give an identity of one of its recipients with --identity FILE")]
    NoIdentity,
    /// The identities are others.
    #[error(
        "it is encrypted, and none of the given identities opens it; give one of its recipients' with --identity FILE"
    )]
    OtherIdentity,
    /// It was changed since it was encrypted.
    #[error(
        "it cannot be decrypted ({0}); put an undamaged copy of it back, or restore to a commit before it"
    )]
    Damaged(String),
}

/// Encrypts nothing, and has no identity.
pub(crate) struct NoKeys;

impl Keys for NoKeys {
    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Result<Vec<u8>, KeyError> {
        Err(KeyError::NoIdentity)
    }
}
