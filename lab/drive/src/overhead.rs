//! Time of commands in addition to positioning and transfer.

use crate::timing::nanos;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tonearm_base::Nanos;
use tonearm_drive_file::{After, OverheadSpec, WriteDetour};

/// The kind of the previous command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Previous {
    /// A read.
    Read,
    /// A write.
    Write,
}

struct Pair([Nanos; 2]);

/// Times of a command, ready for use.
pub struct Overheads {
    read_hit: Pair,
    read_miss: Pair,
    read_disconnect: Pair,
    write_hit: Pair,
    write_miss: Pair,
    write_disconnect: Nanos,
    detour: Option<WriteDetour>,
    prepare: Nanos,
    /// Reconnecting to the bus for a read's data.
    pub reconnect: Nanos,
    reconnect_again: Nanos,
    /// End of a read.
    pub read_done: Nanos,
    /// End of a write.
    pub write_done: Nanos,
    flush: Nanos,
    /// Least time between a write's command and the arrival at its first sector's track.
    pub seek_at_least: Nanos,
    noise: Noise,
}

/// How much longer commands take by chance. The time of the next command is known before it comes, so that a search for
/// its best place has the same.
struct Noise {
    most: Nanos,
    next: Nanos,
    rng: ChaCha8Rng,
}

impl Noise {
    fn new(most: Nanos, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // The spindle's jitter has stream 0 of the same seed.
        rng.set_stream(1);
        let mut noise = Self {
            most,
            next: Nanos(0),
            rng,
        };
        noise.draw();
        noise
    }

    fn draw(&mut self) {
        if self.most.0 > 0 {
            self.next = Nanos(self.rng.next_u64() % (self.most.0 + 1));
        }
    }
}

/// Times of a write to the medium.
pub struct WriteStart {
    /// The arm may move.
    pub seek: Nanos,
    /// The data may cross the bus.
    pub data: Nanos,
    /// The drive disconnected from the bus before it took the data.
    pub detour: bool,
}

fn pair(after: &After) -> Pair {
    Pair([nanos(after.read), nanos(after.write)])
}

impl Pair {
    #[inline]
    fn after(&self, previous: Previous) -> Nanos {
        self.0[previous as usize]
    }
}

impl Overheads {
    /// Those of `spec`. `seed` determines the noise.
    pub fn new(spec: &OverheadSpec, seed: u64) -> Self {
        Self {
            read_hit: pair(&spec.read_hit_ms),
            read_miss: pair(&spec.read_miss_ms),
            read_disconnect: pair(&spec.read_disconnect_ms),
            write_hit: pair(&spec.write_hit_ms),
            write_miss: pair(&spec.write_miss_ms),
            write_disconnect: nanos(spec.write_disconnect_ms),
            detour: spec.write_detour.clone(),
            prepare: nanos(spec.prepare_ms),
            reconnect: nanos(spec.reconnect_ms + spec.prepare_ms),
            reconnect_again: nanos(spec.reconnect_again_ms),
            read_done: nanos(spec.read_done_ms),
            write_done: nanos(spec.write_done_ms),
            flush: nanos(spec.flush_ms),
            seek_at_least: nanos(spec.write_seek_at_least_ms),
            noise: Noise::new(nanos(spec.noise_ms), seed),
        }
    }

    /// Notes that a command has begun: the next one has another noise.
    #[inline]
    pub fn next_command(&mut self) {
        self.noise.draw();
    }

    /// Until a command is understood, if that takes `time` without noise.
    #[inline]
    fn command(&self, time: Nanos) -> Nanos {
        Nanos(time.0 + self.noise.next.0)
    }

    /// Until a hit's data may cross the bus.
    #[inline]
    pub fn read_hit(&self, previous: Previous) -> Nanos {
        Nanos(self.command(self.read_hit.after(previous)).0 + self.prepare.0)
    }

    /// Until a miss's arm may move.
    #[inline]
    pub fn read_miss(&self, previous: Previous) -> Nanos {
        self.command(self.read_miss.after(previous))
    }

    /// Time until the bus is free for the data of a miss.
    #[inline]
    pub fn read_bus_free(&self, previous: Previous) -> Nanos {
        Nanos(self.read_miss(previous).0 + self.read_disconnect.after(previous).0)
    }

    /// Until the cache may take a write's data.
    #[inline]
    pub fn write_hit(&self, previous: Previous) -> Nanos {
        Nanos(self.command(self.write_hit.after(previous)).0 + self.prepare.0)
    }

    /// A write to the medium whose command comes at `now`; with the detour, if the drive makes one and `may` allows it.
    #[inline]
    pub fn write_miss(&self, previous: Previous, now: Nanos, may: bool) -> WriteStart {
        match self.detour.as_ref().filter(|_| may) {
            None => {
                let command = now.0 + self.command(self.write_miss.after(previous)).0;
                WriteStart {
                    seek: Nanos(command),
                    data: Nanos(command + self.prepare.0),
                    detour: false,
                }
            }
            Some(detour) => {
                let seek = nanos(detour.command_ms + detour.seek_delay_ms);
                let away = nanos(detour.command_ms + detour.disconnect_ms + detour.away_ms);
                WriteStart {
                    seek: Nanos(now.0 + self.command(seek).0),
                    data: Nanos(now.0 + self.command(away).0 + self.reconnect.0),
                    detour: true,
                }
            }
        }
    }

    /// A flush of nothing.
    #[inline]
    pub fn flush(&self) -> Nanos {
        self.command(self.flush)
    }

    /// Time to disconnect from the bus when a write's data has crossed it.
    #[inline]
    pub fn write_disconnect(&self, detour: bool) -> Nanos {
        match &self.detour {
            Some(detour_spec) if detour => nanos(detour_spec.disconnect_again_ms),
            _ => self.write_disconnect,
        }
    }

    /// Time to reconnect to the bus when a write is on the medium.
    #[inline]
    pub fn write_reconnect(&self, detour: bool) -> Nanos {
        if detour {
            self.reconnect_again
        } else {
            Nanos(self.reconnect.0 - self.prepare.0)
        }
    }
}
