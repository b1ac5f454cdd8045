//! The thread that looks after the engine when nobody waits for it: writes that are under way, write-back, timers.
//!
//! It never waits in the ring, so a caller that meets it has to wait for a short turn at most. While something is
//! under way it looks in every millisecond; after some looks without need it sleeps until the next timer, or until a
//! leader leaves something behind.

use super::{Lead, locked, now};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tonearm_base::Nanos;

/// Between two looks while something is under way.
const EVERY: Duration = Duration::from_millis(1);
/// Looks without need before it sleeps for longer.
const IDLE_LOOKS: u32 = 10;

#[derive(Default)]
pub(crate) struct Keeper {
    /// It sleeps for long, and has to be called.
    deep: AtomicBool,
    orders: Mutex<Orders>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Orders {
    stop: bool,
    /// The last leader left operations under way.
    under_way: bool,
    next_timer: Option<Nanos>,
    /// Until when it sleeps, when it does so for long.
    sleeps_until: Option<Nanos>,
}

impl Keeper {
    /// A leader leaves.
    pub fn note(&self, under_way: bool, next_timer: Option<Nanos>) {
        let mut orders = locked(&self.orders);
        (orders.under_way, orders.next_timer) = (under_way, next_timer);
        let sooner = match (next_timer, orders.sleeps_until) {
            (Some(timer), Some(until)) => timer < until,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let call = self.deep.load(SeqCst) && (under_way || sooner);
        drop(orders);
        if call {
            self.deep.store(false, SeqCst);
            self.changed.notify_one();
        }
    }

    /// The last who waited leaves, and operations are under way.
    pub fn note_under_way(&self) {
        locked(&self.orders).under_way = true;
        if self.deep.swap(false, SeqCst) {
            self.changed.notify_one();
        }
    }

    /// No more turns.
    pub fn stop(&self) {
        locked(&self.orders).stop = true;
        self.changed.notify_one();
    }

    /// Waits for its end, unless it is the caller itself.
    pub fn join(&self) {
        let thread = locked(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of it was told when it happened.
            let _ = thread.join();
        }
    }
}

/// Starts the keeper of `lead`.
///
/// # Errors
/// When the system has no thread left.
pub(crate) fn start(lead: &Arc<Lead>) -> io::Result<()> {
    let kept = lead.clone();
    let thread = std::thread::Builder::new()
        .name("tonearm-keeper".into())
        .spawn(move || keep(&kept))?;
    *locked(&keeper_of(lead).thread) = Some(thread);
    Ok(())
}

fn keeper_of(lead: &Lead) -> &Keeper {
    match &lead.kind {
        super::Kind::Shared { keeper, .. } => keeper,
        super::Kind::OfOneThread(_) => unreachable!("a store of one thread has no keeper"),
    }
}

fn keep(lead: &Lead) {
    let keeper = keeper_of(lead);
    let mut idle = 0;
    loop {
        let orders = locked(&keeper.orders);
        if orders.stop {
            return;
        }
        drop(sleep(keeper, orders, idle >= IDLE_LOOKS));
        let orders = locked(&keeper.orders);
        if orders.stop {
            return;
        }
        let due = orders.next_timer.is_some_and(|timer| timer <= now());
        let needed = orders.under_way || due;
        drop(orders);
        idle = if needed { 0 } else { idle + 1 };
        // The leaving lead notes what is left; an end of the store stops this thread.
        if needed {
            let _ = lead.look_in();
        }
    }
}

/// A short sleep, or with `deep` one until the next timer or call.
fn sleep<'a>(
    keeper: &'a Keeper,
    mut orders: std::sync::MutexGuard<'a, Orders>,
    deep: bool,
) -> std::sync::MutexGuard<'a, Orders> {
    if !deep || orders.under_way {
        let (orders, _) = keeper
            .changed
            .wait_timeout(orders, EVERY)
            .unwrap_or_else(PoisonError::into_inner);
        return orders;
    }
    orders.sleeps_until = orders.next_timer;
    keeper.deep.store(true, SeqCst);
    let left = orders
        .next_timer
        .map(|timer| Duration::from_nanos(timer.since(now()).0));
    let mut orders = match left {
        Some(left) => {
            let slept = keeper.changed.wait_timeout(orders, left);
            slept.unwrap_or_else(PoisonError::into_inner).0
        }
        None => keeper
            .changed
            .wait(orders)
            .unwrap_or_else(PoisonError::into_inner),
    };
    keeper.deep.store(false, SeqCst);
    orders.sleeps_until = None;
    orders
}
