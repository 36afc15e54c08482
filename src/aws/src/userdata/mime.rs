//! The multipart archive cloud-init reads: parts in, parts out.
//!
//! The boundary is fixed, because random boundaries would give every launch its own template. Carriage
//! returns never appear in what we write; what we read may have them (spec aws-provider 6.7, 6.8).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Error;

const BOUNDARY: &str = "//";

/// Content type of a shell script part.
pub(crate) const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";

/// Name and value of each header, in order.
type Headers = Vec<(String, String)>;

/// One part: its header lines as written, and its body. What was encoded is decoded, except what is no text: that stays
/// base64, as its headers state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Headers: the part before the blank line.
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

    /// The content type without parameters, in lower case.
    pub(super) fn media_type(&self) -> String {
        self.content_type().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    pub(super) fn set_content_type(&mut self, content_type: &str) {
        self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        self.headers.insert(0, ("Content-Type".to_owned(), content_type.to_owned()));
    }

    /// Returns whether the body is no text and is encoded as base64.
    pub(super) fn is_binary(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(TRANSFER_ENCODING))
    }
}

const TRANSFER_ENCODING: &str = "Content-Transfer-Encoding";

/// Returns whether a text claims to be a MIME document: a header before the first empty line, in any case and order.
pub(crate) fn is_mime(text: &str) -> bool {
    let mut head = text.trim_start().lines().take_while(|line| !line.trim().is_empty()).peekable();
    let name = |line: &str| Some(line.split_once(':')?.0.to_ascii_lowercase());
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    head.peek().is_some_and(|line| name(line).is_some_and(|name| is_name(&name)))
        && head.any(|line| {
            name(line).is_some_and(|name| ["mime-version", "content-type"].contains(&name.as_str()))
        })
}

/// Returns whether a line of a part would be taken for the end of the part.
pub(super) fn is_delimiter(line: &str) -> bool {
    line.trim_end()
        .strip_prefix("--")
        .and_then(|line| line.strip_prefix(BOUNDARY))
        .is_some_and(|rest| matches!(rest, "" | "--"))
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
    // A carriage return after `#!/bin/bash` becomes part of the interpreter's name.
    out.replace('\r', "")
}

/// Splits a document into its parts: those of a multipart document, and of the multipart documents in it, or the one.
///
/// # Errors
/// [`Error::Mime`] when the headers, the boundary or the closing delimiter are missing, or a part cannot be decoded.
pub fn parse(text: &str) -> Result<Vec<Part>, Error> {
    let text = text.trim_start().replace("\r\n", "\n");
    let (headers, body) = split_headers(&text)?;
    let whole = Part { headers, body: body.to_owned() };
    match whole.media_type().as_str() {
        "" => Err(Error::Mime("no Content-Type header".to_owned())),
        media if media.starts_with("multipart/") => parts_of(&whole),
        _ => {
            let headers = whole.headers.into_iter();
            let own = |(name, _): &(String, String)| !name.eq_ignore_ascii_case("mime-version");
            Ok(vec![decoded(headers.filter(own).collect(), &whole.body)?])
        }
    }
}

fn parts_of(whole: &Part) -> Result<Vec<Part>, Error> {
    let boundary = boundary_of(whole.content_type())
        .ok_or_else(|| Error::Mime("the Content-Type has no boundary".to_owned()))?;
    let open = format!("--{boundary}");
    let close = format!("--{boundary}--");
    let mut parts = Vec::new();
    let mut current: Option<Vec<&str>> = None;
    for line in whole.body.split('\n') {
        // Blanks after a delimiter are padding (RFC 2046, 5.1.1).
        let mark = line.trim_end();
        if mark == close {
            if let Some(lines) = current.take() {
                parts.extend(part_of(&lines.join("\n"))?);
            }
            return Ok(parts);
        }
        if mark == open {
            if let Some(lines) = current.take() {
                parts.extend(part_of(&lines.join("\n"))?);
            }
            current = Some(Vec::new());
        } else if let Some(lines) = current.as_mut() {
            lines.push(line);
        }
    }
    Err(Error::Mime(format!("the closing line `{close}` is missing")))
}

fn part_of(text: &str) -> Result<Vec<Part>, Error> {
    // A part may have no headers at all: then it starts with the blank line.
    if let Some(body) = text.strip_prefix('\n') {
        return Ok(vec![Part { headers: Vec::new(), body: body.to_owned() }]);
    }
    let (headers, body) = split_headers(text)?;
    let part = decoded(headers, body)?;
    if part.media_type().starts_with("multipart/") { parts_of(&part) } else { Ok(vec![part]) }
}

