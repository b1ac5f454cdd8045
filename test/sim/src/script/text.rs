//! The text form of scripts: one line for each item, with words `key=value`. `#` begins a comment.

use super::{End, Generation, Model, Op, Script, volume_name, volume_number};
use crate::store::{Heads, Shape, small_segments};
use std::fmt;
use std::str::FromStr;
use tonearm_base::Nanos;
use tonearm_engine::HomeParams;

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.shape;
        let model = self.model.as_ref().map_or(String::new(), |model| {
            format!(
                " drive={} cache={}",
                model.name,
                u8::from(model.write_cache)
            )
        });
        let home = match s.home {
            HomeParams::Overwrite => "",
            HomeParams::Segments { .. } => " segments=1",
        };
        writeln!(
            f,
            "store block={} track={} tracks={} blocks={} split={} ordered={}{model}{home}",
            s.block_size,
            s.track_bytes,
            s.tracks,
            s.blocks,
            u8::from(s.split),
            u8::from(self.ordered)
        )?;
        for g in &self.generations {
            let end = match g.end {
                End::Close => "close".to_string(),
                End::Cut(io) => format!("{io}"),
            };
            let linger = match g.linger {
                Nanos(0) => String::new(),
                Nanos(linger) => format!(" linger_ns={linger}"),
            };
            writeln!(
                f,
                "generation seed={} memory={} recover={} after_ns={} ack={} end={end}{linger}",
                g.seed,
                g.memory_bytes,
                u8::from(g.write_back_on_recovery),
                g.write_back_after.0,
                u8::from(g.ack_write),
            )?;
            for fault in &g.faults {
                writeln!(f, "fault {fault}")?;
            }
            for client in &g.clients {
                writeln!(f, "client")?;
                for op in client {
                    writeln!(f, "  {op}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |volume: &u8| volume_name(*volume);
        match self {
            Op::Write {
                volume,
                offset,
                len,
                stamp,
                durable,
            } => write!(
                f,
                "write {} offset={offset} len={len} stamp={stamp} durable={}",
                name(volume),
                u8::from(*durable)
            ),
            Op::Zero {
                volume,
                offset,
                len,
                keep,
                durable,
            } => write!(
                f,
                "zero {} offset={offset} len={len} keep={} durable={}",
                name(volume),
                u8::from(*keep),
                u8::from(*durable)
            ),
            Op::Trim {
                volume,
                offset,
                len,
                durable,
            } => write!(
                f,
                "trim {} offset={offset} len={len} durable={}",
                name(volume),
                u8::from(*durable)
            ),
            Op::Read {
                volume,
                offset,
                len,
            } => write!(f, "read {} offset={offset} len={len}", name(volume)),
            Op::Flush => write!(f, "flush"),
            Op::Create { volume, size } => write!(f, "create {} size={size}", name(volume)),
            Op::Delete { volume } => write!(f, "delete {}", name(volume)),
            Op::Resize { volume, size } => write!(f, "resize {} size={size}", name(volume)),
            Op::Sleep { us } => write!(f, "sleep us={us}"),
            Op::Scrub => write!(f, "scrub"),
        }
    }
}

/// The words of a line after the first, read in order.
struct Words<'a> {
    line: &'a str,
    words: std::str::SplitWhitespace<'a>,
}

impl Words<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("{:?}: {what}", self.line)
    }

    fn value(&mut self, key: &str) -> Result<&str, String> {
        let line = self.line;
        let word = self.words.next();
        let value = word.and_then(|word| word.strip_prefix(key)?.strip_prefix('='));
        value.ok_or_else(|| format!("{line:?}: {key}= is expected"))
    }

    fn number(&mut self, key: &str) -> Result<u64, String> {
        let line = self.line;
        let value = self.value(key)?;
        value
            .parse()
            .map_err(|_| format!("{line:?}: {key} is no number"))
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        Ok(self.number(key)? != 0)
    }

    fn small(&mut self, key: &str) -> Result<u32, String> {
        u32::try_from(self.number(key)?).map_err(|_| self.wrong("a number is too large"))
    }

    fn volume(&mut self) -> Result<u8, String> {
        let name = self.words.next().and_then(volume_number);
        name.ok_or_else(|| self.wrong("a volume is expected: main, v1, v2 ..."))
    }
}

