//! The conformance suite against every device of the project. The engine may use a device that passes.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, FlushFence, Overlay, RawDevice, stack};
use tonearm_rt::{Data, DeviceId, Op, Rt};
use tonearm_uring::{Create, MemberKind, MemberOptions, UringDriver, open_member};
use tonearm_world::filters::{Counted, Effect, Fault, FaultPlan};
use tonearm_world::{DiskImage, SimOptions, SimWorld, conformance};

const SIZE: u64 = conformance::SIZE_MIN + 4096;

fn simulated(seed: u64, block_size: u32) -> (Rt, Rc<dyn Device>) {
    let options = SimOptions {
        seed,
        ..SimOptions::default()
    };
    let world = SimWorld::new(options, vec![DiskImage::new(SIZE)]);
    let rt = Rt::new(world.driver());
    let raw = RawDevice::new(&rt, DeviceId(0), SIZE, block_size, "simulated");
    (rt, Rc::new(raw))
}

/// The member at `path`, opened with `options`, through a ring.
fn real(path: &Path, options: MemberOptions<'_>) -> (Rt, Rc<dyn Device>, MemberKind, bool) {
    let driver = UringDriver::new().unwrap();
    let member = open_member(path, options).unwrap();
    let id = driver.handle().add_file(member.fd);
    let rt = Rt::new(Box::new(driver));
    let name = path.display().to_string();
    let (size, block) = (member.size_bytes, member.logical_block_size);
    let raw = RawDevice::new(&rt, id, size, block, &name);
    (rt, Rc::new(raw), member.kind, member.direct)
}

fn new_file(preallocate: bool, direct: bool) -> MemberOptions<'static> {
    MemberOptions {
        create: Some(Create {
            size_bytes: SIZE,
            written: if preallocate { 0..SIZE } else { 0..0 },
            force: false,
            progress: None,
        }),
        direct,
        ..MemberOptions::default()
    }
}

/// Reports on the real standard error, past the test harness, what was not tested.
fn not_run(why: &str) {
    let line = format!("NOT RUN: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn a_simulated_device_conforms() {
    for (seed, block_size) in [(1, 1), (2, 512), (3, 4096)] {
        let (rt, device) = simulated(seed, block_size);
        rt.block_on(conformance::all(device));
    }
}

#[test]
fn a_file_with_direct_io_conforms() {
    let dir = tempfile::tempdir().unwrap();
    for preallocate in [false, true] {
        let path = dir.path().join(format!("store-{preallocate}"));
        let (rt, device, _, direct) = real(&path, new_file(preallocate, true));
        if !direct {
            not_run("direct I/O on a file: the file system of TMPDIR has none");
        }
        rt.block_on(conformance::all(device));
    }
}

#[test]
fn a_file_with_buffered_io_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let (rt, device, _, direct) = real(&dir.path().join("store"), new_file(false, false));
    assert!(!direct);
    rt.block_on(conformance::all(device));
}

#[test]
fn a_file_in_memory_conforms() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return not_run("a file on tmpfs: /dev/shm cannot be written");
    };
    let (rt, device, ..) = real(&dir.path().join("store"), new_file(false, true));
    rt.block_on(conformance::all(device));
}

struct LoopDevice(String);

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn losetup(path: &Path) -> Result<LoopDevice, String> {
    let output = Command::new("losetup")
        .args(["--find", "--show", "--direct-io=on"])
        .arg(path)
        .output()
        .map_err(|error| format!("losetup: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    let name = String::from_utf8_lossy(&output.stdout).trim().into();
    Ok(LoopDevice(name))
}

#[test]
fn a_block_device_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("backing");
    drop(open_member(&path, new_file(true, true)).unwrap());
    let device = match losetup(&path) {
        Ok(device) => device,
        Err(why) => {
            return not_run(&format!(
                "a block device (root and loop devices needed): {why}"
            ));
        }
    };
    let path = Path::new(&device.0);
    let refused = open_member(path, new_file(false, true))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("is a block device, and all that is on it"),
        "{refused}"
    );
    let (rt, raw, kind, direct) = real(path, MemberOptions::default());
    assert_eq!(
        (kind, direct, raw.size_bytes()),
        (MemberKind::BlockDevice, true, SIZE)
    );
    let refused = open_member(path, MemberOptions::default())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("is in use by"), "{refused}");
    rt.block_on(conformance::all(raw));
}

#[test]
fn filters_conform_alone_and_stacked() {
    for chosen in 0..16 {
        let (rt, mut device) = simulated(chosen, 512);
        let plan = FaultPlan::new();
        if chosen & 1 > 0 {
            device = Rc::new(Counted::new(device));
        }
        if chosen & 2 > 0 {
            device = Rc::new(FlushFence::new(device));
        }
        if chosen & 4 > 0 {
            device = Rc::new(Fault::new(device, &plan));
        }
        if chosen & 8 > 0 {
            device = stack::through_cache(device);
        }
        rt.block_on(conformance::all(device));
        assert_eq!(plan.acted(), 0);
    }
}

#[test]
fn an_overlay_conforms_and_changes_nothing_below() {
    for (seed, block_size) in [(1, 1), (2, 512), (3, 4096)] {
        let (rt, below) = simulated(seed, block_size);
        let counted = Rc::new(Counted::new(below));
        let overlay = Rc::new(Overlay::new(counted.clone(), SIZE * 100));
        rt.block_on(conformance::all(overlay));
        for op in [Op::Write, Op::WriteDurable, Op::Punch, Op::Zero] {
            assert_eq!(counted.count(op).started, 0, "{op:?}");
        }
    }
}

#[test]
fn an_overlay_takes_no_more_memory_than_it_may() {
    let (rt, below) = simulated(1, 512);
    rt.block_on(async move {
        let overlay = Rc::new(Overlay::new(below, 8192));
        let device: Rc<dyn Device> = overlay.clone();
        let pool = BufPool::new(0);
        for (offset, fits) in [(0, true), (512, true), (1024, false)] {
            let data = Data::whole(pool.alloc_zeroed(4096));
            assert_eq!(device.write(offset, data).await.is_ok(), fits);
            assert_eq!(overlay.is_full(), !fits);
        }
    });
}

#[test]
fn the_suite_finds_a_device_that_loses_a_write() {
    let found = std::panic::catch_unwind(|| {
        let (rt, device) = simulated(0, 512);
        let plan = FaultPlan::new();
        plan.once(|access| access.is_write(), Effect::Lose);
        let device: Rc<dyn Device> = Rc::new(Fault::new(device, &plan));
        rt.block_on(conformance::reads_what_was_written(device));
    });
    assert!(found.is_err());
}
