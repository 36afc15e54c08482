//! Taints, both ways.

use k8s_openapi::api::core::v1::Taint as ApiTaint;
use karpenter_model::{Effect, Taint};

use super::FieldError;

/// Reads a list of taints; `field` is the path of the list.
pub fn taints(field: &str, written: Option<&Vec<ApiTaint>>) -> Result<Vec<Taint>, FieldError> {
    let read = |(index, taint): (usize, &ApiTaint)| {
        let effect = Effect::parse(&taint.effect)
            .ok_or_else(|| FieldError::unknown(&format!("{field}[{index}].effect"), &taint.effect))?;
        Ok(Taint::new(&taint.key, taint.value.as_deref().unwrap_or_default(), effect))
    };
    written.into_iter().flatten().enumerate().map(read).collect()
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
