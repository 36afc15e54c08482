//! Turns decisions into an answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_engine::disrupt::BudgetState;
use karpenter_model::report::Reason;
use karpenter_model::{NodeId, NodeOutcome, PodOutcome, PoolName, PoolOutcome, PoolRefusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Disruption, Known, Machine, Question};

/// An answer, for machines as JSON and for people line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Subject of the answer, as in the question.
    pub about: String,
    /// The pass it is from; none when no pass has a result for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub decided_at: Option<Timestamp>,
    /// Summary of what will happen, in a few words.
    pub verdict: String,
    #[serde(default)]
    pub reasons: Vec<Why>,
    /// Other facts worth knowing, in the order to show them.
    #[serde(default)]
    pub facts: Vec<Fact>,
}

/// One thing worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// Stable word, one of those in the reference of reasons.
    pub code: String,
    /// Object that the reason belongs to, when the answer is about several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// For people.
    pub text: String,
}

impl Why {
    fn of(reason: &Reason) -> Self {
        Self { code: reason.code.to_string(), subject: None, text: reason.to_string() }
    }

    fn for_pool(refusal: &PoolRefusal) -> Self {
        Self { subject: refusal.pool.as_ref().map(ToString::to_string), ..Self::of(&refusal.reason) }
    }
}

impl Answer {
    fn new(question: &Question, decided_at: Option<Timestamp>, verdict: &str) -> Self {
        Self {
            about: question.to_string(),
            decided_at,
            verdict: verdict.to_owned(),
            reasons: Vec::new(),
            facts: Vec::new(),
        }
    }

    fn fact(&mut self, name: &str, value: &dyn ToString) {
        self.facts.push(Fact { name: name.to_owned(), value: value.to_string() });
    }
}

/// The answer to `question` from what is known.
pub(super) fn answer(known: &Known, question: &Question) -> Answer {
    match question {
        Question::All => all(known, question),
        Question::Node(name) => machine(known, question, |disruption| disruption.nodes.get(name)),
        Question::Claim(name) => {
            let mut answer = machine(known, question, |disruption| disruption.claims.get(name));
            answer.facts.extend(known.launches.facts(name));
            answer
        }
        Question::Pod(key) => {
            let Some(provisioning) = &known.provisioning else { return unknown(question) };
            let outcome = provisioning.pods.get(key);
            pod(Answer::new(question, Some(provisioning.at), ""), outcome)
        }
        Question::Pool(name) => pool(known, question, name),
    }
}

fn unknown(question: &Question) -> Answer {
    Answer::new(question, None, "nothing has been decided yet; ask the replica that leads")
}

fn machine(known: &Known, question: &Question, find: impl Fn(&Disruption) -> Option<&NodeId>) -> Answer {
    let Some(disruption) = &known.disruption else { return unknown(question) };
    let found = find(disruption).and_then(|id| disruption.machines.get(id));
    let Some(machine) = found else {
        return Answer::new(question, Some(disruption.at), "is not known");
    };
    let mut answer = Answer::new(question, Some(disruption.at), "");
    let named = [
        ("node", machine.node.as_ref().map(ToString::to_string)),
        ("nodeclaim", machine.claim.as_ref().map(ToString::to_string)),
        ("nodepool", machine.pool.as_ref().map(ToString::to_string)),
        ("command", machine.command.clone()),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            answer.fact(name, &value);
        }
    }
    match &machine.outcome {
        NodeOutcome::Removed(method) => answer.verdict = format!("is to go, by {method:?}"),
        NodeOutcome::Rebooted => "is to be rebooted".clone_into(&mut answer.verdict),
        NodeOutcome::Kept(reason) => {
            "stays".clone_into(&mut answer.verdict);
            answer.reasons.push(Why::of(reason));
        }
    }
    answer
}

