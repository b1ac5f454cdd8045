//! Swap space on a device that this server makes. To free memory the kernel would write to the device, and wait for the server, which
//! may need memory for that. The kernel asks nobody before it uses a device as swap space, so the server looks, and says so.

use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use tonearm_terminal::report;

/// Reports swap space on one of `devices`, now and whenever it comes.
pub fn watch(devices: Vec<PathBuf>) {
    let mut known = Vec::new();
    at_each_change("/proc/swaps", "swaps", move |list| {
        let mut text = String::new();
        list.rewind()?;
        list.read_to_string(&mut text)?;
        let now = swaps_on(&text, &devices);
        for device in now.iter().filter(|device| !known.contains(*device)) {
            report::note(format_args!(
                "{0} is in use as swap space: this machine can stop for ever when it runs out of memory, because the device is \
                 served on it; end that: swapoff {0}",
                device.display()
            ));
        }
        known = now;
        Ok(())
    });
}

/// Calls `look` with a file of the kernel on a thread with this name, now and after each change, until it fails.
pub(super) fn at_each_change(
    path: &str,
    name: &str,
    mut look: impl FnMut(&mut File) -> io::Result<()> + Send + 'static,
) {
    // Without the file or a thread nothing is looked at.
    let Ok(mut file) = File::open(path) else {
        return;
    };
    let thread = std::thread::Builder::new().name(name.into());
    let _ = thread.spawn(move || {
        while look(&mut file).is_ok() {
            // The kernel reports a change of this file as an error of the descriptor.
            let mut changed = [PollFd::new(&file, PollFlags::PRI)];
            if poll(&mut changed, None).is_err() {
                return;
            }
        }
    });
}

/// Those of `devices` that a text of /proc/swaps names.
fn swaps_on(text: &str, devices: &[PathBuf]) -> Vec<PathBuf> {
    let named = text.lines().skip(1);
    let named = named.filter_map(|line| Some(Path::new(line.split_whitespace().next()?)));
    let is_ours = |name: &Path| {
        devices
            .iter()
            .any(|device| name.starts_with(device) || is_part(name, device))
    };
    named
        .filter(|name| is_ours(name))
        .map(Path::to_path_buf)
        .collect()
}

/// True for a partition: /dev/nbd0p1.
fn is_part(name: &Path, device: &Path) -> bool {
    let (name, device) = (name.to_string_lossy(), device.to_string_lossy());
    let number = name
        .strip_prefix(&*device)
        .and_then(|rest| rest.strip_prefix('p'));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_on_own_devices_are_found() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/nbd0                               partition\t8\t0\t-2\n\
                    /dev/nbd1p2 partition 8 0 -3\n/dev/nbd10 partition 8 0 -4\n/dev/sda2 partition 8 0 -5\n";
        let devices = ["/dev/nbd0", "/dev/nbd1"].map(PathBuf::from);
        let found = swaps_on(text, &devices);
        assert_eq!(found, ["/dev/nbd0", "/dev/nbd1p2"].map(PathBuf::from));
    }
}
