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
    fn splits_do_not_matter_and_the_payload_is_left_alone(
        requests in prop::collection::vec(any_request(), 1..5),
        pieces in prop::collection::vec(1usize..40, 1..200),
    ) {
        let stream: Vec<u8> = requests.iter().flat_map(Request::encode).collect();
        let mut parser = HeaderParser::new();
        let (mut at, mut parsed) = (0, Vec::new());
        let mut pieces = pieces.into_iter().cycle();
        while at < stream.len() {
            let end = stream.len().min(at + pieces.next().expect("endless"));
            let before = parser.missing();
            let (taken, request) = parser.push(&stream[at..end]).expect("good magic");
            prop_assert!(taken <= before);
            at += taken;
            prop_assert_eq!(request.is_some(), at % REQUEST_HEADER_BYTES == 0);
            parsed.extend(request);
        }
        prop_assert!(parser.is_idle());
        prop_assert_eq!(parsed, requests);
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
