//! Operations of a file system.

use super::model::{File, Node, Tree, content};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use std::collections::BTreeMap;
use tonearm_fs::{
    ACL_ACCESS, ACL_DEFAULT, Allocate, Fs, FsError, NewInode, ROOT_INO, Rename, SetAttr, SetXattr,
};

/// Most bytes of a file.
const SIZE_MAX: u64 = 160 << 10;

/// One operation.
#[derive(Clone, Debug)]
pub enum Step {
    /// Makes a regular file, a directory or a FIFO.
    Make(u64, Vec<u8>, u32),
    /// Makes a symbolic link.
    MakeLink(u64, Vec<u8>, Vec<u8>),
    /// Makes a file without a name, with a handle.
    MakeUnnamed(u64),
    /// Gives a file another name.
    Link(u64, u64, Vec<u8>),
    /// Takes a name away.
    Unlink(u64, Vec<u8>),
    /// Removes a directory.
    RemoveDir(u64, Vec<u8>),
    /// Renames.
    Rename((u64, Vec<u8>), (u64, Vec<u8>), Rename),
    /// Writes bytes.
    Write(u64, u64, Vec<u8>),
    /// Sets a size.
    Resize(u64, u64),
    /// Takes or gives back space.
    Allocate(u64, u64, u64, Allocate),
    /// Copies bytes.
    Copy((u64, u64), (u64, u64), u64),
    /// Sets permissions and owner.
    Own(u64, u32, u32),
    /// Sets an extended attribute.
    SetXattr(u64, Vec<u8>, Vec<u8>, SetXattr),
    /// Sets so many extended attributes, one after the other: more than are removed in one unit with their file.
    SetXattrs(u64, u8),
    /// Removes an extended attribute.
    RemoveXattr(u64, Vec<u8>),
    /// Sets a list of access control with these permissions, the default list or that of the file; or removes it.
    SetAcl(u64, bool, Option<u32>),
    /// Opens a handle, or closes it.
    Handle(u64),
    /// Reads a file that has a handle, and compares.
    Read(u64),
    /// Makes a file's changes durable, or with `None` all.
    Sync(Option<u64>),
}

/// What an operation gives: nothing, or the name of its error.
pub type Made = Result<(), String>;

const NAMES: [&[u8]; 7] = [b"a", b"b", b"c", b"dir", b"e e", b"\xff\xfe", &[b'x'; 255]];

