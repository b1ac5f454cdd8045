//! Writes the result as a drive file, in the form of `lab/drives/*.toml`: the measured figures, and a comment on each
//! assumed one.

use crate::deltas::deltas_section;
use crate::error::Error;
use crate::flash::Flash;
use crate::layout::Layout;
use crate::probe::Method;
use crate::run::{Disk, Findings, Kind};
use std::fmt::{self, Write};
use tonearm_drive_file::{DriveSpec, GeometrySpec, Sparing};

/// Most numbers in a line of a list.
const LINE: usize = 12;

/// The text of the drive file of `found`, a drive with the name `title`.
///
/// # Errors
/// When a drive file cannot express the layout.
pub fn drive_file(title: &str, found: &Findings) -> Result<String, Error> {
    let mut text = String::new();
    let result = match &found.kind {
        Kind::Disk(disk) => {
            let spec = Layout::in_tracks(disk.layout.spec()?);
            write_disk(&mut text, title, found, disk, &spec)
        }
        Kind::Flash(flash) => write_flash(&mut text, title, found, flash),
    };
    result.expect("a string takes any text");
    // A wrong file is reported by the caller that reads it.
    let spec = DriveSpec::parse(title, &text);
    if let Some(section) = spec.ok().as_ref().and_then(deltas_section) {
        text.push('\n');
        text.push_str(&section);
    }
    Ok(text)
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// Milliseconds to a tenth of a microsecond.
fn ms(time: f64) -> String {
    number(time, 4)
}

fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let short = text.trim_end_matches('0');
    match short.strip_suffix('.') {
        Some("-0") => "0.0".into(),
        Some(whole) => format!("{whole}.0"),
        None => short.into(),
    }
}

fn write_head(out: &mut String, title: &str, found: &Findings, how: &str) -> fmt::Result {
    writeln!(out, "title = {}", quoted(title))?;
    let region = &found.options.region;
    let whole = region.start == 0 && region.end == found.sectors;
    let place = match whole {
        true => "the whole drive".to_owned(),
        false => format!(
            "sectors {} to {} of {}",
            region.start,
            region.end - 1,
            found.sectors
        ),
    };
    writeln!(
        out,
        "source = \"measured by tonearm-lab calibrate: {how}, {place}\"\n"
    )
}

fn write_flash(out: &mut String, title: &str, found: &Findings, flash: &Flash) -> fmt::Result {
    let how = match flash.writes {
        Some(_) => "timed reads and writes, which show no platter that turns",
        None => "timed reads, which show no platter that turns",
    };
    write_head(out, title, found, how)?;
    writeln!(
        out,
        "[flash]\nsource = \"measured by tonearm-lab calibrate\""
    )?;
    writeln!(out, "sectors = {}", found.sectors)?;
    writeln!(out, "channels = {}", flash.channels)?;
    writeln!(out, "read_ms = {}", ms(flash.read))?;
    writeln!(
        out,
        "read_mib_per_s = {}",
        number(flash.read_mib_per_s.min(1e6), 1)
    )?;
    let Some(writes) = &flash.writes else {
        writeln!(out, "# Assumed: nothing was written. As reads:")?;
        writeln!(out, "write_ms = {}", ms(flash.read))?;
        writeln!(out, "write_cached_ms = {}", ms(flash.read))?;
        let rate = number(flash.read_mib_per_s.min(1e6), 1);
        writeln!(out, "write_mib_per_s = {rate}")?;
        return writeln!(out, "flush_ms = 0.0\nflush_ms_per_mib = 0.0");
    };
    writeln!(out, "write_ms = {}", ms(writes.durable))?;
    writeln!(out, "write_cached_ms = {}", ms(writes.plain))?;
    writeln!(
        out,
        "write_mib_per_s = {}",
        number(writes.write_mib_per_s.min(1e6), 1)
    )?;
    writeln!(out, "flush_ms = {}", ms(writes.flush))?;
    writeln!(out, "flush_ms_per_mib = {}", ms(writes.flush_per_mib))?;
    writeln!(
        out,
        "\n[write_cache]\nsource = \"measured by tonearm-lab calibrate: plain writes against writes with FUA\""
    )?;
    writeln!(out, "enabled = {}", writes.cached())?;
    writeln!(out, "# Assumed: no bound was looked for.\nsectors = 0")
}

fn write_disk(
    out: &mut String,
    title: &str,
    found: &Findings,
    disk: &Disk,
    spec: &GeometrySpec,
) -> fmt::Result {
    let how = match disk.method {
        Method::Durable => "timed writes with FUA, and reads",
        Method::Flushed => "timed writes, each with a flush, and reads",
        Method::Read(_) => "timed reads alone",
    };
    write_head(out, title, found, how)?;
    writeln!(out, "[disk.rotation]")?;
    let noise = disk.spindle.noise / 1e3;
    writeln!(
        out,
        "source = \"measured by tonearm-lab calibrate; ends of requests vary by {noise:.1} us\""
    )?;
    let rpm = 60e9 / disk.spindle.period;
    writeln!(out, "rpm = {}\n", number(rpm, 4))?;
    write_geometry(out, found, disk, spec)?;
    write_seek(out, disk)?;
    write_overhead(out, disk)?;
    write_memory(out, disk)?;
    write_zones(out, spec)
}

