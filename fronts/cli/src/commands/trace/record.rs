//! `tonearm trace record`: takes the requests that the server has noted, and writes them into the file in order.

use super::file::{Place, TraceFiles};
use super::order::Order;
use crate::cli::{TraceFormat, TraceRecord};
use crate::control::{Answer, Client, Request, TraceBatch, TraceStart};
use anyhow::{Context, bail};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonearm_base::Nanos;
use tonearm_terminal::{StatusLine, report, size};

/// Time between two batches. The server has room for the requests of a tenth of a second at 650,000 a second.
const PERIOD: Duration = Duration::from_millis(100);

/// Signals this soon after the first one belong to it: `timeout` and a terminal send one to the process and one to its
/// group.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// What has ended a recording.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
enum Ended {
    /// Ctrl-C or SIGTERM.
    Signal,
    /// The time of `--for` is over.
    Time,
    /// The only file is full.
    Full,
}

/// The result.
#[derive(Serialize)]
struct Summary {
    store: String,
    ended: Ended,
    seconds: f64,
    requests: u64,
    lost: u64,
    failed: u64,
    late: u64,
    left_out: u64,
    files: Vec<String>,
    bytes: u64,
}

/// Records until a signal, the end of the time, or the end of the space.
///
/// # Errors
/// When there is no server, it goes away, or the file cannot be written.
pub fn run(arguments: TraceRecord) -> anyhow::Result<ExitCode> {
    let place = Place {
        path: arguments.out.clone(),
        format: arguments.format,
        max_bytes: arguments.max_bytes,
        files: arguments.files,
    };
    place.check(arguments.force)?;
    let mut client = Client::need(&arguments.path, arguments.control.as_deref())?;
    let stop = watch_signals()?;
    let start = start(&mut client, arguments.volume.clone())?;
    let about = about(&arguments, &start);
    // The recording ends with the connection, also when this fails.
    let mut recorder = Recorder {
        files: TraceFiles::create(place, about)?,
        format: arguments.format,
        order: Order::default(),
        last: TraceBatch::default(),
        taken: 0,
        requests: 0,
        left_out: 0,
    };
    let (store, out) = (arguments.path.display(), arguments.out.display());
    report::note(format_args!("recording {store} into {out}; Ctrl-C ends it"));
    let ended = recorder.run(&mut client, &stop, arguments.duration)?;
    let summary = recorder.end(store.to_string(), ended)?;
    report_end(&arguments, &summary)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the recording.
fn start(client: &mut Client, volume: Option<String>) -> anyhow::Result<TraceStart> {
    match client.ask(Request::TraceStart { volume }, |_, _| {}) {
        Ok(Answer::TraceStarted(start)) => Ok(start),
        Ok(_) => bail!("the server gave another answer than was asked for"),
        Err(error) if error.to_string().starts_with("the request is not known") => bail!(
            "the server is of an older version, which cannot record; start it anew with version {}",
            env!("CARGO_PKG_VERSION")
        ),
        Err(error) => Err(error),
    }
}

/// The comments with which each file begins.
fn about(arguments: &TraceRecord, start: &TraceStart) -> String {
    let volumes = match &arguments.volume {
        Some(name) => format!("volume {name:?}"),
        None => "all volumes".to_string(),
    };
    format!(
        "# tonearm trace record, version {}: {volumes} of store {}, {:?}\n\
         # since {}, recorded by a server of version {}\n\
         # arrival_ms: since then; device: number of the volume; rw: R, W, F (flush), T (trim), Z (zeroing);\n\
         # lba, sectors: of 512 bytes; fua: 1 if durable before the reply; response_ms: until the reply was sent\n",
        env!("CARGO_PKG_VERSION"),
        start.store,
        arguments.path.display().to_string(),
        report::date(tonearm_store::now_unix_s()),
        start.version,
    )
}

struct Recorder {
    files: TraceFiles,
    format: TraceFormat,
    order: Order,
    /// The counts of the last batch; its requests have been taken.
    last: TraceBatch,
    /// Requests that the server has given; the last ones are held for their order.
    taken: u64,
    /// Requests in the files, or once in files that are not kept any more.
    requests: u64,
    /// Requests of operations that the format does not have.
    left_out: u64,
}

impl Recorder {
    fn run(
        &mut self,
        client: &mut Client,
        stop: &AtomicBool,
        duration: Option<Duration>,
    ) -> anyhow::Result<Ended> {
        let started = Instant::now();
        let mut status = StatusLine::default();
        let mut shown = (started, 0);
        loop {
            let left = duration.map(|duration| duration.saturating_sub(started.elapsed()));
            std::thread::sleep(left.unwrap_or(PERIOD).min(PERIOD));
            let over = duration.is_some_and(|duration| started.elapsed() >= duration);
            let ended = match (stop.load(Ordering::Relaxed), over) {
                (true, _) => Some(Ended::Signal),
                (false, true) => Some(Ended::Time),
                (false, false) => None,
            };
            let request = match ended {
                Some(_) => Request::TraceStop,
                None => Request::TraceTake,
            };
            match ask(client, request) {
                Ok(batch) => self.take(batch),
                Err(error) => {
                    // What was taken before is kept.
                    let kept = self.write(true).and_then(|_| self.files.end());
                    kept.with_context(|| self.kept())?;
                    return Err(error).with_context(|| self.kept());
                }
            }
            let whole = self.write(ended.is_some()).with_context(|| self.kept())?;
            if !whole {
                return Ok(Ended::Full);
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
            let (at, before) = shown;
            let span = at.elapsed();
            if span >= Duration::from_secs(1) {
                let rate = (self.taken - before) as f64 / span.as_secs_f64();
                status.show(format_args!(
                    "{} requests, {}/s, {}, {} lost",
                    report::count(self.taken),
                    report::count(rate.round() as u64),
                    size::text(self.files.bytes()),
                    report::count(self.last.lost)
                ));
                shown = (Instant::now(), self.taken);
            }
        }
    }

    /// What an error leaves.
    fn kept(&self) -> String {
        format!(
            "the recording has ended early, and {} is whole up to then",
            self.files.names()[0]
        )
    }

    fn take(&mut self, mut batch: TraceBatch) {
        let lost = batch.lost - self.last.lost.min(batch.lost);
        if lost > 0 {
            let until = batch.until_ns / 1_000_000;
            self.files.comment(&format!(
                "{lost} requests that ended before {until} ms are lost: they were not taken in time"
            ));
        }
        self.taken += batch.requests.len() as u64;
        for request in std::mem::take(&mut batch.requests) {
            self.order.push(request);
        }
        self.last = batch;
    }

    /// Writes the requests whose turn has come, or all; false when the file is full.
    fn write(&mut self, all: bool) -> anyhow::Result<bool> {
        let until = Nanos(self.last.until_ns);
        loop {
            let request = if all {
                self.order.pop_any()
            } else {
                self.order.pop(until)
            };
            let Some(request) = request else { break };
            if !self.format.has(request.op) {
                self.left_out += 1;
                continue;
            }
            if !self.files.request(&request, &self.last.volumes)? {
                return Ok(false);
            }
            self.requests += 1;
        }
        self.files.flush()?;
        Ok(true)
    }

    fn end(&mut self, store: String, ended: Ended) -> anyhow::Result<Summary> {
        let TraceBatch {
            lost,
            failed,
            until_ns,
            ..
        } = self.last;
        let seconds = until_ns as f64 / 1e9;
        let (requests, late) = (self.requests, self.order.late);
        self.files.comment(&format!(
            "end after {seconds:.3} s: {requests} requests; {lost} lost; {failed} left out, answered with an error; \
             {late} that took more than 5 s, moved to a later arrival"
        ));
        self.files.end()?;
        Ok(Summary {
            store,
            ended,
            seconds,
            requests,
            lost,
            failed,
            late,
            left_out: self.left_out,
            files: self.files.names(),
            bytes: self.files.bytes(),
        })
    }
}

fn ask(client: &mut Client, request: Request) -> anyhow::Result<TraceBatch> {
    match client.ask(request, |_, _| {})? {
        Answer::Trace(batch) => Ok(batch),
        _ => bail!("the server gave another answer than was asked for"),
    }
}

fn report_end(arguments: &TraceRecord, summary: &Summary) -> anyhow::Result<()> {
    if summary.lost > 0 {
        report::note(format_args!(
            "{} requests are lost: this program or the disk of the trace was too slow",
            report::count(summary.lost)
        ));
    }
    if summary.left_out > 0 {
        report::note(format_args!(
            "{} trims and zeroings are left out: fio cannot replay them beside reads and writes",
            report::count(summary.left_out)
        ));
    }
    if summary.ended == Ended::Full {
        report::note(format_args!(
            "the file is full; --max-bytes allows more, --files keeps the newest requests"
        ));
    }
    if arguments.json {
        return report::json(summary);
    }
    let files = match summary.files.len() {
        1 => String::new(),
        count => format!(" and {} older files", count - 1),
    };
    Ok(report::line(format_args!(
        "recorded {} requests in {} into {}{files}, {}",
        report::count(summary.requests),
        report::span((summary.seconds * 1e9) as u64),
        summary.files[0],
        size::text(summary.bytes)
    ))?)
}

/// Returns a flag that the first signal sets. A later one ends the process, in case the server does not answer.
fn watch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let stop = Arc::new(AtomicBool::new(false));
    let set = stop.clone();
    let wait = move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            let since = first.get_or_insert_with(Instant::now);
            set.store(true, Ordering::Relaxed);
            if since.elapsed() >= ONE_SIGNAL {
                std::process::exit(128 + signal);
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(wait)?;
    Ok(stop)
}
