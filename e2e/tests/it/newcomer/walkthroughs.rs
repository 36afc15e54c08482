//! The five texts that many readers come from, with today's way of each: their pages in `docs/guides/walkthroughs` are
//! followed, and `docs/walkthroughs.md` has a row for every step, with a test that exists.

use std::collections::BTreeSet;
use std::fs;

use karpenter_e2e::prepare;
use karpenter_e2e::scenario::Suite;

use super::guides::{AtWork, Guide, Part, at_work, nothing_left_out, pages};

const TALK: AtWork = AtWork {
    page: "docs/guides/walkthroughs/talk.md",
    before: &[],
    sections: &["## Convert", "## Scale up and down", "## Look"],
    special: &[("karpenter view --once", 0, "an hour"), ("karpenter convert", 0, "4 of 4 objects converted")],
};

/// Objects that `eksctl create cluster --with-oidc` makes besides the cluster.
const WITH_OIDC: &str = "aws iam create-open-id-connect-provider --client-id-list sts.amazonaws.com \
    --url $(aws eks describe-cluster --name $CLUSTER --query cluster.identity.oidc.issuer --output text)";

/// Followed with the guides: it needs no machines.
pub(super) const FIRST_BLOG_ACCOUNT: Guide = Guide {
    page: "docs/guides/walkthroughs/first-blog.md",
    parts: &[Part { before: &[WITH_OIDC], sections: &["## The account", "## The chart", "## Away again"] }],
};

const FIRST_BLOG: AtWork = AtWork {
    page: "docs/guides/walkthroughs/first-blog.md",
    before: &[],
    sections: &["## The Provisioner", "## Ten pods", "## Empty again", "## Delete a node"],
    special: &[("karpenter convert -f", 1, "faulty: 4"), ("kubectl get nodeclaims", 0, "m5.")],
};

const WORKSHOP: AtWork = AtWork {
    page: "docs/guides/walkthroughs/workshop.md",
    before: &[],
    sections: &["## The account", "## The pool", "## The game", "## The quota"],
    special: &[("kubectl describe resourcequota", 0, "10")],
};

const V1_BLOG: AtWork = AtWork {
    page: "docs/guides/walkthroughs/v1-blog.md",
    before: &[],
    sections: &["## Class and pool", "## Pods of the team", "## What was made", "## What a change would do"],
    special: &[("aws ec2 describe-instances", 0, "backend")],
};

const SLIDES: AtWork = AtWork {
    page: "docs/guides/walkthroughs/slides.md",
    before: &[],
    sections: &["## Drift by a requirement"],
    special: &[],
};

const TEXTS_AT_WORK: [&AtWork; 5] = [&TALK, &FIRST_BLOG, &WORKSHOP, &V1_BLOG, &SLIDES];

/// The texts, by the letter of their heading in the table, with the number of their steps.
const TEXTS: [(&str, usize); 5] = [("A", 8), ("B", 9), ("C", 6), ("D", 6), ("E", 6)];

#[tokio::test(flavor = "multi_thread")]
async fn the_older_walkthroughs_are_as_their_pages_say() {
    at_work("older-walkthroughs", &TEXTS_AT_WORK[..2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_later_walkthroughs_are_as_their_pages_say() {
    at_work("later-walkthroughs", &TEXTS_AT_WORK[2..]).await;
}

#[test]
fn no_section_of_a_walkthrough_is_left_out() {
    for page in pages("docs/guides/walkthroughs") {
        let busy = TEXTS_AT_WORK.iter().filter(|text| text.page == page).flat_map(|text| text.sections);
        let bare = FIRST_BLOG_ACCOUNT.parts.iter().filter(|_| page == FIRST_BLOG_ACCOUNT.page);
        let followed: Vec<&str> = busy.chain(bare.flat_map(|part| part.sections)).copied().collect();
        assert!(!followed.is_empty(), "no test follows `{page}`");
        nothing_left_out(&page, &followed);
    }
}

/// A test as the table names it: a page that is followed, a behaviour of a suite, a scenario of the engine, or a file
/// with the name of a function in it.
fn exists(test: &str) -> bool {
    let repository = prepare::cache::repository();
    if let Some((file, function)) = test.split_once("::") {
        let text = fs::read_to_string(repository.join(file)).unwrap_or_default();
        return text.contains(&format!("fn {function}("));
    }
    if let Some((suite, behaviour)) = test.split_once(": ") {
        let suite = Suite::ALL.into_iter().find(|known| known.name() == suite);
        return suite.is_some_and(|suite| suite.behaviours().contains(&behaviour));
    }
    let is_page = pages("docs/guides/walkthroughs").contains(&test.to_owned());
    is_page || test.contains("/tests/") && repository.join(test).is_file()
}

#[test]
fn every_step_of_the_five_texts_names_a_test_that_exists() {
    let text = fs::read_to_string(prepare::cache::repository().join("docs/walkthroughs.md")).unwrap();
    for (letter, steps) in TEXTS {
        let start = format!("\n## {letter}. ");
        let section = text.split(&start).nth(1).unwrap_or_else(|| panic!("no section {letter}"));
        let section = section.split("\n## ").next().unwrap();
        let mut seen = BTreeSet::new();
        for row in section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
            let cells: Vec<&str> = row.split(" | ").collect();
            let Ok(step) = cells[0].parse::<usize>() else { continue };
            assert_eq!(cells.len(), 4, "{letter}{step}");
            seen.insert(step);
            // Text after a semicolon is a note.
            let verdict = cells[2].split("; ").next().unwrap_or_default();
            let known = ["works", "works converted"];
            assert!(
                known.iter().any(|word| verdict == *word || verdict.starts_with("answered: ")),
                "{letter}{step}: {verdict}"
            );
            let tests: Vec<&str> = cells[3].split('`').skip(1).step_by(2).collect();
            assert!(!tests.is_empty(), "{letter}{step} names no test");
            for test in tests {
                assert!(exists(test), "{letter}{step}: there is no test `{test}`");
            }
        }
        assert_eq!(seen, (1..=steps).collect(), "steps of {letter}");
    }
}
