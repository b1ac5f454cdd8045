//! Which layout to choose, by how much, and what would change it.
//!
//! A *situation* is a utilisation, with or without a log drive, at a load. In each, the layouts are compared by the
//! mean response time of all requests, or by throughput if requests wait for each other (a closed loop) or neither
//! layout keeps up.

use super::{Case, Layout, Measured};
use serde::Serialize;

/// Layouts that differ by less count as equal: that is about what the drives' models are accurate to.
const EQUAL: f64 = 1.05;
/// Response times are compared from here on, in milliseconds: below are answers from memory.
const RESPONSE_MS_MIN: f64 = 1e-3;

/// The layout to choose.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Recommendation {
    /// The layout.
    pub layout: Layout,
    /// The next best one.
    pub next: Layout,
    /// By how much the layout is better than that, in percent: the geometric mean over the situations that can be
    /// compared.
    pub margin_percent: f64,
    /// The recommendation, with its margin and what would change it.
    pub sentence: String,
    /// What a drive for the log is worth.
    pub log_drive: String,
}

/// A utilisation, with or without a log drive, at a load: the cases of all layouts.
struct Situation<'a> {
    percent: u64,
    log_drive: bool,
    load: u64,
    cases: [&'a Measured; Layout::ALL.len()],
}

/// How the figures are compared.
struct Comparison<'a> {
    situations: Vec<Situation<'a>>,
    closed_loop: bool,
}

impl Recommendation {
    /// The recommendation that follows from all cases of a study.
    pub(super) fn of(cases: &[Case], closed_loop: bool, log_drive: &str) -> Self {
        let all = Comparison {
            situations: situations(cases),
            closed_loop,
        };
        let mut ranked = Layout::ALL.map(|layout| {
            let behind = all.situations.iter().filter(|s| s.falls_behind(layout));
            let advantage = all.advantage(layout, Layout::Overwrite);
            (behind.count(), advantage, layout)
        });
        ranked.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let (fewest, most, best) = ranked[0];
        // Of equals, overwrite: it needs no spare space and no cleaning.
        let equals = ranked.iter().any(|(behind, advantage, layout)| {
            *layout == Layout::Overwrite && *behind == fewest && most <= advantage * EQUAL
        });
        let chosen = if equals { Layout::Overwrite } else { best };
        let mut next = ranked.iter().map(|(.., layout)| *layout);
        let next = next.find(|layout| *layout != chosen);
        let next = next.unwrap_or(Layout::Overwrite);
        let margin = all.advantage(chosen, next);
        Self {
            layout: chosen,
            next,
            margin_percent: 100.0 * (margin - 1.0),
            sentence: all.sentence(chosen, next, margin, equals),
            log_drive: all.worth_of_log_drive(cases, chosen, log_drive),
        }
    }
}

fn situations(cases: &[Case]) -> Vec<Situation<'_>> {
    let likes = cases.iter().filter(|case| case.layout == Layout::Segments);
    let situations = likes.filter_map(|like| {
        let percent = like.utilisation_percent?;
        let of = |layout: Layout| {
            let found = cases.iter().find(|case| {
                case.layout == layout
                    && case.utilisation_percent.is_none_or(|own| own == percent)
                    && case.log_drive == like.log_drive
                    && case.load == like.load
            });
            found.map(|case| &case.measured)
        };
        let [overwrite, segments, wolf, hylog] = Layout::ALL.map(of);
        Some(Situation {
            percent,
            log_drive: like.log_drive,
            load: like.load,
            cases: [overwrite?, segments?, wolf?, hylog?],
        })
    });
    situations.collect()
}

impl Situation<'_> {
    fn of(&self, layout: Layout) -> &Measured {
        self.cases[layout as usize]
    }

    /// True when the layout does not keep up and another one does.
    fn falls_behind(&self, layout: Layout) -> bool {
        self.of(layout).saturated && self.cases.iter().any(|other| !other.saturated)
    }

    fn name(&self) -> String {
        format!(
            "{} % utilisation {} a log drive at {}",
            self.percent,
            ["without", "with"][usize::from(self.log_drive)],
            load_name(self.load)
        )
    }
}

