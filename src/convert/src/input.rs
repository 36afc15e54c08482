//! Files, folders and standard input as texts.

use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;

use serde_json::Value;

use karpenter_api::yaml::Node;
use karpenter_api::yaml::split;

mod folder;

use folder::Folder;

/// A text and where it comes from.
#[derive(Clone, Debug)]
pub struct Input {
    /// Path as given, or `-`.
    pub name: String,
    pub text: String,
}

/// Texts, and what is not among them.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub texts: Vec<Input>,
    /// Paths of files in folders that have no whole manifest, such as chart values, patches of a kustomization or the JSON of
    /// other tools.
    pub skipped: Vec<String>,
}

impl Inputs {
    /// One line on the files that were skipped; `None` when there are none.
    pub fn note(&self) -> Option<String> {
        const NAMED: usize = 5;
        let (count, first) = (self.skipped.len(), self.skipped.iter().take(NAMED));
        let names = first.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let more = count.checked_sub(NAMED).filter(|more| *more > 0);
        let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
        let (files, have) = if count == 1 { ("file", "has") } else { ("files", "have") };
        (count > 0)
            .then(|| format!("{count} {files} in folders {have} no whole manifest, skipped: {names}{more}"))
    }
}

/// Most bytes of a file. An export of the largest cluster has less; a device has no end.
const BYTES_MAX: u64 = 1 << 30;

/// A file or folder that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system refuses to read it.
    #[error(
        "cannot read `{path}`; give a file, a folder with .yaml, .yml or .json files, or - for standard input"
    )]
    System {
        /// As it was named.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Its bytes are no text.
    #[error(
        "cannot read `{path}`, line {line}: byte {byte:#04x} is no part of a text in UTF-8; save the file as UTF-8, or leave it \
         out"
    )]
    NoText {
        /// As it was named.
        path: String,
        /// Counted from 1.
        line: usize,
        /// First byte that is none of a text.
        byte: u8,
    },
    /// It has no end, or none that is near.
    #[error("cannot read `{path}`: it has more than {most} MiB; give a smaller file")]
    TooLarge {
        /// As it was named.
        path: String,
        /// Most MiB of a file.
        most: u64,
    },
}

impl InputError {
    /// The path, as it was named or found.
    pub fn path(&self) -> &str {
        let (Self::System { path, .. } | Self::NoText { path, .. } | Self::TooLarge { path, .. }) = self;
        path
    }

    /// Line of what is wrong with it, counted from 1.
    pub fn line(&self) -> usize {
        if let Self::NoText { line, .. } = self { *line } else { 1 }
    }

    /// Description of what is wrong with it, without its place.
    pub fn problem(&self) -> String {
        match self {
            Self::System { source, .. } => source.to_string(),
            Self::NoText { byte, .. } => format!("byte {byte:#04x} is no part of a text in UTF-8"),
            Self::TooLarge { most, .. } => format!("it has more than {most} MiB"),
        }
    }

