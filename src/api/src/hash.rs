//! A structural hash, bit-exact with the one existing fleets carry in their annotations
//! (spec scheduling 7, spec aws-provider 1.8).
//!
//! FNV-1 (multiply, then xor), 64 bits, over a tree of named structs, maps and unordered lists; zero values
//! are left out. A field that is absent is `None` here; one that is present but empty hashes to something.

use std::collections::BTreeMap;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1 of the bytes.
pub(crate) fn bytes(input: &[u8]) -> u64 {
    input.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

pub(crate) fn text(value: &str) -> u64 {
    bytes(value.as_bytes())
}

pub(crate) fn int64(value: i64) -> u64 {
    bytes(&value.to_le_bytes())
}

pub(crate) fn int32(value: i32) -> u64 {
    bytes(&value.to_le_bytes())
}

pub(crate) fn boolean(value: bool) -> u64 {
    bytes(&[u8::from(value)])
}

/// An unordered list: two equal elements cancel each other out.
pub(crate) fn list<T>(elements: &[T], element: impl Fn(&T) -> u64) -> u64 {
    elements.iter().fold(0, |sum, e| sum ^ element(e))
}

/// A map of texts.
pub(crate) fn map(entries: &BTreeMap<String, String>) -> u64 {
    finish(entries.iter().fold(0, |sum, (k, v)| sum ^ ordered(text(k), text(v))))
}

/// A struct under construction; fields are added in declaration order, which matters.
pub(crate) struct Struct(u64);

impl Struct {
    pub(crate) fn new(name: &str) -> Self {
        Self(text(name))
    }

    /// Adds a field unless it is absent.
    pub(crate) fn field(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => Self(finish(self.0 ^ ordered(text(name), value))),
            None => self,
        }
    }

    /// Adds a text field unless it is empty.
    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        self.field(name, (!value.is_empty()).then(|| text(value)))
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

/// A Go duration: a struct with one field, the nanoseconds.
pub(crate) fn duration(struct_name: &str, value: std::time::Duration) -> u64 {
    let nanoseconds = i64::try_from(value.as_nanos()).unwrap_or(i64::MAX);
    // Zero nanoseconds are a zero value and left out.
    Struct::new(struct_name).field("Duration", (nanoseconds != 0).then(|| int64(nanoseconds))).value()
}

fn ordered(a: u64, b: u64) -> u64 {
    let mut input = [0; 16];
    input[..8].copy_from_slice(&a.to_le_bytes());
    input[8..].copy_from_slice(&b.to_le_bytes());
    bytes(&input)
}

fn finish(a: u64) -> u64 {
    bytes(&a.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_fnv_1_and_not_1a() {
        // Published test values of the FNV-1 64-bit function.
        assert_eq!(text(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(text("a"), 0xaf63_bd4c_8601_b7be);
        assert_eq!(text("foobar"), 0x340d_8765_a4dd_a9c2);
    }

    #[test]
    fn lists_ignore_order_and_cancel_pairs() {
        let hash = |values: &[&str]| list(values, |v| text(v));
        assert_eq!(hash(&["a", "b"]), hash(&["b", "a"]));
        assert_eq!(hash(&["a", "b", "b"]), hash(&["a"]));
        assert_eq!(hash(&[]), 0);
    }

    #[test]
    fn empty_map_is_not_nothing() {
        let empty = map(&BTreeMap::new());
        assert_ne!(empty, 0);
        assert_ne!(Struct::new("S").field("M", Some(empty)).value(), Struct::new("S").value());
    }
}
