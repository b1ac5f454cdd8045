//! Recovery of the database equals a model of its transactions, for every rule that promises it.

use std::cell::RefCell;
use std::rc::Rc;
use tonearm_drive::Drive;
use tonearm_drive_file::DriveFile;
use tonearm_experiments::Random;
use tonearm_experiments::pagedb::cuts::{
    LOG_BYTES, PAGE_BYTES, devices, on_image, options_of, whole,
};
use tonearm_experiments::pagedb::database::{Database, DatabaseOptions};
use tonearm_experiments::pagedb::recovery::audit;
use tonearm_experiments::pagedb::{Commit, Cut, Rule, cut_power};
use tonearm_rt::Rt;
use tonearm_workload::Access;
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

const PAGES: u64 = 400;

fn options(rule: Rule) -> DatabaseOptions {
    DatabaseOptions {
        pool_pages: 60,
        ..options_of(rule, PAGES, PAGES)
    }
}

/// A world of one drive with this content.
fn world(image: DiskImage, rule: Rule, seed: u64) -> SimWorld {
    let drive = DriveFile::of_library("wd2500jd");
    let disk = SimDisk {
        image,
        timing: Box::new(Drive::new(&drive.spec, &Default::default())),
        write_cache: rule != Rule::Through,
        zeroing: Zeroing::Command,
    };
    let options = SimOptions {
        seed,
        ..SimOptions::default()
    };
    SimWorld::with_disks(options, vec![disk])
}

/// What a power cut leaves, and what the database had promised by then.
struct Left {
    image: DiskImage,
    durable: u64,
    answered: u64,
    history: Vec<(u64, u32)>,
}

/// Three terminals with transactions of up to six pages and up to 3 KB of log.
async fn work(rt: Rt, database: Rc<Database>, seed: u64, transactions: u64) {
    let all = (0..3).map(|terminal| {
        let database = database.clone();
        rt.spawn(async move {
            let mut random = Random::new(seed, terminal);
            for _ in 0..transactions {
                let count = 1 + random.below(6);
                let accesses = (0..count).map(|_| Access {
                    page: random.below(PAGES),
                    write: random.below(3) > 0,
                    at: None,
                });
                let accesses: Vec<Access> = accesses.collect();
                let log_bytes = random.below(3000);
                database.transact(&accesses, log_bytes).await;
            }
        })
    });
    for terminal in all.collect::<Vec<_>>() {
        terminal.await;
    }
}

/// Several lives, each of which ends by a power cut at a random I/O. Every recovery gives what the model gives.
fn lives(rule: Rule, commit: Commit, seed: u64) {
    let options = move |rule| DatabaseOptions {
        commit,
        ..options(rule)
    };
    let bytes = LOG_BYTES + Database::data_bytes(PAGE_BYTES, PAGES);
    let mut image = DiskImage::new(bytes);
    let mut history: Vec<(u64, u32)> = Vec::new();
    let mut random = Random::new(seed, 99);
    for life in 0..6 {
        let world = world(image, rule, seed + life);
        let rt = Rt::new(world.driver());
        let at = 200 + random.below(3000);
        let left: Rc<RefCell<Option<Left>>> = Rc::default();
        let (own, hooked, kept) = (rt.clone(), world.clone(), left.clone());
        let cut_seed = whole(random.number());
        let recovered = rt.block_on(async move {
            let devices = devices(&own, bytes);
            let database = match life {
                0 => Database::create(&own, devices, options(rule)).await,
                _ => Database::open(&own, devices, options(rule)).await.unwrap(),
            };
            let end = database.flush_lsn();
            let watched = database.clone();
            hooked.on_io(move |number, crash| {
                if number >= at && kept.borrow().is_none() {
                    *kept.borrow_mut() = Some(Left {
                        image: crash.images(cut_seed).remove(0),
                        durable: watched.durable_lsn(),
                        answered: watched.answered(),
                        history: watched.history(),
                    });
                }
            });
            work(own, database.clone(), seed + life, 400).await;
            hooked.clear_hook();
            assert!(database.counts().checkpoints > 2, "the log was reused");
            end
        });
        history.retain(|(lsn, _)| *lsn <= recovered);
        let left = left.take().unwrap();
        history.extend(left.history);
        image = left.image;
        // What the cut has left, recovered again, is the model's state.
        let again = SimWorld::new(SimOptions::default(), vec![image.clone()]);
        let rt = Rt::new(again.driver());
        let own = rt.clone();
        let end = rt.block_on(async move {
            let database = Database::open(&own, devices(&own, bytes), options(rule)).await;
            database.unwrap().flush_lsn()
        });
        let image = again.images().remove(0);
        assert_eq!(audit(&history, end, |page| on_image(&image, page)), 0);
        assert!(end >= left.durable, "what was durable is there");
        if rule != Rule::Enforced && commit == Commit::Written {
            assert!(end >= left.answered, "an answered transaction is durable");
        }
    }
}

#[test]
fn recovery_after_a_power_cut_gives_what_the_model_gives() {
    for rule in [Rule::Enforced, Rule::EachCommit, Rule::Through] {
        for seed in 1..6 {
            lives(rule, Commit::Written, seed);
        }
    }
}

/// A record of up to 3 KB spans several blocks.
#[test]
fn recovery_joins_records_that_span_blocks() {
    for bytes in [512, 1536, 4096] {
        for rule in [Rule::Enforced, Rule::Through] {
            for seed in 6..9 {
                lives(rule, Commit::Buffered(bytes), seed);
            }
        }
    }
}

#[test]
fn wal_rule_prevents_unrecoverable_databases() {
    let drive = DriveFile::of_library("wd2500jd");
    let kept = |cut: &Cut| matches!(cut, Cut::Recovered { .. });
    let unsafe_cuts = cut_power(&drive, Rule::Trusting, 1, 300, 60);
    let damaged = unsafe_cuts.cuts.iter().filter(|cut| !kept(cut)).count();
    assert!(damaged > 5, "{:?}", unsafe_cuts.cuts);
    let enforced = cut_power(&drive, Rule::Enforced, 1, 300, 60);
    assert!(enforced.cuts.iter().all(kept), "{:?}", enforced.cuts);
    assert!(enforced.checkpoints > 1, "the log is reused");
    assert_eq!(enforced.broken_promises, 0);
}
