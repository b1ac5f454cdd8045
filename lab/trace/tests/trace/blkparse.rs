//! Output of blkparse: pairs, merges, splits, flushes, and lines without a request.

use crate::{at_ns, read, refused};
use tonearm_base::Nanos;
use tonearm_trace::{Format, Op, Reader, Record};

fn responses(text: &str) -> Vec<(u64, Option<u64>)> {
    let records = read(Format::Blkparse, text).unwrap();
    let pair = |record: &tonearm_trace::Record| (record.sector, record.response.map(|time| time.0));
    records.iter().map(pair).collect()
}

/// Written by blkparse 1.3 itself, for a trace of each kind of command.
const ALL_KINDS: &str = "\
Input file vda.blktrace.0 added
254,0    0        1     0.000000000  1000  Q   R 2048 + 8 [fio]
254,0    0        4     0.000002000  1000  R   R 2048 + 8 [0]
254,0    0        5     0.000002500  1000 UT   N [fio] 1
254,0    0        6     0.000003000  1000  D   R 2048 + 8 [fio]
254,0    0        7     0.000899000     0  C   R 2048 + 8 (  896000) [0]
254,0    0        8     0.000999000  1000  Q  WS 4096 + 8 [fio]
254,0    0        9     0.001000000  1000  Q  WS 4104 + 8 [fio]
254,0    0       10     0.001000500  1000  M  WS 4104 + 8 [fio]
254,0    0       11     0.001001000  1000  D  WS 4096 + 16 [fio]
254,0    0       12     0.002999000     0  C  WS 4096 + 16 [0]
254,0    0       13     0.003999000  1000  Q FWS [fio]
254,0    0       14     0.004000000  1000  D  FN [fio]
254,0    0       15     0.004999000     0  C  FN 0 [0]
254,0    0       16     0.005999000  1000  Q FWFSM 8192 + 8 [fio]
254,0    0       17     0.006000000  1000  D WFSM 8192 + 8 [fio]
254,0    0       18     0.006999000     0  C WFSM 8192 + 8 [0]
254,0    0       19     0.007999000  1000  Q  DS 8192 + 2048 [fio]
254,0    0       20     0.008000000  1000  D  DS 8192 + 2048 [fio]
254,0    0       21     0.008099000     0  C  DS 8192 + 2048 [0]
254,0    0       22     0.008999000  1000  D   R 4096 (12 00 00 00 ff 00 ..) [fio]
254,0    0       23     0.009099000     0  C   R (12 00 00 00 ff 00 ..) [0]
";

#[test]
fn each_kind_of_command_is_recognised_by_its_letters() {
    let mut reader = Reader::new("t", Format::Blkparse, ALL_KINDS.as_bytes());
    let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
    let shape: Vec<_> = records
        .iter()
        .map(|record| (record.op, record.sector, record.sectors, record.fua))
        .collect();
    assert_eq!(
        shape,
        [
            (Op::Read, 2048, 8, false),
            (Op::Write, 4096, 8, false),
            (Op::Write, 4104, 8, false),
            (Op::Flush, 0, 0, false),
            (Op::Flush, 0, 0, false),
            (Op::Write, 8192, 8, true),
        ]
    );
    assert_eq!(reader.skipped(), 1, "a discard");
    let took = |index: usize| records[index].response.map(|time| time.0);
    assert_eq!(took(0), Some(899_000));
    assert_eq!((took(1), took(2)), (Some(2_000_000), Some(1_999_000)));
    assert_eq!((took(3), took(5)), (Some(1_000_000), Some(1_000_000)));
}

/// From a kernel mailing list: a partition, a plug, an idle drive.
const PLAIN: &str = "\
  8,32   2      153     9.246369033 22900  C   N [0]
  8,32   0      200     9.268019255 15706  A  RM 2062 + 2 <- (8,33) 14
  8,32   0      201     9.268020922 15706  Q  RM 2062 + 2 [writerdt]
  8,32   0      202     9.268034745 15706  G  RM 2062 + 2 [writerdt]
  8,32   0      203     9.268051167 15706  I  RM 2062 + 2 [writerdt]
  8,32   0      204     9.268107127   161  D  RM 2062 + 2 [kworker/0:1H]
  8,32   2      154     9.268704050 22900  C  RM 2062 + 2 [0]
  8,32   0      206     9.268882510 15706  Q  WS 2160 + 2 [writerdt]
  8,32   0      208     9.268891685 15706  P   N [writerdt]
  8,32   0      209     9.268892510 15706  U   N [writerdt] 1
  8,32   0        0     9.268900000     0  m   N cfq15706S / alloced
  8,32   0      211     9.268913234 15706  D  WS 2160 + 2 [writerdt]
  8,32   2      155     9.271009859 22900  C  WS 2160 + 2 [0]
