//! `karpenter-sim`: plays histories by seed, and scenario files as `karpenter test` does, without the AWS SDK.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use karpenter_sim::scenario;
use karpenter_sim::{Defect, History, Outcome, Shape, run, shrink, week};
use karpenter_telemetry::stdout::{SIGPIPE, Unwritten, print};
use parking_lot::Mutex;

/// Deterministic simulation of the controller
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play the history of one seed
    Run(Run),
    /// Play many histories, and shrink the first that breaks a rule
    Swarm(Swarm),
    /// Plant each defect, and say which seed finds it and how long that takes
    Defects(Budget),
    /// Play scenario files, as `karpenter test` does
    Test(scenario::Arguments),
    /// Play a week of a large cluster, and hold what it costs against a lower bound
    Week(Length),
}

#[derive(Args)]
struct Run {
    /// Which history
    #[arg(long)]
    seed: u64,
    /// Print every line of the trace
    #[arg(long)]
    trace: bool,
    /// Print what the history consists of
    #[arg(long)]
    history: bool,
    /// Plant this defect
    #[arg(long, value_parser = defect)]
    defect: Option<Defect>,
    /// With a failure: look for a smaller history that fails too, in at most so many runs
    #[arg(long, default_value_t = 0)]
    shrink: usize,
    /// Show what the controller logs, as `RUST_LOG` says
    #[arg(long)]
    log: bool,
}

#[derive(Args)]
struct Swarm {
    /// How many histories
    #[arg(long)]
    histories: u64,
    /// Seed of the first
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many at once
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Go on after a failure, and shrink nothing
    #[arg(long)]
    keep_going: bool,
}

#[derive(Args)]
struct Budget {
    /// Histories at most for each
    #[arg(long, default_value_t = 200)]
    histories: u64,
    /// Seed of the first
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Plant this one only; may be given more than once
    #[arg(long, value_parser = defect)]
    only: Vec<Defect>,
    /// Go on after a seed that finds it
    #[arg(long)]
    every: bool,
}

#[derive(Args)]
struct Length {
    /// Machines of the busiest hour
    #[arg(long, default_value_t = 500)]
    machines: u32,
    /// Hours to play
    #[arg(long, default_value_t = 168)]
    hours: u32,
    /// The hour in which newer images are released, which the controller sees within a day; never when it is not played
    #[arg(long, default_value_t = 50)]
    images_at: u32,
    /// Which machines are interrupted, and every name and delay
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print every line of the trace
    #[arg(long)]
    trace: bool,
    /// Show what the controller logs, as `RUST_LOG` says
    #[arg(long)]
    log: bool,
}

fn defect(text: &str) -> Result<Defect, String> {
    let all = || Defect::ALL.map(|defect| format!("{defect:?}")).join(", ");
    let found = Defect::ALL.into_iter().find(|defect| format!("{defect:?}") == text);
    found.ok_or_else(|| format!("there is no defect `{text}`; there are {}", all()))
}

fn main() -> Result<ExitCode> {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => one(&arguments),
        Command::Swarm(arguments) => swarm(&arguments),
        Command::Defects(arguments) => defects(&arguments),
        Command::Test(arguments) => scenario::run(&arguments, &|text: &str| Ok(print(text)?)),
        Command::Week(arguments) => long(&arguments),
    };
    match outcome {
        Err(error) if matches!(error.downcast_ref(), Some(Unwritten::Closed)) => Ok(ExitCode::from(SIGPIPE)),
        outcome => outcome,
    }
}

/// Shows from now on what the controller logs, as `RUST_LOG` says.
fn show_log() {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
}

fn one(arguments: &Run) -> Result<ExitCode> {
    if arguments.log {
        show_log();
    }
    let mut history = History::of(arguments.seed);
    if let Some(defect) = arguments.defect {
        history = history.with_defect(defect);
    }
    if arguments.history {
        print(&history.to_string())?;
    }
    let outcome = run(&history, arguments.trace)?;
    say(arguments.seed, &outcome)?;
    let Some(first) = outcome.violations.first() else { return Ok(ExitCode::SUCCESS) };
    if arguments.shrink > 0 {
        shrunk(&history, first.rule, arguments.shrink)?;
    }
    Ok(ExitCode::FAILURE)
}