impl Comparison<'_> {
    /// How many times better `own` is than `other`; `None` where one of both does not keep up.
    fn ratio(&self, own: &Measured, other: &Measured) -> Option<f64> {
        if own.saturated != other.saturated {
            return None;
        }
        if self.closed_loop || own.saturated {
            return Some(own.requests_per_s / other.requests_per_s);
        }
        let (own, other) = (own.response?.mean_ms, other.response?.mean_ms);
        Some(other.max(RESPONSE_MS_MIN) / own.max(RESPONSE_MS_MIN))
    }

    fn ratios(&self, layout: Layout, other: Layout) -> Vec<f64> {
        let all = self.situations.iter();
        all.filter_map(|s| self.ratio(s.of(layout), s.of(other)))
            .collect()
    }

    /// Geometric mean of the ratios.
    fn advantage(&self, layout: Layout, other: Layout) -> f64 {
        let ratios = self.ratios(layout, other);
        let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        (logs / ratios.len().max(1) as f64).exp()
    }

    fn sentence(&self, chosen: Layout, next: Layout, margin: f64, equals: bool) -> String {
        let count = self.situations.len();
        let (name, other) = (chosen.name(), next.name());
        let ratios = self.ratios(chosen, next);
        let [least, most] = [f64::min, f64::max].map(|pick: fn(f64, f64) -> f64| {
            let found = ratios.iter().copied().reduce(pick);
            self.better(found.unwrap_or(1.0))
        });
        let by = if equals {
            format!(
                "no layout is better by more than {:.0} % on average over the {count} situations, about what the \
                 models are accurate to, and {name} needs no spare space",
                100.0 * (EQUAL - 1.0)
            )
        } else if ratios.is_empty() {
            format!("it keeps up with the load where {other}, the next best, does not")
        } else {
            format!(
                "over the {count} situations its {} is {} that of {other}, the next best layout (geometric mean; \
                 from {least} to {most})",
                self.quantity(),
                self.better(margin)
            )
        };
        format!("Choose {name}: {by}; {}.", self.changes(chosen))
    }

    /// What would change the choice: the situations in which another layout is clearly better.
    fn changes(&self, chosen: Layout) -> String {
        let others = self.situations.iter().filter_map(|situation| {
            let better = Layout::ALL.iter().filter_map(|layout| {
                let (own, other) = (situation.of(chosen), situation.of(*layout));
                match (own.saturated, other.saturated) {
                    (true, false) => Some((f64::INFINITY, *layout)),
                    _ => Some((self.ratio(other, own)?, *layout)),
                }
            });
            let best = better.max_by(|a, b| a.0.total_cmp(&b.0))?;
            (best.0 > EQUAL).then_some((situation, best))
        });
        let mut others: Vec<_> = others.collect();
        others.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        let Some((situation, (ratio, layout))) = others.first() else {
            return "nothing that was tried changes that".into();
        };
        let how = if ratio.is_finite() {
            format!("its {} is {} there", self.quantity(), self.better(*ratio))
        } else {
            "it alone of both keeps up there".to_string()
        };
        let more = match others.len() - 1 {
            0 => String::new(),
            1 => ", and a layout is better in one more situation".into(),
            more => format!(", and another layout is better in {more} more situations"),
        };
        format!(
            "what changes that is {}: take {} then ({how}){more}",
            situation.name(),
            layout.name()
        )
    }

    fn quantity(&self) -> &'static str {
        if self.closed_loop {
            "throughput"
        } else {
            "mean response time"
        }
    }

    /// "12 % above", or "12 % below": a factor of improvement, in words that fit the quantity.
    fn better(&self, ratio: f64) -> String {
        let percent = if self.closed_loop {
            100.0 * (ratio - 1.0)
        } else {
            100.0 * (1.0 / ratio - 1.0)
        };
        let side = if percent < 0.0 { "below" } else { "above" };
        format!("{:.0} % {side}", percent.abs())
    }

    fn worth_of_log_drive(&self, cases: &[Case], layout: Layout, name: &str) -> String {
        let of = |log_drive, load| {
            let own = cases.iter().filter(move |case| {
                case.layout == layout && case.log_drive == log_drive && case.load == load
            });
            own.map(|case| &case.measured).collect::<Vec<_>>()
        };
        let worth = super::LOADS.map(|load| {
            let (without, with) = (of(false, load), of(true, load));
            let pairs = || without.iter().zip(&with);
            let rescued = pairs().filter(|(without, with)| without.saturated && !with.saturated);
            if rescued.count() > 0 {
                return format!("it lets the store keep up at {}", load_name(load));
            }
            let ratios = pairs().filter_map(|(without, with)| self.ratio(with, without));
            let ratios: Vec<f64> = ratios.collect();
            let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
            let mean = (logs / ratios.len().max(1) as f64).exp();
            format!(
                "at {} its {} is {} that without one",
                load_name(load),
                self.quantity(),
                self.better(mean)
            )
        });
        format!(
            "With a drive of its own for the log ({name}), {}: {}.",
            layout.name(),
            worth.join("; ")
        )
    }
}

/// A load, in words.
pub(super) fn load_name(load: u64) -> &'static str {
    match load {
        1 => "the trace's load",
        _ => "twice the load",
    }
}

#[cfg(test)]
#[path = "recommend_test.rs"]
mod recommend_test;
