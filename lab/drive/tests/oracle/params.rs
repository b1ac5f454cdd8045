//! Drives with exactly the parameters of the reference simulator, before any fitting.

use crate::data::{drive, text};
use serde_json::Value;
use tonearm_drive_file::{
    After, BusSpec, CacheTakes, DriveSpec, ReadAhead, SeekCurve, WriteDetour,
};

fn number(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is no number"))
}

fn after(overheads: &Value, key: &str) -> After {
    After {
        read: number(overheads, &format!("{key}_after_read")),
        write: number(overheads, &format!("{key}_after_write")),
    }
}

/// The drive as extracted.
pub fn extracted(name: &str) -> DriveSpec {
    let facts: Value = serde_json::from_str(&text(&format!("drives/{name}.json"))).unwrap();
    let mut spec = drive(name);
    let disk = spec.disk.as_mut().unwrap();
    disk.rotation.rpm = number(&facts["geometry"], "rpm");

    let mechanics = &facts["mechanics"];
    disk.seek.head_switch_ms = number(mechanics, "head_switch_ms");
    disk.seek.write_settle_ms = number(mechanics, "write_settle_extra_ms");
    disk.seek.same_track_ms = 0.0;
    disk.seek.curve = curve(&mechanics["seek"]);

    let overheads = &facts["overheads_ms"];
    let own = &mut disk.overhead;
    own.read_hit_ms = after(overheads, "read_hit");
    own.read_miss_ms = after(overheads, "read_miss");
    own.write_hit_ms = after(overheads, "write_hit");
    own.write_miss_ms = after(overheads, "write_miss");
    own.read_disconnect_ms = after(overheads, "read_disconnect");
    own.read_done_ms = number(overheads, "read_completion");
    own.write_done_ms = number(overheads, "write_completion");
    own.write_disconnect_ms = number(overheads, "write_disconnect");
    own.reconnect_ms = number(overheads, "first_reselect");
    own.reconnect_again_ms = number(overheads, "other_reselect");
    own.prepare_ms = number(overheads, "data_preparation");
    own.write_seek_at_least_ms = number(overheads, "minimum_seek_delay");
    let detour = &overheads["extra_write_disconnect"];
    own.write_detour = (detour["enabled"] == 1).then(|| WriteDetour {
        command_ms: number(detour, "command"),
        disconnect_ms: number(detour, "disconnect1"),
        away_ms: number(detour, "inter_disconnect_delay"),
        disconnect_again_ms: number(detour, "disconnect2"),
        seek_delay_ms: number(detour, "seek_delta"),
    });
    let bulk = number(overheads, "disk_bulk_sector_transfer")
        .max(number(overheads, "controller_bulk_sector_transfer"));
    disk.bus = BusSpec {
        source: disk.bus.source.clone(),
        read_sector_ms: bulk.max(number(overheads, "bus1_read_block_transfer")),
        write_sector_ms: bulk.max(number(overheads, "bus1_write_block_transfer")),
    };

    let cache = &facts["cache"];
    let buffer = &mut disk.buffer;
    buffer.segments = number(cache, "segments") as u32;
    buffer.segment_sectors = number(cache, "segment_sectors") as u32;
    buffer.read_ahead = match cache["continuous_read"]["code"].as_u64().unwrap() {
        0 => ReadAhead::None,
        1 => ReadAhead::Track,
        3 => ReadAhead::Segment,
        4 => ReadAhead::NextTrack,
        other => panic!("unknown read-ahead {other}"),
    };
    buffer.read_ahead_sectors = number(cache, "max_read_ahead") as u32;
    buffer.read_ahead_if_sequential = false;
    buffer.drops_sent = false;
    buffer.zero_latency_read = cache["zero_latency_read"] == 1;
    buffer.zero_latency_write = cache["zero_latency_write"] == 1;
    buffer.reads_on_arrival = cache["read_any_free_blocks"] == 1;
    buffer.reads_on_after_hit = cache["read_ahead_on_idle_hit"] == 1;
    buffer.stop_in_sector = cache["stop_prefetch_in_sector"] == 1;
    buffer.keeps_writes = cache["read_hits_on_write_data"] == 1;
    buffer.read_watermark = number(cache, "read_high_watermark");
    spec.write_cache.takes = CacheTakes::Sequential;
    spec
}

fn curve(seek: &Value) -> SeekCurve {
    let numbers = |value: &Value| -> Vec<f64> {
        let items = value.as_array().unwrap().iter();
        items.map(|item| item.as_f64().unwrap()).collect()
    };
    if let Some(points) = seek["points_cylinders_ms"].as_array() {
        let point = |point: &Value| {
            (
                point[0].as_u64().unwrap() as u32,
                point[1].as_f64().unwrap(),
            )
        };
        return SeekCurve::Table(points.iter().map(point).collect());
    }
    let form = &seek["hpl"];
    SeekCurve::Formula {
        first_ms: numbers(&seek["first_ten_ms"]),
        below: number(form, "v1_cylinders") as u32,
        root: (number(form, "v2_ms"), number(form, "v3_ms")),
        above: (number(form, "v4_ms"), number(form, "v5_ms")),
    }
}
