//! A drive as data: the content of `lab/drives/*.toml`.

use crate::place;
use crate::scheduler::Scheduler;
use serde::Deserialize;

/// A drive. Times are in milliseconds, sizes in sectors of 512 bytes, unless a name says otherwise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// A title: maker, model, capacity, year.
    pub title: String,
    /// Source of the figures. Each section names its own, or gives more detail.
    pub source: String,
    /// A mechanical drive.
    pub disk: Option<DiskSpec>,
    /// A drive without moving parts.
    pub flash: Option<FlashSpec>,
    /// The volatile write cache.
    #[serde(default)]
    pub write_cache: WriteCacheSpec,
    /// The host of the drive.
    #[serde(default)]
    pub host: HostSpec,
}

/// The host that sends requests to the drive, with its operating system. An experiment with one user of one drive says
/// whether it has this host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// From a request of a program until the drive has it, in ms.
    #[serde(default)]
    pub request_ms: f64,
    /// From the drive's report that a request is done until the program knows it, in ms: the mean of an exponential
    /// distribution.
    #[serde(default)]
    pub late_ms: f64,
}

/// The parts of a mechanical drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// The rotation.
    pub rotation: RotationSpec,
    /// The places of sectors.
    pub geometry: GeometrySpec,
    /// How the arm moves.
    pub seek: SeekSpec,
    /// The overheads of commands.
    pub overhead: OverheadSpec,
    /// How fast sectors cross the bus.
    pub bus: BusSpec,
    /// The buffer for reads.
    pub buffer: BufferSpec,
    /// Order of service of what is queued.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Requests among which the scheduler chooses: the oldest ones (32 with NCQ); 0 for all that wait.
    #[serde(default)]
    pub queue_depth: u32,
    /// Tracks that take writes before their places do.
    pub media_cache: Option<MediaCacheSpec>,
    /// Delays between two requests. A log with the predictor `formula` needs them.
    pub deltas: Option<DeltasSpec>,
}

/// How the platter turns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotationSpec {
    /// Where the figures come from.
    pub source: String,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Largest drift of the phase in a second, in nanoseconds; 0: an ideal spindle.
    #[serde(default)]
    pub jitter_ns: u64,
}

/// The places of sectors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometrySpec {
    /// Where the figures come from.
    pub source: String,
    /// Surfaces with data.
    pub heads: u32,
    /// Cylinders, from 0.
    pub cylinders: u32,
    /// Sectors that the drive reports; if absent, all that have a number.
    pub sectors: Option<u64>,
    /// The order in which the tracks of a cylinder are filled.
    #[serde(default)]
    pub order: HeadOrder,
    /// The places of spare sectors.
    #[serde(default)]
    pub sparing: Sparing,
    /// From the outside to the inside.
    pub zones: Vec<ZoneSpec>,
}

/// The order in which the tracks of a cylinder are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadOrder {
    /// From head 0 up in each cylinder.
    #[default]
    Forward,
    /// Up in the even cylinders of a zone, down in the odd ones.
    Serpentine,
}

/// The places of spare sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sparing {
    /// Nowhere.
    #[default]
    None,
    /// Whole tracks at the end of each zone. Slips and defects are numbers of tracks.
    Tracks,
    /// At the end of each track.
    Track,
    /// At the end of each cylinder.
    Cylinder,
    /// At the end of each group of so many cylinders.
    Cylinders(u32),
    /// At the end of each zone.
    Zone,
    /// At the end of the drive.
    Drive,
}

/// Cylinders whose tracks hold the same number of sectors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder.
    pub last_cylinder: u32,
    /// Sectors of a track.
    pub track_sectors: u32,
    /// Sectors by which the start of a track is later than that of the previous track in its cylinder.
    #[serde(default)]
    pub track_skew: f64,
    /// The same for the first track of a cylinder and the last one of the previous cylinder.
    #[serde(default)]
    pub cylinder_skew: f64,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default)]
    pub offset: f64,
    /// Sectors at the front that have no number.
    #[serde(default)]
    pub reserved: u32,
    /// Spare sectors of each region (whole tracks for the scheme `tracks`).
    #[serde(default)]
    pub spares: u32,
    /// Places in the zone, as physical sectors (or tracks), that are skipped.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// Places whose content is elsewhere in the zone, and its place there.
    #[serde(default)]
    pub defects: Vec<(u64, u64)>,
}

/// How the arm moves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekSpec {
    /// Where the figures come from.
    pub source: String,
    /// Time against distance.
    pub curve: SeekCurve,
    /// From one head to another.
    pub head_switch_ms: f64,
    /// An access on the present track, unless the heads were reading or writing right before it.
    #[serde(default)]
    pub same_track_ms: f64,
    /// Additional time of a write, compared with a read, after any move; may be negative.
    #[serde(default)]
    pub write_settle_ms: f64,
}

