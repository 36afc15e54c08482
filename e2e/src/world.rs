//! A cluster, an account, the controller under test and simulated machines: everything a scenario
//! acts in, put together the way a user would do it, with `karpenter bootstrap apply`, `karpenter crds` and the
//! chart's roles.
//!
//! A failed scenario writes what it takes to understand it into the run folder ([`World::dump`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool};
use karpenter_aws_api::Clients;
use karpenter_aws_api::ec2::InstanceQuery;
use karpenter_kube_sim::kubelet::Agent;
use karpenter_model::names;
use kube::Client;
use kube::api::{Api, ListParams};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::account::{self, Account};
use crate::cluster::{self, Cluster};
use crate::command_line::{self, AwsEnvironment};
use crate::controller::{self, Controller, Place};
use crate::engine::{self, Engine};
use crate::machines::{self, Pace};
use crate::manifests::{self, NAMESPACE};
use crate::process::{Guard, free_ports};
use crate::report::Case;
use crate::rights::{self, Rights};

/// The name of the EKS cluster in the account, of every world that is not asked for another one.
pub const CLUSTER_NAME: &str = "karpenter-e2e";
/// Its region.
const REGION: &str = "us-west-2";
/// The Kubernetes version it reports.
pub(crate) const KUBERNETES: &str = "1.35";

/// Worlds that start at once. A starting one computes all the time, one that plays mostly waits: when many start on a
/// machine of few cores, the controllers of others lose their Leases.
static STARTS: Semaphore = Semaphore::const_new(2);

/// Parts of the world, and their settings.
pub struct Options {
    /// Cluster to use.
    pub cluster: cluster::Choice,
    /// Account to use.
    pub account: account::Choice,
    /// Way in which the controller runs.
    pub controller: controller::Choice,
    /// Folder of logs and dumps; stays after the run.
    pub folder: PathBuf,
    /// Pace of the machines.
    pub pace: Pace,
    /// Region and name of the EKS cluster.
    pub site: Site,
}

/// An EKS cluster, as the account has it.
#[derive(Clone, Debug)]
pub struct Site {
    pub cluster: String,
    pub region: String,
}

impl Default for Site {
    /// That of scenarios that do not look at names.
    fn default() -> Self {
        Self { cluster: CLUSTER_NAME.to_owned(), region: REGION.to_owned() }
    }
}

/// Part of a world that a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The program under test.
    Controller,
    /// The emulated account.
    Account,
    /// etcd, API server, scheduler, controller manager.
    ControlPlane,
    /// This process: the scenario, and every machine that is played.
    Harness,
}

impl Part {
    /// Returns its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Account => "account",
            Self::ControlPlane => "control_plane",
            Self::Harness => "harness",
        }
    }
}

/// A process of a world.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Part that it belongs to.
    pub part: Part,
    /// The name of its program.
    pub program: &'static str,
    /// Its id, which is also that of its group.
    pub id: Pid,
}

