//! Reports what happens to a served store on standard error, at the moment when it happens: failed drives, damaged
//! blocks, full file systems, and requests that take too long.

use anyhow::bail;
use tonearm_base::Nanos;
use tonearm_device::raid::Trouble;
use tonearm_disk::{Disk, EventClass, Events};
use tonearm_requests::UnderWay;
use tonearm_rt::Rt;
use tonearm_store::{Executor, MemberLoad};
use tonearm_terminal::report;

/// Reports events from now on, and those of single places since the opening.
pub fn report_events(rt: &Rt, disk: &Disk) {
    let events = disk.engine().events();
    for class in EventClass::ALL {
        let seen = match class {
            // The opening has reported the state that it ended with.
            EventClass::State => events.count(class),
            EventClass::Space | EventClass::Damage => 0,
        };
        rt.spawn_detached(report_class(rt.clone(), events.clone(), class, seen));
    }
}

async fn report_class(rt: Rt, events: Events, class: EventClass, mut seen: u64) {
    loop {
        let changed = events.changed();
        let lines = unseen(&events, class, seen);
        seen = events.count(class);
        if lines.is_empty() {
            changed.await;
            continue;
        }
        lines.into_iter().for_each(report::note);
        rt.sleep(pause_after(class)).await;
    }
}

/// Shortest time between two reports of a class. Those of a state are few, and each is reported at once.
fn pause_after(class: EventClass) -> Nanos {
    match class {
        EventClass::State => Nanos(0),
        EventClass::Space | EventClass::Damage => Nanos::from_secs(10),
    }
}

/// The lines for what came after `seen` events: each change of state, and of others the last one with their number.
fn unseen(events: &Events, class: EventClass, seen: u64) -> Vec<String> {
    let unseen = events.unseen(class, seen);
    let mut lines = unseen.last.iter().map(ToString::to_string);
    match (class, unseen.count) {
        (EventClass::State, _) | (_, 0 | 1) => lines.collect(),
        (_, count) => {
            let more = report::count(count - 1);
            let last = lines.next_back();
            last.map(|line| format!("{line} ({more} more since the last line of this kind)"))
                .into_iter()
                .collect()
        }
    }
}

/// Age of a request from which on it is reported, and how often that is looked at.
const STALL: Nanos = Nanos::from_secs(5);
const STALL_CHECK_EVERY: Nanos = Nanos::from_secs(1);

/// Reports when the oldest request is older than [`STALL`], and when that is over.
pub fn report_stalls(executor: &Executor, disk: &Disk, under_way: &UnderWay) {
    let (rt, loads) = (executor.rt.clone(), executor.loads.clone());
    let (disk, under_way) = (disk.clone(), under_way.clone());
    executor.rt.spawn_detached(async move {
        let mut stall = Stall::default();
        loop {
            rt.sleep(STALL_CHECK_EVERY).await;
            let oldest = under_way.oldest().map(|arrived| rt.now().since(arrived));
            let line = stall.line(rt.now(), oldest, || Stalled {
                requests: under_way.count(),
                waits_for_space: disk.stats().waiting_for_space,
                members: loads.list(),
            });
            line.into_iter().for_each(report::note);
        }
    });
}

/// What is known while the oldest request waits.
struct Stalled {
    requests: usize,
    waits_for_space: bool,
    members: Vec<MemberLoad>,
}

impl Stalled {
    fn line(&self, age: Nanos) -> String {
        let Self {
            requests,
            waits_for_space,
            members,
        } = self;
        let stuck = members
            .iter()
            .filter(|member| member.stalled >= STALL_CHECK_EVERY);
        let stuck: Vec<String> = stuck
            .map(|member| {
                format!(
                    "{} has ended none of {} requests for {}",
                    member.path,
                    member.under_way,
                    report::span(member.stalled.0)
                )
            })
            .collect();
        let why = match (waits_for_space, stuck.is_empty()) {
            (true, _) => "there is no space left below the store; free some".to_string(),
            (false, true) => {
                "no drive stands still; `tonearm stats` shows how full log and memory are".into()
            }
            (false, false) => format!("{}: look after the drive", stuck.join(", ")),
        };
        format!(
            "the oldest of {requests} requests has waited for {}: {why}",
            report::span(age.0)
        )
    }
}

/// A stall that was reported, if there is one.
#[derive(Default)]
struct Stall {
    /// The arrival of the request that was reported.
    since: Option<Nanos>,
}

impl Stall {
    /// The line for `oldest`, the age of the oldest request at `now`: one when a stall begins, and one when it is over.
    fn line(
        &mut self,
        now: Nanos,
        oldest: Option<Nanos>,
        stalled: impl FnOnce() -> Stalled,
    ) -> Option<String> {
        let age = oldest.filter(|age| *age >= STALL);
        match (self.since, age) {
            (None, Some(age)) => {
                self.since = Some(Nanos(now.0.saturating_sub(age.0)));
                Some(stalled().line(age))
            }
            (Some(since), None) => {
                self.since = None;
                let span = report::span(now.since(since).0);
                Some(format!("requests are answered again, after {span}"))
            }
            _ => None,
        }
    }
}

/// Lines of what has happened, for `stats`. Whether there is space below the store is a number there.
pub fn kept(disk: &Disk) -> Vec<String> {
    let events = disk.engine().events();
    let lasting = [EventClass::State, EventClass::Damage].into_iter();
    lasting.flat_map(|class| unseen(events, class, 0)).collect()
}

/// Whether a store that was closed in order is as it was opened.
///
/// # Errors
/// When a member has failed meanwhile and was not replaced: whoever started the server must know.
pub fn check_members(disk: &Disk) -> anyhow::Result<()> {
    let members = disk.engine().array().map(|array| array.members);
    for member in members.into_iter().flatten() {
        if let Some(Trouble::Failed(error)) = member.trouble {
            bail!(
                "the store was closed in order, but the array is DEGRADED: {} has failed ({error}) while the store was in \
                 use; put a new file or device in its place with `tonearm member replace`",
                member.name
            );
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "watch_test.rs"]
mod watch_test;
