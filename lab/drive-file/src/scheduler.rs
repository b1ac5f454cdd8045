//! Names of the schedulers.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// A rule for the order of service.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Scheduler {
    /// First come, first served.
    #[default]
    Fcfs,
    /// The nearest cylinder (shortest seek time first).
    Sstf,
    /// The arm sweeps in both directions and turns at the last request (LOOK, the elevator).
    Scan,
    /// The arm sweeps in one direction and then returns to the first request.
    CLook,
    /// Between SSTF (0) and SCAN (1): a turn costs this share of all cylinders (Geist and Daniel).
    VR(f64),
    /// Shortest positioning time first: seek and rotation.
    Sptf,
}

impl FromStr for Scheduler {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        if let Some(share) = lower.strip_prefix("vr:") {
            return match share.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self::VR(share)),
                _ => Err(format!("'{share}' in '{text}' is not a number from 0 to 1")),
            };
        }
        match lower.as_str() {
            "fcfs" => Ok(Self::Fcfs),
            "sstf" => Ok(Self::Sstf),
            "scan" | "look" => Ok(Self::Scan),
            "clook" | "c-look" => Ok(Self::CLook),
            "vr" => Ok(Self::VR(0.2)),
            "sptf" => Ok(Self::Sptf),
            _ => Err(format!(
                "'{text}' is none of fcfs, sstf, scan, clook, vr:0..1, sptf"
            )),
        }
    }
}

impl TryFrom<String> for Scheduler {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fcfs => f.write_str("fcfs"),
            Self::Sstf => f.write_str("sstf"),
            Self::Scan => f.write_str("scan"),
            Self::CLook => f.write_str("clook"),
            Self::VR(share) => write!(f, "vr:{share}"),
            Self::Sptf => f.write_str("sptf"),
        }
    }
}
