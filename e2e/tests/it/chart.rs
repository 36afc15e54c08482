//! The charts, rendered by Helm: as the goldens say, without a complaint of the linter, and accepted by a real
//! kube-apiserver.
//!
//! `charts/tests/<case>.values.yaml` renders to `<case>.golden.yaml` (`UPDATE_GOLDEN=1` rewrites it; read the
//! diff); `<case>.refused.yaml` must not render, and its first line says what Helm must complain about. The first
//! line of a values file may add arguments. Cases of `karpenter-nodepools` are in `charts/tests/nodepools`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Namespace;
use karpenter_e2e::cluster::local::{LocalCluster, Options};
use karpenter_e2e::{manifests, prepare};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

/// Kinds whose definitions belong to others and are not installed here.
const FOREIGN: &[&str] = &["ServiceMonitor", "PrometheusRule"];

/// The values that must be set.
const LEAST: &str = "settings.clusterName=demo,controller.image.repository=registry.example.com/karpenter";

const NODEPOOLS: &str = "karpenter-nodepools";

/// The charts that have cases, and in which folder.
const WITH_CASES: [(&str, &str); 2] = [("karpenter", "tests"), (NODEPOOLS, "tests/nodepools")];

fn charts() -> PathBuf {
    prepare::cache::repository().join("charts")
}

