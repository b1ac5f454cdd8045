//! A client's side of the handshake, for tests.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use super::*;
use crate::catalog::{Catalog, Export, Exports};
use crate::proto::*;

pub(crate) const MAIN_SIZE: u64 = 10 << 30;

pub(crate) fn export(name: &str, size_bytes: u64, read_only: bool) -> Export {
    Export {
        name: name.to_owned(),
        description: format!("volume {name}"),
        size_bytes,
        read_only,
        block_size_preferred: 4096,
        block_size_max: 32 << 20,
    }
}

/// `main` (the default), `frozen` (read-only) and one with a name of two bytes
/// a character.
pub(crate) fn catalog() -> Catalog {
    let exports = vec![
        export("main", MAIN_SIZE, false),
        export("frozen", 4096, true),
        export("\u{e9}t\u{e9}", 1, false),
    ];
    Catalog::new(Exports::new(exports, Some("main".to_owned())))
}

/// Builds what a client sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client(pub(crate) Vec<u8>);

impl Client {
    /// Starts with both client flags.
    pub(crate) fn new() -> Client {
        Client::with_flags(3)
    }

    pub(crate) fn with_flags(flags: u32) -> Client {
        Client(flags.to_be_bytes().to_vec())
    }

    /// Goes on after STARTTLS.
    pub(crate) fn under_tls() -> Client {
        Client::default()
    }

    pub(crate) fn option(mut self, option: u32, data: &[u8]) -> Client {
        let data_bytes = data.len() as u32;
        self.0.extend(OptionHeader { option, data_bytes }.encode());
        self.0.extend(data);
        self
    }

    /// An option with a claimed length and no data.
    pub(crate) fn claim(mut self, option: u32, data_bytes: u32) -> Client {
        self.0.extend(OptionHeader { option, data_bytes }.encode());
        self
    }

    pub(crate) fn info(self, option: u32, export: &str, kinds: &[u16]) -> Client {
        let mut data = string(export);
        data.extend((kinds.len() as u16).to_be_bytes());
        data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
        self.option(option, &data)
    }

    pub(crate) fn go(self, export: &str) -> Client {
        self.info(OPT_GO, export, &[])
    }

    pub(crate) fn structured(self) -> Client {
        self.option(OPT_STRUCTURED_REPLY, &[])
    }

    pub(crate) fn meta(self, option: u32, export: &str, queries: &[&str]) -> Client {
        let mut data = string(export);
        data.extend((queries.len() as u32).to_be_bytes());
        data.extend(queries.iter().flat_map(|query| string(query)));
        self.option(option, &data)
    }

    pub(crate) fn select_allocation(self, export: &str) -> Client {
        self.meta(OPT_SET_META_CONTEXT, export, &[BASE_ALLOCATION])
    }
}

fn string(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u32).to_be_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}

/// An option reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) option: u32,
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
}

/// Checks and cuts off the greeting.
pub(crate) fn after_greeting(bytes: &[u8]) -> &[u8] {
    bytes
        .strip_prefix(b"NBDMAGICIHAVEOPT\0\x03")
        .expect("the greeting comes first")
}

/// Parses option replies up to the end.
pub(crate) fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(be64(bytes, 0), Some(OPTION_REPLY_MAGIC));
        let end = 20 + be32(bytes, 16).expect("length") as usize;
        replies.push(Reply {
            option: be32(bytes, 8).expect("option"),
            kind: be32(bytes, 12).expect("type"),
            data: bytes[20..end].to_vec(),
        });
        bytes = &bytes[end..];
    }
    replies
}

/// The types of replies, in order.
pub(crate) fn kinds(replies: &[Reply]) -> Vec<u32> {
    replies.iter().map(|reply| reply.kind).collect()
}

/// A stream whose client has sent everything in advance, and whose reads return
/// at most `piece_bytes`.
pub(crate) struct Script {
    pub(crate) input: VecDeque<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) piece_bytes: usize,
}

impl Script {
    pub(crate) fn new(client: &Client) -> Script {
        Script {
            input: client.0.iter().copied().collect(),
            output: Vec::new(),
            piece_bytes: usize::MAX,
        }
    }
}

impl Read for Script {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let count = space.len().min(self.piece_bytes);
        self.input.read(&mut space[..count])
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end of a scripted session.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) result: Result<Step, HandshakeError>,
    /// All that was sent after the greeting.
    pub(crate) output: Vec<u8>,
    /// What the server left unread.
    pub(crate) unread: Vec<u8>,
}

impl Outcome {
    pub(crate) fn replies(&self) -> Vec<Reply> {
        replies(&self.output)
    }

    pub(crate) fn kinds(&self) -> Vec<u32> {
        kinds(&self.replies())
    }

    pub(crate) fn selection(self) -> Selection {
        match self.result {
            Ok(Step::Transmit(selection)) => selection,
            other => panic!("no transmission but {other:?}"),
        }
    }

    pub(crate) fn close(self) -> Close {
        match self.result {
            Err(HandshakeError::Closed(close)) => close,
            other => panic!("not closed but {other:?}"),
        }
    }

    /// The server waits for more bytes: the script has ended before the handshake.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.result, Err(HandshakeError::Disconnected))
    }
}

pub(crate) fn run(policy: TlsPolicy, client: &Client) -> Outcome {
    let mut script = Script::new(client);
    let mut negotiation = Negotiation::new(catalog(), policy);
    let result = drive(&mut script, &mut negotiation);
    Outcome {
        result,
        output: after_greeting(&script.output).to_vec(),
        unread: script.input.into(),
    }
}

pub(crate) fn run_plain(client: &Client) -> Outcome {
    run(TlsPolicy::Off, client)
}
