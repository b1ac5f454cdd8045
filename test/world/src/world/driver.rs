//! The driver of a world: it processes events in order of time.

use super::core::{Ready, World};
use super::events::Events;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::{Completion, DeviceId, Driver, Notifier, Op, Request};

/// The driver of a simulated world.
pub struct SimDriver {
    world: Rc<RefCell<World>>,
    /// Requests completed at this moment, in order; kept to reuse its memory.
    ready: Vec<Ready>,
    events: Events,
}

impl SimDriver {
    pub(super) fn new(world: Rc<RefCell<World>>) -> Self {
        Self {
            world,
            ready: Vec::new(),
            events: Events::default(),
        }
    }

    fn observe(&self, op: Op) {
        if op == Op::Read {
            return;
        }
        let taken = {
            let mut world = self.world.borrow_mut();
            world.hook.take()
        };
        if let Some(mut hook) = taken {
            let (ios, crash) = {
                let mut world = self.world.borrow_mut();
                (world.ios, world.crash())
            };
            // The world is not borrowed here, because the hook may run other worlds and use this one.
            hook(ios, &crash);
            self.world.borrow_mut().hook.get_or_insert(hook);
        }
    }
}

impl Driver for SimDriver {
    fn now(&self) -> Nanos {
        self.world.borrow().now
    }

    fn submit(&mut self, token: u64, request: Request) {
        let Some(request) = self.events.submit(token, request) else {
            return;
        };
        let op = request.op;
        self.world.borrow_mut().submit(token, request);
        self.observe(op);
    }

    fn wait(&mut self, deadline: Option<Nanos>, completions: &mut Vec<Completion>) {
        self.events.take(completions);
        if !completions.is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.ready);
        while ready.is_empty() {
            let mut world = self.world.borrow_mut();
            let next = world.next();
            let Some(at) = next.filter(|at| deadline.is_none_or(|deadline| *at <= deadline)) else {
                match deadline {
                    Some(deadline) => world.now = world.now.max(deadline),
                    None => assert!(
                        !world.is_busy(),
                        "deadlock: a drive is stuck for ever, and no timer is set"
                    ),
                }
                break;
            };
            world.now = world.now.max(at);
            world.advance(&mut ready);
        }
        for ready in ready.drain(..) {
            let (op, completion) = self.world.borrow_mut().finish(ready);
            self.observe(op);
            completions.push(completion);
        }
        self.ready = ready;
    }

    fn event(&mut self) -> io::Result<(DeviceId, Notifier)> {
        Ok(self.events.add())
    }
}
