//! Which layout to choose, by how much, and what would change it.
//!
//! A *situation* is a utilisation, with or without a log drive, at a load. In each, the layouts are compared by the
//! mean response time of all requests, or by throughput if requests wait for each other (a closed loop) or neither
//! layout keeps up.

use super::case::{Case, LOADS, Layout, Measured};
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
    /// The highest utilisation in percent at which the layout is as good as at the lowest one that was tried; none for overwrite.
    pub utilisation_percent: Option<u64>,
}

/// A utilisation, with or without a log drive, at a load: the cases of all layouts.
struct Situation<'a> {
    percent: u64,
    log_drive: bool,
    load: u64,
    cases: [&'a Measured; Layout::ALL.len()],
}

/// What a comparison is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Throughput,
    ResponseTime,
    /// Response time where both keep up, throughput where neither does.
    Both,
}

impl Quantity {
    /// What two measurements are compared by, if neither or both keep up.
    fn of(own: &Measured, closed_loop: bool) -> Self {
        match closed_loop || own.saturated {
            true => Self::Throughput,
            false => Self::ResponseTime,
        }
    }

    /// What several comparisons are about.
    fn common(each: impl IntoIterator<Item = Self>) -> Option<Self> {
        let both = |one, other| if one == other { one } else { Self::Both };
        each.into_iter().reduce(both)
    }

    /// A factor of improvement in words: "12 % above", "12 % below", or "12 % better".
    fn better(self, ratio: f64) -> String {
        let percent = match self {
            Self::ResponseTime => 100.0 * (1.0 / ratio - 1.0),
            _ => 100.0 * (ratio - 1.0),
        };
        let side = match (self, percent < 0.0) {
            (Self::Both, true) => "worse",
            (Self::Both, false) => "better",
            (_, true) => "below",
            (_, false) => "above",
        };
        format!("{:.0} % {side}", percent.abs())
    }

    /// "its throughput is 12 % above that of segments", or "it is 12 % better than segments".
    fn compared(self, ratio: f64, that: &str, than: &str) -> String {
        let better = self.better(ratio);
        match self {
            Self::Throughput => format!("its throughput is {better} {that}"),
            Self::ResponseTime => format!("its mean response time is {better} {that}"),
            Self::Both => format!(
                "it is {better} than {than} (mean response time, or throughput where neither keeps up)"
            ),
        }
    }
}

/// How the figures are compared.
struct Comparison<'a> {
    situations: Vec<Situation<'a>>,
    closed_loop: bool,
}

impl Recommendation {
    /// The recommendation that follows from all cases of a study.
    pub fn of(cases: &[Case], closed_loop: bool, log_drive: &str) -> Self {
        let all = Comparison {
            situations: situations(cases),
            closed_loop,
        };
        let mut ranked = Layout::ALL.map(|layout| {
            let saturated = all.situations.iter().filter(|s| s.falls_behind(layout));
            let advantage = all.advantage(layout, Layout::Overwrite);
            (saturated.count(), advantage, layout)
        });
        ranked.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let (fewest, most, _) = ranked[0];
        // Of equals the simplest: overwrite needs no spare space, and segments counts no writes.
        let mut equals = Layout::ALL.to_vec();
        equals.retain(|layout| {
            ranked.iter().any(|(saturated, advantage, own)| {
                own == layout && *saturated == fewest && most <= advantage * EQUAL
            })
        });
        let chosen = equals.remove(0);
        let layouts = || ranked.iter().map(|(.., layout)| *layout);
        let next = layouts().find(|layout| *layout != chosen && !equals.contains(layout));
        let next = next.or_else(|| layouts().find(|layout| *layout != chosen));
        let next = next.unwrap_or(Layout::Overwrite);
        let margin = all.advantage(chosen, next);
        Self {
            layout: chosen,
            next,
            margin_percent: 100.0 * (margin - 1.0),
            sentence: all.sentence(chosen, &equals, next, margin),
            log_drive: all.worth_of_log_drive(cases, chosen, log_drive),
            utilisation_percent: all.utilisation(chosen),
        }
    }

