//! Headers, and the rules that requests must meet.

use proptest::prelude::*;

use super::*;

fn any_request() -> impl Strategy<Value = Request> {
    (
        any::<u16>(),
        any::<u16>(),
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
    )
        .prop_map(|(flags, command, cookie, offset, length)| Request {
            flags,
            command,
            cookie,
            offset,
            length,
        })
}

#[test]
fn header_has_the_documented_layout() {
    let request = Request {
        flags: 0x0102,
        command: 0x0304,
        cookie: 0x0506_0708_090a_0b0c,
        offset: 0x0d0e_0f10_1112_1314,
        length: 0x1516_1718,
    };
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
    bytes.extend(1..=0x18);
    assert_eq!(request.encode().as_slice(), bytes);
    assert_eq!(Request::parse(&bytes), Ok(Parsed::Request(request)));
}

#[test]
fn wrong_magic_is_found_at_its_first_wrong_byte() {
    let good = REQUEST_MAGIC.to_be_bytes();
    for at in 0..4 {
        let mut bytes = good;
        bytes[at] ^= 1;
        assert_eq!(Request::parse(&bytes[..=at]), Err(BadMagic));
        assert_eq!(
            Request::parse(&bytes[..at]),
            Ok(Parsed::NeedMore(REQUEST_HEADER_BYTES - at))
        );
    }
}

#[test]
fn extended_headers_are_not_requests() {
    assert_eq!(Request::parse(&0x21e4_1c71u32.to_be_bytes()), Err(BadMagic));
}

#[test]
fn only_writes_carry_a_payload() {
    for command in 0..=20 {
        let request = Request {
            flags: 0,
            command,
            cookie: 0,
            offset: 0,
            length: 7,
        };
        let expected = if command == CMD_WRITE { 7 } else { 0 };
        assert_eq!(request.payload_bytes(), expected, "command {command}");
    }
}

proptest! {
    #[test]
    fn parsing_undoes_encoding(request in any_request(), tail: Vec<u8>) {
        let mut bytes = request.encode().to_vec();
        bytes.extend(tail);
        prop_assert_eq!(Request::parse(&bytes), Ok(Parsed::Request(request)));
    }

    #[test]
    fn a_header_is_found_when_it_is_whole_and_not_before(request in any_request()) {
        let bytes = request.encode();
        for there in 0..REQUEST_HEADER_BYTES {
            let missing = Parsed::NeedMore(REQUEST_HEADER_BYTES - there);
            prop_assert_eq!(Request::parse(&bytes[..there]), Ok(missing));
        }
    }

    #[test]
    fn any_bytes_are_survived(data: Vec<u8>) {
        let _ = Request::parse(&data);
        crate::fuzzing::fuzz_requests(&data);
    }

    #[test]
    fn any_request_stream_is_survived(
        choice: [u8; 2],
        requests in prop::collection::vec((any_request(), 0u16..10, 0u32..600), 0..20),
    ) {
        let mut data = choice.to_vec();
        for (mut request, command, length) in requests {
            request.command = command;
            request.length = length;
            data.extend(request.encode());
            data.extend(vec![0; request.payload_bytes() as usize]);
        }
        crate::fuzzing::fuzz_requests(&data);
    }
}

const SIZE: u64 = 1 << 30;
const RW: ExportInfo = ExportInfo {
    size_bytes: SIZE,
    read_only: false,
};
const RO: ExportInfo = ExportInfo {
    size_bytes: SIZE,
    read_only: true,
};
const SIMPLE: Negotiated = Negotiated {
    structured_replies: false,
    base_allocation: false,
};
const STRUCTURED: Negotiated = Negotiated {
    structured_replies: true,
    base_allocation: false,
};
const FULL: Negotiated = Negotiated {
    structured_replies: true,
    base_allocation: true,
};

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Request {
    Request {
        flags,
        command,
        cookie: 7,
        offset,
        length,
    }
}

fn error(
    command: u16,
    flags: u16,
    offset: u64,
    length: u32,
    on: &ExportInfo,
    with: &Negotiated,
) -> Option<NbdErrno> {
    validate_request(&request(command, flags, offset, length), on, with).err()
}

