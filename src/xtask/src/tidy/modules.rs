//! Layout of modules: few beside each other, and arrows between neighbours that go one way.
//!
//! A reader who opens a folder sees its modules at once, and may read them in an order in which each needs only
//! those before it. What a module uses is read from its paths and imports; a name that another module re-exports
//! counts for the module that defines it. Parents and their children may use each other, and tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::sources::{Crate, ModulePath, is_test, modules};

/// More modules beside each other are a list that is not read; put those of one subject into a folder.
const BESIDE_MAX: usize = 20;

/// Checks each of `crates`.
pub(super) fn check(crates: &[Crate]) -> Vec<String> {
    let mut violations = Vec::new();
    for krate in crates {
        let name = &krate.folder;
        let mut modules = Modules::default();
        for source in krate.roots.first().into_iter().flatten() {
            modules.add(&source.parsed.items, &source.module);
        }
        violations.extend(modules.crowded().map(|found| format!("{name}: {found}")));
        violations.extend(modules.circles().map(|found| format!("{name}: {found}")));
    }
    violations
}

/// The modules of one crate.
#[derive(Default)]
struct Modules(BTreeMap<ModulePath, Module>);

/// Paths and imports of one module.
#[derive(Default)]
struct Module {
    /// Paths as they are written.
    mentions: Vec<Vec<String>>,
    /// Names that imports give to the paths behind them.
    imports: BTreeMap<String, Vec<String>>,
}

impl Modules {
    /// Adds the module at `path` and those that stand in the same file.
    fn add(&mut self, items: &[syn::Item], path: &[String]) {
        let mut module = Module::default();
        for item in items {
            module.visit_item(item);
        }
        self.0.insert(path.to_vec(), module);
        for child in modules(items) {
            if let Some((_, items)) = &child.content {
                self.add(items, &[path, &[child.ident.to_string()]].concat());
            }
        }
    }

    /// Folders with more than [`BESIDE_MAX`] modules.
    fn crowded(&self) -> impl Iterator<Item = String> {
        let mut children: BTreeMap<&[String], usize> = BTreeMap::new();
        for (_, parent) in self.0.keys().filter_map(|path| path.split_last()) {
            *children.entry(parent).or_default() += 1;
        }
        let crowded = children.into_iter().filter(|(_, count)| *count > BESIDE_MAX);
        crowded.map(|(parent, count)| {
            format!("`{}` has {count} modules beside each other, the limit is {BESIDE_MAX}", shown(parent))
        })
    }

    /// Neighbours that use each other, directly or through further neighbours.
    fn circles(&self) -> impl Iterator<Item = String> {
        let mut folders: BTreeMap<&[String], Arrows<'_>> = BTreeMap::new();
        for (at, module) in &self.0 {
            for mention in &module.mentions {
                let Some(target) = self.target(at, mention) else { continue };
                let shared = at.iter().zip(target).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (at.get(shared), target.get(shared)) {
                    let arrows = folders.entry(&at[..shared]).or_default();
                    arrows.entry(from).or_default().entry(to).or_insert_with(|| (at, mention));
                }
            }
        }
        folders.into_iter().flat_map(|(folder, arrows)| {
            let circles = circles(&arrows);
            circles.into_iter().map(move |names| {
                let kept = arrows.iter().flat_map(|(from, targets)| targets.iter().map(move |to| (from, to)));
                let kept = kept.filter(|(from, (to, _))| names.contains(*from) && names.contains(*to));
                let shown_arrows: Vec<_> = kept
                    .map(|(from, (to, (at, path)))| {
                        format!("{from} → {to}, `{}` in {}", path.join("::"), shown(at))
                    })
                    .collect();
                format!("modules of `{}` use each other: {}", shown(folder), shown_arrows.join("; "))
            })
        })
    }

