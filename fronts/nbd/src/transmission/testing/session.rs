//! An executor with streams, a target and connections, and a client in it.

use super::client::{Answer, ReplyReader};
use super::memory::MemoryTarget;
use super::streams::Streams;
use crate::listen::Client;
use crate::proto::{Negotiated, Request};
use crate::transmission::{Connections, TransmissionOptions};
use tonearm_base::{BufPool, Nanos};
use tonearm_rt::{Data, DeviceId, IdleDriver, Op, Rt};

/// Everything that a test of the transmission phase needs, in virtual time.
pub struct TestWorld {
    /// The executor.
    pub rt: Rt,
    /// Buffers of all parties.
    pub pool: BufPool,
    /// The streams.
    pub streams: Streams,
    /// The target that is served.
    pub target: MemoryTarget,
    /// The server.
    pub connections: Connections,
}

/// The client as a handshake would deliver it.
pub fn client_of(structured: bool) -> Client {
    Client {
        export: "main".to_owned(),
        peer: "test".to_owned(),
        tls: false,
        read_only: false,
        negotiated: Negotiated {
            structured_replies: structured,
            base_allocation: structured,
        },
        guard: None,
    }
}

impl TestWorld {
    /// A target of `size` bytes, with `memory_bytes` for payloads.
    pub fn new(size: usize, memory_bytes: u64, options: TransmissionOptions) -> Self {
        let streams = Streams::default();
        let rt = Rt::new(streams.driver(Box::new(IdleDriver::default())));
        let pool = BufPool::new(16 << 20);
        Self {
            target: MemoryTarget::new(&rt, &pool, size, memory_bytes),
            connections: Connections::new(&rt, &pool, options),
            rt,
            pool,
            streams,
        }
    }

    /// A new connection.
    pub fn connect(&self, structured: bool) -> TestClient {
        let (server, stream) = self.streams.pair();
        let client = client_of(structured);
        let id = self.connections.add(server, client, self.target.clone());
        TestClient::new((&self.rt, &self.pool), stream, id, structured)
    }

    /// Waits until all connections have gone by themselves; false when they have not after `patience`.
    pub async fn all_gone(&self, patience: Nanos) -> bool {
        let until = self.rt.now() + patience.0;
        while !self.connections.is_empty() && self.rt.now() < until {
            self.rt.sleep(Nanos::from_millis(1)).await;
        }
        self.connections.is_empty()
    }
}

/// The client's end of a connection.
pub struct TestClient {
    rt: Rt,
    pool: BufPool,
    /// Its stream.
    pub stream: DeviceId,
    /// The number of the connection.
    pub id: u64,
    reader: ReplyReader,
    cookie: u64,
}

impl TestClient {
    /// The client of connection `id`, at its end `stream`.
    pub fn new((rt, pool): (&Rt, &BufPool), stream: DeviceId, id: u64, structured: bool) -> Self {
        Self {
            rt: rt.clone(),
            pool: pool.clone(),
            stream,
            id,
            reader: ReplyReader::new(structured),
            cookie: 0,
        }
    }

    /// A request with a cookie of its own, noted as asked.
    pub fn request(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> Request {
        self.cookie += 1;
        let request = Request {
            flags,
            command,
            cookie: self.cookie,
            offset,
            length,
        };
        self.reader.ask(request);
        request
    }

    /// Sends bytes; false when the server has closed.
    pub async fn send(&self, bytes: &[u8]) -> bool {
        let data = Data::whole(self.pool.copy_of(bytes));
        let io = self.rt.stream(self.stream, Op::Send, data);
        io.done().await.is_ok()
    }

    /// Requests that are not answered yet.
    pub fn waiting(&self) -> usize {
        self.reader.waiting()
    }

    /// The next answers; `None` at the end of the stream.
    ///
    /// # Panics
    /// When the server breaks the protocol.
    pub async fn answers(&mut self) -> Option<Vec<Answer>> {
        loop {
            let buf = Data::whole(self.pool.alloc(64 << 10));
            let (result, data) = self.rt.stream(self.stream, Op::Recv, buf).await;
            let count = result.unwrap_or(0);
            if count == 0 {
                return None;
            }
            let answers = self.reader.push(&data.into_buf()[..count]);
            let answers = answers.expect("the server keeps to the protocol");
            if !answers.is_empty() {
                return Some(answers);
            }
        }
    }

    /// Sends one request and waits for its answer; `None` when the server has closed.
    pub async fn call(&mut self, request: Request, payload: &[u8]) -> Option<Answer> {
        let mut bytes = request.encode().to_vec();
        bytes.extend_from_slice(payload);
        if !self.send(&bytes).await {
            return None;
        }
        self.answers().await?.pop()
    }

    /// Closes the client's end.
    pub async fn close(&self) {
        let io = self.rt.stream(self.stream, Op::Close, Data::None);
        // Closing twice is no fault.
        let _ = io.done().await;
    }
}