fn write_geometry(
    out: &mut String,
    found: &Findings,
    disk: &Disk,
    spec: &GeometrySpec,
) -> fmt::Result {
    writeln!(
        out,
        "[disk.geometry]\nsource = \"measured by tonearm-lab calibrate: angles of sectors\""
    )?;
    let region = &found.options.region;
    if region.start > 0 || region.end < found.sectors {
        writeln!(
            out,
            "# Assumed: before and behind the region the drive is as at its ends."
        )?;
    }
    if disk.heads_found {
        writeln!(
            out,
            "# Cylinders without any sector of the host cannot be seen; cylinders are counted without them."
        )?;
    } else {
        writeln!(
            out,
            "# Assumed: one head. Neither skews nor seek times tell where cylinders end."
        )?;
    }
    if !disk.layout.remapped.is_empty() {
        writeln!(
            out,
            "# Sectors whose content lies elsewhere: {:?}",
            disk.layout.remapped
        )?;
    }
    writeln!(out, "heads = {}", spec.heads)?;
    writeln!(out, "cylinders = {}", spec.cylinders)?;
    if let Some(sectors) = spec.sectors {
        writeln!(out, "sectors = {sectors}")?;
    }
    let sparing = match spec.sparing {
        Sparing::None => "\"none\"".into(),
        Sparing::Tracks => "\"tracks\"".into(),
        Sparing::Track => "\"track\"".into(),
        Sparing::Cylinder => "\"cylinder\"".into(),
        Sparing::Cylinders(range) => format!("{{ cylinders = {range} }}"),
        Sparing::Zone => "\"zone\"".into(),
        Sparing::Drive => "\"drive\"".into(),
    };
    writeln!(out, "sparing = {sparing}\n")
}

fn write_seek(out: &mut String, disk: &Disk) -> fmt::Result {
    let arm = &disk.arm;
    writeln!(out, "[disk.seek]")?;
    writeln!(
        out,
        "source = \"measured by tonearm-lab calibrate: least times between requests\""
    )?;
    match arm.head_switch {
        Some(time) => writeln!(out, "head_switch_ms = {}", ms(time))?,
        None => writeln!(out, "# Assumed: not measured.\nhead_switch_ms = 0.0")?,
    }
    match arm.write_settle {
        Some(time) => writeln!(out, "write_settle_ms = {}", ms(time))?,
        None => writeln!(
            out,
            "# Assumed: not measured; part of the seeks.\nwrite_settle_ms = 0.0"
        )?,
    }
    if arm.seeks.is_empty() {
        writeln!(
            out,
            "# Assumed: seeks could not be measured.\ncurve.table = [[1, 1.0], [1000, 10.0]]\n"
        )?;
        return Ok(());
    }
    writeln!(out, "curve.table = [")?;
    for points in arm.seeks.chunks(LINE / 2) {
        let points: Vec<String> = points
            .iter()
            .map(|(distance, time)| format!("[{distance}, {}]", ms(*time)))
            .collect();
        writeln!(out, "    {},", points.join(", "))?;
    }
    writeln!(out, "]\n")
}

fn write_overhead(out: &mut String, disk: &Disk) -> fmt::Result {
    let (commands, memory) = (&disk.commands, &disk.memory);
    writeln!(out, "[disk.overhead]")?;
    writeln!(
        out,
        "source = \"measured by tonearm-lab calibrate: least times between requests on one track\""
    )?;
    if let (Some(least), Some(sectors)) = (commands.write_least, commands.delta_sectors) {
        writeln!(
            out,
            "# A write of one sector takes {} ms at least; {sectors} sectors of the first zone pass meanwhile (delta).",
            ms(least)
        )?;
    }
    let known = [
        commands.write_after_write,
        commands.write_after_read,
        commands.read_after_write,
        commands.read_after_read,
    ];
    let any = known.iter().flatten().copied().next().unwrap_or(0.0);
    let mut pair = |key: &str, read: Option<f64>, write: Option<f64>, of: f64| {
        if read.is_none() || write.is_none() {
            writeln!(
                out,
                "# Assumed in part: as the other of its kind, or as another."
            )?;
        }
        let (read, write) = (read.or(write), write.or(read));
        let (read, write) = (read.unwrap_or(of), write.unwrap_or(of));
        writeln!(
            out,
            "{key} = {{ read = {}, write = {} }}",
            ms(read.max(0.0)),
            ms(write.max(0.0))
        )
    };
    pair("read_hit_ms", memory.read_hit, memory.read_hit, any)?;
    pair(
        "read_miss_ms",
        commands.read_after_read,
        commands.read_after_write,
        any,
    )?;
    pair("write_hit_ms", memory.write_hit, memory.write_hit, any)?;
    pair(
        "write_miss_ms",
        commands.write_after_read,
        commands.write_after_write,
        any,
    )?;
    for (key, time) in [
        ("read_done_ms", commands.read_done),
        ("write_done_ms", commands.write_done),
        ("flush_ms", memory.flush.unwrap_or(0.0)),
    ] {
        // Times of less than a microsecond count as none.
        if time >= 0.001 {
            writeln!(out, "{key} = {}", ms(time))?;
        }
    }
    writeln!(out)
}

