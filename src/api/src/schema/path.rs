//! Place of a check in an object: written out only when there is a fault at the place.

/// A place in an object, from the inside out.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(super) fn is_root(&self) -> bool {
        matches!(self, Self::Root)
    }

    /// Returns the path as kube-apiserver writes it: keys with dots or slashes in brackets.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(Self::Root, field) => (*field).to_owned(),
            Self::Field(above, field) if field.contains(['.', '/']) => format!("{}[{field}]", above.text()),
            Self::Field(above, field) => format!("{}.{field}", above.text()),
            Self::Item(above, index) => format!("{}[{index}]", above.text()),
        }
    }

    /// Writes the path with dots alone, as unknown fields are named.
    pub(super) fn dotted(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(Self::Root, field) => (*field).to_owned(),
            Self::Field(above, field) => format!("{}.{field}", above.dotted()),
            Self::Item(above, index) => format!("{}[{index}]", above.dotted()),
        }
    }
}
