//! Telling apart what a call for many was refused for. EC2 refuses the whole call because of one.
//!
//! Ids that the refusal names receive it as their answer, and the rest is asked again; a refusal that names none is narrowed
//! down by halves. A failure that has nothing to do with single ids (throttling, a lost answer) is the answer for all.

use std::collections::BTreeMap;

use karpenter_aws_api::{Error, Kind, Result};

use super::Answers;

/// Most calls for one batch: enough to find two that are refused without being named among five hundred.
const MOST_CALLS: u32 = 40;

/// Calls for `ids` together, and again without those that were refused, until each has its answer.
///
/// An answer that leaves an id out is no answer for it.
pub(crate) async fn ask<Q, A, F>(
    operation: &'static str,
    ids: impl IntoIterator<Item = Q>,
    call: impl Fn(Vec<Q>) -> F,
) -> Answers<Q, A>
where
    Q: Ord + Clone + AsRef<str>,
    F: Future<Output = Result<BTreeMap<Q, A>>>,
{
    let mut answers = Answers::new();
    let mut groups: Vec<Vec<Q>> = vec![ids.into_iter().collect()];
    let (mut calls, mut last) = (0, None);
    while let Some(group) = groups.pop() {
        if group.is_empty() {
            continue;
        }
        // One batch must not use up the quota that all others share; callers ask for the rest again.
        if let Some(refusal) = last.as_ref().filter(|_| calls >= MOST_CALLS) {
            for id in group.into_iter().chain(groups.drain(..).flatten()) {
                let error = with_others(refusal, id.as_ref());
                answers.insert(id, Err(error));
            }
            break;
        }
        calls += 1;
        let refusal = match call(group.clone()).await {
            Ok(mut found) => {
                for id in group {
                    let answer = found.remove(&id).ok_or_else(|| left_out(operation, id.as_ref()));
                    answers.insert(id, answer);
                }
                continue;
            }
            Err(refusal) => refusal,
        };
        if !is_about_some(refusal.kind) {
            // Asking the rest would meet the same.
            for id in group.into_iter().chain(groups.drain(..).flatten()) {
                let error = about(&refusal, id.as_ref());
                answers.insert(id, Err(error));
            }
            break;
        }
        // A call for one id can have been refused because of that id only, whether EC2 names it or not.
        let alone = group.len() == 1;
        let (named, mut rest): (Vec<Q>, Vec<Q>) =
            group.into_iter().partition(|id| alone || refusal.names(id.as_ref()));
        if named.is_empty() {
            groups.push(rest.split_off(rest.len() / 2));
        }
        groups.push(rest);
        for id in named {
            let error = about(&refusal, id.as_ref());
            answers.insert(id, Err(error));
        }
        last = Some(refusal);
    }
    answers
}

/// Returns whether only some of those asked for may be the cause of a refusal of this kind.
fn is_about_some(kind: Kind) -> bool {
    match kind {
        Kind::NotFound | Kind::Denied | Kind::Invalid | Kind::Conflict => true,
        Kind::AlreadyExists
        | Kind::Throttled
        | Kind::NoCapacity
        | Kind::LimitExceeded
        | Kind::DryRun
        | Kind::Transient => false,
    }
}

fn about(refusal: &Error, id: &str) -> Error {
    Error { subject: id.to_owned(), ..refusal.clone() }
}

/// A refusal of this one together with others is not known to be about it, so it must not read as "not found".
fn with_others(refusal: &Error, id: &str) -> Error {
    let kind = if refusal.kind == Kind::NotFound { Kind::Transient } else { refusal.kind };
    let message = format!("asked for together with others, one of which was refused: {}", refusal.message);
    Error { kind, message, ..about(refusal, id) }
}

