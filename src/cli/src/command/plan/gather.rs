//! Sources of the objects of a plan and of the instance types of pools: a cluster and AWS, files and the account in
//! memory, or an export, which has both.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use karpenter_aws::class::faults;
use karpenter_aws_api::Clients;
use karpenter_aws_sdk as sdk;
use karpenter_compose::WallClock;
use karpenter_compose::offered::OfferingsReader;
use karpenter_convert::{InputError, Inputs};
use karpenter_model::Clock;
use karpenter_plan::{
    Fault, Manifest, Offerings, Origin, PlanInputs, Reading, Unreadable, WhatIf, World, WorldError,
    is_export, read_streams, region_of, resolve, settings_of, zones_named, zones_of_nodes,
};
use serde_json::Value;

use super::{cluster, settings, storable};
use crate::api_server;
use crate::output::Status;

/// The region of the account in memory when no object names one.
#[cfg(feature = "demo")]
const REGION: &str = "us-west-2";
/// Zones that node classes of manifests are taken to have subnets in.
const ZONES: [char; 3] = ['a', 'b', 'c'];

/// Where everything comes from.
#[derive(Args, Clone)]
pub(crate) struct Sources {
    /// Read an export or manifests instead of the cluster: a file, a folder with everything in it, or - for standard
    /// input (several, and repeatable)
    #[arg(short, long, value_name = "PATH", num_args = 1..)]
    pub(crate) filename: Vec<PathBuf>,
    /// Where instance types and prices come from; an export brings its own [default: aws for a cluster, memory for files]
    #[arg(long, value_enum)]
    offerings: Option<OfferedBy>,
    /// Name of the EKS cluster
    #[arg(long, env, default_value = "")]
    cluster_name: String,
    /// Region of the cluster [default: that of the zones in files, or what the AWS SDK finds in `AWS_REGION` or the
    /// profile]
    #[arg(long)]
    region: Option<String>,
    /// Use this endpoint for every AWS service, such as that of an emulator
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint_url: Option<String>,
    /// Take on-demand prices from this file first, such as negotiated ones: CSV with the columns `instance_type` and
    /// `price_per_hour`, as the controller's flag of this name
    #[arg(long)]
    price_file: Option<PathBuf>,
    /// Plan with this setting of the controller, named as the flag of `karpenter controller` (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Plan for this instant instead of now, such as 2026-01-31T15:00:00Z; an export brings its own
    #[arg(long, value_name = "TIMESTAMP", value_parser = instant)]
    at: Option<Timestamp>,
}

/// Source of instance types and prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OfferedBy {
    /// Ask AWS, with the credentials of the environment; reads only
    Aws,
    /// Every instance type of us-east-1 at list prices; needs no account
    Memory,
}

