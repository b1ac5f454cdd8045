//! The figures of a drive that a fit changes, as a vector of numbers.

use crate::replay::share;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tonearm_drive_file::{DiskSpec, DriveSpec, SeekCurve, curve_ms};

/// Knots at which the seek curve is shifted, as shares of all cylinders. The shift is linear between knots.
const KNOTS: [f64; 6] = [0.0, 0.02, 0.08, 0.25, 0.55, 1.0];

/// The range and scale of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// A time, at least zero.
    Time,
    /// A difference of times, which may be negative.
    Difference,
    /// The time of a sector on the bus. It is small, but counts for each sector.
    Sector,
}

impl Sort {
    /// The size of the first step, in ms.
    pub fn step_ms(self) -> f64 {
        match self {
            Sort::Time | Sort::Difference => 0.2,
            Sort::Sector => 0.008,
        }
    }

    /// Cost of a distance of a millisecond from the start. It keeps figures in place for which the trace has no
    /// evidence, such as hits on a drive without any, and is too weak to hold other figures.
    fn pull(self) -> f64 {
        match self {
            Sort::Time | Sort::Difference => 0.012,
            Sort::Sector => 0.1,
        }
    }

    /// A value near `value`. `random` is from -0.5 to 0.5.
    fn near(self, value: f64, random: f64) -> f64 {
        match self {
            Sort::Time => (value + 0.3 * random).max(0.0),
            Sort::Difference => value + 0.5 * random,
            Sort::Sector => value * (1.0 + 0.1 * random),
        }
    }

    /// The value as a drive file has it.
    fn rounded(self, value: f64) -> f64 {
        let digits = match self {
            Sort::Time | Sort::Difference => 1e4,
            Sort::Sector => 1e5,
        };
        (value * digits).round() / digits
    }
}

/// A figure of a drive file. Its accessor gives None when the drive does not use the figure.
struct Figure {
    sort: Sort,
    get: fn(&DiskSpec) -> Option<f64>,
    set: fn(&mut DiskSpec, f64),
}

macro_rules! figure {
    ($sort:ident $($place:ident).+) => {
        Figure {
            sort: Sort::$sort,
            get: |disk| Some(disk.$($place).+),
            set: |disk, value| disk.$($place).+ = value,
        }
    };
}

/// A drive that releases the bus once more before the data of a write has one overhead instead of two.
const FIGURES: &[Figure] = &[
    figure!(Time overhead.read_hit_ms.read),
    figure!(Time overhead.read_hit_ms.write),
    figure!(Time overhead.read_miss_ms.read),
    figure!(Time overhead.read_miss_ms.write),
    figure!(Time overhead.write_hit_ms.read),
    figure!(Time overhead.write_hit_ms.write),
    Figure {
        sort: Sort::Time,
        get: |disk| match disk.overhead.write_detour {
            Some(_) => None,
            None => Some(disk.overhead.write_miss_ms.read),
        },
        set: |disk, value| disk.overhead.write_miss_ms.read = value,
    },
    Figure {
        sort: Sort::Time,
        get: |disk| match disk.overhead.write_detour {
            Some(_) => None,
            None => Some(disk.overhead.write_miss_ms.write),
        },
        set: |disk, value| disk.overhead.write_miss_ms.write = value,
    },
    figure!(Sector bus.read_sector_ms),
    figure!(Sector bus.write_sector_ms),
    figure!(Time seek.head_switch_ms),
    figure!(Difference seek.write_settle_ms),
    figure!(Time seek.same_track_ms),
    Figure {
        sort: Sort::Time,
        get: |disk| Some(disk.overhead.write_detour.as_ref()?.command_ms),
        set: |disk, value| {
            if let Some(detour) = &mut disk.overhead.write_detour {
                detour.command_ms = value;
            }
        },
    },
];

/// A drive and the figures that are fitted: the figures that the drive uses, then the shift of the seek curve at each
/// knot.
pub struct Parameters {
    spec: DriveSpec,
    figures: Vec<&'static Figure>,
    /// The seek curve before the fit.
    curve: Vec<(u32, f64)>,
    cylinders: u32,
    start: Vec<f64>,
}

