//! The handshake as a state machine: it takes bytes, and returns bytes and steps.
//!
//! Invariants:
//!
//! 1. [`Negotiation::want`] never exceeds what is left of the message in
//!    progress, so a driver that reads at most that much never takes a byte of
//!    the TLS handshake or of the transmission phase.
//! 2. The buffer grows with the bytes that arrived, not with the length that
//!    was claimed, and never beyond [`OPTION_BYTES_MAX`].
//! 3. Each option gets its reply after all of its data was consumed, so the
//!    stream stays framed whatever the answer is.

use std::mem;

use super::close::Close;
use crate::catalog::{Catalog, Export};
use crate::proto::*;

/// Longest option data that is kept and parsed, in bytes.
pub const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Longest option data that is thrown away and answered, in bytes; beyond it
/// the connection is dropped.
pub const DISCARD_BYTES_MAX: u32 = 1 << 20;
/// Most options in one session.
pub const OPTIONS_MAX: u32 = 1000;

/// Largest read in one go, in bytes.
const READ_BYTES_MAX: usize = 16 << 10;

/// The server's policy for TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPolicy {
    /// No TLS; STARTTLS is refused ("NOTLS").
    Off,
    /// TLS when the client asks ("SELECTIVETLS" without TLS-only exports).
    Allow,
    /// Nothing without TLS ("FORCEDTLS").
    Require,
}

/// The choices of a successful handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The export as the catalog had it. Its name is the canonical one.
    pub export: Export,
    /// What was agreed on.
    pub negotiated: Negotiated,
    /// The transmission flags that the client got.
    pub transmission_flags: u16,
}

/// What the driver does next. It sends the output first in every case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read at most [`Negotiation::want`] bytes and supply them.
    Read,
    /// Do the TLS handshake, call [`Negotiation::tls_started`], and go on over
    /// TLS.
    StartTls,
    /// The handshake is over; the next byte is a request.
    Transmit(Selection),
    /// Drop the connection.
    Close(Close),
}

/// A session's state. See the module's text for its invariants.
#[derive(Debug)]
pub struct Negotiation {
    pub(super) catalog: Catalog,
    pub(super) tls_policy: TlsPolicy,
    pub(super) tls_active: bool,
    pub(super) no_zeroes: bool,
    pub(super) structured_replies: bool,
    /// The export, by canonical name, for which `base:allocation` was selected.
    pub(super) meta_context_export: Option<String>,
    pub(super) out: Vec<u8>,
    fixed_newstyle: bool,
    options_seen: u32,
    state: State,
    /// Bytes of the message in progress.
    buffer: Vec<u8>,
}

#[derive(Clone, Debug)]
enum State {
    ClientFlags,
    Header,
    Data(OptionHeader),
    /// Throwing data away; the answer follows.
    Discard {
        option: u32,
        left: usize,
        answer: Answer,
    },
    /// After StartTls, Transmit or Close nothing more is read.
    Ended,
}

/// A final reply that depends on an option's header alone, not on its data: an error, or the consent to ABORT.
#[derive(Clone, Copy, Debug)]
struct Answer {
    kind: u32,
    message: &'static str,
}

impl Negotiation {
    /// Starts a session; the greeting is the first output.
    pub fn new(catalog: Catalog, tls_policy: TlsPolicy) -> Negotiation {
        let mut out = Vec::new();
        put_greeting(&mut out);
        Negotiation {
            catalog,
            tls_policy,
            tls_active: false,
            no_zeroes: false,
            structured_replies: false,
            meta_context_export: None,
            out,
            fixed_newstyle: false,
            options_seen: 0,
            state: State::ClientFlags,
            buffer: Vec::new(),
        }
    }

    /// How many bytes the next [`supply`](Self::supply) may carry at most; zero
    /// only when nothing more is to be read.
    pub fn want(&self) -> usize {
        match &self.state {
            State::Discard { left, .. } => (*left).min(READ_BYTES_MAX),
            _ => (self.message_bytes() - self.buffer.len()).min(READ_BYTES_MAX),
        }
    }

    /// Takes the bytes to send to the client.
    pub fn take_output(&mut self) -> Vec<u8> {
        mem::take(&mut self.out)
    }

    /// Continues after the TLS handshake. All that was negotiated before it is dropped, except for the client flags,
    /// which are sent only once.
    ///
    /// # Panics
    /// When the last step was not [`Step::StartTls`].
    pub fn tls_started(&mut self) {
        assert!(
            !self.tls_active && matches!(self.state, State::Ended),
            "TLS starts after STARTTLS"
        );
        self.tls_active = true;
        self.structured_replies = false;
        self.meta_context_export = None;
        self.state = State::Header;
    }

    /// Takes bytes from the client.
    ///
    /// # Panics
    /// When `input` is longer than [`want`](Self::want).
    pub fn supply(&mut self, input: &[u8]) -> Step {
        assert!(
            input.len() <= self.want(),
            "more bytes than the message has"
        );
        if let State::Discard {
            option,
            left,
            answer,
        } = &mut self.state
        {
            *left -= input.len();
            if *left > 0 {
                return Step::Read;
            }
            let (option, answer) = (*option, *answer);
            return self.finish(option, answer);
        }
        self.buffer.extend_from_slice(input);
        if self.buffer.len() < self.message_bytes() {
            return Step::Read;
        }
        let message = mem::take(&mut self.buffer);
        let step = match self.state {
            State::ClientFlags => self.on_client_flags(&message),
            State::Header => self.on_header(&message),
            State::Data(header) => self.on_data(header.option, &message),
            State::Discard { .. } | State::Ended => Step::Read,
        };
        if step != Step::Read {
            self.state = State::Ended;
        }
        step
    }

