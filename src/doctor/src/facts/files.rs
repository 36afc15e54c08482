//! Facts as a folder of JSON files: one for each answer, so that people can read and redact them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Facts;

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot write `{path}`")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot read `{path}`; was the folder written by `karpenter doctor --export`")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("`{path}` is not what `karpenter doctor --export` writes")]
    Content {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

/// The file with what is neither of the account nor of the cluster.
const ABOUT: &str = "about.json";
/// The fields that become files of their own, with the beginning of their names.
const PARTS: [&str; 2] = ["account", "cluster"];

/// Writes the facts below `folder`, which is made if it does not exist.
pub fn export(facts: &Facts, folder: &Path) -> Result<(), FilesError> {
    fs::create_dir_all(folder).map_err(|source| FilesError::Write { path: folder.to_owned(), source })?;
    let mut value = serde_json::to_value(facts)
        .map_err(|source| FilesError::Content { path: folder.to_owned(), source })?;
    for part in PARTS {
        if let Some(Value::Object(answers)) = value.as_object_mut().and_then(|facts| facts.remove(part)) {
            for (name, answer) in answers {
                write(&folder.join(format!("{part}-{name}.json")), &answer)?;
            }
        }
    }
    write(&folder.join(ABOUT), &value)
}

/// Reads what [`export`] wrote. A file that is missing is an answer that was not given.
pub fn import(folder: &Path) -> Result<Facts, FilesError> {
    let about = folder.join(ABOUT);
    let mut facts = read(&about)?;
    let listing =
        fs::read_dir(folder).map_err(|source| FilesError::Read { path: folder.to_owned(), source })?;
    let mut parts = PARTS.map(|part| (part, Map::new()));
    for entry in listing {
        let path = entry.map_err(|source| FilesError::Read { path: folder.to_owned(), source })?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        for (part, answers) in &mut parts {
            let field = name.strip_prefix(&format!("{part}-")).and_then(|rest| rest.strip_suffix(".json"));
            if let Some(field) = field {
                answers.insert(field.to_owned(), read(&path)?);
            }
        }
    }
    if let Some(facts) = facts.as_object_mut() {
        for (part, answers) in parts {
            facts.insert(part.to_owned(), Value::Object(answers));
        }
    }
    serde_json::from_value(facts).map_err(|source| FilesError::Content { path: folder.to_owned(), source })
}

fn write(path: &Path, value: &Value) -> Result<(), FilesError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|source| FilesError::Content { path: path.to_owned(), source })?;
    fs::write(path, text + "\n").map_err(|source| FilesError::Write { path: path.to_owned(), source })
}

fn read(path: &Path) -> Result<Value, FilesError> {
    let text =
        fs::read_to_string(path).map_err(|source| FilesError::Read { path: path.to_owned(), source })?;
    serde_json::from_str(&text).map_err(|source| FilesError::Content { path: path.to_owned(), source })
}
