//! `karpenter`: one binary from an AWS account to a running cluster that scales its own nodes.
//!
//! This crate is the composition root: it reads arguments and environment, builds settings and clients, and
//! hands them to the libraries. One file per subcommand under `command/`; nothing here decides anything about
//! pods, prices or nodes.

mod api_server;
#[cfg(test)]
mod chart;
mod command;
mod complaint;
mod flags;
mod leader;
mod output;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser, Subcommand};
use karpenter_telemetry::stdout;
use karpenter_telemetry::stdout::{SIGPIPE, Unwritten};

/// Node autoscaler for Kubernetes on AWS: right-sized instances for pods that do not fit, and fewer of them
/// when they are not needed.
#[derive(Parser)]
#[command(name = "karpenter", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    reach: api_server::Reach,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the controller: launch, register, drain and remove nodes
    Controller(Box<command::controller::Arguments>),
    /// Prepare an AWS account for a cluster: IAM roles, interruption queue, event rules, tags
    Bootstrap(Box<command::bootstrap::Arguments>),
    /// Print the custom resource definitions, ready for `kubectl apply --server-side -f -`
    #[command(after_help = "Exit codes: 0 printed, 1 failed.\n\n\
                            To install them: karpenter crds | kubectl apply --server-side -f -")]
    Crds,
    /// Convert manifests and chart values of older versions to v1
    Convert(command::convert::Arguments),
    /// Check the account and the cluster: what is wrong, why, and how to fix it
    Doctor(Box<command::doctor::Arguments>),
    /// Explain why a node stays, a pod waits or a NodePool is not used, as the running controller sees it
    Explain(command::explain::Arguments),
    /// Show what would be launched, replaced and removed now, and why; changes nothing
    Plan(Box<command::plan::Arguments>),
    /// Print the instance types of NodePools, and the launch templates and user data of their nodes
    Render(Box<command::render::Arguments>),
    /// Print a cluster as one file, from which `karpenter plan` makes the same plan
    Export(Box<command::export::Arguments>),
    /// Find mistakes in manifests or in a cluster, such as a NodePool that matches no instance type
    Lint(Box<command::lint::Arguments>),
    /// Print the JSON schema of what a command prints with `--output json`
    Schema(command::schema::Arguments),
    /// Show a cluster on the terminal: nodes, their cost and use, pods that wait; or a timeline of changes
    View(command::view::Arguments),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = "Exit codes: 0 printed, 1 failed.\n\n\
                            For this session of bash: source <(karpenter completion bash)\n\
                            For every session of fish: karpenter completion fish > ~/.config/fish/completions/karpenter.fish")]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages of all commands into a folder
    #[command(after_help = "Exit codes: 0 written, 1 failed.\n\n\
                            To read one: karpenter man man1 && man man1/karpenter-plan.1")]
    Man {
        /// Folder for the pages; created if it does not exist
        folder: std::path::PathBuf,
    },
    /// Print the version, and the releases of Karpenter that it takes the place of
    #[command(after_help = "Exit codes: 0 printed, 1 failed.\n\n\
                            For scripts: karpenter version --output json")]
    Version {
        /// How to print it
        #[arg(short, long, value_enum, default_value_t = output::Output::Text)]
        output: output::Output,
    },
    /// Run scenario files in virtual time: what a change costs, how long pods wait, what is disrupted
    #[cfg(feature = "demo")]
    Test(karpenter_sim::scenario::Arguments),
    /// Watch nodes being launched for pods and removed again, in a cluster and an account in memory
    #[cfg(feature = "demo")]
    Demo(karpenter_demo::Arguments),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(words(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error),
    };
    cli.reach.choose();
    let outcome = match cli.command {
        Command::Controller(arguments) => command::controller::run(*arguments),
        Command::Bootstrap(arguments) => command::bootstrap::run(*arguments),
        Command::Crds => command::crds::run(),
        Command::Convert(arguments) => command::convert::run(&arguments),
        Command::Doctor(arguments) => command::doctor::run(&arguments),
        Command::Explain(arguments) => command::explain::run(&arguments),
        Command::Plan(arguments) => command::plan::run(&arguments),
        Command::Render(arguments) => command::render::run(&arguments),
        Command::Export(arguments) => command::export::run(&arguments),
        Command::Lint(arguments) => command::lint::run(&arguments),
        Command::Schema(arguments) => command::schema::run(&arguments),
        Command::View(arguments) => command::view::run(&arguments),
        Command::Completion { shell } => completion(shell),
        Command::Man { folder } => command::about::man(Cli::command(), &folder),
        Command::Version { output } => command::about::version(output),
        #[cfg(feature = "demo")]
        Command::Test(arguments) => {
            karpenter_sim::scenario::run(&arguments, &output::Status::begin("reading scenarios"))
        }
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => karpenter_demo::run(arguments),
    };
    outcome.unwrap_or_else(|error| {
        if matches!(error.downcast_ref(), Some(Unwritten::Closed)) {
            return ExitCode::from(SIGPIPE);
        }
        complaint::print(&error);
        ExitCode::FAILURE
    })
}

