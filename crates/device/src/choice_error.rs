//! Errors in the value of `--devices`.

use thiserror::Error;

/// An error in the value of `--devices`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChoiceError {
    /// The text is none of the keywords, and no path.
    #[error(
        "{value:?} is not a choice of devices; write nvml, none, sim:8xH100-80G, \
         2x(sim:8xH100-80G) or the path of a .toml file"
    )]
    Unknown {
        /// The text as written.
        value: String,
    },
    /// A group of simulated devices can't be read.
    #[error("{value:?}: {why}, at {word:?}; write, for example, sim:4xA100-40G,4xH100-80G")]
    Words {
        /// The text as written.
        value: String,
        /// The part that is wrong.
        word: String,
        why: String,
    },
    /// The file can't be read or is invalid.
    #[error("{why}")]
    File {
        /// The fault and its position.
        why: String,
    },
}
