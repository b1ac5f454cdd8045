//! What the command and the server check and open before a new file or device takes the place of an array's missing
//! member.

use anyhow::bail;
use std::path::Path;
use tonearm_device::raid::{ArrayStatus, MemberState};
use tonearm_store::recorded_path;
use tonearm_uring::{Create, Member, MemberError, MemberOptions, open_member};

/// The place that a new member takes.
#[derive(Debug)]
pub struct Vacancy {
    /// Index of the member.
    pub index: usize,
    /// Path of the member that is replaced.
    pub old: String,
    /// The path of the new member as the store records it.
    pub recorded: String,
    /// Bytes that it must have.
    pub bytes: u64,
    /// It does not exist yet.
    is_new: bool,
}

impl Vacancy {
    /// The place for `new` in the array of the store at `store`.
    ///
    /// # Errors
    /// When all members are in use, the array is lost, or `new` is in use by the store.
    pub fn of(array: &ArrayStatus, store: &Path, new: &Path) -> anyhow::Result<Self> {
        if let Some(lost) = &array.lost {
            bail!("the {} array is LOST: {lost}", array.level.name());
        }
        let mut members = array.members.iter();
        let Some(index) = members.position(|member| member.state != MemberState::InUse) else {
            bail!("all members of the array are in use; nothing is to be replaced");
        };
        if let Some(user) = user_of(new, store, array) {
            bail!(
                "{} is {user}, in use; name another file or device",
                new.display()
            );
        }
        Ok(Self {
            index,
            old: array.members[index].name.clone(),
            recorded: recorded_path(store, new)?,
            bytes: array.member_bytes,
            is_new: new.symlink_metadata().is_err(),
        })
    }

    /// Makes or empties the file `new`, or opens the block device. With `force` existing content is overwritten.
    ///
    /// # Errors
    /// When it exists and `force` is not given, is too small, or cannot be used.
    pub fn open(&self, new: &Path, force: bool, direct: bool) -> Result<Member, MemberError> {
        let create = Create {
            size_bytes: self.bytes,
            written: 0..0,
            force,
            progress: None,
        };
        let options = MemberOptions {
            create: Some(create),
            direct,
            ..MemberOptions::default()
        };
        open_member(new, options)
    }

    /// Removes the file `new` if it was made for this.
    pub fn undo(&self, new: &Path) {
        if self.is_new {
            // A file that is left is no member of the array, and can be overwritten with --force.
            let _ = std::fs::remove_file(new);
        }
    }
}

/// The error of a store without an array.
pub fn no_array(store: &Path) -> String {
    format!(
        "{} has no array: it was made without --redundancy; `tonearm info` shows its members",
        store.display()
    )
}

/// What of the store `new` is, if it is in use by it.
fn user_of(new: &Path, primary: &Path, array: &ArrayStatus) -> Option<String> {
    let new = new.canonicalize().ok()?;
    let is_new = |path: &Path| path.canonicalize().is_ok_and(|path| path == new);
    if is_new(primary) {
        return Some("the primary member of the store".into());
    }
    let mut members = array.members.iter().enumerate();
    members.find_map(|(index, member)| {
        let is_used = member.state != MemberState::Missing && is_new(Path::new(&member.name));
        is_used.then(|| format!("member {index} of the array"))
    })
}
