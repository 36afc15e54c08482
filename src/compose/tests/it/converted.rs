//! Converted objects launch the machine that the same wishes launch when a person writes them for v1.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use karpenter_api::{NodeClaim, NodeClaimSpec};
use karpenter_aws_api::ec2::{Instance, LaunchTemplateData};
use karpenter_bootstrap::make_ready;
use karpenter_compose::playground::{Playground, Speed};
use karpenter_convert::{Input, Options};
use karpenter_kube_sim::VirtualClock;
use karpenter_model::Clock;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const CLUSTER: &str = "demo";
const ROLE: &str = "KarpenterNodeRole-demo";

/// A pool and its class with most of what they can say, as v1alpha5 writes it.
const OLD: &str = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: web}
spec:
  providerRef: {name: web}
  labels: {team: web}
  taints: [{key: team, value: web, effect: NoSchedule}]
  requirements:
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
  - {key: failure-domain.beta.kubernetes.io/zone, operator: NotIn, values: [none]}
  kubeletConfiguration: {maxPods: 20, containerRuntime: containerd, systemReserved: {memory: 200Mi}}
  ttlSecondsAfterEmpty: 30
  ttlSecondsUntilExpired: 2592000
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: web}
spec:
  amiFamily: Bottlerocket
  subnetSelector: {karpenter.sh/discovery: demo}
  securityGroupSelector: {karpenter.sh/discovery: demo}
  tags: {Team: web}
  detailedMonitoring: true
  userData: |
    [settings.kernel]
    lockdown = \"integrity\"
  blockDeviceMappings:
  - {deviceName: /dev/xvdb, ebs: {volumeSize: 51200Mi, volumeType: gp3, encrypted: true}}
";

/// Objects of the same content, written for v1 by hand.
const BY_HAND: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web}
spec:
  template:
    metadata: {labels: {team: web}}
    spec:
      expireAfter: 720h
      taints: [{key: team, value: web, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
      - {key: topology.kubernetes.io/zone, operator: NotIn, values: [none]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['2']}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: web}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  tags: {Team: web}
  detailedMonitoring: true
  metadataOptions: {httpPutResponseHopLimit: 2, httpTokens: required}
  kubelet: {maxPods: 20, systemReserved: {memory: 200Mi}}
  userData: |
    [settings.kernel]
    lockdown = \"integrity\"
  blockDeviceMappings:
  - {deviceName: /dev/xvdb, ebs: {volumeSize: 50Gi, volumeType: gp3, encrypted: true}}
";

/// A machine of a set of manifests: all that does not follow from chance.
#[derive(Debug, PartialEq)]
struct Machine {
    instance_type: String,
    zone: String,
    lifecycle: String,
    image: String,
    tenancy: String,
    subnet: Option<String>,
    security_groups: Vec<String>,
    instance_profile: Option<String>,
    tags: BTreeMap<String, String>,
    user_data: String,
    /// Rest of its launch template: disks, metadata service, monitoring, interfaces.
    template: LaunchTemplateData,
    claim: NodeClaimSpec,
}

/// Creates the objects and a pod in a new cluster; the machine that is launched for it.
async fn launched(manifests: &str) -> Result<Machine> {
    let shutdown = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let start: Timestamp = "2026-01-01T12:00:00Z".parse()?;
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(start));
    let playground = Playground::new(clock, CLUSTER, Speed::demo());
    playground.spawn(&mut tasks, &shutdown);
    make_ready(&playground.aws(), CLUSTER).await?;
    let objects = serde_saphyr::from_multiple::<Value>(manifests)?;
    for object in karpenter_api::crd_values().into_iter().chain(objects).chain([pod()]) {
        playground.load(&object)?;
    }
    tasks.spawn(karpenter_compose::run(playground.parts()?, shutdown.clone()));
    let machine = async {
        loop {
            let claims = Api::<NodeClaim>::all(playground.client()).list(&ListParams::default()).await?.items;
            if let ([instance], [claim]) = (&*playground.account().live_instances(), &*claims) {
                return machine(&playground, instance, claim.spec.clone());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let machine =
        tokio::time::timeout(Duration::from_mins(5), machine).await.context("none is launched")??;
    shutdown.cancel();
    while tasks.join_next().await.is_some() {}
    Ok(machine)
}

fn machine(playground: &Playground, instance: &Instance, claim: NodeClaimSpec) -> Result<Machine> {
    let account = playground.account();
    let user_data = account.user_data(&instance.id).context("it has user data")?.expose().to_owned();
    let same = |data: &LaunchTemplateData| {
        data.user_data.as_ref().is_some_and(|text| text.expose() == user_data)
            && data.image.as_ref() == Some(&instance.image)
    };
    let templates = account.launch_templates();
    let mut template =
        templates.into_iter().map(|(_, data)| data).find(same).context("it has a launch template")?;
    // Tags of the instance are compared; these belong to the template and name its claim.
    template.tags.clear();
    // Names of claims end at random.
    let by_chance = ["Name", "karpenter.sh/nodeclaim"];
    let tags = instance.tags.iter().map(|(key, value)| (key.clone(), value.clone()));
    Ok(Machine {
        instance_type: instance.instance_type.to_string(),
        zone: instance.zone.to_string(),
        lifecycle: format!("{:?}", instance.lifecycle),
        image: instance.image.to_string(),
        tenancy: format!("{:?}", instance.tenancy),
        subnet: instance.subnet.as_ref().map(ToString::to_string),
        security_groups: instance.security_groups.iter().map(ToString::to_string).collect(),
        instance_profile: instance.instance_profile.clone(),
        tags: tags.filter(|(key, _)| !by_chance.contains(&key.as_str())).collect(),
        user_data,
        template,
        claim,
    })
}

/// Returns a pod that tolerates what the pools below are tainted with.
fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "tolerations": [{ "key": "team", "operator": "Exists" }],
            "containers": [{
                "name": "web", "image": "registry.k8s.io/pause:3.10",
                "resources": { "requests": { "cpu": "1500m", "memory": "3Gi" } },
            }],
        },
    })
}

