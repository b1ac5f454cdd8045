//! `tonearm check`: verifies a store that is not in use. With `--repair`, repairs what can be repaired.
//!
//! Every run begins with an inspection, which finds damage without changing anything. A repair then opens the store for
//! writing, which recovers it, and treats the damaged groups.

mod content;

use self::content::{Files, Lists};
use super::exit_code::DAMAGED;
use super::scrub::show_damage;
use crate::cli::Check;
use crate::control::{ArrayInfo, DamagedGroup};
use anyhow::Context;
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;
use tonearm_base::BufPool;
use tonearm_device::Redundancy;
use tonearm_engine::{Engine, Inspection, OpenOptions};
use tonearm_layout::RepairOptions;
use tonearm_rt::Rt;
use tonearm_store::{Access, Executor, Opened, StoreError};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;

/// Memory of a rebuild.
const REBUILD_BYTES: usize = 64 << 20;

/// Checks the store, and repairs it if asked to.
///
/// # Errors
/// When the store cannot be inspected, or a device fails.
pub fn run(arguments: Check) -> anyhow::Result<ExitCode> {
    let rebuilt = if arguments.rebuild {
        Some(rebuild(&arguments).map_err(advise_scrub)?)
    } else {
        None
    };
    let mut findings = look(&arguments).map_err(advise_scrub)?;
    findings.rebuilt = rebuilt;
    let store = arguments.path.display().to_string();
    for warning in findings
        .array
        .iter()
        .flat_map(|a| a.warnings(&store, false))
    {
        report::note(warning);
    }
    if findings.is_degraded() && !findings.clean {
        report::note(
            "stripes of the degraded array that the crash interrupted are completed by an opening for writing; what is \
             found in them before that may be no damage",
        );
    }
    if arguments.repair && !(findings.clean && findings.is_sound()) {
        if findings.is_degraded() && findings.clean {
            report::note("the repair writes; a member that is missing is stale from then on");
        }
        findings.repair = Some(repair(&arguments, &findings)?);
    }
    if arguments.json {
        report::json(&findings)?;
    } else {
        show(&findings)?;
    }
    let sound = match &findings.repair {
        None => findings.is_sound(),
        Some(repair) => repair.remaining.is_empty(),
    };
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DAMAGED)
    })
}

/// Refuses a store that is served.
fn advise_scrub(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<StoreError>() {
        Some(StoreError::Member(tonearm_uring::MemberError::InUse { .. })) => {
            anyhow::anyhow!("{error}; `tonearm scrub` verifies a store that is being served")
        }
        _ => error,
    }
}

#[derive(Serialize, Default)]
struct Findings {
    store: String,
    clean: bool,
    sound: bool,
    superblocks: Vec<Superblocks>,
    log: Log,
    volume_problems: Vec<String>,
    groups: u64,
    blocks: u64,
    damaged: Vec<DamagedGroup>,
    repair: Option<Repair>,
    rebuilt: Option<Rebuilt>,
    /// Segments whose summaries do not agree with the block map.
    map_problems: Vec<String>,
    /// `None` when they were not checked.
    lists: Option<Lists>,
    /// `None` when they were not checked, or the store has no file system.
    files: Option<Files>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<ArrayInfo>,
}

#[derive(Serialize)]
struct Rebuilt {
    partial_segments: u64,
    blocks: u64,
    damaged: u64,
}

#[derive(Serialize)]
struct Superblocks {
    member: String,
    valid_slots: u64,
    damaged_slots: Vec<u64>,
    unreadable_slots: Vec<Unreadable>,
}

#[derive(Serialize)]
struct Unreadable {
    slot: u64,
    offset: u64,
    error: String,
}

#[derive(Serialize, Default)]
struct Log {
    records: u64,
    commits: u64,
    blocks: u64,
    discarded_records: u64,
    end: String,
    damage: Option<String>,
}

#[derive(Serialize, Default)]
struct Repair {
    log_given_up: bool,
    /// The content of the damage, as far as it is known.
    given_up: Option<GivenUp>,
    tables_rewritten: u64,
    blocks_unverified: u64,
    /// Blocks and tables that the array has computed.
    from_parity: u64,
    remaining: Vec<String>,
}

