//! The page that says what each AMI family reserves and renders, checked against the code.

use std::fmt::Write as _;
use std::path::Path;

use karpenter_model::CapacityType;

use super::*;
use crate::class::expressions::Evaluated;
use crate::image::family::FamilyTraits as _;
use crate::launch::bootstrap::{self, Inputs};

const INTRODUCTION: &str = "\
# AMI families

What a node of each family keeps from pods, what its user data may be, and what it is given at boot. Tests write this page
from the code that plans and renders: `UPDATE_GOLDEN=1 cargo test --workspace --lib -- the_page_of_families`.

## Reservations

A node offers its capacity less what is reserved for Kubernetes, for the system, and up to the hard eviction threshold. Where
nothing is set, the image reserves by itself, and the planner computes the same: memory of `11 MiB × pods + 255 MiB`, 6 % of
the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of the others, and 1 GiB of disk. Families differ in the
pods that are counted: those that the network interfaces have addresses for, or the most that the kubelet takes.
";

const SOURCES: &str = "
What is set counts, key by key, in this order; the last one wins:

| source | AL2 | AL2023 | Bottlerocket | Windows | Custom |
|---|---|---|---|---|---|
| formula of the image | yes | yes | yes | yes | yes |
| `spec.userData`: kubelet configuration of a `NodeConfig`, the first document of each part | – | each document | – | – | yes, and `maxPods` |
| `spec.userData`: `settings.kubernetes` | – | – | yes | – | yes, and `max-pods` |
| `spec.kubelet` | yes | yes | yes | yes | planned only |
| `spec.userData`: kubelet flags of a `NodeConfig`, each with its whole value | – | yes | – | – | yes |

`reservedSystemCPUs` and `reserved-cpus` replace both amounts of `cpu` by the number of CPUs in the list. Thresholds in
percent are of the memory that a node of the type has reported, before the first one of an estimate. Scripts cannot be
read: what they reserve is learnt from the first node ([promises.md](promises.md)).

The annotation `karpenter.k8s.aws/explicit-reservations: \"true\"` of an EC2NodeClass writes the amounts of the formula into the user
data, so that an image with another formula reserves what was planned. Types with other amounts then need launch templates of
their own, and nodes that run stay as they are.

## Formats of user data

What is sent of `spec.userData`, by what it begins with; the refusals are those of the condition `ValidationSucceeded`. Parts of a MIME
document are treated the same, each for itself.

";

const FAMILIES: [AmiFamily; 5] =
    [AmiFamily::AL2, AmiFamily::AL2023, AmiFamily::Bottlerocket, AmiFamily::Windows2022, AmiFamily::Custom];

