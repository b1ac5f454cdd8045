//! Entry points for fuzzers: deterministic, without I/O, panicking when an
//! invariant of the parsers or of the transmission phase is broken.

use crate::catalog::{Catalog, Export, Exports};
use crate::handshake::{Negotiation, Step, TlsPolicy};
use crate::proto::{
    BadMagic, Command, DRAIN_BYTES_MAX, ExportInfo, Intake, Negotiated, Parsed,
    REQUEST_HEADER_BYTES, Request, admit,
};
use crate::transmission::TransmissionOptions;
use crate::transmission::testing::TestWorld;
use tonearm_base::Nanos;
use tonearm_rt::{Data, Op};

/// Feeds a client's side of a handshake. The first byte chooses the TLS policy
/// and the size of the pieces; the rest is the stream, which goes on as
/// plaintext after STARTTLS.
///
/// # Panics
/// When the negotiation waits for nothing while open, or answers with much more
/// than it was sent.
pub fn fuzz_handshake(data: &[u8]) {
    let Some((&choice, mut stream)) = data.split_first() else {
        return;
    };
    let policy = match choice & 3 {
        0 => TlsPolicy::Off,
        1 => TlsPolicy::Require,
        _ => TlsPolicy::Allow,
    };
    let piece_bytes = usize::from(choice >> 2) + 1;
    let mut negotiation = Negotiation::new(catalog(), policy);
    let mut sent_bytes = negotiation.take_output().len();
    let mut taken_bytes = 0;
    while !stream.is_empty() {
        let want = negotiation.want();
        assert!(want > 0, "an open negotiation waits for bytes");
        let (piece, rest) = stream.split_at(want.min(piece_bytes).min(stream.len()));
        stream = rest;
        taken_bytes += piece.len();
        let step = negotiation.supply(piece);
        sent_bytes += negotiation.take_output().len();
        match step {
            Step::Read => {}
            Step::StartTls => negotiation.tls_started(),
            Step::Transmit(_) | Step::Close(_) => break,
        }
    }
    // The longest answer to an option of 16 bytes is the list of exports.
    assert!(
        sent_bytes <= 256 + 32 * taken_bytes,
        "answers are in proportion"
    );
}

/// Feeds a client's side of the transmission phase: headers and their payload.
/// The first two bytes choose the export, what was negotiated, and the size of
/// the pieces.
///
/// # Panics
/// When splitting the stream changes what is parsed, or when a request passes
/// that does not fit the export.
pub fn fuzz_requests(data: &[u8]) {
    let &[choice, piece_bytes, ref stream @ ..] = data else {
        return;
    };
    let export = ExportInfo {
        size_bytes: [0, 1, 512, 4097, 1 << 20, 1 << 40, u64::MAX, u64::MAX - 1]
            [usize::from(choice & 7)],
        read_only: choice & 8 != 0,
    };
    let negotiated = Negotiated {
        structured_replies: choice & 16 != 0,
        base_allocation: choice & 48 == 48,
    };
    let mut at = 0;
    while at < stream.len() {
        let rest = &stream[at..];
        let whole = Request::parse(rest);
        for there in (0..rest.len().min(REQUEST_HEADER_BYTES)).step_by(usize::from(piece_bytes) + 1)
        {
            match Request::parse(&rest[..there]) {
                Ok(Parsed::NeedMore(missing)) => {
                    assert_eq!(
                        there + missing,
                        REQUEST_HEADER_BYTES,
                        "nothing but the header"
                    );
                }
                other => {
                    assert_eq!(
                        (&other, &whole),
                        (&Err(BadMagic), &other),
                        "pieces and whole agree"
                    );
                    return;
                }
            }
        }
        let Ok(Parsed::Request(request)) = whole else {
            return;
        };
        at += REQUEST_HEADER_BYTES;
        match admit(&request, &export, &negotiated) {
            Intake::Run(Command::Disconnect) | Intake::Disconnect => return,
            Intake::Run(command) => check(&command, &export, &negotiated),
            Intake::Refuse(_) => assert!(request.payload_bytes() <= DRAIN_BYTES_MAX, "bounded"),
        }
        at = stream
            .len()
            .min(at.saturating_add(request.payload_bytes() as usize));
    }
}

