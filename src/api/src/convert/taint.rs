//! Taints, both ways.

use k8s_openapi::api::core::v1::Taint as ApiTaint;
use karpenter_model::{Effect, Taint};

use super::FieldError;

/// Reads a list of taints; `field` is the path of the list.
pub fn taints(field: &str, written: Option<&Vec<ApiTaint>>) -> Result<Vec<Taint>, FieldError> {
    let read = |(index, written): (usize, &ApiTaint)| taint(&format!("{field}[{index}]"), written);
    written.into_iter().flatten().enumerate().map(read).collect()
}

/// Reads one taint; `field` is its path.
pub(super) fn taint(field: &str, written: &ApiTaint) -> Result<Taint, FieldError> {
    let effect = Effect::parse(&written.effect)
        .ok_or_else(|| FieldError::unknown(&format!("{field}.effect"), &written.effect))?;
    Ok(Taint::new(&written.key, written.value.as_deref().unwrap_or_default(), effect))
}

/// Writes a taint; an empty value is left out.
pub fn taint_to_api(taint: &Taint) -> ApiTaint {
    ApiTaint {
        key: taint.key.clone(),
        value: (!taint.value.is_empty()).then(|| taint.value.clone()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    }
}
