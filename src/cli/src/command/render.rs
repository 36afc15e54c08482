//! `karpenter render`: the instance types of NodePools, and the launch templates with the user data that their machines get.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use karpenter_compose::offered::OfferingsReader;
use karpenter_model::names::label;
use karpenter_model::{InstanceType, Launch, PoolName, Requirement, Snapshot};
use karpenter_plan::{Offerings, WhatIf, named, near, offered, offered_text};
use karpenter_telemetry::stdout::print;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::plan::{Gathered, NO_NAME, Sources};
use crate::output::{self, Output, note};

/// Lines of a table without `--all`.
const ROWS: usize = 20;

/// Arguments of `karpenter render`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 printed, 1 failed, or a pool has no launch template.\n\n\
                        User data is printed as the nodes get it, with everything that the EC2NodeClass puts into it, secrets too.\n\n\
                        From files: karpenter render -f pool.yaml -f class.yaml\n\
                        For one type: karpenter render --nodepool default --instance-type m7g.large\n\
                        Two releases of a class, compared: diff <(karpenter render -f a.yaml) <(karpenter render -f b.yaml)")]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// Render this pool (repeatable) [default: all]
    #[arg(long, value_name = "NAME")]
    nodepool: Vec<String>,
    /// Render for these instance types alone (repeatable)
    #[arg(long, value_name = "TYPE")]
    instance_type: Vec<String>,
    /// Render for this capacity type alone: on-demand, spot or reserved
    #[arg(long, value_name = "TYPE", value_parser = ["on-demand", "spot", "reserved"])]
    capacity_type: Option<String>,
    /// Print all instance types, not the 20 cheapest
    #[arg(long)]
    all: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// A pool with everything its machines are launched with.
struct Rendered {
    launch: Launch,
    types: Vec<Arc<InstanceType>>,
    templates: Result<Vec<Template>>,
}

/// A launch template.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Template {
    capacity_type: &'static str,
    /// Instance types that are launched with it, as far as they are asked for.
    #[serde(rename = "instanceTypes")]
    types: Vec<String>,
    /// Fields of the launch template that are set, by their names in EC2.
    data: Value,
    /// User data as the node gets it.
    user_data: String,
}

/// Pools for tools.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RenderedPools {
    pools: Vec<RenderedPool>,
}

/// A pool for tools.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RenderedPool {
    pool: String,
    /// Name of its EC2NodeClass.
    node_class: String,
    /// Instance types with what pods may use and their offerings, in the form of an export.
    instance_types: Vec<Value>,
    launch_templates: Vec<Template>,
    /// Reason why there is no launch template; `null` where there are some.
    problem: Option<String>,
}

/// Gathers and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (text, notes, whole) = runtime.block_on(rendered(arguments))?;
    print(&text)?;
    note(&notes)?;
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The text, notes about how it was made, and whether every pool has its launch templates.
async fn rendered(arguments: &Arguments) -> Result<(String, Vec<String>, bool)> {
    let Gathered { world, offerings, reader, mut notes, .. } =
        arguments.sources.gather(WhatIf::default()).await?;
    let mut reader = reader.context(
        "cannot render an export: it has no user data and no selectors of its node classes; give manifests or a cluster",
    )?;
    let (snapshot, found) = world.snapshot(&offerings);
    notes.extend(found);
    for name in &arguments.nodepool {
        if snapshot.pools.iter().all(|pool| pool.name != **name) {
            bail!("cannot render NodePool `{name}`: there is none of that name");
        }
    }
    known(&arguments.instance_type, &snapshot)?;
    let mut pools = Vec::new();
    for launch in launches(arguments, &snapshot) {
        pools.push(render(launch, &snapshot, &mut reader).await);
    }
    notes.append(&mut reader.notes);
    if arguments.sources.cluster_name().is_empty() {
        notes.push(format!("the cluster is called `{NO_NAME}`; give its name with --cluster-name"));
    }
    let whole = pools.iter().all(|pool| pool.templates.is_ok());
    let text = match arguments.output {
        Output::Text => pools.iter().map(|pool| text(pool, &snapshot, arguments.all)).collect(),
        Output::Json => {
            output::json(&RenderedPools { pools: pools.into_iter().map(RenderedPool::from).collect() })?
        }
    };
    Ok((text, notes, whole))
}

/// Refuses an instance type that there is not.
fn known(names: &[String], snapshot: &Snapshot) -> Result<()> {
    let all = || snapshot.instance_types.values().flat_map(|list| list.iter()).map(|one| one.name.as_str());
    let Some(name) = names.iter().find(|name| all().all(|known| known != **name)) else { return Ok(()) };
    let meant = near(name, all()).map_or_else(String::new, |meant| format!("; `{meant}` is probably meant"));
    bail!("cannot render for instance type `{name}`: there is none of that name{meant}")
}

