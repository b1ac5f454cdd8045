//! `kill -9` of the server of a mount under load. What was synced is there after the next mount, and nothing is torn.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::{Bench, TreeMount, noise, skipped};

/// Number of kills.
const ROUNDS: u64 = 12;
/// Programs that write.
const WRITERS: u64 = 4;
/// Files that a writer renames over one another.
const NAMES: u64 = 8;

/// The content of version `version` of a writer's files.
fn content(writer: u64, version: u64) -> Vec<u8> {
    let length = 1000 + (version * 7919 % 30_000) as usize;
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend(noise(writer << 32 | version, length));
    bytes
}

/// Writes versions until the server is gone: a new file, synced, and renamed over an older version. `synced` is the last one
/// whose name was synced, too.
fn write_until_cut(folder: &Path, writer: u64, first: u64, synced: &AtomicU64) {
    let step = |version: u64| -> std::io::Result<()> {
        let new = folder.join("new");
        let mut file = File::create(&new)?;
        file.write_all(&content(writer, version))?;
        file.sync_all()?;
        fs::rename(&new, folder.join(format!("v{}", version % NAMES)))?;
        File::open(folder)?.sync_all()
    };
    for version in first.. {
        if step(version).is_err() {
            return;
        }
        synced.store(version, Ordering::Release);
    }
}

/// Checks a writer's files and returns its last version.
fn verify(folder: &Path, writer: u64, synced: u64) -> u64 {
    let mut last = 0;
    for name in 0..NAMES {
        let Ok(bytes) = fs::read(folder.join(format!("v{name}"))) else {
            assert!(synced < NAMES, "writer {writer}: v{name} is lost");
            continue;
        };
        let number = bytes.first_chunk().expect("8 bytes");
        let version = u64::from_le_bytes(*number);
        assert_eq!(version % NAMES, name, "writer {writer}");
        assert!(
            bytes == content(writer, version),
            "writer {writer}: v{name} is torn"
        );
        // The newest synced version of each name, or a later one.
        let oldest = synced.saturating_sub((synced + NAMES - name) % NAMES);
        assert!(
            version >= oldest,
            "writer {writer}: v{name} is {version}, synced was {oldest}"
        );
        last = last.max(version);
    }
    last
}

#[test]
fn synced_data_survives_kills_of_the_server() {
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "16MiB", "--no-volume"]);
    let folder = |writer| bench.path("mnt").join(format!("w{writer}"));
    let mut mount = TreeMount::new(&bench);
    for writer in 0..WRITERS {
        fs::create_dir(folder(writer)).expect("a folder");
    }
    let synced: [AtomicU64; WRITERS as usize] = Default::default();
    let mut next = [1; WRITERS as usize];
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (folder, first) = (folder(writer), next[writer as usize]);
                let synced = &synced[writer as usize];
                scope.spawn(move || write_until_cut(&folder, writer, first, synced));
            }
            // The delays vary, so that the kills do not coincide with periodic work.
            std::thread::sleep(Duration::from_millis(150 + round * 37 % 200));
            mount.kill9();
        });
        mount = TreeMount::new(&bench);
        for writer in 0..WRITERS {
            let synced = synced[writer as usize].load(Ordering::Acquire);
            let last = verify(&folder(writer), writer, synced);
            assert!(last >= synced, "writer {writer}: {last} of {synced}");
            next[writer as usize] = last + 1;
        }
    }
    let total: u64 = synced
        .iter()
        .map(|synced| synced.load(Ordering::Acquire))
        .sum();
    println!("{total} versions were synced in {ROUNDS} rounds");
    assert!(
        total > ROUNDS * WRITERS,
        "{total} versions are too few for a test"
    );
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}