/// Decodes a part, so that its text can be read; a part that is no text keeps its encoding.
fn decoded(mut headers: Headers, body: &str) -> Result<Part, Error> {
    let is_encoding = |(name, _): &(String, String)| name.eq_ignore_ascii_case(TRANSFER_ENCODING);
    let encoding =
        headers.iter().find(|header| is_encoding(header)).map(|(_, value)| value.to_ascii_lowercase());
    let body = match encoding.as_deref() {
        // Encodings that change nothing (RFC 2045, 6.2).
        None | Some("7bit" | "8bit" | "binary") => body.to_owned(),
        Some("quoted-printable") => from_quoted_printable(body)?,
        Some("base64") => {
            let packed: String = body.split_whitespace().collect();
            let bytes = STANDARD
                .decode(&packed)
                .map_err(|error| Error::Mime(format!("a part is not base64: {error}")))?;
            match String::from_utf8(bytes) {
                Ok(text) => text,
                // It is no text, so it goes on as it came, with the header that names its encoding.
                Err(_) => return Ok(Part { headers, body: packed }),
            }
        }
        Some(other) => return Err(Error::Mime(format!("`{TRANSFER_ENCODING}: {other}` is not known"))),
    };
    headers.retain(|header| !is_encoding(header));
    Ok(Part { headers, body })
}

/// Undoes quoted-printable (RFC 2045): `=3D` is a byte, `=` at the end of a line joins it to the next.
fn from_quoted_printable(text: &str) -> Result<String, Error> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let line = line.trim_end();
        // Blanks at the end of a line do not count (RFC 2045, 6.7), so the `=` that joins lines is the last character.
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
    let at = content_type.to_ascii_lowercase().find("boundary=")?;
    let value = content_type.get(at + "boundary=".len()..)?;
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([';', ' ', '\t']).next(),
    }?;
    (!value.is_empty()).then(|| value.to_owned())
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
    fn parts_in_base64_are_read_for_what_they_say_and_what_is_no_text_stays_as_it_is() {
        let archive = |body: &str| {
            format!(
                "Content-Type: multipart/mixed; boundary=\"a;b\"\n\n--a;b\nContent-Type: text/x-shellscript\n\
                 content-transfer-encoding: BASE64\nX-Kept: 1\n\n{body}\n--a;b--\n"
            )
        };
        let parts = parse(&archive("IyEvYmluL3NoCmVj\naG8gw6kK\n")).unwrap();
        assert_eq!(parts[0].body, "#!/bin/sh\necho \u{e9}\n");
        assert_eq!(parts[0].headers.len(), 2, "the encoding is undone");
        assert!(!parts[0].is_binary());
        let parts = parse(&archive("H4sIAAAA\nAAAA/w==")).unwrap();
        assert_eq!((parts[0].body.as_str(), parts[0].is_binary()), ("H4sIAAAAAAAA/w==", true));
        assert!(matches!(parse(&archive("no base64!")), Err(Error::Mime(_))));
        let other = archive("x").replace("BASE64", "x-uuencode");
        assert!(matches!(parse(&other), Err(Error::Mime(text)) if text.contains("x-uuencode")));
    }

    #[test]
    fn documents_of_one_part_and_documents_in_documents_are_understood() {
        let one = parse("content-type: text/cloud-config\nMIME-version: 1.0\n\n#cloud-config\n").unwrap();
        assert_eq!(
            one,
            [Part {
                headers: vec![("content-type".into(), "text/cloud-config".into())],
                body: "#cloud-config\n".into()
            }]
        );
        let inner = "--I\nContent-Type: text/plain\n\ntwo\n--I--";
        let text = format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=O; charset=x\n\n--O\n\none\n--O\n\
             Content-Type: multipart/mixed; boundary=I\n\n{inner}\n--O--\n"
        );
        let bodies: Vec<_> = parse(&text).unwrap().into_iter().map(|part| part.body).collect();
        assert_eq!(bodies, ["one", "two"]);
    }

    #[test]
    fn a_document_is_told_by_its_headers_in_any_case_and_order() {
        for (text, expected) in [
            ("MIME-Version: 1.0\n\nx", true),
            ("\n\ncontent-type: multipart/mixed\n\nx", true),
            ("From: me\nmime-version: 1.0\n\nx", true),
            ("#!/bin/sh\ncat <<EOF\nMIME-Version: 1.0\nEOF\n", false),
            ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", false),
            ("#cloud-config\n", false),
            ("", false),
        ] {
            assert_eq!(is_mime(text), expected, "{text:?}");
        }
    }

    #[test]
    fn documents_without_boundary_end_or_headers_are_refused() {
        for text in [
            "MIME-Version: 1.0\n\nbody",
            "Content-Type: multipart/mixed\n\n--x\n\nbody\n--x--",
            "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\n\nbody\n",
            "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\nno header\n\nbody\n--x--",
            "Content-Type:",
        ] {
            assert!(matches!(parse(text), Err(Error::Mime(_))), "{text}");
        }
    }
}