/// Files in a folder of the charts that end like this, with their case's name.
fn cases(folder: &str, ending: &str) -> Vec<(String, PathBuf)> {
    let mut found: Vec<_> = fs::read_dir(charts().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
            Some((name, path))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no case in `{folder}` ends with `{ending}`");
    found
}

/// Returns the text after `# key: ` in the first line of a file.
fn heading(path: &Path, key: &str) -> String {
    let text = fs::read_to_string(path).unwrap();
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix(&format!("# {key}: ")).map(str::to_owned).unwrap_or_default()
}

fn template(chart: &str, values: Option<&Path>, arguments: &[&str]) -> Output {
    let mut helm = Command::new(prepare::helm().expect("helm is built from its module"));
    helm.args(["template", "karpenter"]).arg(charts().join(chart)).args(["--kube-version", "1.35.0"]);
    helm.args(arguments);
    if let Some(values) = values {
        helm.arg("--values").arg(values);
    }
    helm.output().expect("helm runs")
}

/// The manifests, or a panic with what Helm said.
pub(crate) fn render(chart: &str, values: Option<&Path>, arguments: &[&str]) -> String {
    let output = template(chart, values, arguments);
    assert!(output.status.success(), "{chart}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The manifests of a case.
fn render_case(chart: &str, values: &Path) -> String {
    let arguments = heading(values, "arguments");
    render(chart, Some(values), &arguments.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn charts_render_as_the_goldens_say() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut stale = Vec::new();
    for (chart, folder) in WITH_CASES {
        for (name, values) in cases(folder, ".values.yaml") {
            let text = render_case(chart, &values);
            let golden = values.with_file_name(format!("{name}.golden.yaml"));
            if update {
                fs::write(&golden, &text).unwrap();
            } else if fs::read_to_string(&golden).ok().as_ref() != Some(&text) {
                stale.push(golden);
            }
        }
    }
    assert!(stale.is_empty(), "{stale:?} render differently; look with UPDATE_GOLDEN=1");
}

#[test]
fn wrong_values_are_refused_with_their_name() {
    for (chart, folder) in WITH_CASES {
        for (name, values) in cases(folder, ".refused.yaml") {
            let output = template(chart, Some(&values), &[]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "`{name}` renders");
            let expected = heading(&values, "refused");
            assert!(!expected.is_empty() && said.contains(&expected), "`{name}`: {said}");
        }
    }
}

/// Every value of the reference's chart (spec aws-operations 3.2) that is not among those of `everything.values.yaml`.
const ELSEWHERE: &[(&str, &str)] = &[("nameOverride", "\"other\"")];

/// The case with every value of the reference, and its values.
fn everything() -> (PathBuf, Value) {
    let case = charts().join("tests/everything.values.yaml");
    let text = fs::read_to_string(&case).unwrap();
    (case, manifests::documents(&text).unwrap().remove(0))
}

/// The leaves of a tree of values, as `--set-json` names them. What is free in form is one value.
fn leaves(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    const FREE: [&str; 14] = [
        "additionalLabels",
        "additionalAnnotations",
        "annotations",
        "relabelings",
        "endpointConfig",
        "strategy",
        "podLabels",
        "podAnnotations",
        "podSecurityContext",
        "dnsConfig",
        "nodeSelector",
        "affinity",
        "securityContext",
        "resources",
    ];
    let name = path.rsplit('.').next().unwrap_or_default();
    match value {
        Value::Object(fields) if !FREE.contains(&name) => {
            for (field, inner) in fields {
                let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                leaves(&path, inner, found);
            }
        }
        _ => found.push((path.to_owned(), value.clone())),
    }
}

#[test]
fn every_value_of_the_reference_reaches_the_manifests_by_itself() {
    let mut values = Vec::new();
    leaves("", &everything().1, &mut values);
    values.extend(
        ELSEWHERE.iter().map(|(path, value)| ((*path).to_owned(), serde_json::from_str(value).unwrap())),
    );
    assert!(values.len() > 70, "{}", values.len());
    // Objects that some values name have to be there.
    let base = [
        "--set",
        LEAST,
        "--set",
        "serviceMonitor.enabled=true",
        "--set-json",
        "controller.sidecarContainer=[{\"name\":\"proxy\",\"image\":\"proxy\"}]",
    ];
    let plain = render("karpenter", None, &base);
    let mut without_effect = Vec::new();
    // These the base sets already.
    let given = ["serviceMonitor.enabled", "settings.clusterName", "controller.image.repository"];
    for (path, value) in values.into_iter().filter(|(path, _)| !given.contains(&path.as_str())) {
        let set = format!("{path}={value}");
        if render("karpenter", None, &[&base[..], &["--set-json", &set]].concat()) == plain {
            without_effect.push(set);
        }
    }
    assert!(without_effect.is_empty(), "{without_effect:#?}");
}

/// A key without a value, as `podLabels:` with every line below it commented out, is null, and null takes a default away.
#[test]
fn a_value_left_empty_is_as_if_there_were_none() {
    let (case, all_values) = everything();
    let mut values = Vec::new();
    leaves("", &all_values, &mut values);
    let arguments = heading(&case, "arguments");
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    for (path, _) in values {
        let set = format!("{path}=null");
        let all = [&arguments[..], &["--set-json", &set]].concat();
        let output = template("karpenter", Some(&case), &all);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || said.contains(&format!("{path} must be set")), "{path}: {said}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains("<no value>") && !text.contains("=,"), "{path}: {text}");
        manifests::documents(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    render("karpenter-crd", None, &["--set-json", "additionalAnnotations=null"]);
    let none = ["--set", "clusterName=demo", "--set-json", "nodePoolDefaults=null,nodeClassDefaults=null"];
    render(NODEPOOLS, None, &none);
}

/// The leaf of a tree of values.
fn at<'a>(values: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(values, |inner, name| &mut inner[name])
}

#[test]
fn every_setting_may_be_a_template_that_refers_to_other_values() {
    let (case, mut values) = everything();
    let mut settings = Vec::new();
    leaves("settings", &values["settings"], &mut settings);
    // Two are templates already.
    settings.retain(|(_, value)| !value.as_str().is_some_and(|text| text.contains("{{")));
    assert!(settings.len() > 20, "{settings:?}");
    for (path, value) in settings {
        let name = path.replace('.', "_");
        values["global"][&name] = value;
        *at(&mut values, &path) = json!(format!("{{{{ .Values.global.{name} }}}}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let arguments = heading(&case, "arguments");
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    assert_eq!(render("karpenter", Some(&file), &arguments), render_case("karpenter", &case));
}

#[test]
fn the_linter_has_nothing_to_say() {
    let helm = prepare::helm().expect("helm is built from its module");
    let pools = &["--set", "clusterName=demo,nodePools.general.spec.weight=1"][..];
    for (chart, values) in [("karpenter", &["--set", LEAST][..]), ("karpenter-crd", &[]), (NODEPOOLS, pools)]
    {
        let mut lint = Command::new(&helm);
        lint.args(["lint", "--strict", "--kube-version", "1.35.0"]).arg(charts().join(chart)).args(values);
        let output = lint.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn dashboards_reach_the_config_map_unchanged() {
    let enabled = format!("{LEAST},dashboards.enabled=true");
    let arguments = ["--set", &enabled];
    let text =
        render("karpenter", None, &[&arguments[..], &["--show-only", "templates/dashboards.yaml"]].concat());
    let map = manifests::documents(&text).unwrap().remove(0);
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let mut files = 0;
    for entry in fs::read_dir(charts().join("karpenter/dashboards")).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("karpenter-{}", path.file_name().unwrap().to_str().unwrap());
        let carried: Value = serde_json::from_str(map["data"][&name].as_str().unwrap()).unwrap();
        let file: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(carried, file, "{name}");
        files += 1;
    }
    assert!(files > 0);
}

#[test]
fn the_chart_of_the_definitions_keeps_them_unless_told() {
    let kept = manifests::documents(&render("karpenter-crd", None, &[])).unwrap();
    assert_eq!(kept.len(), 5);
    let policy = |crd: &Value| crd["metadata"]["annotations"]["helm.sh/resource-policy"].clone();
    assert!(kept.iter().all(|crd| policy(crd) == "keep"));
    let arguments = ["--set", "keepOnUninstall=false,additionalAnnotations.a=b"];
    for crd in manifests::documents(&render("karpenter-crd", None, &arguments)).unwrap() {
        assert_eq!(crd["metadata"]["annotations"], json!({"a": "b"}));
    }
}

/// The reference's move to v1 had them set, and a release keeps its values.
#[test]
fn the_chart_of_the_definitions_takes_what_the_release_of_the_reference_has_left() {
    let left = ["--set", "webhook.enabled=true,webhook.serviceName=karpenter,webhook.port=8443"];
    assert_eq!(render("karpenter-crd", None, &left), render("karpenter-crd", None, &[]));
    let output = template("karpenter-crd", None, &["--set", "keepOnUninstal=false"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("keepOnUninstal"), "{said}");
}

#[test]
fn definitions_that_refuse_older_kinds_are_asked_for_and_go_with_the_chart() {
    let old =
        manifests::documents(&render("karpenter-crd", None, &["--set", "refuseOlderKinds=true"])).unwrap();
    let old: Vec<&Value> = old.iter().filter(|crd| crd["spec"]["versions"][0]["name"] != "v1").collect();
    let mut names: Vec<_> = old.iter().filter_map(|crd| crd["metadata"]["name"].as_str()).collect();
    names
        .retain(|name| !["nodeoverlays.karpenter.sh", "capacitybuffers.autoscaling.x-k8s.io"].contains(name));
    names.sort_unstable();
    assert_eq!(
        names,
        ["awsnodetemplates.karpenter.k8s.aws", "machines.karpenter.sh", "provisioners.karpenter.sh"]
    );
    let is_kept = |crd: &&&Value| {
        names.contains(&crd["metadata"]["name"].as_str().unwrap_or_default())
            && crd["metadata"].get("annotations").is_some()
    };
    assert_eq!(old.iter().filter(is_kept).count(), 0, "there are no objects to keep them for");
}

/// The readme's example of values, as its reader would copy it.
#[test]
fn the_readme_of_the_pools_renders() {
    let readme = fs::read_to_string(charts().join(NODEPOOLS).join("README.md")).unwrap();
    let values = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pools.yaml");
    fs::write(&file, values).unwrap();
    let objects = manifests::documents(&render(NODEPOOLS, Some(&file), &[])).unwrap();
    let mut names: Vec<_> =
        objects.iter().map(|object| format!("{} {}", object["kind"], object["metadata"]["name"])).collect();
    names.sort();
    let expected =
        ["EC2NodeClass\" \"default", "EC2NodeClass\" \"gpu", "NodePool\" \"general", "NodePool\" \"gpu"];
    assert_eq!(names, expected.map(|name| format!("\"{name}\"")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_accepts_every_case() {
    let cluster = LocalCluster::start(Options::default()).await.expect("the control plane starts");
    let client = cluster.client();
    let definitions = render("karpenter-crd", None, &[]);
    manifests::apply_definitions(&client, &definitions).await.expect("the definitions are accepted");
    for name in ["karpenter", "leases"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    }
    let all = WITH_CASES.iter().flat_map(|(chart, folder)| {
        cases(folder, ".values.yaml").into_iter().map(move |(name, values)| (*chart, name, values))
    });
    for (chart, name, values) in all {
        for document in manifests::documents(&render_case(chart, &values)).unwrap() {
            if document["kind"].as_str().is_some_and(|kind| !FOREIGN.contains(&kind)) {
                let what = format!("{chart}, {name}: {} {}", document["kind"], document["metadata"]["name"]);
                // Selectors cannot change, so each case is a release of its own in the eyes of the server.
                let mut document = document;
                if document["kind"] == "Deployment" {
                    document["metadata"]["name"] = json!(name);
                }
                manifests::apply_json(&client, document)
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error:#}"));
            }
        }
    }
    cluster.stop().await.expect("all processes end");
}
