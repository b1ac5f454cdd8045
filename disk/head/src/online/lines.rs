//! The straight lines that satisfy all bounds so far: a convex set of (offset, slope), stored as a polygon.

/// Most corners that are kept.
const CORNERS: usize = 24;

/// A set of lines `offset + slope * x`.
#[derive(Clone, Debug)]
pub struct Lines {
    corners: [(f64, f64); CORNERS],
    count: usize,
}

impl Lines {
    /// All lines with the offsets and slopes of these ranges.
    pub fn new(offset: (f64, f64), slope: (f64, f64)) -> Self {
        let mut corners = [(0.0, 0.0); CORNERS];
        corners[0] = (offset.0, slope.0);
        corners[1] = (offset.1, slope.0);
        corners[2] = (offset.1, slope.1);
        corners[3] = (offset.0, slope.1);
        Self { corners, count: 4 }
    }

    /// Least and greatest value of the lines at `x`.
    pub fn range(&self, x: f64) -> (f64, f64) {
        let values = self.corners[..self.count].iter().map(|c| c.0 + c.1 * x);
        values.fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    }

    /// Keeps the lines that are at most `bound` at `x`. False, without a change, if there is none.
    pub fn at_most(&mut self, x: f64, bound: f64) -> bool {
        self.clip(|c| bound - (c.0 + c.1 * x))
    }

    /// Keeps the lines that are at least `bound` at `x`. False, without a change, if there is none.
    pub fn at_least(&mut self, x: f64, bound: f64) -> bool {
        self.clip(|c| c.0 + c.1 * x - bound)
    }

    /// Keeps the part in which the linear function `inside` is not negative.
    fn clip(&mut self, inside: impl Fn((f64, f64)) -> f64) -> bool {
        let mut kept = [(0.0, 0.0); CORNERS];
        let mut count = 0;
        for index in 0..self.count {
            let (a, b) = (self.corners[index], self.corners[(index + 1) % self.count]);
            let (at_a, at_b) = (inside(a), inside(b));
            let mut keep = |corner| {
                if count < CORNERS {
                    kept[count] = corner;
                }
                count += 1;
            };
            if at_a >= 0.0 {
                keep(a);
            }
            if (at_a >= 0.0) != (at_b >= 0.0) {
                let part = at_a / (at_a - at_b);
                keep((a.0 + (b.0 - a.0) * part, a.1 + (b.1 - a.1) * part));
            }
        }
        if count == 0 {
            return false;
        }
        // A bound that would give the polygon too many corners is ignored.
        if count <= CORNERS {
            (self.corners, self.count) = (kept, count);
        }
        true
    }
}