/// Everything a plan needs.
pub(crate) struct Gathered {
    pub(crate) world: World,
    pub(crate) offerings: Offerings,
    /// World and offerings without the changes to try; `None` without any.
    pub(super) before: Option<(World, Offerings)>,
    /// The reader of the offerings; an export needs none.
    pub(crate) reader: Option<OfferingsReader>,
    /// Settings that differ, as they were given.
    pub(crate) settings: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Sources {
    /// Files, or the cluster if there are none, with no other flag than these.
    pub(crate) fn of(filename: Vec<PathBuf>, offerings: Option<OfferedBy>, region: Option<String>) -> Self {
        Self {
            filename,
            offerings,
            region,
            cluster_name: String::new(),
            endpoint_url: std::env::var("AWS_ENDPOINT_URL").ok(),
            price_file: None,
            set: Vec::new(),
            at: None,
        }
    }

    /// Name of the cluster, empty when none was given.
    pub(crate) fn cluster_name(&self) -> &str {
        &self.cluster_name
    }

    /// Reads everything.
    pub(crate) async fn gather(&self, what_if: WhatIf) -> Result<Gathered> {
        let _reading = self.reading();
        if self.filename.is_empty() {
            let client = api_server::client().await?;
            let (plan_inputs, _) = settings::resolve(&self.set, &self.cluster_name)?;
            let (objects, notes) = cluster::objects(&client, &plan_inputs.settings.gates).await?;
            return self.gathered(objects, what_if, OfferedBy::Aws, notes).await;
        }
        let (objects, notes) = self.of_files()?;
        self.gathered(objects, what_if, OfferedBy::Memory, notes).await
    }

    /// Reads the files: their objects, with a note on those that have none.
    pub(crate) fn of_files(&self) -> Result<(Vec<Value>, Vec<String>)> {
        let (reading, skipped) = read_files(&self.filename)?;
        let objects: Vec<Value> = reading.manifests.iter().map(|one| one.object.clone()).collect();
        if !is_export(&objects) {
            storable(&reading)?;
        }
        let objects = reading.whole()?.into_iter().map(|one| one.object).collect();
        Ok((objects, Vec::from_iter(skipped)))
    }

    /// Reads everything, and gathers what rules about pools need of the world: what is wrong with other objects, and places that
    /// cannot be read, are to be found, and end nothing.
    pub(crate) async fn gather_to_lint(&self) -> Result<(Reading, Gathered)> {
        let _reading = self.reading();
        let (reading, notes, usual) = if self.filename.is_empty() {
            let client = api_server::client().await?;
            let (plan_inputs, _) = settings::resolve(&self.set, &self.cluster_name)?;
            let (objects, notes) = cluster::objects(&client, &plan_inputs.settings.gates).await?;
            let manifests = objects.into_iter().map(Manifest::from).collect();
            (Reading { manifests, faults: Vec::new() }, notes, OfferedBy::Aws)
        } else {
            let (inputs, unread) = karpenter_convert::read_some(&self.filename)?;
            let mut reading = match streams(&self.filename, &inputs) {
                // Every file that was named is reported on.
                Err(Unreadable::Empty { .. }) if !unread.is_empty() => Reading::default(),
                reading => reading?,
            };
            reading.faults.extend(unread.iter().map(fault));
            (reading, Vec::from_iter(inputs.note()), OfferedBy::Memory)
        };
        let objects: Vec<Value> = reading.manifests.iter().map(|one| one.object.clone()).collect();
        let needed = objects.into_iter().filter(offers).collect();
        let gathered = self.gathered(needed, WhatIf::default(), usual, notes).await?;
        Ok((reading, gathered))
    }

    fn reading(&self) -> Status {
        let from = if self.filename.is_empty() { "cluster" } else { "files" };
        Status::begin(format!("reading {from}, instance types and prices"))
    }

    /// Gathers a plan's input from objects that were read already, whose order stays.
    pub(crate) async fn gathered(
        &self,
        mut objects: Vec<Value>,
        mut what_if: WhatIf,
        usual: OfferedBy,
        mut notes: Vec<String>,
    ) -> Result<Gathered> {
        let mut given = settings_of(&objects);
        given.extend(self.set.iter().cloned());
        let (plan_inputs, mut of_provider) = settings::resolve(&given, &self.cluster_name)?;
        let at = self.at.unwrap_or_else(|| WallClock.now());
        if is_export(&objects) {
            ensure!(
                self.price_file.is_none(),
                "cannot use --price-file with an export, which brings its prices; change them with --price, or export again \
                 with --price-file"
            );
            return exported(&objects, at, &plan_inputs, what_if, given, notes);
        }
        if let Some(file) = &self.price_file {
            of_provider.price_file = Some(file.clone());
            notes.push(format!("on-demand prices of `{}` count before all others", file.display()));
        }
        let from = self.offerings.unwrap_or(usual);
        let is_live = usual == OfferedBy::Aws;
        let clients = match from {
            OfferedBy::Memory => {
                let (clients, source) = in_memory(self.region.as_deref(), region_of(&objects))?;
                notes.push(source);
                clients
            }
            OfferedBy::Aws => self.aws(region_of(&objects).filter(|_| !is_live)).await?,
        };
        // A class of a cluster that has no status is not ready there; of manifests that says nothing.
        notes.extend(if is_live && from == OfferedBy::Aws {
            stand_in(&objects, &mut what_if)
        } else {
            take_for_ready(&mut objects, &mut what_if, &clients.region)
        });
        let (before, world) = worlds(&objects, at, &plan_inputs, what_if)?;
        let mut reader = OfferingsReader::new(clients, of_provider, Arc::new(WallClock)).await?;
        let mut offerings = reader.offerings(&world.pools(), &world.node_classes()).await;
        offerings.partial = from == OfferedBy::Memory;
        notes.append(&mut reader.notes);
        world.check_what_if(&offerings)?;
        let before = match before {
            Some(before) => {
                let offered = reader.offerings(&before.pools(), &before.node_classes()).await;
                Some((before, offered))
            }
            None => None,
        };
        Ok(Gathered { world, offerings, before, reader: Some(reader), settings: given, notes })
    }

    /// The account of the environment, in the region that was given or else in `named`.
    async fn aws(&self, named: Option<String>) -> Result<Clients> {
        let config = sdk::Config {
            region: self.region.clone().or(named),
            endpoint_url: self.endpoint_url.clone(),
            ..sdk::Config::default()
        };
        sdk::connect(config).await.context(
            "cannot set up the AWS clients; with --offerings memory no account is asked, at the price of estimates",
        )
    }
}

/// Clients of the account in memory in the region that was given, or else in `named`, and where its figures come from.
#[cfg(feature = "demo")]
pub(crate) fn in_memory(given: Option<&str>, named: Option<String>) -> Result<(Clients, String)> {
    let regions = karpenter_compose::offered::REGIONS;
    if let Some(region) = given {
        ensure!(
            regions.contains(&region),
            "cannot use region `{region}`: there is none of that name; there are {}; --offerings aws asks AWS about one that \
             is newer",
            regions.join(", ")
        );
    }
    let region = given.map(str::to_owned).or(named).unwrap_or_else(|| REGION.to_owned());
    Ok(karpenter_compose::offered::in_memory(&region, Arc::new(WallClock)))
}

#[cfg(not(feature = "demo"))]
pub(crate) fn in_memory(_: Option<&str>, _: Option<String>) -> Result<(Clients, String)> {
    anyhow::bail!(
        "cannot do without AWS: this build has no account in memory; give --offerings aws or an export"
    )
}

/// Reads an instant with its offset from UTC.
fn instant(written: &str) -> Result<Timestamp, String> {
    written.parse().map_err(|_| {
        "it is not an instant; write it as 2026-01-31T15:00:00Z, with date, time and offset".to_owned()
    })
}

/// Returns whether an object decides about what pools can launch.
fn offers(object: &Value) -> bool {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    text("apiVersion").starts_with("export.karpenter.sh/")
        || ["NodePool", "EC2NodeClass", "NodeOverlay"].contains(&text("kind"))
}

/// Everything that an export has: it brings what pools can launch, so neither AWS nor the account in memory is asked.
fn exported(
    objects: &[Value],
    at: Timestamp,
    plan_inputs: &PlanInputs,
    mut what_if: WhatIf,
    given: Vec<String>,
    mut notes: Vec<String>,
) -> Result<Gathered> {
    notes.extend(stand_in(objects, &mut what_if));
    let (before, world) = worlds(objects, at, plan_inputs, what_if)?;
    let offered = |world: &World| {
        world.exported().cloned().context("cannot find instance types in the export; export again")
    };
    let offerings = offered(&world)?;
    world.check_what_if(&offerings)?;
    let before = before.map(|before| offered(&before).map(|offerings| (before, offerings))).transpose()?;
    Ok(Gathered { world, offerings, before, reader: None, settings: given, notes })
}

/// The cluster without what is to be different, if anything is, and with it.
fn worlds(
    objects: &[Value],
    at: Timestamp,
    plan_inputs: &PlanInputs,
    what_if: WhatIf,
) -> Result<(Option<World>, World), WorldError> {
    let world = |what_if| World::new(objects.iter().cloned(), at, plan_inputs.clone(), what_if);
    let before = if what_if.is_empty() { None } else { Some(world(WhatIf::default())?) };
    Ok((before, world(what_if)?))
}

/// Takes node classes of files, which no controller has resolved, for ready in the first zones of `region` and in those that
/// the files name, where their author has a subnet.
fn take_for_ready(objects: &mut [Value], what_if: &mut WhatIf, region: &str) -> Option<String> {
    let first = ZONES.iter().map(|zone| format!("{region}{zone}"));
    let named = zones_named(objects, region).into_iter().chain(zones_named(&what_if.manifests, region));
    // No region has more zones; another letter is a slip.
    let named = named.filter(|zone| matches!(&zone.as_bytes()[region.len()..], [b'a'..=b'f']));
    let zones: BTreeSet<String> = first.chain(named.map(str::to_owned)).collect();
    let zones = Vec::from_iter(zones);
    let mut resolved = resolve(objects, &zones, |class| faults(class, None));
    resolved.extend(resolve(&mut what_if.manifests, &zones, |class| faults(class, None)));
    // One that is in several files is named once.
    resolved.dedup();
    let (classes, zones) = (resolved.join("`, `"), zones.join(", "));
    (!resolved.is_empty()).then(|| {
        format!("node class `{classes}` has no status and is taken for ready, with subnets in {zones}")
    })
}

/// Takes node classes of manifests, which no controller has resolved, for ready in the zones of the cluster's nodes.
fn stand_in(objects: &[Value], what_if: &mut WhatIf) -> Option<String> {
    let known = |class: &Value| {
        let same = |object: &&Value| {
            object["kind"] == class["kind"] && object["metadata"]["name"] == class["metadata"]["name"]
        };
        objects.iter().any(|object| same(&object))
    };
    let zones = zones_of_nodes(objects);
    let (mut fresh, kept): (Vec<Value>, Vec<Value>) = std::mem::take(&mut what_if.manifests)
        .into_iter()
        .partition(|one| one["kind"] == "EC2NodeClass" && !known(one));
    let mut resolved =
        if zones.is_empty() { Vec::new() } else { resolve(&mut fresh, &zones, |class| faults(class, None)) };
    what_if.manifests = fresh.into_iter().chain(kept).collect();
    // One that is in several files is named once.
    resolved.dedup();
    let (classes, zones) = (resolved.join("`, `"), zones.join(", "));
    (!resolved.is_empty()).then(|| {
        format!("node class `{classes}` has no status and is taken for ready, with subnets in {zones}, where there are nodes")
    })
}

/// Reads files, folders and standard input, in the order they are given, in folders by name; with a note on files of folders
/// that have no object.
pub(super) fn read_files(paths: &[PathBuf]) -> Result<(Reading, Option<String>)> {
    let inputs = karpenter_convert::read(paths)?;
    Ok((streams(paths, &inputs)?, inputs.note()))
}

fn streams(paths: &[PathBuf], inputs: &Inputs) -> Result<Reading, Unreadable> {
    read_streams(paths, inputs.texts.iter().map(|input| (&*input.name, &*input.text)))
}

/// A file without a text, as a place that cannot be read.
fn fault(error: &InputError) -> Fault {
    Fault {
        origin: Origin { file: error.path().to_owned(), line: error.line() },
        field: String::new(),
        problem: error.problem(),
    }
}
