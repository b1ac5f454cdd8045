//! The results of an experiment, as data: figures, findings with their bounds, and notes.
//!
//! A report does not depend on the machine, the time of day, or the number of threads: the same experiment with the
//! same seed gives the same report. The processor times of `aru-overhead` are the exception.

use serde::{Deserialize, Serialize};

/// The outcome of one run of an experiment.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Report {
    /// Name of the experiment.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// Its subject.
    pub about: String,
    /// Paper and section.
    pub source: String,
    /// The command that gives this report.
    pub command: String,
    /// The drives that were used.
    pub drives: Vec<String>,
    /// Seed of all that is random.
    pub seed: u64,
    /// The findings, with those of the papers.
    pub findings: Vec<Finding>,
    /// Plots and tables.
    pub figures: Vec<Figure>,
    /// Assumptions, and advice for the reader.
    pub notes: Vec<String>,
}

/// A number next to the paper's.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Finding {
    /// The measured quantity.
    pub what: String,
    /// Its unit; empty for a plain number.
    pub unit: String,
    /// The paper's value, as printed there.
    pub paper: Option<String>,
    /// The value that was measured here.
    pub ours: f64,
    /// The bound, if there is a target.
    pub bound: Option<Bound>,
    /// Whether the bound is met.
    pub verdict: Verdict,
    /// The reason: the parameter of the drive that determines the value.
    pub because: Option<String>,
    /// The entry of the experiment's list of known misses that names this finding.
    pub known_miss: Option<KnownMiss>,
}

/// A bound that is missed for a known reason.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
pub struct KnownMiss {
    /// The miss is a known one within this limit. Beyond it the bound counts as missed.
    pub limit: Bound,
    /// Why the bound is missed.
    pub reason: &'static str,
}

/// The bound of a finding.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Not above.
    AtMost(f64),
    /// Not below.
    AtLeast(f64),
    /// Within so many percent of a value.
    Within {
        /// The value.
        value: f64,
        /// Allowed difference, in percent of the value.
        percent: f64,
    },
}

/// Whether a finding is within its bound.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The bound holds.
    Held,
    /// The bound does not hold, for a known reason, and the value is within the limit of that miss.
    KnownMiss,
    /// The bound does not hold.
    Missed,
    /// There is no bound.
    Shown,
}

/// One figure: plots, a table, or both.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name of its file, without ending.
    pub name: String,
    /// Its title.
    pub title: String,
    /// A caption.
    pub caption: String,
    /// Plots, side by side.
    pub panels: Vec<Panel>,
    /// The table below.
    pub table: Option<Table>,
}

/// A plot.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// Its curves, at most as many as there are colours.
    pub lines: Vec<Line>,
    /// Where the legend goes.
    pub legend: Legend,
}

/// An axis.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct Axis {
    /// Its quantity, with the unit.
    pub label: String,
    /// Its end, if that does not follow from the data.
    pub max: Option<f64>,
    /// Logarithmic; otherwise it begins at 0.
    pub log: bool,
    /// Names instead of numbers; the first one is at 1.
    pub names: Vec<String>,
}

/// A place for the legend.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Legend {
    /// In the plot, at the bottom on the right.
    #[default]
    BottomRight,
    /// In the plot, at the top on the right.
    TopRight,
    /// In the plot, at the top on the left.
    TopLeft,
    /// Next to the plot.
    Outside,
}

/// A curve.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Line {
    /// Its name in the legend; empty for none.
    pub name: String,
    /// The style of the line.
    pub style: Style,
    /// Its colour: the number of one of [`crate::svg::COLORS`].
    pub color: usize,
    /// Points, in the units of the axes.
    pub points: Vec<(f64, f64)>,
}

/// How a curve is drawn.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Solid line.
    Solid,
    /// Dashed, so that it is visible on top of another line.
    Dashed,
    /// Points alone.
    Dots,
    /// Solid line, with a mark at each point.
    Marked,
}