/// A machine of each pool that is asked for, as its template has it, and as the flags narrow it.
fn launches(arguments: &Arguments, snapshot: &Snapshot) -> Vec<Launch> {
    let wanted = |name: &PoolName| {
        arguments.nodepool.is_empty() || arguments.nodepool.iter().any(|wanted| *name == **wanted)
    };
    let pools = snapshot.pools.iter().filter(|pool| wanted(&pool.name));
    let narrowed = pools.map(|pool| {
        let mut launch = Launch::from_template(pool, &snapshot.settings, &snapshot.registry);
        let mut narrow = |key: &str, values: &[String]| {
            if !values.is_empty() {
                let values = values.iter().map(|value| value.as_str().into());
                launch.requirements.add(Requirement::one_of(key.into(), values));
            }
        };
        narrow(label::INSTANCE_TYPE, &arguments.instance_type);
        narrow(label::CAPACITY_TYPE, arguments.capacity_type.as_slice());
        launch
    });
    narrowed.collect()
}

async fn render(launch: Launch, snapshot: &Snapshot, reader: &mut OfferingsReader) -> Rendered {
    let none = Arc::default();
    let list = snapshot.instance_types.get(&launch.pool).unwrap_or(&none);
    let types = offered(list, &launch.requirements, &snapshot.registry);
    let drafts = reader.drafts(launch.clone(), list).await;
    let templates = drafts.map(|drafts| {
        let capacity_type = drafts.capacity_type().as_str();
        let written = drafts.drafts.into_iter().map(|draft| Template {
            capacity_type,
            types: draft.candidates.iter().map(|one| one.instance_type.name.to_string()).collect(),
            user_data: draft.spec.data.user_data.as_ref().map_or("", |text| text.expose()).to_owned(),
            data: readable(json!(draft.spec.data)),
        });
        written.collect()
    });
    Rendered { launch, types, templates }
}

/// Returns the value with keys in camel case, and without what is not set. Keys of tags are the user's.
fn readable(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.into_iter().filter(|(_, value)| !value.is_null() && *value != json!([]));
            let written = set.map(|(key, value)| match value {
                tags @ Value::Object(_) if key == "tags" => (key, tags),
                value => (camel_case(&key), readable(value)),
            });
            Value::Object(written.collect())
        }
        Value::Array(items) => items.into_iter().map(readable).collect(),
        other => other,
    }
}

/// `block_devices` as `blockDevices`.
fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (head, tail) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        text + &head.to_uppercase() + tail
    })
}

impl From<Rendered> for RenderedPool {
    fn from(Rendered { launch, types, templates }: Rendered) -> Self {
        let (launch_templates, problem) = match templates {
            Ok(templates) => (templates, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        let of_pool = [(launch.pool.clone(), types.into())].into();
        let types = Offerings { types: of_pool, ..Offerings::default() }.written();
        Self {
            pool: launch.pool.to_string(),
            node_class: launch.node_class.name.clone(),
            instance_types: types.into_iter().map(|mut one| one["spec"].take()).collect(),
            launch_templates,
            problem,
        }
    }
}

fn text(rendered: &Rendered, snapshot: &Snapshot, all: bool) -> String {
    let Rendered { launch, types, templates } = rendered;
    let mut text = format!("# nodepool/{} with EC2NodeClass {}\n\n", launch.pool, launch.node_class.name);
    let shown = if all { types.len() } else { types.len().min(ROWS) };
    text.push_str(&offered_text(&types[..shown], &launch.requirements, &snapshot.registry));
    if shown < types.len() {
        text.push_str(&format!("({} more; --all prints them)\n", types.len() - shown));
    }
    match templates {
        Err(error) => text.push_str(&format!("\nNo launch template: {error:#}\n")),
        Ok(templates) => {
            for template in templates {
                let Template { capacity_type, types, data, user_data } = template;
                text.push_str(&format!(
                    "\n## Launch template of {capacity_type} instances: {}\n",
                    named(types)
                ));
                text.push_str(&serde_saphyr::to_string(data).unwrap_or_default());
                text.push_str(&format!(
                    "\n### User data, {} bytes\n{}\n",
                    user_data.len(),
                    user_data.trim_end()
                ));
            }
        }
    }
    text
}

#[cfg(test)]
#[cfg(feature = "demo")]
mod tests;
