//! POSIX access control lists (acl(5); IEEE 1003.1e draft 17), as values of extended attributes, in the form that the kernel uses
//! (linux/posix_acl_xattr.h). Byte table: `docs/format/tree.md`.

use crate::FormatError;

const WHAT: &str = "access control list";
/// Version of the form.
const VERSION: u32 = 2;
/// Bytes of an entry: tag, permissions, and the number of a user or group.
const ENTRY_BYTES: usize = 8;
/// All permissions of an entry.
const ALL: u16 = 0o7;

/// Tags, in the order of the entries.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const TAGS: [u16; 6] = [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// A list that is complete and in order: it has each of the owner, the owning group and the others once, and one mask if it names
/// users or groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acl(Vec<Entry>);

impl Acl {
    /// Reads a list; `None` for one without entries.
    ///
    /// # Errors
    /// When the bytes are no complete list.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        let (Some((version, rest)), true) = (
            bytes.split_first_chunk::<4>(),
            bytes.len() % ENTRY_BYTES == 4,
        ) else {
            return Err(bad("its length is wrong"));
        };
        let found = u32::from_le_bytes(*version);
        if found != VERSION {
            return Err(FormatError::Version {
                what: WHAT,
                found,
                supported: VERSION,
            });
        }
        let (entries, _) = rest.as_chunks::<ENTRY_BYTES>();
        let entry = |[t0, t1, p0, p1, id @ ..]: &[u8; ENTRY_BYTES]| Entry {
            tag: u16::from_le_bytes([*t0, *t1]),
            permissions: u16::from_le_bytes([*p0, *p1]),
            id: u32::from_le_bytes(*id),
        };
        let acl = Self(entries.iter().map(entry).collect());
        match (acl.0.is_empty(), acl.is_complete()) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(acl)),
            (false, false) => Err(bad("it is not complete")),
        }
    }

    /// The bytes of the list.
    pub fn encode(&self) -> Vec<u8> {
        let entries = self.0.iter().flat_map(|entry| {
            let [t0, t1] = entry.tag.to_le_bytes();
            let [p0, p1] = entry.permissions.to_le_bytes();
            let [a, b, c, d] = entry.id.to_le_bytes();
            [t0, t1, p0, p1, a, b, c, d]
        });
        VERSION.to_le_bytes().into_iter().chain(entries).collect()
    }

    fn is_complete(&self) -> bool {
        let count = |tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let has_names = count(USER) + count(GROUP) > 0;
        self.0.is_sorted_by_key(|entry| entry.tag)
            && self
                .0
                .iter()
                .all(|entry| TAGS.contains(&entry.tag) && entry.permissions <= ALL)
            && [USER_OBJ, GROUP_OBJ, OTHER].map(count) == [1; 3]
            && (count(MASK) == 1 || count(MASK) == 0 && !has_names)
    }

    /// True when it says no more than a mode.
    pub fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The tags that stand for the digits of a mode, with the places of their bits. The digit of the group is the mask, if there is
    /// one.
    fn digits(&self) -> [(u16, u32); 3] {
        let has_mask = self.0.iter().any(|entry| entry.tag == MASK);
        let group = if has_mask { MASK } else { GROUP_OBJ };
        [(USER_OBJ, 6), (group, 3), (OTHER, 0)]
    }

    /// The permissions of the mode that goes with it: nine bits.
    pub fn permissions(&self) -> u32 {
        let digits = self.digits();
        let bits = self.0.iter().flat_map(|entry| {
            let digit = digits.iter().find(|(tag, _)| *tag == entry.tag);
            digit.map(|(_, shift)| u32::from(entry.permissions) << shift)
        });
        bits.sum()
    }

    /// The list with the permissions of a new mode.
    #[must_use]
    pub fn with_permissions(mut self, mode: u32) -> Self {
        let digits = self.digits();
        for entry in &mut self.0 {
            if let Some((_, shift)) = digits.iter().find(|(tag, _)| *tag == entry.tag) {
                entry.permissions = (mode >> shift) as u16 & ALL;
            }
        }
        self
    }
}

fn bad(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}

#[cfg(test)]
#[path = "acl_test.rs"]
mod acl_test;
