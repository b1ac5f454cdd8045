//! Plane Compact: one plane for a rectangle of request sizes and think times (Disk Mimic 3).
//!
//! The paper gives no algorithm for planes. This one extends its greedy algorithm: a rectangle begins at the first
//! point without a plane and grows along the think times like a line. For each width it then grows along the sizes, as
//! long as some plane meets the candidate sets of all points. The rectangle with the most points is taken.

use super::line::{Lines, PARTS, all_pairs, extend, growth, slopes};
use crate::policy::Choices;
use crate::skip_set::SkipSet;
use tonearm_head::Grid;
use tonearm_head::SkipModel;

/// Rectangles with a plane each, in the order of their first points.
#[derive(Clone, Debug)]
pub struct PlaneCompact {
    grid: Grid,
    planes: Vec<Plane>,
}

#[derive(Clone, Copy, Debug)]
struct Plane {
    /// Places of its first and last size.
    sizes: (u16, u16),
    /// Places of its first and last think time.
    thinks: (u16, u16),
    /// Place of the skip at its first point.
    skip: u16,
    /// Parts of a step of skip for each step of think time.
    by_think: i16,
    /// Parts of a step of skip for each step of size.
    by_size: i16,
}

/// The candidate planes of one pair of slopes, given by their first skips.
struct Planes {
    by_think: i64,
    by_size: i64,
    begins: SkipSet,
}

/// A rectangle of the grid: the indexes of its first point, and the numbers of think times and sizes.
#[derive(Clone, Copy)]
struct Rectangle {
    size: usize,
    think: usize,
    width: usize,
    height: usize,
}

impl PlaneCompact {
    /// The planes for `choices`. Of the planes that a rectangle could have, it gets the one with the least total cost.
    pub fn new(choices: &Choices) -> Self {
        let grid = *choices.grid();
        let mut planes = Vec::new();
        let mut covered = vec![false; grid.rows()];
        for size in 0..grid.sizes.len() {
            for think in 0..grid.thinks.len() {
                if covered[grid.row(size, think)] {
                    continue;
                }
                let (rectangle, candidates) = largest(choices, &covered, size, think);
                for size in size..size + rectangle.height {
                    let from = grid.row(size, think);
                    covered[from..from + rectangle.width].fill(true);
                }
                planes.push(cheapest(choices, rectangle, &candidates));
            }
        }
        Self { grid, planes }
    }
}

/// The largest rectangle of points not `covered` that begins at the given point, and the planes that fit it.
fn largest(
    choices: &Choices,
    covered: &[bool],
    size: usize,
    think: usize,
) -> (Rectangle, Vec<Planes>) {
    let grid = choices.grid();
    let free =
        |size: usize, think: usize| think < grid.thinks.len() && !covered[grid.row(size, think)];
    let mut best = Rectangle {
        size,
        think,
        width: 0,
        height: 0,
    };
    let mut fitting = Vec::new();
    // Lines of this width: the skips with which they may begin at this size and at each of the next ones.
    let single = choices.at(size, think).acceptable.clone();
    let mut lines: Vec<Lines> = vec![Lines {
        slope: 0,
        begins: single,
    }];
    let mut width = 1;
    loop {
        let sizes = (size..grid.sizes.len())
            .take_while(|size| (think..think + width).all(|think| free(*size, think)));
        let rows = sizes.count();
        for line in &lines {
            if rows * width >= best.width * best.height {
                deepen(
                    choices,
                    line,
                    (size, think, width),
                    rows,
                    &mut best,
                    &mut fitting,
                );
            }
        }
        if !free(size, think + width) {
            break;
        }
        let to = &choices.at(size, think + width).acceptable;
        lines = match width {
            1 => all_pairs(&choices.at(size, think).acceptable, Some(to)),
            _ => extend(&lines, to, width),
        };
        if lines.is_empty() {
            break;
        }
        width += 1;
    }
    (best, fitting)
}

