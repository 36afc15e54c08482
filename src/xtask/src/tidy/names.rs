//! Names that others read too are spelt once: no text in production code repeats one of `karpenter_model::names`.
//!
//! A text repeats a name if it has a `/` or `:` (labels, annotations, taints, finalizers, tags) or is several words (condition
//! types and reasons); `Ready` alone may mean anything. Tests are left out: they say what the names must be.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::sources::{Crate, is_test};

/// Folder of the names.
const VOCABULARY: &str = "src/model/src/names";
/// Crates that run in tests only, and this one.
const TEST_CRATES: &[&str] = &["testkit", "kube-sim", "aws-sim", "sim", "xtask"];
/// The beginning of a path, a text that may stand there, and why.
const ALLOWED: &[(&str, &str, &str)] = &[(
    "src/aws-api/src/conformance/launch.rs",
    "karpenter.sh/nodepool",
    "any tag will do, and `aws-api` uses no crate",
)];

/// Checks those of `crates` below `src/` that run in production; the end-to-end tests are beside it.
pub(super) fn check(crates: &[Crate]) -> Vec<String> {
    let vocabulary = vocabulary(crates);
    let runs =
        |krate: &&Crate| krate.folder.strip_prefix("src/").is_some_and(|name| !TEST_CRATES.contains(&name));
    let sources = crates.iter().filter(runs).flat_map(|krate| krate.roots.iter().flatten());
    let mut violations = Vec::new();
    for source in sources {
        let name = source.file.display().to_string();
        if !name.starts_with(VOCABULARY) {
            violations.extend(repeated(&name, &source.text, &source.parsed, &vocabulary));
        }
    }
    violations
}

/// Names and the constants that spell them; two constants may be spelt alike, a condition type and an event's reason.
type Vocabulary = BTreeMap<String, Vec<String>>;

fn vocabulary(crates: &[Crate]) -> Vocabulary {
    let mut found = Vocabulary::new();
    let sources = crates.iter().flat_map(|krate| krate.roots.iter().flatten());
    for source in sources.filter(|source| source.file.display().to_string().starts_with(VOCABULARY)) {
        let module = source.module.join("::");
        for (constant, value) in constants(&source.parsed) {
            found.entry(value).or_default().push(format!("{module}::{constant}"));
        }
    }
    found
}

/// The constants of a module that are a text which must not be repeated.
fn constants(parsed: &syn::File) -> impl Iterator<Item = (String, String)> {
    parsed.items.iter().filter_map(|item| {
        let syn::Item::Const(constant) = item else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &*constant.expr else {
            return None;
        };
        is_telling(&text.value()).then(|| (constant.ident.to_string(), text.value()))
    })
}

/// Returns whether a text that equals a name can mean nothing else.
fn is_telling(name: &str) -> bool {
    let joins_words = |(one, next): (char, char)| one.is_lowercase() && next.is_uppercase();
    name.contains(['/', ':']) || name.chars().zip(name.chars().skip(1)).any(joins_words)
}

/// The texts of a file that repeat a name.
fn repeated(name: &str, text: &str, parsed: &syn::File, vocabulary: &Vocabulary) -> Vec<String> {
    let mut texts = Texts::default();
    texts.visit_file(parsed);
    let mut found = Vec::new();
    for (value, count) in texts.0 {
        let is_allowed = ALLOWED.iter().any(|(path, allowed, _)| name.starts_with(path) && value == *allowed);
        let Some(constants) = vocabulary.get(&value).filter(|_| !is_allowed) else { continue };
        let constants = constants.join("` or `");
        // Tests are last in a file, so these are the first lines that have the text.
        let quoted = format!("\"{value}\"");
        let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//"));
        let lines = lines.flat_map(|(line, number)| line.matches(&quoted).map(move |_| number));
        found.extend(
            lines
                .take(count)
                .map(|line| format!("{name}:{line}: `{value}` is spelt again; use `{constants}`")),
        );
    }
    found
}

/// Number of times that production code has each text.
#[derive(Default)]
struct Texts(BTreeMap<String, usize>);

impl Texts {
    fn add(&mut self, text: &syn::LitStr) {
        *self.0.entry(text.value()).or_default() += 1;
    }

    /// Texts among the arguments of a macro, which are no syntax yet.
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.add(&text);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Static(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, method: &'ast syn::ImplItemFn) {
        if !is_test(&method.attrs) {
            visit::visit_impl_item_fn(self, method);
        }
    }

    /// Comments are attributes too.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.add(text);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::sources;
    use super::*;

    fn lines(name: &str, text: &str) -> Vec<String> {
        let names = r#"
            pub const ZONE: &str = "a.example/zone";
            pub const LAUNCH_FAILED: &str = "LaunchFailed";
            pub const READY: &str = "Ready";
            pub const COUNT: usize = 1;
        "#;
        let names = constants(&syn::parse_file(names).unwrap())
            .map(|(constant, value)| (value, vec![format!("names::{constant}")]))
            .collect();
        let found = repeated(name, text, &syn::parse_file(text).unwrap(), &names);
        let place = |line: &String| line.split(" is spelt").next().unwrap().to_owned();
        found.iter().map(place).collect()
    }

    #[test]
    fn a_name_that_is_spelt_again_is_found_wherever_it_stands() {
        for (text, expected) in [
            ("const A: &str = \"a.example/zone\";", vec!["a.rs:1: `a.example/zone`"]),
            ("fn f() { g(\n\"LaunchFailed\") }", vec!["a.rs:2: `LaunchFailed`"]),
            ("fn f() { m!({ \"a.example/zone\": [\"x\"] }) }", vec!["a.rs:1: `a.example/zone`"]),
            ("fn f() { match x { \"LaunchFailed\" => {} _ => {} } }", vec!["a.rs:1: `LaunchFailed`"]),
            (
                "// \"LaunchFailed\"\nfn f() { g(\"LaunchFailed\", \"LaunchFailed\") }",
                vec!["a.rs:2: `LaunchFailed`", "a.rs:2: `LaunchFailed`"],
            ),
        ] {
            assert_eq!(lines("a.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_name_or_stands_in_a_test_or_comment_is_not_found() {
        for text in [
            "const A: &str = \"Ready\"; const B: &str = \"a.example/zones\";",
            "/// `LaunchFailed`, \"LaunchFailed\"\nfn f() {}",
            "#[cfg(test)]\nmod tests { const A: &str = \"LaunchFailed\"; }",
            "#[cfg(test)]\nfn f() { g(\"LaunchFailed\") }",
            "impl A { #[cfg(test)] fn f() { g(\"LaunchFailed\") } }",
        ] {
            assert_eq!(lines("a.rs", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn every_exception_is_needed() {
        let root = crate::repository_root();
        let vocabulary = vocabulary(&sources::crates(&root).unwrap());
        for (path, text, _) in ALLOWED {
            assert!(vocabulary.contains_key(*text), "{text}");
            assert!(
                fs::read_to_string(root.join(path)).unwrap().contains(&format!("\"{text}\"")),
                "{path}: {text}"
            );
        }
    }
}