impl Step {
    /// A random operation.
    pub fn choose(random: &mut ChaCha8Rng, tree: &Tree) -> Self {
        let mut below = |most: u64| random.next_u64() % most;
        let inos: Vec<u64> = tree.files.keys().copied().collect();
        let dirs: Vec<u64> = inos
            .iter()
            .copied()
            .filter(|ino| tree.is_directory(*ino))
            .collect();
        let dir = dirs[below(dirs.len() as u64) as usize];
        let other = dirs[below(dirs.len() as u64) as usize];
        let ino = inos[below(inos.len() as u64) as usize];
        let second = inos[below(inos.len() as u64) as usize];
        let name = NAMES[below(7) as usize].to_vec();
        let new = NAMES[below(7) as usize].to_vec();
        let at = match below(3) {
            0 => below(SIZE_MAX),
            1 => below(SIZE_MAX / 4096) * 4096,
            _ => below(8000),
        };
        let len = match below(6) {
            0 => 1 + below(SIZE_MAX / 2),
            1 => 4096 * (1 + below(8)),
            _ => 1 + below(6000),
        };
        match below(64) {
            0..8 => Self::Make(dir, name, 0o100_644),
            8..11 => Self::Make(dir, name, 0o040_755),
            11 => Self::Make(dir, name, 0o010_600),
            12 => Self::MakeLink(dir, name, vec![b't'; 1 + below(1200) as usize]),
            13 => Self::MakeUnnamed(dir),
            14..17 => Self::Link(ino, dir, name),
            17..22 => Self::Unlink(dir, name),
            22..24 => Self::RemoveDir(dir, name),
            24..31 => {
                let how = [Rename::Replace, Rename::NoReplace, Rename::Exchange];
                let how = how[(below(5) as usize).saturating_sub(2)];
                Self::Rename((dir, name), (other, new), how)
            }
            31..43 => {
                let len = len.min(SIZE_MAX - at);
                let mut data = vec![0; len as usize];
                random.fill_bytes(&mut data);
                Self::Write(ino, at, data)
            }
            43..47 => Self::Resize(ino, at),
            47..50 => {
                let hows = [
                    Allocate::Grow,
                    Allocate::KeepSize,
                    Allocate::Punch,
                    Allocate::Zero,
                    Allocate::ZeroKeepSize,
                ];
                Self::Allocate(ino, at, len.min(SIZE_MAX - at), hows[below(5) as usize])
            }
            50 => Self::Copy((ino, below(9000)), (second, below(9000)), below(20_000)),
            51 => Self::Own(ino, below(0o10_000) as u32, below(1000) as u32),
            52..54 => {
                let hows = [SetXattr::Any, SetXattr::Create, SetXattr::Replace];
                let (byte, length) = (below(256), below(700));
                let how = hows[below(3) as usize];
                if name == NAMES[4] {
                    return Self::SetXattrs(ino, 12 + byte as u8 % 16);
                }
                if name == NAMES[3] {
                    // Each fourth one is removed.
                    let permissions = (byte >= 64).then_some((byte as u32 * 3) & 0o777);
                    return Self::SetAcl(ino, length % 2 == 0, permissions);
                }
                Self::SetXattr(ino, name, vec![byte as u8; length as usize], how)
            }
            54 => Self::RemoveXattr(ino, name),
            55..58 => Self::Handle(ino),
            58..60 => Self::Read(ino),
            60 => Self::Sync(None),
            _ => Self::Sync(Some(ino)),
        }
    }

    /// The files that the operation has changed, where `after` is the model after it.
    pub fn files(&self, after: &Tree) -> Vec<u64> {
        match self {
            Self::Make(dir, ..) | Self::MakeLink(dir, ..) => vec![*dir, after.next - 1],
            Self::MakeUnnamed(_) => vec![after.next - 1],
            Self::Link(ino, dir, _) => vec![*ino, *dir],
            Self::Unlink(dir, _) | Self::RemoveDir(dir, _) => vec![*dir],
            Self::Rename(from, to, _) => vec![from.0, to.0],
            Self::Write(ino, ..)
            | Self::Resize(ino, _)
            | Self::Allocate(ino, ..)
            | Self::Copy(_, (ino, _), _)
            | Self::Own(ino, ..)
            | Self::SetXattr(ino, ..)
            | Self::SetXattrs(ino, _)
            | Self::RemoveXattr(ino, _)
            | Self::SetAcl(ino, ..) => vec![*ino],
            Self::Handle(_) | Self::Read(_) | Self::Sync(_) => Vec::new(),
        }
    }

    /// Carries it out, where `after` is the model after it.
    pub async fn make(&self, fs: &Fs, after: &Tree) -> Made {
        match self {
            Self::Handle(ino) => {
                match after.open.contains(ino) {
                    true => fs.open_handle(*ino).expect("no session has it open"),
                    false => fs.close_handle(*ino),
                }
                Ok(())
            }
            Self::Read(ino) => {
                if let Some(Node::File(data)) = after.files.get(ino).map(|file| &file.node) {
                    let found = content(fs, *ino, data.len() as u64).await;
                    assert!(found.is_ok_and(|found| found == *data), "content of {ino}");
                }
                Ok(())
            }
            _ => {
                let made = self.run(fs).await?;
                if let Some(ino) = made {
                    assert_eq!(ino, after.next - 1, "the number of a new file");
                }
                Ok(())
            }
        }
    }