    /// Length of the message in progress.
    fn message_bytes(&self) -> usize {
        match &self.state {
            State::ClientFlags => 4,
            State::Header => OptionHeader::BYTES,
            State::Data(header) => header.data_bytes as usize,
            State::Discard { .. } | State::Ended => 0,
        }
    }

    fn on_client_flags(&mut self, message: &[u8]) -> Step {
        let flags = be32(message, 0).expect("a whole message");
        let offered = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        if flags & !offered != 0 {
            return Step::Close(Close::ClientFlags(flags));
        }
        self.fixed_newstyle = flags & u32::from(FLAG_FIXED_NEWSTYLE) != 0;
        self.no_zeroes = flags & u32::from(FLAG_NO_ZEROES) != 0;
        self.state = State::Header;
        Step::Read
    }

    fn on_header(&mut self, message: &[u8]) -> Step {
        let message = message.try_into().expect("a whole message");
        let Some(header) = OptionHeader::parse(message) else {
            return Step::Close(Close::OptionMagic);
        };
        let OptionHeader { option, data_bytes } = header;
        self.options_seen += 1;
        if self.options_seen > OPTIONS_MAX {
            return Step::Close(Close::TooManyOptions);
        }
        if !self.fixed_newstyle && option != OPT_EXPORT_NAME {
            return Step::Close(Close::NotFixedNewstyle(option));
        }
        if option == OPT_EXPORT_NAME {
            if self.tls_policy == TlsPolicy::Require && !self.tls_active {
                return Step::Close(Close::TlsRequired);
            }
            if data_bytes as usize > STRING_BYTES_MAX {
                return Step::Close(Close::ExportNameSyntax);
            }
        }
        if data_bytes > DISCARD_BYTES_MAX {
            return Step::Close(Close::OptionBytes { option, data_bytes });
        }
        match self.answer_by_header(header) {
            None if data_bytes == 0 => self.on_data(option, &[]),
            None => {
                self.state = State::Data(header);
                Step::Read
            }
            Some(answer) if data_bytes == 0 => self.finish(option, answer),
            Some(answer) => {
                self.state = State::Discard {
                    option,
                    left: data_bytes as usize,
                    answer,
                };
                Step::Read
            }
        }
    }

    /// The answer to an option whose data does not matter.
    fn answer_by_header(&self, header: OptionHeader) -> Option<Answer> {
        let refuse = |kind, message| Some(Answer { kind, message });
        let too_big = header.data_bytes > OPTION_BYTES_MAX;
        match header.option {
            OPT_ABORT => Some(Answer {
                kind: REP_ACK,
                message: "",
            }),
            OPT_STARTTLS if self.tls_active => refuse(REP_ERR_INVALID, "TLS is already running"),
            OPT_STARTTLS if self.tls_policy == TlsPolicy::Off => {
                refuse(REP_ERR_POLICY, "TLS is not configured on this server")
            }
            OPT_STARTTLS if header.data_bytes > 0 => {
                refuse(REP_ERR_INVALID, "STARTTLS carries no data")
            }
            OPT_STARTTLS => None,
            _ if self.tls_policy == TlsPolicy::Require && !self.tls_active => {
                refuse(REP_ERR_TLS_REQD, "this server requires TLS")
            }
            OPT_LIST if header.data_bytes > 0 => refuse(REP_ERR_INVALID, "LIST carries no data"),
            OPT_STRUCTURED_REPLY if header.data_bytes > 0 => {
                refuse(REP_ERR_INVALID, "STRUCTURED_REPLY carries no data")
            }
            OPT_INFO | OPT_GO | OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT if too_big => {
                refuse(REP_ERR_TOO_BIG, "option data is larger than 64 KiB")
            }
            OPT_EXPORT_NAME
            | OPT_LIST
            | OPT_INFO
            | OPT_GO
            | OPT_STRUCTURED_REPLY
            | OPT_LIST_META_CONTEXT
            | OPT_SET_META_CONTEXT => None,
            _ => refuse(REP_ERR_UNSUP, "unknown option"),
        }
    }

    /// Answers an option whose data was thrown away.
    fn finish(&mut self, option: u32, answer: Answer) -> Step {
        self.reply(option, answer.kind, answer.message);
        // A failed SET_META_CONTEXT deselects too.
        if option == OPT_SET_META_CONTEXT {
            self.meta_context_export = None;
        }
        if option == OPT_ABORT {
            self.state = State::Ended;
            return Step::Close(Close::Aborted);
        }
        self.state = State::Header;
        Step::Read
    }

    /// Answers an option whose data is complete.
    fn on_data(&mut self, option: u32, data: &[u8]) -> Step {
        self.state = State::Header;
        match option {
            OPT_EXPORT_NAME => self.export_name(data),
            OPT_STARTTLS => {
                self.reply(option, REP_ACK, "");
                Step::StartTls
            }
            OPT_LIST => self.list(),
            OPT_INFO | OPT_GO => self.info_or_go(option, data),
            OPT_STRUCTURED_REPLY => {
                self.structured_replies = true;
                self.reply(option, REP_ACK, "");
                Step::Read
            }
            OPT_LIST_META_CONTEXT => self.list_meta_context(data),
            OPT_SET_META_CONTEXT => self.set_meta_context(data),
            _ => unreachable!("other options are answered by their header"),
        }
    }
}
