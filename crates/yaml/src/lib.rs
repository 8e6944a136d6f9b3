//! YAML as a tree of values with line numbers. Plain scalars have the types that YAML 1.1 gives
//! them, as in PyYAML and Kubernetes: `1e-3` is a text and `on` is true.
//! Source: <https://yaml.org/type/>

#![forbid(unsafe_code)]

mod error;
pub mod scalar;
mod tree;
mod value;

pub use error::YamlError;
pub use tree::{documents, parse};
pub use value::{Key, Node, Value};
