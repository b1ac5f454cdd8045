//! A file system of a guest on a volume, under a load that checks itself, while the guest loses its power, the server is killed,
//! or both. Servers and guests are started by the commands of docs/virtual-machines.md.

use std::path::Path;
use std::time::Duration;
use tonearm_tests::guest::{Image, Machine};
use tonearm_tests::{Bench, Server, kill_rounds, recipe};

/// How the guest reaches the volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    VhostUser,
    /// QEMU's NBD client, which connects again.
    Nbd,
}

/// What loses its memory in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// The server is killed and the guest goes on; some steps later the guest loses its power.
    One,
    /// The guest loses its power right after its server was killed.
    Both,
}

/// Makes the file system in the first round, else checks it: what the load left, and all structures. Then the load runs.
const SCRIPT: &str = "
fs=$(option fs)
must modprobe virtio_blk
[ $fs = ext4 ] || must modprobe $fs
if [ \"$(option done)\" = 0 ]; then
    make_fs $fs /dev/vda
    must mount -t $fs /dev/vda /mnt
    must mkdir /mnt/load
    must sync
else
    must mount -t $fs /dev/vda /mnt
    must guest-load /mnt/load $(option done) 0
    must umount /mnt
    check_fs $fs /dev/vda
    must mount -t $fs /dev/vda /mnt
fi
guest-load /mnt/load $(option done) $(option steps) >/dev/ttyS1 2>/run/out || failed \"load: $(cat /run/out)\"
must umount /mnt
";

/// A volume and its server.
struct Served {
    /// Dropped before the folder, so that it can print what it said.
    server: Option<Server>,
    bench: Bench,
    way: Way,
}

impl Served {
    fn new(way: Way) -> Self {
        let bench = Bench::new();
        bench.ok(&[
            "create",
            "disk.tn",
            "--size",
            "384MiB",
            "--log-size",
            "8MiB",
        ]);
        let mut served = Self {
            bench,
            way,
            server: None,
        };
        served.start();
        served
    }

    fn start(&mut self) {
        let words = self.way.recipe("tonearm serve");
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let server = Server::start_with(&self.bench, &words, "serving ");
        self.server = Some(server.unwrap_or_else(|ran| panic!("no server: {ran:?}")));
    }

    fn kill(&mut self) {
        self.server.take().expect("it runs").kill9();
    }

    fn boot(&self, image: &Image, command_line: &str) -> Machine {
        let words = self.way.recipe("qemu-system-x86_64");
        let options: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        image.boot(&self.bench, &options, command_line)
    }
}

impl Way {
    /// The command of docs/virtual-machines.md that begins with `start`.
    fn recipe(self, start: &str) -> Vec<String> {
        let part = match (self, start.starts_with("qemu")) {
            (Self::VhostUser, false) => "--vhost-user",
            (Self::VhostUser, true) => "vhost-user-blk-pci",
            // What was acknowledged to QEMU's client must be done when the server has died.
            (Self::Nbd, false) => "--ack write",
            (Self::Nbd, true) => "driver=nbd",
        };
        recipe::command(
            "docs/virtual-machines.md",
            "The disk of a machine",
            start,
            part,
        )
    }
}

/// The last step of which the guest has said that it is durable.
fn last_done(lines: &[String], before: u64) -> u64 {
    let last = lines
        .iter()
        .rev()
        .find_map(|line| line.strip_prefix("done "));
    last.map_or(before, |number| number.parse().expect("a number"))
}

/// Waits for `steps` further steps, and returns the number of the last one.
fn steps(guest: &Machine, steps: u64) -> u64 {
    let mut done = String::new();
    for _ in 0..steps {
        done = guest.wait_for("done ");
    }
    done.parse().expect("a number")
}

fn survives(way: Way, fs: &str) {
    let mut served = Served::new(way);
    let load = Path::new(env!("CARGO_BIN_EXE_guest-load"));
    let image = Image::new(&served.bench, SCRIPT, load);
    let boot = |served: &Served, done: u64, steps: u64| {
        served.boot(&image, &format!("fs={fs} done={done} steps={steps}"))
    };
    let mut done = 0;
    for round in 0..2 * kill_rounds(1) {
        let cut = if round % 2 == 0 { Cut::One } else { Cut::Both };
        let guest = boot(&served, done, 1_000_000);
        done = steps(&guest, 20 + 7 * round % 23);
        // The moments vary within a step.
        std::thread::sleep(Duration::from_millis(round * 37 % 250));
        let lines = match cut {
            Cut::One => {
                served.kill();
                std::thread::sleep(Duration::from_millis(round * 301 % 2000));
                served.start();
                done = steps(&guest, 20);
                std::thread::sleep(Duration::from_millis(round * 61 % 250));
                guest.cut_power()
            }
            Cut::Both => {
                served.kill();
                let lines = guest.cut_power();
                served.start();
                lines
            }
        };
        done = last_done(&lines, done);
        println!("round {round}: {cut:?} after step {done}");
    }
    let guest = boot(&served, done, 16);
    guest.ended();
    let server = served.server.take().expect("it runs");
    server.end_ok();
    served.bench.ok(&["check", "disk.tn"]);
}

#[test]
fn ext4_by_vhost_user_survives() {
    survives(Way::VhostUser, "ext4");
}

#[test]
fn xfs_by_vhost_user_survives() {
    survives(Way::VhostUser, "xfs");
}

#[test]
fn btrfs_by_vhost_user_survives() {
    survives(Way::VhostUser, "btrfs");
}

#[test]
fn ext4_by_nbd_survives() {
    survives(Way::Nbd, "ext4");
}

#[test]
fn xfs_by_nbd_survives() {
    survives(Way::Nbd, "xfs");
}

#[test]
fn btrfs_by_nbd_survives() {
    survives(Way::Nbd, "btrfs");
}
