//! The text form of scripts: a line of JSON for the store, for each generation, fault, client and operation. An
//! operation belongs to the client before it, and a fault or client to the generation before it. A line that begins
//! with `#` is a comment.

use super::{Generation, Model, Op, Script};
use crate::store::{Layout, SPARE_PERCENT, Shape};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use tonearm_engine::HomeParams;
use tonearm_world::Fault;

/// An item of a script.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Store {
        #[serde(flatten)]
        shape: Shape,
        layout: Layout,
        /// The spare share of a layout with segments. It has the usual value where it is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spare_percent: Option<u64>,
        ordered: bool,
        drives: Option<Model>,
    },
    Generation(Generation),
    Fault(Fault),
    Client,
    #[serde(untagged)]
    Op(Op),
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![Line::Store {
            shape: self.shape,
            layout: Layout::of(&self.shape.home),
            spare_percent: match self.shape.home {
                HomeParams::Overwrite => None,
                HomeParams::Segments { spare_percent, .. } => Some(spare_percent),
            },
            ordered: self.ordered,
            drives: self.model.clone(),
        }];
        for generation in &self.generations {
            lines.push(Line::Generation(generation.clone()));
            let faults = generation.faults.iter();
            lines.extend(faults.copied().map(Line::Fault));
            for client in &generation.clients {
                lines.push(Line::Client);
                lines.extend(client.iter().cloned().map(Line::Op));
            }
        }
        for line in lines {
            writeln!(
                f,
                "{}",
                serde_json::to_string(&line).map_err(|_| fmt::Error)?
            )?;
        }
        Ok(())
    }
}

impl FromStr for Script {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut script: Option<Script> = None;
        for text in text.lines().map(str::trim) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let wrong = |why: &dyn fmt::Display| format!("{text}: {why}");
            let line = serde_json::from_str(text).map_err(|error| wrong(&error))?;
            if let Line::Store {
                mut shape,
                layout,
                spare_percent,
                ordered,
                drives: model,
            } = line
            {
                let spare_percent = spare_percent.unwrap_or(SPARE_PERCENT);
                shape.home = layout.home(shape.block_size, spare_percent);
                script = Some(Script {
                    shape,
                    ordered,
                    model,
                    generations: Vec::new(),
                });
                continue;
            }
            let script = script.as_mut();
            let script = script.ok_or_else(|| wrong(&"the first line must be the store"))?;
            if let Line::Generation(generation) = line {
                script.generations.push(generation);
                continue;
            }
            let last = script.generations.last_mut();
            let generation = last.ok_or_else(|| wrong(&"no generation has begun"))?;
            match (line, generation.clients.last_mut()) {
                (Line::Fault(fault), _) => generation.faults.push(fault),
                (Line::Op(op), Some(client)) => client.push(op),
                (Line::Op(_), None) => return Err(wrong(&"no client has begun")),
                _ => generation.clients.push(Vec::new()),
            }
        }
        script.ok_or_else(|| "the script is empty".into())
    }
}
