use proptest::prelude::*;

use super::*;

fn string(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u32).to_be_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}

fn info(export: &str, kinds: &[u16]) -> Vec<u8> {
    let mut out = string(export);
    out.extend((kinds.len() as u16).to_be_bytes());
    out.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    out
}

fn meta(export: &str, queries: &[&str]) -> Vec<u8> {
    let mut out = string(export);
    out.extend((queries.len() as u32).to_be_bytes());
    out.extend(queries.iter().flat_map(|query| string(query)));
    out
}

#[test]
fn greeting_has_the_documented_layout() {
    let mut out = Vec::new();
    put_greeting(&mut out);
    assert_eq!(out, b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn option_heads_need_their_magic() {
    let header = OptionHeader {
        option: OPT_GO,
        data_bytes: 9,
    };
    let mut bytes = header.encode();
    assert_eq!(OptionHeader::parse(&bytes), Some(header));
    bytes[7] ^= 1;
    assert_eq!(OptionHeader::parse(&bytes), None);
}

#[test]
fn option_replies_have_the_documented_layout() {
    let mut out = Vec::new();
    put_option_reply(&mut out, OPT_LIST, REP_ERR_POLICY, b"no");
    let expected = [
        0, 0x03, 0xe8, 0x89, 0x04, 0x55, 0x65, 0xa9, 0, 0, 0, 3, 0x80, 0, 0, 2, 0, 0, 0, 2, b'n',
        b'o',
    ];
    assert_eq!(out, expected);
}

#[test]
fn block_size_information_states_the_limits() {
    let mut out = Vec::new();
    put_info_block_size(&mut out, OPT_GO, 4096, PAYLOAD_BYTES_MAX);
    let payload = [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0];
    assert_eq!(out[16..20], 14u32.to_be_bytes());
    assert_eq!(out[20..], payload);
}

#[test]
fn malformed_info_requests_are_refused() {
    let good = info("main", &[INFO_NAME, INFO_BLOCK_SIZE]);
    assert!(parse_info_request(&good).is_ok());
    for end in 0..good.len() {
        assert!(
            parse_info_request(&good[..end]).is_err(),
            "cut at {end} of {}",
            good.len()
        );
    }
    let long = info(&"n".repeat(4097), &[]);
    let mut trailing = good.clone();
    trailing.push(0);
    let mut not_utf8 = info("main", &[]);
    not_utf8[5] = 0xff;
    for bad in [long, trailing, not_utf8, info("a\0b", &[])] {
        assert!(parse_info_request(&bad).is_err());
    }
    assert!(parse_info_request(&info(&"n".repeat(4096), &[])).is_ok());
}

#[test]
fn malformed_meta_context_requests_are_refused() {
    let good = meta("main", &["base:allocation", "", "x-y:z"]);
    assert!(parse_meta_context_request(&good).is_ok());
    for end in 0..good.len() {
        assert!(parse_meta_context_request(&good[..end]).is_err());
    }
    let mut trailing = good.clone();
    trailing.push(0);
    assert!(parse_meta_context_request(&trailing).is_err());
    // A count that the data cannot hold does not allocate for it.
    let mut huge = string("");
    huge.extend(u32::MAX.to_be_bytes());
    assert!(parse_meta_context_request(&huge).is_err());
}

proptest! {
    #[test]
    fn parsing_undoes_encoding(
        export in "[^\0]{0,40}",
        kinds: Vec<u16>,
        queries in prop::collection::vec("[^\0]{0,20}", 0..10),
    ) {
        let parsed = parse_info_request(&info(&export, &kinds)).map(|request| {
            (request.export.to_owned(), request.kinds)
        });
        prop_assert_eq!(parsed, Ok((export.clone(), kinds)));
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        let data = meta(&export, &queries);
        let parsed = parse_meta_context_request(&data);
        prop_assert_eq!(parsed, Ok(MetaContextRequest { export: &export, queries }));
    }

    #[test]
    fn any_data_is_survived(data: Vec<u8>) {
        let _ = parse_info_request(&data);
        let _ = parse_meta_context_request(&data);
    }

    #[test]
    fn any_damage_is_survived(at: prop::sample::Index, byte: u8) {
        for mut data in [info("main", &[0, 1, 2, 3]), meta("main", &["base:", "a:b"])] {
            let at = at.index(data.len());
            data[at] = byte;
            let _ = parse_info_request(&data);
            let _ = parse_meta_context_request(&data);
        }
    }
}
