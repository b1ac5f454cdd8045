//! The helper of mount(8): `mount -t fuse.tonearm STORE DIR -o OPTIONS` runs `/sbin/mount.fuse.tonearm STORE DIR -o OPTIONS`,
//! which is a link to this program. It starts `tonearm mount` and returns when the store is mounted. With the option `remount`
//! it changes the flags of the mount, and the server goes on.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use tonearm_terminal::report;

/// The names of the link.
const NAMES: [&str; 2] = ["mount.fuse.tonearm", "mount.tonearm"];
/// Options of `tonearm mount` that may be among the mount options, as in `max_delay=50ms`.
const LONG: [&str; 10] = [
    "ack",
    "archive",
    "checkpoint_every",
    "control",
    "map_cache",
    "max_delay",
    "member",
    "memory",
    "metrics",
    "write_cache",
];

/// Exit code of mount(8) for a failed mount.
const MOUNT_FAILED: u8 = 32;
/// Exit code of mount(8) for wrong usage.
const USAGE: u8 = 1;

/// Mounts, if the program was started by the helper's name.
pub fn mount_helper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let own = arguments.next()?;
    let name = Path::new(&own).file_name()?;
    if !NAMES.iter().any(|known| name == *known) {
        return None;
    }
    let code = match Asked::of(arguments) {
        Some(Asked { fake: true, .. }) => ExitCode::SUCCESS,
        Some(asked) if asked.is_remount() => asked.remount(),
        Some(asked) => asked.mount().unwrap_or_else(|error| {
            report::note(format_args!("tonearm: {error}"));
            ExitCode::from(MOUNT_FAILED)
        }),
        None => {
            report::note("usage: mount.fuse.tonearm STORE DIR [-o OPTIONS]");
            ExitCode::from(USAGE)
        }
    };
    Some(code)
}

/// What mount(8) passes on.
#[derive(Default, Debug, PartialEq, Eq)]
struct Asked {
    places: Vec<OsString>,
    options: Vec<String>,
    /// Nothing is to be mounted.
    fake: bool,
}

impl Asked {
    fn of(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut asked = Self::default();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("-o") => asked.options.push(arguments.next()?.into_string().ok()?),
                // The type, and the name space of the mount.
                Some("-t" | "-N") => drop(arguments.next()?),
                Some(flags) if flags.starts_with('-') && flags.len() > 1 => {
                    asked.fake |= flags.contains('f');
                }
                _ => asked.places.push(argument),
            }
        }
        (asked.places.len() == 2).then_some(asked)
    }

    fn is_remount(&self) -> bool {
        let mut options = self.options.iter().flat_map(|list| list.split(','));
        options.any(|option| option == "remount")
    }

    fn remount(&self) -> ExitCode {
        let place = Path::new(&self.places[1]);
        match tonearm_fuse::remount(place, &self.options.join(",")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report::note(format_args!("tonearm: {error}"));
                ExitCode::from(MOUNT_FAILED)
            }
        }
    }

    /// The arguments of `tonearm mount`.
    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec!["mount".into()];
        let mut kept = Vec::new();
        for option in self.options.iter().flat_map(|list| list.split(',')) {
            match option.split_once('=') {
                Some((name, value)) if LONG.contains(&name) => {
                    let name = name.replace('_', "-");
                    arguments.push(format!("--{name}={value}").into());
                }
                _ => kept.push(option),
            }
        }
        arguments.extend(["-o".into(), kept.join(",").into(), "--".into()]);
        arguments.extend(self.places.iter().cloned());
        arguments
    }

    fn mount(&self) -> std::io::Result<ExitCode> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg0("tonearm")
            .args(self.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Ctrl-C at the terminal of mount(8) is not for the server.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.is_empty() {
            child.wait()?;
            Ok(ExitCode::from(MOUNT_FAILED))
        } else {
            // The server goes on when this process has ended.
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
#[path = "mount_helper_test.rs"]
mod mount_helper_test;
