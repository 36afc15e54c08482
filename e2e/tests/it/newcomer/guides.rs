//! Every command of the pages in `docs/guides`, copied from them and run by a shell.
//!
//! What a reader has before the first step, a test makes: a release of this chart with another image stands for the
//! reference's, a Deployment for Cluster Autoscaler, names with prefixes for the roles of another Terraform module.

use std::ffi::OsStr;
use std::fs;

use karpenter_e2e::cluster::local::{self, LocalCluster};
use karpenter_e2e::prepare;

use super::{Desk, account, can_run, commands, furnish};

/// A page, with its parts in the order in which they are followed in one world.
struct Guide {
    page: &'static str,
    parts: &'static [Part],
}

/// Sections that are followed in one shell.
struct Part {
    /// What brings about the state that the reader starts from.
    before: &'static [&'static str],
    sections: &'static [&'static str],
}

const ACCOUNT: &str = "karpenter bootstrap apply --cluster-name prod";
/// Definitions that belong to no release of Helm, as the folder `crds/` of a chart leaves them.
const DEFINITIONS: &str = "karpenter crds | kubectl apply --server-side -f - \
    && kubectl wait --for=condition=Established --timeout=60s crd --all";
const REFERENCE: &str = "helm install karpenter charts/karpenter --namespace kube-system --skip-crds \
    --set settings.clusterName=prod --set settings.interruptionQueue=prod \
    --set controller.image.repository=registry.example.com/reference";
const OURS: &str = "helm upgrade karpenter charts/karpenter --namespace kube-system --reuse-values \
    --set controller.image.repository=registry.example.com/karpenter";
const POOL: &str = "sed s/demo/prod/ docs/examples/nodepool.yaml | kubectl apply -f -";
const CLUSTER_AUTOSCALER: &str = "kubectl create deployment cluster-autoscaler --namespace kube-system \
    --image registry.example.com/cluster-autoscaler";
/// What `terraform output -json karpenter | jq .chart_values` writes.
const CHART_VALUES: &str =
    r#"echo '{"settings": {"clusterName": "prod", "interruptionQueue": "prod"}}' > chart-values.json"#;
/// The names that the submodule of terraform-aws-modules/eks chooses.
const SUBMODULE: &str = "karpenter bootstrap apply --cluster-name prod --queue-name Karpenter-prod \
    --controller-role-name KarpenterController-20260101000000000000000002 \
    --node-role-name Karpenter-prod-20260101000000000000000001";

const SWAP: Guide = Guide {
    page: "docs/guides/swap-from-karpenter.md",
    parts: &[Part {
        before: &[ACCOUNT, DEFINITIONS, REFERENCE, POOL],
        sections: &["## Steps", "## Going back"],
    }],
};

const ROLL_BACK: Guide = Guide {
    page: "docs/guides/roll-back.md",
    parts: &[Part { before: &[ACCOUNT, DEFINITIONS, REFERENCE, OURS, POOL], sections: &["## Steps"] }],
};

const UPGRADE: Guide = Guide {
    page: "docs/guides/upgrade.md",
    parts: &[Part {
        before: &[ACCOUNT, DEFINITIONS, REFERENCE, POOL],
        sections: &["## Steps", "## Going back", "## Checking a release"],
    }],
};

const FROM_CLUSTER_AUTOSCALER: Guide = Guide {
    page: "docs/guides/cluster-autoscaler.md",
    parts: &[Part { before: &[CLUSTER_AUTOSCALER], sections: &["## Steps", "## Going back"] }],
};

const FROM_OLDER: Guide = Guide {
    page: "docs/guides/from-older-karpenter.md",
    parts: &[Part { before: &[DEFINITIONS], sections: &["## Steps"] }],
};

const TERRAFORM: Guide = Guide {
    page: "docs/guides/terraform-aws-eks.md",
    parts: &[
        Part { before: &[ACCOUNT, CHART_VALUES], sections: &["## Our module beside the cluster"] },
        Part { before: &[SUBMODULE], sections: &["## Keep the submodule"] },
    ],
};

const GATE: Guide = Guide {
    page: "docs/guides/gate-your-pipeline.md",
    parts: &[Part {
        before: &[ACCOUNT],
        sections: &["## Pools and workloads", "## Only the manifests", "## The account", "## The cluster"],
    }],
};

const GUIDES: &[Guide] = &[SWAP, ROLL_BACK, UPGRADE, FROM_CLUSTER_AUTOSCALER, FROM_OLDER, TERRAFORM, GATE];

/// Follows a guide from a new cluster and a new account on.
async fn follow(guide: &Guide) {
    if !can_run(guide.page, &["bash", "kubectl"]).await {
        return;
    }
    let account = account().await.expect("the account starts");
    let cluster = LocalCluster::start(local::Options::default()).await.expect("the control plane starts");
    furnish(&cluster).await.unwrap();
    let desk = Desk::new(&account, Some(cluster.kubeconfig())).unwrap();
    for part in guide.parts {
        let before = part.before.iter().map(|command| (*command).to_owned());
        let steps = part.sections.iter().flat_map(|section| commands(guide.page, section));
        let all: Vec<String> = before.chain(steps).collect();
        desk.follow(&all).await.unwrap();
    }
    cluster.stop().await.unwrap();
    account.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_swap_from_karpenter_is_as_the_page_says() {
    follow(&SWAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_roll_back_is_as_the_page_says() {
    follow(&ROLL_BACK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_upgrade_is_as_the_page_says() {
    follow(&UPGRADE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_cluster_autoscaler_is_as_the_page_says() {
    follow(&FROM_CLUSTER_AUTOSCALER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_from_older_karpenter_is_as_the_page_says() {
    follow(&FROM_OLDER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_terraform_aws_eks_is_as_the_page_says() {
    follow(&TERRAFORM).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_gate_your_pipeline_is_as_the_page_says() {
    follow(&GATE).await;
}

#[test]
fn no_section_of_a_guide_is_left_out() {
    let repository = prepare::cache::repository();
    let mut pages = 0;
    for entry in fs::read_dir(repository.join("docs/guides")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some(OsStr::new("md")) {
            continue;
        }
        pages += 1;
        let page = path.strip_prefix(repository).unwrap().display().to_string();
        let guide = GUIDES.iter().find(|guide| guide.page == page);
        let parts = guide.unwrap_or_else(|| panic!("no test follows `{page}`")).parts;
        let text = fs::read_to_string(&path).unwrap();
        for section in text.split("\n## ").skip(1).filter(|section| section.contains("```sh")) {
            let heading = format!("## {}", section.lines().next().unwrap_or_default());
            let is_followed = parts.iter().any(|part| part.sections.contains(&heading.as_str()));
            assert!(is_followed, "no test follows the section `{heading}` of {page}");
        }
    }
    assert_eq!(pages, GUIDES.len());
}
