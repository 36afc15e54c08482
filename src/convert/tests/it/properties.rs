//! Properties that hold for every input.

use karpenter_convert::{Input, convert, convert_values};

use crate::goldens::{cases, is_of_chart};

#[test]
fn converting_the_output_again_changes_nothing() {
    for case in cases() {
        let input = Input { name: "again".to_owned(), text: case.outcome.manifests.clone() };
        let is_of_chart = is_of_chart(&case.name);
        let again = if is_of_chart { convert_values(&input) } else { convert(&[input], &case.options) };
        assert_eq!(again.manifests, case.outcome.manifests, "{}", case.name);
        // Objects that are passed on as they are written stay as wrong as they were.
        let passed_on = ["v1-", "workload-", "values-twice"];
        let is_ours = !passed_on.iter().any(|start| case.name.starts_with(start));
        assert!(!is_ours || again.report.exit_code() == 0, "{}: {}", case.name, again.report.text());
    }
}

#[test]
fn objects_of_v1_are_passed_on_byte_for_byte() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/");
    let mut inputs = karpenter_convert::read(
        &["nodepool.yaml", "nodeoverlays.yaml"].map(|name| format!("{examples}{name}").into()),
    )
    .unwrap()
    .texts;
    assert!(inputs.len() >= 2);
    inputs
        .push(Input { name: "no end of line".to_owned(), text: "---\n# only\n---\nkind: A # b".to_owned() });
    for input in inputs {
        let text = input.text.clone();
        let outcome = convert(&[input], &Default::default());
        assert_eq!(outcome.manifests, text);
        assert_eq!(outcome.report.exit_code(), 0, "{}", outcome.report.text());
    }
}

#[test]
fn every_entry_names_its_object_and_fields_their_lines() {
    for case in cases() {
        let lines = case.text.lines().count();
        for object in &case.outcome.report.objects {
            for entry in &object.entries {
                assert!(!entry.text.is_empty());
                assert!(
                    entry.line.is_none_or(|line| (1..=lines).contains(&line)),
                    "{}: {entry:?}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn several_files_are_one_stream() {
    let file = |name: &str, text: &str| Input { name: name.to_owned(), text: text.to_owned() };
    let files = [file("a", "kind: A"), file("b", "---\nkind: B\n"), file("c", "kind: C\n")];
    let outcome = convert(&files, &Default::default());
    assert_eq!(outcome.manifests, "kind: A\n---\nkind: B\n---\nkind: C\n");
}

#[test]
fn a_folder_gives_its_manifests_by_name() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let inputs = karpenter_convert::read(&[folder.into()]).unwrap().texts;
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    assert!(names.is_sorted() && names.len() > 100);
    let ends = names.iter().map(|name| name.rsplit('.').next().unwrap_or_default());
    assert!(ends.clone().all(|end| end == "yaml" || end == "json"), "{ends:?}");
    let error = karpenter_convert::read(&["nowhere".into()]).unwrap_err().to_string();
    assert!(error.starts_with("cannot read `nowhere`; give a file"), "{error}");
}
