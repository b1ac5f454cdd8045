//! A store whose home is a RAID-5 array, with a power cut at every I/O.
//!
//! After each cut the store is recovered. Its content must be a prefix of the commit order with everything that was
//! durable, the parity of every stripe must match the data, and with any single member missing all data must read the
//! same. An array that was already degraded must not lose anything either.

use crate::blocks::{BLOCK, FIRST, patient, restless, same, stamps, workload};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::raid::{Missing, Raid5, Raid5Options, Raid5State, Saving, StateSink};
use tonearm_device::{Device, RawDevice};
use tonearm_disk::{CreateParams, MemberDevice, MemberSpace, NewMember, plan_create};
use tonearm_engine::{Engine, OpenOptions};
use tonearm_format::Roles;
use tonearm_rt::{DeviceId, Rt};
use tonearm_sim::Oracle;
use tonearm_world::share;
use tonearm_world::{DiskImage, SimOptions, SimWorld};

#[derive(Clone, Copy)]
struct Plan {
    members: usize,
    unit: u64,
    missing: Option<usize>,
    /// The workload also trims and zeroes ranges.
    trims: bool,
    /// Tracks of the log. With few tracks recovery writes home. With many it can leave everything in the log.
    tracks: u64,
    /// The array writes a parity record for every write, and in each cut a member fails together with the power.
    record_always: bool,
}

#[derive(Clone)]
struct Kept(Rc<RefCell<Raid5State>>);

