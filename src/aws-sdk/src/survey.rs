//! Queries of a diagnosis, over the SDK of each service concerned.

use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_ec2::types::{Filter, Route, RouteState};
use aws_sdk_iam::types::{ContextEntry, ContextKeyTypeEnum, EvaluationResult, PolicyEvaluationDecisionType};

use super::call::{Call, each_page};
use super::meter::{Meter, measured};
use karpenter_aws_api::Result;
use karpenter_aws_api::id::VpcId;
use karpenter_aws_api::survey::{
    Key, RouteTable, SimulatedDecision, Simulation, Survey, VolumeEncryption, VpcEndpoint,
};

#[derive(Clone, Debug)]
pub(super) struct Client {
    ec2: aws_sdk_ec2::Client,
    iam: aws_sdk_iam::Client,
    kms: aws_sdk_kms::Client,
    quotas: aws_sdk_servicequotas::Client,
}

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self {
            ec2: measured!(aws_sdk_ec2, config, meter),
            iam: measured!(aws_sdk_iam, config, meter),
            kms: measured!(aws_sdk_kms, config, meter),
            quotas: measured!(aws_sdk_servicequotas, config, meter),
        }
    }
}

fn of_vpc(vpc: &VpcId) -> Filter {
    Filter::builder().name("vpc-id").values(vpc.as_str()).build()
}

#[async_trait]
impl Survey for Client {
    async fn volume_encryption(&self) -> Result<VolumeEncryption> {
        let call = Call::new("GetEbsEncryptionByDefault", "region");
        let request = self.ec2.get_ebs_encryption_by_default();
        let answer = request.send().await.map_err(|failure| call.failed(failure))?;
        let by_default = call.field(answer.ebs_encryption_by_default, "ebsEncryptionByDefault")?;
        let call = Call::new("GetEbsDefaultKmsKeyId", "region");
        let request = self.ec2.get_ebs_default_kms_key_id();
        let answer = request.send().await.map_err(|failure| call.failed(failure))?;
        Ok(VolumeEncryption { by_default, key: call.field(answer.kms_key_id, "kmsKeyId")? })
    }

    async fn vpc_endpoints(&self, vpc: &VpcId) -> Result<Vec<VpcEndpoint>> {
        let call = Call::new("DescribeVpcEndpoints", vpc.as_str());
        let request = self.ec2.describe_vpc_endpoints().filters(of_vpc(vpc));
        let mut endpoints = Vec::new();
        each_page!(call, request.into_paginator(), next_token, |page| {
            for found in page.vpc_endpoints.unwrap_or_default() {
                let has_names = found.vpc_endpoint_type.is_some_and(|kind| kind.as_str() == "Interface");
                endpoints.push(VpcEndpoint {
                    id: call.field(found.vpc_endpoint_id, "vpcEndpointId")?,
                    vpc: call.field(found.vpc_id, "vpcId")?.into(),
                    service: call.field(found.service_name, "serviceName")?,
                    state: call.field(found.state, "state")?.as_str().to_lowercase(),
                    private_names: has_names.then(|| found.private_dns_enabled.unwrap_or(false)),
                });
            }
        });
        Ok(endpoints)
    }

    async fn route_tables(&self, vpc: &VpcId) -> Result<Vec<RouteTable>> {
        let call = Call::new("DescribeRouteTables", vpc.as_str());
        let request = self.ec2.describe_route_tables().filters(of_vpc(vpc));
        let mut tables = Vec::new();
        each_page!(call, request.into_paginator(), next_token, |page| {
            for found in page.route_tables.unwrap_or_default() {
                let associations = found.associations.unwrap_or_default();
                let ways_out: Vec<Route> =
                    found.routes.unwrap_or_default().into_iter().filter(leads_out).collect();
                tables.push(RouteTable {
                    id: call.field(found.route_table_id, "routeTableId")?,
                    vpc: call.field(found.vpc_id, "vpcId")?.into(),
                    is_main: associations.iter().any(|association| association.main == Some(true)),
                    subnets: associations
                        .into_iter()
                        .filter_map(|association| association.subnet_id.map(Into::into))
                        .collect(),
                    leads_out: !ways_out.is_empty(),
                    is_public: ways_out.iter().any(is_public),
                });
            }
        });
        Ok(tables)
    }

    async fn key(&self, key: &str) -> Result<Key> {
        let call = Call::new("DescribeKey", key);
        let request = self.kms.describe_key().key_id(key);
        let answer = request.send().await.map_err(|failure| call.failed(failure))?;
        let arn = call.field(answer.key_metadata.and_then(|found| found.arn), "KeyMetadata.Arn")?;
        let call = Call::new("GetKeyPolicy", key);
        let request = self.kms.get_key_policy().key_id(&arn);
        let answer = request.send().await.map_err(|failure| call.failed(failure))?;
        Ok(Key { policy: call.field(answer.policy, "Policy")?, arn })
    }