/// A world in which scenarios act.
pub struct World {
    /// The administrator's client.
    pub client: Client,
    /// The account, seen with an administrator's eyes.
    pub aws: Clients,
    /// Environment of every `karpenter` process about the account.
    pub environment: AwsEnvironment,
    cluster: Cluster,
    account: Account,
    engine: Option<Arc<Engine>>,
    controller: Controller,
    /// Plays the machines; takes orders about how they behave.
    pub agent: Arc<Agent>,
    kubelets: JoinHandle<()>,
    shutdown: CancellationToken,
    folder: PathBuf,
    guard: Arc<Guard>,
    starts: AtomicUsize,
    cases: Mutex<Vec<Case>>,
    election: bool,
    gates: String,
    variables: Vec<(&'static str, String)>,
    /// Chosen at the first start and kept, so that a controller that has died meanwhile is found at the same port again.
    metrics_port: OnceLock<u16>,
}

impl World {
    /// Starts cluster and account, and nothing of ours yet.
    pub async fn start(options: Options) -> Result<Self> {
        std::fs::create_dir_all(&options.folder)
            .with_context(|| format!("create run folder `{}`", options.folder.display()))?;
        let folder = options.folder.canonicalize().context("resolve the run folder")?;
        let _start = STARTS.acquire().await.context("wait until other worlds have started")?;
        let engine = engine_for(&options).await?;
        let controller = Controller::new(options.controller);
        let Site { cluster: name, region } = options.site;
        let account = at(options.account, &name, &region);
        let (cluster, account) = match options.controller {
            controller::Choice::Process => tokio::try_join!(
                Cluster::start(options.cluster, engine.as_ref()),
                Account::start(account, engine.as_ref())
            )?,
            controller::Choice::Chart => for_pods(options.cluster, account, engine.as_ref()).await?,
        };
        let client = cluster.access().client();
        let environment = AwsEnvironment {
            endpoint: account.endpoint().to_owned(),
            region: region.clone(),
            cluster: name.clone(),
        };
        // The launcher was started with the cluster.
        if !matches!(account, Account::Moto(_)) {
            account.seed(&name, &region, KUBERNETES).await?;
        }
        introduce(&cluster, &account, &environment).await?;
        if let Some(control) = account.control() {
            control
                .configure(&as_ec2_does(options.pace.pending))
                .await
                .context("make the account as slow and as strict as EC2")?;
        }
        let aws = machines::administrator(&environment).await?;
        let shutdown = CancellationToken::new();
        let (agent, kubelets) = machines::play(
            client.clone(),
            aws.clone(),
            account.control(),
            &environment,
            options.pace,
            shutdown.clone(),
        );
        Ok(Self {
            client,
            aws,
            environment,
            cluster,
            account,
            engine,
            controller,
            agent,
            kubelets,
            shutdown,
            folder,
            guard: Arc::new(Guard::start()?),
            starts: AtomicUsize::new(0),
            cases: Mutex::default(),
            election: true,
            gates: String::new(),
            variables: Vec::new(),
            metrics_port: OnceLock::new(),
        })
    }

    /// Everything the README's install section does, in its order.
    pub async fn install(&self) -> Result<()> {
        self.prepare().await?;
        self.start_controller().await
    }

    /// Installs everything but the controller: the account is ready, and the cluster has the definitions and the roles.
    pub async fn prepare(&self) -> Result<()> {
        let (code, text) = self.karpenter(&["bootstrap", "apply", "--zonal-shift"]).await?;
        ensure!(code == 0, "`karpenter bootstrap apply` ended with {code}:\n{text}");
        self.controller.prepare(self.place()).await
    }

    /// Applies the README's NodePool and EC2NodeClass, changed by `variant`.
    pub async fn install_pool(&self, variant: impl Fn(&str) -> String) -> Result<()> {
        let yaml = manifests::for_cluster(&variant(manifests::NODEPOOL), &self.environment.cluster);
        manifests::apply(&self.client, &yaml).await
    }

    /// Applies the README's EC2NodeClass, and no pool.
    pub async fn install_class(&self) -> Result<()> {
        let yaml =
            manifests::for_cluster(&manifests::only_class(manifests::NODEPOOL), &self.environment.cluster);
        manifests::apply(&self.client, &yaml).await
    }

    /// The control requests of the account, for scenarios that cause trouble there.
    pub fn control(&self) -> Result<&account::Control> {
        self.account
            .control()
            .context("this account has no control requests; choose the launcher of `localstack/`")
    }

    /// Makes the next controllers start acting at once. A killed leader's Lease has to run out otherwise, which
    /// leaves its successor idle for most of a scenario that kills often.
    pub fn without_election(&mut self) {
        self.election = false;
    }

    /// Starts the next controllers with these feature gates, written as `FEATURE_GATES` takes them.
    pub fn with_feature_gates(&mut self, gates: &str) {
        gates.clone_into(&mut self.gates);
    }

    /// Starts the next controllers with this variable in their environment: see docs/settings.md.
    pub fn with_setting(&mut self, variable: &'static str, value: &str) {
        self.variables.push((variable, value.to_owned()));
    }

    /// Starts the controller with the rights of its service account.
    pub async fn start_controller(&self) -> Result<()> {
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("controller-{start}"));
        std::fs::create_dir_all(&folder).with_context(|| format!("create `{}`", folder.display()))?;
        let settings = controller::Settings {
            election: self.election,
            feature_gates: self.gates.clone(),
            variables: self.variables.clone(),
            metrics_port: self.metrics_port()?,
        };
        self.controller.start(self.place(), &settings, &folder).await
    }

