//! Independent accesses to pages, some of which are hotter than others.
//!
//! A skew is the function w(h): the share of the accesses that goes to the hottest share h of the pages (HyLog, section
//! 3.5). The accesses are drawn by the inverse of w, and a random permutation puts the hot pages anywhere.

use crate::access::{Access, Workload, WorkloadError};
use crate::permutation::Permutation;
use crate::random::Random;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How uneven the accesses are. `p` is the share of the accesses that goes to the share 1 - p of the pages, from 0.5 to
/// 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Skew {
    /// Every page alike.
    Uniform,
    /// Two classes: `p` of the accesses go to the share 1 - `p` of the pages, evenly within each class.
    HotCold {
        /// From 0.5 up to, but without, 1.
        p: f64,
    },
    /// Knuth, The Art of Computer Programming, volume 3, page 400: w(h) = h^theta, theta = ln p / ln(1 - p).
    Knuth {
        /// From 0.5 up to, but without, 1.
        p: f64,
    },
    /// Stands in for the distribution that HyLog takes from Hsu, Smith and Young (2001). The formula's image is lost in
    /// the text of the paper. This is Hill's function w(h) = (1 + k) h / (k + h), with k = (1 - p)^2 / (2p - 1), so
    /// that w(1 - p) = p. It has the same 80-20 points as Knuth's with a flatter head and a flatter tail.
    Hsu {
        /// Above 0.5, below 1.
        p: f64,
    },
}

impl Skew {
    /// w(h): the share of the accesses that goes to the hottest share `h` of the pages, 0 to 1.
    pub fn share(self, h: f64) -> f64 {
        let h = h.clamp(0.0, 1.0);
        match self {
            Self::Uniform => h,
            Self::HotCold { p } if h <= 1.0 - p => h * p / (1.0 - p),
            Self::HotCold { p } => p + (h - (1.0 - p)) * (1.0 - p) / p,
            Self::Knuth { p } => h.powf(theta(p)),
            Self::Hsu { p } => (1.0 + hill(p)) * h / (hill(p) + h),
        }
    }

    /// The inverse of w, ready to draw from.
    fn draw(self) -> Draw {
        match self {
            Self::Uniform => Draw::Uniform,
            Self::HotCold { p } => Draw::HotCold { p },
            Self::Knuth { p } => Draw::Power(1.0 / theta(p)),
            Self::Hsu { p } => Draw::Hill(hill(p)),
        }
    }
}

/// Knuth's exponent.
fn theta(p: f64) -> f64 {
    p.ln() / (1.0 - p).ln()
}

/// Hill's constant.
fn hill(p: f64) -> f64 {
    (1.0 - p) * (1.0 - p) / (2.0 * p - 1.0)
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, p) = match self {
            Self::Uniform => return f.write_str("uniform"),
            Self::HotCold { p } => ("hot-cold", p),
            Self::Knuth { p } => ("knuth", p),
            Self::Hsu { p } => ("hsu", p),
        };
        // Rounded, because 100 - 90.1 is not 9.9 in binary.
        let percent = |share: f64| (share * 1e8).round() / 1e6;
        write!(f, "{name}:{}-{}", percent(*p), percent(1.0 - p))
    }
}

/// A text that is no skew.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[error(
    "'{0}' is no skew: write uniform, hot-cold:90-10, knuth:80-20 or hsu:80-20; the two percentages make \
     100, the first is at least 50 and below 100"
)]
pub struct BadSkew(String);

impl FromStr for Skew {
    type Err = BadSkew;

    fn from_str(text: &str) -> Result<Self, BadSkew> {
        let bad = || BadSkew(text.to_string());
        if text == "uniform" {
            return Ok(Self::Uniform);
        }
        let (name, shares) = text.split_once(':').ok_or_else(bad)?;
        let (hot, cold) = shares.split_once('-').ok_or_else(bad)?;
        let number = |text: &str| text.parse::<f64>().map_err(|_| bad());
        let (hot, cold) = (number(hot)?, number(cold)?);
        // Also false for numbers that are not finite.
        let right = (hot + cold - 100.0).abs() < 1e-6 && (50.0..100.0).contains(&hot) && cold > 0.0;
        let p = hot / 100.0;
        match name {
            "hot-cold" if right => Ok(Self::HotCold { p }),
            "knuth" if right => Ok(Self::Knuth { p }),
            // At 50-50 Hill's constant is infinite.
            "hsu" if right && hot > 50.0 => Ok(Self::Hsu { p }),
            _ => Err(bad()),
        }
    }
}

/// An inverse of w.
#[derive(Clone, Copy)]
enum Draw {
    Uniform,
    HotCold { p: f64 },
    Power(f64),
    Hill(f64),
}

impl Draw {
    /// The h with w(h) = `w`.
    #[inline]
    fn at(self, w: f64) -> f64 {
        match self {
            Self::Uniform => w,
            Self::HotCold { p } if w < p => w / p * (1.0 - p),
            Self::HotCold { p } => (1.0 - p) + (w - p) / (1.0 - p) * p,
            Self::Power(exponent) => w.powf(exponent),
            Self::Hill(k) => k * w / (1.0 + k - w),
        }
    }
}

/// What [`SkewedPages`] makes.
#[derive(Clone, Debug)]
pub struct SkewOptions {
    /// Size of the page space, at least 1.
    pub pages: u64,
    /// Accesses until the end; `u64::MAX` for no end.
    pub accesses: u64,
    /// Share of the writes among the accesses, 0 to 1.
    pub write_share: f64,
    /// Skew of the reads.
    pub reads: Skew,
    /// Skew of the writes. The hottest page of the writes is also the hottest of the reads.
    pub writes: Skew,
    /// Seed.
    pub seed: u64,
}

/// Independent accesses with a skew.
pub struct SkewedPages {
    pages: u64,
    left: u64,
    write_share: f64,
    reads: Draw,
    writes: Draw,
    permutation: Permutation,
    random: Random,
}

impl SkewedPages {
    /// Starts at the first access.
    pub fn new(options: &SkewOptions) -> Self {
        let pages = options.pages.max(1);
        Self {
            pages,
            left: options.accesses,
            write_share: options.write_share.clamp(0.0, 1.0),
            reads: options.reads.draw(),
            writes: options.writes.draw(),
            permutation: Permutation::new(pages, &mut Random::new(options.seed, 0)),
            random: Random::new(options.seed, 1),
        }
    }

    /// The page with this rank by heat, 0 for the hottest.
    pub fn page_of_rank(&self, rank: u64) -> u64 {
        self.permutation.at(rank)
    }
}

impl Workload for SkewedPages {
    fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        // One random number decides both: its place among those of its kind is even again.
        let number = self.random.unit();
        let write = number < self.write_share;
        let place = if write {
            self.writes.at(number / self.write_share)
        } else {
            self.reads
                .at((number - self.write_share) / (1.0 - self.write_share))
        };
        // Rounding may give the number of pages itself.
        let rank = ((place * self.pages as f64) as u64).min(self.pages - 1);
        let page = self.permutation.at(rank);
        Ok(Some(Access {
            page,
            write,
            at: None,
        }))
    }
}
