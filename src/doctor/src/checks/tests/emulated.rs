//! Faults of the cases in an emulated account and on an API server in memory, through every question the doctor asks.
//!
//! The world of a case is built from its facts: each answer becomes the calls and objects that would have led
//! to it. Only the controller's log, which an API server has from a kubelet, is taken over as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_aws_api::ec2::{CapacityReservation, SecurityGroup, SecurityGroupQuery, Subnet, SubnetQuery};
use karpenter_aws_api::eks::{AccessEntrySpec, PodIdentitySpec};
use karpenter_aws_api::events::{RuleSpec, Target};
use karpenter_aws_api::iam::{OidcProvider, PolicySpec, RoleSpec};
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::survey::{self, VolumeEncryption, VpcEndpoint};
use karpenter_aws_api::{Clients, Tags};
use karpenter_aws_sim::examples::capacity_reservation;
use karpenter_aws_sim::{Account, Options};
use karpenter_kube_sim::VirtualClock;
use karpenter_kube_sim::apiserver::ApiServer;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

use super::world::{KINDS, recorded, trust};
use super::{cases, healthy, unlooked};
use crate::diagnose::{Health, Report, diagnose};
use crate::facts::{Answer, Facts, Key, Queue, Right};
use crate::gather;

const VPC: &str = "vpc-0a0a0a0a0a0a0a0a0";
const DISCOVERY: &str = "karpenter.sh/discovery";

/// An API server with the objects of the facts, made two hours before they are looked at.
async fn cluster(facts: &Facts) -> Result<ApiServer, String> {
    let start = facts.now - jiff::SignedDuration::from_hours(2);
    let server = ApiServer::new(Arc::new(VirtualClock::starting_at(start)));
    for namespace in ["karpenter", "shop"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.load(&object).map_err(|refusal| format!("{refusal:?}"))?;
    }
    let answers = serde_json::to_value(&facts.cluster).unwrap();
    for (_, field, plural) in KINDS {
        for object in answers[field]["seen"].as_array().into_iter().flatten() {
            load(&server, object, plural).await.map_err(|error| format!("{object}: {error}"))?;
        }
    }
    Ok(server)
}

