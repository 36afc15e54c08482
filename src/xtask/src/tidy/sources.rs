//! The production code of each crate as the compiler reads it: from its root along `mod`, with tests left out.
//!
//! Rules about code share one reading: parsing a thousand files is most of the time that they take.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::files;

/// The path of a module below its crate; empty for the crate itself.
pub(super) type ModulePath = Vec<String>;

/// A crate of this repository.
pub(super) struct Crate {
    /// Its folder below the repository, such as `src/model`.
    pub(super) folder: String,
    /// The files below `lib.rs` and those below `main.rs`, as far as it has them.
    pub(super) roots: Vec<Vec<Source>>,
}

/// A file with production code.
pub(super) struct Source {
    /// Its path below the repository.
    pub(super) file: PathBuf,
    pub(super) module: ModulePath,
    pub(super) text: String,
    pub(super) parsed: syn::File,
}

/// Reads every crate below `src/` and `e2e/`.
pub(super) fn crates(root: &Path) -> Result<Vec<Crate>> {
    let mut folders = files::subfolders(&root.join("src"))?;
    folders.push(root.join("e2e"));
    folders.iter().map(|folder| read(root, folder)).collect()
}

fn read(root: &Path, krate: &Path) -> Result<Crate> {
    let folder = krate.strip_prefix(root).unwrap_or(krate).display().to_string();
    let sources = krate.join("src");
    let mut roots = Vec::new();
    for entry in ["lib.rs", "main.rs"].map(|file| sources.join(file)) {
        if entry.exists() {
            let mut reader = Reader { root, found: Vec::new() };
            reader.file(&entry, &sources, Vec::new())?;
            roots.push(reader.found);
        }
    }
    Ok(Crate { folder, roots })
}

struct Reader<'a> {
    root: &'a Path,
    found: Vec<Source>,
}

impl Reader<'_> {
    /// Reads the module in `file`, whose children lie in `folder`, and those below it.
    fn file(&mut self, file: &Path, folder: &Path, module: ModulePath) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("cannot parse `{}`", file.display()))?;
        self.below(&parsed.items, folder, &module)?;
        let file = file.strip_prefix(self.root).unwrap_or(file).to_owned();
        self.found.push(Source { file, module, text, parsed });
        Ok(())
    }

    fn below(&mut self, items: &[syn::Item], folder: &Path, module: &[String]) -> Result<()> {
        for child in modules(items) {
            let (name, inside) = (child.ident.to_string(), folder.join(child.ident.to_string()));
            let path = [module, &[name]].concat();
            match &child.content {
                Some((_, items)) => self.below(items, &inside, &path)?,
                None => self.file(&inside.with_extension("rs"), &inside, path)?,
            }
        }
        Ok(())
    }
}

/// The modules among `items` that are no tests.
pub(super) fn modules(items: &[syn::Item]) -> impl Iterator<Item = &syn::ItemMod> {
    items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if !is_test(&module.attrs) => Some(module),
        _ => None,
    })
}

/// Returns whether `#[cfg(test)]` is among `attributes`.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}
