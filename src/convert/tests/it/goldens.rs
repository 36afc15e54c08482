//! Every file in `cases/` is converted; the manifests and the report are in the files beside it.
//!
//! `NAME.yaml` is the input, `NAME.out.yaml` the manifests, `NAME.report.txt` exit code and report. A first line
//! `# options: ...` gives the flags. `UPDATE_GOLDEN=1` rewrites the last two; the diff is the review.

use std::fs;
use std::path::{Path, PathBuf};

use karpenter_convert::{Conversion, Input, Options, convert, convert_values};

/// A case with its outcome.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) options: Options,
    pub(crate) outcome: Conversion,
}

/// All cases by name.
pub(crate) fn cases() -> Vec<Case> {
    let mut inputs: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            !name.contains(".out.") && !name.contains(".report.")
        })
        .collect();
    inputs.sort();
    inputs.iter().map(|path| read(path)).collect()
}

/// Returns whether a case is a file of chart values.
pub(crate) fn is_of_chart(name: &str) -> bool {
    name.starts_with("values-")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cases")
}

fn read(path: &Path) -> Case {
    let text = fs::read_to_string(path).unwrap();
    let options = options(text.lines().next().unwrap_or_default());
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let input = Input { name: file.clone(), text: text.clone() };
    let outcome = if is_of_chart(&file) { convert_values(&input) } else { convert(&[input], &options) };
    let name = file.split('.').next().unwrap().to_owned();
    Case { name, text, options, outcome }
}

fn options(line: &str) -> Options {
    let mut options = Options::default();
    let flags = line.strip_prefix("# options:").unwrap_or_default();
    let mut words = flags.split_whitespace();
    while let Some(flag) = words.next() {
        match flag {
            "--fix" => options.fix = true,
            "--cluster-name" => options.cluster_name = words.next().map(str::to_owned),
            "--role" => options.role = words.next().map(str::to_owned),
            "--instance-profile" => options.instance_profile = words.next().map(str::to_owned),
            other => panic!("no flag `{other}`"),
        }
    }
    options
}

#[test]
fn every_case_is_converted_as_its_golden_says() {
    let mut wrong = Vec::new();
    for case in cases() {
        let report = format!("exit {}\n{}", case.outcome.report.exit_code(), case.outcome.report.text());
        for (end, found) in [("out.yaml", &case.outcome.manifests), ("report.txt", &report)] {
            let golden = folder().join(format!("{}.{end}", case.name));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&golden, found).unwrap();
            }
            let wanted = fs::read_to_string(&golden).unwrap_or_default();
            if wanted != *found {
                wrong.push(format!("{}\n--- wanted\n{wanted}\n--- found\n{found}", golden.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "UPDATE_GOLDEN=1 rewrites\n{}", wrong.join("\n"));
}

#[test]
fn there_are_enough_cases_and_each_golden_has_one() {
    let cases = cases();
    assert!(cases.len() >= 40, "{}", cases.len());
    assert_eq!(fs::read_dir(folder()).unwrap().count(), cases.len() * 3);
}
