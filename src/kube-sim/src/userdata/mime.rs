//! Multipart archives, as cloud-init takes them apart.

use super::Error;

/// One part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Media type without parameters, in lower case.
    pub(super) content_type: String,
    /// Body without the line break before the next boundary.
    pub(super) body: String,
}

/// The parts in order.
pub(super) fn parts(archive: &str) -> Result<Vec<Part>, Error> {
    let archive = archive.replace('\r', "");
    let (head, body) =
        archive.split_once("\n\n").ok_or(Error::Mime { why: "no empty line after the headers" })?;
    let boundary = boundary(head).ok_or(Error::Mime { why: "no boundary in the content type" })?;
    let delimiter = format!("--{boundary}");
    let mut sections = body.split(delimiter.as_str());
    sections.next();
    let mut parts = Vec::new();
    let mut closed = false;
    for section in sections {
        if section.starts_with("--") {
            closed = true;
            break;
        }
        parts.push(part(section.strip_prefix('\n').unwrap_or(section)));
    }
    if closed { Ok(parts) } else { Err(Error::Mime { why: "the closing boundary is missing" }) }
}

fn boundary(head: &str) -> Option<&str> {
    let (_, after) = head.split_once("boundary=")?;
    let value = after.split([';', '\n']).next()?.trim().trim_matches('"');
    (!value.is_empty()).then_some(value)
}

fn part(section: &str) -> Part {
    let (head, body) = section.split_once("\n\n").unwrap_or((section, ""));
    let content_type = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.split(';').next().unwrap_or_default().trim())
    });
    Part {
        content_type: content_type.unwrap_or("text/plain").to_lowercase(),
        body: body.strip_suffix('\n').unwrap_or(body).to_owned(),
    }
}
