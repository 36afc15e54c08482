//! Operations of a test on the emulated account that no AWS client offers: see `localstack/emulator/control.py`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::http::Http;

/// The control requests of a running launcher.
#[derive(Clone, Debug)]
pub struct Control(Http);

/// Contents of a seeded account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Seeded {
    /// The EKS cluster.
    pub cluster: String,
    pub region: String,
    pub vpc: String,
    /// The names of the three zones, in order; the subnets follow the same order.
    pub zones: Vec<String>,
    /// One private /18 per zone.
    pub private_subnets: Vec<String>,
    /// One public /24 per zone.
    pub public_subnets: Vec<String>,
    /// The security group EKS made; `None` where the emulator has no EKS.
    pub cluster_security_group: Option<String>,
    /// The cluster's ARN; `None` where the emulator has no EKS.
    pub cluster_arn: Option<String>,
}

/// Pools without capacity. Empty fields cover everything; types and zones may be shell patterns.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CapacityRule {
    /// E.g. `m5.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// E.g. `us-west-2a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `spot` or `on-demand`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// Number of further instances that may start.
    pub remaining: u32,
    /// The error code; `InsufficientInstanceCapacity` if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// The next calls of an action that fail.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    /// The operation, e.g. `CreateFleet`; `*` for all.
    pub action: String,
    /// The service, e.g. `ec2`; all if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The error code; a fault without one only delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The HTTP status; SDKs retry 500 and above.
    pub status: u16,
    /// Number of calls that are struck; -1 for all from now on.
    pub count: i64,
    /// Number of calls that pass before the first is struck.
    pub skip: u32,
    /// Seconds by which each struck call is held up.
    pub delay_seconds: f32,
    /// The ARN of a role, or an access key, whose calls are meant; those of all if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Chance that a call is struck: one in this number.
    pub one_in: u32,
}

impl Fault {
    /// The next `count` calls of `action` fail with `code` and a status that is not retried.
    pub fn new(action: &str, code: &str, count: i64) -> Self {
        Self {
            action: action.to_owned(),
            service: None,
            code: Some(code.to_owned()),
            status: 400,
            count,
            skip: 0,
            delay_seconds: 0.0,
            caller: None,
            one_in: 1,
        }
    }
}

/// Capacity to be bought ahead.
#[derive(Clone, Debug, Serialize)]
pub struct NewReservation {
    /// E.g. `m5.large`.
    pub instance_type: String,
    /// E.g. `us-west-2a`.
    pub zone: String,
    /// Number of instances.
    pub count: u32,
    /// `open` or `targeted`.
    pub match_criteria: String,
    /// Number by which EC2 overstates the instances that are left.
    pub overstated: u32,
    pub tags: BTreeMap<String, String>,
}

impl NewReservation {
    /// Capacity for launches that ask for it by id, and counted right.
    pub fn of(instance_type: &str, zone: &str, count: u32) -> Self {
        Self {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            count,
            match_criteria: "targeted".to_owned(),
            overstated: 0,
            tags: BTreeMap::new(),
        }
    }
}

/// Behavior of the account; empty fields stay as they are.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Settings {
    /// Seconds in state `pending`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_seconds: Option<f32>,
    /// Seconds in state `shutting-down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutting_down_seconds: Option<f32>,
    /// Seconds in state `stopping`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopping_seconds: Option<f32>,
    /// Seconds a terminated instance can be described.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated_seconds: Option<f32>,
    /// `implicit` or `required`: whether EC2 makes the spot service-linked role by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_role: Option<String>,
    /// True if state changes are published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_change_events: Option<bool>,
    /// The instance types on sale, of those that AWS sells in a region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_types: Option<Vec<String>>,
}

/// The spot price of a type in a zone.
#[derive(Clone, Debug, Serialize)]
pub struct SpotPrice {
    /// E.g. `m5.large`.
    pub instance_type: String,
    /// E.g. `us-west-2a`.
    pub zone: String,
    /// US dollars an hour as decimal text.
    pub price: String,
}

/// A notice AWS sends about one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notice {
    /// Spot capacity is taken back in two minutes.
    SpotInterruption,
    /// Spot capacity may be taken back.
    Rebalance,
    /// Interruptible reserved capacity is taken back.
    CapacityReservationInterruption,
    /// The machine is going to be retired.
    Health,
}