async fn the_same(old: &str, by_hand: &str) -> Machine {
    let input = Input { name: "old".to_owned(), text: old.to_owned() };
    let options = Options { role: Some(ROLE.to_owned()), ..Options::default() };
    let converted = karpenter_convert::convert(&[input], &options);
    assert_eq!(converted.report.exit_code(), 0, "{}", converted.report.text());
    let machine = launched(&converted.manifests).await.unwrap();
    assert_eq!(machine, launched(by_hand).await.unwrap());
    machine
}

#[tokio::test(start_paused = true)]
async fn a_provisioner_with_its_template_launches_what_its_equal_launches() {
    let machine = the_same(OLD, BY_HAND).await;
    assert!(machine.lifecycle.contains("Spot") && machine.user_data.contains("lockdown"), "{machine:?}");
    assert!(machine.user_data.contains("max-pods = 20"), "{}", machine.user_data);
    assert_eq!(machine.tags["Team"], "web");
}

/// Defaults of v1alpha5 make the difference: v1 would launch a spot machine of any category.
#[tokio::test(start_paused = true)]
async fn a_provisioner_that_says_nothing_launches_what_its_defaults_were() {
    let old = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  provider:
    amiFamily: Bottlerocket
    subnetSelector: {karpenter.sh/discovery: demo}
    securityGroupSelector: {karpenter.sh/discovery: demo}
";
    let by_hand = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      expireAfter: Never
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['2']}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  metadataOptions: {httpPutResponseHopLimit: 2, httpTokens: required}
";
    let machine = the_same(old, by_hand).await;
    assert!(
        ["c", "m", "r"].iter().any(|category| machine.instance_type.starts_with(category)),
        "{machine:?}"
    );
    assert_eq!(machine.lifecycle, "None", "on demand");
}

#[tokio::test(start_paused = true)]
async fn objects_of_v1beta1_launch_what_their_equals_launch() {
    let old = "
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {team: web}}
    spec:
      startupTaints: [{key: team, value: start, effect: NoSchedule}]
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [arm64]}
      - {key: karpenter.k8s.aws/instance-family, operator: Exists, minValues: 2}
      kubelet: {podsPerCore: 10}
      nodeClassRef: {name: default}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 24h}
---
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiFamily: AL2023
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  userData: '#!/bin/bash'
  associatePublicIPAddress: true
  blockDeviceMappings:
  - {deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 100G, volumeType: gp3, iops: 4000}}
";
    let by_hand = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {team: web}}
    spec:
      expireAfter: 24h
      startupTaints: [{key: team, value: start, effect: NoSchedule}]
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [arm64]}
      - {key: karpenter.k8s.aws/instance-family, operator: Exists, minValues: 2}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  userData: '#!/bin/bash'
  associatePublicIPAddress: true
  kubelet: {podsPerCore: 10}
  metadataOptions: {httpPutResponseHopLimit: 2, httpTokens: required}
  blockDeviceMappings:
  - {deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 100G, volumeType: gp3, iops: 4000}}
";
    let machine = the_same(old, by_hand).await;
    assert!(machine.user_data.contains("podsPerCore"), "{}", machine.user_data);
}
