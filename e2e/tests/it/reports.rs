//! What commands print as JSON against the published schemas, by a validator of others: the one of the emulator's Python
//! environment.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use karpenter_e2e::account::moto::{MotoAccount, Options};
use karpenter_e2e::{command_line, prepare};
use tokio::process::Command;

/// Prints what is wrong with each report: arguments are pairs of a schema and a file.
const VALIDATE: &str = r#"
import json, sys
from jsonschema import Draft202012Validator

for schema, report in zip(sys.argv[1::2], sys.argv[2::2]):
    schema = json.load(open(schema))
    Draft202012Validator.check_schema(schema)
    for error in Draft202012Validator(schema).iter_errors(json.load(open(report))):
        print(report, error.json_path, error.message)
"#;

/// A node with a pod, and a pod that waits.
const CLUSTER: &str = "{apiVersion: v1, kind: Node, metadata: {name: one, labels: {node.kubernetes.io/instance-type: m5.large,
  topology.kubernetes.io/zone: us-west-2a, karpenter.sh/nodepool: general}}, status: {allocatable: {cpu: '2'}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: runs}, spec: {nodeName: one, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: waits}, spec: {containers: [{name: c, image: i,
  resources: {requests: {cpu: '3'}}}]}}
";

const ANSWER: &str = r#"{"about": "node/one", "decided_at": "2026-01-01T00:00:00Z", "verdict": "stays",
    "reasons": [{"code": "Budget", "subject": "general", "text": "budget is used up"}], "facts": [{"name": "a", "value": "b"}]}"#;

/// Schemas, and commands that print what they describe. `@` stands for the folder of the files.
const REPORTS: [(&str, &str); 12] = [
    ("plan", "plan -f @/pool.yaml -f @/cluster.yaml --what-if @/pods.yaml --output json"),
    ("plan", "plan -f @/pool.yaml --output json"),
    ("lint", "lint -f @/wrong.yaml --output json"),
    ("render", "render -f @/pool.yaml --output json"),
    ("view", "view -f @/pool.yaml -f @/cluster.yaml --labels karpenter.sh/nodepool --output json"),
    ("convert", "convert -f @/older.yaml --output json"),
    ("version", "version --output json"),
    ("doctor", "doctor --cluster-name prod --account-only --output json"),
    ("bootstrap-plan", "bootstrap plan --cluster-name prod --output json"),
    ("bootstrap-plan", "bootstrap plan --cluster-name prod --destroy --output json"),
    ("bootstrap-check", "bootstrap check --cluster-name prod --output json"),
    ("explain", "explain node/one --output json --endpoint"),
];

/// A controller that answers one question.
fn controller() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _read = stream.read(&mut request).unwrap();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", ANSWER.len());
        stream.write_all((head + ANSWER).as_bytes()).unwrap();
    });
    address
}

fn furnish(folder: &Path) {
    let example = |name: &str| {
        fs::read_to_string(prepare::cache::repository().join("docs/examples").join(name)).unwrap()
    };
    let pool = example("nodepool.yaml");
    for (name, text) in [
        ("wrong.yaml", pool.replace("consolidateAfter:", "consolidateafter:")),
        ("pods.yaml", example("inflate.yaml").replace("replicas: 0", "replicas: 3")),
        ("older.yaml", example("older-versions.yaml")),
        ("cluster.yaml", CLUSTER.to_owned()),
        ("pool.yaml", pool),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// Returns what the validator says about pairs of a schema and a report.
async fn validated(pairs: &[(String, String)]) -> String {
    let arguments = pairs.iter().flat_map(|(schema, report)| [schema, report]);
    let python = prepare::python().expect("the emulator's environment can be made");
    let output = Command::new(python).args(["-c", VALIDATE]).args(arguments).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_as_their_published_schemas_say() {
    let options =
        Options { cluster: Some("prod".to_owned()), region: "eu-west-1".to_owned(), ..Options::default() };
    let account = MotoAccount::start(options).await.expect("the account starts");
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path());
    let schemas = prepare::cache::repository().join("docs/schemas");
    let mut pairs = Vec::new();
    for (number, (schema, line)) in REPORTS.into_iter().enumerate() {
        let mut words: Vec<String> =
            line.split(' ').map(|word| word.replace('@', &folder.path().display().to_string())).collect();
        if schema == "explain" {
            words.push(controller());
        }
        let Output { stdout, stderr, .. } = Command::new(command_line::binary().unwrap())
            .args(&words)
            .env("AWS_ENDPOINT_URL", account.endpoint())
            .env("AWS_REGION", "eu-west-1")
            .envs([("AWS_ACCESS_KEY_ID", "emulator"), ("AWS_SECRET_ACCESS_KEY", "emulator")])
            .output()
            .await
            .unwrap();
        let report = if schema == "convert" { &stderr } else { &stdout };
        assert!(report.starts_with(b"{"), "{line}: {}", String::from_utf8_lossy(&stderr));
        let path = folder.path().join(format!("{number}-{schema}.json"));
        fs::write(&path, report).unwrap();
        let schema = schemas.join(format!("{schema}.schema.json"));
        pairs.push((schema.display().to_string(), path.display().to_string()));
    }
    assert_eq!(validated(&pairs).await, "");

    // A validator that takes everything would have said the same.
    let (schema, report) = &pairs[0];
    let text = fs::read_to_string(report).unwrap().replace("\"verdict\": \"", "\"verdict\": \"not-");
    fs::write(report, text).unwrap();
    let wrong = validated(&[(schema.clone(), report.clone())]).await;
    assert!(wrong.contains("$.verdict"), "{wrong}");
    account.stop().await.unwrap();
}
