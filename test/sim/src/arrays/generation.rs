//! One opening of a store over an array, with a workload, members that fail, a replacement and a rebuild.

use super::check;
use super::image::{ArrayImage, OpenArray};
use super::plan::{Plan, Rebuild};
use super::pulls::Pulled;
use crate::campaign::Outcome;
use crate::counts::{Counts, Met};
use crate::cut;
use crate::cuts::{self, Broken, Cuts, Next, Opened};
use crate::drives;
use crate::oracle::Oracle;
use crate::workload::{self, SharedOracle, Stop};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_device::Redundancy;
use tonearm_device::raid::{MemberState, RebuildRate};
use tonearm_engine::EngineError;
use tonearm_format::ArrayLevel;
use tonearm_rt::{JoinHandle, Rt};
use tonearm_world::Crash;

/// What a generation begins with.
pub struct Generation<'a> {
    pub image: &'a ArrayImage,
    pub oracle: &'a Oracle,
    pub plan: &'a Rc<Plan>,
    pub ordered: bool,
    pub operations: u64,
}

impl Generation<'_> {
    /// Runs it, with a power cut at each step of its I/O. Returns where the next one begins.
    pub fn run(self, outcome: &mut Outcome) -> Result<Next<Oracle>, Broken> {
        let (plan, ordered) = (self.plan, self.ordered);
        let world = drives::world_of(None, plan.seed, self.image.disks.clone())?;
        let pulled = Pulled::of(&world, &plan.pulls);
        let shared: SharedOracle = Rc::new(RefCell::new(self.oracle.clone()));
        let (own, seen, model, state) = (
            self.image.clone(),
            pulled.clone(),
            shared.clone(),
            shared.clone(),
        );
        let cuts = Cuts::watch(
            &world,
            any(plan, ordered),
            move || state.borrow().clone(),
            move |crash, cut, outcome| {
                let model = model.borrow();
                let left = own.with(cut::images(crash, cut, ordered));
                let gone = seen.failed().first().copied();
                let met = &mut outcome.met;
                let prefix = check::after_cut(&left, &model, cut, ordered, gone, met)?;
                outcome.recovered(prefix, model.last());
                Ok(())
            },
        );
        let met = Rc::new(RefCell::new(Counts::default()));
        let counted = met.clone();
        let (image, operations) = (self.image.clone(), self.operations);
        let next = cuts.run(plan.orderly, outcome, |rt, opened| {
            let live = Live {
                rt,
                image,
                oracle: shared,
                plan: plan.clone(),
                operations,
                pulled,
                opened,
                rebuilt: Rc::default(),
                met: counted,
            };
            live.run()
        });
        outcome.met.add(&met.borrow());
        next
    }
}

/// Random cuts, as [`cuts::any`] chooses them. Where reads of a member fail, none of them garbles sectors: what the array
/// computes in place of a read it writes to the member, and no log has what lies there.
fn any(plan: &Plan, ordered: bool) -> impl FnMut(u64) -> (u64, bool) + 'static {
    let mut choose = cuts::any(plan.seed);
    let whole_sectors = plan.pulls.iter().any(|pull| pull.reads);
    move |step| {
        let (mut cut, next) = choose(step);
        while whole_sectors && Crash::garbles(cut, ordered) {
            cut = cut.wrapping_add(1);
        }
        (cut, next)
    }
}

/// A store in use.
#[derive(Clone)]
struct Live {
    rt: Rt,
    image: ArrayImage,
    oracle: SharedOracle,
    plan: Rc<Plan>,
    operations: u64,
    pulled: Pulled,
    opened: Opened,
    /// A rebuild has restored the member that was lacking at the beginning.
    rebuilt: Rc<Cell<bool>>,
    met: Rc<RefCell<Counts>>,
}

impl Live {
    async fn run(self) -> Result<(), String> {
        let plan = self.plan.clone();
        let open = self.image.open(&self.rt, &plan.away, plan.options.clone());
        let open = match open.await {
            Ok(open) => open,
            // After a crash an array does not open without a member that had data.
            Err(error) if !plan.clean && self.names_a_failed_drive(&error.to_string()) => {
                self.meet(Met::Refused);
                return Ok(());
            }
            Err(error) => return self.excuse("the opening", &error, None),
        };
        *self.opened.borrow_mut() = Some(open.engine.clone());
        self.replace(&open).await?;
        let rebuild = plan
            .rebuild
            .map(|rebuild| self.start_rebuild(&open, rebuild));
        let worked = workload::run(
            self.rt.clone(),
            open.engine.clone(),
            self.oracle.clone(),
            self.image.shape.store,
            plan.seed,
            self.operations,
        );
        let worked = worked.await;
        if let Some(rebuild) = rebuild {
            rebuild.await?;
        }
        if !self.pulled.failed().is_empty() {
            self.meet(Met::Pulled);
        }
        match worked {
            Ok(()) => {}
            Err(Stop::Wrong(what)) => return Err(what),
            Err(Stop::Failed(error)) => return self.excuse("the workload", &error, Some(&open)),
        }
        if plan.orderly {
            let last = self.oracle.borrow().last();
            match open.engine.close().await {
                Ok(()) => self.oracle.borrow_mut().acknowledge(last),
                Err(error) => return self.excuse("the end", &error, Some(&open)),
            }
        }
        Ok(())
    }