/// Makes the object with its status, and deletes it if its deletion has begun in the facts.
async fn load(server: &ApiServer, object: &Value, plural: &str) -> Result<(), String> {
    server.load(object).map_err(|refusal| format!("{refusal:?}"))?;
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").rsplit_once('/').unwrap_or(("", text("/apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("/kind"));
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    let name = text("/metadata/name");
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(server.client(), &resource),
        namespace => Api::namespaced_with(server.client(), namespace, &resource),
    };
    let status = &object["status"];
    if status.as_object().is_some_and(|status| !status.is_empty()) {
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = api.patch_status(name, &PatchParams::default(), &patch).await;
        patched.map_err(|error| error.to_string())?;
    }
    if !text("/metadata/deletionTimestamp").is_empty() {
        api.delete(name, &DeleteParams::default()).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// An account in which AWS gives the answers of the facts.
async fn account(facts: &Facts) -> Account {
    let of = &facts.account;
    let eks = of.eks.get().unwrap().as_ref();
    let name = if eks.is_some() { facts.cluster_name.as_str() } else { "elsewhere" };
    let account = Account::new(Options {
        cluster: name.to_owned(),
        zones: 1,
        spot_service_linked_role: *of.spot_role.get().unwrap(),
        ..Options::default()
    });
    let clients = account.clients();
    network(&account, &clients, facts).await;
    identity(&account, &clients, facts).await;
    for (name, queue) in of.queues.get().unwrap() {
        if let Some(queue) = queue {
            make_queue(&clients, name, queue).await;
        }
    }
    if let Some(eks) = eks {
        let mut cluster = clients.eks.describe_cluster(name).await.unwrap();
        cluster.authentication_mode.clone_from(&eks.authentication_mode);
        cluster.zonal_shift = eks.zonal_shift;
        account.put_cluster(cluster);
        admit(&clients, name, facts).await;
    }
    surround(&account, facts);
    account
}

/// Subnets and groups of the facts in place of those a new account has.
async fn network(account: &Account, clients: &Clients, facts: &Facts) {
    let subnets = clients.ec2.describe_subnets(&SubnetQuery::default()).await.unwrap();
    let groups = clients.ec2.describe_security_groups(&SecurityGroupQuery::default()).await.unwrap();
    let ids = subnets.iter().map(|subnet| subnet.id.to_string());
    let ids: Vec<String> = ids.chain(groups.iter().map(|group| group.id.to_string())).collect();
    clients.ec2.delete_tags(&ids, &[DISCOVERY.to_owned()]).await.unwrap();
    let discovery = Tags::from([(DISCOVERY.to_owned(), facts.cluster_name.clone())]);
    for subnet in facts.account.subnets.get().unwrap() {
        account.put_subnet(Subnet {
            id: subnet.id.as_str().into(),
            vpc: VPC.into(),
            zone: subnet.zone.as_str().into(),
            zone_id: None,
            free_addresses: subnet.free_addresses,
            cidr: "10.1.0.0/18".to_owned(),
            public_by_default: false,
            tags: discovery.clone(),
        });
    }
    for group in facts.account.security_groups.get().unwrap() {
        let mut tags = discovery.clone();
        tags.extend(group.tags.clone());
        account.put_security_group(SecurityGroup {
            id: group.id.as_str().into(),
            name: group.id.clone(),
            vpc: Some(VPC.into()),
            tags,
        });
    }
}

async fn make_policy(clients: &Clients, name: &str, statements: Vec<Value>) -> Arn {
    let spec = PolicySpec {
        name: name.to_owned(),
        path: "/".to_owned(),
        description: String::new(),
        document: json!({"Version": "2012-10-17", "Statement": statements}).to_string(),
        tags: Tags::new(),
    };
    clients.iam.create_policy(&spec).await.unwrap().arn
}

async fn make_role(clients: &Clients, name: &str, path: &str, trust: String, boundary: Option<Arn>) {
    let spec = RoleSpec {
        name: name.to_owned(),
        path: path.to_owned(),
        description: String::new(),
        trust,
        permissions_boundary: boundary,
        tags: Tags::new(),
    };
    clients.iam.create_role(&spec).await.unwrap();
}

/// Makes roles with as many policies as the facts have; the controller's first one grants the rights of the facts.
async fn identity(account: &Account, clients: &Clients, facts: &Facts) {
    let rights = facts.account.rights.get().unwrap();
    let refused = |by: fn(&Right) -> Option<bool>| rights.iter().any(|right| by(right) == Some(false));
    let boundary = if refused(|right| right.by_boundary) {
        Some(make_policy(clients, "bounds", vec![]).await)
    } else {
        None
    };
    if refused(|right| right.by_organization) {
        let denied = rights.iter().filter(|right| right.by_organization == Some(false));
        account.deny_in_organization(&denied.map(|right| right.action.as_str()).collect::<Vec<_>>());
    }
    let statement = |effect: &str, action: &str, resource: &str| json!({"Effect": effect, "Action": action, "Resource": resource});
    let own =
        |right: &&Right| !right.allowed && right.by_boundary.is_none() && right.by_organization.is_none();
    let mut grants = vec![statement("Allow", "*", "*")];
    grants.extend(rights.iter().filter(own).map(|right| statement("Deny", &right.action, &right.resource)));
    grants.push(statement("Deny", "kms:*", "*"));
    let grants = make_policy(clients, "grants", grants).await;
    for (name, role) in facts.account.roles.get().unwrap() {
        let Some(role) = role else { continue };
        let is_controller = role.arn.ends_with("-karpenter");
        let boundary = boundary.clone().filter(|_| is_controller);
        make_role(clients, name, &role.path, role.trust.clone(), boundary).await;
        for number in 0..role.policies {
            let policy = match number {
                0 if is_controller => grants.clone(),
                _ => make_policy(clients, &format!("{name}-{number}"), vec![]).await,
            };
            clients.iam.attach_role_policy(name, &policy).await.unwrap();
        }
    }
}

async fn make_queue(clients: &Clients, name: &str, queue: &Queue) {
    let key = queue.kms_key.iter().map(|key| ("KmsMasterKeyId".to_owned(), key.clone()));
    let url = clients.sqs.create_queue(name, &key.collect(), &queue.tags).await.unwrap();
    let arn = clients.sqs.get_queue_attributes(&url).await.unwrap()["QueueArn"].clone();
    for rule in &queue.rules {
        let spec = RuleSpec {
            name: rule.clone(),
            description: String::new(),
            pattern: r#"{"source":["aws.ec2"]}"#.to_owned(),
            tags: Tags::new(),
        };
        clients.events.put_rule(&spec).await.unwrap();
        let target = Target { id: "queue".to_owned(), arn: arn.as_str().into() };
        clients.events.put_targets(rule, &[target]).await.unwrap();
    }
}

/// Access entries, and the role of the controller's service account.
async fn admit(clients: &Clients, cluster: &str, facts: &Facts) {
    for entry in facts.account.access_entries.get().unwrap() {
        // Principals of entries are roles that exist, also those the doctor has no reason to ask for.
        let name = entry.principal.rsplit('/').next().unwrap();
        if clients.iam.get_role(name).await.is_err() {
            make_role(clients, name, "/", trust("ec2.amazonaws.com"), None).await;
        }
        let principal = entry.principal.as_str().into();
        let spec = AccessEntrySpec { principal, kind: entry.kind.clone(), tags: Tags::new() };
        clients.eks.create_access_entry(cluster, &spec).await.unwrap();
    }
    if let Some(role) = facts.account.pod_identity.get().unwrap() {
        let spec = PodIdentitySpec {
            namespace: "karpenter".to_owned(),
            service_account: "karpenter".to_owned(),
            role: role.as_str().into(),
            tags: Tags::new(),
        };
        clients.eks.create_pod_identity_association(cluster, &spec).await.unwrap();
    }
}

/// Adds to the account what no call can make.
fn surround(account: &Account, facts: &Facts) {
    let of = &facts.account;
    if of.identity_provider == Answer::Seen(Some(true)) {
        let issuer = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE";
        let provider =
            OidcProvider { url: issuer.to_owned(), client_ids: vec!["sts.amazonaws.com".to_owned()] };
        account.put_oidc_provider(
            format!("arn:aws:iam::123456789012:oidc-provider/{issuer}").as_str().into(),
            provider,
        );
    }
    for (name, value) in of.identity_limits.get().unwrap() {
        account.set_identity_limit(name, *value);
    }
    let volumes = of.volumes.get().unwrap();
    account
        .set_volume_encryption(VolumeEncryption { by_default: volumes.encrypted, key: volumes.key.clone() });
    for (key, policy) in of.keys.get().unwrap() {
        let Key { arn, policy } = policy.get().unwrap().clone();
        account.put_key(key, survey::Key { arn, policy });
    }
    account.set_way_out(of.closed_subnets.get().unwrap().is_empty());
    for endpoint in of.endpoints.get().unwrap() {
        account.put_vpc_endpoint(VpcEndpoint {
            id: endpoint.id.clone(),
            vpc: VPC.into(),
            service: endpoint.service.clone(),
            state: endpoint.state.clone(),
            private_names: endpoint.private_names,
        });
    }
    let quotas = of.vcpu_quotas.get().unwrap();
    for (capacity, code) in [("on-demand", "L-1216C47A"), ("spot", "L-34B43A08")] {
        account.set_reported_quota("ec2", code, quotas[capacity]);
    }
    for reservation in of.reservations.get().unwrap() {
        account.put_capacity_reservation(CapacityReservation {
            match_criteria: reservation.match_criteria.clone(),
            state: reservation.state.clone(),
            instance_type: reservation.instance_type.as_str().into(),
            zone: reservation.zone.as_str().into(),
            available: reservation.available,
            ..capacity_reservation(&reservation.id)
        });
    }
}

/// Returns the doctor's report on the world of these facts; the account has recorded its calls.
async fn examine(facts: &Facts) -> Result<(Report, Account), String> {
    let server = cluster(facts).await?;
    let account = account(facts).await;
    account.forget_calls();
    let mut found = Facts::new(&facts.cluster_name, facts.names.clone(), facts.now);
    found.cluster = gather::cluster(&server.client()).await;
    found.cluster.log = facts.cluster.log.clone();
    found.account = gather::account(&account.clients(), &found).await;
    // A reader who has nothing but the exported files must come to the same.
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    crate::facts::export(&found, folder.path()).map_err(|error| error.to_string())?;
    let elsewhere = crate::facts::import(folder.path()).map_err(|error| error.to_string())?;
    let report = diagnose(&found, &[]);
    assert_eq!(diagnose(&elsewhere, &[]), report);
    Ok((report, account))
}

#[tokio::test]
async fn an_emulated_world_in_which_nothing_is_wrong_is_healthy() {
    let (report, _) = examine(&healthy()).await.unwrap();
    assert_eq!((report.findings, report.unseen), (vec![], vec![]));
}

#[tokio::test]
async fn a_new_eks_cluster_is_healthy_when_asked_for_everything() {
    let (report, _) = examine(&recorded()).await.unwrap();
    assert_eq!((report.health(), report.unseen), (Health::Healthy, vec![]), "{:#?}", report.findings);
}

#[tokio::test]
async fn each_fault_in_an_emulated_world_is_found_by_its_check_alone() {
    let mut wrong = BTreeMap::new();
    for (number, (id, fault)) in cases().into_iter().enumerate() {
        let mut facts = healthy();
        fault(&mut facts);
        let outcome = match examine(&facts).await {
            Err(refused) => refused,
            Ok((report, _)) => {
                let found: Vec<_> = report.findings.iter().map(|finding| finding.id).collect();
                // Without a cluster EKS refuses to list what belongs to it.
                let blind = matches!(facts.account.eks, Answer::Seen(None));
                if found == [id] && (blind || unlooked(&report).is_empty()) {
                    continue;
                }
                format!("{:#?} {:?}", report.findings, report.unseen)
            }
        };
        wrong.insert((number, id), outcome);
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases().len());
}

#[tokio::test]
async fn nothing_is_asked_that_is_not_declared() {
    let (_, account) = examine(&healthy()).await.unwrap();
    let declared: Vec<&str> =
        gather::PERMISSIONS.iter().filter_map(|action| action.split(':').nth(1)).collect();
    let asked: std::collections::BTreeSet<&str> =
        account.calls().0.iter().map(|call| call.operation).collect::<Vec<_>>().into_iter().collect();
    for operation in &asked {
        assert!(declared.contains(operation), "{operation} is not among gather::PERMISSIONS");
    }
    // Of two calls in one the first stands for both, the identity is asked for before anything else, and web
    // identity is not used here.
    let silent = [
        "GetEbsDefaultKmsKeyId",
        "DescribeKey",
        "DescribePodIdentityAssociation",
        "GetCallerIdentity",
        "GetOpenIDConnectProvider",
    ];
    for operation in declared.iter().filter(|operation| !silent.contains(operation)) {
        assert!(asked.contains(operation), "no question asks {operation}");
    }
}
