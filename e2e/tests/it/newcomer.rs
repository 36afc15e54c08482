//! README's way to EKS and every command of `docs/install.md` and of the guides, copied from the pages and run by a shell.
//!
//! The account is emulated and the control plane is a local one, so a command that needs EKS itself, a registry or
//! a compiler cannot run here. Each of those is named in [`NOT_HERE`] with its reason; a command of the pages that is
//! neither expected nor named there fails the test, so that the pages claim nothing that was not tried. Sections in which
//! pods get nodes are followed where a controller and machines are at work.

mod guides;
mod walkthroughs;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use karpenter_e2e::account::moto::{MotoAccount, Options};
use karpenter_e2e::cluster::local::{self, LocalCluster};
use karpenter_e2e::world::World;
use karpenter_e2e::{command_line, manifests, prepare, rights};
use tokio::process::Command;

use super::skipped::skip;

/// The cluster of every example of the pages.
const CLUSTER: &str = "prod";
const REGION: &str = "eu-west-1";

/// Beginnings of commands that cannot run here, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("cargo install", "compiles the binary; the one under test stands for it"),
    (
        "aws eks update-kubeconfig",
        "points kubectl at EKS; the kubeconfig of the local control plane stands for it",
    ),
    ("aws ecr ", "needs a registry; no kubelet pulls the image here"),
    (
        "docker ",
        "needs a container builder and a registry; `xtask` holds the Dockerfile to chart and workspace",
    ),
    ("terraform ", "needs the rest of the reader's Terraform; `terraform.rs` applies the module by itself"),
    ("cargo build", "compiles the binaries; those under test stand for them"),
    (".github/actions/karpenter-plan/plan.sh", "is run by tests of the program, with the binary under test"),
    (".github/actions/karpenter-e2e/gate.sh", "starts a world of its own; the workflow `ci.yml` runs it"),
    ("eksctl ", "makes a cluster of EKS; the local control plane stands for it"),
    ("export CLUSTER=", "names the reader's cluster and region; the desk names its own"),
    ("aws eks update-nodegroup-config", "changes node groups, of which this account has none"),
    (
        "kubectl rollout status deployment/karpenter",
        "waits for pods of the controller, which is a process here",
    ),
    ("kubectl logs", "reads from a pod of the controller, which is a process here"),
    ("kubectl port-forward", "reaches into a pod of the controller, which is a process here"),
    ("kubectl get nodeclaims --watch", "ends by Ctrl-C only"),
    ("karpenter view --timeline", "ends by Ctrl-C only"),
    ("cosign ", "checks a release, and none is published yet"),
    ("gh attestation", "checks a release, and none is published yet"),
    ("sha256sum ", "checks a release, and none is published yet"),
];

/// Commands that are not run for a control plane without a controller and without machines.
const NOT_WITHOUT_MACHINES: &[(&str, &str)] = &[
    ("kubectl rollout status", "waits for a kubelet to run pods"),
    ("kubectl wait --for=delete pod", "waits for a kubelet to end pods"),
    ("kubectl drain", "waits for a kubelet to end pods"),
    ("karpenter explain", "asks the controller"),
];

/// Beginning of a command, its exit code, and the text it must print; an exit code below zero is any.
type Expected = (&'static str, i32, &'static str);

/// Whatever is not listed must succeed.
const EXPECTED: &[Expected] = &[
    // Before the shorter beginnings below: what these say goes into files, and the account has nothing left to do.
    ("karpenter bootstrap plan --cluster-name prod --output json", 0, ""),
    ("karpenter doctor --cluster-name prod --output json", 0, ""),
    ("karpenter bootstrap plan", 2, "create"),
    ("karpenter bootstrap check", 0, "the account is ready"),
    ("karpenter bootstrap destroy --cluster-name prod --dry-run", 2, "to delete"),
    ("karpenter doctor", 0, "healthy"),
    // No cluster here is of an older version; `older.rs` reads one that is.
    ("karpenter convert --live", 1, "it serves none of provisioners"),
    // The role is the account's, and a real account may have it, too: the page says so.
    ("aws iam create-service-linked-role", -1, "AWSServiceRoleForEC2Spot"),
];

/// A command of a page with how it ended.
#[derive(Debug)]
struct Ended {
    command: String,
    code: i32,
    said: String,
}