const FORMATS: [(&str, &str); 12] = [
    ("`#!/bin/bash`", "#!/bin/bash\necho one\n"),
    ("`#cloud-config`", "#cloud-config\nruncmd: []\n"),
    ("`#cloud-boothook`", "#cloud-boothook\n#!/bin/sh\n"),
    ("`#include`", "#include\nhttps://example.com/one\n"),
    ("`## template: jinja`", "## template: jinja\n#cloud-config\n"),
    ("`kind: NodeConfig`", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"),
    ("other YAML", "runcmd: []\n"),
    ("base64 of a script", "IyEvYmluL2Jhc2gKZWNobyBvbmUK"),
    ("settings in TOML", "[settings.kubernetes]\nlog-level = 3\n"),
    ("`<powershell>`", "<powershell>\nWrite-Host 1\n</powershell>\n"),
    ("PowerShell commands", "Write-Host 1\n"),
    ("`<script>`", "<script>dir</script>\n"),
];

fn row(page: &mut String, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells.into_iter().collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    reservations(&mut page);
    page.push_str(SOURCES);
    formats(&mut page);
    page.push_str("\n## User data\n\nOf an `m5.xlarge` in a pool `web`, of a class with this block:\n");
    let _ = write!(
        page,
        "\n```yaml\nkubelet:\n  evictionHard: {{memory.available: 5%}}\n  systemReserved: {{cpu: 100m}}\n```\n"
    );
    for family in FAMILIES.into_iter().filter(|family| *family != AmiFamily::Custom) {
        let text = rendered(family, None).expect("nothing of the user's is in it");
        let _ = write!(page, "\n### {}\n\n```text\n{}\n```\n", family.as_str(), text.trim_end());
    }
    page.push_str("\n### Custom\n\n`spec.userData` byte by byte. It has to register the node with the taint `karpenter.sh/unregistered:NoExecute`.\n");
    page
}

fn reservations(page: &mut String) {
    page.push_str("\n| family | pods that memory is reserved for | `podsPerCore` | disk of pods | t3.large, `maxPods: 10` | m5.xlarge | m5.xlarge, `maxPods: 110` |\n|---|---|---|---|---|---|---|\n");
    let m5 = machine("m5.xlarge", 4, 16, 4, 15);
    let kept = |info: &InstanceTypeInfo, class: &EC2NodeClass| {
        let overhead = built(info, class).overhead;
        let (kube, hard) = (overhead.kube_reserved, overhead.eviction);
        format!("{} CPU, {} + {} memory", kube.amount("cpu"), kube.amount("memory"), hard.amount("memory"))
    };
    for family in FAMILIES {
        let small = [kubelet(family, Some(10)), kubelet(family, Some(110))];
        let by_network = kept(&m5, &small[0]) == kept(&m5, &small[1]);
        let device = family
            .ephemeral_device()
            .map_or_else(|| "the last mapping".to_owned(), |device| format!("`{device}`"));
        let size = built(&m5, &class(family)).capacity.amount("ephemeral-storage");
        row(
            page,
            [
                family.as_str().replace("2022", " 2019, 2022, 2025"),
                if by_network { "of the network" } else { "`maxPods`" }.to_owned(),
                if family.honours_pods_per_core() { "bounds" } else { "refused" }.to_owned(),
                format!("{device}, {size}"),
                kept(&t3_large(), &small[0]),
                kept(&m5, &class(family)),
                kept(&m5, &small[1]),
            ],
        );
    }
}

fn formats(page: &mut String) {
    row(
        page,
        std::iter::once("begins with".to_owned()).chain(FAMILIES.map(|family| family.as_str().to_owned())),
    );
    page.push_str("|---|---|---|---|---|---|\n");
    for (name, text) in FORMATS {
        row(page, std::iter::once(name.to_owned()).chain(FAMILIES.map(|family| sent(family, text))));
    }
}

/// The type of the part that the user's text is sent in, or why it is refused.
fn sent(family: AmiFamily, custom: &str) -> String {
    let archive = match rendered(family, Some(custom)) {
        Ok(archive) => archive,
        Err(error) => {
            let error = error.to_string();
            let why = error.split_once(": ").map_or(error.as_str(), |(_, why)| why);
            let why = why.split([';', '\n']).next().unwrap_or(why).trim();
            return format!("refused: {}", why.replace('|', "\\|"));
        }
    };
    match family {
        AmiFamily::AL2 | AmiFamily::AL2023 => {
            let kind = archive.split("Content-Type: ").nth(2).and_then(|part| part.split([';', '\n']).next());
            format!("`{}`", kind.unwrap_or_default())
        }
        AmiFamily::Bottlerocket => "settings, under ours".to_owned(),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            "commands before ours".to_owned()
        }
        AmiFamily::Custom => "as it is".to_owned(),
    }
}

fn rendered(family: AmiFamily, custom: Option<&str>) -> Result<String, bootstrap::Error> {
    let settings = Settings {
        cluster_ca_bundle: Some("Y2EtYnVuZGxlCg==".to_owned()),
        kube_dns_ip: Some("10.100.0.10".to_owned()),
        ..Settings::new("demo", "https://demo.example")
    };
    let mut class = class(family);
    class.spec.user_data = custom.map(str::to_owned);
    let block =
        serde_json::json!({"evictionHard": {"memory.available": "5%"}, "systemReserved": {"cpu": "100m"}});
    class.spec.kubelet = Some(serde_json::from_value(block).expect("a block"));
    let view = ClassView::new(&class);
    let pods = built_with(&machine("m5.xlarge", 4, 16, 4, 15), &class, &settings).capacity.amount("pods");
    bootstrap::user_data(Inputs {
        settings: &settings,
        view: &view,
        service_cidr: Some("10.100.0.0/16".to_owned()),
        pods: u32::try_from(pods.as_units_ceil()).expect("a number of pods"),
        evaluated: &Evaluated::default(),
        capacity_type: CapacityType::Spot,
        labels: &[("karpenter.sh/nodepool".into(), "web".into())].into(),
        taints: &[],
        startup_taints: &[],
    })
}

#[test]
fn the_page_of_families_is_what_the_code_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/families.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page(), "UPDATE_GOLDEN=1 rewrites docs/families.md");
}
