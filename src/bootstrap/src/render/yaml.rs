//! Writes a JSON value as YAML for people: long texts as blocks, quotes only where they are needed.
//!
//! Small on purpose: it handles what our templates hold and nothing else. Keys are plain identifiers.

use serde_json::Value;

/// `value`, which is an object, as a YAML document.
pub(crate) fn document(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

/// Writes `value` as the content of a mapping entry or list element whose content is indented by `indent`.
fn write(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                out.push_str(&format!("{pad}{}:", scalar(key)));
                nested(value, indent + 2, out);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                out.push_str(&format!("{pad}-"));
                match element {
                    // The first field is on the line of the dash, the others below it.
                    Value::Object(fields) if !fields.is_empty() => {
                        let mut block = String::new();
                        write(element, indent + 2, &mut block);
                        out.push(' ');
                        out.push_str(block.trim_start());
                    }
                    _ => nested(element, indent + 2, out),
                }
            }
        }
        other => nested(other, indent, out),
    }
}

/// Writes what follows `key:` or `-`.
fn nested(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) if text.contains('\n') => {
            out.push_str(" |-\n");
            let pad = " ".repeat(indent);
            for line in text.lines() {
                out.push_str(&format!("{pad}{line}\n"));
            }
        }
        Value::String(text) => out.push_str(&format!(" {}\n", scalar(text))),
        Value::Object(fields) if fields.is_empty() => out.push_str(" {}\n"),
        Value::Array(elements) if elements.is_empty() => out.push_str(" []\n"),
        Value::Object(_) | Value::Array(_) => {
            out.push('\n');
            write(value, indent, out);
        }
        other => out.push_str(&format!(" {other}\n")),
    }
}

/// Plain when that reads back as the same string, else quoted as JSON, which YAML understands.
fn scalar(text: &str) -> String {
    let plain = !text.is_empty()
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " _-./:=,()".contains(c))
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off"
        );
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_lists_and_blocks_are_written_for_reading() {
        let value = json!({
            "Version": "2010-09-09",
            "A": { "Empty": {}, "Text": "{\n  \"x\": 1\n}", "Use": "yes", "N": 300, "Type": "AWS::IAM::Role" },
            "B": [{ "Key": "k", "Value": { "Ref": "X" } }, "plain", ["", "a/b"]],
        });
        let expected = "\
Version: \"2010-09-09\"
A:
  Empty: {}
  Text: |-
    {
      \"x\": 1
    }
  Use: \"yes\"
  N: 300
  Type: AWS::IAM::Role
B:
  - Key: k
    Value:
      Ref: X
  - plain
  -
    - \"\"
    - a/b
";
        assert_eq!(document(&value), expected);
    }
}