    /// Says first why the study gives no verdict.
    pub(super) fn withhold(&mut self, why: &str) {
        let ahead = self.sentence.trim_start_matches("Choose ");
        self.sentence = format!("No verdict: {why}. So far this is ahead: {ahead}");
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

    /// What the comparison of two layouts is about.
    fn quantity(&self, layout: Layout, other: Layout) -> Quantity {
        let all = self.situations.iter();
        let comparable = all.filter(|s| s.of(layout).saturated == s.of(other).saturated);
        let each = comparable.map(|s| Quantity::of(s.of(layout), self.closed_loop));
        Quantity::common(each).unwrap_or(Quantity::Throughput)
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

    /// The highest utilisation at which `layout` is about as good as at the lowest one, whatever the load.
    fn utilisation(&self, layout: Layout) -> Option<u64> {
        if layout == Layout::Overwrite {
            return None;
        }
        let lowest = self.situations.iter().map(|s| s.percent).min()?;
        let is_as_good = |percent: u64| {
            let own = self.situations.iter().filter(|s| s.percent == percent);
            own.into_iter().all(|own| {
                let alike = |s: &&Situation<'_>| {
                    (s.percent, s.log_drive, s.load) == (lowest, own.log_drive, own.load)
                };
                let base = self.situations.iter().find(alike);
                let ratio = base.and_then(|base| self.ratio(own.of(layout), base.of(layout)));
                ratio.is_some_and(|ratio| ratio * EQUAL >= 1.0)
            })
        };
        let all = self.situations.iter().map(|s| s.percent);
        all.filter(|percent| is_as_good(*percent)).max()
    }

    /// `equals` are the layouts that count as equal to the chosen one.
    fn sentence(&self, chosen: Layout, equals: &[Layout], next: Layout, margin: f64) -> String {
        let count = self.situations.len();
        let (name, other) = (chosen.name(), next.name());
        let ratios = self.ratios(chosen, next);
        let quantity = self.quantity(chosen, next);
        let [least, most] = [f64::min, f64::max].map(|pick: fn(f64, f64) -> f64| {
            let found = ratios.iter().copied().reduce(pick);
            quantity.better(found.unwrap_or(1.0))
        });
        let equal = 100.0 * (EQUAL - 1.0);
        let simpler = match chosen {
            Layout::Overwrite => "needs no spare space",
            _ => "is simpler",
        };
        let by = if equals.len() + 1 == Layout::ALL.len() {
            format!(
                "no layout is better by more than {equal:.0} % on average over the {count} situations, about what the \
                 models are accurate to, and {name} {simpler}"
            )
        } else if ratios.is_empty() {
            format!("it keeps up with the load where {other}, the next best, does not")
        } else {
            format!(
                "over the {count} situations {}, the next best layout (geometric mean; from {least} to {most})",
                quantity.compared(margin, &format!("that of {other}"), other)
            )
        };
        let names: Vec<&str> = equals.iter().map(|layout| layout.name()).collect();
        let alike = match names[..] {
            [] | [_, _, _] => String::new(),
            _ => format!(
                " ({} is within {equal:.0} % of it, about what the models are accurate to, and {name} {simpler})",
                names.join(" or ")
            ),
        };
        let saturation = LOADS.map(|load| self.saturation(chosen, load));
        format!(
            "Choose {name}{alike}: {by}; {}.{}",
            self.changes(chosen),
            saturation.concat()
        )
    }

    /// A sentence on how far the layout keeps up with the load; nothing when it always does.
    fn saturation(&self, layout: Layout, load: u64) -> String {
        let all = self.situations.iter().filter(|s| s.load == load);
        let rates: Vec<f64> = all
            .clone()
            .filter(|s| s.of(layout).saturated)
            .map(|s| s.of(layout).requests_per_s)
            .collect();
        let count = all.count();
        if rates.is_empty() {
            return String::new();
        }
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        let range = match format!("{least:.0}") == format!("{most:.0}") {
            true => format!("{most:.0}"),
            false => format!("{least:.0} to {most:.0}"),
        };
        let there = match rates.len() == count {
            true => String::new(),
            false => format!(" in {} of {count} situations", rates.len()),
        };
        let so = match (rates.len() == count, load) {
            (true, 1) => ": more or faster drives are needed",
            _ => "",
        };
        format!(
            " It does not keep up with {}{there} (it does {range} requests/s){so}.",
            load_name(load)
        )
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
            let quantity = Quantity::of(situation.of(chosen), self.closed_loop);
            match quantity {
                Quantity::ResponseTime => {
                    format!(
                        "its mean response time is {} there",
                        quantity.better(*ratio)
                    )
                }
                _ => format!("its throughput is {} there", quantity.better(*ratio)),
            }
        } else {
            "it alone of both keeps up there".to_string()
        };
        let more = match others.len() - 1 {
            0 => String::new(),
            1 => ", and another layout is better in one more situation".into(),
            more => format!(", and another layout is better in {more} more situations"),
        };
        format!(
            "what changes that is {}: take {} then ({how}){more}",
            situation.name(),
            layout.name()
        )
    }

    fn worth_of_log_drive(&self, cases: &[Case], layout: Layout, name: &str) -> String {
        let of = |log_drive, load| {
            let own = cases.iter().filter(move |case| {
                case.layout == layout && case.log_drive == log_drive && case.load == load
            });
            own.map(|case| &case.measured).collect::<Vec<_>>()
        };
        let worth = LOADS.map(|load| {
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
            let comparable = pairs().filter(|(without, with)| without.saturated == with.saturated);
            let each = comparable.map(|(without, _)| Quantity::of(without, self.closed_loop));
            let quantity = Quantity::common(each).unwrap_or(Quantity::Throughput);
            format!(
                "at {} {}",
                load_name(load),
                quantity.compared(mean, "that without one", "without one")
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
pub fn load_name(load: u64) -> &'static str {
    match load {
        1 => "the trace's load",
        _ => "twice the load",
    }
}