impl Parameters {
    /// The parameters of a mechanical drive.
    pub fn new(spec: DriveSpec) -> Self {
        let disk = spec
            .disk
            .as_ref()
            .expect("a drive that is fitted has an arm");
        let used = |figure: &&Figure| (figure.get)(disk).is_some();
        let figures: Vec<&Figure> = FIGURES.iter().filter(used).collect();
        let mut start: Vec<f64> = figures.iter().filter_map(|f| (f.get)(disk)).collect();
        start.extend([0.0; KNOTS.len()]);
        Self {
            curve: points(&disk.seek.curve, disk.geometry.cylinders),
            cylinders: disk.geometry.cylinders,
            figures,
            start,
            spec,
        }
    }

    /// The drive before the fit.
    pub fn before(&self) -> &DriveSpec {
        &self.spec
    }

    /// The figures before the fit.
    pub fn start(&self) -> &[f64] {
        &self.start
    }

    /// The sort of the `index`-th figure.
    pub fn sort(&self, index: usize) -> Sort {
        self.figures
            .get(index)
            .map_or(Sort::Difference, |figure| figure.sort)
    }

    /// Random figures near the start.
    pub fn near(&self, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let start = self.start.iter().enumerate();
        start
            .map(|(index, value)| {
                let random = share(random.next_u64()) - 0.5;
                self.sort(index).near(*value, random)
            })
            .collect()
    }

    /// Cost of the distance of `values` from the start.
    pub fn pull(&self, values: &[f64]) -> f64 {
        let pairs = values.iter().zip(&self.start).enumerate();
        pairs
            .map(|(index, (value, start))| (value - start).abs() * self.sort(index).pull())
            .sum()
    }

    /// The drive with these figures, rounded as they are printed. None if such a drive is invalid.
    pub fn spec(&self, values: &[f64]) -> Option<DriveSpec> {
        let mut spec = self.spec.clone();
        let disk = spec.disk.as_mut()?;
        let (figures, offsets) = values.split_at(self.figures.len());
        for (figure, value) in self.figures.iter().zip(figures) {
            if *value < 0.0 && figure.sort != Sort::Difference {
                return None;
            }
            (figure.set)(disk, figure.sort.rounded(*value));
        }
        let moved = |(distance, ms): &(u32, f64)| {
            let ms = ms + self.offset(offsets, *distance);
            (*distance, Sort::Time.rounded(ms.max(0.0)))
        };
        disk.seek.curve = SeekCurve::Table(self.curve.iter().map(moved).collect());
        Some(spec)
    }

    /// The shift of the seek curve at `distance`.
    fn offset(&self, offsets: &[f64], distance: u32) -> f64 {
        let share = f64::from(distance) / f64::from(self.cylinders);
        let last = KNOTS.len() - 2;
        let at = KNOTS.partition_point(|knot| *knot < share);
        let at = at.saturating_sub(1).min(last);
        let part = (share - KNOTS[at]) / (KNOTS[at + 1] - KNOTS[at]);
        let part = part.clamp(0.0, 1.0);
        offsets[at] * (1.0 - part) + offsets[at + 1] * part
    }
}

/// The curve as a table. A formula is sampled at the first distances, then in growing steps, and on both sides of the
/// distance where its two parts meet.
fn points(curve: &SeekCurve, cylinders: u32) -> Vec<(u32, f64)> {
    let below = match curve {
        SeekCurve::Table(points) => return points.clone(),
        SeekCurve::Formula { below, .. } => *below,
    };
    let last = cylinders - 1;
    let wider = std::iter::successors(Some(14.0f64), |distance| Some(distance * 1.22));
    let wider = wider.map(|distance| distance as u32);
    let mut distances: Vec<u32> = (1..=12).chain(wider.take_while(|d| *d < last)).collect();
    distances.extend([below.saturating_sub(1), below, last]);
    distances.retain(|distance| (1..=last).contains(distance));
    distances.sort_unstable();
    distances.dedup();
    let point = |distance: u32| (distance, curve_ms(curve, distance));
    distances.into_iter().map(point).collect()
}
