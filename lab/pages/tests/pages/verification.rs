//! The simulator against a second one and against the formula, as HyLog 5.1 does: one user, one disk.

use crate::common::{Load, setup};
use tonearm_base::Nanos;
use tonearm_layout::separation::cost;
use tonearm_pages::{Band, Cleaning, Layout, Setup, Tiny};

const PAGES: u64 = 60_000;
const CAPACITY: u64 = 32;
/// Windows of the warm-up, in each of which a quarter of the pages is written. Before 20 of them the cost of WOLF under a
/// skewed load stays on a plateau: the segments of cold pages have not been cleaned yet.
const WARM: u32 = 40;

/// Write costs of the simulator and of the small one.
fn costs(layout: Layout, hot: u64, utilisation: f64) -> (f64, f64) {
    let load = Load {
        pages: PAGES,
        hot,
        writes: 100,
    };
    let setup = Setup {
        disks: 1,
        users: 1,
        page_bytes: 4096,
        chunk_bytes: 4096 * CAPACITY as u32,
        cleaning: Cleaning::CostAge,
        interval: Nanos::from_secs(1200),
        ..setup(layout, PAGES, utilisation)
    };
    let mut simulation = load.on(&setup, 5);
    let steady = simulation
        .steady(&Band {
            skip: WARM,
            width: 0.03,
            ..Band::new(PAGES, 1.0)
        })
        .expect("no trace");
    assert!(steady.is_steady, "{layout:?} {hot} {utilisation}");
    let cost = Tiny::like(&setup, &steady)
        .write_cost(load.requests(77))
        .expect("no trace");
    (steady.write_cost(0.0), cost)
}

#[test]
fn the_write_cost_is_that_of_a_second_simulator() {
    for layout in [Layout::Lfs, Layout::Wolf] {
        // The experiment hylog-validation has more of them.
        for (hot, utilisation) in [(10, 0.9), (90, 0.9)] {
            let (ours, tiny) = costs(layout, hot, utilisation);
            let off = (ours / tiny - 1.0).abs();
            assert!(
                off < 0.05,
                "{layout:?}, {hot} % to a tenth, {utilisation}: {ours} against {tiny}"
            );
        }
    }
}

/// The formula is of the emptiest segments, so the cleaner is greedy here. That some segments are kept free makes writes
/// dearer than the formula has it, and that some segments are by chance emptier than others makes them cheaper.
#[test]
fn the_write_cost_of_uniform_writes_is_that_of_the_formula() {
    let load = Load {
        pages: 200_000,
        hot: 10,
        writes: 100,
    };
    for utilisation in [0.6, 0.8, 0.9] {
        let setup = Setup {
            disks: 1,
            users: 1,
            chunk_bytes: 512 << 10,
            cleaning: Cleaning::Greedy,
            ..setup(Layout::Lfs, load.pages, utilisation)
        };
        let mut simulation = load.on(&setup, 5);
        let ours = simulation
            .steady(&Band::new(load.pages, 1.0))
            .expect("no trace");
        assert!(ours.is_steady);
        let formula = cost::cleaning(cost::cleaning_utilisation(utilisation));
        let ours = ours.write_cost(0.0);
        let off = (ours / formula - 1.0).abs();
        assert!(off < 0.05, "{utilisation}: {ours} against {formula}");
    }
}
