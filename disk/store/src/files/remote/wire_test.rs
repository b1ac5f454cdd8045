use super::{DATA_MAX, FRAME_MAX, NAME_MAX, Reply, Request, VERSION};
use super::{decode_any, frame_len, hello, number_of, result_of, version_of};
use crate::files::{
    AruId, FileId, FileInfo, FilesError, FilesErrorKind, Level, Listing, NewAttr, Open,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn requests() -> Vec<Request<'static>> {
    let (file, aru, len) = (FileId(7), AruId(u64::MAX), u64::MAX);
    let (name, offset, size) = ("é", u64::MAX, 1);
    let how = Open {
        create: true,
        exclusive: false,
    };
    let (level, durable, data) = (Level::Exclusive, true, b"data");
    vec![
        Request::Open { name, how },
        Request::Close { file },
        Request::Look { path: "a/b" },
        Request::List { path: "", after: 7 },
        Request::MakeDir { path: "a" },
        Request::Exists { name: "" },
        Request::Delete { name },
        Request::Rename { from: "a", to: "b" },
        Request::Read {
            file,
            aru: None,
            offset,
            len: 1 << 20,
        },
        Request::Write {
            file,
            aru: Some(aru),
            offset,
            data,
        },
        Request::Truncate {
            file,
            aru: None,
            size,
        },
        Request::End { aru, durable },
        Request::Flush,
        Request::Lock { file, level },
        Request::Status { file, offset, len },
        Request::Marks,
        Request::WaitDurable { lsn: len },
        Request::Archive,
        Request::WaitArchived { lsn: len },
        Request::ReadLink { path: "a/é" },
        Request::MakeLink {
            path: "a",
            target: "../b",
        },
        Request::SetAttr {
            path: "a",
            aru: Some(aru),
            set: NewAttr {
                mode: Some(u32::MAX),
                modified_unix_s: Some(u64::MAX),
            },
        },
        Request::SetAttr {
            path: "",
            aru: None,
            set: NewAttr::default(),
        },
    ]
}

fn frame_of(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(9, &mut bytes);
    bytes
}

fn replies() -> Vec<Vec<u8>> {
    let info = FileInfo {
        name: "x".into(),
        size_bytes: 1,
        created_unix_s: 2,
        modified_unix_s: 3,
        mode: 0o100_644,
        uid: 4,
        gid: 5,
    };
    let listing = Listing {
        files: vec![info.clone(), info.clone()],
        after: Some(u64::MAX),
    };
    let busy = FilesError::new(FilesErrorKind::Busy, "why");
    vec![
        comes_back(Ok(())),
        comes_back(Ok(u64::MAX)),
        comes_back(Ok((3u64, 2u64, u64::MAX))),
        comes_back(Ok(true)),
        comes_back(Ok("target".to_string())),
        comes_back(Ok(info)),
        comes_back(Ok(listing)),
        comes_back(Ok(vec![(1, true), (u64::MAX, false)])),
        comes_back::<()>(Err(busy)),
    ]
}

/// Encodes a reply; the frame.
fn comes_back<T>(result: Result<T, FilesError>) -> Vec<u8>
where
    T: Serialize + DeserializeOwned + Clone + PartialEq + std::fmt::Debug,
{
    let frame = Reply::new(9, result.clone()).head;
    assert_eq!(frame_len(&frame), Ok(Some(frame.len())));
    let (number, body) = number_of(&frame[4..]).expect("a number");
    assert_eq!((number, result_of(body)), (9, Some((result, &[][..]))));
    frame
}

#[test]
fn frames_come_back_as_they_were() {
    for request in requests() {
        let bytes = frame_of(&request);
        assert_eq!(frame_len(&bytes), Ok(Some(bytes.len())));
        assert_eq!(Request::decode(&bytes[4..]), Ok((9, request)));
    }
    replies();
    let Reply { head, data } = Reply::with_data(9, Ok(vec![1, 2, 3]));
    let bytes = [head, data].concat();
    assert_eq!(frame_len(&bytes), Ok(Some(bytes.len())));
    assert_eq!(result_of(&bytes[8..]), Some((Ok(()), &[1, 2, 3][..])));
    assert_eq!(version_of(&hello()), Ok(VERSION));
}

#[test]
fn bounds_are_kept() {
    let refused = |request: Request<'_>| {
        let bytes = frame_of(&request);
        assert!(request.check().is_err() && Request::decode(&bytes[4..]).is_err());
        bytes
    };
    let name = "n".repeat(NAME_MAX + 1);
    refused(Request::Delete { name: &name });
    refused(Request::Rename {
        from: "a",
        to: &name,
    });
    refused(Request::ReadLink { path: &name });
    refused(Request::MakeLink {
        path: "a",
        target: &name,
    });
    refused(Request::SetAttr {
        path: &name,
        aru: None,
        set: NewAttr::default(),
    });
    let (file, aru, offset) = (FileId(1), None, 0);
    refused(Request::Read {
        file,
        aru,
        offset,
        len: DATA_MAX as u32 + 1,
    });
    let long = refused(Request::Write {
        file,
        aru,
        offset,
        data: &[0; FRAME_MAX],
    });
    assert!(frame_len(&long).is_err());
    assert!(frame_len(&[0, 0, 0, 0]).is_err() && frame_len(&[255; 4]).is_err());
    assert_eq!(frame_len(&[1, 0]), Ok(None));
    let mut longer = frame_of(&Request::Flush);
    longer.push(0);
    assert!(Request::decode(&longer[4..]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        decode_any(&bytes);
    }

    #[test]
    fn frames_with_wrong_bytes_are_decoded_or_refused(
        which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0usize..4,
    ) {
        let mut frames = replies();
        frames.extend(requests().iter().map(frame_of));
        let bytes = which.get(&frames);
        let mut bytes = bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(bytes.len().saturating_sub(cut));
        decode_any(bytes.get(4..).unwrap_or_default());
    }
}
