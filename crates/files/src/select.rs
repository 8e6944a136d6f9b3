//! The paths of a folder that travel: all but those of its ignore files, or those that match
//! patterns.

use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::path::{check_path, prefix};

/// The name of an ignore file, with the syntax of `.gitignore`. It applies to its folder.
pub const IGNORE_FILE: &str = ".gpoolignore";
/// The folder of git's own data never travels.
const GIT: &str = ".git";
/// The most bytes of an ignore file.
const IGNORE_MAX: u64 = 1 << 20;

/// Patterns of `--download`: files, folders or globs, relative to the working folder.
#[derive(Debug, Clone)]
pub struct Patterns(Gitignore);

impl Patterns {
    /// Reads patterns. A folder means all its content.
    ///
    /// # Errors
    /// A pattern leaves the folder, or is no glob.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let mut builder = GitignoreBuilder::new("");
        for pattern in patterns {
            let path = pattern.strip_prefix("./").unwrap_or(pattern);
            let path = path.strip_suffix('/').unwrap_or(path);
            // `.` is the whole folder.
            let line = match path {
                "." => "/**".to_owned(),
                path => {
                    check_path(path)?;
                    format!("/{path}")
                }
            };
            if line.contains(['\n', '\r']) {
                return Err(format!("the pattern {:?} has more than one line", prefix(pattern)));
            }
            builder.add_line(None, &line).map_err(|error| {
                format!("the pattern {:?} can't be used: {}", prefix(pattern), plain(&error))
            })?;
        }
        builder.build().map(Self).map_err(|error| plain(&error))
    }

    fn has(&self, path: &str, is_folder: bool) -> bool {
        self.0.matched_path_or_any_parents(path, is_folder).is_ignore()
    }
}

/// The start of a message, which may repeat a pattern.
fn plain(error: &ignore::Error) -> String {
    error.to_string().chars().filter(|c| !c.is_control()).take(120).collect()
}

/// The rules for the paths of a walk.
pub(crate) enum Selection<'p> {
    /// All but those of the ignore files that were read so far, the outer ones first.
    AllBut(Vec<Gitignore>),
    /// Those that match.
    Matching(&'p Patterns),
}

/// The choice for one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathChoice {
    /// It travels.
    Take,
    /// It does not, but its content may.
    Search,
    /// It does not, and nothing in it.
    Skip,
}

impl Selection<'_> {
    pub fn choose(&self, path: &str, is_folder: bool) -> PathChoice {
        match self {
            Self::Matching(patterns) => match (patterns.has(path, is_folder), is_folder) {
                (true, _) => PathChoice::Take,
                (false, true) => PathChoice::Search,
                (false, false) => PathChoice::Skip,
            },
            Self::AllBut(files) => {
                if is_folder && path.rsplit('/').next() == Some(GIT) {
                    return PathChoice::Skip;
                }
                // The innermost file decides.
                for file in files.iter().rev() {
                    match file.matched(path, is_folder) {
                        Match::None => {}
                        Match::Ignore(_) => return PathChoice::Skip,
                        Match::Whitelist(_) => return PathChoice::Take,
                    }
                }
                PathChoice::Take
            }
        }
    }

    /// Reads the ignore file of a folder, before its content is walked; returns whether there is
    /// one, for [`leave`](Self::leave).
    ///
    /// # Errors
    /// The file can't be read, or a line of it can't be understood.
    pub fn enter(&mut self, root: &Path, folder: &str) -> Result<bool, String> {
        let Self::AllBut(files) = self else { return Ok(false) };
        let path = root.join(folder).join(IGNORE_FILE);
        let about = match path.symlink_metadata() {
            Ok(about) if about.is_file() => about,
            _ => return Ok(false),
        };
        let failed = |why: &dyn std::fmt::Display| format!("can't use {}: {why}", path.display());
        if about.len() > IGNORE_MAX {
            return Err(failed(&"it is larger than 1 MiB"));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
        let mut builder = GitignoreBuilder::new(PathBuf::from(folder));
        for line in text.lines() {
            builder.add_line(None, line).map_err(|error| failed(&error))?;
        }
        files.push(builder.build().map_err(|error| failed(&error))?);
        Ok(true)
    }

    pub fn leave(&mut self) {
        if let Self::AllBut(files) = self {
            files.pop();
        }
    }
}