fn pod(mut answer: Answer, outcome: Option<&PodOutcome>) -> Answer {
    answer.verdict = match outcome {
        None => "did not wait for capacity at the last pass".to_owned(),
        Some(PodOutcome::Existing(node)) => format!("fits on node/{node}"),
        Some(PodOutcome::InFlight(claim)) => format!("fits on nodeclaim/{claim}, which is coming up"),
        Some(PodOutcome::New(_)) => "gets a new node".to_owned(),
        Some(PodOutcome::Ignored(reasons)) => {
            answer.reasons = reasons.iter().map(Why::of).collect();
            "is not placed by Karpenter".to_owned()
        }
        Some(PodOutcome::Unschedulable(refusals)) => {
            // The closest pool first: codes are in the order of the checks.
            let mut refusals: Vec<&PoolRefusal> = refusals.iter().collect();
            refusals.sort_by_key(|refusal| Reverse(refusal.reason.code));
            answer.reasons = refusals.into_iter().map(Why::for_pool).collect();
            "waits, no pool can take it".to_owned()
        }
    };
    answer
}

fn pool(known: &Known, question: &Question, name: &PoolName) -> Answer {
    let provisioning = known.provisioning.as_ref();
    let outcome = provisioning.and_then(|provisioning| provisioning.pools.get(name));
    let at = [known.disruption.as_ref().map(|known| known.at), provisioning.map(|known| known.at)];
    let mut answer = Answer::new(question, at.into_iter().flatten().max(), "");
    answer.verdict = match outcome {
        Some(PoolOutcome::Used { launches }) => format!("takes part, {launches} new nodes at the last pass"),
        Some(PoolOutcome::Skipped(reason)) => {
            answer.reasons.push(Why::of(reason));
            "does not take part".to_owned()
        }
        None if at.iter().all(Option::is_none) => return unknown(question),
        None => "was not asked for at the last pass".to_owned(),
    };
    if let Some(disruption) = &known.disruption {
        for ((pool, reason), state) in &disruption.budgets {
            if pool == name {
                answer.fact(&format!("disruptions ({reason})"), &budget(state));
            }
        }
        let of_pool = |machine: &&Machine| machine.pool.as_ref() == Some(name);
        count(&mut answer, disruption.machines.values().filter(of_pool));
    }
    answer
}

fn budget(state: &BudgetState) -> String {
    match state.allowed {
        BudgetState::NO_LIMIT.. => format!("no limit, {} under way", state.consuming),
        allowed => format!("{allowed} at once, {} under way", state.consuming),
    }
}

fn all(known: &Known, question: &Question) -> Answer {
    let Some(disruption) = &known.disruption else { return unknown(question) };
    let verdict = match disruption.commands.len() {
        0 => "nothing is to go".to_owned(),
        1 => "1 command proposed".to_owned(),
        commands => format!("{commands} commands proposed"),
    };
    let mut answer = Answer::new(question, Some(disruption.at), &verdict);
    for (number, command) in disruption.commands.iter().enumerate() {
        answer.fact(&format!("command {}", number + 1), command);
    }
    count(&mut answer, disruption.machines.values());
    if let Some(provisioning) = &known.provisioning {
        let waiting = provisioning.pods.values().filter(|outcome| !outcome.is_placed()).count();
        answer.fact("pods without a place", &waiting);
    }
    for finding in known.refused.lately(disruption.at) {
        answer.fact("refused plan", &finding);
    }
    answer
}

/// Counts the machines that stay for each reason, most first.
fn count<'a>(answer: &mut Answer, machines: impl Iterator<Item = &'a Machine>) {
    let mut kept: BTreeMap<_, usize> = BTreeMap::new();
    let mut going = 0;
    for machine in machines {
        match &machine.outcome {
            NodeOutcome::Removed(_) => going += 1,
            NodeOutcome::Rebooted => {}
            NodeOutcome::Kept(reason) => *kept.entry(reason.code).or_default() += 1,
        }
    }
    answer.fact("nodes that are to go", &going);
    let mut kept: Vec<_> = kept.into_iter().collect();
    // The code second, so that equal answers are equal texts.
    kept.sort_by_key(|(code, count)| (Reverse(*count), *code));
    for (code, count) in kept {
        answer.fact(&format!("nodes that stay ({code})"), &format!("{count}, {}", code.summary()));
    }
}

#[cfg(test)]
mod tests;