impl StateSink for Kept {
    fn save(&self, state: Raid5State, _: &[bool]) -> Saving {
        *self.0.borrow_mut() = state;
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// The drives of a store that is not running: the log's, the array's, and the one for parity records.
#[derive(Clone)]
struct Store {
    plan: Plan,
    disks: Vec<DiskImage>,
    state: Raid5State,
}

impl Store {
    fn start(&self, seed: u64) -> (SimWorld, Rt, Kept) {
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let world = SimWorld::new(options, self.disks.clone());
        let rt = Rt::new(world.driver());
        let kept = Kept(Rc::new(RefCell::new(self.state)));
        (world, rt, kept)
    }

    /// Runs `work` on these drives. Returns its result, what is left of them after an orderly switch-off, and after the power cut
    /// `seed`.
    fn run<T: 'static>(
        &self,
        seed: u64,
        work: impl AsyncFnOnce(Rt, Kept, Self) -> T + 'static,
    ) -> (T, Self, Self) {
        let (world, rt, kept) = self.start(seed);
        let (own_rt, own_kept, own) = (rt.clone(), kept.clone(), self.clone());
        let result = rt.block_on(async move { work(own_rt, own_kept, own).await });
        rt.shut_down();
        let left = |disks| Self {
            plan: self.plan,
            disks,
            state: *kept.0.borrow(),
        };
        let (ended, cut) = (left(world.images()), left(world.crash().images(seed)));
        (result, ended, cut)
    }

    /// The log's device and the array.
    async fn devices(&self, rt: &Rt, kept: &Kept) -> (Rc<dyn Device>, Raid5) {
        let raw = |index: usize| -> Rc<dyn Device> {
            let (bytes, name) = (self.disks[index].size, format!("disk-{index}"));
            Rc::new(RawDevice::new(
                rt,
                DeviceId(index as u32),
                bytes,
                512,
                &name,
            ))
        };
        let options = Raid5Options {
            name: "array".into(),
            id: [5; 16],
            unit: self.plan.unit,
            records: Some(raw(self.plan.members + 1)),
            record_always: self.plan.record_always,
            read_only: false,
            accept_loss: false,
        };
        let members = (1..=self.plan.members)
            .map(|index| Some(raw(index)))
            .collect();
        let (pool, sink) = (BufPool::new(1 << 20), Rc::new(kept.clone()));
        let array = Raid5::open(rt, &pool, members, options, self.state, sink)
            .await
            .unwrap();
        (raw(0), array)
    }

    async fn open(
        &self,
        rt: &Rt,
        kept: &Kept,
        options: OpenOptions,
    ) -> Result<(Engine, Raid5), String> {
        let (log, array) = self.devices(rt, kept).await;
        let member = |device: Rc<dyn Device>, path: &str| MemberDevice {
            device,
            path: path.into(),
        };
        let members = vec![member(log, ""), member(Rc::new(array.clone()), "array")];
        let opened = Engine::open(rt, &BufPool::new(1 << 20), members, options, |_| {}).await;
        opened
            .map(|engine| (engine, array))
            .map_err(|error| error.to_string())
    }

    fn create(plan: Plan) -> Self {
        let params = CreateParams {
            log_bytes: Some(plan.tracks * (64 << 10)),
            track_bytes: Some(64 << 10),
            block_size: BLOCK as u32,
            ..CreateParams::new(1200 * BLOCK as u64, *b"a store on raid5")
        };
        let space = |log: bool, path: &str| MemberSpace {
            roles: Roles { log, data: !log },
            available_bytes: None,
            uuid: [1; 16],
            path: path.into(),
        };
        let created = plan_create(&params, &[space(true, ""), space(false, "array")]).unwrap();
        let row = (plan.members as u64 - 1) * plan.unit;
        let member = created.member_bytes[1].div_ceil(row) * plan.unit;
        let mut disks = vec![DiskImage::new(created.member_bytes[0])];
        disks.extend(vec![DiskImage::new(member); plan.members]);
        disks.push(DiskImage::new(24 * (plan.unit + 4096)));
        let clean = Raid5State {
            clean: true,
            missing: None,
        };
        let store = Self {
            plan,
            disks,
            state: clean,
        };
        let ((), mut store, _) = store.run(0, async move |rt, kept, own| {
            let (log, array) = own.devices(&rt, &kept).await;
            let member = |device| NewMember::blank(device);
            let of_array: Rc<dyn Device> = Rc::new(array.clone());
            let (pool, members) = (BufPool::new(0), [member(log), member(of_array)]);
            let made = tonearm_engine::create(&rt, &pool, &created, &members, |_, _| {});
            made.await.unwrap();
            array.close().await.unwrap();
        });
        store.state = Raid5State {
            clean: true,
            missing: plan.missing.map(gone),
        };
        store
    }
}

fn gone(member: usize) -> Missing {
    Missing {
        member,
        rebuilt_rows: 0,
    }
}

#[derive(Default)]
struct Tally {
    points: u64,
    /// Stripes that had wrong parity after a cut.
    fixed: u64,
    records: u64,
    failure: Option<String>,
}

/// Runs a workload on a new store, with a cut at every change of a drive.
fn run(plan: Plan, seed: u64, tally: &Rc<RefCell<Tally>>) {
    let store = Store::create(plan);
    let (world, rt, kept) = store.start(seed);
    let oracle = Rc::new(RefCell::new(Oracle::default()));
    let (own, model, seen, saved) = (store.clone(), oracle.clone(), tally.clone(), kept.clone());
    world.on_io(move |io, crash| {
        if seen.borrow().failure.is_some() {
            return;
        }
        let cut = seed.wrapping_mul(7919) + io;
        let left = Store {
            disks: crash.images(cut),
            state: *saved.0.borrow(),
            ..own.clone()
        };
        let checked = check(&left, &model.borrow(), cut, &mut seen.borrow_mut());
        if let Err(what) = checked {
            let text = format!("seed {seed}, power cut at I/O {io}: {what}");
            seen.borrow_mut().failure = Some(text);
        }
    });
    let own_rt = rt.clone();
    let stats = rt.block_on(async move {
        let rt = own_rt;
        let (engine, array) = store.open(&rt, &kept, restless()).await.unwrap();
        workload(rt, engine.clone(), oracle, plan.trims, seed)
            .await
            .unwrap();
        engine.close().await.unwrap();
        array.close().await.unwrap();
        array.stats()
    });
    world.clear_hook();
    rt.shut_down();
    tally.borrow_mut().records += stats.records;
    assert_eq!(stats.unprotected, 0);
    if let Some(failure) = tally.borrow_mut().failure.take() {
        panic!("{failure}");
    }
}

/// Recovers a store after a cut and verifies all of it.
fn check(left: &Store, oracle: &Oracle, cut: u64, tally: &mut Tally) -> Result<(), String> {
    tally.points += 1;
    let mut left = left.clone();
    if left.plan.record_always {
        left.state.missing = Some(gone(cut as usize % left.plan.members));
    }
    // The power fails again while nothing is being written, and a member fails with it.
    let (of_recovery, _, again) = left.run(cut, async |rt, kept, own| {
        let (engine, array) = own.open(&rt, &kept, patient()).await?;
        let found = stamps(&engine).await?;
        let fixed = array.stats().parity_fixed;
        if own.plan.tracks < 64 {
            // The store writes home at once. The failure of a member comes only after that.
            engine.drain().await.map_err(|error| error.to_string())?;
        }
        if own.state.missing.is_none() && (!own.plan.trims || own.plan.tracks < 64) {
            expect_parity(&array, "after recovery").await?;
        }
        Ok::<_, String>((found, fixed))
    });
    let (expected, fixed) = of_recovery.map_err(|what| format!("recovery: {what}"))?;
    tally.fixed += fixed;
    oracle.judge_from(FIRST, &expected)?;
    let members = 0..left.plan.members;
    let lost: Vec<Option<usize>> = match left.state.missing {
        None => members.clone().map(Some).collect(),
        Some(_) => vec![None],
    };
    for lost in lost {
        let mut again = again.clone();
        again.state.missing = lost.map(gone).or(again.state.missing);
        let found = read_all(&again, cut);
        let found = found.map_err(|what| format!("again, without {lost:?}: {what}"))?;
        same(&found, &expected, "recovered again", lost)?;
    }
    // Everything is written home and the store is closed. Then each member is left out in turn.
    let (closed, ended, _) = again.run(cut, async |rt, kept, own| {
        let (engine, array) = own.open(&rt, &kept, patient()).await?;
        engine.close().await.map_err(|error| error.to_string())?;
        if own.state.missing.is_none() {
            expect_parity(&array, "after the end").await?;
        }
        array.close().await.map_err(|error| error.to_string())
    });
    closed?;
    for lost in members {
        let mut ended = ended.clone();
        if ended.state.missing.is_none() {
            ended.state.missing = Some(gone(lost));
        }
        let found = read_all(&ended, cut);
        let found = found.map_err(|what| format!("ended, without {lost}: {what}"))?;
        same(&found, &expected, "after the end", Some(lost))?;
    }
    Ok(())
}

async fn expect_parity(array: &Raid5, when: &str) -> Result<(), String> {
    match array.check_parity(|_, _| {}).await {
        Ok(0) => Ok(()),
        wrong => Err(format!("parity {when}: {wrong:?}")),
    }
}

fn read_all(store: &Store, seed: u64) -> Result<Vec<u64>, String> {
    let (found, ..) = store.run(seed, async |rt, kept, own| {
        let (engine, _) = own.open(&rt, &kept, patient()).await?;
        stamps(&engine).await
    });
    found
}

fn campaign(plans: &[Plan], seeds: impl IntoIterator<Item = u64>) -> Tally {
    let tally = Rc::new(RefCell::new(Tally::default()));
    for seed in seeds {
        run(plans[seed as usize % plans.len()], seed, &tally);
    }
    Rc::into_inner(tally).unwrap().into_inner()
}

const HEALTHY: Plan = Plan {
    members: 4,
    unit: 16 << 10,
    missing: None,
    trims: false,
    tracks: 64,
    record_always: false,
};

#[test]
fn a_cut_in_mid_stripe_leaves_no_write_hole() {
    let few = Plan {
        tracks: 10,
        ..HEALTHY
    };
    let plans = [
        HEALTHY,
        Plan {
            trims: true,
            ..HEALTHY
        },
        Plan { trims: true, ..few },
        Plan {
            members: 3,
            unit: 4 << 10,
            ..HEALTHY
        },
        Plan {
            members: 3,
            unit: 8 << 10,
            trims: true,
            ..few
        },
    ];
    let seeds = share(0..5);
    let count = seeds.len() as u64;
    let tally = campaign(&plans, seeds);
    println!("{} cuts, {} stripes made right", tally.points, tally.fixed);
    assert!(tally.points > 80 * count, "{} cuts", tally.points);
    assert!(
        tally.fixed > 10 * count,
        "enough cuts must leave wrong parity: {} stripes",
        tally.fixed
    );
}

#[test]
fn a_cut_in_a_degraded_array_loses_nothing() {
    let degraded = |missing| Plan {
        missing: Some(missing),
        trims: missing % 2 == 0,
        ..HEALTHY
    };
    let plans = [
        degraded(0),
        degraded(1),
        Plan {
            unit: 8 << 10,
            ..degraded(2)
        },
        Plan {
            members: 3,
            unit: 32 << 10,
            ..degraded(1)
        },
    ];
    let tally = campaign(&plans, 100..104);
    assert!(tally.points > 400, "{} cuts", tally.points);
    assert!(tally.records > 30, "{} records", tally.records);
    println!("{} cuts, {} records", tally.points, tally.records);
}

#[test]
fn recording_every_write_survives_member_and_power_loss() {
    let plan = Plan {
        record_always: true,
        ..HEALTHY
    };
    let tally = campaign(
        &[
            plan,
            Plan {
                trims: true,
                ..plan
            },
        ],
        200..202,
    );
    assert!(tally.points > 200, "{} cuts", tally.points);
}
