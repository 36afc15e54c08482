//! Files that are read, and what is said about those that are not.

use super::*;

const GOOD: &str = "\
name: a scenario
manifests: []
duration: 10m
timeline:
  - at: 1m
    scale: {deployment: web, replicas: 3}
faults:
  - {fault: awsErrors, until: 5m}
expect:
  - nodes: {atMost: 3}
";

fn wrong(text: &str) -> Wrong {
    parse("a.yaml", text, Path::new("")).unwrap_err()
}

#[test]
fn a_good_file_is_read() {
    let scenario = parse("a.yaml", GOOD, Path::new("")).unwrap();
    assert_eq!((scenario.file.name.as_str(), scenario.file.seed), ("a scenario", 1));
    assert_eq!(scenario.file.start.to_string(), "2026-01-01T12:00:00Z");
    assert_eq!(scenario.events.len(), 1);
    assert_eq!(scenario.expectations[0].line, 10);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn what_is_wrong_is_said_with_line_and_field() {
    let cases = [
        (
            "duration: 10m",
            "duraton: 10m",
            3,
            "duraton",
            "there is no field `duraton`; `duration` is probably meant",
        ),
        (
            "duration: 10m",
            "duration: ten",
            3,
            "duration",
            "`ten` is no duration; write it as 90s, 5m or 1h30m",
        ),
        (
            "replicas: 3}",
            "replicas: many}",
            6,
            "replicas",
            "`many` is not a whole number from 0 to 4294967295",
        ),
        (
            "replicas: 3}",
            "replicas: 1000000000}",
            5,
            "replicas",
            "is 1000000000, and a cluster has at most 150000 pods; write fewer",
        ),
        (
            "scale: {deployment: web, replicas: 3}",
            "wave: {deployment: web, replicas: [1, 150001], every: 1m}",
            5,
            "replicas",
            "is 150001, and a cluster has at most 150000 pods; write fewer",
        ),
        (
            "manifests: []",
            "manifests: [{kind: Deployment, metadata: {name: web}, spec: {replicas: 1000000000}}]",
            2,
            "replicas",
            "of Deployment `web` is 1000000000, and a cluster has at most 150000 pods; write fewer",
        ),
        (
            "replicas: 3}",
            "replicas: 3}\n    repeat: {every: 1ns, times: 4000000000}",
            5,
            "repeat",
            "needs `every` of at least 1s and `times` of more than 0",
        ),
        ("timeline:", "timeline: 3\nfaults:\n#", 4, "timeline", "must be a list"),
        ("    scale: {", "   scale: {", 6, "scale", ""),
        ("name: a scenario", "name: [a]", 1, "name", "must be one value, and is a list or has fields"),
        ("name: a scenario", "name: a\nname: b", 2, "name", "is there twice; leave one of them out"),
        ("name: a scenario", "name: {{ name }}", 1, "name", ""),
        (
            "replicas: 3}",
            "replica: 3}",
            6,
            "replica",
            "there is no field `replica`; `replicas` is probably meant",
        ),
        ("awsErrors", "awsError", 8, "fault", "there is no value `awsError`; `awsErrors` is probably meant"),
        ("until: 5m", "until: 0s", 8, "until", "ends at 0s, and begins at 0s only"),
        ("atMost: 3", "atmost: 3", 10, "atmost", "there is no field `atmost`; `atMost` is probably meant"),
        ("{atMost: 3}", "{pool: a}", 10, "nodes", "has no bound; add `exactly`, `atMost` or `atLeast`"),
        ("at: 1m", "at: 11m", 5, "at", "happens at 11m, when the scenario is over"),
        ("manifests: []", "manifests: [none.yaml]", 2, "manifests[0]", ""),
        (
            "manifests: []",
            "manifests: [{kind: Pod}]",
            2,
            "manifests[0]",
            "the object needs `kind` and `metadata.name`",
        ),
        (
            "manifests: []",
            "manifests: [{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeselector: {a: b}, containers: [{name: a, image: a}]}}]",
            2,
            "spec.nodeselector",
            "of Pod `a`: unknown field",
        ),
        (
            "manifests: []",
            "manifests: [{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: Sometimes, containers: [{name: a, image: a}]}}]",
            2,
            "spec.restartPolicy",
            "of Pod `a`: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        ("    scale: {deployment: web, replicas: 3}\n", "", 5, "timeline", "says when and not what"),
        ("name: a scenario\n", "", 1, "name", "is missing, and a scenario needs it here"),
        (
            "  - nodes: {atMost: 3}",
            "  - pendingTime: {max: 1m}\n    at: 5m",
            10,
            "at",
            "means nothing for `pendingTime`, which is about a stretch of time",
        ),
        ("  - nodes: {atMost: 3}", "  []", 9, "expect", ""),
    ];
    for (good, bad, line, field, problem) in cases {
        let found = wrong(&GOOD.replacen(good, bad, 1));
        assert_eq!((found.0, found.1.as_str()), (line, field), "{bad}: {found:?}");
        assert!(problem.is_empty() || found.2 == problem, "{bad}: {found:?}");
    }
}

#[test]
fn the_whole_message_names_file_line_and_field() {
    let (line, field, problem) = wrong(&GOOD.replace("expect:", "expectations:"));
    let found = Unread::Malformed { path: "a.yaml".to_owned(), line, field, problem }.to_string();
    assert_eq!(
        found.split("; there are").next().unwrap(),
        "cannot read scenario `a.yaml`, line 9, field `expectations`: there is no field `expectations`"
    );
}

#[test]
fn a_manifest_that_cannot_be_read_is_said_with_its_own_file_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let deeper = folder.path().join("deeper");
    std::fs::create_dir(&deeper).unwrap();
    std::fs::write(deeper.join("a.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nkind: [\n")
        .unwrap();
    let text = GOOD.replace("manifests: []", "manifests: [deeper]");
    let (line, field, problem) = parse("a.yaml", &text, folder.path()).unwrap_err();
    let file = deeper.join("a.yaml");
    let expected = format!(
        "cannot read `{}`, line 5, field `kind`: is no YAML here: unclosed bracket '['; correct it or leave the file out",
        file.display()
    );
    assert_eq!((line, field.as_str(), problem), (2, "manifests[0]", expected));
}

#[test]
fn a_folder_is_read_with_its_folders_and_one_without_objects_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let deeper = folder.path().join("deploy/deeper");
    std::fs::create_dir_all(&deeper).unwrap();
    std::fs::write(
        deeper.join("a.json"),
        r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}"#,
    )
    .unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let read = |manifests: &str| {
        parse("a.yaml", &GOOD.replace("manifests: []", &format!("manifests: [{manifests}]")), folder.path())
    };
    assert_eq!(read("deploy").unwrap().manifests.len(), 1);
    let (_, field, problem) = read("empty").unwrap_err();
    assert_eq!(field, "manifests[0]");
    assert!(problem.ends_with("/empty`; name files or folders with manifests"), "{problem}");
    assert!(parse("a.yaml", &GOOD.replace("manifests: []", "manifests: ['-']"), Path::new("")).is_err());
}

#[test]
fn waves_and_repetitions_are_spelled_out_in_the_order_of_time() {
    let text = GOOD.replace("duration: 10m", "duration: 50h").replace(
        "    scale: {deployment: web, replicas: 3}\n",
        "    wave: {deployment: web, replicas: [1, 2, 3], every: 1h}\n    repeat: {every: 24h, times: 2}\n",
    );
    let scenario = parse("a.yaml", &text, Path::new("")).unwrap();
    let times: Vec<u64> = scenario.events.iter().map(|event| event.at.as_secs() / 60).collect();
    assert_eq!(times, [1, 61, 121, 1441, 1501, 1561]);
}

#[test]
fn a_file_that_is_not_there_has_no_line() {
    let error = read(Path::new("missing/a.yaml")).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read scenario `missing/a.yaml`: "), "{error}");
    assert!(error.ends_with("; name a file of YAML, or a folder with .yaml files in it"), "{error}");
}