/// A whole session of the transmission phase in memory and virtual time. The first six bytes choose
/// what was negotiated, the pieces in which the stream comes, memory and speed; the rest is made into
/// requests, in order or malformed, with their payloads or without.
///
/// # Panics
/// When the session does not end, or leaves memory or a connection behind.
pub fn fuzz_transmission(data: &[u8]) {
    let &[
        choice,
        piece,
        capacity,
        memory,
        requests_max,
        slow,
        ref script @ ..,
    ] = data
    else {
        return;
    };
    let options = TransmissionOptions {
        stall_timeout: Nanos::from_secs(1),
        requests_max: u64::from(requests_max) + 1,
        reply_bytes_max: u64::from(memory) << 10,
        total_reply_bytes_max: u64::from(memory) << 11,
        shortage_timeout: Nanos::from_millis(300),
        reply_bytes_own: u64::from(memory) << 6,
        partial_payload_bytes_max: u64::from(memory) << 10,
    };
    let world = TestWorld::new(200_000, u64::from(memory) << 10, options);
    let piece = usize::from(piece) * usize::from(piece) + 1;
    world.streams.set_split(move |there| there.min(piece));
    world.streams.set_capacity(usize::from(capacity) << 10);
    if slow & 1 != 0 {
        world.target.set_delay(Nanos::from_millis(u64::from(slow)));
    }
    let client = world.connect(choice & 1 != 0);
    let bytes = session(script);
    let (rt, target, connections) = (
        world.rt.clone(),
        world.target.clone(),
        world.connections.clone(),
    );
    let end = choice >> 1 & 3;
    world.rt.clone().block_on(async move {
        let (rt, pool, stream) = (world.rt.clone(), world.pool.clone(), client.stream);
        // A client of kind 3 takes no replies: the server has to cut it.
        let reader = (end != 3).then(|| {
            let (rt, pool) = (rt.clone(), pool.clone());
            world.rt.spawn(async move {
                loop {
                    let space = Data::whole(pool.alloc(4096));
                    if let (Ok(0) | Err(_), _) = rt.stream(stream, Op::Recv, space).await {
                        return;
                    }
                }
            })
        });
        // It fails when the server has closed before.
        let data = Data::whole(pool.copy_of(&bytes));
        let _ = rt.stream(stream, Op::Send, data).done().await;
        match end {
            1 => client.close().await,
            2 => world.connections.shutdown(Nanos::from_secs(1)).await,
            _ => {
                // Idle for ever, or cut in mid-request.
                rt.sleep(Nanos::from_secs(20)).await;
                client.close().await;
            }
        }
        assert!(world.all_gone(Nanos::from_secs(600)).await, "it ends");
        client.close().await;
        if let Some(reader) = reader {
            reader.await;
        }
    });
    assert_eq!(target.memory().used(), 0, "payload memory is given back");
    assert_eq!(connections.metrics().connections_open.get(), 0);
    rt.shut_down();
}

/// A client's stream: each step is a kind and up to ten bytes of its own.
fn session(mut script: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let [kind, a, b, c, d, e, f, rest @ ..] = script {
        script = rest;
        let number = |high: &u8, low: &u8| u32::from(*high) << 8 | u32::from(*low);
        if *kind == 255 {
            stream.extend_from_slice(&[*a, *b, *c, *d, *e, *f]);
            continue;
        }
        let request = Request {
            flags: u16::from(kind >> 3),
            command: u16::from(kind & 7),
            cookie: stream.len() as u64,
            offset: u64::from(number(a, b)) * 4,
            length: number(c, d) << (e & 7),
        };
        stream.extend_from_slice(&request.encode());
        // Most payloads are whole, because a stream with a missing payload byte ends at once.
        let bytes = match *f {
            0..240 => request.payload_bytes(),
            short => request.payload_bytes() / 16 * u32::from(short - 240),
        };
        stream.resize(stream.len() + bytes.min(1 << 20) as usize, *f);
    }
    stream.extend_from_slice(script);
    stream
}

/// Asserts the properties on which the engine relies.
fn check(command: &Command, export: &ExportInfo, negotiated: &Negotiated) {
    let (offset, length, writes) = match *command {
        Command::Disconnect | Command::Flush => return,
        Command::Read {
            offset,
            length,
            dont_fragment,
        } => {
            assert!(negotiated.structured_replies || !dont_fragment);
            (offset, length, false)
        }
        Command::BlockStatus { offset, length, .. } => {
            assert!(negotiated.base_allocation);
            (offset, length, false)
        }
        Command::Cache { offset, length } => (offset, length, false),
        Command::Write { offset, length, .. }
        | Command::Trim { offset, length, .. }
        | Command::WriteZeroes { offset, length, .. } => (offset, length, true),
    };
    let end = offset.checked_add(u64::from(length)).expect("no overflow");
    assert!(length > 0 && end <= export.size_bytes);
    assert!(!(writes && export.read_only));
}

fn catalog() -> Catalog {
    let export = |name: &str, read_only| Export {
        name: name.to_owned(),
        description: "a disk".to_owned(),
        size_bytes: 1 << 30,
        read_only,
        block_size_preferred: 4096,
        block_size_max: 32 << 20,
    };
    let exports = vec![export("main", false), export("snapshot", true)];
    Catalog::new(Exports::new(exports, Some("main".to_owned())))
}
