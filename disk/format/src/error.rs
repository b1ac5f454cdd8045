//! Why bytes are not the expected structure.

/// Why a structure was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The signature does not match.
    #[error("no {0} here (signature does not match)")]
    Signature(&'static str),
    /// The version of the format is not supported.
    #[error("{what} has format version {found}, this program reads version {supported} alone")]
    Version {
        /// The structure.
        what: &'static str,
        /// Version on disk.
        found: u32,
        /// Version of this program.
        supported: u32,
    },
    /// The structure is torn or damaged.
    #[error("{0} fails its checksum")]
    Checksum(&'static str),
    /// The checksum is right and the content is not: a faulty or hostile program made it.
    #[error("{what} is not consistent: {why}")]
    Inconsistent {
        /// The structure.
        what: &'static str,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// The checksum is right and a number is larger than any store counts to: a faulty or hostile program made it.
    #[error("{what} is not consistent: its {field} is {value}, and a store counts up to {most}")]
    Number {
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The largest valid value.
        most: u64,
    },
}

/// Checks fields from which the program counts up.
///
/// # Errors
/// When one is larger than `most`.
pub(crate) fn check_numbers(
    what: &'static str,
    most: u64,
    numbers: &[(&'static str, u64)],
) -> Result<(), FormatError> {
    match numbers.iter().find(|(_, value)| *value > most) {
        None => Ok(()),
        Some(&(field, value)) => Err(FormatError::Number {
            what,
            field,
            value,
            most,
        }),
    }
}
