use super::{FRAME_MAX, Reply, Request, decode_any, frame_len, hello, version_of};
use crate::files::{AruId, FileId, FileInfo, FilesError, FilesErrorKind, Level, Open};
use proptest::prelude::*;

fn requests() -> Vec<Request<'static>> {
    let (file, aru) = (FileId(7), Some(AruId(3)));
    vec![
        Request::Open {
            name: "a name",
            how: Open {
                create: true,
                exclusive: false,
            },
        },
        Request::Close { file },
        Request::List,
        Request::Exists { name: "" },
        Request::Delete { name: "é" },
        Request::Rename { from: "a", to: "b" },
        Request::Size { file, aru },
        Request::Read {
            file,
            aru: None,
            offset: 5,
            len: 1 << 20,
        },
        Request::Begin {
            aru: AruId(u64::MAX),
        },
        Request::Write {
            file,
            aru,
            offset: u64::MAX,
            data: b"data",
        },
        Request::Truncate {
            file,
            aru: None,
            size: 1,
        },
        Request::End {
            aru: AruId(1),
            durable: true,
        },
        Request::Abort { aru: AruId(1) },
        Request::Flush,
        Request::Lock {
            file,
            level: Level::Exclusive,
        },
        Request::Unlock {
            file,
            level: Level::Shared,
        },
        Request::Reserved { file },
        Request::Create {
            aru: AruId(2),
            name: "n",
        },
        Request::OpenVolume { name: "main" },
        Request::Zero {
            file,
            offset: 1,
            len: 1 << 40,
        },
        Request::Status {
            file,
            offset: 0,
            len: u64::MAX,
        },
    ]
}

fn replies() -> Vec<Reply> {
    let info = FileInfo {
        name: "x".into(),
        size_bytes: 1,
        created_unix_s: 2,
    };
    vec![
        Reply::Done,
        Reply::Number(u64::MAX),
        Reply::Flag(true),
        Reply::Data(vec![1, 2, 3]),
        Reply::Files(vec![info.clone(), info]),
        Reply::Runs(vec![(1, true), (u64::MAX, false)]),
        Reply::Failed(FilesError::new(FilesErrorKind::Busy, "why")),
    ]
}

#[test]
fn frames_come_back_as_they_were() {
    let mut bytes = Vec::new();
    for request in requests() {
        bytes.clear();
        request.encode(9, &mut bytes);
        assert_eq!(frame_len(&bytes), Ok(Some(bytes.len())));
        assert_eq!(Request::decode(&bytes[4..]), Ok((9, request)));
    }
    for reply in replies() {
        bytes.clear();
        reply.encode(9, &mut bytes);
        if let Reply::Data(data) = &reply {
            let apart = [&super::data_head(9, data.len())[..], data].concat();
            assert_eq!(bytes, apart);
        }
        assert_eq!(Reply::decode(&bytes[4..]), Ok((9, reply)));
    }
    assert_eq!(version_of(&hello()), Ok(2));
}

#[test]
fn bounds_are_kept() {
    let mut bytes = Vec::new();
    let long = vec![0; FRAME_MAX];
    Request::Write {
        file: FileId(1),
        aru: None,
        offset: 0,
        data: &long,
    }
    .encode(1, &mut bytes);
    assert!(frame_len(&bytes).is_err() && Request::decode(&bytes[4..]).is_err());
    assert!(frame_len(&[0, 0, 0, 0]).is_err() && frame_len(&[255; 4]).is_err());
    assert_eq!(frame_len(&[1, 0]), Ok(None));
    // A text is cut between characters.
    let error = FilesError::new(FilesErrorKind::Failed, "é".repeat(700));
    bytes.clear();
    Reply::Failed(error).encode(1, &mut bytes);
    let Ok((1, Reply::Failed(cut))) = Reply::decode(&bytes[4..]) else {
        panic!("a reply");
    };
    assert_eq!(cut.text, "é".repeat(500));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        decode_any(&bytes);
    }

    #[test]
    fn frames_with_wrong_bytes_are_decoded_or_refused(
        which in 0usize..23, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0usize..4,
    ) {
        let mut bytes = Vec::new();
        let (requests, replies) = (requests(), replies());
        match requests.get(which) {
            Some(request) => request.encode(1, &mut bytes),
            None => replies[which - requests.len()].encode(1, &mut bytes),
        }
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(bytes.len().saturating_sub(cut));
        decode_any(bytes.get(4..).unwrap_or_default());
    }
}