/// Extends the lines of one slope and width along up to `rows` sizes. A rectangle with more points than `best` replaces
/// it; one with as many adds its planes to `fitting`.
fn deepen(
    choices: &Choices,
    line: &Lines,
    (size, think, width): (usize, usize, usize),
    rows: usize,
    best: &mut Rectangle,
    fitting: &mut Vec<Planes>,
) {
    // First skips of lines of this slope at each size, as far as there are any.
    let mut of_rows = vec![line.begins.clone()];
    for row in 1..rows {
        let first = choices.at(size + row, think);
        let mut begins = first.acceptable.clone();
        let mut met = (1..width).map(|x| {
            let to = &choices.at(size + row, think + x).acceptable;
            begins.keep_shifted(to, growth(line.slope, x))
        });
        if !met.all(|any| any) {
            break;
        }
        of_rows.push(begins);
    }
    let skips = choices.grid().skips.len() as i64 * PARTS;
    let points = best.width * best.height;
    let least = points.div_ceil(width).max(1);
    // A plane must stay on the axis over as many sizes as it needs to be better.
    let steepest = if least > 1 {
        skips / (least as i64 - 1)
    } else {
        skips
    };
    let steepest = steepest.min(i64::from(i16::MAX));
    let next = of_rows.get(1).and_then(|row| slopes(&of_rows[0], row));
    // A plane of one size has any slope.
    let (low, high) = next.map_or((0, 0), |next| (*next.start().min(&0), *next.end().max(&0)));
    for by_size in low.max(-steepest)..=high.min(steepest) {
        let mut begins = of_rows[0].clone();
        let mut height = 1;
        while let Some(row) = of_rows.get(height) {
            let mut deeper = begins.clone();
            if !deeper.keep_shifted(row, growth(by_size, height)) {
                break;
            }
            begins = deeper;
            height += 1;
        }
        let (now, before) = (width * height, best.width * best.height);
        if now > before {
            *best = Rectangle {
                size,
                think,
                width,
                height,
            };
            fitting.clear();
        }
        if now >= before && width == best.width {
            fitting.push(Planes {
                by_think: line.slope,
                by_size,
                begins,
            });
        }
    }
}

fn cheapest(choices: &Choices, rectangle: Rectangle, candidates: &[Planes]) -> Plane {
    let Rectangle {
        size,
        think,
        width,
        height,
    } = rectangle;
    let cost = |(by_think, by_size, skip): &(i64, i64, usize)| {
        let mut sum = 0;
        for y in 0..height {
            for x in 0..width {
                let at = *skip as i64 + growth(*by_think, x) + growth(*by_size, y);
                sum += u64::from(choices.at(size + y, think + x).costs[at as usize]);
            }
        }
        sum
    };
    let all = candidates.iter().flat_map(|planes| {
        let slopes = (planes.by_think, planes.by_size);
        planes
            .begins
            .iter()
            .map(move |skip| (slopes.0, slopes.1, skip))
    });
    let (by_think, by_size, skip) = all
        .min_by_key(cost)
        .expect("a candidate set has the best skip");
    Plane {
        sizes: (size as u16, (size + height - 1) as u16),
        thinks: (think as u16, (think + width - 1) as u16),
        skip: skip as u16,
        by_think: by_think as i16,
        by_size: by_size as i16,
    }
}

impl SkipModel for PlaneCompact {
    fn name(&self) -> &'static str {
        "compact-plane"
    }

    fn skip(&self, size: usize, think: usize) -> u32 {
        let holds = |(first, last): (u16, u16), at: usize| {
            usize::from(first) <= at && at <= usize::from(last)
        };
        let plane = self
            .planes
            .iter()
            .find(|plane| holds(plane.sizes, size) && holds(plane.thinks, think));
        let plane = plane.expect("the planes cover the grid");
        let along =
            |slope: i16, first: u16, at: usize| growth(slope.into(), at - usize::from(first));
        let skip = i64::from(plane.skip)
            + along(plane.by_think, plane.thinks.0, think)
            + along(plane.by_size, plane.sizes.0, size);
        self.grid.skips.at(skip as usize) as u32
    }

    fn stored_bytes(&self) -> usize {
        size_of_val(&self.planes[..])
    }
}