fn left_out(operation: &'static str, id: &str) -> Error {
    Error::transient(operation, id, "the answer of EC2 leaves it out; it is asked for again")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    /// An EC2 that refuses some ids, and what it was asked.
    struct Ec2 {
        refused: BTreeSet<String>,
        code: &'static str,
        /// Number of refused ids that its text names.
        names: usize,
        calls: RefCell<Vec<usize>>,
    }

    fn id(number: usize) -> String {
        format!("i-{number:017x}")
    }

    impl Ec2 {
        fn refusing(numbers: impl IntoIterator<Item = usize>, code: &'static str, names: usize) -> Self {
            let refused = numbers.into_iter().map(id).collect();
            Self { refused, code, names, calls: RefCell::default() }
        }

        fn call(&self, ids: &[String]) -> Result<BTreeMap<String, usize>> {
            self.calls.borrow_mut().push(ids.len());
            let refused: Vec<_> = ids.iter().filter(|id| self.refused.contains(*id)).cloned().collect();
            if refused.is_empty() {
                return Ok(ids.iter().map(|id| (id.clone(), ids.len())).collect());
            }
            let named: Vec<_> = refused.into_iter().take(self.names).collect();
            let text = format!("The instance IDs '{}' do not exist", named.join(", "));
            Err(Error::answered("TerminateInstances", format!("{} instances", ids.len()), self.code, text))
        }

        async fn ask(&self, count: usize) -> Answers<String, usize> {
            let answers = ask("TerminateInstances", (0..count).map(id), |ids| async move { self.call(&ids) });
            let answers = answers.await;
            assert_eq!(answers.len(), count, "each has an answer");
            answers
        }

        fn calls(&self) -> usize {
            self.calls.borrow().len()
        }
    }

    fn failed(answers: &Answers<String, usize>) -> BTreeSet<String> {
        answers.iter().filter(|(_, answer)| answer.is_err()).map(|(id, _)| id.clone()).collect()
    }

    #[tokio::test]
    async fn those_a_refusal_names_are_answered_with_it_and_the_rest_is_asked_again() {
        let ec2 = Ec2::refusing([3, 70, 499], "InvalidInstanceID.NotFound", 9);
        let answers = ec2.ask(500).await;
        assert_eq!(failed(&answers), ec2.refused);
        let error = answers[&id(70)].clone().unwrap_err();
        assert_eq!((error.kind, error.subject), (Kind::NotFound, id(70)));
        assert_eq!(*ec2.calls.borrow(), [500, 497]);
    }

    #[tokio::test]
    async fn a_refusal_that_names_only_some_is_repeated_until_all_are_known() {
        let ec2 = Ec2::refusing([1, 2, 3, 4], "InvalidInstanceID.NotFound", 2);
        assert_eq!(failed(&ec2.ask(100).await), ec2.refused);
        assert_eq!(*ec2.calls.borrow(), [100, 98, 96]);
    }

    #[tokio::test]
    async fn a_refusal_that_names_none_is_narrowed_down_by_halves() {
        for kind in ["UnauthorizedOperation", "OperationNotPermitted", "InvalidInstanceID.NotFound"] {
            let ec2 = Ec2::refusing([17, 401], kind, 0);
            assert_eq!(failed(&ec2.ask(500).await), ec2.refused, "{kind}");
            assert!(ec2.calls() <= 40, "{} calls", ec2.calls());
        }
    }

    #[tokio::test]
    async fn when_all_are_refused_the_calls_are_bounded_and_none_reads_as_not_found() {
        for (code, kind) in
            [("UnauthorizedOperation", Kind::Denied), ("InvalidInstanceID.NotFound", Kind::Transient)]
        {
            let ec2 = Ec2::refusing(0..500, code, 0);
            let answers = ec2.ask(500).await;
            assert!(ec2.calls() <= 40, "{} calls", ec2.calls());
            let alone: BTreeSet<_> =
                answers.values().filter_map(|answer| answer.clone().err()).map(|error| error.kind).collect();
            assert!(alone.contains(&kind), "{alone:?}");
            let not_found = answers.values().filter_map(|answer| answer.clone().err());
            let not_found = not_found.filter(Error::is_not_found).count();
            assert!(not_found <= 40, "{not_found} taken for gone, more than were asked for alone");
        }
    }

    #[tokio::test]
    async fn throttling_is_the_answer_for_all_and_nothing_is_repeated() {
        for (code, kind) in [("RequestLimitExceeded", Kind::Throttled), ("InternalError", Kind::Transient)] {
            let ec2 = Ec2::refusing([5], code, 0);
            let answers = ec2.ask(500).await;
            assert!(answers.values().all(|answer| answer.clone().unwrap_err().kind == kind));
            assert_eq!(ec2.calls(), 1);
        }
    }

    #[tokio::test]
    async fn what_an_answer_leaves_out_is_not_gone() {
        let half = |_| async { Ok(BTreeMap::from([(id(1), 0)])) };
        let answers = ask("DescribeInstances", [id(1), id(2)], half).await;
        assert_eq!(answers[&id(1)], Ok(0));
        assert_eq!(answers[&id(2)].clone().unwrap_err().kind, Kind::Transient);
    }
}
