//! Writes the result as a drive file, in the form of `lab/drives/*.toml`: the measured figures, and a comment on each
//! assumed one.

use crate::deltas::deltas_section;
use crate::error::Error;
use crate::flash::Flash;
use crate::layout::Layout;
use crate::probe::Method;
use crate::run::{Disk, Findings, Kind};
use std::fmt::Display;
use tonearm_drive_file::{DriveSpec, GeometrySpec, Sparing};

/// Most numbers in a line of a list.
const LINE: usize = 12;

/// The text of the drive file of `found`, a drive with the name `title`.
///
/// # Errors
/// When a drive file cannot express the layout.
pub fn drive_file(title: &str, found: &Findings) -> Result<String, Error> {
    let mut out = Toml::default();
    match &found.kind {
        Kind::Disk(disk) => {
            let spec = Layout::in_tracks(disk.layout.spec()?);
            write_disk(&mut out, title, found, disk, &spec);
        }
        Kind::Flash(flash) => write_flash(&mut out, title, found, flash),
    }
    let mut text = out.0;
    // A wrong file is reported by the caller that reads it.
    let spec = DriveSpec::parse(title, &text);
    if let Some(section) = spec.ok().as_ref().and_then(deltas_section) {
        text.push('\n');
        text.push_str(&section);
    }
    Ok(text)
}

/// The text of a file, line by line.
#[derive(Default)]
struct Toml(String);

impl Toml {
    fn line(&mut self, line: impl Display) {
        self.0 += &format!("{line}\n");
    }

    /// A section, and where its figures come from.
    fn section(&mut self, name: &str, source: impl Display) {
        self.line(format_args!("[{name}]"));
        self.source(source);
    }

    fn source(&mut self, source: impl Display) {
        let source = format_args!("source = \"measured by tonearm-lab calibrate{source}\"");
        self.line(source);
    }

    fn key(&mut self, key: &str, value: impl Display) {
        self.line(format_args!("{key} = {value}"));
    }

    /// A time; or, if it was not measured, 0 with a comment.
    fn measured(&mut self, key: &str, time: Option<f64>, otherwise: &str) {
        if time.is_none() {
            self.assumed(otherwise);
        }
        self.key(key, ms(time.unwrap_or(0.0)));
    }

    fn assumed(&mut self, what: &str) {
        self.line(format_args!("# Assumed: {what}"));
    }

