//! Launch templates that another client deleted during a launch (spec aws-provider 5.9).

use karpenter_aws_api::ec2::FleetResult;
use karpenter_aws_api::{Error, Result};

const CODE: &str = "InvalidLaunchTemplateName.NotFoundException";

/// Returns whether a call was refused because a template is gone.
pub(super) fn is_gone(error: &Error) -> bool {
    error.code.as_deref() == Some(CODE)
}

/// Returns whether this template is gone, as far as the answer of a fleet shows. A refusal of the whole call names none.
pub(super) fn says_gone(answer: &Result<FleetResult>, template: &str) -> bool {
    let named = |name: &Option<String>| name.as_ref().is_none_or(|name| name == template);
    match answer {
        Err(error) => is_gone(error),
        Ok(result) => result.errors.iter().any(|error| error.code == CODE && named(&error.launch_template)),
    }
}

/// Returns whether the same request makes sense once its templates have been made again. Not after a fleet was answered: its
/// token is spent, and EC2 would give the same answer again.
pub(super) fn may_be_repeated(answer: &Result<FleetResult>) -> bool {
    answer.as_ref().is_err_and(is_gone)
}

#[cfg(test)]
mod tests {
    use karpenter_aws_api::ec2::FleetError;

    use super::*;

    fn refused(code: &str) -> Result<FleetResult> {
        Err(Error::answered("CreateFleet", "web-1", code, "text"))
    }

    fn answered(code: &str, template: Option<&str>) -> FleetResult {
        let error = FleetError {
            code: code.to_owned(),
            message: "text".to_owned(),
            launch_template: template.map(ToOwned::to_owned),
            instance_type: None,
            subnet: None,
            zone: None,
            spot: false,
        };
        FleetResult { id: "fleet-1".into(), instances: Vec::new(), errors: vec![error] }
    }

    #[test]
    fn only_a_refused_call_is_repeated_and_only_for_a_template_that_is_gone() {
        let other = "InsufficientInstanceCapacity";
        for (answer, gone, repeated) in [
            (refused(CODE), true, true),
            (refused(other), false, false),
            (Ok(answered(CODE, None)), true, false),
            (Ok(answered(CODE, Some("a"))), true, false),
            (Ok(answered(CODE, Some("b"))), false, false),
            (Ok(answered(other, Some("a"))), false, false),
        ] {
            assert_eq!((says_gone(&answer, "a"), may_be_repeated(&answer)), (gone, repeated), "{answer:?}");
        }
    }
}
