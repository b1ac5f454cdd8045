//! From the threads of `listen` to the executor's thread.

use super::connections::Connections;
use super::target::Target;
use crate::listen::Accepted;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, TryRecvError};
use tonearm_base::BufPool;
use tonearm_rt::{Data, DeviceId, Op, Rt};

/// Serves one connection. `add_stream` registers its socket with the driver, `find` gives the volume
/// that the client has chosen. Its number, or the error of `find`: the socket is closed then, for
/// the handshake cannot be undone.
///
/// # Errors
/// Those of `find`: the volume was deleted since the handshake.
pub fn serve_accepted<T: Target, E>(
    connections: &Connections,
    accepted: Accepted,
    add_stream: impl FnOnce(OwnedFd) -> DeviceId,
    find: impl FnOnce(&str) -> Result<T, E>,
) -> Result<u64, E> {
    let (fd, client) = accepted.split();
    let target = find(&client.export)?;
    Ok(connections.add(add_stream(fd), client, target))
}

/// Serves what comes through `queue`, each time that `event` is raised, until the queue's senders
/// are seen to be gone or the event is closed. The sending side puts a connection into the queue, then
/// raises the event. Spawn it, and leave it to itself: after [`Connections::stop`] it closes what
/// still comes. Connections whose volume is not found are closed, and `lost` is told.
pub async fn serve_queue<T: Target, E>(
    (rt, pool): (&Rt, &BufPool),
    connections: Connections,
    (event, queue): (DeviceId, Receiver<Accepted>),
    add_stream: impl Fn(OwnedFd) -> DeviceId,
    find: impl Fn(&str) -> Result<T, E>,
    lost: impl Fn(E),
) {
    let mut buf = pool.alloc(8);
    loop {
        loop {
            match queue.try_recv() {
                Ok(accepted) => {
                    let served = serve_accepted(&connections, accepted, &add_stream, &find);
                    served.map_or_else(&lost, drop);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let (result, data) = rt.stream(event, Op::Recv, Data::whole(buf)).await;
        match result {
            Ok(1..) => buf = data.into_buf(),
            _ => return,
        }
    }
}
