//! Selectors of v1alpha1, which were maps, as lists of terms (spec aws-operations 4.4).
//!
//! A map meant: all keys must match, and a value with commas is a choice. Terms of v1 are alternatives without choices,
//! so each combination becomes a term. Keys with a special meaning (`aws-ids`, `aws::ids`, `aws::name`, `aws::owners`)
//! are fields of a term. A `*` in a value stays what it is.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::{
    AmiSelectorTerm, SecurityGroupSelectorTerm, SubnetSelectorTerm, TagSelector,
};

use crate::fields::{Fields, Found};
use crate::log::{Kind, Log};

/// Terms a list of v1 may have.
const TERMS_MAX: usize = 30;

/// Terms of a selector.
struct Selector {
    path: String,
    line: usize,
    ids: Vec<String>,
    names: Vec<String>,
    owners: Vec<String>,
    /// One map for each combination of tag values; never empty.
    tags: Vec<TagSelector>,
}

/// The subnets of field `subnetSelector`.
pub(crate) fn subnets(fields: &mut Fields, to: &str, log: &Log) -> Option<Vec<SubnetSelectorTerm>> {
    let selector = Selector::read(fields, "subnetSelector", false, log)?;
    let by_id = selector.ids.iter().map(|id| SubnetSelectorTerm { id: Some(id.clone()), tags: None });
    let by_tag = selector.tags.iter().map(|tags| SubnetSelectorTerm { id: None, tags: Some(tags.clone()) });
    let terms = if selector.is_by_id(log) { by_id.collect() } else { by_tag.collect() };
    Some(selector.bounded(terms, to, log))
}

/// The security groups of field `securityGroupSelector`.
pub(crate) fn security_groups(
    fields: &mut Fields,
    to: &str,
    log: &Log,
) -> Option<Vec<SecurityGroupSelectorTerm>> {
    let selector = Selector::read(fields, "securityGroupSelector", false, log)?;
    let term = |id: Option<&String>, tags: Option<&TagSelector>| SecurityGroupSelectorTerm {
        id: id.cloned(),
        tags: tags.cloned(),
        name: None,
    };
    let by_id = selector.ids.iter().map(|id| term(Some(id), None));
    let by_tag = selector.tags.iter().map(|tags| term(None, Some(tags)));
    let terms = if selector.is_by_id(log) { by_id.collect() } else { by_tag.collect() };
    Some(selector.bounded(terms, to, log))
}

/// The images of field `amiSelector`.
pub(crate) fn amis(fields: &mut Fields, to: &str, log: &Log) -> Option<Vec<AmiSelectorTerm>> {
    let selector = Selector::read(fields, "amiSelector", true, log)?;
    if selector.is_by_id(log) {
        let by_id = |id: &String| AmiSelectorTerm { id: Some(id.clone()), ..Default::default() };
        return Some(selector.bounded(selector.ids.iter().map(by_id).collect(), to, log));
    }
    let mut terms = Vec::new();
    for tags in &selector.tags {
        for name in choices(&selector.names) {
            for owner in choices(&selector.owners) {
                let tags = (!tags.is_empty()).then(|| tags.clone());
                let (name, owner) = (name.cloned(), owner.cloned());
                terms.push(AmiSelectorTerm { name, owner, tags, ..Default::default() });
            }
        }
    }
    terms.retain(|term| term.name.is_some() || term.tags.is_some());
    Some(selector.bounded(terms, to, log))
}

/// Each value, or once that there is none.
fn choices(values: &[String]) -> Vec<Option<&String>> {
    if values.is_empty() { vec![None] } else { values.iter().map(Some).collect() }
}

impl Selector {
    fn read(fields: &mut Fields, name: &'static str, of_images: bool, log: &Log) -> Option<Self> {
        let found = fields.texts(name)?;
        let mut selector = Self {
            path: found.path,
            line: found.line,
            ids: Vec::new(),
            names: Vec::new(),
            owners: Vec::new(),
            tags: vec![TagSelector::new()],
        };
        for (key, value) in found.value {
            match key.as_str() {
                "aws-ids" | "aws::ids" => selector.ids = listed(&value.value),
                "aws::name" if of_images => selector.names = listed(&value.value),
                "aws::owners" if of_images => selector.owners = listed(&value.value),
                _ => selector.add_tag(&key, &value, log),
            }
        }
        Some(selector)
    }

    fn add_tag(&mut self, key: &str, value: &Found<String>, log: &Log) {
        let mut values = listed(&value.value);
        if values.is_empty() {
            let text = "an empty value; early versions took any value for it, so `*` is written; correct it if the \
                        empty value is meant, which v1 cannot select";
            log.at(Kind::Decide, &value.path, value.line, text);
            values = vec!["*".to_owned()];
        }
        let with = |tags: &TagSelector, value: &String| {
            let mut tags: BTreeMap<_, _> = tags.clone();
            tags.insert(key.to_owned(), value.clone());
            tags
        };
        self.tags = self.tags.iter().flat_map(|tags| values.iter().map(|value| with(tags, value))).collect();
    }

    /// Returns whether ids decide. Other terms beside them cannot be in a term of v1.
    fn is_by_id(&self, log: &Log) -> bool {
        let others = !self.names.is_empty()
            || !self.owners.is_empty()
            || self.tags.iter().any(|tags| !tags.is_empty());
        if !self.ids.is_empty() && others {
            let text = "a term by id may say nothing else in v1: the ids are kept and the rest is left out; check that \
                        all of these ids are wanted";
            log.at(Kind::Decide, &self.path, self.line, text);
        }
        !self.ids.is_empty()
    }

    fn bounded<T>(&self, terms: Vec<T>, to: &str, log: &Log) -> Vec<T> {
        if terms.is_empty() {
            let text = "selects by nothing that v1 can select by; add an id, a name or a tag";
            log.at(Kind::Refused, &self.path, self.line, text);
        } else if terms.len() > TERMS_MAX {
            let text = format!(
                "makes {} terms, one for each combination of values, and v1 takes {TERMS_MAX}; select by a tag that \
                 needs fewer values",
                terms.len()
            );
            log.at(Kind::Refused, &self.path, self.line, text);
        } else {
            log.at(Kind::Mapped, &self.path, self.line, format!("-> {to}, {}", counted(terms.len())));
        }
        terms
    }
}

fn counted(terms: usize) -> String {
    if terms == 1 { "1 term".to_owned() } else { format!("{terms} terms") }
}

/// The parts of a value with commas.
fn listed(value: &str) -> Vec<String> {
    value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
