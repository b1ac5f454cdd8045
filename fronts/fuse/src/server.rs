//! Carries out requests on the engine's thread. Each is a task of its own, several go on at a time.

use crate::message::{Request, STOPPED};
use crate::metrics::Metrics;
use crate::operations::perform;
use crate::queue::{Incoming, Waker};
use crate::translate::errno;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_fs::Fs;
use tonearm_rt::{Data, DeviceId, Op, Permit, Rt, Semaphore};

/// Memory that requests under way may take. One more request is taken when it is used up.
const UNDER_WAY_BYTES: u64 = 64 << 20;
/// How often the end of requests under way is looked for.
const LOOK: Nanos = Nanos::from_millis(5);

/// The server of one mount; clones are handles.
#[derive(Clone)]
pub struct FuseServer(Rc<State>);

struct State {
    fs: Fs,
    rt: Rt,
    metrics: Metrics,
    under_way: Semaphore,
    stopping: Cell<bool>,
    waker: Waker,
}

impl FuseServer {
    /// Serves what comes through `incoming`, whose `ring` raises the event `bell`.
    pub fn start(fs: &Fs, rt: &Rt, pool: &BufPool, bell: DeviceId, incoming: Incoming) -> Self {
        let server = Self(Rc::new(State {
            fs: fs.clone(),
            rt: rt.clone(),
            metrics: Metrics::default(),
            under_way: Semaphore::new(rt, UNDER_WAY_BYTES),
            stopping: Cell::new(false),
            waker: incoming.waker(),
        }));
        rt.spawn_detached(server.clone().take_all(incoming, bell, pool.clone()));
        server
    }

    /// What was asked for.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Takes no more requests, and waits until those under way are answered. Later ones get an error. False when some still
    /// go on after `grace`; the end of the store ends them.
    pub async fn shut_down(&self, grace: Nanos) -> bool {
        self.0.stopping.set(true);
        self.0.waker.wake();
        let until = self.0.rt.now() + grace.0;
        while self.0.under_way.used() > 0 {
            if self.0.rt.now() > until {
                return false;
            }
            self.0.rt.sleep(LOOK).await;
        }
        true
    }

    async fn take_all(self, incoming: Incoming, bell: DeviceId, pool: BufPool) {
        let State { rt, under_way, .. } = &*self.0;
        let mut buf = pool.alloc(8);
        while !self.0.stopping.get() {
            if let Some(request) = incoming.next() {
                let permit = under_way.acquire(request.operation.cost()).await;
                if self.0.stopping.get() {
                    request.reply.send(Err(STOPPED));
                    break;
                }
                rt.spawn_detached(self.clone().answer(request, permit));
                continue;
            }
            let (result, data) = rt.stream(bell, Op::Recv, Data::whole(buf)).await;
            buf = data.into_buf();
            if result.is_err() {
                break;
            }
        }
        incoming.refuse_all();
        let (_closed, _) = rt.stream(bell, Op::Close, Data::None).await;
    }

    async fn answer(self, request: Request, permit: Permit) {
        let State {
            fs, rt, metrics, ..
        } = &*self.0;
        let (kind, began) = (request.operation.kind(), rt.now());
        let mut reply = request.reply;
        let result = perform(fs, request.caller, request.operation, &mut reply).await;
        let bytes = result.as_ref().ok().map(crate::message::Answer::bytes);
        reply.send(result.map_err(|error| errno(&error)));
        metrics.count(kind, bytes, rt.now().since(began).0);
        drop(permit);
    }
}
