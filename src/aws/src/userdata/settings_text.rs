//! Bottlerocket's settings as text: keys in order, every table with its header, literal strings in single quotes.
//!
//! TOML can be written in many ways that read the same. This is the way of the reference's documents, so that people who
//! compare them see differences of content, not of notation. Settings of Kubernetes that no recorded document of the
//! reference has follow in order of their names.

use toml::{Table, Value};

/// Settings of Kubernetes in the order of the reference's documents.
const KUBERNETES: [&str; 8] = [
    "api-server",
    "cluster-certificate",
    "cluster-name",
    "cluster-dns-ip",
    "max-pods",
    "node-labels",
    "node-taints",
    "eviction-hard",
];

/// The document.
pub(super) fn write(document: &Table) -> String {
    let mut out = String::new();
    body(&mut out, &mut Vec::new(), document);
    out
}

/// Writes the values first, then the tables below, each after an empty line unless it is the first thing in its own table.
fn body<'a>(out: &mut String, path: &mut Vec<&'a str>, table: &'a Table) {
    let mut fields: Vec<(&str, &Value)> = table.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let rank = |key: &str| KUBERNETES.iter().position(|first| *first == key).unwrap_or(KUBERNETES.len());
    let in_order = path.as_slice() == ["settings", "kubernetes"];
    fields.sort_by_key(|(key, _)| (if in_order { rank(key) } else { 0 }, *key));
    let (tables, values): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(_, value)| below(value).is_some());
    for (name, value) in &values {
        out.push_str(&format!("{} = {}\n", key(name), inline(value)));
    }
    let mut first = values.is_empty();
    for (name, value) in tables {
        path.push(name);
        let header: Vec<String> = path.iter().map(|name| key(name)).collect();
        let header = header.join(".");
        for one in below(value).unwrap_or_default() {
            if !std::mem::take(&mut first) {
                out.push('\n');
            }
            let several = value.is_array();
            out.push_str(&if several { format!("[[{header}]]\n") } else { format!("[{header}]\n") });
            body(out, path, one);
        }
        path.pop();
    }
}

/// The tables that stand below a header of their own: one, or a list of nothing but tables.
fn below(value: &Value) -> Option<Vec<&Table>> {
    match value {
        Value::Table(table) => Some(vec![table]),
        Value::Array(items) if !items.is_empty() => items.iter().map(Value::as_table).collect(),
        _ => None,
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(value) => text(value),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Table(table) => {
            let fields = table.iter().map(|(name, value)| format!("{} = {}", key(name), inline(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => value.to_string(),
    }
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { text(name) }
}

/// A literal string, or a basic one where its characters cannot stand in a literal one.
fn text(value: &str) -> String {
    if !value.contains(|c: char| c == '\'' || c.is_control()) {
        return format!("'{value}'");
    }
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '\\' | '"' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const DOCUMENT: &str = r#"
        motd = "two\nlines, it's a \"motd\" with C:\\path and a bell \u0007 and a tab \t."
        "a key" = 1.5
        "it's" = 2026-01-01T00:00:00Z
        empty = []
        mixed = [1, { b = "x", "c.d" = [] }]
        [settings.host-containers.admin]
        enabled = true
        [settings.kubernetes.node-labels]
        "karpenter.sh/nodepool" = "web"
        [[settings.container-registry.mirrors]]
        registry = "*"
        endpoint = ["https://one", "https://two"]
        [[settings.container-registry.mirrors]]
        registry = "docker.io"
        [[settings.container-registry.mirrors.nested]]
        a = 1
        [settings.nothing]
    "#;

    #[test]
    fn documents_are_written_as_they_can_be_read_and_in_single_quotes() {
        let document: Table = DOCUMENT.parse().unwrap();
        let written = write(&document);
        assert_eq!(written.parse::<Table>().unwrap(), document, "read by the library:\n{written}");
        expect![[r#"
            'a key' = 1.5
            empty = []
            "it's" = 2026-01-01T00:00:00Z
            mixed = [1, {b = 'x', 'c.d' = []}]
            motd = "two\nlines, it's a \"motd\" with C:\\path and a bell \u0007 and a tab \t."

            [settings]
            [settings.container-registry]
            [[settings.container-registry.mirrors]]
            endpoint = ['https://one', 'https://two']
            registry = '*'

            [[settings.container-registry.mirrors]]
            registry = 'docker.io'

            [[settings.container-registry.mirrors.nested]]
            a = 1

            [settings.host-containers]
            [settings.host-containers.admin]
            enabled = true

            [settings.kubernetes]
            [settings.kubernetes.node-labels]
            'karpenter.sh/nodepool' = 'web'

            [settings.nothing]
        "#]]
        .assert_eq(&written);
    }
}
