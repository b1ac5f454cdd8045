//! Whose a device is, in a string that the kernel keeps with it, or in a number.

use std::fmt;
use std::path::{Path, PathBuf};

/// What every identity of ours begins with.
const PREFIX: &str = "tonearm";

/// The volume of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The volume's UUID. A new volume with the name of a deleted one has another.
    pub uuid: String,
    /// Its name when the device was made, without spaces; for people.
    pub volume: String,
    /// Where the store was when the device was made, for people.
    pub path: PathBuf,
}

impl Identity {
    /// Reads the string of a device; none if it belongs to another program.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim_end_matches('\n').splitn(4, ' ');
        let (prefix, uuid) = (words.next()?, words.next()?);
        let (volume, path) = (words.next()?, words.next()?);
        (prefix == PREFIX).then(|| Self {
            uuid: uuid.to_owned(),
            volume: volume.to_owned(),
            path: PathBuf::from(path),
        })
    }

    /// True for the same volume, wherever its store is now.
    pub fn is_same(&self, other: &Self) -> bool {
        self.uuid == other.uuid
    }

    /// A number of the volume: FNV-1a of its UUID. The kernel keeps it with a device of ublk.
    pub fn number(&self) -> u64 {
        self.uuid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
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
        let Self { uuid, volume, path } = self;
        write!(formatter, "{PREFIX} {uuid} {volume} {}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn what_is_written_is_read_again() {
        let identity = Identity {
            uuid: "0123456789abcdef0123456789abcdef".to_owned(),
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
            uuid: "0123456789abcdef0123456789abcdee".to_owned(),
            ..identity.clone()
        };
        assert!(!identity.is_same(&other));
        assert_ne!(identity.number(), other.number());
        // Devices of an older server are found by a newer one.
        assert_eq!(identity.number(), 0x1527c9731f0ff55);
        for other in ["", "qemu-nbd", "tonearm 0123 main", "other 0123 main /path"] {
            assert_eq!(Identity::parse(other), None, "{other}");
        }
    }
}