/// The calls the account has answered.
#[derive(Clone, Debug, Deserialize)]
pub struct Calls {
    /// Number of calls of each `service:Operation`.
    pub counts: BTreeMap<String, u64>,
    /// Calls the emulator cannot answer; a run with any proves less than it seems to.
    pub unimplemented: BTreeMap<String, u64>,
    /// The newest calls, oldest first.
    pub log: Vec<Call>,
}

/// One answered call.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// Seconds since 1970.
    pub at: f64,
    /// The role whose credentials signed it, else the access key.
    pub caller: String,
    /// E.g. `ec2`.
    pub service: String,
    /// E.g. `CreateFleet`.
    pub action: String,
    /// The region of the signature.
    pub region: String,
    pub status: u16,
    /// The error code of a refused call.
    pub error: Option<String>,
    /// Duration until the answer.
    pub milliseconds: u64,
}

/// An instance, as the simulated machines need it.
#[derive(Clone, Debug, Deserialize)]
pub struct Machine {
    /// E.g. `i-0123...`.
    pub id: String,
    /// `pending`, `running`, `shutting-down`, `terminated` and so on.
    pub state: String,
    /// E.g. `m5.large`.
    pub instance_type: String,
    /// The AMI.
    pub image: String,
    /// The zone's name.
    pub zone: String,
    /// The zone's id.
    pub zone_id: Option<String>,
    /// `spot` or `on-demand`.
    pub capacity_type: String,
    /// The primary address, until the instance is gone.
    pub private_ip: Option<String>,
    /// The name EKS nodes register under.
    pub private_dns_name: Option<String>,
    /// RFC 3339.
    pub launched_at: String,
    /// Base64, as launched.
    pub user_data: Option<String>,
    /// All tags.
    pub tags: BTreeMap<String, String>,
    /// Volumes that are attached.
    pub disks: Vec<Disk>,
    /// Tags of each network interface.
    pub interfaces: Vec<BTreeMap<String, String>>,
}

/// A volume of an instance, as the account reports it.
#[derive(Clone, Debug, Deserialize)]
pub struct Disk {
    /// Name of the device, for example `/dev/xvda`.
    pub device: String,
    /// Kind of the volume, for example `gp3`.
    pub kind: String,
    pub size_gib: u32,
    pub tags: BTreeMap<String, String>,
}

/// One question AWS would have asked IAM about calls that were made: see `localstack/emulator/authorization`.
#[derive(Clone, Debug, Deserialize)]
pub struct Question {
    /// The call that raised it first, as `service:Operation`.
    pub call: String,
    /// Action that IAM is asked to allow, e.g. `ec2:RunInstances`.
    pub action: String,
    /// Resource of the request: an ARN, or `*`.
    pub resource: String,
    /// Condition keys.
    context: BTreeMap<String, OneOrMany>,
    /// Number of such calls.
    pub count: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Question {
    /// Converts it to the form that the evaluator takes.
    pub fn request(&self) -> karpenter_iam::Request {
        let request = karpenter_iam::Request::new(&self.action, &self.resource);
        self.context.iter().fold(request, |request, (key, value)| match value {
            OneOrMany::One(value) => request.with(key, value),
            OneOrMany::Many(values) => request.with_all(key, values.iter().cloned()),
        })
    }
}

impl Control {
    /// Connects to the launcher at `endpoint`.
    pub fn new(endpoint: &str) -> Self {
        Self(Http::new(endpoint))
    }

    /// Fails if there is no launcher.
    pub async fn healthy(&self) -> Result<()> {
        self.get::<Value>("health").await.map(drop)
    }

    /// Empties the account, and all rules, prices, settings and the call log.
    pub async fn reset(&self) -> Result<()> {
        self.post("reset", &json!({})).await
    }

    /// Makes the account one with a new EKS cluster.
    pub async fn seed(&self, cluster: &str, region: &str, kubernetes: &str) -> Result<Seeded> {
        let body = json!({ "cluster": cluster, "region": region, "kubernetes": kubernetes });
        self.0
            .send(Method::POST, "/_karpenter/seed", Some(&body))
            .await
            .with_context(|| format!("seed the account for cluster `{cluster}`"))
    }

