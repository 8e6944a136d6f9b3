//! What a file can refer to.

/// The surroundings of a file, which its values can refer to.
pub struct Surroundings<'a> {
    /// The folder of the file, an absolute path.
    pub folder: &'a str,
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}