    fn place(&self) -> Place<'_> {
        let Self { cluster, account, environment: aws, guard, .. } = self;
        Place { cluster, account, aws, guard }
    }

    /// Checks what is true of every run, whatever it proved: nothing was asked of the account that it cannot answer, and the
    /// controller had every right it needed.
    pub async fn verdict(&self) -> Result<Rights> {
        self.check_account().await?;
        self.check_launches().await?;
        self.check_rights().await
    }

    /// Fails when two instances were ever launched for one NodeClaim, whatever became of them: the account remembers
    /// terminated instances for an hour. A second one would be collected within minutes and could not be seen later.
    async fn check_launches(&self) -> Result<()> {
        let instances = self.aws.ec2.describe_instances(&InstanceQuery::default()).await?;
        let mut by_claim: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for instance in &instances {
            if let Some(claim) = instance.tags.get(names::tag::NODE_CLAIM) {
                by_claim.entry(claim).or_default().push(instance.id.as_str());
            }
        }
        by_claim.retain(|_, instances| instances.len() > 1);
        ensure!(by_claim.is_empty(), "claims for which several instances were launched: {by_claim:?}");
        Ok(())
    }

    /// Fails when a client made a call the emulator does not implement: whatever was proven rests on an answer AWS
    /// would not have given.
    async fn check_account(&self) -> Result<()> {
        let Some(control) = self.account.control() else { return Ok(()) };
        let unknown = control.calls().await.context("read the account's call log")?.unimplemented;
        ensure!(
            unknown.is_empty(),
            "the emulated account does not implement calls that were made: {unknown:?}"
        );
        Ok(())
    }

    /// Holds what the controller has done so far against its rights in the account and in the cluster, as far as the
    /// two can tell; writes what it has used of them to `rights.txt`. Nothing, when it was never started.
    pub async fn check_rights(&self) -> Result<Rights> {
        let mut found = Rights::default();
        if self.controller_starts() == 0 {
            return Ok(found);
        }
        if let Some(control) = self.account.control() {
            found.absorb(
                rights::aws::check(control, &self.aws, &self.role(), &self.environment.cluster).await?,
            );
        }
        if let Some(log) = self.cluster.audit_log() {
            found.absorb(rights::cluster::check(&log)?);
        }
        self.write("rights.txt", &found.report());
        Ok(found)
    }

    /// The controller's role, as `karpenter bootstrap` names it.
    fn role(&self) -> String {
        format!("{}-karpenter", self.environment.cluster)
    }

    /// Returns the number of controllers started so far.
    pub fn controller_starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }

    /// Returns the address at which the controller serves metrics and explanations while it runs.
    pub fn metrics_endpoint(&self) -> Result<String> {
        Ok(format!("http://127.0.0.1:{}", self.metrics_port()?))
    }

    fn metrics_port(&self) -> Result<u16> {
        let [free] = free_ports()?;
        Ok(*self.metrics_port.get_or_init(|| free))
    }

    /// The parts that are processes of this machine.
    pub async fn processes(&self) -> Vec<Member> {
        let member = |part, program, id| Member { part, program, id };
        let mut all = vec![member(Part::Harness, "karpenter-e2e", Pid::this())];
        all.extend(self.controller.process().await.map(|id| member(Part::Controller, "controller", id)));
        all.extend(self.account.process().map(|id| member(Part::Account, "account", id)));
        let control_plane = self.cluster.processes().into_iter();
        all.extend(control_plane.map(|(program, id)| member(Part::ControlPlane, program, id)));
        all
    }

    /// Stops a process for a while without its knowledge, as a machine does that is suspended or starved.
    pub async fn hold(&self, program: &str, time: Duration) -> Result<()> {
        let members = self.processes().await;
        let member = members.iter().find(|member| member.program == program).with_context(|| {
            format!(
                "`{program}` is no process of this world; choose cluster `local` and controller `process`"
            )
        })?;
        let signal =
            |signal| killpg(member.id, signal).with_context(|| format!("send {signal} to {program}"));
        signal(Signal::SIGSTOP)?;
        tracing::info!(program, ?time, "stands still");
        tokio::time::sleep(time).await;
        signal(Signal::SIGCONT)
    }

    /// Kills a process of the control plane, and starts it again after it was `dead` for a while.
    pub async fn restart(&self, program: &str, dead: Duration) -> Result<()> {
        tracing::info!(program, ?dead, "is killed");
        self.cluster.restart(program, dead).await
    }

    /// Returns the number of calls that the controller has made to the account, if the account counts them.
    pub async fn calls_of_controller(&self) -> Result<u64> {
        let Some(control) = self.account.control() else { return Ok(0) };
        control.count_calls(&self.caller().await?).await
    }

    /// The ARN of the role that the controller makes its calls with.
    pub(crate) async fn caller(&self) -> Result<String> {
        let role = self.aws.iam.get_role(&self.role()).await.context("read the controller's role")?;
        Ok(role.arn.to_string())
    }

    /// Returns the file in which the API server records the controller's requests, if it does.
    pub fn audit_log(&self) -> Option<PathBuf> {
        self.cluster.audit_log()
    }

    /// Ends the controller without warning.
    pub async fn kill_controller(&self) -> Result<()> {
        self.controller.kill(self.place()).await
    }

    /// Ends the controller as Kubernetes would.
    pub async fn stop_controller(&self) -> Result<()> {
        self.controller.stop(self.place()).await
    }

    /// Fails when the controller has ended by itself, unless it lost its Lease and is started again.
    pub async fn check_controller(&self) -> Result<()> {
        self.controller.check(self.place()).await
    }

    /// Runs `karpenter` with arguments to its end.
    pub async fn karpenter(&self, arguments: &[&str]) -> Result<(i32, String)> {
        command_line::run(&self.environment, arguments).await
    }

    /// Runs `karpenter` with the administrator's rights in the cluster.
    pub async fn karpenter_in_cluster(&self, arguments: &[&str]) -> Result<(i32, String)> {
        command_line::run_in(&self.environment, self.kubeconfig(), arguments).await
    }

    /// Returns the answer of `karpenter explain`. A controller in the cluster is found as users find it, by its Lease and
    /// through the API server; one on this machine has no pod, and one without an election no Lease.
    pub async fn explain(&self, question: &str) -> Result<(i32, String)> {
        if matches!(self.controller, Controller::Chart(_)) && self.election {
            let arguments = ["explain", question, "--leader-election-namespace", NAMESPACE];
            return command_line::run_at(self.kubeconfig(), &arguments).await;
        }
        self.karpenter(&["explain", question, "--endpoint", &self.metrics_endpoint()?]).await
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.cluster.access().kubeconfig()
    }

    /// Keeps how a behaviour ended.
    pub fn record(&self, case: Case) {
        self.cases.lock().push(case);
    }

    /// Returns the results of behaviours so far.
    pub fn cases(&self) -> Vec<Case> {
        self.cases.lock().clone()
    }

    /// Returns whether the cluster was there before us, and has to be left as it was.
    pub fn is_borrowed(&self) -> bool {
        self.cluster.is_borrowed()
    }

    /// Returns the folder of logs and dumps.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes pods, nodes, claims, pools, events and AWS calls into the run folder.
    pub async fn dump(&self) {
        self.dump_kind::<Pod>("pods").await;
        self.dump_kind::<Node>("nodes").await;
        self.dump_kind::<NodeClaim>("nodeclaims").await;
        self.dump_kind::<NodePool>("nodepools").await;
        self.dump_kind::<EC2NodeClass>("ec2nodeclasses").await;
        self.dump_kind::<Event>("events").await;
        if let Some(control) = self.account.control() {
            let calls = control.calls().await.map(|calls| format!("{calls:#?}"));
            self.write("aws-calls.txt", &calls.unwrap_or_else(|error| format!("{error:#}")));
        }
        if let Err(error) = self.controller.save_logs(self.place()).await {
            tracing::warn!("cannot write the controller's log: {error:#}");
        }
        tracing::error!(folder = %self.folder.display(), "what was there when it failed is in this folder");
    }

    async fn dump_kind<K>(&self, name: &str)
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let text = match Api::<K>::all(self.client.clone()).list(&ListParams::default()).await {
            Ok(list) => serde_json::to_string_pretty(&list.items).unwrap_or_else(|error| error.to_string()),
            Err(error) => error.to_string(),
        };
        self.write(&format!("{name}.json"), &text);
    }

    /// A dump that cannot be written is not worth hiding the failure that asked for it.
    fn write(&self, name: &str, text: &str) {
        if let Err(error) = std::fs::write(self.folder.join(name), text) {
            tracing::warn!(name, %error, "cannot write a part of the dump");
        }
    }

    /// Ends everything.
    pub async fn stop(self) -> Result<()> {
        self.stop_controller().await?;
        self.shutdown.cancel();
        self.kubelets.await.context("the node agent panicked")?;
        self.account.stop().await?;
        self.cluster.stop().await?;
        match self.engine.and_then(Arc::into_inner) {
            Some(engine) => engine.stop().await,
            None => Ok(()),
        }
    }
}

