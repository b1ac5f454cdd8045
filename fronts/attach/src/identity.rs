//! Whose a device is, in a string that the kernel keeps with it, or in a number.

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What every identity of ours begins with.
const PREFIX: &str = "tonearm";

/// The volume of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The volume's UUID. A new volume with the name of a deleted one has another.
    pub uuid: String,
    /// Which file the store is: its inode, or the number of a block device. A copy of the store has other numbers and the same UUIDs, and
    /// gets a device of its own.
    pub file: u64,
    /// Its name when the device was made, without spaces; for people.
    pub volume: String,
    /// Where the store was when the device was made, for people.
    pub path: PathBuf,
}

impl Identity {
    /// The identity of a volume of the store at `path`.
    ///
    /// # Errors
    /// When there is no file.
    pub fn of(uuid: String, volume: String, path: PathBuf) -> io::Result<Self> {
        Ok(Self {
            uuid,
            file: number_of(&path)?,
            volume,
            path,
        })
    }

    /// Reads the string of a device; none if it belongs to another program.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim_end_matches('\n').splitn(5, ' ');
        let (prefix, uuid, file) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
        let (volume, path) = (words.next()?, words.next()?);
        (prefix == PREFIX).then(|| Self {
            uuid: uuid.to_owned(),
            file,
            volume: volume.to_owned(),
            path: PathBuf::from(path),
        })
    }

    /// True for the same volume of the same file, whatever its names are now.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uuid, self.file) == (&other.uuid, other.file)
    }

    /// A number of the volume and the file: FNV-1a of the UUID and of the file's number. The kernel keeps it with a device of ublk.
    pub fn number(&self) -> u64 {
        let bytes = self.uuid.bytes().chain(self.file.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    /// True when the store is the file at `path`, or was there when no file is there now.
    pub fn is_at(&self, path: &Path) -> bool {
        number_of(path).map_or(self.path == path, |file| file == self.file)
    }
}

fn number_of(path: &Path) -> io::Result<u64> {
    let found = path.metadata()?;
    Ok(if found.file_type().is_block_device() {
        found.rdev()
    } else {
        found.ino()
    })
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            uuid,
            file,
            volume,
            path,
        } = self;
        write!(
            formatter,
            "{PREFIX} {uuid} {file} {volume} {}",
            path.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn encoded_values_parse_back() {
        let identity = Identity {
            uuid: "0123456789abcdef0123456789abcdef".to_owned(),
            file: 47,
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
        let volume = Identity {
            uuid: "0123456789abcdef0123456789abcdee".to_owned(),
            ..identity.clone()
        };
        let copy = Identity {
            file: 48,
            ..identity.clone()
        };
        for other in [volume, copy] {
            assert!(!identity.is_same(&other));
            assert_ne!(identity.number(), other.number());
        }
        // Devices of an older server are found by a newer one.
        assert_eq!(identity.number(), 0x1df5_9f30_60d0_32ba);
        for other in [
            "",
            "qemu-nbd",
            "tonearm 0123 47 main",
            "other 0123 47 main /path",
            "tonearm 0123 x main /path",
        ] {
            assert_eq!(Identity::parse(other), None, "{other}");
        }
    }
}
