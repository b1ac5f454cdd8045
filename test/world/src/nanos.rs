//! Times as numbers, for serde's `with`.

use serde::{Deserialize, Deserializer, Serializer};
use tonearm_base::Nanos;

/// Serialises a time as its number of nanoseconds.
///
/// # Errors
/// The errors of the serialiser.
pub fn serialize<S: Serializer>(time: &Nanos, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.0)
}

/// Deserialises a time from its number of nanoseconds.
///
/// # Errors
/// The errors of the deserialiser.
pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Nanos, D::Error> {
    u64::deserialize(from).map(Nanos)
}
