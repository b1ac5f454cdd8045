//! A client's view of the replies: strict, with an error for anything that the protocol forbids.

use crate::proto::{
    BASE_ALLOCATION_ID, CMD_BLOCK_STATUS, CMD_READ, Extent, NbdErrno, REPLY_FLAG_DONE,
    REPLY_TYPE_BLOCK_STATUS, REPLY_TYPE_ERROR, REPLY_TYPE_NONE, REPLY_TYPE_OFFSET_DATA,
    REPLY_TYPE_OFFSET_HOLE, Request, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
};
use crate::proto::{be16, be32, be64};
use std::collections::BTreeMap;

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Cookie of the request.
    pub cookie: u64,
    /// Failure.
    pub error: Option<NbdErrno>,
    /// The sentence of a failure.
    pub message: String,
    /// Data of a read.
    pub data: Vec<u8>,
    /// Extents of a block status.
    pub extents: Vec<Extent>,
    /// Chunks that it came in; 0 for a simple reply.
    pub chunks: usize,
    /// Bytes that came as holes.
    pub hole_bytes: usize,
}

#[derive(Clone)]
struct Asked {
    request: Request,
    answer: Answer,
    covered: usize,
}

/// Puts answers together from the stream of replies.
#[derive(Clone, Default)]
pub struct ReplyReader {
    structured: bool,
    asked: BTreeMap<u64, Asked>,
    bytes: Vec<u8>,
}

impl ReplyReader {
    /// A reader for what was negotiated.
    pub fn new(structured: bool) -> Self {
        Self {
            structured,
            ..Self::default()
        }
    }

    /// Notes a request, whose cookie is not in use.
    pub fn ask(&mut self, request: Request) {
        let data = match request.command {
            CMD_READ => vec![0; request.length as usize],
            _ => Vec::new(),
        };
        let answer = Answer {
            cookie: request.cookie,
            data,
            ..Answer::default()
        };
        self.asked.insert(
            request.cookie,
            Asked {
                request,
                answer,
                covered: 0,
            },
        );
    }

    /// Requests that are not answered yet.
    pub fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// Takes bytes of the stream; the answers that they complete.
    ///
    /// # Errors
    /// What is wrong with the stream.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Answer>, String> {
        self.bytes.extend_from_slice(bytes);
        let (mut answers, mut at) = (Vec::new(), 0);
        while let Some((used, answer)) = self.message(at)? {
            at += used;
            answers.extend(answer);
        }
        self.bytes.drain(..at);
        Ok(answers)
    }

    fn message(&mut self, at: usize) -> Result<Option<(usize, Option<Answer>)>, String> {
        let bytes = &self.bytes[at..];
        let Some(cookie) = be64(bytes, 8) else {
            return Ok(None);
        };
        match be32(bytes, 0) {
            Some(SIMPLE_REPLY_MAGIC) => {}
            Some(STRUCTURED_REPLY_MAGIC) if self.structured => {
                return self.chunk(at, cookie);
            }
            magic => return Err(format!("a reply starts with {magic:x?}")),
        }
        let asked = self.asked.get(&cookie).ok_or("nobody asked")?;
        let code = be32(bytes, 4).expect("looked further above");
        let mut answer = asked.answer.clone();
        let mut used = 16;
        if code != 0 {
            answer.error = Some(NbdErrno::from_code(code).ok_or("unknown error")?);
            answer.data.clear();
        } else if asked.request.command == CMD_READ {
            if self.structured {
                return Err("a simple reply to a structured read".to_owned());
            }
            used += answer.data.len();
            let Some(data) = bytes.get(16..used) else {
                return Ok(None);
            };
            answer.data.copy_from_slice(data);
        }
        self.asked.remove(&cookie);
        Ok(Some((used, Some(answer))))
    }

    fn chunk(&mut self, at: usize, cookie: u64) -> Result<Option<(usize, Option<Answer>)>, String> {
        let bytes = &self.bytes[at..];
        let Some(len) = be32(bytes, 16) else {
            return Ok(None);
        };
        let Some(payload) = bytes.get(20..20 + len as usize) else {
            return Ok(None);
        };
        let (flags, kind) = (be16(bytes, 4).unwrap_or(0), be16(bytes, 6).unwrap_or(0));
        let asked = self.asked.get_mut(&cookie).ok_or("nobody asked")?;
        asked.answer.chunks += 1;
        asked.take(kind, payload).ok_or("a malformed chunk")?;
        let used = 20 + payload.len();
        if flags & REPLY_FLAG_DONE == 0 {
            return Ok(Some((used, None)));
        }
        let Asked {
            request,
            mut answer,
            covered,
        } = self.asked.remove(&cookie).expect("found above");
        if answer.error.is_some() {
            answer.data.clear();
        } else if request.command == CMD_READ && covered != request.length as usize {
            return Err(format!("{covered} of {} bytes were sent", request.length));
        }
        Ok(Some((used, Some(answer))))
    }
}

impl Asked {
    fn take(&mut self, kind: u16, payload: &[u8]) -> Option<()> {
        let answer = &mut self.answer;
        match (kind, self.request.command) {
            (REPLY_TYPE_NONE, _) if payload.is_empty() => {}
            (REPLY_TYPE_ERROR, _) => {
                answer.error = Some(NbdErrno::from_code(be32(payload, 0)?)?);
                let text = payload.get(6..6 + usize::from(be16(payload, 4)?))?;
                answer.message = String::from_utf8(text.to_vec()).ok()?;
            }
            (REPLY_TYPE_OFFSET_DATA, CMD_READ) => {
                let at = be64(payload, 0)?.checked_sub(self.request.offset)? as usize;
                let data = payload.get(8..).filter(|data| !data.is_empty())?;
                answer
                    .data
                    .get_mut(at..at + data.len())?
                    .copy_from_slice(data);
                self.covered += data.len();
            }
            (REPLY_TYPE_OFFSET_HOLE, CMD_READ) => {
                let at = be64(payload, 0)?.checked_sub(self.request.offset)? as usize;
                let len = be32(payload, 8).filter(|len| *len > 0)? as usize;
                answer.data.get_mut(at..at + len)?.fill(0);
                self.covered += len;
                answer.hole_bytes += len;
            }
            (REPLY_TYPE_BLOCK_STATUS, CMD_BLOCK_STATUS) => {
                (be32(payload, 0)? == BASE_ALLOCATION_ID).then_some(())?;
                for extent in payload[4..].chunks(8) {
                    answer.extents.push(Extent {
                        length: be32(extent, 0).filter(|len| *len > 0)?,
                        flags: be32(extent, 4)?,
                    });
                }
            }
            _ => return None,
        }
        Some(())
    }
}
