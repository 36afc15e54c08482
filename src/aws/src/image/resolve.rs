//! Resolves the AMI selector of a `NodeClass` to the images in its status (spec aws-provider 6.1, 6.2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{Ami, AmiSelectorTerm};
use karpenter_aws_api::ec2::{Ec2, Image, ImageQuery};
use karpenter_aws_api::ssm::Ssm;
use karpenter_aws_api::{self as client, Filter};
use karpenter_model::Clock;

use super::alias::{self, Unsupported, Variant};
use super::parameters::Parameters;
use super::select::{Candidate, select};
use crate::calls::cache::TtlCache;
use crate::calls::selector::{lookup_key, tag_filters};

/// Reason why images could not be determined. The status keeps what it has.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The alias cannot be used with this cluster.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// AWS did not answer, or not completely.
    #[error(transparent)]
    Aws(#[from] client::Error),
}

/// Finds images.
pub struct Images {
    ec2: Arc<dyn Ec2>,
    clock: Arc<dyn Clock>,
    parameters: Parameters,
    lookups: TtlCache<String, Vec<Ami>>,
}

impl Images {
    /// A finder that reuses a lookup for `refresh`.
    pub fn new(ec2: Arc<dyn Ec2>, ssm: Arc<dyn Ssm>, clock: Arc<dyn Clock>, refresh: Duration) -> Self {
        Self {
            ec2,
            parameters: Parameters::new(ssm, Arc::clone(&clock)),
            lookups: TtlCache::new(Arc::clone(&clock), refresh),
            clock,
        }
    }

    /// The images of a `NodeClass`, best first; empty when nothing matches.
    ///
    /// # Errors
    /// See [`Error`]; an error is no evidence that images are missing.
    pub async fn resolve(&self, class: &EC2NodeClass, kubernetes: &str) -> Result<Vec<Ami>, Error> {
        let ask = async {
            let terms = &class.spec.ami_selector_terms;
            let candidates = match terms.iter().find_map(|term| term.alias.as_deref()) {
                Some(alias) => self.of_alias(alias, kubernetes).await?,
                None => self.of_terms(terms).await?,
            };
            Ok(select(candidates, self.clock.now()))
        };
        self.lookups.get_or_ask(format!("{}-{kubernetes}", lookup_key(class)), ask).await
    }

    async fn of_alias(&self, alias: &str, kubernetes: &str) -> Result<Vec<Candidate>, Error> {
        let mut variants: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
        for parameter in alias::parameters(alias, kubernetes)? {
            if let Some(image) = self.parameters.public(&parameter.name, parameter.mutable).await? {
                variants.entry(image).or_default().extend(parameter.variants);
            }
        }
        if variants.is_empty() {
            // An error, not an empty list: parameters that are missing are no evidence that images are.
            let help =
                if alias.ends_with("@latest") { "" } else { "; write a version that has one, or `latest`" };
            let message = format!("no public parameter names an image for Kubernetes {kubernetes}{help}");
            return Err(client::Error::invalid("GetParameter", alias, message).into());
        }
        let ids: Vec<String> = variants.keys().cloned().collect();
        let images = self.describe(vec![Filter::new("image-id", ids)], Vec::new()).await?;
        let candidates = images.into_iter().flat_map(|image| {
            let variants = variants.get(image.id.as_str()).cloned().unwrap_or_default();
            variants
                .into_iter()
                .map(move |variant| Candidate { image: image.clone(), variant: Some(variant) })
        });
        Ok(candidates.collect())
    }

