//! Every command of the pages in `docs/guides`, copied from them and run by a shell. Those in `docs/guides/walkthroughs`
//! are followed by [`super::walkthroughs`].
//!
//! A test makes the state that a reader has before the first step: a release of this chart with another image stands for the
//! reference's, a Deployment for Cluster Autoscaler, names with prefixes for the roles of another Terraform module.

use std::ffi::OsStr;
use std::fs;

use karpenter_e2e::cluster::local::{self, LocalCluster};
use karpenter_e2e::prepare;
use karpenter_e2e::world::World;

use super::walkthroughs::FIRST_BLOG_ACCOUNT;
use super::{CLUSTER, Desk, Expected, Options, REGION, account, can_run, commands, furnish};
use crate::{behaviours, objects};

/// A page, with its parts in the order in which they are followed in one world.
pub(super) struct Guide {
    pub(super) page: &'static str,
    pub(super) parts: &'static [Part],
}

/// Sections that are followed in one shell.
pub(super) struct Part {
    /// Commands that bring about the state the reader starts from.
    pub(super) before: &'static [&'static str],
    pub(super) sections: &'static [&'static str],
}

const ACCOUNT: &str = "karpenter bootstrap apply --cluster-name prod";
/// Definitions that belong to no release of Helm, as the folder `crds/` of a chart leaves them.
const DEFINITIONS: &str = "karpenter crds | kubectl apply --server-side -f - \
    && kubectl wait --for=condition=Established --timeout=60s crd --all";
/// The release that the reference's definitions have, with what its move to v1 has set. The reference's chart knows these
/// values, whatever ours says of them.
const REFERENCE_DEFINITIONS: &str = "helm install karpenter-crd charts/karpenter-crd --namespace kube-system --wait \
    --skip-schema-validation \
    --set webhook.enabled=true --set webhook.serviceName=karpenter --set webhook.port=8443";
const REFERENCE: &str = "helm install karpenter charts/karpenter --namespace kube-system --skip-crds \
    --set settings.clusterName=prod --set settings.interruptionQueue=prod \
    --set controller.image.repository=registry.example.com/reference";
const OURS: &str = "helm upgrade karpenter charts/karpenter --namespace kube-system --reuse-values \
    --set controller.image.repository=registry.example.com/karpenter";
const POOL: &str = "sed s/demo/prod/ docs/examples/nodepool.yaml | kubectl apply -f -";
const CLUSTER_AUTOSCALER: &str = "kubectl create deployment cluster-autoscaler --namespace kube-system \
    --image registry.example.com/cluster-autoscaler";
/// Output of `terraform output -json karpenter | jq .chart_values`.
const CHART_VALUES: &str =
    r#"echo '{"settings": {"clusterName": "prod", "interruptionQueue": "prod"}}' > chart-values.json"#;
/// The names that the submodule of terraform-aws-modules/eks chooses.
const SUBMODULE: &str = "karpenter bootstrap apply --cluster-name prod --queue-name Karpenter-prod \
    --controller-role-name KarpenterController-20260101000000000000000002 \
    --node-role-name Karpenter-prod-20260101000000000000000001";

const SWAP: Guide = Guide {
    page: "docs/guides/swap-from-karpenter.md",
    parts: &[Part {
        before: &[ACCOUNT, REFERENCE_DEFINITIONS, REFERENCE, POOL],
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
        sections: &[
            "## A plan on the pull request",
            "## Pools and workloads",
            "## Only the manifests",
            "## The account",
            "## The cluster",
        ],
    }],
};

const FIRST_CLUSTER: Guide = Guide {
    page: "docs/guides/first-cluster.md",
    parts: &[Part { before: &[], sections: &["## A cluster", "## The controller"] }],
};

const GUIDES: &[Guide] =
    &[SWAP, ROLL_BACK, UPGRADE, FROM_CLUSTER_AUTOSCALER, FROM_OLDER, TERRAFORM, GATE, FIRST_CLUSTER];

const FIRST_PODS: AtWork = AtWork {
    page: "docs/guides/first-cluster.md",
    before: &[],
    sections: &["## Pods and nodes"],
    special: &[("kubectl get nodeclaims", 0, "general-")],
};

/// Removes what the page before has left. A pool goes before its machines, which would take the pods of the next page.
const CLEAR: &str = "kubectl delete deployments --all --cascade=foreground && kubectl delete pods --all \
    && kubectl delete nodepools.karpenter.sh --all --timeout=5m \
    && kubectl wait --for=delete nodeclaims --all --timeout=5m";
const PRESENT_POOL: &str = "sed s/demo/$CLUSTER/ docs/examples/nodepool.yaml | kubectl apply -f - \
    && kubectl wait --for=condition=Ready nodepools --all --timeout=2m";
const PRESENT_PODS: &str = "kubectl apply -f docs/examples/inflate.yaml \
    && kubectl scale deployment/inflate --replicas=3 && kubectl rollout status deployment/inflate --timeout=5m";

