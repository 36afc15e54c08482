//! Files and folders: which scenarios are in them, and the objects of the manifests that scenarios name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result as Outcome, bail};
use karpenter_api::manifest::faults;
use karpenter_api::schema::Cause;
use karpenter_api::yaml;
use karpenter_kube_sim::apiserver::object;
use karpenter_plan::{Reading, read_streams, too_many};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{Line, Manifest, Wrong};

/// The files of paths in their order. Of a folder its .yaml files by name, not those of its folders: those have manifests.
pub fn files(paths: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let mut found = entries(path, &["yaml", "yml"])
            .with_context(|| format!("cannot read folder `{}`; name one that exists", path.display()))?;
        found.retain(|path| path.is_file());
        if found.is_empty() {
            bail!("folder `{}` has no scenario; name one with .yaml files in it", path.display());
        }
        all.append(&mut found);
    }
    Ok(all)
}

/// Returns the entries of a folder with these endings, by name.
fn entries(folder: &Path, endings: &[&str]) -> std::io::Result<Vec<PathBuf>> {
    let mut found =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    found.retain(|path| path.extension().is_some_and(|end| endings.iter().any(|one| end == *one)));
    found.sort();
    Ok(found)
}

/// Objects of files and of the scenario itself.
pub(super) fn objects(given: &[Spanned<Value>], field: &str, folder: &Path) -> Result<Vec<Manifest>, Wrong> {
    let mut all = Vec::new();
    for (index, one) in given.iter().enumerate() {
        let line = one.referenced.line();
        let wrong = |problem: String| (line, format!("{field}[{index}]"), problem);
        match &one.value {
            Value::String(path) => {
                for what in of_files(&folder.join(path)).map_err(wrong)? {
                    all.push(Line { line, what });
                }
            }
            Value::Object(_)
                if !object::text(&one.value, "/kind").is_empty() && !object::name(&one.value).is_empty() =>
            {
                all.push(Line { line, what: yaml::sent(one.value.clone()) });
            }
            Value::Object(_) => return Err(wrong("the object needs `kind` and `metadata.name`".to_owned())),
            _ => return Err(wrong("must be the path of a file or an object".to_owned())),
        }
    }
    all.iter().try_for_each(of_a_cluster)?;
    all.iter().try_for_each(|manifest| storable(manifest, field == "manifests"))?;
    Ok(all)
}

/// The objects of a file, or of a folder as every command reads it.
fn of_files(path: &Path) -> Result<Vec<Value>, String> {
    if path == Path::new("-") {
        return Err("standard input is no part of a scenario; name a file or a folder".to_owned());
    }
    let paths = [path.to_owned()];
    let inputs =
        karpenter_convert::read(&paths).map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
    let found = read_streams(&paths, inputs.texts.iter().map(|input| (&*input.name, &*input.text)));
    let found = found.and_then(Reading::whole).map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|manifest| manifest.object).collect())
}

/// Refuses objects that ask for more pods than a cluster can have.
fn of_a_cluster(manifest: &Manifest) -> Result<(), Wrong> {
    let what = &manifest.what;
    let Some((field, asked)) = too_many(what) else { return Ok(()) };
    let (kind, name) = (object::text(what, "/kind"), object::name(what));
    Err((manifest.line, field.to_owned(), format!("of {kind} `{name}` {asked}")))
}

/// Refuses an object that no API server would store. What is applied later may be part of an object that is there, so only its
/// fields are checked here.
fn storable(manifest: &Manifest, is_whole: bool) -> Result<(), Wrong> {
    let what = &manifest.what;
    let Some(Cause { field, message, .. }) = faults(what, is_whole).into_iter().next() else { return Ok(()) };
    let (kind, name) = (object::text(what, "/kind"), object::name(what));
    Err((manifest.line, field, format!("of {kind} `{name}`: {message}")))
}