CPU0 (8,32):
 Reads Queued:           1,        1KiB\t Writes Queued:           1,        1KiB
 Read Dispatches:        1,        1KiB\t Write Dispatches:        1,        1KiB
 Reads Requeued:         0\t\t Writes Requeued:         0
 Reads Completed:        1,        1KiB\t Writes Completed:        1,        1KiB
 Read Merges:            0,        0KiB\t Write Merges:            0,        0KiB
 Read depth:             1        \t Write depth:             1
 PC Reads Queued:        0,        0KiB\t PC Writes Queued:        0,        0KiB
 IO unplugs:             1        \t Timer unplugs:           0

Throughput (R/W): 45,925KiB/s / 0KiB/s
Events (8,32): 12 entries
Skips: 0 forward (0 -   0.0%)
";

#[test]
fn requests_go_from_queue_to_completion() {
    let records = read(Format::Blkparse, PLAIN).unwrap();
    assert_eq!(records.len(), 2);
    let read = &records[0];
    assert_eq!((read.op, read.sector, read.sectors), (Op::Read, 2062, 2));
    assert_eq!((read.line, read.device), (3, 8 << 20 | 32));
    assert_eq!(at_ns(read), 9_268_020_922);
    assert_eq!(read.response, Some(Nanos(683_128)));
    assert_eq!(records[1].response, Some(Nanos(2_127_349)));
}

#[test]
fn without_queue_events_a_dispatch_is_the_arrival() {
    let text: String = PLAIN
        .lines()
        .filter(|line| !line.contains("  Q  "))
        .map(|line| format!("{line}\n"))
        .collect();
    let records = read(Format::Blkparse, text).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(at_ns(&records[0]), 9_268_107_127);
    assert_eq!(records[0].response, Some(Nanos(596_923)));
}

#[test]
fn dispatches_queued_before_the_trace_are_ignored() {
    let text = "\
  8,0    3        9     0.000000000   697  D   W 100 + 8 [kworker]
  8,0    3       11     0.000100000   697  Q   W 223490 + 8 [kjournald]
  8,0    3       12     0.000200000   697  C   W 100 + 8 [0]
  8,0    3       13     0.000300000   697  D   W 223490 + 8 [kjournald]
  8,0    3       14     0.000400000   697  C   W 223490 + 8 [0]
";
    assert_eq!(responses(text), [(223_490, Some(300_000))]);
}

#[test]
fn a_merged_request_completes_all_its_parts() {
    // From "BPF Performance Tools", 9.2.3, with the one completion that the book shows.
    let text = "\
259,0    2        1     0.000000000   430  Q  WS 2163864 + 8 [jbd2/nvme2n1-8]
259,0    2        2     0.000009556   430  G  WS 2163864 + 8 [jbd2/nvme2n1-8]
259,0    2        3     0.000011109   430  P   N [jbd2/nvme2n1-8]
259,0    2        4     0.000013256   430  Q  WS 2163872 + 8 [jbd2/nvme2n1-8]
259,0    2        5     0.000015740   430  M  WS 2163872 + 8 [jbd2/nvme2n1-8]
259,0    2       15     0.000026963   430  I  WS 2163864 + 48 [jbd2/nvme2n1-8]
259,0    2       16     0.000046155   430  D  WS 2163864 + 48 [jbd2/nvme2n1-8]
259,0    2       17     0.000699822   430  Q  WS 2163912 + 8 [jbd2/nvme2n1-8]
259,0   11        1     0.000664811     0  C  WS 2163864 + 48 [0]
";
    assert_eq!(
        responses(text),
        [
            (2_163_864, Some(664_811)),
            (2_163_872, Some(651_555)),
            (2_163_912, None),
        ]
    );
}

#[test]
fn completions_that_come_again_count_once() {
    // virtio with bio-based completion: the request, then each of its parts.
    let text = "\
252,0   43        1     0.000000000  1095  Q  WS 0 + 8 [systemd-udevd]
252,0   43        4     0.000050000  1095  Q  WS 8 + 8 [systemd-udevd]
252,0   43       17     0.000124734  1095  D  WS 0 + 16 [systemd-udevd]
252,0   43       18     0.000159740   227  C  WS 0 + 16 [0]
252,0   43       19     0.000165801   227  C  WS 0 + 8 [0]
252,0   43       20     0.000258675   227  C  WS 8 + 8 [0]
";
    assert_eq!(responses(text), [(0, Some(159_740)), (8, Some(109_740))]);
}

