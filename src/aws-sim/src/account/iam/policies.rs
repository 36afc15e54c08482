//! Managed policies and their versions, at most five.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_aws_api::iam::{Policy, PolicySpec, PolicyVersion};
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Error, Result, Tags};

use super::{Directory, check_document, check_name, exists};

/// Characters of a managed policy, white space not counted.
const LONGEST: usize = 6144;
const MAX_VERSIONS: usize = 5;

#[derive(Debug)]
pub(crate) struct PolicyEntry {
    pub(crate) policy: Policy,
    /// Documents by version number.
    documents: BTreeMap<u32, (String, Timestamp)>,
    newest: u32,
}

impl PolicyEntry {
    fn new(policy: Policy, document: &str, now: Timestamp) -> Self {
        Self { policy, documents: BTreeMap::from([(1, (document.to_owned(), now))]), newest: 1 }
    }

    pub(super) fn aws_managed(arn: Arn, path: &str, name: &str, now: Timestamp) -> Self {
        let policy = Policy {
            name: name.to_owned(),
            arn,
            path: path.to_owned(),
            default_version: "v1".to_owned(),
            attachments: 0,
            tags: Tags::new(),
        };
        let document = match name {
            "AdministratorAccess" => {
                r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}"#
            }
            _ => r#"{"Version":"2012-10-17","Statement":[]}"#,
        };
        Self::new(policy, document, now)
    }

    pub(super) fn versions(&self) -> Vec<PolicyVersion> {
        self.documents
            .iter()
            .rev()
            .map(|(number, (_, created_at))| PolicyVersion {
                id: format!("v{number}"),
                is_default: self.policy.default_version == format!("v{number}"),
                created_at: *created_at,
            })
            .collect()
    }

    /// The document of the default version.
    pub(super) fn in_force(&self) -> String {
        self.find(&self.policy.default_version).map(|(document, _)| document.clone()).unwrap_or_default()
    }

    pub(super) fn document(&self, version: &str) -> Result<String> {
        let (document, _) = self.find(version).ok_or_else(|| self.unknown("GetPolicyVersion", version))?;
        Ok(document.clone())
    }

    pub(super) fn add_version(&mut self, document: &str, now: Timestamp) -> Result<PolicyVersion> {
        let subject = self.policy.arn.to_string();
        check_document("CreatePolicyVersion", &subject, document, LONGEST)?;
        if self.documents.len() >= MAX_VERSIONS {
            let text = "A managed policy can have up to 5 versions. Before you create a new version, you \
                        must delete an existing version.";
            return Err(Error::answered("CreatePolicyVersion", subject, "LimitExceeded", text));
        }
        self.newest += 1;
        self.documents.insert(self.newest, (document.to_owned(), now));
        self.policy.default_version = format!("v{}", self.newest);
        Ok(PolicyVersion { id: self.policy.default_version.clone(), is_default: true, created_at: now })
    }

    pub(super) fn delete_version(&mut self, version: &str) -> Result<()> {
        if self.find(version).is_none() {
            return Err(self.unknown("DeletePolicyVersion", version));
        }
        if self.policy.default_version == version {
            let text = "Cannot delete the default version of a policy.";
            let subject = self.policy.arn.as_str();
            return Err(Error::answered("DeletePolicyVersion", subject, "DeleteConflict", text));
        }
        self.documents.retain(|number, _| format!("v{number}") != version);
        Ok(())
    }

    fn find(&self, version: &str) -> Option<&(String, Timestamp)> {
        self.documents.get(&version.strip_prefix('v')?.parse().ok()?)
    }

    fn unknown(&self, operation: &'static str, version: &str) -> Error {
        let text = format!("Policy {} version {version} does not exist.", self.policy.arn);
        Error::answered(operation, self.policy.arn.as_str(), "NoSuchEntity", text)
    }
}

impl Directory {
    pub(super) fn create_policy(&mut self, spec: &PolicySpec, now: Timestamp) -> Result<Policy> {
        check_name("CreatePolicy", &spec.name, 128)?;
        check_document("CreatePolicy", &spec.name, &spec.document, LONGEST)?;
        let arn = self.arn("policy", &spec.path, &spec.name);
        // Names are unique in the account whatever the path.
        let own = format!("iam::{}:policy/", self.account);
        let taken = self
            .policies
            .values()
            .any(|entry| entry.policy.name == spec.name && entry.policy.arn.as_str().contains(&own));
        if taken {
            return Err(exists("CreatePolicy", "A policy", &spec.name));
        }
        let policy = Policy {
            name: spec.name.clone(),
            arn: arn.clone(),
            path: spec.path.clone(),
            default_version: "v1".to_owned(),
            attachments: 0,
            tags: spec.tags.clone(),
        };
        self.policies.insert(arn, PolicyEntry::new(policy.clone(), &spec.document, now));
        Ok(policy)
    }

    pub(super) fn policy(&mut self, operation: &'static str, arn: &Arn) -> Result<&mut PolicyEntry> {
        self.policies.get_mut(arn).ok_or_else(|| {
            let text = format!("Policy {arn} was not found.");
            Error::answered(operation, arn.as_str(), "NoSuchEntity", text)
        })
    }

    pub(super) fn describe_policy(&mut self, arn: &Arn) -> Result<Policy> {
        let attachments = self.attachments(arn);
        Ok(Policy { attachments, ..self.policy("GetPolicy", arn)?.policy.clone() })
    }

    pub(super) fn delete_policy(&mut self, arn: &Arn) -> Result<()> {
        let attached = self.attachments(arn) > 0;
        let conflict =
            |text: &str| Err(Error::answered("DeletePolicy", arn.as_str(), "DeleteConflict", text));
        let entry = self.policy("DeletePolicy", arn)?;
        if arn.as_str().contains(":iam::aws:") {
            let text = "Policies of AWS cannot be deleted.";
            return Err(Error::answered("DeletePolicy", arn.as_str(), "AccessDenied", text));
        }
        if attached {
            return conflict("Cannot delete a policy attached to entities.");
        }
        if entry.documents.len() > 1 {
            return conflict(
                "This policy has more than one version. Before you delete a policy, you must \
                             delete the policy's versions.",
            );
        }
        self.policies.remove(arn);
        Ok(())
    }
}
