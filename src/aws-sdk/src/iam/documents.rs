//! Policy documents: IAM percent-encodes them (RFC 3986) in every answer.

/// Decodes a document. Plain JSON passes through, for endpoints that forget to encode.
/// `None` when an escape is broken or the bytes are not UTF-8.
pub(super) fn decode(document: &str) -> Option<String> {
    if document.trim_start().starts_with('{') {
        return Some(document.to_owned());
    }
    let bytes = document.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while let Some(&byte) = bytes.get(position) {
        if byte == b'%' {
            let digits = document.get(position + 1..position + 3)?;
            decoded.push(u8::from_str_radix(digits, 16).ok()?);
            position += 3;
        } else {
            decoded.push(byte);
            position += 1;
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_documents_are_decoded_and_plain_ones_kept() {
        assert_eq!(decode("%7B%22a%22%3A%22*%2B%C3%A9%22%7D").as_deref(), Some("{\"a\":\"*+é\"}"));
        assert_eq!(decode("{\"a\":\"100%\"}").as_deref(), Some("{\"a\":\"100%\"}"));
    }

    #[test]
    fn broken_escapes_are_refused() {
        for broken in ["%7", "%zz", "%", "%ff%fe"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
