//! Subnets that get the discovery tag when none is named.

use std::collections::BTreeSet;

use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{Subnet, SubnetQuery};
use karpenter_aws_api::id::SubnetId;
use karpenter_aws_api::survey::RouteTable;
use karpenter_bootstrap::check::State;
use karpenter_bootstrap::desired::DISCOVERY_TAG;
use karpenter_bootstrap::settings::Selection;
use karpenter_bootstrap::step::{Step, Tagged};

use crate::account::Fixture;

const PRIVATE: &str = "kubernetes.io/role/internal-elb";

/// Target of a subnet's default route.
#[derive(Clone, Copy)]
enum DefaultRoute {
    Nowhere,
    Internet,
    Nat,
}

async fn subnets(fixture: &Fixture) -> Vec<Subnet> {
    fixture.clients.ec2.describe_subnets(&SubnetQuery::default()).await.unwrap()
}

/// Gives the subnet a route table of its own.
fn route(fixture: &Fixture, subnet: &Subnet, way: DefaultRoute) {
    fixture.account.put_route_table(RouteTable {
        id: format!("rtb-of-{}", subnet.id),
        vpc: subnet.vpc.clone(),
        is_main: false,
        subnets: vec![subnet.id.clone()],
        leads_out: !matches!(way, DefaultRoute::Nowhere),
        is_public: matches!(way, DefaultRoute::Internet),
    });
}

async fn tag(fixture: &Fixture, subnet: &Subnet, key: &str, value: &str) {
    let tags = Tags::from([(key.to_owned(), value.to_owned())]);
    fixture.clients.ec2.create_tags(&[subnet.id.to_string()], &tags).await.unwrap();
}

/// The control plane is in these subnets.
async fn control_plane(fixture: &Fixture, subnets: &[&Subnet]) {
    let mut cluster = fixture.clients.eks.describe_cluster("demo").await.unwrap();
    cluster.subnets = subnets.iter().map(|subnet| subnet.id.clone()).collect();
    fixture.account.put_cluster(cluster);
}

/// The subnets that would be tagged.
async fn chosen(fixture: &Fixture) -> BTreeSet<SubnetId> {
    let plan = fixture.plan().await;
    assert_eq!(plan.conflicts, Vec::<String>::new());
    let subnet = |step: &Step| match step {
        Step::Tag { object: Tagged::Subnet(id), .. } => Some(SubnetId::from(id.as_str())),
        _ => None,
    };
    plan.steps.iter().filter_map(subnet).collect()
}

fn ids(subnets: &[&Subnet]) -> BTreeSet<SubnetId> {
    subnets.iter().map(|subnet| subnet.id.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn of_the_clusters_subnets_those_for_internal_load_balancers() {
    let fixture = Fixture::fresh().await;
    let [a, b, _, _] = subnets(&fixture).await.try_into().unwrap();
    for subnet in [&a, &b] {
        tag(&fixture, subnet, PRIVATE, "1").await;
    }
    fixture.account.forget_calls();
    assert_eq!(chosen(&fixture).await, ids(&[&a, &b]));
    assert_eq!(fixture.account.calls().count("DescribeRouteTables"), 0, "the tag says enough");
}

#[tokio::test(start_paused = true)]
async fn of_untagged_subnets_those_whose_way_out_is_no_internet_gateway() {
    let fixture = Fixture::fresh().await;
    let [a, b, c, d] = subnets(&fixture).await.try_into().unwrap();
    route(&fixture, &a, DefaultRoute::Internet);
    route(&fixture, &b, DefaultRoute::Nowhere);
    route(&fixture, &c, DefaultRoute::Nat);
    // The main table holds for the last one.
    assert_eq!(chosen(&fixture).await, ids(&[&c, &d]));
    let public = Subnet { public_by_default: true, ..d };
    fixture.account.put_subnet(public);
    assert_eq!(chosen(&fixture).await, ids(&[&c]));
}

/// The usual layout of a cluster whose control plane has subnets of its own.
#[tokio::test(start_paused = true)]
async fn the_control_planes_own_subnets_without_a_route_are_passed_over() {
    let fixture = Fixture::fresh().await;
    let [a, b, c, d] = subnets(&fixture).await.try_into().unwrap();
    control_plane(&fixture, &[&a, &b]).await;
    for subnet in [&a, &b] {
        route(&fixture, subnet, DefaultRoute::Nowhere);
    }
    assert_eq!(chosen(&fixture).await, ids(&[&c, &d]), "of its VPC those with a way out");
    tag(&fixture, &d, PRIVATE, "1").await;
    assert_eq!(chosen(&fixture).await, ids(&[&d]), "of its VPC those for internal load balancers");
    tag(&fixture, &c, PRIVATE, "1").await;
    tag(&fixture, &d, DISCOVERY_TAG, "other").await;
    assert_eq!(chosen(&fixture).await, ids(&[&c]), "none that is another cluster's");
}

#[tokio::test(start_paused = true)]
async fn without_a_private_subnet_one_has_to_be_named() {
    let mut fixture = Fixture::fresh().await;
    let all = subnets(&fixture).await;
    for subnet in &all {
        route(&fixture, subnet, DefaultRoute::Internet);
    }
    let conflicts = fixture.plan().await.conflicts;
    assert!(conflicts[0].contains("--subnet") && conflicts[0].contains("internal-elb"), "{conflicts:?}");
    fixture.settings.subnets = vec![all[0].id.to_string(), all[1].id.to_string()];
    assert_eq!(chosen(&fixture).await, ids(&[&all[0], &all[1]]));
    fixture.apply().await.unwrap();
    fixture.settings.subnets = Vec::new();
    assert!(fixture.plan().await.is_empty(), "what carries the tag is enough");
}

#[tokio::test(start_paused = true)]
async fn subnets_that_classes_select_by_id_need_no_tag() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.selection = Selection::ByOthers;
    fixture.apply().await.unwrap();
    let report = fixture.check().await;
    assert!(report.findings.iter().all(|finding| finding.state == State::Ready), "{}", report.text());
}