const QUESTIONS: &[&AtWork] = &[
    &AtWork {
        page: "docs/guides/why-is-my-pod-pending.md",
        before: &[
            PRESENT_POOL,
            "kubectl run api --image=registry.k8s.io/pause:3.10 \
                --overrides='{\"spec\": {\"nodeSelector\": {\"kubernetes.io/arch\": \"arm64\"}}}'",
        ],
        sections: &["## Look", "## The command that answers it"],
        special: &[
            ("karpenter explain pod/", 0, "kubernetes.io/arch"),
            ("karpenter plan", 3, "would help"),
            ("kubectl get events", 0, "FailedScheduling"),
        ],
    },
    &AtWork {
        page: "docs/guides/why-is-my-node-not-consolidated.md",
        before: &[
            PRESENT_POOL,
            PRESENT_PODS,
            "kubectl annotate pods --all karpenter.sh/do-not-disrupt=true",
            // Looked at again when the pool's `consolidateAfter` is over, at the latest.
            "until karpenter explain | grep --quiet do-not-disrupt; do sleep 1; done",
        ],
        sections: &["## Look", "## The command that answers it"],
        special: &[("karpenter explain node/", 0, "do-not-disrupt"), ("karpenter plan", 0, "do-not-disrupt")],
    },
    &AtWork {
        page: "docs/guides/why-this-instance-type.md",
        before: &[PRESENT_POOL, PRESENT_PODS],
        sections: &["## Look", "## The command that answers it"],
        special: &[
            ("karpenter plan", -1, "large"),
            ("karpenter explain nodeclaim/", 0, "launch answered"),
            ("karpenter render", 0, "## Launch template of on-demand instances"),
        ],
    },
    &AtWork {
        page: "docs/guides/what-does-it-cost.md",
        before: &[PRESENT_POOL, PRESENT_PODS],
        sections: &["## Look", "## The command that answers it"],
        special: &[("karpenter view --once", 0, "an hour"), ("karpenter plan", -1, "Per hour")],
    },
];

/// Sections of a page that need a controller and machines at work.
pub(super) struct AtWork {
    pub(super) page: &'static str,
    /// Commands that bring about the state the reader starts from.
    pub(super) before: &'static [&'static str],
    pub(super) sections: &'static [&'static str],
    /// Exit codes and texts that are special there.
    pub(super) special: &'static [Expected],
}

/// Follows pages one after the other in one world in which the account is ready and the controller runs. What a page has
/// made is taken away before the next.
pub(super) async fn at_work(name: &str, pages: &[&AtWork]) {
    if !can_run(name, &["bash", "kubectl", "jq", "aws"]).await {
        return;
    }
    let world = World::start(behaviours::options(behaviours::folder(name))).await.expect("the world starts");
    world.install().await.expect("the controller is installed");
    let desk = Desk::at_work(&world).unwrap();
    for (index, page) in pages.iter().enumerate() {
        let clear = (index > 0).then_some(CLEAR);
        let before = clear.iter().chain(page.before).map(|command| (*command).to_owned());
        let steps = page.sections.iter().flat_map(|section| commands(page.page, section));
        let all: Vec<String> = before.chain(steps).collect();
        let followed = desk.follow_and_expect(&all, page.special).await;
        if let Err(error) = followed {
            world.dump().await;
            panic!("{}: {error:#}", page.page);
        }
    }
    world.stop().await.expect("everything ends");
}

/// Follows guides one after the other, each from a cluster and an account on in which nothing was done yet.
async fn follow(guides: &[&Guide]) {
    if !can_run("docs/guides", &["bash", "kubectl", "aws"]).await {
        return;
    }
    let account = account().await.expect("the account starts");
    let cluster = LocalCluster::start(local::Options::default()).await.expect("the control plane starts");
    let empty = objects::all(&cluster.client()).await.unwrap().into_keys().collect();
    for guide in guides {
        account.control().renew(CLUSTER, REGION, &Options::default().kubernetes).await.unwrap();
        objects::remove_all_but(&cluster.client(), &empty).await.unwrap();
        furnish(&cluster).await.unwrap();
        let desk = Desk::new(&account, Some(cluster.kubeconfig())).unwrap();
        for part in guide.parts {
            let before = part.before.iter().map(|command| (*command).to_owned());
            let steps = part.sections.iter().flat_map(|section| commands(guide.page, section));
            let all: Vec<String> = before.chain(steps).collect();
            desk.follow(&all).await.unwrap_or_else(|error| panic!("{}: {error:#}", guide.page));
        }
    }
    cluster.stop().await.unwrap();
    account.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_are_as_their_pages_say() {
    let guides: Vec<&Guide> = GUIDES.iter().chain([&FIRST_BLOG_ACCOUNT]).collect();
    follow(&guides).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_pods_and_the_questions_people_ask_are_as_the_pages_say() {
    let pages: Vec<&AtWork> = std::iter::once(&FIRST_PODS).chain(QUESTIONS.iter().copied()).collect();
    at_work("questions", &pages).await;
}

/// Fails unless every section of the page with commands is in a part of the guides of that page.
pub(super) fn nothing_left_out(page: &str, sections: &[&str]) {
    let text = fs::read_to_string(prepare::cache::repository().join(page)).unwrap();
    for section in text.split("\n## ").skip(1).filter(|section| section.contains("```sh")) {
        let heading = format!("## {}", section.lines().next().unwrap_or_default());
        assert!(sections.contains(&heading.as_str()), "no test follows the section `{heading}` of {page}");
    }
}

/// The pages in a folder of the repository, by path from its root.
pub(super) fn pages(folder: &str) -> Vec<String> {
    let repository = prepare::cache::repository();
    let entries = fs::read_dir(repository.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension() == Some(OsStr::new("md")));
    pages.map(|path| path.strip_prefix(repository).unwrap().display().to_string()).collect()
}

#[test]
fn no_section_of_a_guide_is_left_out() {
    let at_work = std::iter::once(&FIRST_PODS).chain(QUESTIONS.iter().copied());
    for page in pages("docs/guides") {
        let bare = GUIDES.iter().filter(|guide| guide.page == page).flat_map(|guide| guide.parts);
        let bare = bare.flat_map(|part| part.sections);
        let busy = at_work.clone().filter(|page_at_work| page_at_work.page == page);
        let busy = busy.flat_map(|page_at_work| page_at_work.sections);
        let followed: Vec<&str> = bare.chain(busy).copied().collect();
        assert!(!followed.is_empty(), "no test follows `{page}`");
        nothing_left_out(&page, &followed);
    }
}
