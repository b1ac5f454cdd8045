//! What each layout does to the disks.

use crate::common::{Load, setup};
use tonearm_base::Nanos;
use tonearm_layout::separation::Estimate;
use tonearm_pages::{
    Band, Cleaning, Counts, Layout, Redundancy, Setup, SetupError, Simulation, Steady, Work,
};

const PAGES: u64 = 40_000;
const MIXED: Load = Load {
    pages: PAGES,
    hot: 90,
    writes: 60,
};

fn counts(setup: &Setup, load: Load, requests: u64) -> Counts {
    let mut simulation = load.on(setup, 3);
    assert!(simulation.run(requests).expect("no trace"));
    simulation.counts()
}

fn steady(setup: &Setup, load: Load) -> Steady {
    let mut simulation = load.on(setup, 3);
    simulation
        .steady(&Band {
            width: 0.05,
            ..Band::new(load.pages, load.writes as f64 / 100.0)
        })
        .expect("no trace")
}

const ALL: [Layout; 6] = [
    Layout::Overwrite,
    Layout::Lfs,
    Layout::Wolf,
    Layout::Hylog(Estimate::SameWrites),
    Layout::Hylog(Estimate::LaterWrites),
    Layout::Sepbit,
];

#[test]
fn the_same_seed_gives_the_same_figures() {
    for layout in ALL {
        let setup = Setup {
            interval: Nanos::from_secs(20),
            ..setup(layout, PAGES, 0.9)
        };
        let first = counts(&setup, MIXED, 100_000);
        assert_eq!(first, counts(&setup, MIXED, 100_000), "{layout:?}");
        let other = Setup { seed: 2, ..setup };
        assert_ne!(first.nanos, counts(&other, MIXED, 100_000).nanos);
    }
}

#[test]
fn requests_are_counted_once_and_every_write_goes_somewhere() {
    for layout in ALL {
        let setup = Setup {
            interval: Nanos::from_secs(20),
            ..setup(layout, PAGES, 0.9)
        };
        let counts = counts(&setup, MIXED, 100_000);
        assert_eq!(counts.requests, 100_000);
        let begun = counts.reads + counts.writes;
        assert!((100_000..=100_020).contains(&begun), "{layout:?} {begun}");
        let went = counts.absorbed + counts.hot_writes + counts.cold_writes;
        assert_eq!(went, counts.writes, "{layout:?}");
        let busy = counts.idle(4);
        assert!((0.0..1.0).contains(&busy), "{layout:?} idle {busy}");
    }
}

#[test]
fn overwrite_writes_pages_once_and_a_log_reads_to_clean() {
    let overwrite = counts(&setup(Layout::Overwrite, PAGES, 0.9), MIXED, 50_000);
    let work = |counts: &Counts, work: Work| counts.ios[work as usize];
    assert_eq!(overwrite.appended + overwrite.clean_reads, 0);
    assert!(work(&overwrite, Work::PageWrite).abs_diff(overwrite.writes) <= 20);
    let log = counts(&setup(Layout::Lfs, PAGES, 0.9), MIXED, 200_000);
    assert_eq!(work(&log, Work::PageWrite), 0);
    assert!(log.clean_reads > 100 && log.clean_writes < log.clean_reads);
    assert!(work(&log, Work::Append).abs_diff(4 * log.appended) <= 4);
}

#[test]
fn hylog_overwrites_cold_pages_where_cleaning_is_dear() {
    let of = |layout| {
        let setup = Setup {
            interval: Nanos::from_secs(20),
            ..setup(layout, PAGES, 0.97)
        };
        steady(&setup, MIXED)
    };
    let (hylog, lfs) = (of(Layout::Hylog(Estimate::LaterWrites)), of(Layout::Lfs));
    let decision = hylog.decision;
    assert!((0.02..0.6).contains(&decision.hot_share), "{decision:?}");
    assert!(hylog.counts.cold_writes > 0 && hylog.counts.hot_writes > hylog.counts.cold_writes);
    // The log cleans its last free segments by plugging, whose writes go to all disks, so it is not far behind.
    for other in [lfs, of(Layout::Overwrite)] {
        let (ours, theirs) = (hylog.throughput(), other.throughput());
        assert!(ours > 1.04 * theirs, "{ours} against {theirs}");
    }
}

#[test]
fn sorted_hylog_appends_two_segments_at_a_time() {
    let of = |sorts_hot| {
        let setup = Setup {
            sorts_hot,
            ..setup(Layout::Hylog(Estimate::LaterWrites), PAGES, 0.9)
        };
        counts(&setup, MIXED, 20_000).appended
    };
    assert_eq!(of(true) % 2, 0);
    assert!(of(true).abs_diff(of(false)) <= 2);
}