fn write_memory(out: &mut String, disk: &Disk) -> fmt::Result {
    let (commands, memory) = (&disk.commands, &disk.memory);
    writeln!(
        out,
        "[disk.bus]\nsource = \"measured by tonearm-lab calibrate\""
    )?;
    let read = memory.read_sector;
    let write = memory.write_sector.or(commands.write_sector);
    if read.is_none() {
        writeln!(
            out,
            "# Assumed: the buffer served no read whose speed could be measured."
        )?;
    }
    writeln!(
        out,
        "read_sector_ms = {}",
        number(read.or(write).unwrap_or(0.0), 6)
    )?;
    if write.is_none() {
        writeln!(
            out,
            "# Assumed: writes do not show it, so the bus is not slower than the medium; as reads."
        )?;
    }
    writeln!(
        out,
        "write_sector_ms = {}\n",
        number(write.or(read).unwrap_or(0.0), 6)
    )?;
    writeln!(out, "[disk.buffer]")?;
    writeln!(
        out,
        "source = \"measured by tonearm-lab calibrate: reads again, and of what was read on to\""
    )?;
    writeln!(out, "segments = {}", memory.segments)?;
    let ahead = memory.read_ahead;
    if memory.segments > 0 {
        writeln!(
            out,
            "# Assumed: a segment holds what is read on, and no more."
        )?;
        writeln!(out, "segment_sectors = {}", (ahead + 1).max(8))?;
    } else {
        writeln!(out, "segment_sectors = 0")?;
    }
    if memory.segments > 0 && ahead > 0 {
        writeln!(
            out,
            "read_ahead = \"segment\"\nread_ahead_sectors = {ahead}"
        )?;
    }
    writeln!(out, "\n[write_cache]")?;
    let honoured = |what: Option<bool>| match what {
        Some(true) => "is honoured",
        Some(false) => "is NOT honoured",
        None => "was not tried",
    };
    writeln!(
        out,
        "source = \"measured by tonearm-lab calibrate: FUA {}, a flush {}\"",
        honoured(memory.fua_honoured),
        honoured(memory.flush_honoured)
    )?;
    let Some(enabled) = memory.write_cache else {
        writeln!(out, "# Assumed: nothing was written.")?;
        return writeln!(out, "enabled = false\nsectors = 0\n");
    };
    writeln!(out, "enabled = {enabled}")?;
    writeln!(out, "sectors = {}", memory.cache_sectors.unwrap_or(0))?;
    if enabled {
        let takes = match memory.cache_sequential {
            true => "sequential",
            false => "all",
        };
        writeln!(out, "takes = \"{takes}\"")?;
        writeln!(
            out,
            "# Assumed: the cache is emptied as soon as the drive has nothing else to do."
        )?;
        writeln!(out, "idle_ms = 0.0")?;
    }
    writeln!(out)
}

fn write_zones(out: &mut String, spec: &GeometrySpec) -> fmt::Result {
    for (index, zone) in spec.zones.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "[[disk.geometry.zones]]")?;
        writeln!(out, "first_cylinder = {}", zone.first_cylinder)?;
        writeln!(out, "last_cylinder = {}", zone.last_cylinder)?;
        writeln!(out, "track_sectors = {}", zone.track_sectors)?;
        writeln!(out, "track_skew = {}", number(zone.track_skew, 3))?;
        writeln!(out, "cylinder_skew = {}", number(zone.cylinder_skew, 3))?;
        if zone.offset != 0.0 {
            writeln!(out, "offset = {}", number(zone.offset, 3))?;
        }
        for (key, value) in [("reserved", zone.reserved), ("spares", zone.spares)] {
            if value > 0 {
                writeln!(out, "{key} = {value}")?;
            }
        }
        if !zone.slips.is_empty() {
            writeln!(out, "slips = [")?;
            for slips in zone.slips.chunks(LINE) {
                let slips: Vec<String> = slips.iter().map(u64::to_string).collect();
                writeln!(out, "    {},", slips.join(", "))?;
            }
            writeln!(out, "]")?;
        }
    }
    Ok(())
}
