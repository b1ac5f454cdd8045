//! Rounds of samples: which contender comes first, the wait for a quiet machine, and the line of each sample.

use crate::Spread;
use crate::machine::{Surroundings, Watch};
use crate::report::table;
use anyhow::Context;
use comfy_table::Table;
use serde::Serialize;
use std::time::Duration;

/// The rounds of a run.
#[derive(Clone, Copy)]
pub struct Rounds {
    /// Their number.
    pub count: usize,
    /// Longest wait for a quiet machine before a sample.
    pub quiet_max: Duration,
}

/// What a program measures besides the rate.
pub trait Figures: Serialize {
    /// The rate with its unit, and the figures, for the line of a sample.
    fn line(&self, rate: f64) -> String;
}

/// A contender under a workload.
#[derive(Serialize)]
pub struct Sample<F> {
    /// Name of the workload.
    pub workload: &'static str,
    /// Name of the contender.
    pub contender: &'static str,
    /// Number of the round.
    pub round: usize,
    /// Operations in a second.
    pub rate: f64,
    /// The other figures.
    #[serde(flatten)]
    pub figures: F,
    /// What other programs used meanwhile.
    #[serde(flatten)]
    pub surroundings: Surroundings,
}

/// `all`, with another one as the first in each round.
pub fn rotated<T: Copy>(all: &[T], round: usize) -> impl Iterator<Item = T> {
    (0..all.len()).map(move |turn| all[(turn + round) % all.len()])
}

/// Takes `N` things that belong together, with another one as the first in each round.
///
/// # Errors
/// The errors of `take`.
pub fn in_turn<const N: usize, T>(
    round: usize,
    mut take: impl FnMut(usize) -> anyhow::Result<T>,
) -> anyhow::Result<[T; N]> {
    let mut taken = [const { None }; N];
    for which in rotated(&std::array::from_fn::<_, N, _>(|which| which), round) {
        taken[which] = Some(take(which)?);
    }
    Ok(taken.map(|one| one.expect("each has its turn")))
}

impl Rounds {
    /// Prints a line about `round`.
    pub fn print(&self, round: usize, line: &str) {
        eprintln!("round {}/{} {line}", round + 1, self.count);
    }

    /// Waits for a quiet machine, and begins to measure its surroundings.
    pub fn watch(&self) -> Watch {
        Watch::begin(self.quiet_max)
    }

    /// Takes a sample of a workload and a contender: rate, figures and surroundings. Takes it once more if the machine
    /// was not quiet and `again` is set, unless this is a rehearsal. Prints the one with the quieter machine.
    ///
    /// # Errors
    /// The errors of `take`.
    pub fn sample<F: Figures>(
        &self,
        (workload, contender): (&'static str, &'static str),
        round: usize,
        again: bool,
        mut take: impl FnMut() -> anyhow::Result<(f64, F, Surroundings)>,
    ) -> anyhow::Result<Sample<F>> {
        let mut take = || take().with_context(|| format!("{workload} on {contender}"));
        let mut taken = take()?;
        if again && !self.quiet_max.is_zero() && !taken.2.quiet() {
            let second = take()?;
            if second.2.others_cores < taken.2.others_cores {
                taken = second;
            }
        }
        let (rate, figures, surroundings) = taken;
        let (line, others) = (figures.line(rate), surroundings.line());
        self.print(
            round,
            &format!("{workload:14} {contender:20} {line}  {others}"),
        );
        Ok(Sample {
            workload,
            contender,
            round,
            rate,
            figures,
            surroundings,
        })
    }
}

/// The samples of a run.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Samples<F>(pub Vec<Sample<F>>);

impl<F> Samples<F> {
    /// Those of a contender under a workload.
    pub fn of(&self, workload: &str, contender: &str) -> impl Iterator<Item = &Sample<F>> {
        let of_it = move |one: &&Sample<F>| one.workload == workload && one.contender == contender;
        self.0.iter().filter(of_it)
    }

    /// Spread of a figure over the rounds that have it.
    pub fn spread(
        &self,
        workload: &str,
        contender: &str,
        figure: impl Fn(&Sample<F>) -> Option<f64>,
    ) -> Option<Spread> {
        Spread::of(self.of(workload, contender).filter_map(figure))
    }

    /// Ratio of a figure of `ours` to that of `peer` in the same rounds.
    pub fn ratio(
        &self,
        workload: &str,
        ours: &str,
        peer: &str,
        figure: impl Fn(&Sample<F>) -> f64,
    ) -> Option<Spread> {
        self.spread(workload, ours, |ours| {
            let mut theirs = self.of(workload, peer);
            let theirs = theirs.find(|theirs| theirs.round == ours.round)?;
            Some(figure(ours) / figure(theirs))
        })
    }

    /// A table of a figure, with a row for each workload and a column for each contender. A row begins with the cells
    /// of `rows` after the name, and ends with those of `end`. Workloads without the figure have no row.
    pub fn table(
        &self,
        header: [&[&str]; 2],
        rows: impl IntoIterator<Item = (&'static str, Vec<String>, Vec<String>)>,
        contenders: &[&str],
        (figure, decimals): (impl Fn(&Sample<F>) -> Option<f64>, usize),
    ) -> Table {
        let [before, after] = header;
        let mut table = table([before, contenders, after].concat());
        for (workload, before, after) in rows {
            let cells = contenders.iter().map(|name| {
                let spread = self.spread(workload, name, &figure);
                spread.map_or(String::new(), |spread| spread.text(decimals))
            });
            let cells: Vec<_> = cells.collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                table.add_row(before.into_iter().chain(cells).chain(after));
            }
        }
        table
    }
}
