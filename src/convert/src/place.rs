//! Lines of fields, so that a finding about a field is shown where the field stands.

use crate::document::split;
use crate::tree::{Data, Node};

/// Returns the line of `field` in the object of `text` that begins at line `object`, both counted from 1: that of the deepest
/// part of the path that is there, so that a missing field is shown at what lacks it. `None` where no part of it is there.
///
/// A path is as in `spec.template.spec.requirements[0].values`; keys may have dots in them.
pub fn line_of(text: &str, object: usize, field: &str) -> Option<usize> {
    let documents = split(text);
    let document = documents.iter().rfind(|document| document.lines_before < object)?;
    let root = Node::parse(&document.text, document.lines_before).ok()??;
    let items = root.get("items").map(Node::items).unwrap_or_default();
    let own = items.iter().rfind(|item| item.line <= object);
    deepest(own.unwrap_or(&root), field)
}

fn deepest(mut node: &Node, path: &str) -> Option<usize> {
    let (mut rest, mut line) = (path, None);
    loop {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let next = match &node.data {
            _ if rest.is_empty() => None,
            Data::Scalar(_) => None,
            Data::List(items) => rest
                .strip_prefix('[')
                .and_then(|rest| rest.split_once(']'))
                .and_then(|(index, rest)| Some((items.get(index.parse::<usize>().ok()?)?, rest))),
            Data::Map(fields) => {
                let begins = fields.iter().filter_map(|(key, node)| {
                    let after = rest.strip_prefix(key.as_str())?;
                    (after.is_empty() || after.starts_with(['.', '['])).then_some((key.len(), node, after))
                });
                begins.max_by_key(|(length, ..)| *length).map(|(_, node, after)| (node, after))
            }
        };
        let Some((found, after)) = next else { return line };
        (node, rest, line) = (found, after, Some(found.line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a comment
kind: NodePool
metadata:
  name: a
  labels:
    app.kubernetes.io/name: x
spec:
  limits: {cpu: 1}
  requirements:
  - key: a
    values: [b]
  - {key: c, values: []}
---
kind: List
items:
- kind: Pod
- kind: Pod
  spec:
    nodeName: a
";

    #[test]
    fn a_field_has_the_line_of_its_key() {
        for (object, field, line) in [
            (2, "spec.limits.cpu", Some(8)),
            (2, "spec.requirements[0].values", Some(11)),
            (2, "spec.requirements[1].values", Some(12)),
            (2, "metadata.labels.app.kubernetes.io/name", Some(6)),
            (2, "spec.template.spec", Some(7)),
            (2, "status", None),
            (17, "spec.nodeName", Some(19)),
            (16, "spec.nodeName", None),
            (2, "", None),
        ] {
            assert_eq!(line_of(TEXT, object, field), line, "{field}");
        }
        assert_eq!(line_of("a: [", 1, "a"), None, "not a text of YAML");
    }
}