#[test]
fn valid_requests_become_commands() {
    let table = [
        (
            request(CMD_READ, CMD_FLAG_DF, 1, 2),
            Command::Read {
                offset: 1,
                length: 2,
                dont_fragment: true,
            },
        ),
        (
            request(CMD_WRITE, CMD_FLAG_FUA, SIZE - 3, 3),
            Command::Write {
                offset: SIZE - 3,
                length: 3,
                fua: true,
            },
        ),
        (request(CMD_FLUSH, 0, 0, 0), Command::Flush),
        (request(CMD_FLUSH, CMD_FLAG_FUA, 0, 0), Command::Flush),
        (
            request(CMD_TRIM, 0, 5, 6),
            Command::Trim {
                offset: 5,
                length: 6,
                fua: false,
            },
        ),
        (
            request(CMD_CACHE, 0, 0, u32::MAX >> 2),
            Command::Cache {
                offset: 0,
                length: u32::MAX >> 2,
            },
        ),
        (
            request(
                CMD_WRITE_ZEROES,
                CMD_FLAG_FUA | CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO,
                0,
                SIZE as u32,
            ),
            Command::WriteZeroes {
                offset: 0,
                length: SIZE as u32,
                fua: true,
                no_hole: true,
                fast_zero: true,
            },
        ),
        (
            request(CMD_BLOCK_STATUS, CMD_FLAG_REQ_ONE, 0, 512),
            Command::BlockStatus {
                offset: 0,
                length: 512,
                one_extent: true,
            },
        ),
    ];
    for (request, command) in table {
        assert_eq!(validate_request(&request, &RW, &FULL), Ok(command));
    }
}

#[test]
fn disconnect_is_never_refused() {
    let odd = request(CMD_DISC, 0xffff, 1, 1);
    assert_eq!(
        validate_request(&odd, &RO, &SIMPLE),
        Ok(Command::Disconnect)
    );
}

#[test]
fn unknown_commands_and_flags_are_invalid() {
    for command in (8..20).chain([u16::MAX]) {
        assert_eq!(
            error(command, 0, 0, 512, &RW, &FULL),
            Some(NbdErrno::Inval),
            "command {command}"
        );
    }
    let allowed = |command| {
        CMD_FLAG_FUA
            | match command {
                CMD_READ => CMD_FLAG_DF,
                CMD_WRITE_ZEROES => CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO,
                CMD_BLOCK_STATUS => CMD_FLAG_REQ_ONE,
                _ => 0,
            }
    };
    for command in [
        CMD_READ,
        CMD_WRITE,
        CMD_FLUSH,
        CMD_TRIM,
        CMD_CACHE,
        CMD_WRITE_ZEROES,
        CMD_BLOCK_STATUS,
    ] {
        let length = if command == CMD_FLUSH { 0 } else { 512 };
        for bit in 0..16 {
            let flag = 1 << bit;
            let expected = (flag & allowed(command) == 0).then_some(NbdErrno::Inval);
            assert_eq!(
                error(command, flag, 0, length, &RW, &FULL),
                expected,
                "command {command}, flag {flag:#x}"
            );
        }
    }
}

#[test]
fn df_needs_structured_replies() {
    assert_eq!(
        error(CMD_READ, CMD_FLAG_DF, 0, 512, &RW, &SIMPLE),
        Some(NbdErrno::Inval)
    );
    assert_eq!(error(CMD_READ, CMD_FLAG_DF, 0, 512, &RW, &STRUCTURED), None);
}

#[test]
fn block_status_needs_a_metadata_context() {
    assert_eq!(
        error(CMD_BLOCK_STATUS, 0, 0, 512, &RW, &STRUCTURED),
        Some(NbdErrno::Inval)
    );
    assert_eq!(error(CMD_BLOCK_STATUS, 0, 0, 512, &RW, &FULL), None);
}

#[test]
fn read_only_exports_refuse_only_writing_commands() {
    for command in [CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES] {
        // Even when the range is wrong too.
        for offset in [0, SIZE] {
            assert_eq!(
                error(command, 0, offset, 512, &RO, &FULL),
                Some(NbdErrno::Perm)
            );
        }
    }
    for command in [CMD_READ, CMD_CACHE, CMD_BLOCK_STATUS] {
        assert_eq!(error(command, 0, 0, 512, &RO, &FULL), None);
    }
    assert_eq!(error(CMD_FLUSH, 0, 0, 0, &RO, &FULL), None);
}