#[test]
fn a_split_request_is_done_with_its_last_part() {
    let text = "\
8,0 0 1 1.000000000 1 Q R 1000 + 16 [dd]
8,0 0 2 1.000001000 1 X R 1000 / 1008 [dd]
8,0 0 3 1.000500000 0 C R 1008 + 8 [0]
8,0 0 4 1.000900000 0 C R 1000 + 8 [0]
";
    assert_eq!(responses(text), [(1000, Some(900_000))]);
}

#[test]
fn each_of_two_equal_requests_has_its_own_completion() {
    let text = "\
8,0 0 1 1.000000000 1 Q R 1000 + 8 [dd]
8,0 0 2 1.000100000 1 Q R 1000 + 8 [dd]
8,0 0 3 1.000500000 0 C R 1000 + 8 [0]
8,0 0 4 1.000900000 0 C R 1000 + 8 [0]
";
    assert_eq!(
        responses(text),
        [(1000, Some(500_000)), (1000, Some(800_000))]
    );
}

#[test]
fn devices_and_directions_are_kept_apart() {
    let text = "\
8,0 0 1 1.000000000 1 Q R 1000 + 8 [dd]
8,16 0 1 1.000000000 1 Q R 1000 + 8 [dd]
8,0 0 1 1.000000000 1 Q W 1000 + 8 [dd]
8,16 0 3 1.000500000 0 C R 1000 + 8 [0]
8,0 0 4 1.000900000 0 C W 1000 + 8 [0]
";
    assert_eq!(
        responses(text),
        [(1000, None), (1000, Some(500_000)), (1000, Some(900_000))]
    );
}

#[test]
fn flushes_and_fua_are_recognised() {
    let text = "\
8,0 0 1 1.000000000 1 Q FWS [jbd2/sda1-8]
8,0 0 2 1.000001000 1 D FN [kworker/0:1H]
8,0 0 3 1.000500000 0 C FN 0 [0]
8,0 0 4 2.000000000 1 Q FWFSM 4096 + 8 [jbd2/sda1-8]
8,0 0 5 2.000700000 0 C FWFSM 4096 + 8 [0]
8,0 0 6 3.000000000 1 Q DS 8192 + 2048 [fstrim]
";
    let records = read(Format::Blkparse, text).unwrap();
    let shape: Vec<_> = records
        .iter()
        .map(|record| (record.op, record.fua, record.sectors))
        .collect();
    assert_eq!(
        shape,
        [
            (Op::Flush, false, 0),
            (Op::Flush, false, 0),
            (Op::Write, true, 8)
        ]
    );
    assert_eq!(records[0].response, Some(Nanos(500_000)));
    assert_eq!(records[2].response, Some(Nanos(700_000)));
}

#[test]
fn elapsed_times_and_names_of_any_bytes_do_no_harm() {
    let mut text = b"8,0 0 1 1.000000000 1 Q R 1000 + 8 [".to_vec();
    text.extend_from_slice(&[0xff, 0xfe]);
    text.extend_from_slice(b"]\n8,0 0 2 1.000400000 0 C R 1000 + 8 (  400000) [0]\n");
    let records = read(Format::Blkparse, text).unwrap();
    assert_eq!(records[0].response, Some(Nanos(400_000)));
}

#[test]
fn memory_is_bounded_when_completions_are_missing() {
    let text: String = (0..70_000)
        .map(|n| format!("8,0 0 {n} 1.{n:09} 1 Q R {} + 8 [dd]\n", n * 8))
        .collect();
    let mut reader = Reader::new("trace.txt", Format::Blkparse, text.as_bytes());
    let first = reader.next().unwrap().unwrap();
    assert_eq!((first.line, first.response), (1, None));
    assert_eq!(reader.count(), 69_999);
}

#[test]
fn a_line_without_an_event_is_refused() {
    assert_eq!(
        refused(
            Format::Blkparse,
            "8,0 0 1 1.0 1 Q R 1 + 8 [dd]\nhello world\n"
        ),
        "trace.txt:2: 'hello world' is not an event of blkparse's default output"
    );
    assert_eq!(
        refused(Format::Blkparse, "8,0 0 1 1.0 1 Q R 1 + x [dd]\n"),
        "trace.txt:1: 10th field 'x' is not a number of sectors"
    );
}