    /// Carries it out. Gives the number of a new file.
    ///
    /// # Errors
    /// The name of the file system's error.
    pub async fn run(&self, fs: &Fs) -> Result<Option<u64>, String> {
        let new = |mode: u32| NewInode {
            mode,
            uid: 7,
            gid: 8,
            rdev: 0,
        };
        let made = match self {
            Self::Make(dir, name, mode) => fs.make(*dir, name, new(*mode)).await.map(Some),
            Self::MakeLink(dir, name, target) => {
                fs.make_link(*dir, name, target, new(0)).await.map(Some)
            }
            Self::MakeUnnamed(dir) => fs.make_unnamed(*dir, new(0o100_600)).await.map(Some),
            Self::Link(ino, dir, name) => fs.link(*ino, *dir, name).await.map(|_| None),
            Self::Unlink(dir, name) => fs.unlink(*dir, name).await.map(|()| None),
            Self::RemoveDir(dir, name) => fs.remove_dir(*dir, name).await.map(|()| None),
            Self::Rename(from, to, how) => {
                let renamed = fs.rename((from.0, &from.1), (to.0, &to.1), *how).await;
                renamed.map(|()| None)
            }
            Self::Write(ino, at, data) => fs.write(*ino, *at, data).await.map(|_| None),
            Self::Resize(ino, size) => fs.set_attr(*ino, sized(*size)).await.map(|_| None),
            Self::Allocate(ino, at, len, how) => {
                fs.allocate(*ino, *at, *len, *how).await.map(|()| None)
            }
            Self::Copy(from, to, len) => fs.copy(fs, *from, *to, *len).await.map(|_| None),
            Self::Own(ino, mode, uid) => {
                let set = SetAttr {
                    mode: Some(*mode),
                    uid: Some(*uid),
                    gid: Some(uid + 1),
                    ..SetAttr::default()
                };
                fs.set_attr(*ino, set).await.map(|_| None)
            }
            Self::SetXattr(ino, name, value, how) => {
                fs.set_xattr(*ino, name, value, *how).await.map(|()| None)
            }
            Self::SetXattrs(ino, count) => {
                let mut made = Ok(());
                for number in 0..*count {
                    let (name, value) = many(number);
                    let set = fs.set_xattr(*ino, &name, &value, SetXattr::Any).await;
                    made = made.and(set);
                }
                made.map(|()| None)
            }
            Self::RemoveXattr(ino, name) => fs.remove_xattr(*ino, name).await.map(|()| None),
            Self::SetAcl(ino, is_default, permissions) => {
                let value = permissions.map(acl);
                let set = fs.set_acl(*ino, acl_name(*is_default), value.as_deref(), true);
                set.await.map(|()| None)
            }
            Self::Handle(_) | Self::Read(_) => Ok(None),
            Self::Sync(ino) => fs.sync(*ino).await.map(|()| None),
        };
        match made {
            Ok(attr) => Ok(attr.map(|attr| attr.ino)),
            Err(error) => Err(name_of(&error)),
        }
    }

