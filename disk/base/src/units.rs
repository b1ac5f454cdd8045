//! Units as types, so that one number cannot be used in place of another.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl Add<u64> for $name {
            type Output = Self;
            fn add(self, more: u64) -> Self {
                Self(self.0 + more)
            }
        }

        impl AddAssign<u64> for $name {
            fn add_assign(&mut self, more: u64) {
                self.0 += more;
            }
        }

        impl Sub for $name {
            type Output = u64;
            fn sub(self, other: Self) -> u64 {
                self.0 - other.0
            }
        }
    };
}

unit!(
    /// A point in time or a duration, in nanoseconds of the driver's clock (real or virtual).
    Nanos
);
unit!(
    /// Log sequence number: one for each commit, in commit order, over the store's whole life. 0 stands for "before the
    /// first commit".
    Lsn
);
unit!(
    /// Sequence number of a log record; a commit spans one record or several. 0 stands for "before the first record".
    RecordSeq
);

impl Nanos {
    /// A duration of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A duration of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A duration of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// The time since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}