impl FromStr for Op {
    type Err = String;
    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let mut w = Words { line, words };
        Ok(match verb {
            "write" => Op::Write {
                volume: w.volume()?,
                offset: w.number("offset")?,
                len: w.number("len")?,
                stamp: w.number("stamp")?,
                durable: w.flag("durable")?,
            },
            "zero" => Op::Zero {
                volume: w.volume()?,
                offset: w.number("offset")?,
                len: w.number("len")?,
                keep: w.flag("keep")?,
                durable: w.flag("durable")?,
            },
            "trim" => Op::Trim {
                volume: w.volume()?,
                offset: w.number("offset")?,
                len: w.number("len")?,
                durable: w.flag("durable")?,
            },
            "read" => Op::Read {
                volume: w.volume()?,
                offset: w.number("offset")?,
                len: w.number("len")?,
            },
            "flush" => Op::Flush,
            "create" => Op::Create {
                volume: w.volume()?,
                size: w.number("size")?,
            },
            "delete" => Op::Delete {
                volume: w.volume()?,
            },
            "resize" => Op::Resize {
                volume: w.volume()?,
                size: w.number("size")?,
            },
            "sleep" => Op::Sleep {
                us: w.number("us")?,
            },
            "scrub" => Op::Scrub,
            _ => return Err(format!("{line:?} is no operation")),
        })
    }
}

impl FromStr for Script {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut script: Option<Script> = None;
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut w = Words {
                line,
                words: rest.split_whitespace(),
            };
            if verb == "store" {
                script = Some(Script {
                    shape: Shape {
                        block_size: w.small("block")?,
                        track_bytes: w.small("track")?,
                        tracks: w.number("tracks")?,
                        blocks: w.number("blocks")?,
                        split: w.flag("split")?,
                        heads: Heads::None,
                        home: HomeParams::Overwrite,
                    },
                    ordered: w.flag("ordered")?,
                    model: match rest.contains("drive=") {
                        true => Some(Model {
                            name: w.value("drive")?.to_owned(),
                            write_cache: w.flag("cache")?,
                        }),
                        false => None,
                    },
                    generations: Vec::new(),
                });
                if let Some(script) = script.as_mut().filter(|_| rest.contains("segments=1")) {
                    script.shape.home = small_segments(script.shape.block_size);
                }
                continue;
            }
            let script = script.as_mut().ok_or("the first line must be store")?;
            if verb == "generation" {
                script.generations.push(Generation {
                    seed: w.number("seed")?,
                    memory_bytes: w.number("memory")?,
                    write_back_on_recovery: w.flag("recover")?,
                    write_back_after: Nanos(w.number("after_ns")?),
                    ack_write: w.flag("ack")?,
                    faults: Vec::new(),
                    clients: Vec::new(),
                    end: match w.value("end")? {
                        "close" => End::Close,
                        io => End::Cut(io.parse().map_err(|_| format!("{line:?}: end"))?),
                    },
                    linger: match rest.contains("linger_ns=") {
                        true => Nanos(w.number("linger_ns")?),
                        false => Nanos(0),
                    },
                });
                continue;
            }
            let last = script.generations.last_mut();
            let generation = last.ok_or_else(|| w.wrong("no generation has begun"))?;
            match verb {
                "fault" => generation.faults.push(rest.parse()?),
                "client" => generation.clients.push(Vec::new()),
                _ => {
                    let client = generation.clients.last_mut();
                    client
                        .ok_or_else(|| w.wrong("no client has begun"))?
                        .push(line.parse()?);
                }
            }
        }
        script.ok_or_else(|| "the script is empty".into())
    }
}