    /// The states between that of before and that of after it, for an operation of several units.
    pub fn between(&self, tree: &Tree) -> Vec<String> {
        let after = |step: Self| {
            let mut tree = tree.clone();
            let _ = step.apply(&mut tree);
            tree.listing()
        };
        match self {
            Self::Allocate(ino, at, len, Allocate::Zero) => {
                vec![after(Self::Allocate(*ino, *at, *len, Allocate::Punch))]
            }
            Self::SetXattrs(ino, count) => (1..*count)
                .map(|some| after(Self::SetXattrs(*ino, some)))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Changes the model. An error changes nothing.
    pub fn apply(&self, tree: &mut Tree) -> Made {
        let mut changed = tree.clone();
        self.try_apply(&mut changed).map_err(str::to_string)?;
        *tree = changed;
        Ok(())
    }

    fn try_apply(&self, tree: &mut Tree) -> Result<(), &'static str> {
        match self {
            Self::Make(dir, name, mode) => {
                let node = match mode >> 12 {
                    0o04 => Node::Directory(BTreeMap::new(), *dir),
                    0o10 => Node::File(Vec::new()),
                    _ => Node::Fifo,
                };
                add(tree, *dir, name, node, mode & 0o7777)
            }
            Self::MakeLink(dir, name, target) => {
                add(tree, *dir, name, Node::Link(target.clone()), 0o777)
            }
            Self::MakeUnnamed(dir) => {
                open_names(tree, *dir)?;
                let ino = tree.next();
                tree.next = ino + 1;
                tree.files
                    .insert(ino, file(Node::File(Vec::new()), 0o600, 0, tree, *dir));
                tree.open.insert(ino);
                Ok(())
            }
            Self::Link(ino, dir, name) => {
                open_names(tree, *dir)?;
                if tree.is_directory(*ino) {
                    return Err("NotPermitted");
                }
                let names = tree.names(*dir)?;
                if names.contains_key(name) {
                    return Err("Exists");
                }
                names.insert(name.clone(), *ino);
                tree.files.get_mut(ino).ok_or("NotFound")?.names += 1;
                Ok(())
            }
            Self::Unlink(dir, name) => take(tree, *dir, name, false),
            Self::RemoveDir(dir, name) => take(tree, *dir, name, true),
            Self::Rename(from, to, how) => rename(tree, from, to, *how),
            Self::Write(ino, at, data) => {
                let content = regular(tree, *ino)?;
                let end = *at as usize + data.len();
                content.resize(content.len().max(end), 0);
                content[*at as usize..end].copy_from_slice(data);
                Ok(())
            }
            Self::Resize(ino, size) => {
                regular(tree, *ino)?.resize(*size as usize, 0);
                Ok(())
            }
            Self::Allocate(ino, at, len, how) => {
                let content = regular(tree, *ino)?;
                let end = (at + len) as usize;
                if matches!(
                    how,
                    Allocate::Punch | Allocate::Zero | Allocate::ZeroKeepSize
                ) {
                    let stop = end.min(content.len());
                    let start = (*at as usize).min(stop);
                    content[start..stop].fill(0);
                }
                if matches!(how, Allocate::Grow | Allocate::Zero) {
                    content.resize(content.len().max(end), 0);
                }
                Ok(())
            }
            Self::Copy(from, to, len) => {
                if from.0 == to.0 && from.1.abs_diff(to.1) < *len {
                    return Err("Invalid");
                }
                if *len == 0 {
                    return Ok(());
                }
                let data = regular(tree, from.0)?.clone();
                let start = (from.1 as usize).min(data.len());
                let stop = start.saturating_add(*len as usize).min(data.len());
                if start == stop {
                    return Ok(());
                }
                Self::Write(to.0, to.1, data[start..stop].to_vec()).try_apply(tree)
            }
            Self::Own(ino, mode, uid) => {
                let file = tree.files.get_mut(ino).ok_or("NotFound")?;
                file.owner = (*mode, *uid, uid + 1);
                if let Some(list) = file.xattrs.get_mut(ACL_ACCESS) {
                    *list = acl(mode & 0o777);
                }
                Ok(())
            }
            Self::SetAcl(ino, is_default, permissions) => {
                let file = tree.files.get_mut(ino).ok_or("NotFound")?;
                let is_directory = matches!(file.node, Node::Directory(..));
                let is_link = matches!(file.node, Node::Link(_));
                if is_link || *is_default && !is_directory && permissions.is_some() {
                    return Err("Invalid");
                }
                let name = acl_name(*is_default);
                match permissions {
                    Some(permissions) => file.xattrs.insert(name.to_vec(), acl(*permissions)),
                    None => file.xattrs.remove(name),
                };
                if let Some(permissions) = permissions.filter(|_| !is_default) {
                    file.owner.0 = file.owner.0 & !0o777 | permissions;
                }
                Ok(())
            }
            Self::SetXattr(ino, name, value, how) => {
                if name.len() + value.len() > 996 {
                    return Err("AttributeTooLarge");
                }
                let file = tree.files.get_mut(ino).ok_or("NotFound")?;
                match (file.xattrs.contains_key(name), how) {
                    (true, SetXattr::Create) => return Err("Exists"),
                    (false, SetXattr::Replace) => return Err("NoAttribute"),
                    _ => {}
                }
                file.xattrs.insert(name.clone(), value.clone());
                Ok(())
            }
            Self::SetXattrs(ino, count) => {
                let file = tree.files.get_mut(ino).ok_or("NotFound")?;
                file.xattrs.extend((0..*count).map(many));
                Ok(())
            }
            Self::RemoveXattr(ino, name) => {
                let file = tree.files.get_mut(ino).ok_or("NotFound")?;
                file.xattrs.remove(name).map(drop).ok_or("NoAttribute")
            }
            Self::Handle(ino) => {
                if !tree.open.remove(ino) {
                    tree.open.insert(*ino);
                }
                tree.reap(*ino);
                Ok(())
            }
            Self::Read(_) | Self::Sync(_) => Ok(()),
        }
    }
}

fn file(node: Node, mode: u32, names: u64, tree: &Tree, dir: u64) -> File {
    let parent = &tree.files[&dir];
    let inherits = parent.owner.0 & 0o2000 != 0;
    let is_directory = matches!(node, Node::Directory(..));
    let gid = if inherits { parent.owner.2 } else { 8 };
    let mode = if inherits && is_directory {
        mode | 0o2000
    } else {
        mode
    };
    File {
        node,
        owner: (mode, 7, gid),
        names,
        xattrs: BTreeMap::new(),
    }
}

/// The names of a directory that has one itself.
fn open_names(tree: &mut Tree, dir: u64) -> Result<(), &'static str> {
    tree.names(dir)?;
    match tree.files[&dir].names {
        0 => Err("NotFound"),
        _ => Ok(()),
    }
}

