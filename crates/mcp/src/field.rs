//! The arguments that a tool has.

/// An argument of a tool.
pub struct Field {
    pub name: &'static str,
    pub kind: FieldKind,
    pub about: &'static str,
    pub is_required: bool,
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A text; a whole number counts as its digits.
    Text,
    Number,
    Flag,
    Texts,
    /// Texts by name.
    Map,
}