/// Commands in the `sh` blocks below a heading, up to the next one of the same depth; continued lines in one.
fn commands(page: &str, heading: &str) -> Vec<String> {
    let text = fs::read_to_string(prepare::cache::repository().join(page)).unwrap();
    let depth = heading.split(' ').next().unwrap();
    let mut lines = text.lines().skip_while(|line| *line != heading);
    assert_eq!(lines.next(), Some(heading), "{page}");
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with(&format!("{depth} "))).collect();
    let mut found = Vec::new();
    let mut inside = false;
    let mut continued = String::new();
    for line in section {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => {
                continued.push_str(line.trim_end_matches('\\'));
                if !line.ends_with('\\') && !continued.trim().is_empty() {
                    found.push(std::mem::take(&mut continued));
                }
            }
            _ => {}
        }
    }
    assert!(!found.is_empty(), "{page}: no command below `{heading}`");
    found
}

/// A folder with the programs and files the pages speak of.
struct Desk {
    folder: tempfile::TempDir,
    environment: Vec<(String, String)>,
    /// Address at which the controller of a world answers questions, if it is at work.
    controller: Option<String>,
}

impl Desk {
    /// A desk before an account, and a cluster if there is one.
    fn new(account: &MotoAccount, kubeconfig: Option<&Path>) -> Result<Self> {
        Self::with(account.endpoint(), REGION, CLUSTER, kubeconfig, None)
    }

    /// A desk before a world whose controller and machines are at work.
    fn at_work(world: &World) -> Result<Self> {
        let aws = &world.environment;
        let controller = Some(world.metrics_endpoint()?);
        Self::with(&aws.endpoint, &aws.region, &aws.cluster, Some(world.kubeconfig()), controller)
    }

    /// The repository's folders as they are, and the programs under test before all others.
    fn with(
        endpoint: &str,
        region: &str,
        cluster: &str,
        kubeconfig: Option<&Path>,
        controller: Option<String>,
    ) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let programs = folder.path().join("programs");
        fs::create_dir(&programs)?;
        symlink(command_line::binary()?, programs.join("karpenter"))?;
        symlink(prepare::helm()?, programs.join("helm"))?;
        let repository = prepare::cache::repository();
        for name in ["charts", "cloudformation", "docs", "terraform"] {
            symlink(repository.join(name), folder.path().join(name))?;
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut environment = vec![
            set("PATH", &format!("{}:{path}", programs.display())),
            set("HOME", &folder.path().display().to_string()),
            set("AWS_ENDPOINT_URL", endpoint),
            set("AWS_ACCESS_KEY_ID", "emulator"),
            set("AWS_SECRET_ACCESS_KEY", "emulator"),
            set("AWS_EC2_METADATA_DISABLED", "true"),
            set("AWS_PAGER", ""),
            // Version 1 of the AWS CLI does not know AWS_REGION.
            set("AWS_REGION", region),
            set("AWS_DEFAULT_REGION", region),
            set("CLUSTER", cluster),
            set("REGISTRY", "123456789012.dkr.ecr.eu-west-1.amazonaws.com"),
        ];
        let nowhere = folder.path().join("no-kubeconfig");
        let kubeconfig = kubeconfig.unwrap_or(&nowhere);
        environment.push(set("KUBECONFIG", &kubeconfig.display().to_string()));
        Ok(Self { folder, environment, controller })
    }