#[derive(Serialize)]
struct GivenUp {
    /// Number of commits known, from `first_lsn` to `last_lsn`; 0 when none is known.
    commits: u64,
    first_lsn: u64,
    last_lsn: Option<u64>,
    /// Records after the damage that could be read.
    records: u64,
}

impl Findings {
    /// A crash may cut a superblock update short, but makes no slot unreadable. In a clean store all copies are whole.
    fn superblocks_sound(&self) -> bool {
        self.superblocks.iter().all(|member| {
            member.unreadable_slots.is_empty() && (!self.clean || member.damaged_slots.is_empty())
        })
    }

    fn is_degraded(&self) -> bool {
        self.array.as_ref().is_some_and(|array| array.degraded)
    }

    fn is_sound(&self) -> bool {
        self.superblocks_sound()
            && self.log.damage.is_none()
            && self.volume_problems.is_empty()
            && self.map_problems.is_empty()
            && self.damaged.is_empty()
            && self
                .lists
                .as_ref()
                .is_none_or(|lists| lists.problems.is_empty())
            && self
                .files
                .as_ref()
                .is_none_or(|files| files.problems.is_empty())
    }
}

/// Opens the members, does `work` on them, and releases them.
fn with_members<T: 'static, F>(
    arguments: &Check,
    access: Access,
    work: impl FnOnce(Rt, BufPool, Opened) -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>> + 'static,
{
    let executor = Executor::new()?;
    let (path, places) = (&arguments.path, (&arguments.members).into());
    let opened = tonearm_store::open_members(&executor, path, &places, access)?;
    let Executor { rt, pool, .. } = executor;
    let result = rt.block_on(work(rt.clone(), pool, opened));
    // Tasks of an engine and the executor hold each other, and with them the members, which are locked.
    rt.shut_down();
    result
}

fn look(arguments: &Check) -> anyhow::Result<Findings> {
    with_members(arguments, Access::Read, look_at)
}

async fn look_at(rt: Rt, pool: BufPool, opened: Opened) -> anyhow::Result<Findings> {
    let superblocks = opened.devices.iter().zip(&opened.superblocks);
    let superblocks: Vec<Superblocks> = superblocks
        .map(|(device, found)| Superblocks {
            member: device.path.clone(),
            valid_slots: found.valid_slots,
            damaged_slots: found.damaged_slots.clone(),
            unreadable_slots: found
                .unreadable_slots
                .iter()
                .map(|unreadable| Unreadable {
                    slot: unreadable.slot,
                    offset: unreadable.offset,
                    error: unreadable.error.to_string(),
                })
                .collect(),
        })
        .collect();
    let mut bar = Progress::new("reading the log", Unit::Count);
    let progress = |done, total| bar.at(done, total);
    let look = Inspection::start(&rt, &pool, opened.devices.clone(), progress).await?;
    drop(bar);
    let array = opened.array.as_ref().and_then(Redundancy::status);
    let (entries, volume_problems) = look.volumes().await;
    let log = look.log();
    let mut findings = Findings {
        store: report::uuid(look.superblock().store),
        clean: log.clean,
        superblocks,
        log: Log {
            records: log.records,
            commits: log.commits,
            blocks: log.blocks,
            discarded_records: log.discarded_records,
            end: log.end.clone(),
            damage: log.damage.as_ref().map(ToString::to_string),
        },
        volume_problems,
        array: array.as_ref().map(ArrayInfo::of),
        ..Findings::default()
    };
    let mut bad = BTreeSet::new();
    let mut bar = Progress::new("checking", Unit::Count);
    for group in 0..look.groups() {
        let found = look.check_group(group).await?;
        findings.groups += 1;
        findings.blocks += found.allocated;
        bad.extend(found.bad.iter().map(|bad| bad.block));
        let block_size = look.superblock().block_size;
        findings
            .damaged
            .extend(DamagedGroup::of(&found, &entries, block_size));
        bar.at(group + 1, look.groups());
    }
    let mut bar = Progress::new("comparing summaries", Unit::Count);
    let problems = look.check_map(|done, total| bar.at(done, total)).await?;
    drop(bar);
    findings.map_problems = problems.iter().map(ToString::to_string).collect();
    drop(look);
    // A damaged log has no end up to which the lists would be right, and a degraded array computes what it lacks from stripes that
    // the crash may have interrupted.
    let is_known = findings.log.damage.is_none() && !findings.is_degraded();
    (findings.lists, findings.files) = match (findings.clean, is_known) {
        (true, _) => content::verify(&rt, &pool, opened.devices, &bad).await,
        (false, true) => content::verify_recovered(&rt, &pool, opened.devices, &bad).await,
        (false, false) => (None, None),
    };
    findings.sound = findings.is_sound();
    Ok(findings)
}