fn add(tree: &mut Tree, dir: u64, name: &[u8], node: Node, mode: u32) -> Result<(), &'static str> {
    open_names(tree, dir)?;
    let ino = tree.next();
    let mut made = file(node, mode, 1, tree, dir);
    let names = tree.names(dir)?;
    if names.contains_key(name) {
        return Err("Exists");
    }
    names.insert(name.to_vec(), ino);
    inherit_acl(tree, dir, &mut made);
    tree.files.insert(ino, made);
    tree.next = ino + 1;
    Ok(())
}

/// One of many extended attributes.
fn many(number: u8) -> (Vec<u8>, Vec<u8>) {
    (vec![b'm', number + 1], vec![number; 300])
}

fn acl_name(is_default: bool) -> &'static [u8] {
    if is_default { ACL_DEFAULT } else { ACL_ACCESS }
}

/// A list that names user 7, with the permissions of a mode.
pub fn acl(permissions: u32) -> Vec<u8> {
    let digit = |shift: u32| (permissions >> shift) as u16 & 7;
    let entries = [
        (1, digit(6), !0),
        (2, 7, 7),
        (4, 5, !0),
        (16, digit(3), !0),
        (32, digit(0), !0),
    ];
    let mut bytes = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        bytes.extend(u16::to_le_bytes(tag));
        bytes.extend(u16::to_le_bytes(permissions));
        bytes.extend(u32::to_le_bytes(id));
    }
    bytes
}

/// A new file in a directory with a default list.
fn inherit_acl(tree: &Tree, dir: u64, made: &mut File) {
    let default = tree.files[&dir].xattrs.get(ACL_DEFAULT);
    let Some(default) = default.filter(|_| !matches!(made.node, Node::Link(_))) else {
        return;
    };
    let has = |permissions: &u32| acl(*permissions) == *default;
    let limit = (0..0o1000).find(has).expect("a list of this model");
    made.owner.0 &= limit | !0o777;
    made.xattrs
        .insert(ACL_ACCESS.to_vec(), acl(made.owner.0 & 0o777));
    if matches!(made.node, Node::Directory(..)) {
        made.xattrs.insert(ACL_DEFAULT.to_vec(), default.clone());
    }
}

