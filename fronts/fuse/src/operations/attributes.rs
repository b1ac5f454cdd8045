//! Operations on attributes.

use super::context::{Context, FULL_PATIENCE, REMOVAL_PATIENCE, done, kept};
use crate::message::{Answer, Caller, Changes, When};
use crate::translate::without_privilege;
use tonearm_fs::{ACL_ACCESS, ACL_DEFAULT, Fs, FsError, SetAttr, SetXattr};

/// Extended attributes that only root sees in a list.
const TRUSTED: &[u8] = b"trusted.";
/// Attributes that would change what the kernel allows. The kernel would not ask for them at each access, so they would be
/// kept and have no effect.
pub(crate) const WITHOUT_EFFECT: &[&[u8]] = &[b"security.capability"];

/// The list of access control that an attribute is.
fn acl(name: &[u8]) -> Option<&'static [u8]> {
    let lists = [ACL_ACCESS, ACL_DEFAULT].into_iter();
    lists.into_iter().find(|list| *list == name)
}

impl Context<'_> {
    pub async fn attr(&self, ino: u64) -> Result<Answer, FsError> {
        let fs = self.fs();
        Ok(Answer::Attr(fs.attr(ino).await?, kept(fs, ino, None)))
    }

    pub async fn set_attr(&self, ino: u64, changes: Changes) -> Result<Answer, FsError> {
        let fs = self.fs();
        if changes.size.is_some() {
            fs.check_not_busy(ino)?;
        }
        let set = without_lost_privilege(fs, self.by, ino, changes).await?;
        let attr = if set.size.is_some() {
            fs.set_attr(ino, set).await?
        } else {
            self.unless_full(FULL_PATIENCE, fs.set_attr(ino, set))
                .await?
        };
        let attr = self.shown(attr).await?;
        Ok(Answer::Attr(attr, kept(fs, ino, None)))
    }

    pub async fn set_xattr(
        &self,
        ino: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<Answer, FsError> {
        let (fs, by) = (self.fs(), self.by);
        if WITHOUT_EFFECT.contains(&name) {
            return Err(FsError::Unsupported("this attribute would have no effect"));
        }
        if let Some(list) = acl(name) {
            // Only members of the file's group keep the bit, and the kernel does not say in which groups the caller is.
            let keeps = by.is_root() || fs.attr(ino).await?.inode.gid == by.gid;
            let set = fs.set_acl(ino, list, Some(value), keeps);
            return done(self.unless_full(FULL_PATIENCE, set).await);
        }
        let set = fs.set_xattr(ino, name, value, how);
        done(self.unless_full(FULL_PATIENCE, set).await)
    }

    pub async fn remove_xattr(&self, ino: u64, name: &[u8]) -> Result<Answer, FsError> {
        let fs = self.fs();
        if let Some(list) = acl(name) {
            // A file without one has the list that its mode stands for.
            let removed = fs.set_acl(ino, list, None, true);
            return done(self.unless_full(REMOVAL_PATIENCE, removed).await);
        }
        let removed = fs.remove_xattr(ino, name);
        done(self.unless_full(REMOVAL_PATIENCE, removed).await)
    }

    pub async fn xattrs(&self, ino: u64) -> Result<Answer, FsError> {
        let mut names = self.fs().xattrs(ino).await?;
        names.retain(|name| self.by.is_root() || !name.starts_with(TRUSTED));
        let ended = names.into_iter().flat_map(|name| [name, vec![0]]);
        Ok(Answer::Bytes(ended.flatten().collect()))
    }
}

/// The changes of a request, with the mode that they leave: another owner takes the set-user-id bits of any file, and another
/// size those of files that root does not change. A request without any change is a chown(2) that keeps both owner and group.
async fn without_lost_privilege(
    fs: &Fs,
    by: Caller,
    ino: u64,
    changes: Changes,
) -> Result<SetAttr, FsError> {
    let Changes {
        mode,
        uid,
        gid,
        size,
        ..
    } = changes;
    let times = [
        changes.atime.is_some(),
        changes.mtime.is_some(),
        changes.ctime.is_some(),
    ];
    let is_empty = mode.is_none() && size.is_none() && times == [false; 3];
    let takes = uid.is_some() || gid.is_some() || is_empty || size.is_some() && !by.is_root();
    let mode = match mode {
        None if takes => {
            let mode = fs.attr(ino).await?.inode.mode;
            Some(without_privilege(mode)).filter(|left| *left != mode)
        }
        mode => mode,
    };
    let at = |when: When| match when {
        When::Now => fs.now(),
        When::At(time) => time,
    };
    Ok(SetAttr {
        mode,
        uid,
        gid,
        size,
        atime: changes.atime.map(at),
        mtime: changes.mtime.map(at),
        ctime: changes.ctime,
    })
}
