//! Provider ids: `aws:///<zone>/<instance id>` (spec aws-provider 2.2).

use karpenter_aws_api::id::InstanceId;
use karpenter_model::ProviderId;

/// The provider id of an instance.
pub fn provider_id(zone: &str, instance: &str) -> ProviderId {
    format!("aws:///{zone}/{instance}").into()
}

/// The instance a provider id names; `None` when the id is not one of EC2's.
///
/// Read as generously as always: anything, three slashes, anything, a slash, the instance id.
pub fn instance_of(id: &ProviderId) -> Option<InstanceId> {
    let (_, rest) = id.as_str().split_once("///")?;
    let (_, instance) = rest.rsplit_once('/')?;
    instance.starts_with("i-").then(|| instance.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_is_the_last_segment() {
        for (text, instance) in [
            ("aws:///us-west-2a/i-0123", Some("i-0123")),
            ("aws:////i-0123", Some("i-0123")),
            ("aws:///us-west-2a/x-0123", None),
            ("aws://us-west-2a/i-0123", None),
            ("aws:///i-0123", None),
            ("kwok://node", None),
            ("", None),
        ] {
            let parsed = instance_of(&text.into());
            assert_eq!(parsed.as_ref().map(InstanceId::as_str), instance, "{text}");
        }
    }

    #[test]
    fn what_is_made_is_read_back() {
        let id = provider_id("eu-west-1b", "i-42");
        assert_eq!(id.as_str(), "aws:///eu-west-1b/i-42");
        assert_eq!(instance_of(&id).unwrap().as_str(), "i-42");
    }
}
