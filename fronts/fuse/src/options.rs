//! Mount options, as mount(8) and fstab write them.

use crate::error::MountError;
use rustix::mount::MountFlags;

/// The options that [`MountOptions::parse`] takes, for its error.
pub(crate) const KNOWN: &str = "ro, rw, allow_other, default_permissions, noatime, atime, relatime, nodiratime, diratime, suid, nosuid, \
     dev, nodev, exec, noexec, sync, async, direct_io, unit_time=SECONDS, fsname=NAME, and those that only fstab and systemd read";

/// Options that concern fstab, systemd or libfuse alone. `default_permissions` is always on.
const WITHOUT_EFFECT: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "default_permissions",
    "big_writes",
    "nonempty",
];

/// How long a unit may be open, unless an option says otherwise: freed space is not used again before it has ended.
const UNIT_TIME_S: u64 = 3600;

/// Options in a list for a remount that concern FUSE alone.
const OF_FUSE: &[&str] = &["remount", "user_id", "group_id", "max_read", "blksize"];

/// How the file system is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountOptions {
    /// No changes are taken.
    pub read_only: bool,
    /// Users other than the one who mounts may use it. The kernel checks their permissions.
    pub allow_other: bool,
    /// The name in the list of mounts; the store's path by default.
    pub name: Option<String>,
    /// Set-user-id programs take effect.
    pub suid: bool,
    /// Device nodes take effect.
    pub dev: bool,
    /// Reads and writes do not use the kernel's page cache, so that it splits no write.
    pub direct_io: bool,
    /// How long a unit of a program may be open, in seconds.
    pub unit_time_s: u64,
    /// Flags of mount(2) that were asked for, apart from the above.
    pub(crate) flags: MountFlags,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            allow_other: false,
            name: None,
            suid: false,
            dev: false,
            direct_io: false,
            unit_time_s: UNIT_TIME_S,
            flags: MountFlags::empty(),
        }
    }
}

impl MountOptions {
    /// Adds a list of options with commas between them. Of two that contradict each other the later one counts.
    ///
    /// # Errors
    /// When one is not known.
    pub fn parse(&mut self, list: &str) -> Result<(), MountError> {
        for option in list.split(',').filter(|option| !option.is_empty()) {
            self.take(option)?;
        }
        Ok(())
    }

    /// The options of a remount. mount(8) leaves out what is the default of the kernel: set-user-id programs and devices take
    /// effect unless the list says otherwise. What FUSE alone knows cannot be changed, and is passed over.
    pub(crate) fn of_remount(list: &str) -> Result<Self, MountError> {
        let mut options = Self {
            suid: true,
            dev: true,
            ..Self::default()
        };
        let known = list.split(',').filter(|option| {
            let name = option.split_once('=').map_or(*option, |(name, _)| name);
            !OF_FUSE.contains(&name)
        });
        options.parse(&known.collect::<Vec<_>>().join(","))?;
        Ok(options)
    }

    fn take(&mut self, option: &str) -> Result<(), MountError> {
        match option {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "allow_other" => self.allow_other = true,
            "suid" => self.suid = true,
            "nosuid" => self.suid = false,
            "dev" => self.dev = true,
            "nodev" => self.dev = false,
            "direct_io" => self.direct_io = true,
            "exec" => self.flags.remove(MountFlags::NOEXEC),
            "noexec" => self.flags.insert(MountFlags::NOEXEC),
            "sync" => self.flags.insert(MountFlags::SYNCHRONOUS),
            "async" => self.flags.remove(MountFlags::SYNCHRONOUS),
            "noatime" => self.flags.insert(MountFlags::NOATIME),
            "atime" => self.flags.remove(MountFlags::NOATIME),
            "relatime" => self.flags.insert(MountFlags::RELATIME),
            "nodiratime" => self.flags.insert(MountFlags::NODIRATIME),
            "diratime" => self.flags.remove(MountFlags::NODIRATIME),
            other => match other.split_once('=') {
                Some(("fsname", name)) => self.name = Some(name.to_string()),
                Some(("unit_time", time)) if time.parse().is_ok_and(|time: u64| time > 0) => {
                    self.unit_time_s = time.parse().unwrap_or(UNIT_TIME_S);
                }
                _ if WITHOUT_EFFECT.contains(&other) => {}
                _ if other.starts_with("x-") || other.starts_with("comment=") => {}
                _ => return Err(MountError::Option(other.to_string())),
            },
        }
        Ok(())
    }

    /// All flags of mount(2).
    pub(crate) fn flags(&self) -> MountFlags {
        let mut flags = self.flags;
        flags.set(MountFlags::RDONLY, self.read_only);
        flags.set(MountFlags::NOSUID, !self.suid);
        flags.set(MountFlags::NODEV, !self.dev);
        flags
    }

    /// The same for fusermount3, in words.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        const WORDS: &[(MountFlags, &str)] = &[
            (MountFlags::RDONLY, "ro"),
            (MountFlags::NOEXEC, "noexec"),
            (MountFlags::SYNCHRONOUS, "sync"),
            (MountFlags::NOATIME, "noatime"),
            (MountFlags::NODIRATIME, "nodiratime"),
        ];
        // fusermount3 sets nosuid and nodev itself, and lets only root clear them.
        let flags = self.flags();
        let asked = WORDS.iter().filter(|(flag, _)| flags.contains(*flag));
        let mut words: Vec<_> = asked.map(|(_, word)| *word).collect();
        words.push("default_permissions");
        if self.allow_other {
            words.push("allow_other");
        }
        words
    }
}