/// Makes the block map anew, before any other check.
fn rebuild(arguments: &Check) -> anyhow::Result<Rebuilt> {
    with_members(arguments, Access::Write, async move |rt, pool, members| {
        let mut bar = Progress::new("reading summaries", Unit::Count);
        let progress = |done, total| bar.at(done, total);
        let report =
            tonearm_engine::rebuild_map(&rt, &pool, members.devices, REBUILD_BYTES, progress)
                .await?;
        Ok(Rebuilt {
            partial_segments: report.partials,
            blocks: report.blocks,
            damaged: report.damaged,
        })
    })
}

fn repair(arguments: &Check, findings: &Findings) -> anyhow::Result<Repair> {
    let give_up = findings.log.damage.is_some();
    let options = OpenOptions {
        give_up_damaged_log: give_up,
        ..OpenOptions::default()
    };
    let groups: Vec<u64> = findings
        .damaged
        .iter()
        .map(|damaged| damaged.group)
        .collect();
    let mut repair = Repair {
        log_given_up: give_up,
        remaining: findings.volume_problems.clone(),
        ..Repair::default()
    };
    let work = async move |rt: Rt, pool: BufPool, members: Opened| {
        let devices = members.devices.clone();
        let engine = Engine::open(&rt, &pool, members.devices, options, |_| {}).await?;
        repair.given_up = engine.recovery().given_up.map(|given_up| GivenUp {
            commits: given_up.commits(),
            first_lsn: given_up.first.0,
            last_lsn: (given_up.commits() > 0).then_some(given_up.last.0),
            records: given_up.records,
        });
        let mut bar = Progress::new("repairing", Unit::Count);
        for (done, group) in groups.iter().enumerate() {
            let failed = || format!("cannot repair group {group}");
            // What the array can compute is right. The other repairs write what is left of the group.
            if let Some(parity) = engine.home().parity() {
                let repaired = parity.scrub_group(*group).await;
                repair.from_parity += repaired.with_context(failed)?.repaired;
            }
            let result = engine
                .home()
                .repair_group(*group, RepairOptions::default())
                .await;
            let report = result.with_context(failed)?;
            repair.tables_rewritten += report.slots_rewritten;
            repair.blocks_unverified += report.unverified;
            repair
                .remaining
                .extend(report.remaining.iter().map(|bad| bad.error.to_string()));
            bar.at(done as u64 + 1, groups.len() as u64);
        }
        // Opening and closing write every copy of the superblock anew.
        engine.close().await?;
        let (lists, files) = content::verify(&rt, &pool, devices, &BTreeSet::new()).await;
        let problems = lists.into_iter().flat_map(|lists| lists.problems);
        repair.remaining.extend(problems);
        let problems = files.into_iter().flat_map(|files| files.problems);
        repair.remaining.extend(problems);
        Ok(repair)
    };
    with_members(arguments, Access::Write, work)
}