#[test]
fn ranges_beyond_the_end_get_the_documented_error() {
    let table = [
        (CMD_READ, NbdErrno::Inval),
        (CMD_WRITE, NbdErrno::NoSpc),
        (CMD_TRIM, NbdErrno::Inval),
        (CMD_CACHE, NbdErrno::Inval),
        (CMD_WRITE_ZEROES, NbdErrno::NoSpc),
        (CMD_BLOCK_STATUS, NbdErrno::Inval),
    ];
    for (command, errno) in table {
        assert_eq!(error(command, 0, SIZE - 1, 1, &RW, &FULL), None);
        for (offset, length) in [
            (SIZE - 1, 2),
            (SIZE, 1),
            (u64::MAX, 1),
            (u64::MAX, u32::MAX),
        ] {
            assert_eq!(
                error(command, 0, offset, length, &RW, &FULL),
                Some(errno),
                "command {command} at {offset}+{length}"
            );
        }
    }
}

#[test]
fn empty_ranges_are_invalid() {
    for command in [
        CMD_READ,
        CMD_WRITE,
        CMD_TRIM,
        CMD_CACHE,
        CMD_WRITE_ZEROES,
        CMD_BLOCK_STATUS,
    ] {
        assert_eq!(
            error(command, 0, 0, 0, &RW, &FULL),
            Some(NbdErrno::Inval),
            "command {command}"
        );
    }
}

#[test]
fn flush_has_no_range() {
    assert_eq!(
        error(CMD_FLUSH, 0, 512, 0, &RW, &FULL),
        Some(NbdErrno::Inval)
    );
    assert_eq!(
        error(CMD_FLUSH, 0, 0, 512, &RW, &FULL),
        Some(NbdErrno::Inval)
    );
}

#[test]
fn reads_are_bounded_by_the_payload_limit() {
    let over = PAYLOAD_BYTES_MAX + 1;
    assert_eq!(error(CMD_READ, 0, 0, PAYLOAD_BYTES_MAX, &RW, &SIMPLE), None);
    assert_eq!(
        error(CMD_READ, 0, 0, over, &RW, &SIMPLE),
        Some(NbdErrno::Inval)
    );
    assert_eq!(
        error(CMD_READ, 0, 0, over, &RW, &STRUCTURED),
        Some(NbdErrno::Overflow)
    );
}

#[test]
fn refused_writes_are_drained_up_to_a_limit() {
    let intake = |offset, length| admit(&request(CMD_WRITE, 0, offset, length), &RW, &SIMPLE);
    assert!(matches!(
        intake(0, PAYLOAD_BYTES_MAX),
        Intake::Run(Command::Write { .. })
    ));
    assert_eq!(
        intake(0, PAYLOAD_BYTES_MAX + 1),
        Intake::Refuse(NbdErrno::Inval)
    );
    assert_eq!(intake(0, DRAIN_BYTES_MAX), Intake::Refuse(NbdErrno::Inval));
    assert_eq!(intake(SIZE, 512), Intake::Refuse(NbdErrno::NoSpc));
    assert_eq!(intake(0, DRAIN_BYTES_MAX + 1), Intake::Disconnect);
    assert_eq!(intake(SIZE, u32::MAX), Intake::Disconnect);
}

#[test]
fn refused_commands_without_payload_end_no_connection() {
    let intake = admit(&request(CMD_READ, 0, SIZE, u32::MAX), &RW, &SIMPLE);
    assert_eq!(intake, Intake::Refuse(NbdErrno::Inval));
}

#[test]
fn transmission_flags_follow_what_was_negotiated() {
    assert_eq!(transmission_flags(false, false), 0b1101_0110_1101);
    assert_eq!(transmission_flags(false, true), 0b1101_1110_1101);
    assert_eq!(transmission_flags(true, false), 0b1101_0110_1111);
    for flags in [
        transmission_flags(true, true),
        transmission_flags(false, true),
    ] {
        assert_eq!(flags & FLAG_ROTATIONAL, 0);
    }
}

#[test]
fn error_numbers_are_those_of_the_protocol() {
    let codes = NbdErrno::ALL.map(NbdErrno::code);
    assert_eq!(codes, [1, 5, 12, 22, 28, 75, 95, 108]);
    for errno in NbdErrno::ALL {
        assert_eq!(NbdErrno::from_code(errno.code()), Some(errno));
    }
    assert_eq!(NbdErrno::from_code(0), None);
}
