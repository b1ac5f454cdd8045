//! Whose a device is, in a string that the kernel keeps with it, or in a number.

use std::fmt;
use std::path::{Path, PathBuf};

/// What every identity of ours begins with.
const PREFIX: &str = "tonearm";

/// The store and the volume of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The store's UUID, in 32 hexadecimal digits.
    pub store: String,
    /// Name of the volume, without spaces.
    pub volume: String,
    /// Where the store was when the device was made, for people.
    pub path: PathBuf,
}

impl Identity {
    /// Reads the string of a device; none if it belongs to another program.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim_end_matches('\n').splitn(4, ' ');
        let (prefix, store) = (words.next()?, words.next()?);
        let (volume, path) = (words.next()?, words.next()?);
        (prefix == PREFIX).then(|| Self {
            store: store.to_owned(),
            volume: volume.to_owned(),
            path: PathBuf::from(path),
        })
    }

    /// True for the same volume of the same store, wherever the store is now.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.store, &self.volume) == (&other.store, &other.volume)
    }

    /// A number of the store and the volume: FNV-1a. The kernel keeps it with a device of ublk.
    pub fn number(&self) -> u64 {
        let text = format!("{PREFIX} {} {}", self.store, self.volume);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    /// True when `path` is where the store was, or the same file.
    pub fn is_at(&self, path: &Path) -> bool {
        self.path == path
            || matches!((self.path.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store,
            volume,
            path,
        } = self;
        write!(formatter, "{PREFIX} {store} {volume} {}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn what_is_written_is_read_again() {
        let identity = Identity {
            store: "0123456789abcdef0123456789abcdef".to_owned(),
            volume: "main".to_owned(),
            path: "/srv/a disk.tn".into(),
        };
        let text = identity.to_string();
        assert_eq!(
            Identity::parse(&format!("{text}\n")),
            Some(identity.clone())
        );
        let moved = Identity {
            path: "/elsewhere".into(),
            ..identity.clone()
        };
        assert!(identity.is_same(&moved) && !identity.is_at(&moved.path));
        assert_eq!(identity.number(), moved.number());
        let other = Identity {
            volume: "data".to_owned(),
            ..identity.clone()
        };
        assert_ne!(identity.number(), other.number());
        // Devices of an older server are found by a newer one.
        assert_eq!(identity.number(), 0xa6f5e03cc9641aec);
        for other in ["", "qemu-nbd", "tonearm 0123 main", "other 0123 main /path"] {
            assert_eq!(Identity::parse(other), None, "{other}");
        }
    }
}
