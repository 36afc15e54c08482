//! Truth of a statement, as far as it is evaluated here.

/// The order is that of evidence: a conjunction is the least of its parts, a disjunction the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Truth {
    No,
    /// It is not evaluated here, or the request does not say.
    Unknown,
    Yes,
}

impl Truth {
    /// Returns whether every part holds; true of no parts.
    pub(crate) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().min().unwrap_or(Self::Yes)
    }

    /// Returns whether some part holds; false of no parts.
    pub(crate) fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().max().unwrap_or(Self::No)
    }
}

impl std::ops::Not for Truth {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
            Self::Yes => Self::No,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}