/// Seek time against distance.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeekCurve {
    /// Points (cylinders, ms) with straight lines between them.
    Table(Vec<(u32, f64)>),
    /// Ruemmler and Wilkes's form: `root.0 + root.1 * sqrt(d)` for `d < below`, else `above.0 + above.1 * d`; the first
    /// distances may be given singly.
    Formula {
        /// Times of distances 1, 2, ...
        #[serde(default)]
        first_ms: Vec<f64>,
        /// First distance of the straight line.
        below: u32,
        /// Constant and factor of the root.
        root: (f64, f64),
        /// Constant and factor of the straight line.
        above: (f64, f64),
    },
}

/// An overhead that depends on the previous command.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// After a read.
    pub read: f64,
    /// After a write.
    pub write: f64,
}

/// Time of commands in addition to positioning and transfer, in ms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverheadSpec {
    /// Where the figures come from.
    pub source: String,
    /// Command of a read that the buffer serves.
    pub read_hit_ms: After,
    /// Command of a read that the medium serves.
    pub read_miss_ms: After,
    /// Command of a write into the write cache.
    pub write_hit_ms: After,
    /// Command of a write that goes to the medium.
    pub write_miss_ms: After,
    /// End of a read.
    #[serde(default)]
    pub read_done_ms: f64,
    /// End of a write.
    #[serde(default)]
    pub write_done_ms: f64,
    /// Disconnecting from the bus before a read's positioning.
    #[serde(default)]
    pub read_disconnect_ms: After,
    /// Disconnecting from the bus after a write's data, to wait for the medium.
    #[serde(default)]
    pub write_disconnect_ms: f64,
    /// Reconnecting to the bus, the first time in a command.
    #[serde(default)]
    pub reconnect_ms: f64,
    /// Reconnecting to the bus, later in a command.
    #[serde(default)]
    pub reconnect_again_ms: f64,
    /// Preparation of data before a transfer.
    #[serde(default)]
    pub prepare_ms: f64,
    /// For a drive that disconnects from the bus once more before it takes a write's data.
    pub write_detour: Option<WriteDetour>,
    /// Least time of the first seek of a write.
    #[serde(default)]
    pub write_seek_at_least_ms: f64,
    /// A flush of an empty cache.
    #[serde(default)]
    pub flush_ms: f64,
    /// Most that a command takes longer than by the other times: each one by another time, evenly distributed.
    #[serde(default)]
    pub noise_ms: f64,
}

/// A bus detour of writes, in ms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteDetour {
    /// Command overhead in place of the usual one.
    pub command_ms: f64,
    /// First disconnection.
    pub disconnect_ms: f64,
    /// Off the bus.
    pub away_ms: f64,
    /// Second disconnection.
    pub disconnect_again_ms: f64,
    /// Time between the command's overhead and the start of the arm.
    pub seek_delay_ms: f64,
}

/// How fast sectors cross the bus.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusSpec {
    /// Where the figures come from.
    pub source: String,
    /// A sector, drive to host.
    pub read_sector_ms: f64,
    /// A sector, host to drive.
    pub write_sector_ms: f64,
}

/// The buffer for reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferSpec {
    /// Where the figures come from.
    pub source: String,
    /// Segments; 0 for no buffer.
    pub segments: u32,
    /// Sectors of a segment.
    pub segment_sectors: u32,
    /// How far the drive reads on by itself.
    #[serde(default)]
    pub read_ahead: ReadAhead,
    /// Most sectors that it reads on.
    #[serde(default)]
    pub read_ahead_sectors: u32,
    /// A read may begin in the middle of its sectors.
    #[serde(default)]
    pub zero_latency_read: bool,
    /// A write may begin in the middle of its sectors.
    #[serde(default)]
    pub zero_latency_write: bool,
    /// Reading ahead stops at once, even in the middle of a sector.
    #[serde(default)]
    pub stop_in_sector: bool,
    /// The drive reads ahead only when a read continues the previous one.
    #[serde(default)]
    pub read_ahead_if_sequential: bool,
    /// Sectors that were sent to the host leave the buffer.
    #[serde(default)]
    pub drops_sent: bool,
    /// Written sectors can be read from the buffer.
    #[serde(default)]
    pub keeps_writes: bool,
    /// Share of a read (of at most a segment) that must be in the buffer before the drive takes the bus.
    #[serde(default)]
    pub read_watermark: f64,
    /// The drive reads from the moment at which the heads are on the track.
    #[serde(default)]
    pub reads_on_arrival: bool,
    /// After a hit, reading ahead continues where it had stopped.
    #[serde(default)]
    pub reads_on_after_hit: bool,
}