/// Returns the words of the command line. `help --help` asks for help, where clap takes the flag for the name of a command.
fn words(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = given.collect();
    if matches!(words.as_slice(), [_, help, flag] if help == "help" && (flag == "--help" || flag == "-h")) {
        words.pop();
    }
    words
}

/// Prints the script that completes the program's commands and flags in `shell`.
fn completion(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "karpenter", &mut script);
    stdout::print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints help, the version or what is wrong with the flags. That is no answer of a command, some of which end with 2 to
/// give one, as clap does here: a gate must not take a mistyped flag for "nodes would change".
fn unparsed(error: &clap::Error) -> ExitCode {
    // Without a terminal there is no other place to print to.
    let _printed = error.print();
    if let Some(tip) = file_tip(error) {
        let _printed = std::io::stderr().write_all(tip.as_bytes());
    }
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Returns the flag for a file that was named without one, as most programs take files.
fn file_tip(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let ends = [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end));
    let is_file = !word.starts_with('-') && (ends || std::path::Path::new(word).exists());
    is_file.then(|| format!("\n  tip: files and folders are named with -f: -f {word}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_its_flag_gets_a_tip() {
        let tip = |line: &str| {
            let words = std::iter::once("karpenter").chain(line.split_whitespace());
            Cli::try_parse_from(words).err().and_then(|error| file_tip(&error))
        };
        assert!(tip("plan pool.yaml").unwrap().contains("-f pool.yaml"));
        assert_eq!(tip("plan --pool.yaml"), None);
        assert_eq!(tip("plan -f pool.yaml"), None);
    }

    #[test]
    fn every_command_says_its_exit_codes_and_gives_an_example() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            let after = help.rsplit_once("Exit codes:").map(|(_, after)| after.to_owned());
            let after = after.unwrap_or_else(|| panic!("{name} has no exit codes"));
            assert!(after.contains(&format!("karpenter {name}")), "{name}: {after}");
        }
    }

    #[test]
    fn a_flag_of_several_commands_has_one_placeholder_and_one_letter() {
        let mut cli = Cli::command();
        cli.build();
        let mut seen = std::collections::BTreeMap::new();
        for command in cli.get_subcommands() {
            for argument in command.get_arguments() {
                // Filters differ: of nodes by terms, of scenarios by a text.
                let Some(long) = argument.get_long().filter(|long| *long != "filter") else { continue };
                let values = argument
                    .get_value_names()
                    .map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
                let form = (argument.get_short(), values.filter(|_| argument.get_action().takes_values()));
                let (known, by) = seen
                    .entry(long.to_owned())
                    .or_insert_with(|| (form.clone(), command.get_name().to_owned()));
                assert_eq!(*known, form, "--{long} of {} and of {by}", command.get_name());
            }
        }
    }

    #[test]
    fn a_mistyped_flag_is_an_error_and_help_is_none() {
        for (flag, code) in [("--what-iff", ExitCode::FAILURE), ("--help", ExitCode::SUCCESS)] {
            let error = Cli::try_parse_from(["karpenter", "plan", flag]).err().unwrap();
            assert_eq!(format!("{:?}", unparsed(&error)), format!("{code:?}"), "{flag}");
        }
    }

    #[test]
    fn help_about_help_is_help() {
        let parsed = |line: &str| {
            let error = Cli::try_parse_from(words(line.split(' ').map(OsString::from))).err().unwrap();
            error.kind()
        };
        for line in ["karpenter help", "karpenter help --help", "karpenter help -h", "karpenter --help"] {
            assert_eq!(parsed(line), clap::error::ErrorKind::DisplayHelp, "{line}");
        }
        assert_eq!(parsed("karpenter help --helq"), clap::error::ErrorKind::InvalidSubcommand);
    }

    #[test]
    fn completion_knows_every_command_in_every_shell() {
        for shell in [
            clap_complete::Shell::Bash,
            clap_complete::Shell::Zsh,
            clap_complete::Shell::Fish,
            clap_complete::Shell::PowerShell,
        ] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "karpenter", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn every_report_is_asked_for_as_json_in_the_same_words() {
        let reports = [
            "plan",
            "lint",
            "explain",
            "view",
            "convert -f a.yaml",
            "doctor --cluster-name prod",
            "bootstrap plan --cluster-name prod",
            "bootstrap check --cluster-name prod",
        ];
        let is_read = |line: &str| {
            let words = std::iter::once("karpenter").chain(line.split_whitespace());
            Cli::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        for report in reports {
            assert_eq!(is_read(&format!("{report} --output json")), Ok(()), "{report}");
        }
        for report in reports.into_iter().filter(|report| !report.starts_with("bootstrap")) {
            assert_eq!(is_read(&format!("{report} -o json")), Ok(()), "{report}");
        }
        // Former spellings.
        for report in ["view --json", "view --once", "convert -f a.yaml --report json"] {
            assert_eq!(is_read(report), Ok(()), "{report}");
        }
        assert!(is_read("view --json --output text").is_err(), "one form at a time");
    }
}
