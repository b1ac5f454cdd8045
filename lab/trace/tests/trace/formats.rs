//! Each format, with lines of well-known traces.

use crate::{at_ns, open, read, refused};
use tonearm_base::Nanos;
use tonearm_trace::{Arrival, Format, Op, Reader, Record};

#[test]
fn disksim_validation_traces_are_closed_loops() {
    // The beginning of DiskSim's atlas10k and hp_c2247a traces.
    let text = "\
W Hit    4583176   4    663.00000  45422.00000
W Hit    4583180   4    607.00000  34200.00000
R Miss  564347     2     14095.370     13876.270
";
    let records = read(Format::DisksimValid, text).unwrap();
    let think: Vec<Arrival> = records.iter().map(|record| record.arrival).collect();
    let after = |nanos| Arrival::AfterThink(Nanos(nanos));
    assert_eq!(think, [after(0), after(45_422_000), after(34_200_000)]);
    assert_eq!(records[0].response, Some(Nanos(663_000)));
    assert_eq!(records[2].response, Some(Nanos(14_095_370)));
    assert_eq!((records[2].sector, records[2].sectors), (564_347, 2));
    assert_eq!(
        records.iter().map(|record| record.op).collect::<Vec<_>>(),
        [Op::Write, Op::Write, Op::Read]
    );
}

#[test]
fn disksim_ascii() {
    let text = "13.191135\t30\t0\t5\t1\n17.829285\t20\t576560\t6\t1\n24.314779\t17\t0\t24\t4a\n";
    let records = read(Format::DisksimAscii, text).unwrap();
    assert_eq!(at_ns(&records[0]), 13_191_135);
    assert_eq!((records[1].device, records[1].sector), (20, 576_560));
    assert_eq!((records[1].op, records[2].op), (Op::Read, Op::Write));
}

#[test]
fn spc_financial() {
    // Financial1 of the UMass repository; then an upper-case opcode and a field of the user's own.
    let text = "\
0,303567,3584,w,0.000000
1,55590,3072,w,0.000000
0,303574,3584,w,0.026214
4,1,1025,R,0.026215,x
";
    let records = read(Format::Spc, text).unwrap();
    assert_eq!(records[0], open(1, 0, Op::Write, 303_567, 7));
    assert_eq!(records[1].device, 1);
    assert_eq!(records[2], open(3, 26_214, Op::Write, 303_574, 7));
    assert_eq!((records[3].op, records[3].sectors), (Op::Read, 3));
}

#[test]
fn msr_cambridge() {
    let text = "\
128166372003061629,hm,0,Read,383496192,32768,413
128166372016382155,hm,0,Write,2822144,4096,1372
128166372026382245,hm,1,Write,100,1000,30
";
    let records = read(Format::Msr, text).unwrap();
    let first = Record {
        response: Some(Nanos(41_300)),
        ..open(1, 0, Op::Read, 749_016, 64)
    };
    assert_eq!(records[0], first);
    assert_eq!(at_ns(&records[1]), 1_332_052_600);
    assert_eq!((records[1].sector, records[1].sectors), (5_512, 8));
    // A sector that a range touches in part belongs to it as a whole.
    let third = &records[2];
    assert_eq!((third.device, third.sector, third.sectors), (1, 0, 3));
    let headed = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n{text}");
    assert_eq!(read(Format::Msr, headed).unwrap().len(), 3);
}

#[test]
fn fio_version_2_is_a_closed_loop_with_waits() {
    let text = "\
fio version 2 iolog
/dev/sdb add
/dev/sdb open
/dev/sdb read 0 4096
/dev/sdb wait 1500 0
/dev/sdb wait 500 0
/dev/sdb write 8192 16384
/dev/sdb sync 0 0
/dev/sdb trim 0 1048576
/dev/sdc add
/dev/sdc write 1 1
/dev/sdb close
";
    let records = read(Format::FioIolog, text).unwrap();
    let shape: Vec<_> = records
        .iter()
        .map(|record| (record.op, record.device, record.sector, record.sectors))
        .collect();
    assert_eq!(
        shape,
        [
            (Op::Read, 0, 0, 8),
            (Op::Write, 0, 16, 32),
            (Op::Flush, 0, 0, 0),
            (Op::Write, 1, 0, 1),
        ]
    );
    let after = |micros| Arrival::AfterThink(Nanos::from_micros(micros));
    let think: Vec<Arrival> = records.iter().map(|record| record.arrival).collect();
    assert_eq!(think, [after(0), after(2_000), after(0), after(0)]);
}

