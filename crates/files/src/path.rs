//! Paths of a manifest: relative, with plain components.

/// The longest path, and the longest component of it, in bytes, as Linux allows.
const PATH_MAX: usize = 4000;
const NAME_MAX: usize = 255;

/// Checks that a path stays in its folder: components with a name, joined by single slashes.
///
/// # Errors
/// The sentence says why not.
pub fn check_path(path: &str) -> Result<(), String> {
    if path.len() > PATH_MAX {
        return Err(format!("a path has {} bytes; at most {PATH_MAX} are allowed", path.len()));
    }
    for name in path.split('/') {
        let why = match name {
            "" if path.starts_with('/') => "it is absolute",
            "" => "a name in it is empty",
            "." | ".." => "it has . or .. in it",
            name if name.len() > NAME_MAX => "a name in it has more than 255 bytes",
            name if name.contains('\0') => "it has a zero byte",
            _ => continue,
        };
        return Err(format!("the path {:?} is not allowed: {why}", prefix(path)));
    }
    Ok(())
}

/// The start of a path, for messages.
pub fn prefix(path: &str) -> &str {
    const CHARS_MAX: usize = 60;
    path.char_indices().nth(CHARS_MAX).map_or(path, |(end, _)| &path[..end])
}

/// Whether the target of a symbolic link at `path` stays in the folder. `..` may only come first:
/// after a name, which may be a link itself, it could lead elsewhere.
pub fn stays_inside(path: &str, target: &str) -> bool {
    if target.is_empty() || target.len() > PATH_MAX || target.contains('\0') {
        return false;
    }
    let depth = path.split('/').count() - 1;
    let (mut n_up, mut has_name) = (0, false);
    for part in target.split('/') {
        match part {
            // An absolute target begins with an empty part.
            "" if !has_name && n_up == 0 => return false,
            "" | "." => {}
            ".." if has_name => return false,
            ".." => n_up += 1,
            _ => has_name = true,
        }
    }
    n_up <= depth
}