    async fn of_terms(&self, terms: &[AmiSelectorTerm]) -> Result<Vec<Candidate>, Error> {
        let mut ids = Vec::new();
        for term in terms {
            match (&term.id, &term.ssm_parameter) {
                (Some(id), _) => ids.push(id.clone()),
                (None, Some(parameter)) => {
                    let value = self.parameters.own(parameter).await?;
                    ids.extend(value.filter(|value| value.starts_with("ami-")));
                }
                (None, None) => {}
            }
        }
        let mut queries: Vec<_> = terms.iter().filter_map(query).collect();
        if !ids.is_empty() {
            // A filter leaves out an image that is gone; the parameter `ImageIds` would fail the whole call
            // for it.
            queries.push((vec![Filter::new("image-id", ids)], Vec::new()));
        }
        let mut images: BTreeMap<_, Image> = BTreeMap::new();
        for (filters, owners) in queries {
            let found = self.describe(filters, owners).await?;
            images.extend(found.into_iter().map(|image| (image.id.clone(), image)));
        }
        Ok(images.into_values().map(|image| Candidate { image, variant: None }).collect())
    }

    async fn describe(&self, mut filters: Vec<Filter>, owners: Vec<String>) -> client::Result<Vec<Image>> {
        filters.push(Filter::new("state", ["available"]));
        // A deprecated image counts while there is no other.
        let query = ImageQuery { ids: Vec::new(), owners, filters, include_deprecated: true };
        let listing = self.ec2.describe_images(&query).await?;
        for skipped in &listing.skipped {
            tracing::warn!(image = %skipped.entry, why = %skipped.why, "image described incompletely");
        }
        Ok(listing.items)
    }

    /// Drops cached movable parameters whose image has been deprecated (spec aws-provider 2.4,
    /// `providers.ssm.invalidation`). Returns how many images were dropped.
    ///
    /// # Errors
    /// When the images cannot be described.
    pub async fn forget_deprecated(&self) -> client::Result<usize> {
        let ids = self.parameters.mutable_images();
        if ids.is_empty() {
            return Ok(0);
        }
        let now = self.clock.now();
        let images = self.describe(vec![Filter::new("image-id", ids)], Vec::new()).await?;
        let deprecated: Vec<String> = images
            .into_iter()
            .filter(|image| image.deprecated_at.is_some_and(|at| at <= now))
            .map(|image| image.id.to_string())
            .collect();
        self.parameters.forget(&deprecated);
        Ok(deprecated.len())
    }
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images").field("lookups", &self.lookups).finish_non_exhaustive()
    }
}

/// Filters and owners of a term by name or tag; `None` for terms by id, parameter or alias.
///
/// A name without owner is looked for among this account's and Amazon's images, since any account may publish
/// an image under any name.
fn query(term: &AmiSelectorTerm) -> Option<(Vec<Filter>, Vec<String>)> {
    if term.id.is_some() || term.ssm_parameter.is_some() || term.alias.is_some() {
        return None;
    }
    let mut filters = term.tags.as_ref().map(tag_filters).unwrap_or_default();
    let mut owners: Vec<String> = term.owner.iter().cloned().collect();
    if let Some(name) = &term.name {
        filters.push(Filter::new("name", [name]));
        if owners.is_empty() {
            owners = vec!["self".to_owned(), "amazon".to_owned()];
        }
    }
    (!filters.is_empty()).then_some((filters, owners))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_default_owners_and_tags_do_not() {
        let term = |name: Option<&str>, tag: Option<&str>, owner: Option<&str>| AmiSelectorTerm {
            name: name.map(str::to_owned),
            tags: tag.map(|tag| [(tag.to_owned(), "*".to_owned())].into()),
            owner: owner.map(str::to_owned),
            ..Default::default()
        };
        let owners = |term: &AmiSelectorTerm| query(term).map(|(_, owners)| owners);
        assert_eq!(owners(&term(Some("x"), None, None)).unwrap(), ["self", "amazon"]);
        assert_eq!(owners(&term(Some("x"), Some("t"), Some("123"))).unwrap(), ["123"]);
        assert_eq!(query(&term(Some("x"), Some("t"), None)).unwrap().0.len(), 2, "parts of a term all hold");
        assert!(owners(&term(None, Some("t"), None)).unwrap().is_empty());
        assert_eq!(owners(&term(None, None, Some("123"))), None, "an owner alone selects nothing");
    }
}