    fn reason_not_to(&self, command: &str) -> Option<&'static str> {
        let without: &[_] = if self.controller.is_some() { &[] } else { NOT_WITHOUT_MACHINES };
        let mut all = NOT_HERE.iter().chain(without);
        all.find(|(start, _)| command.starts_with(start)).map(|(_, why)| *why)
    }

    /// Returns the stand-in for the port-forward of the pages.
    fn prelude(&self) -> String {
        let Some(controller) = &self.controller else { return String::new() };
        format!(
            "karpenter() {{\n  if [ \"$1\" = explain ]; then set -- \"$@\" --endpoint {controller}; fi\n  \
             command karpenter \"$@\"\n}}\n"
        )
    }

    /// Runs commands one after the other in one shell, as a reader would who copies them.
    async fn run(&self, commands: &[String]) -> Result<Vec<Ended>> {
        let mut script = self.prelude();
        let mut run = Vec::new();
        for command in commands {
            if let Some(why) = self.reason_not_to(command) {
                tracing::info!(command, why, "not run here");
                continue;
            }
            script.push_str(&format!(
                "{{\n{command}\n}} > {}.said 2>&1\necho $? > {}.code\n",
                run.len(),
                run.len()
            ));
            run.push(command.clone());
        }
        let path: PathBuf = self.folder.path().join("script.sh");
        fs::write(&path, script)?;
        let status = Command::new("bash")
            .arg(&path)
            .current_dir(self.folder.path())
            .envs(self.environment.iter().cloned())
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true)
            .status()
            .await
            .context("run bash")?;
        ensure!(status.success(), "the shell ended with {status}");
        let read = |number: usize, what: &str| -> Result<String> {
            let path = self.folder.path().join(format!("{number}.{what}"));
            fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))
        };
        run.into_iter()
            .enumerate()
            .map(|(number, command)| {
                let code = read(number, "code")?.trim().parse().context("read an exit code")?;
                Ok(Ended { command, code, said: read(number, "said")? })
            })
            .collect()
    }

    /// Runs commands one after the other, each of which must end as expected.
    async fn follow(&self, commands: &[String]) -> Result<()> {
        self.follow_and_expect(commands, &[]).await
    }

    /// Runs commands one after the other, where some end as a page describes and not as they usually do.
    async fn follow_and_expect(&self, commands: &[String], special: &[Expected]) -> Result<()> {
        for Ended { command, code, said } in self.run(commands).await? {
            let (_, expected, words) = special
                .iter()
                .chain(EXPECTED)
                .find(|(start, ..)| command.starts_with(start))
                .copied()
                .unwrap_or(("", 0, ""));
            let ended_well = expected < 0 || code == expected;
            ensure!(ended_well && said.contains(words), "`{command}` ended with {code}:\n{said}");
        }
        Ok(())
    }
}

async fn account() -> Result<MotoAccount> {
    let options =
        Options { cluster: Some(CLUSTER.to_owned()), region: REGION.to_owned(), ..Options::default() };
    MotoAccount::start(options).await
}

/// Creates the contents of a new EKS cluster, two nodes of a managed node group among them. Pods and events come of themselves,
/// and the API server has the flow schemas.
async fn furnish(cluster: &LocalCluster) -> Result<()> {
    let recorded = include_str!("../../../src/doctor/recorded/eks.yaml");
    let recorded = recorded.replace("us-west-2", REGION).replace("demo", CLUSTER);
    for document in manifests::documents(&recorded)? {
        if !["Pod", "Event", "FlowSchema"].iter().any(|kind| document["kind"] == *kind) {
            manifests::apply_json(&cluster.client(), document).await?;
        }
    }
    Ok(())
}

/// Programs of the pages that this machine must have.
async fn lacking(programs: &[&str]) -> Vec<String> {
    let mut lacking = Vec::new();
    for program in programs {
        let found = Command::new(program).arg("--help").output().await;
        if found.is_err() {
            lacking.push((*program).to_owned());
        }
    }
    lacking
}