    fn meet(&self, what: Met) {
        self.met.borrow_mut().met(what, 1);
    }

    /// Puts the drive of the plan in the place of the missing member.
    async fn replace(&self, open: &OpenArray) -> Result<(), String> {
        let Some((drive, uuid)) = self.plan.replacement else {
            return Ok(());
        };
        match self.image.replace(&self.rt, &open.array, drive, uuid).await {
            Ok(()) => {
                self.meet(Met::Replaced);
                Ok(())
            }
            Err(_) if !self.pulled.failed().is_empty() => Ok(()),
            Err(error) => Err(format!(
                "drive {drive} is refused as a replacement: {error}"
            )),
        }
    }

    /// Rebuilds the missing member during the workload.
    fn start_rebuild(&self, open: &OpenArray, rebuild: Rebuild) -> JoinHandle<Result<(), String>> {
        let rate = RebuildRate::new(rebuild.rate);
        if let Some(after) = rebuild.stop_after {
            let (rt, rate) = (self.rt.clone(), rate.clone());
            self.rt.spawn_detached(async move {
                rt.sleep(after).await;
                rate.stop();
            });
        }
        let (own, open) = (self.clone(), open.clone());
        self.rt.spawn(async move {
            let members = open
                .array
                .status()
                .map_or(Vec::new(), |status| status.members);
            let resumes = members.iter().any(|member| {
                matches!(member.state, MemberState::Rebuilding { rebuilt_rows } if rebuilt_rows > 0)
            });
            if resumes {
                own.meet(Met::Resumed);
            }
            match open.engine.rebuild_array(rate, Box::new(|_, _| {})).await {
                Ok(()) => {
                    own.rebuilt.set(true);
                    own.meet(Met::Rebuilt);
                    Ok(())
                }
                Err(EngineError::Raid(error))
                    if rebuild.stop_after.is_some() && stopped(&error) =>
                {
                    own.meet(Met::Stopped);
                    Ok(())
                }
                // The replacement, or another member, has failed.
                Err(_) if !own.pulled.failed().is_empty() => Ok(()),
                Err(error) => Err(format!("the rebuild fails: {error}")),
            }
        })
    }

    /// True when the array may lack more members than it can do without.
    fn lacks_too_many(&self) -> bool {
        let failed = self.pulled.failed();
        if self.image.shape.level == ArrayLevel::Raid0 {
            return !failed.is_empty();
        }
        let plan = &self.plan;
        let mut lacking: Vec<usize> = plan
            .lacking
            .filter(|_| !self.rebuilt.get())
            .into_iter()
            .collect();
        let at_once = lacking.first().copied();
        for (at, drive) in plan.members.iter().enumerate() {
            let replaces =
                |(replacement, _): (usize, _)| at_once == Some(at) && failed.contains(&replacement);
            let fails = failed.contains(drive) || plan.replacement.is_some_and(replaces);
            if fails && !lacking.contains(&at) {
                lacking.push(at);
            }
        }
        lacking.len() > 1
    }

    /// Accepts an error if the array lacks too many members, and the store says so.
    fn excuse(
        &self,
        what: &str,
        error: &EngineError,
        open: Option<&OpenArray>,
    ) -> Result<(), String> {
        if !self.lacks_too_many() {
            return Err(format!(
                "{what} fails, and the array lacks too few members for that: {error}"
            ));
        }
        self.meet(Met::Lost);
        let failure = open.and_then(|open| open.engine.failure());
        let lost = open
            .and_then(|open| open.array.status())
            .and_then(|status| status.lost);
        let text = match (&lost, &failure) {
            (Some(lost), Some(failure)) if !failure.contains(&lost.to_string()) => {
                return Err(format!(
                    "the store has failed ({failure}), and does not say that {lost}"
                ));
            }
            (_, Some(failure)) => failure.clone(),
            (_, None) => error.to_string(),
        };
        match self.names_a_failed_drive(&text) {
            true => Ok(()),
            false => Err(format!(
                "{what} fails with an error that names no failed member: {text}"
            )),
        }
    }

    fn names_a_failed_drive(&self, text: &str) -> bool {
        let failed = self.pulled.failed();
        let names = |drive: &usize| text.contains(&format!("disk.{drive}"));
        failed.iter().any(names)
    }
}

fn stopped(error: &tonearm_device::raid::RaidError) -> bool {
    matches!(
        error,
        tonearm_device::raid::RaidError::RebuildStopped { .. }
    )
}
