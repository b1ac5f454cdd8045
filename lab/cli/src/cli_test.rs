use super::Cli;
use clap::CommandFactory;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_teaches_by_example() {
    for command in Cli::command().get_subcommands() {
        let help = command.clone().render_long_help().to_string();
        assert!(
            help.contains(&format!("tonearm-lab {}", command.get_name())),
            "{}",
            command.get_name()
        );
        assert!(help.contains("Example"), "{}", command.get_name());
    }
}