/// Returns whether the machine has these programs; reports it if it has not.
async fn can_run(test: &str, programs: &[&str]) -> bool {
    let lacking = lacking(programs).await;
    if let [first, ..] = lacking.as_slice() {
        skip(test, first, &format!("not on PATH: {}", lacking.join(", ")));
    }
    lacking.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn readme_leads_from_a_cluster_to_a_controller_and_back() {
    if !can_run("README on EKS", &["bash", "kubectl"]).await {
        return;
    }
    let account = account().await.expect("the account starts");
    let cluster = LocalCluster::start(local::Options::default()).await.expect("the control plane starts");
    furnish(&cluster).await.unwrap();
    try_it(&account, &cluster).await.unwrap();
    let desk = Desk::new(&account, Some(cluster.kubeconfig())).unwrap();
    // A cluster that has never heard of Karpenter is no sick one.
    desk.follow(&["karpenter doctor --cluster-name prod".to_owned()]).await.unwrap();
    let commands = commands("README.md", "## On EKS");
    for needed in ["karpenter bootstrap apply", "helm install karpenter ", "karpenter doctor"] {
        assert!(commands.iter().any(|command| command.starts_with(needed)), "README does not say `{needed}`");
    }
    desk.follow(&commands).await.unwrap();
    let removal = self::commands("docs/install.md", "## Taking it away");
    let of_sdk: Vec<String> = removal.into_iter().filter(|line| !line.contains("delete-stack")).collect();
    desk.follow(&of_sdk).await.unwrap();
    cluster.stop().await.unwrap();
    account.stop().await.unwrap();
}

/// Follows the README's steps for a cluster without Karpenter, by a service account that may only look; the calls of AWS are
/// those docs/plan.md lists.
async fn try_it(account: &MotoAccount, cluster: &LocalCluster) -> Result<()> {
    let rights = fs::read_to_string(prepare::cache::repository().join("docs/examples/plan-rights.yaml"))?;
    for document in manifests::documents(&rights)? {
        manifests::apply_json(&cluster.client(), document).await?;
    }
    let reader = cluster.service_account_kubeconfig("kube-system", "karpenter-plan").await?;
    let mut desk = Desk::new(account, Some(&reader))?;
    desk.environment.push(("AWS_ACCESS_KEY_ID".to_owned(), PLANNER.to_owned()));
    let commands = commands("README.md", "## Try it on your cluster");
    for needed in ["karpenter plan --cluster-name prod --what-if", "karpenter export", "karpenter plan -f"] {
        ensure!(commands.iter().any(|command| command.starts_with(needed)), "README does not say `{needed}`");
    }
    let special: &[Expected] = &[
        // The output goes into a file. Pods of the cluster itself may wait for nodes, or not.
        ("karpenter plan --cluster-name prod --what-if pool.yaml --what-if pods.yaml --output html", -1, ""),
        ("karpenter plan --cluster-name prod --what-if", -1, "x pool `general`"),
        ("karpenter export", 0, "note:"),
        ("karpenter plan --cluster-name prod", -1, "does not know NodePools"),
        ("karpenter plan -f pool.yaml -f pods.yaml", 2, "x pool `general`"),
        ("karpenter plan -f", -1, "No pools."),
    ];
    desk.follow_and_expect(&commands, special).await?;
    let page = fs::read_to_string(desk.folder.path().join("plan.html"))?;
    ensure!(page.contains("Plan for cluster prod"), "no page: {page}");
    // Of manifests alone the account may be asked, too.
    let of_files = "karpenter plan -f pool.yaml -f pods.yaml --offerings aws";
    desk.follow_and_expect(&[of_files.to_owned()], &[(of_files, -1, "x pool `general`")]).await?;
    let without_aws = format!("karpenter plan {OF_MEMORY}");
    desk.environment.retain(|(name, _)| !name.starts_with("AWS_"));
    desk.follow_and_expect(&[without_aws], &[("karpenter plan", -1, "x pool `general`")]).await?;
    rights::operators::plan(account.control(), PLANNER).await
}

/// Access key that signs the calls of a plan.
const PLANNER: &str = "planner";
/// A plan for which no account is asked.
const OF_MEMORY: &str = "--offerings memory --what-if pool.yaml --what-if pods.yaml";

#[tokio::test(flavor = "multi_thread")]
async fn install_with_the_binary_is_as_the_page_says() {
    if !can_run("docs/install.md with the binary", &["bash"]).await {
        return;
    }
    let account = account().await.expect("the account starts");
    let desk = Desk::new(&account, None).unwrap();
    let mut all = commands("docs/install.md", "## With the binary");
    all.extend(commands("docs/install.md", "## With tools of your own"));
    all.extend(commands("docs/install.md", "## With Terraform"));
    desk.follow(&all).await.unwrap();
    let second = desk.run(&["karpenter bootstrap plan --cluster-name prod".to_owned()]).await.unwrap();
    assert!(second[0].code == 0 && second[0].said.contains("nothing to do"), "{second:?}");
    account.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn install_with_cloudformation_is_as_the_page_says() {
    if !can_run("docs/install.md with CloudFormation", &["bash", "aws"]).await {
        return;
    }
    let account = account().await.expect("the account starts");
    let desk = Desk::new(&account, None).unwrap();
    desk.follow(&commands("docs/install.md", "## With CloudFormation")).await.unwrap();
    let removal = commands("docs/install.md", "## Taking it away");
    let of_stack: Vec<String> = removal.into_iter().filter(|line| line.contains("delete-stack")).collect();
    assert!(!of_stack.is_empty(), "the page does not say how to remove the stack");
    desk.follow(&of_stack).await.unwrap();
    account.stop().await.unwrap();
}

#[test]
fn no_section_with_commands_is_left_out() -> Result<()> {
    let followed = ["binary", "CloudFormation", "Terraform", "tools of your own", "Taking it away"];
    let text = fs::read_to_string(prepare::cache::repository().join("docs/install.md"))?;
    for section in text.split("\n## ").skip(1).filter(|section| section.contains("```sh")) {
        let heading = section.lines().next().unwrap_or_default();
        if !followed.iter().any(|known| heading.contains(known)) {
            bail!("no test follows the section `{heading}` of docs/install.md");
        }
    }
    Ok(())
}