#[test]
fn cooled_pages_stay_in_place_only_if_asked() {
    let cooled = |cools_in_place| {
        let setup = Setup {
            cools_in_place,
            interval: Nanos::from_secs(20),
            ..setup(Layout::Hylog(Estimate::LaterWrites), PAGES, 0.9)
        };
        let counts = steady(&setup, MIXED).counts;
        (counts.cooled > 0, counts.cold_writes > 0)
    };
    assert_eq!(cooled(false), (true, true));
    assert_eq!(cooled(true), (false, true));
}

#[test]
fn copies_of_the_cleaner_count_as_writes_only_if_asked() {
    let load = Load { hot: 10, ..MIXED };
    let written = |counts_copies| {
        let setup = Setup {
            counts_copies,
            cleaning: Cleaning::CostAge,
            interval: Nanos::from_secs(20),
            ..setup(Layout::Hylog(Estimate::SameWrites), PAGES, 0.9)
        };
        let steady = steady(&setup, load);
        (steady.decision.hot_share, steady.counts.clean_writes)
    };
    let (plain, copied) = (written(false), written(true));
    assert!(plain.1 > 0 && copied.1 > 0);
    assert!(copied.0 > plain.0, "{plain:?} {copied:?}");
}

/// With many writes they wait for the cleaner anyway.
#[test]
fn readers_wait_for_a_cleaner_that_blocks() {
    let load = Load {
        writes: 20,
        ..MIXED
    };
    let throughput = |cleaner_blocks| {
        let setup = Setup {
            cleaner_blocks,
            cleaning: Cleaning::CostAge,
            ..setup(Layout::Lfs, PAGES, 0.95)
        };
        steady(&setup, load).throughput()
    };
    let (shared, alone) = (throughput(false), throughput(true));
    assert!(alone < 0.97 * shared, "{alone} against {shared}");
}

#[test]
fn scan_of_overwritten_pages_is_sequential_and_of_a_log_is_not() {
    let ios = |layout| {
        let mut simulation = MIXED.on(&setup(layout, PAGES, 0.9), 3);
        assert!(simulation.run(100_000).expect("no trace"));
        let (nanos, ios) = simulation.scan(0, PAGES, 64);
        assert!(nanos > 0);
        ios
    };
    // A chunk has 16 pages, so 64 of them are an I/O on each of the four disks.
    assert_eq!(ios(Layout::Overwrite), PAGES / 16);
    assert!(ios(Layout::Lfs) > PAGES / 8);
}

#[test]
fn raid5_write_takes_four_ios_and_a_segment_one_chunk() {
    let raid5 = |layout| Setup {
        redundancy: Redundancy::Raid5,
        disks: 5,
        ..setup(layout, PAGES, 0.9)
    };
    let overwrite = counts(&raid5(Layout::Overwrite), MIXED, 50_000);
    let ios = overwrite.ios[Work::PageWrite as usize];
    assert!(ios.abs_diff(4 * overwrite.writes) <= 80, "{ios}");
    let log = counts(&raid5(Layout::Lfs), MIXED, 200_000);
    assert!(log.ios[Work::Append as usize].abs_diff(5 * log.appended) <= 5);
    let read = log.ios[Work::CleanRead as usize];
    let segments = log.clean_reads + log.plug_reads;
    assert!(read.abs_diff(4 * segments) <= 4, "{read}");
}

#[test]
fn each_way_of_cleaning_makes_space() {
    let load = Load {
        writes: 100,
        ..MIXED
    };
    for cleaning in [
        Cleaning::Adaptive,
        Cleaning::CostAge,
        Cleaning::Greedy,
        Cleaning::Plugging,
    ] {
        let setup = Setup {
            cleaning,
            ..setup(Layout::Lfs, PAGES, 0.9)
        };
        let counts = counts(&setup, load, 200_000);
        let [clean, plug, ..] = counts.passes;
        match cleaning {
            Cleaning::Adaptive => assert!(clean + plug > 0),
            Cleaning::CostAge | Cleaning::Greedy => assert!(clean > 0 && plug == 0),
            Cleaning::Plugging => assert!(plug > 0 && clean == 0 && counts.plugged > 0),
        }
    }
}

#[test]
fn setups_that_cannot_work_are_refused() {
    let good = setup(Layout::Lfs, PAGES, 0.9);
    let error = |setup: Setup| Simulation::new(&setup, MIXED.requests(1)).err();
    let raid5 = Setup {
        redundancy: Redundancy::Raid5,
        disks: 2,
        ..good.clone()
    };
    assert!(matches!(error(raid5), Some(SetupError::Disks { .. })));
    let page_bytes = 5000;
    let sizes = Setup {
        page_bytes,
        ..good.clone()
    };
    assert!(matches!(error(sizes), Some(SetupError::Sizes { .. })));
    let users = Setup {
        users: 0,
        ..good.clone()
    };
    assert_eq!(error(users), Some(SetupError::Nothing));
    let full = Setup {
        pages: 100_000_000,
        ..good.clone()
    };
    assert!(matches!(error(full), Some(SetupError::Full { .. })));
    let spare = Setup {
        utilisation: 0.999,
        ..good
    };
    assert!(matches!(error(spare), Some(SetupError::Spare { .. })));
}
