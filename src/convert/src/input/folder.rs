//! Files of a folder that may have manifests, with those of its folders.
//!
//! A folder is entered once: links may lead back. What a kustomization patches others with is a part of an object, which
//! `kubectl kustomize` alone makes whole, and is listed as such.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use karpenter_api::yaml::Node;

/// Files by name, those of a folder where its own name is.
#[derive(Default)]
pub(super) struct Folder {
    pub(super) files: Vec<PathBuf>,
    /// Those of them that are patches.
    pub(super) patches: BTreeSet<PathBuf>,
    entered: BTreeSet<PathBuf>,
}

impl Folder {
    /// Everything below a folder.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut all = Self::default();
        all.enter(path)?;
        Ok(all)
    }

    fn enter(&mut self, path: &Path) -> io::Result<()> {
        if !self.entered.insert(path.canonicalize()?) {
            return Ok(());
        }
        let mut entries =
            fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        for entry in entries {
            let ends = |known: &&str| entry.extension().is_some_and(|end| end == *known);
            if entry.is_dir() {
                self.enter(&entry)?;
                continue;
            }
            if entry.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("kustomization")) {
                self.patches.extend(patches(&entry).iter().map(|patch| path.join(patch)));
            }
            if ["yaml", "yml", "json"].iter().any(ends) {
                self.files.push(entry);
            }
        }
        Ok(())
    }
}

/// The files that a kustomization names as patches; of one that cannot be read none.
fn patches(kustomization: &Path) -> Vec<String> {
    let text = fs::read_to_string(kustomization).unwrap_or_default();
    let Ok(Some(node)) = Node::parse(&text, 0) else { return Vec::new() };
    let value = node.to_value();
    let named = ["patches", "patchesStrategicMerge", "patchesJson6902"].into_iter().flat_map(|field| {
        let entries = value[field].as_array().cloned().unwrap_or_default();
        entries.into_iter().filter_map(|entry| {
            let path = entry.get("path").unwrap_or(&entry);
            path.as_str().map(|path| path.trim_start_matches("./").to_owned())
        })
    });
    named.collect::<Vec<String>>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn named(paths: impl IntoIterator<Item = PathBuf>, folder: &Path) -> Vec<String> {
        let name = |path: PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
        paths.into_iter().map(name).collect()
    }

    #[test]
    fn a_link_that_leads_back_is_not_followed_again() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[("a.yaml", ""), ("b/c.yml", ""), ("b/d.txt", "")]);
        std::os::unix::fs::symlink(folder.path(), folder.path().join("b/again")).unwrap();
        let all = Folder::of(folder.path()).unwrap();
        assert_eq!(named(all.files, folder.path()), ["a.yaml", "b/c.yml"]);
    }

    #[test]
    fn files_that_a_kustomization_patches_with_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let list = "resources: [pool.yaml]\npatches:\n- path: ./weight.yaml\n- patch: '- op: remove'\n\
                    patchesStrategicMerge: [zone.yaml]\npatchesJson6902: [{path: ops.yaml}]\n";
        write(
            folder.path(),
            &[
                ("prod/kustomization.yaml", list),
                ("prod/pool.yaml", ""),
                ("prod/weight.yaml", ""),
                ("dev/Kustomization", "patches: [{path: a.yaml}]\n"),
                ("dev/a.yaml", ""),
                ("broken/kustomization.yml", "patches: [\n"),
            ],
        );
        let all = Folder::of(folder.path()).unwrap();
        let patches = ["dev/a.yaml", "prod/ops.yaml", "prod/weight.yaml", "prod/zone.yaml"];
        assert_eq!(named(all.patches, folder.path()), patches);
    }
}
