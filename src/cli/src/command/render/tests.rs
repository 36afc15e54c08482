//! `karpenter render` of files, with the account in memory.

use clap::Parser;

use super::*;

const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web}
spec:
  template:
    metadata: {labels: {team: shop}}
    spec:
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7g, m7i]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

/// A class with these fields beside those it must have.
fn class(fields: &str) -> String {
    format!(
        "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: nodes
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: shop}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: shop}}}}]
{fields}
"
    )
}

async fn tried(class: &str, flags: &str) -> Result<(String, Vec<String>, bool)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.yaml");
    std::fs::write(&path, format!("{POOL}---{class}")).unwrap();
    let words = ["render", "--filename", path.to_str().unwrap()];
    let line = Line::parse_from(words.into_iter().chain(flags.split_whitespace()));
    rendered(&line.arguments).await
}

#[tokio::test]
async fn a_pool_of_files_has_types_and_the_templates_of_a_launch() {
    let al2023 = class("  amiSelectorTerms: [{alias: al2023@latest}]\n  tags: {cost_centre: a_b}");
    let (text, notes, whole) = tried(&al2023, "--capacity-type on-demand --all").await.unwrap();
    assert!(whole, "{text}");
    // One template for each number of pods and image.
    for expected in [
        "# nodepool/web with EC2NodeClass default",
        "INSTANCE TYPE",
        "\nm7g.large",
        "image: <image for arm64>",
        "image: <image for amd64>",
        // Defaults of the API server.
        "httpEndpoint: enabled",
        "httpPutResponseHopLimit: 1",
        "cost_centre: a_b",
        "maxPods: 29",
        "team=shop",
        "apiServerEndpoint: <cluster endpoint>",
        "cidr: <service CIDR>",
    ] {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
    }
    assert!(!text.contains(" more; --all"));
    let notes = notes.join("\n");
    assert!(notes.contains("not known from here: images, instance profile"), "{notes}");
    assert!(notes.contains("`CLUSTER-NAME`"), "{notes}");
}

#[tokio::test]
async fn what_is_known_stands_for_itself() {
    let known = class(
        "  amiSelectorTerms: [{alias: bottlerocket@latest}]
status:
  amis: [{id: ami-1, requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}]
  instanceProfile: shop-nodes
  securityGroups: [{id: sg-1}]
  subnets: [{id: subnet-1, zone: us-west-2a}]
  conditions: [{type: Ready, status: 'True', reason: Ready, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]",
    );
    let flags = "--nodepool web --cluster-name shop --set cluster-endpoint=https://api --instance-type m7g.large -o json";
    let (text, notes, whole) = tried(&known, flags).await.unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    let pool = &read["pools"][0];
    assert!(whole && pool["problem"].is_null(), "{text}");
    assert_eq!(pool["instanceTypes"].as_array().unwrap().len(), 1);
    let [template] = &pool["launchTemplates"].as_array().unwrap()[..] else { panic!("{text}") };
    assert_eq!(template["instanceTypes"], json!(["m7g.large"]));
    assert_eq!(template["capacityType"], "spot");
    assert_eq!(template["data"]["image"], "ami-1");
    assert_eq!(template["data"]["instanceProfile"], "shop-nodes");
    assert_eq!(template["data"]["networkInterfaces"][0]["securityGroups"], json!(["sg-1"]));
    assert!(template["userData"].as_str().unwrap().contains("cluster-name = 'shop'"), "{text}");
    assert!(notes.iter().all(|note| !note.contains("not known from here")), "{notes:?}");
}

#[tokio::test]
async fn what_cannot_be_rendered_is_told() {
    let broken = class("  amiSelectorTerms: [{alias: bottlerocket@latest}]\n  userData: 'a = ['");
    let (text, _, whole) = tried(&broken, "").await.unwrap();
    assert!(!whole && text.contains("No launch template") && text.contains("spec.userData"), "{text}");
    let fine = class("  amiSelectorTerms: [{alias: al2023@latest}]");
    let error = tried(&fine, "--nodepool shop").await.unwrap_err().to_string();
    assert_eq!(error, "cannot render NodePool `shop`: there is none of that name");
    let (text, _, whole) = tried(&fine, "--instance-type c5.large").await.unwrap();
    assert!(!whole && text.contains("no instance type has"), "{text}");
    let windows = class("  amiSelectorTerms: [{alias: windows2022@latest}]");
    let (text, _, whole) = tried(&windows, "--instance-type m7g.large").await.unwrap();
    assert!(!whole && text.contains("no instance type has"), "no Windows image is for arm64: {text}");
}

#[tokio::test]
async fn an_instance_type_that_there_is_not_is_named_with_the_one_that_is_meant() {
    let al2023 = class("  amiSelectorTerms: [{alias: al2023@latest}]");
    let error = tried(&al2023, "--instance-type m7g.lage").await.unwrap_err().to_string();
    assert!(error.ends_with("there is none of that name; `m7g.large` is probably meant"), "{error}");
}