fn show(findings: &Findings) -> anyhow::Result<()> {
    show_superblocks(findings)?;
    show_log(findings)?;
    if let Some(rebuilt) = &findings.rebuilt {
        report::line(format_args!(
            "rebuilt the block map from {} partial segments: {} blocks, of which {} are damaged",
            report::count(rebuilt.partial_segments),
            report::count(rebuilt.blocks),
            report::count(rebuilt.damaged)
        ))?;
    }
    for problem in &findings.map_problems {
        report::line(format_args!("damage: {problem}"))?;
    }
    for problem in &findings.volume_problems {
        report::line(format_args!("damage: {problem}"))?;
    }
    report::line(format_args!(
        "verified {} blocks in {} groups",
        report::count(findings.blocks),
        report::count(findings.groups)
    ))?;
    show_damage(&findings.damaged)?;
    content::show(findings)?;
    match &findings.repair {
        None if findings.is_sound() && findings.is_degraded() => {
            report::line("no damage found, but the array is DEGRADED")?;
        }
        None if findings.is_sound() => report::line("no damage found")?,
        None => report::line("damage found; --repair repairs what it can")?,
        Some(repair) => show_repair(repair, findings.is_degraded())?,
    }
    Ok(())
}

fn show_superblocks(findings: &Findings) -> anyhow::Result<()> {
    for member in &findings.superblocks {
        let damaged = member.damaged_slots.len();
        let text = format!(
            "{}: {} copies of the superblock are whole",
            member.member, member.valid_slots
        );
        match (damaged, findings.clean) {
            (0, _) => report::line(text)?,
            (_, true) => report::line(format_args!("damage: {text}, {damaged} are not"))?,
            (_, false) => report::line(format_args!(
                "{text}, {damaged} were cut short by the crash or lost"
            ))?,
        }
    }
    for member in &findings.superblocks {
        for Unreadable {
            slot,
            offset,
            error,
        } in &member.unreadable_slots
        {
            report::line(format_args!(
                "damage: {}: copy {slot} of the superblock, at byte {offset}, cannot be read: {error}",
                member.member
            ))?;
        }
    }
    Ok(())
}

fn show_log(findings: &Findings) -> anyhow::Result<()> {
    let log = &findings.log;
    match (&log.damage, findings.clean) {
        (Some(damage), _) => report::line(format_args!("damage: the log: {damage}"))?,
        (None, true) => report::line("the store was shut down in order; its log is empty")?,
        (None, false) => report::line(format_args!(
            "the store was not shut down in order; the log holds {} commits of {} blocks for recovery ({})",
            report::count(log.commits),
            report::count(log.blocks),
            log.end
        ))?,
    }
    Ok(())
}

fn show_repair(repair: &Repair, degraded: bool) -> anyhow::Result<()> {
    if repair.log_given_up {
        report::line("repaired: the log up to its damage was recovered, the rest was given up")?;
    }
    match &repair.given_up {
        Some(GivenUp {
            commits,
            first_lsn,
            last_lsn: Some(last_lsn),
            records,
        }) => report::line(format_args!(
            "given up: {} commits, numbers {first_lsn} to {last_lsn}, of which {} records could be read; some of them may never have been durable",
            report::count(*commits),
            report::count(*records)
        ))?,
        Some(GivenUp { first_lsn, .. }) => report::line(format_args!(
            "given up: commits from number {first_lsn} on, if there were any; no later one is known of"
        ))?,
        None => {}
    }
    if repair.from_parity > 0 {
        report::line(format_args!(
            "repaired: {} blocks and tables, from the other members of the array",
            report::count(repair.from_parity)
        ))?;
    }
    if repair.tables_rewritten > 0 {
        report::line(format_args!(
            "repaired: {} copies of checksum tables",
            repair.tables_rewritten
        ))?;
    }
    if repair.blocks_unverified > 0 {
        report::line(format_args!(
            "repaired: {} blocks got a checksum of what they hold now; whether that content is right is unknown",
            repair.blocks_unverified
        ))?;
    }
    for remaining in &repair.remaining {
        report::line(format_args!("still damaged: {remaining}"))?;
    }
    if repair.remaining.is_empty() {
        report::line(if degraded {
            "no damage is left and the store is shut down in order, but the array is DEGRADED"
        } else {
            "the store is whole again and shut down in order"
        })?;
    }
    Ok(())
}