/// The chosen account with this EKS cluster in it. Others than the launcher are seeded when they run.
fn at(account: account::Choice, cluster: &str, region: &str) -> account::Choice {
    let account::Choice::Moto(options) = account else { return account };
    let (cluster, region) = (Some(cluster.to_owned()), region.to_owned());
    account::Choice::Moto(account::moto::Options { cluster, region, ..options })
}

/// A cluster with nodes for pods, and an account that these pods reach: at the address that the cluster's containers know
/// this machine under, so the cluster comes first. Not at every address: the account answers all who ask, and only
/// containers of this machine are behind that one.
async fn for_pods(
    cluster: cluster::Choice,
    account: account::Choice,
    engine: Option<&Arc<Engine>>,
) -> Result<(Cluster, Account)> {
    let (cluster::Choice::Kind(_), account::Choice::Moto(_) | account::Choice::LocalStack(_), Some(engine)) =
        (&cluster, &account, engine)
    else {
        bail!(
            "a controller in the cluster needs nodes for its pods and an account with EKS that pods reach; choose \
             cluster `kind` and account `moto` or `localstack`"
        );
    };
    let cluster = Cluster::start(cluster, Some(engine)).await?;
    let account = async {
        let host = engine.gateway().await?;
        let account = match account {
            account::Choice::Moto(options) => {
                account::Choice::Moto(account::moto::Options { host, ..options })
            }
            account::Choice::LocalStack(options) => {
                account::Choice::LocalStack(account::localstack::Options { host, ..options })
            }
            account::Choice::Endpoint(_) => account,
        };
        Account::start(account, Some(engine))
            .await
            .with_context(|| format!("start the account on {host}, where pods reach it"))
    };
    match account.await {
        Ok(account) => Ok((cluster, account)),
        Err(error) => {
            cluster.stop().await?;
            Err(error)
        }
    }
}

