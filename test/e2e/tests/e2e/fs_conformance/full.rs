//! A full store: what fails has changed nothing, and after deletions everything works again.

use super::{bench, mounted, unmount_and_check};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use tonearm_tests::noise;

const MIB: usize = 1 << 20;

fn is_full<T>(result: std::io::Result<T>) -> bool {
    match result {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
            true
        }
    }
}

fn free_blocks(root: &Path) -> u64 {
    rustix::fs::statvfs(root).expect("a file system").f_bfree
}

/// Fills the store with large files, then with small ones. Returns how many there are.
fn fill(root: &Path, round: u64) -> u64 {
    let mut files = 0;
    for length in [MIB, 64 << 10, 4096, 1] {
        loop {
            let path = root.join(format!("fill-{round}-{files}"));
            let file = match File::create_new(&path) {
                Ok(file) => file,
                Err(error) => {
                    assert!(is_full::<()>(Err(error)));
                    break;
                }
            };
            files += 1;
            let content = noise(files, length);
            match file.write_at(&content, 0) {
                Ok(written) => assert_eq!(written, length, "a write of one request is whole"),
                Err(error) => {
                    assert!(is_full::<()>(Err(error)));
                    // Nothing was written.
                    let about = file.metadata().expect("attributes");
                    assert_eq!((about.len(), about.blocks()), (0, 0));
                    assert_eq!(fs::read(&path).expect("read"), b"");
                    break;
                }
            }
        }
    }
    files
}

#[test]
fn a_full_store_changes_nothing_and_works_again() {
    let Some(bench) = bench("96MiB", "16MiB") else {
        return;
    };
    let mount = mounted(&bench);
    let root = mount.root().to_path_buf();
    fs::create_dir(root.join("kept")).expect("a folder");
    let kept = root.join("kept/file");
    fs::write(&kept, noise(1, 100_000)).expect("written");
    let free = free_blocks(&root);
    let (mut writes, mut renames) = (0, 0);
    for round in 0..3 {
        let files = fill(&root, round);
        // Writes beyond the end, into holes and by truncation upwards of a block: all or nothing.
        let file = File::options()
            .read(true)
            .write(true)
            .open(&kept)
            .expect("there");
        while !is_full(file.write_at(&noise(2, 8192), 1 << 30)) {
            file.set_len(100_000).expect("cut");
            assert!(
                !is_full(
                    File::create_new(root.join(format!("more-{round}-{writes}")))
                        .and_then(|new| new.write_at(&[1; 4096], 0))
                ) || writes > 0
            );
            writes += 1;
            assert!(writes < 10_000, "it is never full");
        }
        assert_eq!(file.metadata().expect("attributes").len(), 100_000);
        assert_eq!(fs::read(&kept).expect("read"), noise(1, 100_000));
        // What has its blocks can be overwritten.
        file.write_all_at(&noise(1, 100_000), 0)
            .expect("overwritten in place");
        // Names until there is no space for a page of the tree, then renames to longer names.
        let mut made = 0;
        while !is_full(File::create_new(root.join(format!("kept/{round}-{made}")))) {
            made += 1;
            assert!(made < 1_000_000, "it is never full");
        }
        let mut failed = 0;
        for number in 0..made {
            let from = root.join(format!("kept/{round}-{number}"));
            let to = root.join(format!("kept/{round}-{number}-{}", "r".repeat(200)));
            if is_full(fs::rename(&from, &to)) {
                failed += 1;
                assert!(
                    from.exists() && !to.exists(),
                    "a rename that failed has changed names"
                );
            } else {
                assert!(!from.exists() && to.exists());
                renames += 1;
            }
        }
        println!("full: round {round}: {files} files, {made} names, {failed} renames failed");
        assert!(made == 0 || failed > 0, "renames to long names need space");
        // Deletions go on, and then everything does.
        for entry in fs::read_dir(&root)
            .expect("a folder")
            .chain(fs::read_dir(root.join("kept")).expect("a folder"))
        {
            let path = entry.expect("an entry").path();
            if path.is_file() && path != kept {
                fs::remove_file(&path)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
        assert_eq!(fs::read(&kept).expect("read"), noise(1, 100_000));
        fs::write(root.join("again"), noise(3, 4 * MIB)).expect("written again");
        fs::remove_file(root.join("again")).expect("removed");
    }
    // Files are freed after their unlink. Pages of the tree stay with it.
    let mut now = free_blocks(&root);
    for _ in 0..200 {
        if now + 600 >= free {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        now = free_blocks(&root);
    }
    println!(
        "full: {free} blocks were free before, {now} after; {writes} writes, {renames} renames"
    );
    assert!(now + 600 >= free, "{free} blocks were free, now {now}");
    assert_eq!(
        File::open(root.join("gone"))
            .map_err(|error| error.raw_os_error())
            .err(),
        Some(Some(Errno::NOENT.raw_os_error()))
    );
    unmount_and_check(&bench, mount);
}
