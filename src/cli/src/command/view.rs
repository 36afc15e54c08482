//! `karpenter view`: a cluster on the terminal, as one frame of text, as JSON, or as a timeline.

#[cfg(feature = "demo")]
mod files;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use futures::FutureExt;
use jiff::Timestamp;
use karpenter_aws::market::prices::{Prices as Market, Source};
use karpenter_aws_api::Clients;
use karpenter_aws_sdk as sdk;
use karpenter_compose::WallClock;
use karpenter_controllers::explain::Question;
use karpenter_telemetry::stdout;
use karpenter_view::timeline::{self, Printer};
use karpenter_view::{
    Explainer, Filter, Planner, PriceBook, Prices, Scene, Shown, Sort, SortBy, Sources, Style, Ui,
};
use kube::config::Kubeconfig;
use tokio::sync::watch;

use super::explain;
use super::plan::{self, OfferedBy, in_memory};
use crate::api_server;
use crate::leader::{Controller, Place};
use crate::output::{self, Output};

/// Width of plain text without a terminal, in columns.
const PLAIN_WIDTH: u16 = 160;
/// Prices of spot change a few times a day.
const PRICES_EVERY: Duration = Duration::from_hours(1);

/// Arguments of `karpenter view`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 shown, 1 something could not be read.\n\n\
                        The screen: karpenter view\n\
                        The most expensive nodes of a pool, once: karpenter view --once --sort price --filter pool=web\n\
                        Without an AWS account, at list prices: karpenter view --offerings memory\n\
                        From an export, with its prices: karpenter view -f export.yaml")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Arguments {
    /// View an export or manifests instead of a cluster: a file, a folder with everything in it, or - for standard input
    /// (several, and repeatable)
    #[arg(short, long, value_name = "PATH", num_args = 1.., conflicts_with = "timeline")]
    filename: Vec<PathBuf>,
    /// Print the cluster once, as text or as one JSON document, and exit
    #[arg(short, long, value_enum, group = "form")]
    output: Option<Output>,
    /// The same as --output text
    #[arg(long, group = "form")]
    once: bool,
    // Former spelling of `--output json`.
    #[arg(long, group = "form", hide = true)]
    json: bool,
    /// Print what changes, one line at a time; the default if standard output is not a terminal
    #[arg(long, group = "form")]
    timeline: bool,
    /// Resources to show besides cpu and memory, separated by commas, such as nvidia.com/gpu
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    resources: Vec<String>,
    /// Labels to show, separated by commas, such as team,karpenter.k8s.aws/instance-family
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    labels: Vec<String>,
    /// Column to sort by: name, pool, type, zone, capacity, price, cpu, memory, pods, age or state
    #[arg(long, value_name = "COLUMN", default_value = "name")]
    sort: SortBy,
    /// Sort in the opposite order
    #[arg(long)]
    reverse: bool,
    /// Show only nodes that match all of these terms: a word in a name, pool=NAME, type=, zone=, capacity=, state=,
    /// LABEL=VALUE; != instead of = excludes
    #[arg(long, value_name = "TERMS", default_value = "")]
    filter: String,
    /// Count only the pods of this namespace: what they ask for of each node, and which of them wait
    #[arg(short, long, conflicts_with = "timeline")]
    namespace: Option<String>,
    /// Show one line for each NodePool instead of its nodes
    #[arg(long)]
    by_pool: bool,
    /// Show prices of instances in the timeline, too; asks AWS, with your credentials
    #[arg(long, conflicts_with = "no_prices")]
    prices: bool,
    /// Source of prices
    #[arg(long, value_enum, default_value_t = OfferedBy::Aws, conflicts_with = "no_prices")]
    offerings: OfferedBy,
    /// Region of the prices [default: what the AWS SDK finds in `AWS_REGION` or the profile; us-west-2 with
    /// --offerings memory]
    #[arg(long, conflicts_with = "no_prices")]
    region: Option<String>,
    /// Do not ask AWS for prices
    #[arg(long)]
    no_prices: bool,
    /// Use no colours; the environment variable `NO_COLOR` does the same
    #[arg(long)]
    no_color: bool,
    #[command(flatten)]
    place: Place,
}

