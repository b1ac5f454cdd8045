//! Every drive of the project, calibrated by one that has never seen it.
#![allow(clippy::unwrap_used)]

use base::Nanos;
use device::{Device, RawDevice};
use drive::{
    DiskImage, Drive, DriveOptions, DriveSpec, Geometry, SimDisk, SimOptions, SimWorld, Zeroing,
};
use rt::{DeviceId, Rt};
use std::rc::Rc;
use tonearm_calibrate::{Hooks, Journal, Options, calibrate};

fn world(spec: &DriveSpec) -> (SimWorld, u64) {
    let drive = Drive::new(
        spec,
        &DriveOptions {
            seed: 7,
            phase: 0.3711,
            ..DriveOptions::default()
        },
    );
    let sectors = drive.sectors();
    let disk = SimDisk {
        image: DiskImage::new(sectors * 512),
        timing: Box::new(drive),
        write_cache: true,
        zeroing: Zeroing::Command,
    };
    let options = SimOptions {
        power_cuts: false,
        ..SimOptions::default()
    };
    (SimWorld::with_disks(options, vec![disk]), sectors)
}

#[test]
fn all() {
    let only = std::env::var("ONLY").ok();
    for drive in drive::library() {
        if only.as_ref().is_some_and(|only| only != drive.name) {
            continue;
        }
        let spec = DriveSpec::parse(drive.name, drive.text).unwrap();
        let started = std::time::Instant::now();
        let (world, sectors) = world(&spec);
        let rt = Rt::new(world.driver());
        let device: Rc<dyn Device> = Rc::new(RawDevice::new(
            &rt,
            DeviceId(0),
            sectors * 512,
            512,
            drive.name,
        ));
        let options = Options {
            region: 0..sectors,
            may_write: std::env::var("READ").is_err(),
        };
        let inner = rt.clone();
        let (found, journal) = rt.block_on(async move {
            calibrate(
                &inner,
                device,
                options,
                Journal::new("x", None),
                Hooks::default(),
            )
            .await
        });
        let now: Nanos = world.now();
        let found = match found {
            Ok(Some(found)) => found,
            other => {
                println!(
                    "{}: {:?} after {} ios {:.1} s",
                    drive.name,
                    other.map(|_| ()),
                    world.ios(),
                    now.0 as f64 / 1e9
                );
                continue;
            }
        };
        let disk = spec.disk.as_ref().unwrap();
        let truth = Geometry::new(&disk.geometry);
        let made = Geometry::new(&found.layout.spec().unwrap());
        let mut wrong = 0;
        let mut worst = 0.0f64;
        let mut spt_wrong = 0;
        let n = 20000u64;
        let base = truth.extent(0).angle.wrapping_sub(made.extent(0).angle);
        for i in 0..n {
            let lba = i * (sectors - 1) / n;
            let (a, b) = (truth.extent(lba), made.extent(lba));
            if a.track_sectors != b.track_sectors {
                spt_wrong += 1;
            }
            let d = (a.angle.wrapping_sub(b.angle).wrapping_sub(base) as i64) as f64
                / 2f64.powi(64)
                * f64::from(a.track_sectors);
            if d.abs() > 0.3 {
                wrong += 1;
            }
            worst = worst.max(d.abs());
        }
        if only.is_some() {
            let mut first = 0;
            for (c0, c1, spt) in truth.zones() {
                let lo = (first..sectors)
                    .find(|l| truth.extent(*l).cylinder >= c0)
                    .unwrap_or(sectors);
                first = lo;
                println!("  truth {lo} {c0}..{c1} {spt}");
            }
            for z in &found.layout.zones {
                println!(
                    "  found {} {} ts {} cs {} off {} res {} slips {}",
                    z.first,
                    z.track_sectors,
                    z.track_skew,
                    z.cylinder_skew,
                    z.offset,
                    z.reserved,
                    z.slips.len()
                );
            }
        }
        {
            let seek = |d: u32| drive::curve_ms(&disk.seek.curve, d);
            let settle = found.arm.write_settle.unwrap_or(0.0);
            let errors: Vec<f64> = found.arm.seeks.iter().map(|(d, t)| (t + settle) - (seek(*d) + disk.seek.write_settle_ms).max(0.0)).collect();
            let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
            let max = errors.iter().fold(0.0f64, |a, e| a.max(e.abs()));
            println!("  seeks {} rms {rms:.4} max {max:.4}; hs {:?}/{} settle {:?}/{} same track {}", errors.len(), found.arm.head_switch, disk.seek.head_switch_ms, found.arm.write_settle, disk.seek.write_settle_ms, disk.seek.same_track_ms);
            println!("  {:?}", found.commands);
            println!("  truth rm {:?} wm {:?} rd {} wd {}", disk.overhead.read_miss_ms, disk.overhead.write_miss_ms, disk.overhead.read_done_ms, disk.overhead.write_done_ms);
            println!("  {:?}", found.memory);
            println!("  truth rh {:?} wh {:?} flush {} bus {} {} segments {} ahead {} cache {} {} {:?}", disk.overhead.read_hit_ms, disk.overhead.write_hit_ms, disk.overhead.flush_ms, disk.bus.read_sector_ms, disk.bus.write_sector_ms, disk.buffer.segments, disk.buffer.read_ahead_sectors, spec.write_cache.enabled, spec.write_cache.sectors, spec.write_cache.takes);
            println!("  heads found {} method {:?}", found.heads_found, found.method);
        }
        println!(
            "{}: period {:.3} ppm, heads {}/{}, cyl {}/{}, sparing {:?}/{:?}, zones {}/{}, slips {}/{}, remapped {}, spt wrong {spt_wrong}/{n}, angle wrong {wrong}, worst {worst:.3}; {} ios, {:.0} s virtual, journal {}, {:?}",
            drive.name,
            (found.spindle.period / (60e9 / disk.rotation.rpm) - 1.0) * 1e6,
            found.layout.heads,
            disk.geometry.heads,
            made.cylinders(),
            truth.cylinders(),
            found.layout.sparing,
            disk.geometry.sparing,
            found.layout.zones.len(),
            disk.geometry.zones.len(),
            found
                .layout
                .zones
                .iter()
                .map(|z| z.slips.len())
                .sum::<usize>(),
            disk.geometry
                .zones
                .iter()
                .map(|z| z.slips.len())
                .sum::<usize>(),
            found.layout.remapped.len(),
            world.ios(),
            now.0 as f64 / 1e9,
            journal.len(),
            started.elapsed()
        );
    }
}
