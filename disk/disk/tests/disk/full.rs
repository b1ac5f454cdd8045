//! A home that is full, as one with damaged segments may be: writers of data get an error, nothing is lost, and
//! discarded data makes room.

#![allow(clippy::unwrap_used)]

use crate::common::{
    BLOCK, Open, bytes, create, in_world, live, on_disk, planned, short_of_segments, with,
};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_disk::{Disk, DiskError, ErrorKind, HomeParams, OpenOptions, Volume};
use tonearm_rt::{Op, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

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
fn full_data_area_loses_nothing_and_continues_after_a_trim() {
    let image = short_of_segments(BLOCKS * B);
    let work = async |disk: Disk| {
        disk.resize_volume("main", BLOCKS * B).await.unwrap();
        let main = disk.volume("main").unwrap();
        let mut versions = Vec::new();
        fill(&main, &mut versions).await;
        assert!(disk.stats().waiting_for_space);
        // Reads and flushes go on, and each further write gets the error again.
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

/// Many writers overwrite their blocks until all are refused; what was refused is not there.
async fn overfill(rt: &Rt, disk: &Disk, versions: &mut [u64]) {
    let tasks: Vec<_> = (0..100u64)
        .map(|number| {
            let main = disk.volume("main").unwrap();
            let own = (number..BLOCKS).step_by(100);
            let mut own: Vec<_> = own.map(|block| (block, versions[block as usize])).collect();
            rt.spawn(async move {
                for index in (0..own.len()).cycle() {
                    let (block, version) = own[index];
                    match write(&main, block, version + 1).await {
                        Ok(()) => own[index].1 += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                            break;
                        }
                    }
                }
                own
            })
        })
        .collect();
    for task in tasks {
        for (block, version) in task.await {
            versions[block as usize] = version;
        }
    }
}

/// Many writers use the log up before the home is known to be full; what makes room still gets log space.
#[test]
fn trim_is_accepted_with_full_log_and_data_area() {
    let image = short_of_segments(BLOCKS * B);
    let options = || OpenOptions {
        memory_bytes: 64 << 20,
        ..OpenOptions::default()
    };
    let work = async move |open: Open| {
        let Open { rt, disk, .. } = open;
        disk.resize_volume("main", BLOCKS * B).await.unwrap();
        let mut versions = vec![0; BLOCKS as usize];
        overfill(&rt, &disk, &mut versions).await;
        let stats = disk.stats();
        assert!(stats.log_full_waits > 0, "the log was used up");
        // Blocks without space at home stay in the log. This is not an error.
        disk.close().await.unwrap();
        versions
    };
    let (versions, image) = in_world(&image, options(), work);
    let work = async move |open: Open| {
        let Open { rt, disk, .. } = open;
        assert!(!disk.recovery().clean, "the log has something");
        let (main, mut versions) = (disk.volume("main").unwrap(), versions);
        check(&main, &versions).await;
        overfill(&rt, &disk, &mut versions).await;
        main.trim(0, 1000 * B, false).await.unwrap();
        versions[..1000].fill(0);
        disk.engine().drain().await.unwrap();
        check(&main, &versions).await;
        disk.close().await.unwrap();
        versions
    };
    let (versions, image) = in_world(&image, options(), work);
    in_world(&image, options(), async move |open: Open| {
        assert!(open.disk.recovery().clean);
        check(&open.disk.volume("main").unwrap(), &versions).await;
    });
}

/// A file system that is full must never stop the log: its space is there from the start.
#[test]
fn create_allocates_log_space_unless_written_before() {
    for log_written in [false, true] {
        let plan = planned(8 << 20, 2 << 20, HomeParams::Overwrite);
        let log = plan.superblock.log_range(0);
        let log_bytes = log.end - log.start;
        let image = DiskImage::new(plan.member_bytes[0]);
        let world = SimWorld::new(SimOptions::default(), vec![image]);
        let zeroed = Rc::new(Cell::new(0));
        let seen = zeroed.clone();
        world.set_fault(move |request| {
            if request.op == Op::Zero && log.contains(&request.offset) {
                seen.set(seen.get() + request.len);
            }
            None
        });
        create(&world, plan, log_written);
        assert_eq!(zeroed.get(), if log_written { 0 } else { log_bytes });
    }
}

/// Two volumes that grow by turns have as many pieces as a volume may have before the store is full. The errors say which it is.
#[test]
fn space_in_too_many_pieces_is_not_called_a_full_store() {
    on_disk(async |disk| {
        for name in ["a", "b"] {
            disk.create_volume(name, B, [3; 16], 1).await.unwrap();
        }
        let mut size = B;
        let error = loop {
            size += B;
            assert!(disk.free_bytes() > size, "{size} bytes");
            if let Err(error) = disk.resize_volume("a", size).await {
                break error;
            }
            disk.resize_volume("b", size).await.unwrap();
        };
        assert!(matches!(error, DiskError::Fragmented), "{error}");
        let full = disk.resize_volume("a", 1 << 30).await.unwrap_err();
        assert!(matches!(full, DiskError::StoreFull { .. }), "{full}");
        // The advice of the error.
        disk.delete_volume("b").await.unwrap();
        disk.resize_volume("a", size).await.unwrap();
    });
}
