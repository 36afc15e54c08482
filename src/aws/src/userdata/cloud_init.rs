//! The user's own user data as parts of an archive, each with the type that cloud-init chooses its handler by.
//!
//! cloud-init recognises a text by its first line. A text that is sent under another type is run as what it is not, or by
//! nothing at all, and the node joins without it, or does not join: so each text gets its own type, and one that nothing
//! would read is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Error;
use super::mime::{self, Part, SHELL_SCRIPT};

/// First lines and the types they mean; a longer one comes before those it begins with.
const KINDS: [(&str, &str); 10] = [
    ("#cloud-config-archive", "text/cloud-config-archive"),
    ("#cloud-config-jsonp", "text/cloud-config-jsonp"),
    ("#cloud-config", "text/cloud-config"),
    ("#cloud-boothook", "text/cloud-boothook"),
    ("#include-once", "text/x-include-once-url"),
    ("#include", "text/x-include-url"),
    ("#part-handler", "text/part-handler"),
    ("#upstart-job", "text/upstart-job"),
    ("## template: jinja", "text/jinja2"),
    ("#!", SHELL_SCRIPT),
];

/// Types of a part whose kind follows from its first line, as that of a text without a type.
const UNTYPED: [&str; 3] = ["", "text/plain", "text/x-not-multipart"];

/// Types of parts that cloud-init decompresses.
const COMPRESSED: [&str; 8] = [
    "application/gzip",
    "application/gzip-compressed",
    "application/gzipped",
    "application/x-compress",
    "application/x-compressed",
    "application/x-gunzip",
    "application/x-gzip",
    "application/x-gzip-compressed",
];

/// Types whose reader takes any text for its own, whatever the first line is.
const READ_BLINDLY: [&str; 2] = ["text/x-shellscript", "text/cloud-config"];

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The parts of a text. `of_family` adds the formats of a family's own agent: the type, or the reason not to send it.
///
/// # Errors
/// [`Error::Mime`] when the text starts like MIME and cannot be split, [`Error::Unread`] when a part would be read by
/// nothing.
pub(super) fn parts(
    custom: Option<&str>,
    of_family: impl Fn(&str) -> Result<Option<&'static str>, Error>,
) -> Result<Vec<Part>, Error> {
    // A byte order mark, which editors on Windows write, would hide the first line.
    let text = custom.unwrap_or_default().trim_start_matches('\u{feff}');
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if mime::is_mime(text) {
        let parts = mime::parse(text)?.into_iter().enumerate();
        return parts.map(|(index, part)| typed(index + 1, part, &of_family)).collect();
    }
    if is_encoded(text) {
        let why = "it is base64 already; write the text itself, it is encoded for EC2 when it is sent";
        return Err(Error::Unread(why.to_owned()));
    }
    let kind = match first_line(text) {
        Some(kind) => Some(kind),
        None => of_family(text)?,
    };
    if let Some(family) = foreign(text).filter(|_| kind.is_none()) {
        return Err(Error::Unread(format!(
            "it is for {family}; write a script, or begin it with `#cloud-config`"
        )));
    }
    // A kernel reads `#!` in the first two bytes only.
    let body = if kind == Some(SHELL_SCRIPT) { text.trim_start() } else { text };
    Ok(vec![Part::new(kind.unwrap_or(SHELL_SCRIPT), body)])
}

/// Returns the family that a text without a first line of cloud-init's is for, where its format is of no other: run as a
/// script, it would do nothing.
fn foreign(text: &str) -> Option<&'static str> {
    let begins =
        |tag: &str| text.trim_start().get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag));
    if begins("<powershell>") || begins("<script>") {
        return Some("Windows");
    }
    is_settings(text).then_some("Bottlerocket")
}

/// Returns whether a text is settings of Bottlerocket.
pub(super) fn is_settings(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|document| document.contains_key("settings"))
}

/// Format that the first line of a text declares.
pub(super) fn first_line(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    let begins = |with: &str| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    KINDS.iter().find(|(with, _)| begins(with)).map(|(_, kind)| *kind)
}

/// A part of the user's archive with a type that has a reader.
fn typed(
    number: usize,
    mut part: Part,
    of_family: impl Fn(&str) -> Result<Option<&'static str>, Error>,
) -> Result<Part, Error> {
    let unread = |why: &str| Err(Error::Unread(format!("part {number} of the MIME document {why}")));
    let media = part.media_type();
    if part.is_binary() {
        let zipped = STANDARD.decode(part.body.as_bytes()).is_ok_and(|bytes| bytes.starts_with(&GZIP));
        return match (zipped, COMPRESSED.contains(&media.as_str())) {
            (true, false) => unread(&format!(
                "is compressed and has the type `{media}`, which is not decompressed; give it the type \
                 `application/gzip`, or send it as text"
            )),
            (false, true) => unread("is said to be compressed and is not gzip"),
            (true, true) | (false, false) => Ok(part),
        };
    }
    if COMPRESSED.contains(&media.as_str()) {
        return unread("is said to be compressed and is text; give it the type of the text");
    }
    if part.body.lines().any(mime::is_delimiter) {
        return unread("has a line that is a delimiter of the archive it is sent in; change that line");
    }
    if UNTYPED.contains(&media.as_str()) {
        if first_line(&part.body).is_some() {
            return Ok(part);
        }
        let Some(kind) = of_family(&part.body)? else {
            return unread(
                "has no type of its own and begins with no first line that cloud-init knows; set its Content-Type, or \
                 begin it with `#!` or `#cloud-config`",
            );
        };
        part.set_content_type(kind);
    } else if let Some(kind) = contradiction(&media, &part.body, &of_family) {
        return unread(&format!(
            "has the type `{media}` and its text is `{kind}`; give it the type of the text"
        ));
    }
    // A kernel reads `#!` in the first two bytes only.
    if media.starts_with("text/x-shellscript") && part.body.trim_start().starts_with("#!") {
        part.body.drain(..part.body.len() - part.body.trim_start().len());
    }
    Ok(part)
}

/// Returns the type that a text of a part declares if its reader would take it for something else.
fn contradiction(
    media: &str,
    body: &str,
    of_family: impl Fn(&str) -> Result<Option<&'static str>, Error>,
) -> Option<&'static str> {
    let by_content = || of_family(body).ok().flatten();
    let kind = first_line(body).or_else(by_content).filter(|_| READ_BLINDLY.contains(&media))?;
    let kind = kind.split(';').next().unwrap_or_default();
    // A template may be of either type.
    (kind != media && kind != "text/jinja2").then_some(kind)
}

/// Returns whether a text is base64 of user data: EC2's encoding is added when it is sent, and at boot it is undone once.
pub(super) fn is_encoded(text: &str) -> bool {
    let packed: String = text.split_whitespace().collect();
    let Ok(bytes) = STANDARD.decode(packed) else { return false };
    let is_user_data = |text: &str| first_line(text).is_some() || mime::is_mime(text);
    bytes.starts_with(&GZIP) || std::str::from_utf8(&bytes).is_ok_and(is_user_data)
}
