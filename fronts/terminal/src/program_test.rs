//! Help that is wrapped once.

use super::{joined, unwrapped};
use clap::Command;

#[test]
fn lines_of_a_paragraph_are_joined_and_examples_stay() {
    let text = "Examples:\n  do this\n        and see\n\nOne sentence\nover lines.\nTwo.\n\nNext.";
    let expected =
        "Examples:\n  do this\n        and see\n\nOne sentence over lines. Two.\n\nNext.";
    assert_eq!(joined(text), expected);
}

#[test]
fn narrow_help_has_no_short_lines_within_a_paragraph() {
    let long = ["word"; 18].join(" ");
    let below = Command::new("below").after_help(format!("{long}\n{long}"));
    let command = Command::new("test").subcommand(below);
    let mut command = unwrapped(command.term_width(60));
    let below = command.find_subcommand_mut("below").unwrap();
    let help = below.clone().term_width(60).render_help().to_string();
    let words: Vec<&str> = help
        .lines()
        .filter(|line| line.starts_with("word"))
        .collect();
    let all_but_last = &words[..words.len() - 1];
    assert!(all_but_last.iter().all(|line| line.len() > 54), "{help}");
}
