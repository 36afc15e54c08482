//! Private by default: a function or constant that is `pub` is named outside its crate.
//!
//! The compiler sees which items cannot be reached from outside, not which are never reached for. What is kept `pub` without
//! need is a promise to readers, and hides code that is not used at all. Types are left out: a function that is used may
//! answer with one that is never named. So are the simulators and the kit of tests, which are there to be asked.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use syn::visit::{self, Visit};

use super::files;
use super::references::read;
use super::sources::{Crate, is_test};

/// Crates of tests alone, and the harness, whose scenarios are part of it.
const FOR_TESTS: [&str; 5] = ["src/aws-sim", "src/kube-sim", "src/sim", "src/testkit", "e2e"];

/// Checks each of `crates` that is a library.
pub(super) fn check(root: &Path, crates: &[Crate]) -> Result<Vec<String>> {
    let (mut inside, mut beside) = (Vec::new(), Vec::new());
    for krate in crates {
        let folder = root.join(&krate.folder);
        inside.push(names_in(&folder, &["src"])?);
        beside.push(names_in(&folder, &["tests", "benches"])?);
    }
    let mut violations = Vec::new();
    for (number, krate) in crates.iter().enumerate() {
        if !root.join(&krate.folder).join("src/lib.rs").exists() || FOR_TESTS.contains(&krate.folder.as_str())
        {
            continue;
        }
        let others = inside.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, names)| names);
        let outside: BTreeSet<&String> = others.chain(&beside).flatten().collect();
        for source in krate.roots.first().into_iter().flatten() {
            let mut public = Public::default();
            public.visit_file(&source.parsed);
            let needless = public.0.into_iter().filter(|name| !outside.contains(name));
            violations.extend(needless.map(|name| {
                format!("{}: `{name}` is `pub` and no other crate names it", source.file.display())
            }));
        }
    }
    Ok(violations)
}

/// Every name in the Rust files of a crate below these of its folders.
fn names_in(krate: &Path, folders: &[&str]) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for folder in folders.iter().map(|folder| krate.join(folder)).filter(|folder| folder.exists()) {
        for file in files::with_extension(&folder, "rs")? {
            let text = read(&file)?;
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    Ok(names)
}

/// Functions and constants that are `pub`, in order.
#[derive(Default)]
struct Public(Vec<String>);

impl Public {
    fn note(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.0.push(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Public {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.vis, &item.sig.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.vis, &item.sig.ident);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.note(&item.vis, &item.ident);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.note(&item.vis, &item.ident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_functions_and_constants_are_found_and_tests_left_out() {
        let code = "
            pub const A: u8 = 1;
            pub(crate) const B: u8 = 1;
            pub fn c() { pub fn inner() {} }
            pub struct S;
            impl S { pub fn d(&self) {} fn e(&self) {} pub const F: u8 = 1; }
            #[cfg(test)]
            mod tests { pub fn g() {} }
        ";
        let mut public = Public::default();
        public.visit_file(&syn::parse_file(code).unwrap());
        assert_eq!(public.0, ["A", "c", "d", "F"]);
    }
}
