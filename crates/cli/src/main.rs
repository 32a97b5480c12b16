//! `batch-first`: the engine and its tools, one subcommand each; without a subcommand it speaks UCI.

mod analyze;
mod bench_command;
mod board_view;
mod data_command;
mod doctor_command;
mod engine_args;
mod eval_target;
mod interrupt;
mod label_command;
mod ladder_command;
mod match_command;
mod net_command;
mod openings_command;
mod progress_line;
mod rate_command;
mod serve_command;
mod shell_command;
mod train_command;
mod uci_command;
mod worker_command;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// A chess engine and lab that searches K-best-first in batches.
///
/// Without a command it speaks UCI on standard input and output, for chess programs.
#[derive(Debug, Parser)]
#[command(name = "batch-first", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Analyze(analyze::AnalyzeArgs),
    Bench(bench_command::BenchArgs),
    Completions(shell_command::CompletionsArgs),
    Data(data_command::DataArgs),
    Doctor(doctor_command::DoctorArgs),
    Label(label_command::LabelArgs),
    Ladder(ladder_command::LadderArgs),
    Man(shell_command::ManArgs),
    Match(match_command::MatchArgs),
    Net(net_command::NetArgs),
    Openings(openings_command::OpeningsArgs),
    Rate(rate_command::RateArgs),
    Serve(serve_command::ServeArgs),
    Train(train_command::TrainArgs),
    Uci(uci_command::UciArgs),
    Worker(worker_command::WorkerArgs),
}

/// The command ended its check, and the result is bad (exit code 1). Unusable input has exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct CheckFailed(String);

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return argument_error(&error),
    };
    // wgpu reports a missing OpenGL as an error.
    let quiet =
        || tracing_subscriber::EnvFilter::new("warn,wgpu_hal=off,wgpu_core=error,naga=error");
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| quiet()),
        )
        .with_writer(io::stderr)
        .init();
    let result = match cli.command {
        None => uci_command::run(uci_command::UciArgs::default()),
        Some(Command::Analyze(args)) => analyze::run(args),
        Some(Command::Bench(args)) => bench_command::run(args),
        Some(Command::Completions(args)) => shell_command::completions(&args),
        Some(Command::Data(args)) => data_command::run(args),
        Some(Command::Doctor(args)) => doctor_command::run(args),
        Some(Command::Label(args)) => label_command::run(args),
        Some(Command::Ladder(args)) => ladder_command::run(args),
        Some(Command::Man(args)) => shell_command::man(&args),
        Some(Command::Match(args)) => match_command::run(args),
        Some(Command::Net(args)) => net_command::run(args),
        Some(Command::Openings(args)) => openings_command::run(args),
        Some(Command::Rate(args)) => rate_command::run(args),
        Some(Command::Serve(args)) => serve_command::run(args),
        Some(Command::Train(args)) => train_command::run(args),
        Some(Command::Uci(args)) => uci_command::run(args),
        Some(Command::Worker(args)) => worker_command::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<interrupt::Interrupted>() => interrupt::Interrupted::exit_code(),
        Err(error) => {
            print_error(&sentence(&error));
            ExitCode::from(if error.downcast_ref::<CheckFailed>().is_some() { 1 } else { 2 })
        }
    }
}

/// Prints help or version as clap does, or an error as one sentence.
fn argument_error(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed pipe is no error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let lines: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let text = lines.join(" ").replace("For more information, try '--help'.", "");
    print_error(&format!("{} (try `--help`)", text.trim().trim_start_matches("error: ")));
    ExitCode::from(2)
}

/// Writes an error message. A closed standard error is ignored.
fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr(), "error: {text}");
}

/// The error and its causes on one line, without causes that the text already contains.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
