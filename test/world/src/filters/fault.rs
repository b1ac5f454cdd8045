//! A filter with faults that a test plans: errors, lost operations, a full disk.
//!
//! Each operation meets the first rule that matches it, in the order in which the rules were added. Without rules
//! the filter changes nothing.

use std::cell::RefCell;
use std::rc::Rc;
use tonearm_device::{Device, DeviceIo, Filter, at_once, span};
use tonearm_rt::{Data, IoError, Op};

/// An operation as a rule sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Number of the operation, counted from 0 over all that the filter has seen.
    pub number: u64,
    /// The operation.
    pub op: Op,
    /// First byte on the device.
    pub offset: u64,
    /// Bytes on the device.
    pub len: u64,
}

impl Access {
    /// True when the operation touches the byte at `place`.
    pub fn touches(&self, place: u64) -> bool {
        (self.offset..self.offset + self.len).contains(&place)
    }

    /// True for `Write` and `WriteDurable`.
    pub fn is_write(&self) -> bool {
        matches!(self.op, Op::Write | Op::WriteDurable)
    }
}

/// The effect of a rule on an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It fails and does not reach the device.
    Fail(IoError),
    /// It is carried out, and then reported as failed.
    FailAfter(IoError),
    /// It is reported as done and does not reach the device: a lost write, or a false report of a flush. Not for reads.
    Lose,
}

type Rule = (Box<dyn FnMut(&Access) -> bool>, Effect);

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    seen: u64,
    acted: u64,
    /// Bytes that may still be written before the device is full.
    room_bytes: Option<u64>,
}

/// The planned faults. The test keeps a clone and may change it at any time.
#[derive(Clone, Default)]
pub struct FaultPlan(Rc<RefCell<State>>);

impl FaultPlan {
    /// A plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// `effect` for every operation for which `when` holds. `when` must not use the plan.
    pub fn on(&self, when: impl FnMut(&Access) -> bool + 'static, effect: Effect) {
        self.0.borrow_mut().rules.push((Box::new(when), effect));
    }

    /// `effect` for the next operation for which `when` holds, and no later one.
    pub fn once(&self, mut when: impl FnMut(&Access) -> bool + 'static, effect: Effect) {
        let mut over = false;
        self.on(
            move |access| {
                let matches = !over && when(access);
                over |= matches;
                matches
            },
            effect,
        );
    }

    /// After `bytes` more written bytes, writes fail with `ENOSPC`. `None` ends that.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.0.borrow_mut().room_bytes = bytes;
    }

    /// Removes all rules and the limit of space.
    pub fn clear(&self) {
        let mut state = self.0.borrow_mut();
        state.rules.clear();
        state.room_bytes = None;
    }

    /// Operations seen so far.
    pub fn seen(&self) -> u64 {
        self.0.borrow().seen
    }

    /// Operations that a rule or the lack of space has changed.
    pub fn acted(&self) -> u64 {
        self.0.borrow().acted
    }

    fn effect(&self, op: Op, offset: u64, len: u64) -> Option<Effect> {
        let mut state = self.0.borrow_mut();
        let access = Access {
            number: state.seen,
            op,
            offset,
            len,
        };
        state.seen += 1;
        let matching = state.rules.iter_mut().find_map(|(when, effect)| {
            let effect = *effect;
            when(&access).then_some(effect)
        });
        let effect = matching.or_else(|| match &mut state.room_bytes {
            Some(room) if access.is_write() && *room < len => Some(Effect::Fail(IoError::ENOSPC)),
            Some(room) if access.is_write() => {
                *room -= len;
                None
            }
            _ => None,
        });
        state.acted += u64::from(effect.is_some());
        effect
    }
}

/// A device with the faults of a plan.
pub struct Fault {
    inner: Rc<dyn Device>,
    plan: FaultPlan,
}

impl Fault {
    /// Applies `plan` to the operations of `inner`.
    pub fn new(inner: Rc<dyn Device>, plan: &FaultPlan) -> Self {
        Self {
            inner,
            plan: plan.clone(),
        }
    }
}

impl Filter for Fault {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        match self.plan.effect(op, offset, span(op, len, &data)) {
            None => self.inner.io(op, offset, len, data),
            Some(Effect::Fail(error)) => at_once(Err(error), data),
            Some(Effect::FailAfter(error)) => {
                let io = self.inner.io(op, offset, len, data);
                Box::pin(async move { (Err(error), io.await.1) })
            }
            Some(Effect::Lose) => {
                assert_ne!(op, Op::Read, "a read cannot be lost");
                at_once(Ok(data.len()), data)
            }
        }
    }
}
