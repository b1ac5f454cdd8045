//! A home that is full, as one with damaged segments may be: whoever brings data is told, nothing is lost, and what is
//! discarded makes room.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, bytes, live, short_of_segments, with};
use base::BufPool;
use std::rc::Rc;
use tonearm_disk::{Disk, DiskError, ErrorKind, OpenOptions, Volume};

const B: u64 = BLOCK as u64;
const BLOCKS: u64 = 4000;

fn options() -> OpenOptions {
    OpenOptions {
        // Less than the log: memory is used up first.
        memory_bytes: 512 << 10,
        ..OpenOptions::default()
    }
}

fn content(block: u64, version: u64) -> Vec<u8> {
    let mut content = vec![version as u8; BLOCK];
    content[..8].copy_from_slice(&block.to_le_bytes());
    content
}

async fn write(volume: &Volume, block: u64, version: u64) -> Result<(), DiskError> {
    let data = content(block, version);
    let permit = volume.reserve(B).await?;
    let mut buf = BufPool::new(1 << 20).copy_of(&data);
    buf.attach(Rc::new(permit));
    volume.write(block * B, buf.share(), false).await
}

async fn check(volume: &Volume, versions: &[u64]) {
    for (block, version) in (0..).zip(versions) {
        let expected = match version {
            0 => vec![0; BLOCK],
            version => content(block, *version),
        };
        let found = bytes(volume.read(block * B, B).await.unwrap());
        assert!(found == expected, "block {block}");
    }
}

/// Writes until the store refuses; what was refused may be written again.
async fn fill(volume: &Volume, versions: &mut Vec<u64>) {
    let refused = loop {
        let block = versions.len() as u64;
        assert!(block < BLOCKS, "the home is too small for all");
        match write(volume, block, 1).await {
            Ok(()) => versions.push(1),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert!(
        refused.to_string().contains("the store is full"),
        "{refused}"
    );
}

#[test]
fn a_full_home_refuses_data_and_loses_nothing_and_goes_on_after_a_trim() {
    let image = short_of_segments(BLOCKS * B);
    let work = async |disk: Disk| {
        disk.resize_volume("main", BLOCKS * B).await.unwrap();
        let main = disk.volume("main").unwrap();
        let mut versions = Vec::new();
        fill(&main, &mut versions).await;
        assert!(disk.stats().waiting_for_space);
        // Reads and flushes go on, and whoever asks again is told again.
        check(&main, &versions).await;
        main.flush().await.unwrap();
        let again = write(&main, versions.len() as u64, 1).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::NoSpace, "{again}");
        check(&main, &versions).await;
        (versions, false)
    };
    // The power fails while the store is full: all that was taken is in the log.
    let (versions, image) = live(&image, 3, options(), work);
    let larger = OpenOptions {
        memory_bytes: 640 << 10,
        ..options()
    };
    let work = async move |disk: Disk| {
        let main = disk.volume("main").unwrap();
        let mut versions = versions;
        check(&main, &versions).await;
        fill(&main, &mut versions).await;
        main.trim(0, 1000 * B, false).await.unwrap();
        versions[..1000].fill(0);
        disk.engine().drain().await.unwrap();
        check(&main, &versions).await;
        // Others get the room, and what is there can be overwritten for ever.
        for round in 2..8 {
            for block in (1000..versions.len() as u64).step_by(3) {
                write(&main, block, round).await.unwrap();
                versions[block as usize] = round;
            }
        }
        check(&main, &versions).await;
        versions
    };
    let (versions, image) = with(&image, larger, work);
    with(&image, options(), async move |disk| {
        check(&disk.volume("main").unwrap(), &versions).await;
    });
}
