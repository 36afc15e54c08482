//! The prerequisites in the words of `CloudFormation` and Terraform.

use std::path::PathBuf;

use karpenter_bootstrap::render::{cloudformation, terraform};

use super::Generated;

/// The template, and what the Terraform module reads.
pub(super) fn files() -> Vec<Generated> {
    let template = Generated { path: cloudformation::PATH.into(), content: cloudformation::template() };
    let terraform = terraform::files()
        .into_iter()
        .map(|(name, content)| Generated { path: PathBuf::from(terraform::FOLDER).join(name), content });
    std::iter::once(template).chain(terraform).collect()
}
