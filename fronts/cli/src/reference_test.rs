//! `docs/operations/reference.md`: every command with its options, and every metric. It is made here from the command
//! line and from a page of metrics, so that no text is kept twice.

use crate::cli::Cli;
use crate::serve::metrics;
use clap::{Arg, Command, CommandFactory};
use std::collections::BTreeMap;
use std::fmt::Write;

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/operations/reference.md"
);

/// With this variable the document is written instead of compared.
const UPDATE: &str = "TONEARM_UPDATE_DOCS";

/// An option of this many commands, with the same text in each, is described once.
const SHARED_MIN: usize = 3;

/// Of an option with more commands the table has their number alone.
const NAMED_MAX: usize = 6;

const HEAD: &str = "\
# Reference

Every command and option of `tonearm`, and every metric of a server. This page is generated from the program by `make reference-docs`; a test
compares both. The [manual](README.md) says what they are for.

- [Options of several commands](#options-of-several-commands)
- [Commands](#commands)
- [Metrics](#metrics)
";

/// The options of several commands: the row of each, with the commands that have it.
type Shared = BTreeMap<String, Vec<String>>;

#[test]
fn the_reference_is_that_of_this_program() {
    let mut program = Cli::command();
    program.build();
    let page = format!(
        "{HEAD}\n{}\n{}",
        commands(&program),
        metrics_table(&metrics::example())
    );
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(PATH, page).expect("the reference can be written");
        return;
    }
    let found = std::fs::read_to_string(PATH).unwrap_or_default();
    let differs = found.lines().zip(page.lines()).find(|(a, b)| a != b);
    assert!(
        found == page,
        "{PATH} is not of this program, first in {differs:?}: run `make reference-docs`"
    );
}

fn commands(program: &Command) -> String {
    let mut all = Vec::new();
    below(program, "tonearm", &mut all);
    let mut shared = Shared::new();
    for (name, command) in &all {
        for arg in options(command) {
            shared.entry(row(arg)).or_default().push(name.clone());
        }
    }
    shared.retain(|_, names| names.len() >= SHARED_MIN);

    let mut page = String::from(
        "## Options of several commands\n\n| option | meaning | of |\n| --- | --- | --- |\n",
    );
    for (row, names) in &shared {
        let of = match names.len() {
            1..=NAMED_MAX => {
                let names: Vec<&str> = names.iter().map(|name| short(name)).collect();
                names.join(", ")
            }
            many => format!("{many} commands"),
        };
        add(&mut page, &format!("{row} {of} |"));
    }
    add(&mut page, "\n## Commands");
    for (name, command) in &all {
        describe(&mut page, name, command, &shared);
    }
    page
}

/// A command's name without that of the program.
fn short(name: &str) -> &str {
    name.strip_prefix("tonearm ").unwrap_or(name)
}

fn add(page: &mut String, line: &str) {
    writeln!(page, "{line}").expect("a string takes all");
}

/// All commands below this one, each before those below it.
fn below<'a>(command: &'a Command, name: &str, all: &mut Vec<(String, &'a Command)>) {
    for one in command.get_subcommands() {
        if one.get_name() != "help" && !one.is_hide_set() {
            let name = format!("{name} {}", one.get_name());
            all.push((name.clone(), one));
            below(one, &name, all);
        }
    }
}

/// The arguments of a command that it does not share with all programs.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let own =
        |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help" && arg.get_id() != "version";
    command.get_arguments().filter(own)
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    arguments(command).filter(|arg| !arg.is_positional())
}

fn describe(page: &mut String, name: &str, command: &Command, shared: &Shared) {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    add(page, &format!("\n### {name}\n\n{}.\n", line(&about)));
    for usage in usage.lines() {
        add(page, &format!("    {}", usage.trim()));
    }
    let is_shared = |arg: &Arg| !arg.is_positional() && shared.contains_key(&row(arg));
    let own: Vec<&Arg> = arguments(command).filter(|arg| !is_shared(arg)).collect();
    if !own.is_empty() {
        add(page, "\n| argument | meaning |\n| --- | --- |");
        for arg in own {
            add(page, &row(arg));
        }
    }
    let others: Vec<String> = options(command)
        .filter(|arg| is_shared(arg))
        .map(|arg| format!("`--{}`", arg.get_long().unwrap_or_default()))
        .collect();
    if !others.is_empty() {
        let also = "[Also](#options-of-several-commands)";
        add(page, &format!("\n{also}: {}.", others.join(", ")));
    }
    if let Some(text) = command.get_after_help() {
        add(
            page,
            &format!("\n```text\n{}\n```", text.to_string().trim_end()),
        );
    }
}

/// The row of a table that describes an argument.
fn row(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let value = match arg.get_value_names() {
        Some(names) if takes_value => names[0].to_string(),
        _ if takes_value => arg.get_id().to_string().to_uppercase(),
        _ => String::new(),
    };
    let name = match (arg.get_short(), arg.get_long()) {
        (None, None) => value,
        (Some(short), None) => format!("-{short} {value}"),
        (None, Some(long)) => format!("--{long} {value}"),
        (Some(short), Some(long)) => format!("-{short}, --{long} {value}"),
    };
    let help = arg.get_long_help().or(arg.get_help());
    let mut help = line(&help.map(ToString::to_string).unwrap_or_default());
    if takes_value {
        let values = arg.get_possible_values();
        let defaults = arg.get_default_values();
        if let (Some(default), false) = (defaults.first(), arg.is_hide_default_value_set()) {
            write!(help, " [default: {}]", default.to_string_lossy()).expect("a string takes all");
        }
        for value in &values {
            write!(help, "<br>`{}`", value.get_name()).expect("a string takes all");
            if let Some(meaning) = value.get_help() {
                write!(help, ": {}", line(&meaning.to_string())).expect("a string takes all");
            }
        }
    }
    format!("| `{}` | {} |", cell(name.trim()), cell(&help))
}

/// A text of several lines as one.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The table of the metrics of a page of OpenMetrics text.
fn metrics_table(page: &str) -> String {
    let mut table = String::from(
        "## Metrics\n\nNames have the prefix `tonearm_`. A histogram has `_bucket`, `_sum` and `_count`.\n\n| metric | kind | meaning |\n| --- | --- | --- |\n",
    );
    let described = |kind: &str, family: &str| {
        let mut lines = page.lines();
        lines.find_map(|line| {
            line.strip_prefix(&format!("# {kind} {family} "))
                .map(str::to_owned)
        })
    };
    for family in page.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let family = family.split(' ').next().expect("a name");
        let kind = described("TYPE", family).expect("a type");
        let help = described("HELP", family).expect("a help");
        let ending = match kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let name = format!("{family}{ending}");
        let mut lines = page.lines();
        let labels = lines.find_map(|line| {
            let rest = line.strip_prefix(&name)?;
            let rest = rest.strip_prefix("_count").unwrap_or(rest);
            rest.strip_prefix('{')?.split('}').next()
        });
        let labels = labels.unwrap_or_default().split(',');
        let mut by: Vec<&str> = labels.filter_map(|label| label.split('=').next()).collect();
        by.retain(|label| !label.is_empty());
        let by = match by.first() {
            Some(label) => format!(", by `{label}`"),
            None => String::new(),
        };
        let name = name.strip_prefix("tonearm_").expect("the prefix");
        let help = help.trim_end_matches('.');
        add(
            &mut table,
            &format!("| `{name}` | {kind} | {}{by} |", cell(help)),
        );
    }
    table
}
