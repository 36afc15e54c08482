//! Subnets that nodes are launched into, unless the operator names them.
//!
//! The cluster's own subnets are those of its control plane: often the private ones that nodes are in, but also public
//! ones, or subnets without any route that nodes would never join from. So a subnet counts when it carries the tag by
//! which the load balancer controller finds private subnets, or when its default route leads elsewhere than to an
//! internet gateway. If the cluster has none of either, its VPC is looked through.

use karpenter_aws_api::ec2::{Subnet, SubnetQuery};
use karpenter_aws_api::id::{SubnetId, VpcId};
use karpenter_aws_api::survey::RouteTable;
use karpenter_aws_api::{Clients, Filter, eks};

use crate::Error;
use crate::desired::DISCOVERY_TAG;
use crate::settings::Settings;

/// Tag of private subnets that internal load balancers may use.
const PRIVATE_TAG: &str = "kubernetes.io/role/internal-elb";

/// The subnets named by settings, else those found as above; and those of the VPC that carry the discovery tag already.
pub(super) async fn of_nodes(
    clients: &Clients,
    settings: &Settings,
    cluster: &eks::Cluster,
) -> Result<Vec<Subnet>, Error> {
    let mut chosen = if settings.subnets.is_empty() {
        private(clients, settings, cluster).await?
    } else {
        let ids = settings.subnets.iter().map(|id| SubnetId::from(id.as_str())).collect();
        read(clients, ids, Vec::new()).await?
    };
    if let Some(vpc) = &cluster.vpc {
        let tagged = vec![of_vpc(vpc), Filter::tag(DISCOVERY_TAG, &settings.cluster)];
        chosen.extend(read(clients, Vec::new(), tagged).await?);
    }
    chosen.sort_by(|a, b| a.id.cmp(&b.id));
    chosen.dedup_by(|a, b| a.id == b.id);
    Ok(chosen)
}

async fn private(
    clients: &Clients,
    settings: &Settings,
    cluster: &eks::Cluster,
) -> Result<Vec<Subnet>, Error> {
    let own = match cluster.subnets.as_slice() {
        [] => Vec::new(),
        ids => read(clients, ids.to_vec(), Vec::new()).await?,
    };
    let found = tagged(&own);
    if !found.is_empty() {
        return Ok(found);
    }
    let Some(vpc) = &cluster.vpc else { return Ok(Vec::new()) };
    let routes = clients.survey.route_tables(vpc).await;
    let routes = routes.map_err(Error::observing(format!("the route tables of `{vpc}`")))?;
    let found = routed(&own, &routes);
    if !found.is_empty() {
        return Ok(found);
    }
    let mut all = read(clients, Vec::new(), vec![of_vpc(vpc)]).await?;
    // The operator did not name these, so what is another cluster's is passed over and not in the way.
    all.retain(|subnet| subnet.tags.get(DISCOVERY_TAG).is_none_or(|owner| *owner == settings.cluster));
    let found = tagged(&all);
    Ok(if found.is_empty() { routed(&all, &routes) } else { found })
}

fn tagged(subnets: &[Subnet]) -> Vec<Subnet> {
    let private = |subnet: &&Subnet| {
        let tag = subnet.tags.get(PRIVATE_TAG).map(String::as_str);
        matches!(tag, Some("1" | "")) && !subnet.public_by_default
    };
    subnets.iter().filter(private).cloned().collect()
}

/// A VPC that another account shares shows no route tables; then only their default for public addresses is known.
fn routed(subnets: &[Subnet], tables: &[RouteTable]) -> Vec<Subnet> {
    let private = |subnet: &&Subnet| {
        if tables.is_empty() {
            return !subnet.public_by_default;
        }
        let own = tables.iter().find(|table| table.subnets.contains(&subnet.id));
        let table = own.or_else(|| tables.iter().find(|table| table.is_main && table.vpc == subnet.vpc));
        !subnet.public_by_default && table.is_some_and(|table| table.leads_out && !table.is_public)
    };
    subnets.iter().filter(private).cloned().collect()
}

fn of_vpc(vpc: &VpcId) -> Filter {
    Filter::new("vpc-id", [vpc.as_str()])
}

async fn read(clients: &Clients, ids: Vec<SubnetId>, filters: Vec<Filter>) -> Result<Vec<Subnet>, Error> {
    let found = clients.ec2.describe_subnets(&SubnetQuery { ids, filters }).await;
    found.map_err(Error::observing("the cluster's subnets"))
}