    /// The module that defines what `mention` names in the module `at`; `at` itself if that is of another crate.
    fn target(&self, at: &[String], mention: &[String]) -> Option<&ModulePath> {
        self.follow(at, mention, 0)
    }

    /// Goes from the module `at` along `path`, through what modules re-export.
    fn follow(&self, at: &[String], path: &[String], re_exports: usize) -> Option<&ModulePath> {
        /// A chain of re-exports that is longer has no end.
        const RE_EXPORTS_MAX: usize = 8;
        let (found, module) = self.0.get_key_value(at)?;
        let Some((name, rest)) = path.split_first() else { return Some(found) };
        match name.as_str() {
            "crate" => return self.follow(&[], rest, re_exports),
            "self" => return self.follow(at, rest, re_exports),
            "super" => return self.follow(&at[..at.len().saturating_sub(1)], rest, re_exports),
            _ => {}
        }
        let below = [at, std::slice::from_ref(name)].concat();
        if self.0.contains_key(&below) {
            return self.follow(&below, rest, re_exports);
        }
        match module.imports.get(name) {
            Some(import) if re_exports < RE_EXPORTS_MAX => {
                self.follow(at, &[import.as_slice(), rest].concat(), re_exports + 1)
            }
            _ => Some(found),
        }
    }
}

/// Neighbours that each module uses, with one place that shows it.
type Arrows<'a> = BTreeMap<&'a String, BTreeMap<&'a String, (&'a ModulePath, &'a Vec<String>)>>;

/// The largest sets in which each uses each other, through however many others.
fn circles<'a>(arrows: &Arrows<'a>) -> Vec<BTreeSet<&'a String>> {
    let reached: BTreeMap<_, _> = arrows.keys().map(|from| (*from, reachable(arrows, from))).collect();
    let mut found = BTreeSet::new();
    for (from, there) in &reached {
        let circle: BTreeSet<_> = there
            .iter()
            .copied()
            .filter(|to| reached.get(to).is_some_and(|back| back.contains(from)))
            .collect();
        if !circle.is_empty() {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn reachable<'a>(arrows: &Arrows<'a>, from: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for to in arrows.get(at).into_iter().flat_map(|targets| targets.keys().copied()) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            // A module of its own.
            syn::Item::Mod(_) => {}
            syn::Item::Use(import) if !is_test(&import.attrs) => {
                self.import(&import.tree, &mut Vec::new());
            }
            syn::Item::Fn(item) if is_test(&item.attrs) => {}
            syn::Item::Impl(item) if is_test(&item.attrs) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mentions.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_impl_item_fn(&mut self, method: &'ast syn::ImplItemFn) {
        if !is_test(&method.attrs) {
            visit::visit_impl_item_fn(self, method);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
    }
}

impl Module {
    fn import(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before);
                }
            }
            syn::UseTree::Name(name) if name.ident == "self" => self.imported(before.clone(), None),
            syn::UseTree::Name(name) => {
                self.imported([before.clone(), vec![name.ident.to_string()]].concat(), None);
            }
            syn::UseTree::Rename(rename) => self.imported(
                [before.clone(), vec![rename.ident.to_string()]].concat(),
                Some(rename.rename.to_string()),
            ),
            syn::UseTree::Glob(_) => self.mentions.push(before.clone()),
        }
    }

    fn imported(&mut self, path: Vec<String>, name: Option<String>) {
        if let Some(name) = name.or_else(|| path.last().cloned()) {
            self.imports.insert(name, path.clone());
        }
        self.mentions.push(path);
    }

    /// Paths among the arguments of a macro, which are no syntax yet.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut joined = false;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if joined || path.is_empty() => {
                    path.push(name.to_string());
                    joined = false;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    joined = true;
                    continue;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            joined = false;
            self.mentions.push(std::mem::take(&mut path));
        }
        self.mentions.push(path);
    }
}

fn shown(path: &[String]) -> String {
    if path.is_empty() { "crate".to_owned() } else { path.join("::") }
}
