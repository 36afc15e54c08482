//! The emulated account as the harness sees it: furnished, controllable, gone when stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use karpenter_e2e::account::control::{CapacityRule, Fault, Notice, Settings};
use karpenter_e2e::account::moto::{MotoAccount, Options};
use karpenter_e2e::account::{Account, Choice, Control};
use karpenter_e2e::prepare;

async fn account(cluster: &str) -> MotoAccount {
    let options = Options { cluster: Some(cluster.to_owned()), ..Options::default() };
    MotoAccount::start(options).await.expect("the account starts")
}

#[tokio::test]
async fn is_furnished_for_a_new_cluster_and_ends_when_stopped() {
    let account = account("e2e").await;
    let seeded = account.seeded().expect("it was asked for").clone();
    assert_eq!((seeded.cluster.as_str(), seeded.region.as_str()), ("e2e", "us-west-2"));
    assert_eq!(seeded.zones, ["us-west-2a", "us-west-2b", "us-west-2c"]);
    assert_eq!((seeded.private_subnets.len(), seeded.public_subnets.len()), (3, 3));
    assert!(seeded.cluster_security_group.is_some_and(|group| group.starts_with("sg-")));
    let control = account.control().clone();
    account.stop().await.expect("the launcher ends");
    assert!(control.healthy().await.is_err(), "nothing answers any more");
}

#[tokio::test]
async fn accepts_every_control_request_and_says_what_it_refuses() {
    let account = account("controls").await;
    let control = account.control();
    let arn = account.seeded().unwrap().cluster_arn.clone().unwrap();
    control
        .limit_capacity(&CapacityRule { zone: Some("us-west-2a".into()), ..CapacityRule::default() })
        .await
        .unwrap();
    control.restore_capacity().await.unwrap();
    control.fail(&Fault::new("CreateFleet", "RequestLimitExceeded", 2)).await.unwrap();
    control.stop_failing().await.unwrap();
    let prices = BTreeMap::from([("m5.large".to_owned(), "0.2000".to_owned())]);
    control.set_on_demand_prices(&prices).await.unwrap();
    control.set_spot_price("m5.large", "us-west-2a", "0.01").await.unwrap();
    control.configure(&Settings { pending_seconds: Some(0.5), ..Settings::default() }).await.unwrap();
    control.impair("i-1", &["system"], jiff::Timestamp::now()).await.unwrap();
    control.shift(&arn, "usw2-az1", Duration::from_mins(1)).await.unwrap();
    control.publish_images(35, "2026-03-03", "1.54.0").await.unwrap();
    control.point_cluster("us-west-2", "controls", "https://127.0.0.1:1", "PEM").await.unwrap();
    control.notify(Notice::SpotInterruption, "us-west-2", "i-1", None).await.unwrap();
    assert!(control.machines("us-west-2").await.unwrap().is_empty());

    let refused =
        control.configure(&Settings { spot_role: Some("required".into()), ..Settings::default() }).await;
    refused.unwrap();
    let error = control.point_cluster("us-west-2", "gone", "https://127.0.0.1:1", "PEM").await.unwrap_err();
    assert!(error.to_string().contains("No cluster found for name: gone"), "{error:#}");

    let calls = control.calls().await.unwrap();
    assert_eq!(calls.counts.get("eks:CreateCluster"), Some(&1), "{:?}", calls.counts);
    assert!(calls.unimplemented.is_empty() && calls.log.iter().all(|call| call.status == 200), "{calls:?}");
    control.reset().await.unwrap();
    assert!(control.calls().await.unwrap().counts.is_empty());
    let again = control.seed("other", "eu-west-1", "1.34").await.unwrap();
    assert_eq!((again.cluster.as_str(), again.zones[0].as_str()), ("other", "eu-west-1a"));
    account.stop().await.unwrap();
}

#[tokio::test]
async fn a_running_launcher_is_recognised_by_its_endpoint() {
    let launcher = account("endpoint").await;
    let endpoint = launcher.endpoint().to_owned();
    let account = Account::start(Choice::Endpoint(endpoint.clone()), None).await.unwrap();
    assert_eq!(account.endpoint(), endpoint);
    assert_eq!(account.control().map(Control::endpoint), Some(endpoint.as_str()));
    let seeded = account.seed("second", "eu-central-1", "1.34").await.unwrap();
    assert_eq!((seeded.cluster.as_str(), seeded.zones.len()), ("second", 3));
    account.stop().await.unwrap();
    launcher.control().healthy().await.expect("an account that was there before stays");
    launcher.stop().await.unwrap();
}

/// Each change the launcher makes to moto, asserted through boto3: a new pin that breaks one is found here.
#[test]
fn the_launcher_passes_its_own_checks() {
    let output = Command::new(prepare::python().expect("the pinned packages can be installed"))
        .arg("self_test.py")
        .current_dir(prepare::launcher_folder())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let checks = said.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(checks >= 50, "only {checks} checks ran:\n{said}");
}

/// Prints the names of the current types of the answer of `DescribeInstanceTypes` that moto has recorded.
const CURRENT_TYPES: &str = r#"
import gzip, importlib.resources, json

recorded = importlib.resources.files("moto.ec2").joinpath("resources/instance_types.json.gz").read_bytes()
for name, found in json.loads(gzip.decompress(recorded)).items():
    if found["CurrentGeneration"]:
        print(name)
"#;

#[test]
fn plans_without_an_account_know_every_current_type_of_the_largest_region() {
    let python = prepare::python().expect("the emulator's environment can be made");
    let output = Command::new(python).args(["-c", CURRENT_TYPES]).output().unwrap();
    let current = String::from_utf8(output.stdout).unwrap();
    assert!(current.lines().count() > 1_000, "{}", String::from_utf8_lossy(&output.stderr));
    let table = prepare::cache::repository().join("src/aws-sim/data/instance-types.txt");
    let table = std::fs::read_to_string(table).unwrap();
    let known: BTreeSet<&str> = table.lines().filter_map(|line| line.split('\t').next()).collect();
    let missing: Vec<&str> = current.lines().filter(|name| !known.contains(name)).collect();
    assert_eq!(missing, [""; 0]);
}