/// A media cache: a band of tracks that takes writes one after the other, in the order in which they come. They are
/// moved to their places when the drive is idle, and when the band is full. It keeps them without power.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaCacheSpec {
    /// Where the figures come from.
    pub source: String,
    /// Sectors of the band.
    pub sectors: u64,
    /// Most separate writes that it holds; 0 for as many as have space.
    #[serde(default)]
    pub writes: u32,
    /// Sectors of a zone of shingled tracks, which is read and written as a whole when a part of it moves to its place;
    /// 0 for a drive whose tracks can be written singly.
    #[serde(default)]
    pub zone_sectors: u32,
    /// Idle time after which writes move to their places, in ms.
    pub idle_ms: f64,
    /// After so many writes the drive writes its map of the band; 0 for never.
    #[serde(default)]
    pub map_writes: u32,
    /// The time that takes, in ms.
    #[serde(default)]
    pub map_ms: f64,
}

/// Least distances, in sectors, from the end of one request to the start of the next on its track (Trail 3.1). They
/// follow from the other figures; the model of the drive finds them.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeltasSpec {
    /// Where the figures come from.
    pub source: String,
    /// Sectors of a revolution on the tracks where the distances were found.
    pub track_sectors: u32,
    /// For a write after a write.
    pub write_after_write: u32,
    /// For a write after a read.
    pub write_after_read: u32,
    /// For a read after a write.
    pub read_after_write: u32,
    /// By how much longer a read takes from its last sector to its end than a write, in nanoseconds.
    pub read_lag_ns: i64,
}

/// How far a drive reads on by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// Not at all.
    #[default]
    None,
    /// To the end of the track.
    Track,
    /// Until the segment is full.
    Segment,
    /// To the end of the next track, when reads are sequential.
    NextTrack,
}

/// The volatile write cache.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCacheSpec {
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// As the drive is delivered.
    #[serde(default)]
    pub enabled: bool,
    /// Sectors; 0 for none.
    #[serde(default)]
    pub sectors: u32,
    /// The writes that it takes.
    #[serde(default)]
    pub takes: CacheTakes,
    /// Idle time after which it is emptied, in ms.
    #[serde(default)]
    pub idle_ms: f64,
}

/// The writes that a write cache takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheTakes {
    /// All that fit into it.
    #[default]
    All,
    /// One that follows what is being written, and one when nothing is.
    Sequential,
}

/// A drive without moving parts: fixed times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSpec {
    /// Where the figures come from.
    pub source: String,
    /// Sectors.
    pub sectors: u64,
    /// Capacitors write the cache to the medium when the power fails. So the cache is not volatile: a write with FUA takes as
    /// long as one without, and a flush waits for nothing.
    #[serde(default)]
    pub power_loss_protection: bool,
    /// Commands served at once.
    pub channels: u32,
    /// A read's first byte.
    pub read_ms: f64,
    /// A write on the medium.
    pub write_ms: f64,
    /// A write that the cache takes.
    pub write_cached_ms: f64,
    /// A flush of an empty cache.
    pub flush_ms: f64,
    /// A flush, for each MiB in the cache.
    pub flush_ms_per_mib: f64,
    /// Transfer.
    pub read_mib_per_s: f64,
    /// Transfer.
    pub write_mib_per_s: f64,
}

/// An error in a drive file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}: {key}: {reason}")]
pub struct SpecError {
    /// The file.
    pub file: String,
    /// The key, with its line if the text itself is wrong.
    pub key: String,
    /// The error, and the expected value.
    pub reason: String,
}

impl DriveSpec {
    /// True when a log can follow its head: it turns, and a write goes to the place of its sectors.
    pub fn has_head(&self) -> bool {
        let disk = self.disk.as_ref();
        disk.is_some_and(|disk| disk.media_cache.is_none())
    }

    /// The drive that `text` describes; `file` is named in errors.
    ///
    /// # Errors
    /// When the text is not TOML, a key is missing or unknown, or a figure is impossible.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let error = |key: String, reason: String| SpecError {
            file: file.to_owned(),
            key,
            reason,
        };
        let spec: Self = toml::from_str(text).map_err(|problem| {
            let place = problem.span().map_or(0, |span| span.start);
            error(
                place::describe(text, place),
                problem.message().replace('\n', "; "),
            )
        })?;
        spec.check().map_err(|(key, reason)| error(key, reason))?;
        Ok(spec)
    }
}
