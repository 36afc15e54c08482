//! The suite has teeth: each defect a provider could have is found by a check.

use karpenter_model::ClaimUid;

use super::*;
use crate::conformance::Outcome;

/// Defect of a provider.
#[derive(Debug, Clone, Copy)]
enum Defect {
    /// Every launch is a new machine.
    NeverAdopts,
    /// Adopts whatever carries the tag, even a terminating machine.
    AdoptsTheDying,
    /// Returns "gone" as soon as it was asked.
    GoneTooEarly,
    /// Fails when the machine is gone already.
    TerminateFailsWhenGone,
    /// Describes machines after their end.
    RemembersTheDead,
    /// Shows the first few machines only.
    ShortList,
    /// An error on the way reads as an empty list.
    ErrorIsEmpty,
    /// One offering without capacity excludes its whole type.
    ExcludesTheType,
    /// Types without capacity disappear.
    ForgetsTypes,
    /// Lack of capacity is an error like any other.
    VagueAboutCapacity,
    /// An error on the way reads as "no machine was started".
    ErrorIsNoMachine,
    /// The machine of a claim is not found any more as soon as its termination has started.
    LosesSightOfTheDying,
    /// Reports a reboot of what does not exist.
    RebootsTheDead,
    /// A machine that is rebooted ends.
    EndsWhatItReboots,
    /// Tags nothing and reports success.
    DoesNotTag,
}

struct Broken {
    inner: MemoryProvider,
    account: Arc<Account>,
    defect: Defect,
}

impl Broken {
    fn is(&self, defect: Defect) -> bool {
        std::mem::discriminant(&self.defect) == std::mem::discriminant(&defect)
    }
}

#[async_trait]
impl Provider for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }

    fn label_registry(&self) -> Arc<LabelRegistry> {
        self.inner.label_registry()
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Instance> {
        if self.is(Defect::NeverAdopts) {
            let count = self.account.calls().len();
            let claim: ClaimName = format!("{}-{count}", request.claim).into();
            let uid: ClaimUid = format!("{}-{count}", request.uid).into();
            let mut instance = self.inner.launch(&LaunchRequest { claim, uid, ..request.clone() }).await?;
            instance.claim = Some(request.claim.clone());
            return Ok(instance);
        }
        if self.is(Defect::AdoptsTheDying)
            && let Some(known) =
                self.account.machines().into_iter().find(|one| one.claim.as_ref() == Some(&request.claim))
        {
            return Ok(known);
        }
        self.inner.launch(request).await.map_err(|mut error| {
            if self.is(Defect::VagueAboutCapacity) && error.kind == Kind::NoCapacity {
                error.kind = Kind::Transient;
            }
            error
        })
    }

    async fn terminate(&self, id: &ProviderId) -> Result<Termination> {
        let answer = self.inner.terminate(id).await?;
        if self.is(Defect::GoneTooEarly) {
            return Ok(Termination::AlreadyGone);
        }
        if self.is(Defect::TerminateFailsWhenGone) && answer == Termination::AlreadyGone {
            return Err(Error::new(Kind::NotFound, "terminate instance", id.as_str(), "no such machine"));
        }
        Ok(answer)
    }

    async fn reboot(&self, id: &ProviderId) -> Result<()> {
        let answer = self.inner.reboot(id).await;
        match self.defect {
            Defect::RebootsTheDead => Ok(()),
            Defect::EndsWhatItReboots => self.inner.terminate(id).await.map(drop),
            _ => answer,
        }
    }

    async fn instance(&self, id: &ProviderId, read: Read) -> Result<Instance> {
        let answer = self.inner.instance(id, read).await;
        if self.is(Defect::RemembersTheDead) && answer.is_err() {
            let world = Memory::new();
            let mut ghost = world.provider.launch(&world.request("ghost")).await?;
            ghost.state = InstanceState::Terminated;
            return Ok(ghost);
        }
        answer
    }

    async fn machine_of(&self, claim: &ClaimName) -> Result<Option<ProviderId>> {
        let answer = self.inner.machine_of(claim).await;
        match self.defect {
            Defect::ErrorIsNoMachine => Ok(answer.unwrap_or_default()),
            Defect::LosesSightOfTheDying => {
                let living = |id: &ProviderId| {
                    let machines = self.account.machines();
                    machines.iter().any(|one| one.provider_id == *id && one.state.exists())
                };
                answer.map(|found| found.filter(living))
            }
            _ => answer,
        }
    }

    async fn instances(&self) -> Result<Vec<Instance>> {
        let answer = self.inner.instances().await;
        match self.defect {
            Defect::ShortList => answer.map(|list| list.into_iter().take(5).collect()),
            Defect::ErrorIsEmpty => Ok(answer.unwrap_or_default()),
            _ => answer,
        }
    }

    async fn instance_types(&self, pool: &Pool) -> Result<Arc<[Arc<InstanceType>]>> {
        let types = self.inner.instance_types(pool).await?;
        let sold_out = |one: &InstanceType| one.offerings.iter().any(|offering| !offering.available);
        Ok(match self.defect {
            Defect::ForgetsTypes => types.iter().filter(|one| !sold_out(one)).cloned().collect(),
            Defect::ExcludesTheType => types
                .iter()
                .map(|one| {
                    let mut seen = one.as_ref().clone();
                    if sold_out(one) {
                        seen.offerings.iter_mut().for_each(|offering| offering.available = false);
                    }
                    Arc::new(seen)
                })
                .collect(),
            _ => types,
        })
    }

    async fn drift(&self, claim: &Claim) -> Result<Option<DriftReason>> {
        self.inner.drift(claim).await
    }

    async fn tag(&self, id: &ProviderId, claim: &ClaimName, node: &NodeName) -> Result<()> {
        if self.is(Defect::DoesNotTag) { Ok(()) } else { self.inner.tag(id, claim, node).await }
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }
}

