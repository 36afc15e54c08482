//! The expressions of a node class's kubelet block, and their results for one type.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::{KubeletBlock, KubeletConfiguration, Place, Program};

/// Expressions that compile, `maxPods` first: the others may refer to its result.
#[derive(Clone, Debug, Default)]
pub struct Expressions(Vec<(Place, Program)>);

/// The results for one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evaluated {
    /// The number of pods; `None` where it is no expression.
    pub max_pods: Option<i32>,
    /// Resource to quantity text.
    pub kube_reserved: BTreeMap<String, String>,
    /// Resource to quantity text.
    pub system_reserved: BTreeMap<String, String>,
}

impl Expressions {
    /// Those of a block, and what is wrong with the others, which are left out: the class is refused for them.
    pub(crate) fn of(block: &KubeletBlock) -> (Self, Vec<String>) {
        let (mut compiled, mut invalid) = (Vec::new(), Vec::new());
        for (place, text) in block.expressions() {
            match Program::compile(text) {
                Ok(program) => compiled.push((place, program)),
                Err(error) => {
                    invalid.push(format!("{place} `{text}` is no expression of a number: {error}"));
                }
            }
        }
        (Self(compiled), invalid)
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each with its place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Place, Program)> {
        self.0.iter()
    }
}

impl Evaluated {
    /// Takes the result of an expression.
    ///
    /// # Errors
    /// Reason for which a kubelet would not take the value.
    pub(crate) fn put(&mut self, place: &Place, result: i64) -> Result<(), String> {
        match place {
            Place::MaxPods => {
                let pods = i32::try_from(result).ok().filter(|pods| !pods.is_negative());
                let beyond = || format!("the result is {result} and must be from 0 to {}", i32::MAX);
                self.max_pods = Some(pods.ok_or_else(beyond)?);
            }
            Place::KubeReserved(resource) => {
                self.kube_reserved.insert(resource.clone(), amount(resource, result)?);
            }
            Place::SystemReserved(resource) => {
                self.system_reserved.insert(resource.clone(), amount(resource, result)?);
            }
        }
        Ok(())
    }

    /// Adds the results to settings that were read without them.
    pub(crate) fn lay_over(&self, settings: &mut KubeletConfiguration) {
        settings.max_pods = self.max_pods.or(settings.max_pods);
        for (results, reserved) in [
            (&self.kube_reserved, &mut settings.kube_reserved),
            (&self.system_reserved, &mut settings.system_reserved),
        ] {
            if !results.is_empty() {
                reserved.get_or_insert_default().extend(results.clone());
            }
        }
    }
}

/// A number in the unit of its resource, rounded up so that few types differ.
fn amount(resource: &str, result: i64) -> Result<String, String> {
    let number = u64::try_from(result).map_err(|_| format!("the result {result} is negative"))?;
    let rounded = |to: u64| number.checked_next_multiple_of(to).unwrap_or(number);
    Ok(match resource {
        "cpu" => format!("{}m", rounded(10)),
        "memory" => format!("{}Mi", rounded(16)),
        "ephemeral-storage" => format!("{number}Gi"),
        _ => number.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_unit_of_their_resource_and_rounded_up() {
        for (resource, result, text) in [
            ("cpu", 81, "90m"),
            ("cpu", 90, "90m"),
            ("memory", 574, "576Mi"),
            ("memory", 0, "0Mi"),
            ("ephemeral-storage", 3, "3Gi"),
            ("pid", 1001, "1001"),
        ] {
            assert_eq!(amount(resource, result), Ok(text.to_owned()), "{resource} {result}");
        }
        assert_eq!(amount("cpu", -1), Err("the result -1 is negative".to_owned()));
    }

    #[test]
    fn the_number_of_pods_is_one_a_kubelet_takes() {
        let mut evaluated = Evaluated::default();
        for (result, fits) in [(0, true), (i64::from(i32::MAX), true), (-1, false), (1 << 31, false)] {
            assert_eq!(evaluated.put(&Place::MaxPods, result).is_ok(), fits, "{result}");
        }
    }
}