    fn is_missing(&self) -> bool {
        matches!(self, Self::System { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The texts of `paths` in their order. A folder gives its manifests by name, with those of its folders; what is named itself
/// is meant, whatever is in it.
pub fn read(paths: &[PathBuf]) -> Result<Inputs, InputError> {
    let (inputs, unread) = read_some(paths)?;
    unread.into_iter().next().map_or(Ok(inputs), Err)
}

/// The texts of `paths` as [`read`] gives them, and the files among them that have no text. A path that is not there is an
/// error.
pub fn read_some(paths: &[PathBuf]) -> Result<(Inputs, Vec<InputError>), InputError> {
    let (mut inputs, mut unread) = (Inputs::default(), Vec::new());
    for path in paths {
        let name = path.display().to_string();
        let failed = |source| InputError::System { path: name.clone(), source };
        if name == "-" {
            let text = text_of(&name, io::stdin(), BYTES_MAX)?;
            inputs.texts.push(Input { name, text });
            continue;
        }
        let is_found = path.is_dir();
        let folder = if is_found { Folder::of(path).map_err(failed)? } else { Folder::default() };
        let files = if is_found { folder.files } else { vec![path.clone()] };
        for file in files {
            let name = file.display().to_string();
            let failed = |source| InputError::System { path: name.clone(), source };
            let opened = fs::File::open(&file).map_err(failed);
            match opened.and_then(|file| text_of(&name, file, BYTES_MAX)) {
                Ok(text) if is_found && (folder.patches.contains(&file) || !has_manifest(&text)) => {
                    inputs.skipped.push(name);
                }
                Ok(text) => inputs.texts.push(Input { name, text }),
                Err(error) if error.is_missing() && !is_found => return Err(error),
                Err(error) => unread.push(error),
            }
        }
    }
    Ok((inputs, unread))
}

/// The text of a file. A mark of the order of bytes, as editors and shells of Windows write it, is taken away, and a text of
/// UTF-16 that begins with one is read as such.
fn text_of(name: &str, source: impl io::Read, most: u64) -> Result<String, InputError> {
    let path = || name.to_owned();
    let mut bytes = Vec::new();
    let read = source.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|source| InputError::System { path: path(), source })?;
    if bytes.len() as u64 > most {
        return Err(InputError::TooLarge { path: path(), most: most >> 20 });
    }
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = rest.chunks_exact(2).filter_map(|pair| pair.try_into().ok()).map(unit);
        String::from_utf16(&units.collect::<Vec<_>>()).ok().filter(|_| rest.len().is_multiple_of(2))
    };
    let decoded = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        _ => None,
    };
    if let Some(text) = decoded {
        return Ok(text);
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let (valid, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = valid.split(|byte| *byte == b'\n').count();
        InputError::NoText { path: path(), line, byte: rest.first().copied().unwrap_or_default() }
    })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Returns whether a text has an object, or may have one that its author has to correct first.
fn has_manifest(text: &str) -> bool {
    // Most say so where a line begins, and need no parser for it. `Chart.yaml` has a version and no kind.
    let begins = |field: &str| text.lines().any(|line| line.starts_with(field));
    if begins("apiVersion:") && ["kind:", "metadata:", "spec:"].into_iter().any(begins) {
        return true;
    }
    if !text.contains("kind") {
        return false;
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return is_object(|field| value.get(field).is_some());
    }
    split(text).iter().any(|document| match Node::parse(&document.text, 0) {
        Ok(node) => node.is_some_and(|node| is_object(|field| node.get(field).is_some())),
        Err(_) => true,
    })
}

/// Returns whether something with these fields is an object or a list of objects: chart values may have a `kind` as well.
fn is_object(has: impl Fn(&str) -> bool) -> bool {
    has("kind") && ["apiVersion", "metadata", "items"].into_iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_editors_write_them() {
        let wide = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}kind: Pod\n# \u{e9}\n".encode_utf16().flat_map(unit).collect()
        };
        let text = |bytes: &[u8]| text_of("a.yaml", bytes, 1 << 20).map_err(|error| error.to_string());
        let expected = Ok("kind: Pod\n# \u{e9}\n".to_owned());
        assert_eq!(text("\u{feff}kind: Pod\n# \u{e9}\n".as_bytes()), expected);
        assert_eq!(text(&wide(u16::to_le_bytes)), expected);
        assert_eq!(text(&wide(u16::to_be_bytes)), expected);
        let advice = "is no part of a text in UTF-8; save the file as UTF-8, or leave it out";
        assert_eq!(
            text(b"kind: Pod\n# \xe9\n"),
            Err(format!("cannot read `a.yaml`, line 2: byte 0xe9 {advice}"))
        );
        assert_eq!(text(b"\xff\xfea"), Err(format!("cannot read `a.yaml`, line 1: byte 0xff {advice}")));
        assert_eq!(
            text_of("zero", io::repeat(b'\n'), 1 << 20).unwrap_err().to_string(),
            "cannot read `zero`: it has more than 1 MiB; give a smaller file"
        );
    }

    #[test]
    fn files_of_folders_without_a_manifest_are_skipped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n", false),
            ("a.yaml", "apiVersion: v1\nkind: Pod\n", true),
            ("b.json", "{\"kind\": \"List\", \"items\": []}", true),
            ("c.yaml", "# what a chart is given\nreplicas: 2\nautoscaler: {kind: Deployment}\n", false),
            ("d.json", "{\"Version\": \"2012-10-17\", \"Statement\": []}", false),
            ("e.json", "[1, 2]", false),
            ("f.json", "{\n  // of an editor\n  \"strict\": true,\n}", false),
            ("g.yaml", "kind: DaemonSet\nimage: {}\n", false),
            ("h.yaml", "kind: {{ .Values.kind }}\nmetadata: {}\n", true),
            ("i.yaml", "# later\n", false),
            ("j.yaml", "replicas: 2\n---\n{kind: Pod, metadata: {name: a}}\n", true),
            ("k.yaml", "# yaml-language-server: $schema=x\nresources: [a.yaml]\n", false),
            ("kustomization.yaml", "patches: [{path: m.yaml}]\n", false),
            ("l.yaml", "apiVersion: v1\nmetadata: {name: no-kind}\n", true),
            ("m.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n", false),
        ];
        for (name, text, _) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let inputs = read(&[folder.path().to_owned()]).unwrap();
        let named = |names: Vec<&str>| -> Vec<String> {
            names.into_iter().map(|name| folder.path().join(name).display().to_string()).collect()
        };
        let expected = |is_read: bool| {
            named(files.iter().filter(|(_, _, read)| *read == is_read).map(|(name, ..)| *name).collect())
        };
        assert_eq!(inputs.texts.iter().map(|one| one.name.clone()).collect::<Vec<_>>(), expected(true));
        assert_eq!(inputs.skipped, expected(false));
        let note = inputs.note().unwrap();
        assert!(note.starts_with("10 files in folders have no whole manifest, skipped: `"), "{note}");
        assert!(note.ends_with(" and 5 more"), "{note}");
        let named = read(&[folder.path().join("d.json")]).unwrap();
        assert_eq!((named.texts.len(), named.note()), (1, None), "what is named is meant");
    }
}
