//! `karpenter schema`: the JSON schemas of reports. They are made from the types that are written, and published in
//! `docs/schemas`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use karpenter_controllers::explain::Answer;
use karpenter_plan::{Forecast, LintReport};
use karpenter_telemetry::stdout::print;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::about::About;
use super::render::RenderedPools;
use crate::output::Versioned;

/// Arguments of `karpenter schema`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 printed, 1 failed.\n\n\
                        For the output of `plan --output json`: karpenter schema plan > plan.schema.json")]
pub(crate) struct Arguments {
    /// Command whose JSON the schema describes
    report: Report,
}

/// A command that prints JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Report {
    BootstrapCheck,
    BootstrapPlan,
    Convert,
    Doctor,
    /// A line of the output: an answer
    Explain,
    Lint,
    Plan,
    Render,
    Version,
    View,
}

/// Prints the schema.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    print(&arguments.report.schema()?)?;
    Ok(ExitCode::SUCCESS)
}

impl Report {
    fn schema(self) -> Result<String> {
        let mut schema = match self {
            Self::BootstrapCheck => of::<karpenter_bootstrap::check::Report>(),
            Self::BootstrapPlan => of::<karpenter_bootstrap::show::Shown<'_>>(),
            Self::Convert => of::<karpenter_convert::Counted<'_>>(),
            Self::Doctor => of::<karpenter_doctor::diagnose::Report>(),
            Self::Explain => of::<Answer>(),
            Self::Lint => of::<LintReport<'_>>(),
            Self::Plan => of::<Forecast>(),
            Self::Render => of::<RenderedPools>(),
            Self::Version => of::<About>(),
            Self::View => of::<karpenter_view::Document<'_>>(),
        };
        schema.insert("title".to_owned(), format!("karpenter {}", self.name().replace('-', " ")).into());
        Ok(serde_json::to_string_pretty(&schema)? + "\n")
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The schema of a report as it is written.
fn of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Versioned<T>>()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn published_schemas_are_those_of_the_reports() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
        for report in Report::value_variants() {
            let (path, schema) = (folder.join(report.name() + ".schema.json"), report.schema().unwrap());
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, &schema).unwrap();
            }
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(published == schema, "UPDATE_GOLDEN=1 rewrites {}", path.display());
        }
    }
}
