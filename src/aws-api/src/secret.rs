//! Text that must not reach a log, an event or a golden file: user data may carry bootstrap tokens.

use std::fmt;

/// Text that `Debug` and `Display` never show. Comparable, so that tests and caches can tell two apart.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Every call of this is a place to review.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Length in bytes; EC2 limits decoded user data to 16,384.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for the empty text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} secret bytes>", self.0.len())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_display_shows_the_text() {
        let secret = Secret::from("token=abc");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)).matches("abc").count(), 0);
        assert_eq!(secret.expose(), "token=abc");
        assert_eq!(secret.len(), 9);
    }
}
