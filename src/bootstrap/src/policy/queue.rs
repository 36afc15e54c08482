//! The interruption queue's own policy (spec aws-operations 1.4).
//!
//! Tighter than what the reference template grants: messages are accepted only from this cluster's rules.

use super::{Document, Effect, Principal, Statement};
use crate::settings::Settings;

/// Lets the cluster's five rules send, and refuses everything that does not come over TLS.
pub fn queue_policy(settings: &Settings, rule_arns: &[String]) -> Document {
    let send = Statement::allow("AllowKarpenterRules", &["sqs:SendMessage"], vec![settings.queue_arn()])
        .for_principal("Service", &["events.amazonaws.com"])
        .when("ArnEquals", "aws:SourceArn", rule_arns.iter().cloned());
    let mut deny = Statement::allow("DenyHTTP", &["sqs:*"], vec![settings.queue_arn()]).when(
        "Bool",
        "aws:SecureTransport",
        ["false"],
    );
    deny.effect = Effect::Deny;
    deny.principal = Some(Principal::Everybody);
    Document { id: Some("EC2InterruptionPolicy".to_owned()), statements: vec![send, deny] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Found;
    use crate::settings::tests::settings;

    #[test]
    fn only_the_clusters_rules_may_send_and_only_over_tls() {
        let rule = "arn:aws:events:eu-west-1:123456789012:rule/r".to_owned();
        let document = queue_policy(&settings(), std::slice::from_ref(&rule));
        assert_eq!(document.statements[0].conditions["ArnEquals"]["aws:SourceArn"], [rule]);
        assert_eq!(document.statements[1].effect, Effect::Deny);
        assert!(Found::on_resource(&document.to_json()).unwrap().says(&document));
    }
}
