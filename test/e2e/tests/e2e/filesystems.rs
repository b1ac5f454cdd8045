//! File systems on a volume. nbdfuse makes the volume a file and the loop driver makes it a block device. The file
//! systems' own checkers verify it, also after a restart of the server.

use std::path::Path;
use tonearm_tests::mount::{Fuse, Loop, Mount, possible};
use tonearm_tests::{Bench, Server, noise, skipped};

/// Creates a tree of small and large files, sparse files, links and deep folders.
fn tree(root: &Path) {
    for folder in 0..12u64 {
        let place = root.join(format!("a{}/b{folder}/c", folder % 3));
        std::fs::create_dir_all(&place).expect("folders");
        for file in 0..20 {
            let length = (file * file * 700 + folder * 13) as usize;
            let bytes = noise(folder << 8 | file, length);
            std::fs::write(place.join(format!("f{file}")), bytes).expect("a file");
        }
        std::os::unix::fs::symlink("f1", place.join("link")).expect("a link");
    }
    std::fs::write(root.join("large"), noise(99, 20 << 20)).expect("a file");
    let sparse = std::fs::File::create(root.join("sparse")).expect("a file");
    sparse.set_len(1 << 30).expect("long");
}

struct Disk {
    // The fields are dropped in this order.
    device: Loop,
    _fuse: Fuse,
    server: Server,
}

impl Disk {
    fn new(bench: &Bench, sector_bytes: u32) -> Self {
        let server = bench.serve_store();
        let fuse = Fuse::new(bench, "fuse", &server.uri);
        let device = Loop::new(bench, &fuse.file(), sector_bytes);
        Self {
            device,
            _fuse: fuse,
            server,
        }
    }

    /// Detaches the device from the server, and returns the server.
    fn detach(self) -> Server {
        let Self {
            device,
            _fuse: fuse,
            server,
        } = self;
        drop(device);
        drop(fuse);
        server
    }
}

fn lives(make: &[&str], check: &[&str], sector_bytes: u32) {
    if let Err(why) = possible() {
        return skipped("file systems over nbdfuse and loop", &why);
    }
    let bench = Bench::with_store("512MiB");
    std::fs::create_dir(bench.path("tree")).expect("a folder");
    tree(&bench.path("tree"));
    let place = bench.path("mnt");
    let run = |words: &[&str], device: &str| {
        bench.tool(words[0], &[&words[1..], &[device]].concat());
    };
    let compare = |device: &str| {
        let mount = Mount::new(&bench, device, "mnt");
        bench.tool(
            "diff",
            &["-r", "--no-dereference", "-x", "lost+found", "tree", "mnt"],
        );
        drop(mount);
    };

    let disk = Disk::new(&bench, sector_bytes);
    run(make, &disk.device.device);
    let mount = Mount::new(&bench, &disk.device.device, "mnt");
    bench.tool("cp", &["-a", "--sparse=auto", "tree/.", "mnt/"]);
    rustix::fs::syncfs(std::fs::File::open(&place).expect("a folder")).expect("synced");
    drop(mount);
    run(check, &disk.device.device);
    compare(&disk.device.device);
    disk.detach().end_ok();

    let disk = Disk::new(&bench, sector_bytes);
    run(check, &disk.device.device);
    // The server is killed under a file system whose data were synced.
    let mount = Mount::new(&bench, &disk.device.device, "mnt");
    for folder in [&place, &bench.path("tree")] {
        std::fs::write(folder.join("late"), noise(7, 3 << 20)).expect("a file");
        std::fs::remove_dir_all(folder.join("a1")).expect("removed");
    }
    rustix::fs::syncfs(std::fs::File::open(&place).expect("a folder")).expect("synced");
    drop(mount);
    disk.detach().kill9();

    let disk = Disk::new(&bench, sector_bytes);
    run(check, &disk.device.device);
    compare(&disk.device.device);
    disk.detach().end_ok();
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn ext4_is_whole_after_unmounting_restarting_and_killing() {
    lives(
        &["mkfs.ext4", "-q", "-F", "-b", "4096"],
        &["e2fsck", "-f", "-n"],
        4096,
    );
}

#[test]
fn ext4_with_small_sectors_and_blocks_is_whole() {
    lives(
        &["mkfs.ext4", "-q", "-F", "-b", "1024"],
        &["e2fsck", "-f", "-n"],
        512,
    );
}

#[test]
fn xfs_is_whole_after_unmounting_restarting_and_killing() {
    lives(&["mkfs.xfs", "-q", "-f"], &["xfs_repair", "-n"], 512);
}
