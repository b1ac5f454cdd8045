use proptest::prelude::*;

use super::*;

/// A reply as a client reads it.
#[derive(Debug, PartialEq)]
enum Reply {
    Simple {
        error: u32,
        cookie: u64,
    },
    Chunk {
        done: bool,
        kind: u16,
        cookie: u64,
        payload: Vec<u8>,
    },
}

/// Decodes whole replies; data of simple replies is not expected.
fn decode(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let used = match be32(bytes, 0).expect("magic") {
            SIMPLE_REPLY_MAGIC => {
                replies.push(Reply::Simple {
                    error: be32(bytes, 4).expect("error"),
                    cookie: be64(bytes, 8).expect("cookie"),
                });
                16
            }
            STRUCTURED_REPLY_MAGIC => {
                let flags = be16(bytes, 4).expect("flags");
                assert_eq!(flags & !REPLY_FLAG_DONE, 0, "no unknown flags");
                let end = 20 + be32(bytes, 16).expect("length") as usize;
                replies.push(Reply::Chunk {
                    done: flags & REPLY_FLAG_DONE != 0,
                    kind: be16(bytes, 6).expect("type"),
                    cookie: be64(bytes, 8).expect("cookie"),
                    payload: bytes[20..end].to_vec(),
                });
                end
            }
            magic => panic!("magic {magic:#x}"),
        };
        bytes = &bytes[used..];
    }
    replies
}

fn chunk(done: bool, kind: u16, cookie: u64, payload: &[u8]) -> Reply {
    Reply::Chunk {
        done,
        kind,
        cookie,
        payload: payload.to_vec(),
    }
}

#[test]
fn simple_replies_have_the_documented_layout() {
    let success = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(simple_reply(0x0102_0304_0506_0708, None), success);
    let mut failure = success;
    failure[7] = 28;
    assert_eq!(
        simple_reply(0x0102_0304_0506_0708, Some(NbdErrno::NoSpc)),
        failure
    );
}

#[test]
fn chunk_headers_have_the_documented_layout() {
    let expected = [
        0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 12,
    ];
    assert_eq!(chunk_header(REPLY_TYPE_OFFSET_HOLE, 9, 12, true), expected);
}

#[test]
fn error_replies_take_the_negotiated_form() {
    let mut out = Vec::new();
    put_error_reply(&mut out, &Negotiated::default(), 3, NbdErrno::Io, "why");
    assert_eq!(
        decode(&out),
        [Reply::Simple {
            error: 5,
            cookie: 3
        }]
    );
    let structured = Negotiated {
        structured_replies: true,
        base_allocation: false,
    };
    out.clear();
    put_error_reply(&mut out, &structured, 3, NbdErrno::Io, "why");
    assert_eq!(
        decode(&out),
        [chunk(true, REPLY_TYPE_ERROR, 3, b"\0\0\0\x05\0\x03why")]
    );
}

#[test]
fn long_messages_are_cut_at_a_character() {
    let mut out = Vec::new();
    // 4,095 bytes, then a character of two.
    let message = format!("{}\u{e9}xyz", "a".repeat(4095));
    put_error_chunk(&mut out, 1, NbdErrno::Inval, &message, true);
    assert_eq!(out.len(), 20 + 6 + 4095);
    assert_eq!(decode(&out).len(), 1);
}

#[test]
#[should_panic(expected = "at least one byte")]
fn empty_data_chunks_are_a_bug() {
    offset_data_header(1, 0, 0, true);
}

#[test]
#[should_panic(expected = "holds an extent")]
fn empty_status_chunks_are_a_bug() {
    put_block_status(&mut Vec::new(), 1, 1, &[], true);
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(
        cookie: u64,
        offset: u64,
        data in prop::collection::vec(any::<u8>(), 1..100),
        hole in 1u32..,
        extents in prop::collection::vec((1u32.., 0u32..4), 1..50),
        message in ".{0,50}",
        errno in prop::sample::select(NbdErrno::ALL.as_slice()),
        done: bool,
    ) {
        let mut out = Vec::new();
        let mut expected = Vec::new();

        out.extend(offset_data_header(cookie, offset, data.len() as u32, done));
        out.extend(&data);
        let payload = [&offset.to_be_bytes(), data.as_slice()].concat();
        expected.push(chunk(done, REPLY_TYPE_OFFSET_DATA, cookie, &payload));

        out.extend(offset_hole(cookie, offset, hole, done));
        let payload = [offset.to_be_bytes().as_slice(), &hole.to_be_bytes()].concat();
        expected.push(chunk(done, REPLY_TYPE_OFFSET_HOLE, cookie, &payload));

        let extents: Vec<Extent> = extents
            .into_iter()
            .map(|(length, flags)| Extent { length, flags })
            .collect();
        put_block_status(&mut out, cookie, BASE_ALLOCATION_ID, &extents, done);
        let mut payload = BASE_ALLOCATION_ID.to_be_bytes().to_vec();
        for extent in &extents {
            payload.extend(extent.length.to_be_bytes());
            payload.extend(extent.flags.to_be_bytes());
        }
        expected.push(chunk(done, REPLY_TYPE_BLOCK_STATUS, cookie, &payload));

        put_error_chunk(&mut out, cookie, errno, &message, done);
        let mut payload = errno.code().to_be_bytes().to_vec();
        payload.extend((message.len() as u16).to_be_bytes());
        payload.extend(message.as_bytes());
        expected.push(chunk(done, REPLY_TYPE_ERROR, cookie, &payload));

        prop_assert_eq!(decode(&out), expected);
    }
}
