//! Where the files of an input are: paths, web addresses, and prefixes that are mapped to folders.

/// A place of an input's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A path of the node, which may end in a pattern with `*`.
    Path(String),
    /// An address that a download fetches.
    Web(String),
}

/// Prefixes of addresses, each with the folder that has their files.
pub type Prefixes = Vec<(String, String)>;

/// Reads a prefix map: `s3://bucket=/data`.
///
/// # Errors
/// It has no `=`, or the folder is not absolute.
pub fn prefix(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((prefix, folder)) if !prefix.is_empty() && folder.starts_with('/') => {
            Ok((prefix.to_owned(), folder.to_owned()))
        }
        _ => Err(format!("{text:?} is not PREFIX=/FOLDER")),
    }
}

/// Finds the place of an address. The longest matching prefix counts.
///
/// # Errors
/// gpool can't reach it; the text says why.
pub fn find(address: &str, prefixes: &Prefixes) -> Result<Source, String> {
    let matching = prefixes.iter().filter(|(prefix, _)| {
        address
            .strip_prefix(prefix.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/'))
    });
    if let Some((prefix, folder)) = matching.max_by_key(|(prefix, _)| prefix.len()) {
        let rest = address[prefix.len()..].trim_start_matches('/');
        return Ok(Source::Path(format!("{}/{rest}", folder.trim_end_matches('/'))));
    }
    if address.starts_with('/') {
        return Ok(Source::Path(address.to_owned()));
    }
    match address.split_once("://") {
        Some(("http" | "https", _)) => Ok(Source::Web(address.to_owned())),
        Some(("file", path)) if path.starts_with('/') => Ok(Source::Path(path.to_owned())),
        Some(("datum", _)) => {
            Err("datum:// names data in Valohai's service, which gpool does not \
                                   reach; give a path or an http address"
                .to_owned())
        }
        Some((scheme, rest)) => {
            let bucket = rest.split('/').next().unwrap_or_default();
            Err(format!(
                "gpool does not reach {scheme}://; map it to a folder: --prefix \
                 {scheme}://{bucket}=/FOLDER"
            ))
        }
        None => Err("it is neither an absolute path nor an address".to_owned()),
    }
}