    /// Replaces the content of the account by this EKS cluster and nothing else.
    pub async fn renew(&self, cluster: &str, region: &str, kubernetes: &str) -> Result<Seeded> {
        self.reset().await?;
        self.seed(cluster, region, kubernetes).await
    }

    /// Adds a rule about capacity.
    pub async fn limit_capacity(&self, rule: &CapacityRule) -> Result<()> {
        self.post("capacity", rule).await
    }

    /// Forgets all rules about capacity.
    pub async fn restore_capacity(&self) -> Result<()> {
        self.delete("capacity").await
    }

    /// Buys capacity ahead; the id of the reservation.
    pub async fn reserve(&self, wanted: &NewReservation) -> Result<String> {
        self.make("reservations", wanted).await
    }

    /// Makes a placement group of `partitions` partitions; returns its id.
    pub async fn partition_group(&self, name: &str, partitions: u32) -> Result<String> {
        let wanted = json!({ "name": name, "strategy": "partition", "partitions": partitions });
        self.make("placement-groups", &wanted).await
    }

    /// Makes the next calls of an action fail.
    pub async fn fail(&self, fault: &Fault) -> Result<()> {
        self.post("faults", fault).await
    }

    /// Forgets all faults.
    pub async fn stop_failing(&self) -> Result<()> {
        self.delete("faults").await
    }

    /// Sets on-demand prices, US dollars an hour as decimal text, by instance type.
    pub async fn set_on_demand_prices(&self, prices: &BTreeMap<String, String>) -> Result<()> {
        self.post("prices", &json!({ "on_demand": prices })).await
    }

    /// Sets the spot price of a type in a zone.
    pub async fn set_spot_price(&self, instance_type: &str, zone: &str, price: &str) -> Result<()> {
        let (instance_type, zone, price) = (instance_type.to_owned(), zone.to_owned(), price.to_owned());
        self.set_spot_prices(&[SpotPrice { instance_type, zone, price }]).await
    }

    /// Sets spot prices.
    pub async fn set_spot_prices(&self, prices: &[SpotPrice]) -> Result<()> {
        self.post("prices", &json!({ "spot": prices })).await
    }

    /// Changes how the account behaves.
    pub async fn configure(&self, settings: &Settings) -> Result<()> {
        self.post("settings", settings).await
    }

    /// Publishes a notice about an instance; EC2 ends the instance after `then` if given.
    pub async fn notify(
        &self,
        notice: Notice,
        region: &str,
        instance: &str,
        then: Option<Duration>,
    ) -> Result<()> {
        let mut body = json!({ "kind": notice, "region": region, "instance": instance });
        if let Some(then) = then {
            body["terminate_after_seconds"] = json!(then.as_secs_f64());
        }
        self.post("notices", &body).await
    }

    /// Stops an instance, as a person does at EC2's console. The emulator reads service and region from the signature and
    /// does not check it.
    pub async fn stop_instance(&self, region: &str, instance: &str) -> Result<()> {
        let signed = format!(
            "AWS4-HMAC-SHA256 Credential=person/20260101/{region}/ec2/aws4_request, SignedHeaders=host, Signature=0"
        );
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        let headers = [(http::header::AUTHORIZATION, signed.as_str()), (http::header::CONTENT_TYPE, form)];
        let body = format!("Action=StopInstances&Version=2016-11-15&InstanceId.1={instance}");
        self.0.exchange(Method::POST, "/", &headers, body.into_bytes()).await.map(drop)
    }

    /// Fails the `instance` or `system` status checks of an instance, as if they had failed `since` then.
    pub async fn impair(&self, instance: &str, checks: &[&str], since: Timestamp) -> Result<()> {
        let since = since.to_string();
        self.post("impair", &json!({ "instance": instance, "checks": checks, "since": since })).await
    }

    /// Shifts the cluster away from a zone for `duration`; zero ends the shift.
    pub async fn shift(&self, cluster_arn: &str, zone_id: &str, duration: Duration) -> Result<()> {
        let seconds = duration.as_secs_f64();
        self.post(
            "zonal-shift",
            &json!({ "cluster_arn": cluster_arn, "zone_id": zone_id, "seconds": seconds }),
        )
        .await
    }