/// A table. Each row has as many cells as there are column heads.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// Heads of the columns, with units.
    pub heads: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

impl Bound {
    /// Within `percent` of `value`.
    pub fn within(value: f64, percent: f64) -> Self {
        Self::Within { value, percent }
    }

    /// True when `value` is within.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Within { value: of, percent } => (value - of).abs() <= of.abs() * percent / 100.0,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(value) => write!(f, "at most {}", number(*value)),
            Self::AtLeast(value) => write!(f, "at least {}", number(*value)),
            Self::Within { value, percent } => {
                write!(f, "{} ± {} %", number(*value), number(*percent))
            }
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::KnownMiss => "known miss",
            Self::Missed => "missed",
            Self::Shown => "",
        })
    }
}

impl Finding {
    /// A number of which nothing is demanded.
    pub fn shown(what: impl Into<String>, ours: f64, unit: &str) -> Self {
        Self {
            what: what.into(),
            unit: unit.into(),
            paper: None,
            ours,
            bound: None,
            verdict: Verdict::Shown,
            because: None,
            known_miss: None,
        }
    }

    /// Sets the paper's value.
    #[must_use]
    pub fn paper(mut self, paper: impl Into<String>) -> Self {
        self.paper = Some(paper.into());
        self
    }

    /// Sets the bound.
    #[must_use]
    pub fn bound(mut self, bound: Bound) -> Self {
        self.verdict = if bound.holds(self.ours) {
            Verdict::Held
        } else {
            Verdict::Missed
        };
        self.bound = Some(bound);
        self
    }

    /// Sets the known miss, and with it the verdict if the bound is missed.
    ///
    /// # Panics
    /// When there is no bound to miss.
    pub fn know(&mut self, known: KnownMiss) {
        assert!(self.bound.is_some(), "'{}' has no bound to miss", self.what);
        if self.verdict == Verdict::Missed && known.limit.holds(self.ours) {
            self.verdict = Verdict::KnownMiss;
        }
        self.known_miss = Some(known);
    }

    /// True when the list of known misses names this finding although its bound holds.
    pub fn is_known_miss_no_more(&self) -> bool {
        self.known_miss.is_some() && self.verdict == Verdict::Held
    }

    /// Sets the reason.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.because = Some(why.into());
        self
    }
}

impl Figure {
    /// A figure of plots.
    pub fn plot(name: &str, title: &str, caption: &str, panels: Vec<Panel>) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            caption: caption.into(),
            panels,
            table: None,
        }
    }

    /// A figure that is a table.
    pub fn table(name: &str, title: &str, caption: &str, table: Table) -> Self {
        Self {
            table: Some(table),
            ..Self::plot(name, title, caption, Vec::new())
        }
    }

    /// With a table below.
    #[must_use]
    pub fn with(mut self, table: Table) -> Self {
        self.table = Some(table);
        self
    }
}

impl Axis {
    /// An axis from 0 on.
    pub fn linear(label: &str) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    /// An axis of names.
    pub fn of(label: &str, names: Vec<String>) -> Self {
        Self {
            names,
            ..Self::linear(label)
        }
    }

    /// An axis from 0 to `max`.
    pub fn upto(label: &str, max: f64) -> Self {
        Self {
            max: Some(max),
            ..Self::linear(label)
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Self {
        Self {
            log: true,
            ..Self::linear(label)
        }
    }
}

impl Line {
    /// A curve.
    pub fn new(name: &str, style: Style, color: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            style,
            color,
            points,
        }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(heads: &[&str]) -> Self {
        Self {
            heads: heads.iter().map(|head| (*head).to_string()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it does not have as many cells as there are column heads.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.heads.len(), "a row fits its heads");
        self.rows.push(cells);
    }
}

/// A number with as many digits as a reader needs.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1000.0 || value == value.trunc() {
        format!("{value:.0}")
    } else if magnitude >= 100.0 {
        format!("{value:.1}")
    } else if magnitude >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}
