//! Describes the machine, and measures what other programs do on it during a sample.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Description of the machine on which a run was made.
#[derive(Serialize)]
pub struct Machine {
    cores: usize,
    memory_gib: u64,
    cpu: String,
    kernel: String,
    file_system: String,
    peers: String,
}

impl Machine {
    /// The description in one line.
    pub fn line(&self) -> String {
        let (cores, cpu, memory) = (self.cores, &self.cpu, self.memory_gib);
        let (kernel, file_system) = (&self.kernel, &self.file_system);
        let mut line =
            format!("{cores} cores ({cpu}), {memory} GiB, Linux {kernel}, {file_system}");
        if !self.peers.is_empty() {
            line = format!("{line}; {}", self.peers);
        }
        line
    }
}

/// Describes this machine. `dir` is on the measured file system, and `peers` are the programs that take part.
pub fn describe(dir: &Path, peers: &[&str]) -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory_kib: u64 = memory
        .split(' ')
        .next()
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0);
    let first_line = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&text)
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    Machine {
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gib: memory_kib.div_ceil(1 << 20),
        cpu: field(&read("/proc/cpuinfo"), "model name"),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        file_system: first_line("stat", &["-f", "-c", "%T", &dir.display().to_string()]),
        peers: peers
            .iter()
            .map(|tool| first_line(tool, &["--version"]))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Load average of the last minute.
fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0.0)
}

/// Activity of other programs around a sample.
#[derive(Clone, Copy, Serialize)]
pub struct Surroundings {
    /// Load average before the sample.
    pub load_average: f64,
    /// Cores that other programs used during the sample.
    pub others_cores: f64,
}

impl Surroundings {
    /// True when other programs used less than `QUIET_CORES_MAX`.
    pub fn quiet(&self) -> bool {
        self.others_cores < QUIET_CORES_MAX
    }

    /// Text for the line of a sample.
    pub fn line(&self) -> String {
        let Self {
            load_average,
            others_cores,
        } = self;
        let note = if self.quiet() { "" } else { " (not quiet)" };
        format!("load {load_average:.2}, others {others_cores:.2} cores{note}")
    }
}

/// Measures the surroundings of a sample.
pub struct Watch {
    load_average: f64,
    others: Others,
}

impl Watch {
    /// Waits for a quiet machine, for at most `limit`, and begins.
    pub fn begin(limit: Duration) -> Self {
        wait_for_quiet(limit);
        Self {
            load_average: load_average(),
            others: Others::now(),
        }
    }

    /// The surroundings since `begin`.
    pub fn end(&self) -> Surroundings {
        Surroundings {
            load_average: self.load_average,
            others_cores: self.others.cores_since(),
        }
    }
}

/// Clock ticks in a second that /proc counts in (USER_HZ, fixed by the kernel's interface).
const TICKS: f64 = 100.0;

/// Processor time that process `pid` has used.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Stat::parse(&stat).map_or(0.0, |stat| stat.own_ticks as f64 / TICKS)
}

/// Most memory that process `pid` has used, in bytes.
pub fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = kib.and_then(|kib| kib.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

struct Stat {
    parent: u32,
    flags: u64,
    own_ticks: u64,
    children_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The process's name, in parentheses, may contain any character.
        let rest = &text[text.rfind(')')? + 2..];
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            flags: number(6)?,
            own_ticks: number(11)? + number(12)?,
            children_ticks: number(13)? + number(14)?,
        })
    }
}

const KERNEL_THREAD: u64 = 0x0020_0000;

/// Ticks used by processes that belong neither to this program nor to the kernel.
struct Others {
    at: Instant,
    /// For each process: its own ticks, and its ticks with those of the children that it has waited for.
    ticks: BTreeMap<u32, (u64, u64)>,
}

impl Others {
    /// Reads the counters.
    fn now() -> Self {
        let mut stats = BTreeMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            if let Some(stat) = Stat::parse(&text) {
                stats.insert(pid, stat);
            }
        }
        // Own processes are this process and its descendants. A child may have a lower pid than its parent.
        let mut ours = BTreeSet::from([std::process::id()]);
        loop {
            let before = ours.len();
            let more = stats.iter().filter(|(_, stat)| ours.contains(&stat.parent));
            let more: Vec<u32> = more.map(|(pid, _)| *pid).collect();
            ours.extend(more);
            if ours.len() == before {
                break;
            }
        }
        let ticks = stats
            .iter()
            .filter(|(pid, stat)| !ours.contains(pid) && stat.flags & KERNEL_THREAD == 0)
            .map(|(pid, stat)| (*pid, (stat.own_ticks, stat.own_ticks + stat.children_ticks)))
            .collect();
        Self {
            at: Instant::now(),
            ticks,
        }
    }

    /// Cores that other programs have used since `self` was taken.
    fn cores_since(&self) -> f64 {
        let now = Self::now();
        // When a process ends, its parent takes over its time, so the sum over all processes keeps it. If no parent has
        // waited for it, the sum falls. The time of the processes that still live is therefore used as a lower bound.
        let sum = |others: &Self| others.ticks.values().map(|(_, all)| *all).sum::<u64>();
        let own = |others: &Self, pid: &u32| others.ticks.get(pid).map_or(0, |(own, _)| *own);
        let living = now
            .ticks
            .keys()
            .map(|pid| own(&now, pid).saturating_sub(own(self, pid)));
        let used = living.sum::<u64>().max(sum(&now).saturating_sub(sum(self)));
        let cores = used as f64 / TICKS / (now.at - self.at).as_secs_f64().max(1e-3);
        // A process that ends between reading it and reading its parent is counted twice.
        cores.min(std::thread::available_parallelism().map_or(1.0, |all| usize::from(all) as f64))
    }
}

/// A sample counts as quiet when others use less than this share of a core.
const QUIET_CORES_MAX: f64 = 0.10;

/// Waits until other programs use less than `QUIET_CORES_MAX`, for at most `limit`.
fn wait_for_quiet(limit: Duration) {
    let began = Instant::now();
    while began.elapsed() < limit {
        let others = Others::now();
        std::thread::sleep(Duration::from_millis(300));
        if others.cores_since() < QUIET_CORES_MAX {
            return;
        }
    }
}