    async fn quota(&self, service: &str, code: &str) -> Result<u64> {
        let call = Call::new("GetServiceQuota", format!("{service}/{code}"));
        let request = self.quotas.get_service_quota().service_code(service).quota_code(code);
        let answer = request.send().await.map_err(|failure| call.failed(failure))?;
        let value = call.field(answer.quota.and_then(|quota| quota.value), "Quota.Value")?;
        whole(value).ok_or_else(|| call.invalid(format!("`{value}` is not a quota")))
    }

    async fn identity_limits(&self) -> Result<BTreeMap<String, u64>> {
        let call = Call::new("GetAccountSummary", "account");
        let request = self.iam.get_account_summary();
        let answer = request.send().await.map_err(|failure| call.failed(failure))?;
        let summary = call.field(answer.summary_map, "SummaryMap")?;
        Ok(summary
            .into_iter()
            .filter_map(|(key, value)| Some((key.as_str().to_owned(), u64::try_from(value).ok()?)))
            .collect())
    }

    async fn simulate(&self, request: &Simulation) -> Result<Vec<SimulatedDecision>> {
        let call = Call::new("SimulatePrincipalPolicy", request.principal.as_str());
        let context = request.context.iter().map(|(key, value)| {
            ContextEntry::builder()
                .context_key_name(key)
                .context_key_values(value)
                .context_key_type(ContextKeyTypeEnum::String)
                .build()
        });
        let pages = self
            .iam
            .simulate_principal_policy()
            .policy_source_arn(request.principal.as_str())
            .set_action_names(Some(request.actions.clone()))
            .resource_arns(&request.resource)
            .set_context_entries(Some(context.collect()))
            .into_paginator();
        let mut found = BTreeMap::new();
        each_page!(call, pages, marker, |page| {
            for result in page.evaluation_results.unwrap_or_default() {
                found.insert(result.eval_action_name.clone(), verdict(&result));
            }
        });
        let in_order = request.actions.iter().map(|action| {
            found.remove(action).ok_or_else(|| call.missing(&format!("EvaluationResults of {action}")))
        });
        in_order.collect()
    }
}

/// Everything, or the networks of a list: which those are is not asked, so they may be all it takes. What gateway
/// endpoints serve is a list, too, but only one service; a black hole leads nowhere.
fn leads_out(route: &Route) -> bool {
    let is_endpoint = route.gateway_id.as_deref().is_some_and(|gateway| gateway.starts_with("vpce-"));
    let is_wide = route.destination_cidr_block.as_deref() == Some("0.0.0.0/0")
        || route.destination_ipv6_cidr_block.as_deref() == Some("::/0")
        || route.destination_prefix_list_id.is_some();
    is_wide && !is_endpoint && route.state != Some(RouteState::Blackhole)
}

fn is_public(route: &Route) -> bool {
    route.gateway_id.as_deref().is_some_and(|gateway| gateway.starts_with("igw-"))
}

/// Quotas are whole numbers that AWS sends as floats. Beyond 2^53 there are none.
fn whole(value: f64) -> Option<u64> {
    if !(0.0..=9_007_199_254_740_992.0).contains(&value) {
        return None;
    }
    format!("{:.0}", value.floor()).parse().ok()
}

fn verdict(result: &EvaluationResult) -> SimulatedDecision {
    SimulatedDecision {
        action: result.eval_action_name.clone(),
        is_allowed: result.eval_decision == PolicyEvaluationDecisionType::Allowed,
        by_boundary: result
            .permissions_boundary_decision_detail
            .as_ref()
            .map(|detail| detail.allowed_by_permissions_boundary),
        by_organization: result
            .organizations_decision_detail
            .as_ref()
            .map(|detail| detail.allowed_by_organizations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_out_may_be_of_ipv6_or_a_list_but_no_endpoint() {
        let nat = || Route::builder().nat_gateway_id("nat-1").destination_cidr_block("0.0.0.0/0");
        let list = || Route::builder().destination_prefix_list_id("pl-1");
        for (route, expected) in [
            (nat(), true),
            (nat().state(RouteState::Blackhole), false),
            (nat().destination_cidr_block("10.0.0.0/8"), false),
            (Route::builder().destination_ipv6_cidr_block("::/0"), true),
            (list().transit_gateway_id("tgw-1"), true),
            (list().gateway_id("vpce-1"), false),
        ] {
            let route = route.build();
            assert_eq!(leads_out(&route), expected, "{route:?}");
        }
    }

    #[test]
    fn quotas_are_whole_numbers() {
        for (value, expected) in [(0.0, Some(0)), (5.0, Some(5)), (64.9, Some(64)), (-1.0, None)] {
            assert_eq!(whole(value), expected, "{value}");
        }
        assert_eq!(whole(f64::NAN), None);
        assert_eq!(whole(f64::INFINITY), None);
    }
}