struct BrokenWorld {
    memory: Memory,
    provider: Arc<Broken>,
    defect: Defect,
}

impl BrokenWorld {
    fn new(defect: Defect) -> Self {
        let memory = Memory::new();
        let provider = Arc::new(Self::broken(&memory, defect));
        Self { memory, provider, defect }
    }

    fn broken(memory: &Memory, defect: Defect) -> Broken {
        let inner = MemoryProvider::new(memory.account.clone(), memory.catalogue.clone());
        Broken { inner, account: memory.account.clone(), defect }
    }
}

#[async_trait]
impl World for BrokenWorld {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn restarted(&self) -> Arc<dyn Provider> {
        Arc::new(Self::broken(&self.memory, self.defect))
    }

    fn request(&self, claim: &str) -> LaunchRequest {
        self.memory.request(claim)
    }

    fn pool(&self) -> Pool {
        self.memory.pool()
    }

    async fn exhaust(&self, offering: &OfferingKey) {
        self.memory.exhaust(offering).await;
    }

    async fn settle(&self) {
        self.memory.settle().await;
    }

    async fn lose_answer(&self, operation: Operation) {
        self.memory.lose_answer(operation).await;
    }

    async fn refuse(&self, operation: Operation) {
        self.memory.refuse(operation).await;
    }
}

struct BrokenBackend(Defect);

#[async_trait]
impl Backend for BrokenBackend {
    async fn world(&self) -> Box<dyn World> {
        Box::new(BrokenWorld::new(self.0))
    }
}

#[tokio::test]
async fn every_defect_is_found_by_the_check_about_it() {
    let table = [
        (Defect::NeverAdopts, "launch twice is one machine"),
        (Defect::AdoptsTheDying, "a terminating machine is not adopted"),
        (Defect::GoneTooEarly, "terminate twice is already gone"),
        (Defect::TerminateFailsWhenGone, "terminate of an unknown machine is already gone"),
        (Defect::RemembersTheDead, "terminated machine is not found"),
        (Defect::ErrorIsNoMachine, "the machine of a claim is an error when refused"),
        (Defect::LosesSightOfTheDying, "the machine of a claim is found until it is gone"),
        (Defect::ShortList, "list is complete"),
        (Defect::ErrorIsEmpty, "list is an error when refused"),
        (Defect::ExcludesTheType, "lack of capacity excludes only its offering"),
        (Defect::ForgetsTypes, "exhausted types are still listed"),
        (Defect::VagueAboutCapacity, "no offering left is no capacity"),
        (Defect::RebootsTheDead, "reboot of a machine that is gone is not found"),
        (Defect::EndsWhatItReboots, "a machine that is rebooted stays"),
        (Defect::DoesNotTag, "tags name claim and node"),
    ];
    for (defect, check) in table {
        let report = conformance::run(&BrokenBackend(defect)).await;
        let outcome = report.outcomes.iter().find(|(name, _)| *name == check).map(|(_, outcome)| outcome);
        assert!(matches!(outcome, Some(Outcome::Failed(_))), "{defect:?} passes `{check}`\n{report}");
    }
}

#[tokio::test]
async fn a_check_is_left_out_only_with_a_reason() {
    struct Lazy;

    #[async_trait]
    impl Backend for Lazy {
        async fn world(&self) -> Box<dyn World> {
            Box::new(Memory::new())
        }

        fn skipped(&self, check: &str) -> Option<&'static str> {
            (check == "list is complete").then_some("pages cannot be forced here")
        }
    }

    let report = conformance::run(&Lazy).await;
    assert!(report.to_string().contains("skip  list is complete: pages cannot be forced here"));
    let passed = report.outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Passed).count();
    assert_eq!(passed, conformance::CHECKS.len() - 1);
}
