//! Why bytes are not the structure that was looked for.

/// Why a structure was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The signature is another.
    #[error("no {0} here (signature does not match)")]
    Signature(&'static str),
    /// Made by another version of the format.
    #[error("{what} has format version {found}, this program reads versions up to {supported}")]
    Version {
        /// The structure.
        what: &'static str,
        /// Version on disk.
        found: u32,
        /// Version of this program.
        supported: u32,
    },
    /// Torn or rotten.
    #[error("{0} fails its checksum")]
    Checksum(&'static str),
    /// The checksum is right and the content makes no sense: made by a faulty or hostile program.
    #[error("{what} is not consistent: {why}")]
    Inconsistent {
        /// The structure.
        what: &'static str,
        /// The rule that it breaks.
        why: &'static str,
    },
}
