//! Wrong files, one after another, before `plan` and `lint`: each is answered with its place, what is wrong, and what to do.
//!
//! The answers are in `wrong_inputs.txt` beside this file; `UPDATE_GOLDEN=1` rewrites it, and the diff is the review.

use std::fmt::Write as _;
use std::path::Path;

use clap::Parser;

use super::{lint, plan};

const POOL: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
";
const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: x
        resources: {requests: {memory: 1Gi}}
";

/// A file: how it is called, and what is in it.
type Input = (&'static str, Vec<u8>);

/// `text` with one place written otherwise.
fn with(text: &str, place: &str, other: &str) -> Vec<u8> {
    assert!(text.contains(place), "{place}");
    text.replacen(place, other, 1).into_bytes()
}

/// `text` until the first `place`.
fn until(text: &str, place: &str) -> Vec<u8> {
    assert!(text.contains(place), "{place}");
    text.split(place).next().unwrap_or_default().as_bytes().to_vec()
}

fn pool(place: &str, other: &str) -> Vec<u8> {
    with(POOL, place, other)
}

fn web(place: &str, other: &str) -> Vec<u8> {
    with(WEB, place, other)
}

fn requests(memory: &str) -> Vec<u8> {
    web("1Gi", memory)
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Files that are no text, or no YAML.
fn texts() -> Vec<Input> {
    vec![
        ("empty", Vec::new()),
        ("blank", b"\n\n  \n".to_vec()),
        ("comments", b"# later\n".to_vec()),
        ("dashes", b"---\n---\n".to_vec()),
        ("null", b"null\n".to_vec()),
        ("scalar", b"hello\n".to_vec()),
        ("latin-1", [WEB.as_bytes(), b"# caf\xe9\n"].concat()),
        ("gzip", b"\x1f\x8b\x08\x00\x00".to_vec()),
        ("utf-16-without-mark", utf16(POOL)),
        ("nul", pool("general", "gen\0eral")),
        ("escape", pool("general", "\"gen\x1beral\"")),
        ("tab", web("  replicas", "\treplicas")),
        ("indented-more", web("  replicas", "    replicas")),
        ("indented-less", web("  template", "template")),
        (
            "crlf",
            pool("[]", "3")
                .into_iter()
                .flat_map(|one| if one == b'\n' { vec![b'\r', one] } else { vec![one] })
                .collect(),
        ),
        ("mark-of-byte-order", [b"\xef\xbb\xbf".to_vec(), pool("[]", "3")].concat()),
        ("utf-16", utf16(&format!("\u{feff}{}", POOL.replace("[]", "3")))),
        ("cut-in-a-field", until(POOL, "EC2")),
        ("cut-before-a-field", until(POOL, "      req")),
        ("quote-left-open", pool("general", "\"general")),
        ("colon-too-many", pool("{name: general}", "name: general: x")),
        ("at", pool("general", "@general")),
        ("braces", pool("general", "{{ .Values.name }}")),
        ("braces-around", format!("{{{{- if .Values.pool }}}}\n{POOL}{{{{- end }}}}\n").into_bytes()),
        ("braces-quoted", pool("general", "\"{{ .Values.name }}\"")),
        ("variable", pool("{name: general}", "\n  name: ${NAME}")),
        ("anchor-that-is-not-there", pool("[]", "*shared")),
        ("anchor-in-itself", pool("[]", "&a [*a]")),
        ("merge-of-a-number", pool("{name: general}", "{<<: 3, name: general}")),
        ("bomb", bomb()),
        ("nested-without-end", format!("{POOL}x: {}\n", "[".repeat(4_000)).into_bytes()),
        ("key-twice", web("  replicas: 2", "  replicas: 2\n  replicas: 3")),
        ("json-key-twice", b"{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"kind\": \"Node\"}\n".to_vec()),
        ("json-cut", b"{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a".to_vec()),
    ]
}

/// Aliases of aliases of aliases.
fn bomb() -> Vec<u8> {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (own, other) in "bcdefghij".chars().zip("abcdefghi".chars()) {
        let many = vec![format!("*{other}"); 10].join(", ");
        let _ = writeln!(text, "{own}: &{own} [{many}]");
    }
    (text + POOL).into_bytes()
}

/// Files that are YAML, and no objects.
fn objects() -> Vec<Input> {
    vec![
        ("list", format!("- {}", POOL.replace('\n', "\n  ").trim_end()).into_bytes()),
        ("list-of-lists", b"- - a\n- - b\n".to_vec()),
        ("json-list", b"[{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}]\n".to_vec()),
        ("values", b"replicas: 2\nimage: {tag: x}\n".to_vec()),
        ("chart", b"apiVersion: v2\nname: x\nversion: 1.0.0\n".to_vec()),
        ("kind-missing", pool("kind: NodePool\n", "")),
        ("kind-null", pool("NodePool", "")),
        ("kind-a-number", pool("NodePool", "3")),
        ("kind-of-other-letters", pool("NodePool", "Nodepool")),
        ("kind-misspelt", web("Deployment", "Deploymnet")),
        ("kind-of-another-group", pool("karpenter.sh/v1", "karpenter.k8s.aws/v1")),
        ("version-missing", web("apiVersion: apps/v1\n", "")),
        ("version-a-number", pool("karpenter.sh/v1", "1")),
        ("version-gone", web("apps/v1", "extensions/v1beta1")),
        ("version-of-before", pool("karpenter.sh/v1", "karpenter.sh/v1beta1")),
        ("version-of-a-typo", pool("karpenter.sh/v1", "karpenter.sh/v11")),
        ("name-missing", pool("metadata: {name: general}\n", "")),
        ("name-null", pool("general", "")),
        ("name-a-number", pool("general", "12")),
        ("name-in-capitals", web("name: web", "name: Web_1")),
        ("metadata-a-list", pool("{name: general}", "[general]")),
        ("items-missing-kind", b"apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n".to_vec()),
        ("items-null", b"apiVersion: v1\nkind: List\nitems:\n- null\n".to_vec()),
        ("items-a-map", b"apiVersion: v1\nkind: List\nitems: {a: b}\n".to_vec()),
        (
            "item-wrong",
            format!(
                "apiVersion: v1\nkind: List\nitems:\n- {}",
                POOL.replace("[]", "3").replace('\n', "\n  ").trim_end()
            )
            .into_bytes(),
        ),
        ("spec-null", until(POOL, "  template")),
        ("requirements-null", pool(" []", "")),
        ("requirement-null", pool("[]", "[null]")),
        ("requirement-a-list", pool("[]", "[[{key: a, operator: Exists}]]")),
        ("requirement-of-another-operator", pool("[]", "[{key: a, operator: Is}]")),
        ("requirement-of-a-boolean", pool("[]", "[{key: a/b, operator: In, values: [true]}]")),
        ("field-unknown", pool("requirements", "requirement")),
        ("field-unknown-at-the-top", format!("{POOL}weight: 3\n").into_bytes()),
        ("field-unknown-in-metadata", pool("{name: general}", "{name: general, lables: {a: b}}")),
        ("weight-octal", pool("spec:\n", "spec:\n  weight: 0200\n")),
        ("weight-a-text", pool("spec:\n", "spec:\n  weight: \"10\"\n")),
        ("weight-too-large", pool("spec:\n", "spec:\n  weight: 99999999999999999999\n")),
        ("limit-of-gigabytes", pool("spec:\n", "spec:\n  limits: {memory: 1GB}\n")),
        ("duration-in-days", pool("      req", "      expireAfter: 3 days\n      req")),
        ("two-faults-and-a-cut", [pool("[]", "3"), b"---\nkind: [\n---\n".to_vec(), web("2", "x")].concat()),
    ]
}

/// Objects of Kubernetes that an API server refuses.
fn builtin() -> Vec<Input> {
    vec![
        ("replicas-a-fraction", web("2", "1.5")),
        ("replicas-a-text", web("2", "\"2\"")),
        ("replicas-negative", web("2", "-1")),
        ("replicas-of-a-template", web("2", "\"{{ .Values.replicas }}\"")),
        ("replicas-unknown", web("replicas", "replica")),
        ("resources-unknown", web("resources", "resource")),
        ("selector-missing", web("  selector: {matchLabels: {app: web}}\n", "")),
        ("selector-a-list", web("{matchLabels: {app: web}}", "[app]")),
        ("selector-of-others", web("labels: {app: web}", "labels: {app: other}")),
        ("template-missing", until(WEB, "  template")),
        ("containers-none", [until(WEB, "      - name"), b"      - \n".to_vec()].concat()),
        ("image-missing", web("        image: x\n", "")),
        ("label-a-boolean", web("labels: {app: web}", "labels: {app: web, gpu: yes}")),
        ("port-too-large", web("image: x", "image: x\n        ports: [{containerPort: 99999}]")),
        (
            "toleration",
            web("      containers", "      tolerations: [{key: a, operator: Is}]\n      containers"),
        ),
        (
            "spread",
            web(
                "      containers",
                "      topologySpreadConstraints: [{maxSkew: 0, whenUnsatisfiable: Never}]\n      containers",
            ),
        ),
        ("memory-of-gigabytes", requests("1GB")),
        ("memory-of-small-letters", requests("1gi")),
        ("memory-with-a-space", requests("1 Gi")),
        ("memory-of-two-dots", requests("1.5.2")),
        ("memory-empty", requests("\"\"")),
        ("memory-negative", requests("-1")),
        ("memory-a-list", requests("[1]")),
        ("memory-not-a-number", requests(".nan")),
        ("memory-of-a-half-exponent", requests("1e1.5")),
        ("resource-misspelt", web("memory", "memroy")),
    ]
}

#[derive(Parser)]
struct Plan {
    #[command(flatten)]
    arguments: plan::Arguments,
}

#[derive(Parser)]
struct Lint {
    #[command(flatten)]
    arguments: lint::Arguments,
}

/// Exit code and text of both commands.
async fn answers(path: &Path) -> [(u8, String); 2] {
    let shown = |error: anyhow::Error| {
        (
            1,
            format!(
                "error: {}",
                error.chain().map(ToString::to_string).collect::<Vec<_>>().join("\n  because: ")
            ),
        )
    };
    let line = Plan::parse_from(["plan".as_ref(), "-f".as_ref(), path.as_os_str()]);
    let planned = plan::planned(&line.arguments).await.map_or_else(shown, |(text, code)| (code, text));
    let line = Lint::parse_from(["lint".as_ref(), "-f".as_ref(), path.as_os_str()]);
    let linted = lint::linted(&line.arguments).await.map_or_else(shown, |found| (found.code, found.text));
    [planned, linted]
}

#[tokio::test]
async fn every_wrong_file_is_answered_with_its_place_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = String::new();
    let inputs: Vec<Input> = [texts(), objects(), builtin()].concat();
    assert!(inputs.len() >= 100, "{}", inputs.len());
    for (name, bytes) in inputs {
        let path = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&path, bytes).unwrap();
        let [planned, linted] = answers(&path).await;
        for (command, (code, text)) in [("plan", planned), ("lint", linted)] {
            let text = text.replace(&format!("{}/", folder.path().display()), "");
            assert_ne!(code, 0, "{command} {name}: {text}");
            assert!(text.contains(&format!("{name}.yaml")), "{command} {name}: {text}");
            let _ = writeln!(written, "## {name}: {command} exits with {code}\n{}", text.trim_end());
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/command/wrong_inputs.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &written).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap();
    assert!(written == expected, "UPDATE_GOLDEN=1 rewrites {}", golden.display());
}

/// Files that `kubectl apply` takes, however odd they look.
#[tokio::test]
async fn odd_files_that_an_api_server_takes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let crlf = |text: &str| text.replace('\n', "\r\n").into_bytes();
    let inputs: Vec<Input> = vec![
        ("crlf", crlf(WEB)),
        ("mark", [b"\xef\xbb\xbf", WEB.as_bytes()].concat()),
        ("utf-16", utf16(&format!("\u{feff}{WEB}"))),
        ("tab-before-a-value", web("replicas: 2", "replicas:\t2")),
        ("exponent", web("2", "2e+00")),
        ("nulls", web("      containers", "      nodeSelector: null\n      tolerations:\n      containers")),
        (
            "anchors",
            web(
                "{app: web}}\n  template:\n    metadata: {labels: {app: web}}",
                "&app {app: web}}\n  template:\n    metadata: {labels: *app}",
            ),
        ),
        (
            "merged",
            web("      - name: c\n", "      - &c\n        name: c\n")
                .into_iter()
                .chain(*b"      - {<<: *c, name: d}\n")
                .collect(),
        ),
        ("marker-with-a-comment", [b"# first\n---# second\n", WEB.as_bytes()].concat()),
        ("comment-after-a-marker", [b"--- # second\n", WEB.as_bytes()].concat()),
        (
            "in-a-list",
            format!("apiVersion: v1\nkind: List\nitems:\n- {}", WEB.replace('\n', "\n  ").trim_end())
                .into_bytes(),
        ),
        ("amount-as-a-number", requests("1e9")),
        ("amount-with-an-exponent", requests("\"1E3\"")),
        ("amount-of-thousandths", requests("1500m")),
        ("amount-with-a-sign", requests("\"+1Gi\"")),
    ];
    let pods = |code: u8, text: &str| code == 3 && text.starts_with("2 pods would stay pending");
    for (name, bytes) in inputs {
        let path = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&path, bytes).unwrap();
        let [(code, text), (linted, found)] = answers(&path).await;
        assert!(pods(code, &text), "{name}: {code} {text}");
        assert_eq!(linted, 0, "{name}: {found}");
    }
}