/// The engine of the containers that a world consists of, if any. Worlds side by side share one.
async fn engine_for(options: &Options) -> Result<Option<Arc<Engine>>> {
    static SHARED: tokio::sync::Mutex<Weak<Engine>> = tokio::sync::Mutex::const_new(Weak::new());
    let containers = matches!(options.cluster, cluster::Choice::Kind(_))
        || matches!(options.account, account::Choice::LocalStack(_));
    if !containers {
        return Ok(None);
    }
    let mut shared = SHARED.lock().await;
    if let Some(engine) = shared.upgrade() {
        return Ok(Some(engine));
    }
    let engine = Arc::new(Engine::start(engine::Choice::from_environment()?).await?);
    *shared = Arc::downgrade(&engine);
    Ok(Some(engine))
}

/// The launcher, its logs in `folder`; the world names its EKS cluster.
pub fn moto(folder: PathBuf) -> account::Choice {
    account::Choice::Moto(account::moto::Options {
        kubernetes: KUBERNETES.to_owned(),
        folder: Some(folder),
        ..account::moto::Options::default()
    })
}

/// Returns the settings of an account in a scenario. Machines go in seconds instead of the minutes EC2 takes, but never at
/// once; and spot instances need the service-linked role that `karpenter bootstrap` makes, because the controller's policy does
/// not let it make one.
fn as_ec2_does(pending: Duration) -> account::control::Settings {
    account::control::Settings {
        pending_seconds: Some(pending.as_secs_f32()),
        shutting_down_seconds: Some(3.0),
        stopping_seconds: Some(3.0),
        spot_role: Some("required".to_owned()),
        ..account::control::Settings::default()
    }
}

/// Gives the account the address and authority of the cluster's API server, as EKS would have them.
async fn introduce(cluster: &Cluster, account: &Account, environment: &AwsEnvironment) -> Result<()> {
    let Some(control) = account.control() else { return Ok(()) };
    let access = cluster.access();
    let Some(authority) = access.certificate_authority() else {
        bail!("the kubeconfig embeds no certificate authority, which nodes would need to join");
    };
    control.point_cluster(&environment.region, &environment.cluster, access.server(), &authority).await
}