#[test]
fn fio_version_3_has_microseconds() {
    let text = "\
fio version 3 iolog
2 Nvme1n1 add
872 Nvme1n1 open
878 Nvme1n1 write 0 16384
888 Nvme1n1 write 16384 16384
891 Nvme1n1 datasync 0 0
10001677 Nvme1n1 close
";
    let records = read(Format::FioIolog, text).unwrap();
    assert_eq!(records[0], open(4, 878, Op::Write, 0, 32));
    assert_eq!(records[1], open(5, 888, Op::Write, 32, 32));
    assert_eq!(records[2], open(6, 891, Op::Flush, 0, 0));
}

#[test]
fn a_measured_trace_is_a_closed_loop_with_responses() {
    let text = "\
rw,buffer_action,blkno,blocks,measured_ms,think_ms_before_next,disksim_arrival_ms,disksim_response_ms
W,Hit,4583176,4,0.663000,45.422000,0.000000,0.582000
R,Hit,3962268,12,6.657000,64.047000,46.004000,6.849539
";
    let records = read(Format::Csv, text).unwrap();
    assert_eq!(records[1].arrival, Arrival::AfterThink(Nanos(45_422_000)));
    assert_eq!(records[1].response, Some(Nanos(6_657_000)));
    assert_eq!((records[1].line, records[1].sector), (3, 3_962_268));
}

#[test]
fn the_output_of_a_replay_can_be_read() {
    let text = "arrival_ms,lba,sectors,rw,response_ms\n0.5,8,16,R,5.25\n1,0,0,F,0.1\n";
    let records = read(Format::Csv, text).unwrap();
    let first = Record {
        response: Some(Nanos(5_250_000)),
        ..open(2, 500, Op::Read, 8, 16)
    };
    assert_eq!(records[0], first);
    assert_eq!((records[1].op, records[1].sectors), (Op::Flush, 0));
}

#[test]
fn a_recorded_trace_has_volumes_and_durable_writes() {
    // As `tonearm trace record` writes it, with two of its files joined.
    let text = "\
# tonearm trace record, version 0.1.0
arrival_ms,device,rw,lba,sectors,fua,response_ms
# device 0: volume \"main\"
0.000500,0,W,8,16,0,0.010000
0.001000,0,F,0,0,0,1.000000
# device 1: volume \"b\"
0.001001,1,W,0,1,1,2.000000
0.002000,0,T,0,2097152,1,0.001000
0.002000,0,Z,0,8,0,0.001000
arrival_ms,device,rw,lba,sectors,fua,response_ms
0.003000,1,R,0,1,0,0.002000
# end
";
    let mut reader = Reader::new("trace.csv", Format::Csv, text.as_bytes());
    let records: Result<Vec<Record>, _> = reader.by_ref().collect();
    let shape: Vec<_> = records
        .unwrap()
        .iter()
        .map(|record| (record.op, record.device, record.fua, at_ns(record)))
        .collect();
    assert_eq!(
        shape,
        [
            (Op::Write, 0, false, 500),
            (Op::Flush, 0, false, 1_000),
            (Op::Write, 1, true, 1_001),
            (Op::Read, 1, false, 3_000),
        ]
    );
    assert_eq!(reader.skipped(), 2, "a trim and a zeroing");
}

#[test]
fn columns_of_a_recorded_trace_are_checked() {
    let header = "arrival_ms,device,rw,lba,sectors,fua\n";
    let refused = |line: &str| refused(Format::Csv, format!("{header}{line}\n"));
    assert_eq!(
        refused("0,0,W,0,8,yes"),
        "trace.txt:2: 6th field 'yes' is not 0 or 1"
    );
    assert_eq!(
        refused("0,main,W,0,8,0"),
        "trace.txt:2: 2nd field 'main' is not a device number"
    );
    assert_eq!(
        refused("0,0,X,0,8,0"),
        "trace.txt:2: 3rd field 'X' is not R, W, F, T or Z"
    );
}

#[test]
fn names_of_formats_are_read_back() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "strace".parse::<Format>().unwrap_err().to_string();
    for format in Format::ALL {
        assert!(error.contains(format.name()), "{error}");
    }
}
