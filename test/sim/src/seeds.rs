//! Runs that once found a fault, stored in files. `NAME.seed` holds `KIND seed=N operations=N generations=N`, with
//! `commit_delay_ms=N` where the seed does not choose the commit delay and `layout=NAME` where it is not overwrite.
//! `NAME.script` holds a script. The comments in a file say what the run found.

use crate::campaign::{Failure, Outcome};
use crate::generate::Size;
use crate::kind::{Kind, try_script};
use crate::script::Script;
use crate::store::Layout;
use clap::ValueEnum;
use std::fs;
use std::path::Path;
use tonearm_base::Nanos;

/// A stored run.
#[derive(Clone, Debug)]
pub struct Regression {
    /// Name of the file.
    pub name: String,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Seed(Kind, u64, Size),
    Script(Script),
}

/// All runs in `folder`, sorted by name.
///
/// # Errors
/// When a file cannot be read or parsed.
pub fn regressions(folder: &Path) -> Result<Vec<Regression>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let what = match path.extension().and_then(|ending| ending.to_str()) {
            Some("seed") => seed(&text),
            Some("script") => text.parse().map(What::Script),
            _ => continue,
        };
        let what = what.map_err(|error| format!("{name}: {error}"))?;
        found.push(Regression { name, what });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn seed(text: &str) -> Result<What, String> {
    let lines = text.lines();
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default());
    let line = lines.collect::<Vec<_>>().join(" ");
    let mut words = line.split_whitespace();
    let kind = ValueEnum::from_str(words.next().unwrap_or_default(), false)?;
    let mut seed = None;
    let mut size = Size {
        operations: 0,
        generations: 0,
        layout: Some(Layout::Overwrite),
        commit_delay: None,
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || {
            let number = value.parse::<u64>();
            number.map_err(|_| format!("{word:?} is not {key}=NUMBER"))
        };
        match key {
            "seed" => seed = Some(number()?),
            "operations" => size.operations = number()?,
            "generations" => size.generations = number()? as u32,
            "commit_delay_ms" => size.commit_delay = Some(Nanos::from_millis(number()?)),
            "layout" => size.layout = Some(ValueEnum::from_str(value, false)?),
            _ => return Err(format!("{word:?} is unknown")),
        }
    }
    match seed {
        Some(seed) if size.operations * u64::from(size.generations) > 0 => {
            Ok(What::Seed(kind, seed, size))
        }
        _ => Err("KIND seed=N operations=N generations=N is expected".into()),
    }
}

impl Regression {
    /// Runs it again.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn run(&self) -> Result<Outcome, Failure> {
        match &self.what {
            What::Seed(kind, seed, size) => kind.run(*seed, *size),
            What::Script(script) => try_script(script, 0),
        }
    }
}