    /// Publishes a new release of every image family for Kubernetes 1.`minor`; `date` is YYYY-MM-DD.
    pub async fn publish_images(&self, minor: u32, date: &str, bottlerocket: &str) -> Result<()> {
        self.post("images", &json!({ "minor": minor, "date": date, "bottlerocket": bottlerocket })).await
    }

    /// Deprecates an image of any owner from now on.
    pub async fn deprecate_image(&self, region: &str, image: &str) -> Result<()> {
        self.post("image-deprecation", &json!({ "image": image, "region": region })).await
    }

    /// Points `DescribeCluster` at a real API server; `authority` is PEM.
    pub async fn point_cluster(
        &self,
        region: &str,
        name: &str,
        endpoint: &str,
        authority: &str,
    ) -> Result<()> {
        use base64::Engine;
        let data = base64::engine::general_purpose::STANDARD.encode(authority);
        let authority = json!({ "data": data });
        let body = json!({ "name": name, "region": region, "endpoint": endpoint, "certificateAuthority": authority });
        self.post("cluster", &body).await
    }

    /// The call log.
    pub async fn calls(&self) -> Result<Calls> {
        self.get("calls").await
    }

    /// Returns the number of calls that `caller` has made: the ARN of a role, or an access key.
    pub async fn count_calls(&self, caller: &str) -> Result<u64> {
        let calls: Calls = self.get(&format!("calls?caller={caller}")).await?;
        Ok(calls.counts.values().sum())
    }

    /// Returns the questions that AWS would have asked IAM about the calls of `caller`: the ARN of a role, or an access key.
    pub async fn questions(&self, caller: &str) -> Result<Vec<Question>> {
        #[derive(Deserialize)]
        struct Answer {
            questions: Vec<Question>,
            lost: u64,
        }
        let answer: Answer = self.get(&format!("questions?caller={caller}")).await?;
        anyhow::ensure!(
            answer.lost == 0,
            "the account has lost {} questions; the list is incomplete",
            answer.lost
        );
        Ok(answer.questions)
    }

    /// Returns the address where pods of a cluster get the credentials of their role, as from the agent of EKS Pod Identity.
    pub fn pod_identity(&self, region: &str, cluster: &str) -> String {
        format!("{}{}", self.endpoint(), Self::pod_identity_path(region, cluster))
    }

    /// Returns the path of that address; the rest differs for pods on a node.
    pub fn pod_identity_path(region: &str, cluster: &str) -> String {
        format!("/_karpenter/pod-identity?cluster={cluster}&region={region}")
    }

    /// Empties the call log.
    pub async fn forget_calls(&self) -> Result<()> {
        self.delete("calls").await
    }

    /// Every instance of a region.
    pub async fn machines(&self, region: &str) -> Result<Vec<Machine>> {
        #[derive(Deserialize)]
        struct Machines {
            instances: Vec<Machine>,
        }
        Ok(self.get::<Machines>(&format!("instances?region={region}")).await?.instances)
    }

    /// How often each instance was rebooted.
    pub async fn reboots(&self) -> Result<BTreeMap<String, u32>> {
        #[derive(Deserialize)]
        struct Reboots {
            reboots: BTreeMap<String, u32>,
        }
        Ok(self.get::<Reboots>("reboots").await?.reboots)
    }

    async fn make(&self, name: &str, body: &(impl Serialize + Sync)) -> Result<String> {
        #[derive(Deserialize)]
        struct Made {
            id: String,
        }
        let made: Made = self.0.send(Method::POST, &format!("/_karpenter/{name}"), Some(body)).await?;
        Ok(made.id)
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T> {
        self.0.send(Method::GET, &format!("/_karpenter/{name}"), None::<&Value>).await
    }

    async fn post(&self, name: &str, body: &(impl Serialize + Sync)) -> Result<()> {
        self.0.send::<Value>(Method::POST, &format!("/_karpenter/{name}"), Some(body)).await.map(drop)
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.0.send::<Value>(Method::DELETE, &format!("/_karpenter/{name}"), None::<&Value>).await.map(drop)
    }

    /// The endpoint these requests go to.
    pub fn endpoint(&self) -> &str {
        self.0.base()
    }
}