fn long(arguments: &Length) -> Result<ExitCode> {
    let &Length { machines, hours, images_at, seed, trace, log } = arguments;
    if log {
        show_log();
    }
    let played = week(&Shape { seed, machines, hours, images_at: Some(images_at) }, trace)?;
    print(&played.to_string())?;
    Ok(if played.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(seed: u64, outcome: &Outcome) -> Result<()> {
    let minutes = outcome.took.as_secs() / 60;
    let mut text = format!(
        "seed {seed}: hash {}, {} lines, {minutes} virtual minutes, {} instances, {} broken rules\n",
        outcome.hash,
        outcome.lines,
        outcome.launched,
        outcome.violations.len()
    );
    for violation in &outcome.violations {
        text.push_str(&format!("  {} s: {}: {}\n", violation.seconds, violation.rule, violation.what));
    }
    Ok(print(&text)?)
}

fn shrunk(history: &History, rule: &str, runs: usize) -> Result<()> {
    let (small, outcome) = shrink(history, rule, runs)?;
    let tail = outcome.tail.iter().rev().take(40).rev();
    let tail: String = tail.map(|line| format!("  {line}\n")).collect();
    Ok(print(&format!(
        "the smallest history found that breaks `{rule}`:\n{small}the end of its trace:\n{tail}"
    ))?)
}

/// Results of a swarm.
#[derive(Clone, Copy, Default)]
struct Done {
    count: u64,
    took: Duration,
    /// Digest of the hashes, independent of their order.
    digest: u64,
}

fn swarm(arguments: &Swarm) -> Result<ExitCode> {
    if arguments.threads == 0 {
        bail!("--threads must be at least 1");
    }
    let (next, began) = (AtomicU64::new(arguments.from), Instant::now());
    let end = arguments.from.saturating_add(arguments.histories);
    let (failed, done) = (Mutex::new(Vec::new()), Mutex::new(Done::default()));
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                let stop = !arguments.keep_going && !failed.lock().is_empty();
                if seed >= end || stop {
                    return Ok(());
                }
                let outcome = run(&History::of(seed), false)?;
                {
                    let mut done = done.lock();
                    done.count += 1;
                    done.took += outcome.took;
                    done.digest ^= u64::from_str_radix(&outcome.hash, 16).unwrap_or_default();
                }
                if !outcome.violations.is_empty() {
                    say(seed, &outcome)?;
                    failed.lock().push((seed, outcome));
                }
            }
        };
        let workers: Vec<_> = (0..arguments.threads).map(|_| scope.spawn(work)).collect();
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| bail!("a run has panicked")));
        ended.collect::<Result<Vec<()>>>()
    })?;
    let Done { count, took, digest } = *done.lock();
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    #[expect(clippy::cast_precision_loss, reason = "a figure to read")]
    let per_minute = count as f64 / minutes;
    print(&format!(
        "{count} histories from seed {} in {minutes:.1} min: {per_minute:.0} histories and {:.1} virtual hours a minute; \
         digest of all hashes {digest:016x}\n",
        arguments.from,
        took.as_secs_f64() / 3600.0 / minutes
    ))?;
    let failed = failed.into_inner();
    print(&format!("{} broke a rule\n", failed.len()))?;
    let Some((seed, outcome)) = failed.first() else { return Ok(ExitCode::SUCCESS) };
    if !arguments.keep_going {
        shrunk(&History::of(*seed), outcome.violations[0].rule, 60)?;
    }
    Ok(ExitCode::FAILURE)
}

fn defects(arguments: &Budget) -> Result<ExitCode> {
    let mut missed = 0;
    let planted = Defect::ALL.into_iter();
    for defect in planted.filter(|one| arguments.only.is_empty() || arguments.only.contains(one)) {
        let (began, mut found) = (Instant::now(), 0);
        for number in 0..arguments.histories {
            let seed = arguments.from + number;
            let outcome = run(&History::of(seed).with_defect(defect), false)?;
            let Some(first) = outcome.violations.first() else { continue };
            found += 1;
            print(&format!(
                "{defect:?}: seed {seed} after {} histories, {:.1} s: {} at {} s: {}\n",
                number + 1,
                began.elapsed().as_secs_f64(),
                first.rule,
                first.seconds,
                first.what
            ))?;
            if !arguments.every {
                break;
            }
        }
        if found == 0 {
            missed += 1;
            let seconds = began.elapsed().as_secs_f64();
            print(&format!("{defect:?}: not found in {} histories, {seconds:.1} s\n", arguments.histories))?;
        }
    }
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
