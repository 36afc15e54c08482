//! Launch templates: created once, never changed, deleted by name.

use jiff::Timestamp;
use karpenter_aws_api::ec2::{LaunchTemplate, LaunchTemplateData, LaunchTemplateQuery, LaunchTemplateSpec};
use karpenter_aws_api::{Error, Result};

use super::super::Ids;
use super::Compute;
use super::filters::matches;

/// Bytes of decoded user data EC2 accepts.
const USER_DATA_LIMIT: usize = 16_384;

/// A template and its content.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) summary: LaunchTemplate,
    pub(crate) data: LaunchTemplateData,
}

impl Compute {
    pub(super) fn create_template(
        &mut self,
        spec: &LaunchTemplateSpec,
        ids: &mut Ids,
        now: Timestamp,
    ) -> Result<LaunchTemplate> {
        let refuse =
            |code: &str, text: String| Err(Error::answered("CreateLaunchTemplate", &spec.name, code, text));
        if let Some((earlier, template)) =
            spec.client_token.as_ref().and_then(|token| self.template_tokens.get(token))
        {
            if earlier == spec {
                return Ok(template.clone());
            }
            let text = "Idempotency token already used with different parameters.";
            return refuse("IdempotentParameterMismatch", text.to_owned());
        }
        let size = spec.data.user_data.as_ref().map_or(0, karpenter_aws_api::Secret::len);
        if size > USER_DATA_LIMIT {
            let text = format!("User data is limited to {USER_DATA_LIMIT} bytes");
            return refuse("InvalidUserData.Malformed", text);
        }
        if spec.name.is_empty() || spec.name.len() > 128 {
            let text = "A launch template name must be between 3 and 128 characters".to_owned();
            return refuse("InvalidLaunchTemplateName.MalformedException", text);
        }
        if self.templates.contains_key(&spec.name) {
            let text = "Launch template name already in use.".to_owned();
            return refuse("InvalidLaunchTemplateName.AlreadyExistsException", text);
        }
        let summary = LaunchTemplate {
            id: ids.next("lt").into(),
            name: spec.name.clone(),
            latest_version: 1,
            created_at: now,
            tags: spec.tags.clone(),
        };
        let template = Template { summary: summary.clone(), data: spec.data.clone() };
        self.templates.insert(spec.name.clone(), template);
        if let Some(token) = &spec.client_token {
            self.template_tokens.insert(token.clone(), (spec.clone(), summary.clone()));
        }
        Ok(summary)
    }

    pub(super) fn template(&self, operation: &'static str, name: &str) -> Result<&Template> {
        self.templates.get(name).ok_or_else(|| missing(operation, name))
    }

    pub(super) fn describe_templates(&self, query: &LaunchTemplateQuery) -> Result<Vec<LaunchTemplate>> {
        for name in &query.names {
            self.template("DescribeLaunchTemplates", name)?;
        }
        let mut found = Vec::new();
        for template in self.templates.values().map(|template| &template.summary) {
            let named = query.names.is_empty() || query.names.contains(&template.name);
            let fits =
                matches("DescribeLaunchTemplates", &query.filters, &template.tags, |name| match name {
                    "launch-template-name" => Some(vec![template.name.clone()]),
                    _ => None,
                })?;
            if named && fits {
                found.push(template.clone());
            }
        }
        Ok(found)
    }

    pub(super) fn delete_template(&mut self, name: &str) -> Result<()> {
        self.templates.remove(name).map(|_| ()).ok_or_else(|| missing("DeleteLaunchTemplate", name))
    }
}

fn missing(operation: &'static str, name: &str) -> Error {
    let text =
        format!("At least one of the launch templates specified in the request does not exist: {name}");
    Error::answered(operation, name, "InvalidLaunchTemplateName.NotFoundException", text)
}
