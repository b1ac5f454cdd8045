//! The pragmas of this VFS, and the value of `PRAGMA synchronous`.

/// A pragma of this VFS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pragma {
    /// `tonearm_lsn`: the last commit of the connection.
    Lsn,
    /// `tonearm_durable`: the last durable commit of the store.
    Durable,
    /// `tonearm_wait = durable`: waits until the last commit of the connection is durable.
    WaitDurable,
    /// `tonearm_wait = archived`: waits until the last commit of the connection is archived.
    WaitArchived,
    /// `tonearm_archive`: how far the archive of the store is.
    Archive,
}

impl Pragma {
    /// What `PRAGMA name = value` asks of this VFS, if anything.
    ///
    /// # Errors
    /// When it is a pragma of this VFS and does not take the value.
    pub fn of(name: &str, value: Option<&str>) -> Result<Option<Self>, String> {
        let name = name.to_ascii_lowercase();
        match (name.as_str(), value) {
            ("tonearm_lsn", None) => Ok(Some(Self::Lsn)),
            ("tonearm_durable", None) => Ok(Some(Self::Durable)),
            ("tonearm_wait", Some(value)) if value.eq_ignore_ascii_case("durable") => {
                Ok(Some(Self::WaitDurable))
            }
            ("tonearm_wait", Some(value)) if value.eq_ignore_ascii_case("archived") => {
                Ok(Some(Self::WaitArchived))
            }
            ("tonearm_archive", None) => Ok(Some(Self::Archive)),
            ("tonearm_lsn" | "tonearm_durable", Some(_)) => Err(format!("{name} cannot be set")),
            ("tonearm_archive", Some(_)) => {
                Err("tonearm_archive cannot be set; name the archive in the URI: archive=file:///folder".into())
            }
            ("tonearm_wait", _) => {
                Err("write PRAGMA tonearm_wait = durable, or PRAGMA tonearm_wait = archived".into())
            }
            _ => Ok(None),
        }
    }
}

/// Whether commits wait until they are durable after `PRAGMA synchronous = value`, which SQLite reads the same way
/// (`getSafetyLevel` in its pragma.c): a number, or a word, and anything else means NORMAL.
pub fn waits(value: &str) -> bool {
    let digits: String = value
        .chars()
        .take_while(char::is_ascii_digit)
        .take(9)
        .collect();
    if let Ok(number) = digits.parse::<u32>() {
        // SQLite uses three bits of the number plus one. A level of zero there means OFF.
        return ((number as u8).wrapping_add(1) & 7) >= 3;
    }
    ["full", "extra"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::{Pragma, waits};

    #[test]
    fn full_and_extra_wait() {
        for value in ["full", "FULL", "extra", "2", "3"] {
            assert!(waits(value), "{value}");
        }
    }

    #[test]
    fn normal_off_and_nonsense_do_not() {
        for value in [
            "off", "normal", "NORMAL", "0", "1", "on", "true", "bogus", "",
        ] {
            assert!(!waits(value), "{value}");
        }
    }

    #[test]
    fn own_pragmas_are_known_and_others_are_left_to_sqlite() {
        for (name, value, asked) in [
            ("tonearm_lsn", None, Pragma::Lsn),
            ("TONEARM_durable", None, Pragma::Durable),
            ("tonearm_wait", Some("DURABLE"), Pragma::WaitDurable),
            ("tonearm_wait", Some("Archived"), Pragma::WaitArchived),
            ("tonearm_archive", None, Pragma::Archive),
        ] {
            assert_eq!(Pragma::of(name, value), Ok(Some(asked)));
        }
        for (name, value) in [("synchronous", Some("full")), ("tonearm", None), ("", None)] {
            assert_eq!(Pragma::of(name, value), Ok(None));
        }
        for (name, value) in [
            ("tonearm_lsn", Some("7")),
            ("tonearm_durable", Some("1")),
            ("tonearm_wait", None),
            ("tonearm_wait", Some("archive")),
            ("tonearm_archive", Some("file:///folder")),
        ] {
            assert!(Pragma::of(name, value).is_err(), "{name}");
        }
    }
}