fn take(tree: &mut Tree, dir: u64, name: &[u8], directory: bool) -> Result<(), &'static str> {
    let ino = *tree.names(dir)?.get(name).ok_or("NotFound")?;
    match (directory, &tree.files[&ino].node) {
        (true, Node::Directory(names, _)) if !names.is_empty() => return Err("NotEmpty"),
        (true, Node::Directory(..)) => {}
        (true, _) => return Err("NotDirectory"),
        (false, Node::Directory(..)) => return Err("IsDirectory"),
        (false, _) => {}
    }
    tree.names(dir)?.remove(name);
    tree.files.get_mut(&ino).ok_or("NotFound")?.names -= 1;
    tree.reap(ino);
    Ok(())
}

/// True when `ino` is `dir` or above it.
fn is_above(tree: &Tree, ino: u64, mut dir: u64) -> bool {
    loop {
        if dir == ino {
            return true;
        }
        match &tree.files[&dir].node {
            Node::Directory(_, parent) if *parent != dir && dir != ROOT_INO => dir = *parent,
            _ => return false,
        }
    }
}

fn rename(
    tree: &mut Tree,
    from: &(u64, Vec<u8>),
    to: &(u64, Vec<u8>),
    how: Rename,
) -> Result<(), &'static str> {
    if how == Rename::Exchange {
        let one = *tree.names(from.0)?.get(&from.1).ok_or("NotFound")?;
        let other = *tree.names(to.0)?.get(&to.1).ok_or("NotFound")?;
        let moves = |ino: u64| tree.is_directory(ino) && from.0 != to.0;
        if one != other
            && (moves(one) && is_above(tree, one, to.0)
                || moves(other) && is_above(tree, other, from.0))
        {
            return Err("Invalid");
        }
        tree.names(from.0)?.insert(from.1.clone(), other);
        tree.names(to.0)?.insert(to.1.clone(), one);
        for (ino, dir) in [(one, to.0), (other, from.0)] {
            if one != other
                && let Some(Node::Directory(_, parent)) =
                    tree.files.get_mut(&ino).map(|file| &mut file.node)
            {
                *parent = dir;
            }
        }
        return Ok(());
    }
    tree.names(from.0)?;
    open_names(tree, to.0)?;
    let ino = *tree.names(from.0)?.get(&from.1).ok_or("NotFound")?;
    let old = tree.names(to.0)?.get(&to.1).copied();
    if tree.is_directory(ino) && is_above(tree, ino, to.0) {
        return Err("Invalid");
    }
    if let Some(old) = old {
        if how == Rename::NoReplace {
            return Err("Exists");
        }
        if old == ino {
            return Ok(());
        }
        match (tree.is_directory(ino), &tree.files[&old].node) {
            (true, Node::Directory(names, _)) if !names.is_empty() => return Err("NotEmpty"),
            (true, Node::Directory(..)) => {}
            (true, _) => return Err("NotDirectory"),
            (false, Node::Directory(..)) => return Err("IsDirectory"),
            (false, _) => {}
        }
        tree.files.get_mut(&old).ok_or("NotFound")?.names -= 1;
    }
    tree.names(from.0)?.remove(&from.1);
    tree.names(to.0)?.insert(to.1.clone(), ino);
    if let Some(Node::Directory(_, parent)) = tree.files.get_mut(&ino).map(|file| &mut file.node) {
        *parent = to.0;
    }
    if let Some(old) = old {
        tree.reap(old);
    }
    Ok(())
}

fn regular(tree: &mut Tree, ino: u64) -> Result<&mut Vec<u8>, &'static str> {
    match tree.files.get_mut(&ino).map(|file| &mut file.node) {
        Some(Node::File(data)) => Ok(data),
        Some(Node::Directory(..)) => Err("IsDirectory"),
        Some(_) => Err("Invalid"),
        None => Err("NotFound"),
    }
}

fn name_of(error: &FsError) -> String {
    let name = match error {
        FsError::Disk(error) => return error.to_string(),
        FsError::Damaged(text) => return text.clone(),
        error => format!("{error:?}"),
    };
    name.split('(').next().unwrap_or_default().to_string()
}

/// Sets the size.
pub fn sized(bytes: u64) -> SetAttr {
    SetAttr {
        size: Some(bytes),
        ..SetAttr::default()
    }
}
