//! Names, change sets and what a template cannot do. How stacks live is in `tests/it/stack.rs`.

use super::*;
use crate::settings::ExtraNodeRole;
use crate::settings::tests::{settings, settings_for_cluster};

fn stack(parameters: &[(&str, &str)], status: &str) -> Stack {
    Stack {
        id: "arn:aws:cloudformation:eu-west-1:123456789012:stack/Karpenter-prod/1".into(),
        name: "Karpenter-prod".to_owned(),
        status: status.to_owned(),
        reason: None,
        parameters: parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        outputs: Tags::new(),
        tags: Tags::new(),
    }
}

#[test]
fn names_are_such_as_cloudformation_takes_and_differ_when_clusters_do() {
    for (cluster, expected) in [("prod", "Karpenter-prod"), ("Prod-1", "Karpenter-Prod-1")] {
        assert_eq!(name(&settings_for_cluster(cluster)), expected);
    }
    let names =
        ["a-b".to_owned(), "a_b".to_owned(), "c".repeat(100), "_".repeat(99), format!("c{}", "_".repeat(99))];
    let names: Vec<_> = names.iter().map(|cluster| name(&settings_for_cluster(cluster))).collect();
    for name in &names {
        assert!(name.len() <= STACK_NAME_MAX, "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{name}");
    }
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{names:?}");
}

#[test]
fn the_template_fits_into_a_request_and_one_that_does_not_is_refused_with_the_way_out() {
    assert!(check_size(&cloudformation::template()).is_ok(), "{}", cloudformation::template().len());
    let error = check_size(&"x".repeat(TEMPLATE_BODY_MAX + 1)).unwrap_err().to_string();
    assert!(error.contains("51201 bytes") && error.contains("--s3-bucket"), "{error}");
}

#[test]
fn the_spot_role_is_made_once_and_kept() {
    let parameter = |existing: Option<&Stack>, there| {
        let spec = change_set(&settings(), "Karpenter-prod", existing, there).unwrap();
        spec.parameters.get(SPOT_PARAMETER).cloned()
    };
    let (with, without) =
        (stack(&[(SPOT_PARAMETER, "true")], "CREATE_COMPLETE"), stack(&[], "CREATE_COMPLETE"));
    assert_eq!(parameter(None, false).as_deref(), Some("true"));
    assert_eq!(parameter(None, true), None, "another tool made it");
    assert_eq!(parameter(Some(&with), true).as_deref(), Some("true"), "the stack made it");
    assert_eq!(parameter(Some(&without), true), None);
}

#[test]
fn a_change_set_creates_only_what_was_never_executed() {
    for (existing, creates) in [
        (None, true),
        (Some(stack(&[], "REVIEW_IN_PROGRESS")), true),
        (Some(stack(&[], "UPDATE_COMPLETE")), false),
    ] {
        let spec = change_set(&settings(), "s", existing.as_ref(), true).unwrap();
        assert_eq!(spec.creates, creates, "{existing:?}");
        assert_eq!(spec.tags, Tags::from([(CLUSTER_TAG.to_owned(), "prod".to_owned())]), "never our own tag");
    }
}

#[test]
fn tags_of_the_stack_stay_unless_settings_say_otherwise() {
    let tags = |pairs: &[(&str, &str)]| -> Tags {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let mut existing = stack(&[], "UPDATE_COMPLETE");
    existing.tags = tags(&[
        ("aws:cloudformation:stack-name", "outer"),
        ("cost-center", "42"),
        ("team", "a"),
        (CLUSTER_TAG, "other"),
    ]);
    let mut settings = settings();
    settings.tags = tags(&[("team", "b")]);
    let spec = change_set(&settings, "s", Some(&existing), true).unwrap();
    assert_eq!(spec.tags, tags(&[("cost-center", "42"), ("team", "b"), (CLUSTER_TAG, "prod")]));
}

#[test]
fn change_sets_of_the_same_content_have_the_same_name() {
    let named = |settings: &Settings| change_set(settings, "s", None, true).unwrap().name;
    let mut other = settings();
    other.tags.insert("team".to_owned(), "a".to_owned());
    assert_eq!(named(&settings()), named(&settings()));
    assert_ne!(named(&settings()), named(&other));
}

#[test]
fn more_roles_than_the_template_has_entries_for_are_refused() {
    let mut settings = settings();
    let role = |index: usize, platform| ExtraNodeRole {
        arn: format!("arn:aws:iam::123456789012:role/extra-{index}"),
        platform,
    };
    settings.extra_node_roles = (0..EXTRA_LINUX_ROLES).map(|index| role(index, Platform::Linux)).collect();
    assert_eq!(beyond_the_template(&settings), Vec::<String>::new());
    settings.extra_node_roles.push(role(9, Platform::Linux));
    settings.extra_node_roles.extend((0..=EXTRA_WINDOWS_ROLES).map(|index| role(index, Platform::Windows)));
    let found = beyond_the_template(&settings);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("4 roles named by --extra-node-role, not for 5"), "{found:?}");
    settings.access_entry = false;
    assert_eq!(beyond_the_template(&settings), Vec::<String>::new());
}
