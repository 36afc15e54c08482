//! The multipart archive cloud-init reads: parts in, parts out.
//!
//! The boundary is fixed, because random boundaries would give every launch its own template. Carriage
//! returns never appear in what we write; what we read may have them (spec aws-provider 6.7, 6.8).

use super::Error;

const BOUNDARY: &str = "//";

/// Content type of a shell script part.
pub(crate) const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";

/// Name and value of each header, in order.
type Headers = Vec<(String, String)>;

/// One part: its header lines as written, and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What stands before the blank line.
    pub headers: Headers,
    /// Everything after the blank line.
    pub body: String,
}

impl Part {
    /// A part with nothing but a content type.
    pub fn new(content_type: &str, body: impl Into<String>) -> Self {
        Self { headers: vec![("Content-Type".to_owned(), content_type.to_owned())], body: body.into() }
    }

    /// The value of the `Content-Type` header, or an empty text.
    pub fn content_type(&self) -> &str {
        self.headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            .map_or("", |(_, value)| value.as_str())
    }
}

/// Whether a text claims to be a MIME document.
pub(crate) fn is_mime(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

/// Writes the archive.
pub fn write(parts: &[Part]) -> String {
    let mut out = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str("--");
        out.push_str(BOUNDARY);
        out.push('\n');
        for (name, value) in &part.headers {
            out.push_str(name);
            out.push_str(": ");
            out.push_str(value);
            out.push('\n');
        }
        out.push('\n');
        out.push_str(&part.body);
    }
    out.push_str("\n--");
    out.push_str(BOUNDARY);
    out.push_str("--\n");
    out.replace('\r', "")
}

/// Splits a multipart document into its parts.
///
/// # Errors
/// [`Error::Mime`] when the headers, the boundary or the closing delimiter are missing.
pub fn parse(text: &str) -> Result<Vec<Part>, Error> {
    let text = text.trim_start().replace("\r\n", "\n");
    let (headers, body) = split_headers(&text)?;
    let content_type = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        .map(|(_, value)| value.as_str())
        .ok_or_else(|| Error::Mime("no Content-Type header".to_owned()))?;
    let boundary = boundary_of(content_type)
        .ok_or_else(|| Error::Mime("the Content-Type has no boundary".to_owned()))?;
    parts_of(body, &boundary)
}

fn parts_of(body: &str, boundary: &str) -> Result<Vec<Part>, Error> {
    let open = format!("--{boundary}");
    let close = format!("--{boundary}--");
    let mut parts = Vec::new();
    let mut current: Option<Vec<&str>> = None;
    for line in body.split('\n') {
        let mark = line.trim_end();
        if mark == close {
            if let Some(lines) = current.take() {
                parts.push(part_of(&lines.join("\n"))?);
            }
            return Ok(parts);
        }
        if mark == open {
            if let Some(lines) = current.take() {
                parts.push(part_of(&lines.join("\n"))?);
            }
            current = Some(Vec::new());
        } else if let Some(lines) = current.as_mut() {
            lines.push(line);
        }
    }
    Err(Error::Mime(format!("the closing line `{close}` is missing")))
}

fn part_of(text: &str) -> Result<Part, Error> {
    // A part may have no headers at all: then it starts with the blank line.
    if let Some(body) = text.strip_prefix('\n') {
        return Ok(Part { headers: Vec::new(), body: body.to_owned() });
    }
    let (mut headers, body) = split_headers(text)?;
    let encoding = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("content-transfer-encoding")
            && value.eq_ignore_ascii_case("quoted-printable")
    };
    if !headers.iter().any(encoding) {
        return Ok(Part { headers, body: body.to_owned() });
    }
    // Read for what it says: what is written again has no encoding.
    headers.retain(|header| !encoding(header));
    Ok(Part { headers, body: from_quoted_printable(body)? })
}

