use super::{Place, TraceFiles};
use crate::cli::TraceFormat;
use crate::control::{TraceOp, TraceRequest};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn read(volume: u32, arrival_ns: u64) -> TraceRequest {
    TraceRequest {
        volume,
        op: TraceOp::Read,
        fua: false,
        offset: 1,
        bytes: 512,
        arrival_ns,
        response_ns: 1_500,
    }
}

fn place(folder: &Path, max_bytes: u64, files: u32) -> Place {
    Place {
        path: folder.join("t"),
        format: TraceFormat::Csv,
        max_bytes,
        files,
    }
}

fn create(place: Place) -> TraceFiles {
    TraceFiles::create(place, "# about\n".to_string()).expect("created")
}

/// Lines of the file that are requests.
fn requests(folder: &TempDir, name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.path().join(name)).expect("a file");
    assert!(text.ends_with('\n'), "{name}: {text}");
    let (head, rest) = text.split_once("response_ms\n").expect("a header");
    assert!(head.starts_with("# about\n"), "{name}: {text}");
    let lines = rest.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_string).collect()
}

#[test]
fn lines_are_exact_and_name_the_volumes() {
    let folder = TempDir::new().expect("a folder");
    let mut files = create(place(folder.path(), 1 << 20, 1));
    let volumes = ["main".to_string(), "a\nb".to_string()];
    let write = TraceRequest {
        op: TraceOp::Write,
        fua: true,
        offset: 4096,
        bytes: 4096,
        ..read(1, 12_000_000_007)
    };
    let flush = TraceRequest {
        op: TraceOp::Flush,
        offset: 0,
        bytes: 0,
        ..read(0, 12_000_000_008)
    };
    for request in [read(0, 7), write, flush] {
        assert!(files.request(&request, &volumes).expect("written"));
    }
    files.comment("end");
    files.end().expect("written");
    let text = fs::read_to_string(folder.path().join("t")).expect("a file");
    assert_eq!(
        text,
        "# about\n\
         arrival_ms,device,rw,lba,sectors,fua,response_ms\n\
         # device 0: volume \"main\"\n\
         0.000007,0,R,0,2,0,0.001500\n\
         # device 1: volume \"a\\nb\"\n\
         12000.000007,1,W,8,8,1,0.001500\n\
         12000.000008,0,F,0,0,0,0.001500\n\
         # end\n"
    );
    assert_eq!(files.bytes(), text.len() as u64);
}

#[test]
fn an_iolog_is_exact_and_has_no_comment() {
    let folder = TempDir::new().expect("a folder");
    let mut files = create(Place {
        format: TraceFormat::FioIolog,
        ..place(folder.path(), 1 << 20, 1)
    });
    let volumes = ["main".to_string(), "a b%\n".to_string()];
    let write = TraceRequest {
        op: TraceOp::Write,
        fua: true,
        offset: 4096,
        bytes: 4096,
        ..read(1, 12_000_000_999)
    };
    let flush = TraceRequest {
        op: TraceOp::Flush,
        offset: 0,
        bytes: 0,
        ..read(0, 12_000_001_000)
    };
    for request in [read(0, 7), write, flush] {
        assert!(files.request(&request, &volumes).expect("written"));
    }
    files.comment("end");
    files.end().expect("written");
    let text = fs::read_to_string(folder.path().join("t")).expect("a file");
    assert_eq!(
        text,
        "fio version 3 iolog\n\
         0 main add\n\
         0 main open\n\
         0 main read 1 512\n\
         12000000 a%20b%25%0A add\n\
         12000000 a%20b%25%0A open\n\
         12000000 a%20b%25%0A write 4096 4096\n\
         12000000 a%20b%25%0A datasync 0 0\n\
         12000001 main datasync 0 0\n"
    );
    assert_eq!(files.bytes(), text.len() as u64);
}

#[test]
fn a_single_file_is_full_at_its_bound() {
    let folder = TempDir::new().expect("a folder");
    let mut files = create(place(folder.path(), 2_000, 1));
    let volumes = ["main".to_string()];
    let mut count = 0;
    while files.request(&read(0, count), &volumes).expect("written") {
        count += 1;
    }
    files.comment("end");
    files.end().expect("written");
    assert_eq!(requests(&folder, "t").len() as u64, count);
    assert!(count > 10 && files.bytes() <= 2_000, "{count}");
    assert_eq!(files.names().len(), 1);
}

#[test]
fn the_newest_requests_stay_when_files_rotate() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("t.2"), "of an earlier trace").expect("written");
    let mut files = create(place(folder.path(), 2_000, 3));
    assert!(!folder.path().join("t.2").exists());
    let volumes = ["main".to_string()];
    for arrival in 0..1_000 {
        assert!(files.request(&read(0, arrival), &volumes).expect("written"));
    }
    files.end().expect("written");
    let mut all = Vec::new();
    for name in ["t.2", "t.1", "t"] {
        let text = fs::read_to_string(folder.path().join(name)).expect("a file");
        assert!(text.len() <= 2_000 && text.contains("# device 0"), "{text}");
        all.extend(requests(&folder, name));
    }
    let first = 1_000 - all.len() as u64;
    let expected: Vec<String> = (first..1_000)
        .map(|arrival| format!("0.{arrival:06},0,R,0,2,0,0.001500"))
        .collect();
    assert_eq!(all, expected);
    assert!(!folder.path().join("t.3").exists());
    let sizes =
        ["t", "t.1", "t.2"].map(|name| folder.path().join(name).metadata().expect("a file").len());
    assert_eq!(files.bytes(), sizes.iter().sum::<u64>());
    assert_eq!(files.names().len(), 3);
}

#[test]
fn existing_trace_files_are_kept_without_force() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("t.1"), "mine").expect("written");
    let refused = |place: &Place, force| place.check(force).expect_err("refused").to_string();
    let rotating = place(folder.path(), 1, 2);
    assert!(
        refused(&rotating, false)
            .contains("t.1 exists; choose another name, or overwrite it with --force")
    );
    rotating.check(true).expect("forced");
    place(folder.path(), 1, 1)
        .check(false)
        .expect("not in the way");
    fs::create_dir(folder.path().join("t")).expect("a folder");
    assert!(refused(&rotating, true).contains("t is not a regular file"));
}
