//! Command lines: splitting them as a shell does, and the kubelet flags among the words.

use std::collections::BTreeMap;

use karpenter_model::taint::{Effect, Taint};

use super::Bootstrap;

/// The words of a command line, quotes removed.
pub(super) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Names and values of `--name value` and `--name=value`.
pub(super) fn options(words: &[String]) -> Vec<(&str, &str)> {
    let mut options = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let Some(name) = word.strip_prefix('-') else { continue };
        let name = name.trim_start_matches('-');
        let next = words.get(index + 1).filter(|next| !next.starts_with('-'));
        options.push(name.split_once('=').unwrap_or((name, next.map_or("", String::as_str))));
    }
    options
}

/// Takes over the kubelet flags among the words.
pub(super) fn apply(words: &[String], bootstrap: &mut Bootstrap) {
    for (name, value) in options(words) {
        let value = value.trim_matches('"');
        match name {
            "node-labels" => bootstrap.labels.extend(pairs(value, '=')),
            "register-with-taints" => bootstrap.taints.extend(value.split(',').filter_map(taint)),
            "max-pods" => bootstrap.max_pods = value.parse().ok(),
            "pods-per-core" => bootstrap.pods_per_core = value.parse().ok(),
            "kube-reserved" => {
                // A flag takes the place of the whole map of the configuration.
                let none =
                    ["cpu", "memory", "ephemeral-storage"].map(|name| (name.to_owned(), "0".to_owned()));
                bootstrap.kube_reserved = none.into_iter().chain(pairs(value, '=')).collect();
            }
            "reserved-cpus" => bootstrap.reserved_cpus = super::cpus(value),
            "system-reserved" => bootstrap.system_reserved = pairs(value, '='),
            "eviction-hard" => bootstrap.eviction_hard = pairs(value, '<'),
            "cluster-dns" => bootstrap.cluster_dns = value.split(',').map(str::to_owned).collect(),
            _ => {}
        }
    }
}

fn pairs(text: &str, separator: char) -> BTreeMap<String, String> {
    let pair = |entry: &str| {
        let (name, value) = entry.split_once(separator).unwrap_or((entry, ""));
        (name.trim().to_owned(), value.trim().to_owned())
    };
    text.split(',').filter(|entry| !entry.trim().is_empty()).map(pair).collect()
}

/// `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Option<Taint> {
    let (name, effect) = text.trim().rsplit_once(':')?;
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    Some(Taint::new(key, value, Effect::parse(effect)?))
}
