//! When a state is steady.

use crate::common::{Load, setup};
use tonearm_base::Nanos;
use tonearm_layout::separation::Estimate;
use tonearm_pages::{Band, Cleaning, Layout, Setup, Simulation};

#[test]
fn the_measurement_begins_after_the_data_have_spread() {
    let load = Load {
        pages: 40_000,
        hot: 10,
        writes: 100,
    };
    let band = Band::new(load.pages, 1.0);
    let setup = Setup {
        cleaning: Cleaning::Greedy,
        ..setup(Layout::Lfs, load.pages, 0.8)
    };
    let mut simulation = load.on(&setup, 3);
    let steady = simulation.steady(&band).expect("no trace");
    assert!(steady.is_steady);
    assert!(steady.warm.is_some_and(|warm| warm >= 4));
    // The first window finds free segments; its cost is not that of the steady state.
    let first = steady.windows[0].write_ms;
    let last = steady.windows[steady.windows.len() - 1].write_ms;
    assert!(first < 0.6 * last, "{first} against {last}");
    let measured: u64 = steady.windows[steady.windows.len() - 4..]
        .iter()
        .map(|window| window.counts.requests)
        .sum();
    assert_eq!(measured, steady.counts.requests);
}

#[test]
fn short_stream_returns_an_unsteady_result() {
    let load = Load {
        pages: 40_000,
        hot: 10,
        writes: 100,
    };
    let setup = setup(Layout::Lfs, load.pages, 0.8);
    let mut requests = load.requests(3);
    requests.left = 25_000;
    let mut simulation = Simulation::new(&setup, requests).expect("a setup that works");
    let steady = simulation
        .steady(&Band::new(load.pages, 1.0))
        .expect("no trace");
    assert!(!steady.is_steady);
    assert_eq!((steady.windows.len(), steady.warm), (2, None));
    assert!((20_000..20_100).contains(&steady.counts.requests));
}

#[test]
fn a_band_that_is_too_narrow_is_never_reached() {
    let load = Load {
        pages: 40_000,
        hot: 10,
        writes: 50,
    };
    let setup = setup(Layout::Lfs, load.pages, 0.8);
    let mut simulation = load.on(&setup, 3);
    let steady = simulation
        .steady(&Band {
            width: 0.0,
            most: 12,
            ..Band::new(load.pages, 0.5)
        })
        .expect("no trace");
    assert!(!steady.is_steady && steady.windows.len() == 12);
}

#[test]
fn measurement_starts_after_the_required_decisions() {
    let load = Load {
        pages: 40_000,
        hot: 10,
        writes: 50,
    };
    let warm = |layout, decisions| {
        let setup = Setup {
            interval: Nanos::from_secs(60),
            ..setup(layout, load.pages, 0.8)
        };
        let band = Band {
            skip: 1,
            decisions,
            width: 1.0,
            ..Band::new(load.pages, 0.5)
        };
        let mut simulation = load.on(&setup, 3);
        let steady = simulation.steady(&band).expect("no trace");
        (steady.warm.expect("the warm-up ends"), steady.decisions)
    };
    let hylog = Layout::Hylog(Estimate::LaterWrites);
    let (first, _) = warm(hylog, 1);
    let (fifth, decisions) = warm(hylog, 5);
    assert!(first < fifth, "{first} and {fifth} windows");
    assert!(decisions >= 5);
    // A log decides nothing that changes where pages go.
    assert_eq!(warm(Layout::Lfs, 1).0, warm(Layout::Lfs, 5).0);
}