/// Undoes quoted-printable (RFC 2045): `=3D` is a byte, `=` at the end of a line says that there is no line break.
fn from_quoted_printable(text: &str) -> Result<String, Error> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let line = line.trim_end();
        let (line, goes_on) = line.strip_suffix('=').map_or((line, false), |line| (line, true));
        let mut parts = line.split('=');
        decoded.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
        for part in parts {
            let byte = part
                .split_at_checked(2)
                .and_then(|(digits, rest)| Some((u8::from_str_radix(digits, 16).ok()?, rest)));
            let (byte, rest) =
                byte.ok_or_else(|| Error::Mime(format!("`={part}` is not quoted-printable")))?;
            decoded.push(byte);
            decoded.extend_from_slice(rest.as_bytes());
        }
        if !goes_on && lines.peek().is_some() {
            decoded.push(b'\n');
        }
    }
    String::from_utf8(decoded).map_err(|error| Error::Mime(error.to_string()))
}

/// Header lines up to the first blank line, folded lines joined, and the rest.
fn split_headers(text: &str) -> Result<(Headers, &str), Error> {
    let mut headers = Headers::new();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if line.trim().is_empty() {
            return Ok((headers, rest));
        }
        if line.starts_with([' ', '\t']) {
            let Some((_, value)) = headers.last_mut() else {
                return Err(Error::Mime("the first header line starts with a blank".to_owned()));
            };
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        let (name, value) =
            line.split_once(':').ok_or_else(|| Error::Mime(format!("`{line}` is not a header line")))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    Err(Error::Mime("the headers never end with a blank line".to_owned()))
}

fn boundary_of(content_type: &str) -> Option<String> {
    let mut fields = content_type.split(';');
    if !fields.next()?.trim().to_ascii_lowercase().starts_with("multipart/") {
        return None;
    }
    let value = fields.find_map(|field| {
        let (name, value) = field.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"').to_owned())
    })?;
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let parts = vec![Part::new(SHELL_SCRIPT, "#!/bin/sh\necho one\n"), Part::new("text/plain", "two")];
        assert_eq!(parse(&write(&parts)).unwrap(), parts);
    }

    #[test]
    fn carriage_returns_and_folded_headers_are_understood() {
        let text = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n boundary=\"BOUND\"\r\n\r\n--BOUND\r\nContent-Type: text/plain\r\nX-One: 1\r\n\r\nbody\r\n--BOUND--\r\n";
        let parts = parse(text).unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].body, "body");
        assert_eq!(parts[0].content_type(), "text/plain");
        assert_eq!(parts[0].headers[1], ("X-One".to_owned(), "1".to_owned()));
    }

    #[test]
    fn quoted_printable_parts_are_read_for_what_they_say() {
        let text = "Content-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: text/x-shellscript\n\
            Content-Transfer-Encoding: Quoted-Printable\n\n#!/bin/sh\nA=3D1; echo \"=C3=A9=\n\" on one line  \nend=\n\n--B--\n";
        let parts = parse(text).unwrap();
        assert_eq!(parts[0].headers, [("Content-Type".to_owned(), "text/x-shellscript".to_owned())]);
        assert_eq!(parts[0].body, "#!/bin/sh\nA=1; echo \"\u{e9}\" on one line\nend");
        for wrong in ["=4", "=G1", "=\u{e9}", "=FF"] {
            let text = text.replace("A=3D1", wrong);
            assert!(matches!(parse(&text), Err(Error::Mime(_))), "{wrong}");
        }
    }

    #[test]
    fn documents_without_boundary_end_or_headers_are_refused() {
        for text in [
            "MIME-Version: 1.0\n\nbody",
            "Content-Type: text/plain\n\nbody",
            "Content-Type: multipart/mixed\n\n--x\n\nbody\n--x--",
            "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\n\nbody\n",
            "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\nno header\n\nbody\n--x--",
            "Content-Type:",
        ] {
            assert!(matches!(parse(text), Err(Error::Mime(_))), "{text}");
        }
    }
}