impl Arguments {
    /// Returns the format of one frame; `None` when there is to be more than one.
    fn output(&self) -> Option<Output> {
        let text = self.once.then_some(Output::Text);
        self.output.or(self.json.then_some(Output::Json)).or(text)
    }
}

/// Shows the cluster of the current kubeconfig.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let screen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let once = arguments.output();
    // Two threads: a list of 50,000 pods is read while the screen is drawn.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(async {
        if once.is_none() && (arguments.timeline || !screen) {
            return follow(arguments).await;
        }
        let sources = sources(arguments).await?;
        let shown = Shown::new(&arguments.resources)
            .with_labels(&arguments.labels)
            .with_namespace(arguments.namespace.clone());
        let sort = Sort { by: arguments.sort, reversed: arguments.reverse };
        let ui = Ui::new(sort, Filter::new(&arguments.filter), arguments.by_pool);
        if let Some(output) = once {
            return print(sources, shown, &ui, output).await;
        }
        karpenter_view::show(sources, shown, ui, style(arguments.no_color, |name| std::env::var(name).ok()))
            .await?;
        Ok(ExitCode::SUCCESS)
    });
    // The thread that reads keys waits for the next one; nothing is lost with it.
    runtime.shutdown_background();
    outcome
}

/// Tells the timeline until Ctrl-C.
async fn follow(arguments: &Arguments) -> Result<ExitCode> {
    let client = api_server::client().await?;
    let prices = if arguments.prices {
        let (market, missing) = market(arguments.offerings, arguments.region.clone()).await?;
        output::note(missing.as_slice())?;
        price_book(&market)
    } else {
        Arc::new(|_: &str, _: &str, _: &str| None)
    };
    tokio::select! {
        outcome = timeline::follow(client, prices, Printer::OfDay) => outcome?,
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints one frame. Objects that the user may not read are named on standard error, and make the command fail.
async fn print(sources: Sources, shown: Shown, ui: &Ui, output: Output) -> Result<ExitCode> {
    let width = plain_width();
    let frame = |scene: &Scene<'_>| {
        let text = match output {
            Output::Text => Ok(karpenter_view::plain(scene, ui, usize::from(width))),
            Output::Json => output::json(&karpenter_view::document(scene, ui)),
        };
        (text, scene.troubles.to_vec())
    };
    let (text, troubles) = karpenter_view::gather(sources, shown, frame).await?;
    stdout::print(&text?)?;
    for trouble in &troubles {
        writeln!(std::io::stderr().lock(), "{}\n", trouble.full())
            .context("cannot write to standard error")?;
    }
    let incomplete = troubles.iter().any(karpenter_view::Trouble::lasts);
    Ok(if incomplete { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the width of plain text in columns.
fn plain_width() -> u16 {
    let terminal = std::io::stdout().is_terminal().then(karpenter_view::terminal_width).flatten();
    terminal.unwrap_or(PLAIN_WIDTH)
}

async fn sources(arguments: &Arguments) -> Result<Sources> {
    if !arguments.filename.is_empty() {
        #[cfg(feature = "demo")]
        return files::sources(&arguments.filename, arguments.offerings, arguments.region.clone()).await;
        #[cfg(not(feature = "demo"))]
        anyhow::bail!("cannot view files: this build has no API server in memory; view a cluster");
    }
    let (sender, prices) = watch::channel(if arguments.no_prices { Prices::Off } else { Prices::Loading });
    if !arguments.no_prices {
        tokio::spawn(keep_prices(sender, arguments.offerings, arguments.region.clone()));
    }
    let client = api_server::client().await?;
    Ok(Sources {
        explainer: explainer(arguments.place.controller(Some(&client)).await?),
        planner: planner(plan::Sources::of(Vec::new(), Some(arguments.offerings), arguments.region.clone())),
        client,
        cluster: cluster_name(Kubeconfig::read().ok().and_then(|config| config.current_context).as_deref()),
        prices,
        clock: Arc::new(WallClock),
    })
}

/// Reads prices at once and every hour after that, as long as there is a receiver.
async fn keep_prices(prices: watch::Sender<Prices>, from: OfferedBy, region: Option<String>) {
    while !prices.is_closed() {
        let read = match market(from, region.clone()).await {
            Ok((market, None)) => Prices::Known(price_book(&market)),
            Ok((market, Some(missing))) => Prices::Partial(price_book(&market), missing),
            Err(error) => Prices::Unavailable(format!("{error:#}")),
        };
        // Prices of an hour ago are better than none, and all of them better than some.
        let worse = matches!(
            (&*prices.borrow(), &read),
            (Prices::Known(_), Prices::Partial(..) | Prices::Unavailable(_))
                | (Prices::Partial(..), Prices::Unavailable(_))
        );
        if !worse {
            prices.send_replace(read);
        }
        tokio::time::sleep(PRICES_EVERY).await;
    }
}

/// The prices of this moment, and what is missing.
async fn market(from: OfferedBy, region: Option<String>) -> Result<(Market, Option<String>)> {
    let clients = match from {
        OfferedBy::Memory => in_memory(region.as_deref(), None)?.0,
        OfferedBy::Aws => {
            let config = sdk::Config { region, ..sdk::Config::default() };
            sdk::connect(config).await.context(
                "cannot set up the AWS clients; name a region with --region, or take list prices with --offerings memory",
            )?
        }
    };
    prices_of(clients).await
}

/// The prices that can be read, and what is missing. Fails when neither those of on-demand nor those of spot can be.
async fn prices_of(clients: Clients) -> Result<(Market, Option<String>)> {
    let market = Market::new(clients, Arc::new(WallClock), false);
    let on_demand = market.refresh_on_demand().await.context("cannot read the AWS price list");
    let spot = market.refresh_spot().await.context("cannot read the history of spot prices");
    let missing = match (on_demand, spot) {
        (Ok(_), Ok(_)) => None,
        (Ok(_), Err(error)) => Some(format!("machines on spot have no price: {error:#}")),
        // Of a few regions, prices are built in.
        (Err(error), Ok(_)) => {
            Some(format!("machines on demand have no price, or one that is built in: {error:#}"))
        }
        (Err(error), Err(_)) => return Err(error),
    };
    Ok((market, missing))
}

fn price_book(market: &Market) -> PriceBook {
    let book = market.book();
    Arc::new(move |instance_type, zone, capacity| {
        let known = match capacity {
            "on-demand" => book.on_demand(instance_type),
            "spot" => book.spot(instance_type, zone),
            _ => None,
        };
        // An estimate is good for comparing types, not for saying what a cluster costs.
        known.filter(|known| known.source != Source::Estimate).map(|known| known.price)
    })
}

/// Asks the controller, and puts its answer into words.
fn explainer(controller: Controller) -> Explainer {
    Arc::new(move |question| {
        let controller = controller.clone();
        async move {
            let question = question.parse::<Question>().map_err(|error| error.to_string())?;
            let answer = controller.ask(&question).await.map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>(explain::render(&answer, Timestamp::now()))
        }
        .boxed()
    })
}

/// Makes the plan of these sources, in words.
fn planner(sources: plan::Sources) -> Planner {
    Arc::new(move || {
        let sources = sources.clone();
        async move { plan::text_of(&sources).await.map_err(|error| format!("{error:#}")) }.boxed()
    })
}

/// The name of a cluster by its context: EKS calls contexts by the ARN of the cluster.
fn cluster_name(context: Option<&str>) -> String {
    let context = context.unwrap_or("this cluster");
    context.rsplit_once(":cluster/").map_or(context, |(_, name)| name).to_owned()
}

/// Returns the abilities of the terminal, by the environment variables that describe them.
fn style(no_color: bool, variable: impl Fn(&str) -> Option<String>) -> Style {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    // The first of these that is set decides, as for every program.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
    Style {
        colours: !no_color && set("NO_COLOR").is_none(),
        ascii: !(locale.contains("utf-8") || locale.contains("utf8")),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_aws_sim::{Account, Fault, Options};
    use karpenter_model::Price;

    use super::*;

    #[test]
    fn the_environment_says_what_the_terminal_can_show() {
        type Variables = [(&'static str, &'static str)];
        let table: [(&Variables, bool, bool); 6] = [
            (&[("LANG", "en_US.UTF-8")], true, false),
            (&[("LANG", "C.utf8"), ("NO_COLOR", "")], true, false),
            (&[("LANG", "C.utf8"), ("NO_COLOR", "1")], false, false),
            (&[("LANG", "C")], true, true),
            (&[], true, true),
            (&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "POSIX")], true, true),
        ];
        for (variables, colours, ascii) in table {
            let find = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(style(false, find), Style { colours, ascii }, "{variables:?}");
            assert!(!style(true, find).colours, "--no-color");
        }
    }

    /// Returns the prices of an m5.large on demand and on spot where the account refuses these calls, and the text about
    /// missing ones.
    async fn priced(refused: &[&str]) -> Result<(Option<Price>, Option<Price>, Option<String>)> {
        let account = Account::new(Options::default());
        for operation in refused {
            account.inject(Fault::fail(operation, "AccessDeniedException"));
        }
        let (market, missing) = prices_of(account.clients()).await?;
        let zone = format!("{}a", account.options().region);
        let price = price_book(&market);
        Ok((price("m5.large", &zone, "on-demand"), price("m5.large", &zone, "spot"), missing))
    }

    #[tokio::test]
    async fn a_permission_that_is_missing_leaves_out_its_own_prices_only() {
        let (on_demand, spot, missing) = priced(&[]).await.unwrap();
        assert!(on_demand.is_some() && spot.is_some() && spot != on_demand, "{on_demand:?}, {spot:?}");
        assert_eq!(missing, None);

        let (listed, none, missing) = priced(&["DescribeSpotPriceHistory"]).await.unwrap();
        assert_eq!((listed, none), (on_demand, None), "a price of on-demand is none of spot");
        let missing = missing.unwrap();
        assert!(missing.starts_with("machines on spot have no price: "), "{missing}");
        assert!(missing.contains("AccessDeniedException"), "{missing}");

        let (none, now, missing) = priced(&["GetProducts"]).await.unwrap();
        assert_eq!((none, now), (None, spot));
        let missing = missing.unwrap();
        assert!(
            missing.starts_with("machines on demand have no price, or one that is built in: "),
            "{missing}"
        );

        let neither = priced(&["GetProducts", "DescribeSpotPriceHistory"]).await;
        assert!(neither.unwrap_err().to_string().starts_with("cannot read the AWS price list"));
    }

    #[test]
    fn one_frame_is_text_or_json_by_either_spelling() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: Arguments,
        }
        for (flags, expected) in [
            ("", None),
            ("--timeline", None),
            ("--once", Some(Output::Text)),
            ("--output text", Some(Output::Text)),
            ("-o json", Some(Output::Json)),
            ("--json", Some(Output::Json)),
        ] {
            let line =
                <Line as clap::Parser>::parse_from(std::iter::once("view").chain(flags.split_whitespace()));
            assert_eq!(line.arguments.output(), expected, "{flags}");
        }
    }

    #[test]
    fn a_cluster_is_called_by_its_name_not_by_its_arn() {
        let table = [
            (Some("arn:aws:eks:eu-west-1:123456789012:cluster/prod"), "prod"),
            (Some("kind-kind"), "kind-kind"),
            (None, "this cluster"),
        ];
        for (context, name) in table {
            assert_eq!(cluster_name(context), name);
        }
    }
}