    /// A list of several lines, so many items in each.
    fn list(&mut self, key: &str, items: &[String], each: usize) {
        self.key(key, "[");
        for items in items.chunks(each) {
            self.line(format_args!("    {},", items.join(", ")));
        }
        self.line("]");
    }
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

fn write_head(out: &mut Toml, title: &str, found: &Findings, how: &str) {
    out.key("title", quoted(title));
    let region = &found.options.region;
    let place = match region.start == 0 && region.end == found.sectors {
        true => "the whole drive".to_owned(),
        false => format!(
            "sectors {} to {} of {}",
            region.start,
            region.end - 1,
            found.sectors
        ),
    };
    out.source(format_args!(": {how}, {place}"));
    out.line("");
}

fn write_flash(out: &mut Toml, title: &str, found: &Findings, flash: &Flash) {
    let how = match flash.writes {
        Some(_) => "timed reads and writes, which show no platter that turns",
        None => "timed reads, which show no platter that turns",
    };
    let rate = |mib_per_s: f64| number(mib_per_s.min(1e6), 1);
    write_head(out, title, found, how);
    out.section("flash", "");
    out.key("sectors", found.sectors);
    out.key("channels", flash.channels);
    out.key("read_ms", ms(flash.read));
    out.key("read_mib_per_s", rate(flash.read_mib_per_s));
    let Some(writes) = &flash.writes else {
        out.assumed("nothing was written. As reads:");
        out.key("write_ms", ms(flash.read));
        out.key("write_cached_ms", ms(flash.read));
        out.key("write_mib_per_s", rate(flash.read_mib_per_s));
        return out.line("flush_ms = 0.0\nflush_ms_per_mib = 0.0");
    };
    out.key("write_ms", ms(writes.durable));
    out.key("write_cached_ms", ms(writes.plain));
    out.key("write_mib_per_s", rate(writes.write_mib_per_s));
    out.key("flush_ms", ms(writes.flush));
    out.key("flush_ms_per_mib", ms(writes.flush_per_mib));
    out.line("");
    out.section("write_cache", ": plain writes against writes with FUA");
    out.key("enabled", writes.cached());
    out.assumed("no bound was looked for.");
    out.key("sectors", 0);
}

fn write_disk(out: &mut Toml, title: &str, found: &Findings, disk: &Disk, spec: &GeometrySpec) {
    let how = match disk.method {
        Method::Durable => "timed writes with FUA, and reads",
        Method::Flushed => "timed writes, each with a flush, and reads",
        Method::Read(_) => "timed reads alone",
    };
    write_head(out, title, found, how);
    let noise = disk.spindle.noise / 1e3;
    let source = format!("; ends of requests vary by {noise:.1} us");
    out.section("disk.rotation", source);
    out.key("rpm", number(60e9 / disk.spindle.period, 4));
    out.line("");
    write_geometry(out, found, disk, spec);
    write_seek(out, disk);
    write_overhead(out, disk);
    write_memory(out, disk);
    write_zones(out, spec);
}

fn write_geometry(out: &mut Toml, found: &Findings, disk: &Disk, spec: &GeometrySpec) {
    out.section("disk.geometry", ": angles of sectors");
    let region = &found.options.region;
    if region.start > 0 || region.end < found.sectors {
        out.assumed("before and after the region the drive is as at its ends.");
    }
    match disk.heads_found {
        true => out.line(
            "# Cylinders without any sector of the host cannot be seen; cylinders are counted without them.",
        ),
        false => out.assumed("one head. Neither skews nor seek times tell where cylinders end."),
    }
    let remapped = &disk.layout.remapped;
    if !remapped.is_empty() {
        out.line(format_args!(
            "# Sectors whose content lies elsewhere: {remapped:?}"
        ));
    }
    out.key("heads", spec.heads);
    out.key("cylinders", spec.cylinders);
    if let Some(sectors) = spec.sectors {
        out.key("sectors", sectors);
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
    out.key("sparing", sparing);
    out.line("");
}

fn write_seek(out: &mut Toml, disk: &Disk) {
    let arm = &disk.arm;
    out.section("disk.seek", ": least times between requests");
    out.measured("head_switch_ms", arm.head_switch, "not measured.");
    let otherwise = "not measured; part of the seeks.";
    out.measured("write_settle_ms", arm.write_settle, otherwise);
    if arm.seeks.is_empty() {
        out.assumed("seeks could not be measured.");
        out.key("curve.table", "[[1, 1.0], [1000, 10.0]]");
    } else {
        let point = |(distance, time): &(u32, f64)| format!("[{distance}, {}]", ms(*time));
        let points: Vec<String> = arm.seeks.iter().map(point).collect();
        out.list("curve.table", &points, LINE / 2);
    }
    out.line("");
}

fn write_overhead(out: &mut Toml, disk: &Disk) {
    let (commands, memory) = (&disk.commands, &disk.memory);
    out.section(
        "disk.overhead",
        ": least times between requests on one track",
    );
    if let (Some(least), Some(sectors)) = (commands.write_least, commands.delta_sectors) {
        out.line(format_args!(
            "# A write of one sector takes {} ms at least; {sectors} sectors of the first zone pass meanwhile (delta).",
            ms(least)
        ));
    }
    let known = [
        commands.write_after_write,
        commands.write_after_read,
        commands.read_after_write,
        commands.read_after_read,
    ];
    let any = known.iter().flatten().copied().next().unwrap_or(0.0);
    for (key, read, write) in [
        ("read_hit_ms", memory.read_hit, memory.read_hit),
        (
            "read_miss_ms",
            commands.read_after_read,
            commands.read_after_write,
        ),
        ("write_hit_ms", memory.write_hit, memory.write_hit),
        (
            "write_miss_ms",
            commands.write_after_read,
            commands.write_after_write,
        ),
    ] {
        if read.is_none() || write.is_none() {
            out.line("# Assumed in part: as the other of its kind, or as another.");
        }
        let [read, write] =
            [read.or(write), write.or(read)].map(|time| ms(time.unwrap_or(any).max(0.0)));
        out.key(key, format_args!("{{ read = {read}, write = {write} }}"));
    }
    for (key, time) in [
        ("read_done_ms", commands.read_done),
        ("write_done_ms", commands.write_done),
        ("flush_ms", memory.flush.unwrap_or(0.0)),
    ] {
        // Times of less than a microsecond count as none.
        if time >= 0.001 {
            out.key(key, ms(time));
        }
    }
    out.line("");
}

fn write_memory(out: &mut Toml, disk: &Disk) {
    let (commands, memory) = (&disk.commands, &disk.memory);
    out.section("disk.bus", "");
    let read = memory.read_sector;
    let write = memory.write_sector.or(commands.write_sector);
    if read.is_none() {
        out.assumed("the buffer served no read whose speed could be measured.");
    }
    out.key("read_sector_ms", number(read.or(write).unwrap_or(0.0), 6));
    if write.is_none() {
        out.assumed("writes do not show it, so the bus is not slower than the medium; as reads.");
    }
    out.key("write_sector_ms", number(write.or(read).unwrap_or(0.0), 6));
    out.line("");
    out.section("disk.buffer", ": reads again, and of what was read on to");
    out.key("segments", memory.segments);
    let ahead = memory.read_ahead;
    if memory.segments > 0 {
        out.assumed("a segment holds what is read on, and no more.");
        out.key("segment_sectors", (ahead + 1).max(8));
    } else {
        out.key("segment_sectors", 0);
    }
    if memory.segments > 0 && ahead > 0 {
        out.key("read_ahead", "\"segment\"");
        out.key("read_ahead_sectors", ahead);
    }
    out.line("");
    let honoured = |what: Option<bool>| match what {
        Some(true) => "is honoured",
        Some(false) => "is NOT honoured",
        None => "was not tried",
    };
    let fua = honoured(memory.fua_honoured);
    let flush = honoured(memory.flush_honoured);
    out.section("write_cache", format_args!(": FUA {fua}, a flush {flush}"));
    if memory.write_cache.is_none() {
        out.assumed("nothing was written.");
    }
    let enabled = memory.write_cache.unwrap_or(false);
    out.key("enabled", enabled);
    let sectors = memory.write_cache.and(memory.cache_sectors);
    out.key("sectors", sectors.unwrap_or(0));
    if enabled {
        out.key(
            "takes",
            match memory.cache_sequential {
                true => "\"sequential\"",
                false => "\"all\"",
            },
        );
        out.assumed("the cache is emptied as soon as the drive has nothing else to do.");
        out.key("idle_ms", "0.0");
    }
    out.line("");
}

fn write_zones(out: &mut Toml, spec: &GeometrySpec) {
    for (index, zone) in spec.zones.iter().enumerate() {
        if index > 0 {
            out.line("");
        }
        out.line("[[disk.geometry.zones]]");
        out.key("first_cylinder", zone.first_cylinder);
        out.key("last_cylinder", zone.last_cylinder);
        out.key("track_sectors", zone.track_sectors);
        out.key("track_skew", number(zone.track_skew, 3));
        out.key("cylinder_skew", number(zone.cylinder_skew, 3));
        if zone.offset != 0.0 {
            out.key("offset", number(zone.offset, 3));
        }
        for (key, value) in [("reserved", zone.reserved), ("spares", zone.spares)] {
            if value > 0 {
                out.key(key, value);
            }
        }
        if !zone.slips.is_empty() {
            let slips: Vec<String> = zone.slips.iter().map(u64::to_string).collect();
            out.list("slips", &slips, LINE);
        }
    }
}
