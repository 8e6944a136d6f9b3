//! Rules about the shape of the sources: short functions, and no circular imports. A file and the
//! files below it, `a.rs` and `a/b.rs`, may import each other, since they are one module. Other
//! files may not form a circle, since none of them could be understood or changed without the
//! others.

mod code;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{step, tidy};
use code::Token;

/// Longer functions do more than one thing.
const FUNCTION_LINES_MAX: usize = 70;

/// A module by its path in its crate; empty for the root of the crate.
type Module = Vec<String>;

/// All violations, one a line: functions with file and line, circles with their files.
///
/// # Errors
/// If the repository cannot be read.
pub fn violations() -> anyhow::Result<Vec<String>> {
    let root = step::root();
    let mut by_crate = BTreeMap::<PathBuf, BTreeMap<PathBuf, String>>::new();
    for path in tidy::files(&root)? {
        let shown = path.strip_prefix(&root).unwrap_or(&path);
        if let Some(folder) = source_folder(shown) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let inside = shown.strip_prefix(&folder).unwrap_or(shown).to_owned();
            by_crate.entry(folder).or_default().insert(inside, code::only(&text));
        }
    }
    let mut found = Vec::new();
    for (folder, files) in by_crate {
        for (path, code) in &files {
            let shown = folder.join(path);
            found.extend(long_functions(code).map(|it| format!("{}:{it}", shown.display())));
        }
        found.extend(circles(&files).into_iter().map(|circle| {
            let names: Vec<String> = circle.iter().map(|it| it.display().to_string()).collect();
            format!("{}: a circle of imports: {}", folder.display(), names.join(", "))
        }));
    }
    Ok(found)
}

/// The source folder of a Rust file, if its crate follows these rules.
fn source_folder(path: &Path) -> Option<PathBuf> {
    if path.extension().is_none_or(|it| it != "rs") {
        return None;
    }
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts[..] {
        ["xtask", "src", ..] => Some(PathBuf::from("xtask/src")),
        [crates, name, "src", ..] if step::CRATES.contains(&crates) => {
            Some(Path::new(crates).join(name).join("src"))
        }
        _ => None,
    }
}

/// The functions that are too long: line, name and length of each.
fn long_functions(code: &str) -> impl Iterator<Item = String> {
    let tokens = code::tokens(code);
    let line = |at: usize| code[..at].matches('\n').count() + 1;
    let mut found = Vec::new();
    for (ix, (begin, token)) in tokens.iter().enumerate() {
        let Some((_, Token::Name(name))) = tokens.get(ix + 1) else { continue };
        if *token != Token::Name("fn") {
            continue;
        }
        // Brackets belong to the signature: `[u8; 4]`.
        let mut depth = 0_usize;
        let body = tokens[ix..].iter().find(|(_, token)| {
            match token {
                Token::Mark('(' | '[') => depth += 1,
                Token::Mark(')' | ']') => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && matches!(token, Token::Mark('{' | ';'))
        });
        let Some((open, Token::Mark('{'))) = body else { continue };
        let first = line(*begin);
        let n_lines = line(code::end_of_block(code, *open)) - first + 1;
        if n_lines > FUNCTION_LINES_MAX {
            found.push(format!(
                "{first}: function {name} has {n_lines} lines, more than {FUNCTION_LINES_MAX}"
            ));
        }
    }
    found.into_iter()
}

/// Circles of imports between files of one crate, as paths in the source folder. Imports between a
/// file and the files below it do not count: these are one module. So siblings below one file must
/// not import each other in a circle, although each of them may use that file.
fn circles(files: &BTreeMap<PathBuf, String>) -> Vec<Vec<PathBuf>> {
    let mut modules = BTreeMap::<Module, Vec<&PathBuf>>::new();
    for path in files.keys() {
        modules.entry(module_of(path)).or_default().push(path);
    }
    let roots = modules.get(&Module::new()).into_iter().flatten();
    let exported: BTreeMap<String, Module> =
        roots.flat_map(|path| exports(&files[*path])).collect();
    let mut imports = BTreeMap::<&Module, BTreeSet<&Module>>::new();
    for (module, paths) in &modules {
        // The root only re-exports the names of other modules; it does not need them itself.
        let with_public = !module.is_empty();
        let named = paths.iter().flat_map(|path| paths_in(&files[*path], with_public));
        let found = named.filter_map(|path| target(&modules, &exported, module, &path));
        let found = found.filter_map(|it| modules.get_key_value(&it)).map(|(key, _)| key);
        let is_related = |it: &Module| it.starts_with(module) || module.starts_with(it);
        let is_root = |it: &Module| it.is_empty() != module.is_empty();
        let found = found.filter(|it| *it != module && (is_root(it) || !is_related(it)));
        imports.insert(module, found.collect());
    }
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        modules.keys().map(|module| (module, reachable(&imports, module))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for module in modules.keys() {
        let is_mutual = |other: &&Module| reached[*other].contains(module);
        let circle: Vec<&Module> = reached[module].iter().copied().filter(is_mutual).collect();
        if circle.len() < 2 || !circle.iter().all(|it| seen.insert(*it)) {
            continue;
        }
        found.push(circle.iter().flat_map(|it| modules[*it].iter().copied().cloned()).collect());
    }
    found
}

fn module_of(path: &Path) -> Module {
    let parts = path.with_extension("");
    let mut module: Module = parts.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|name| ["lib", "main", "mod"].contains(&name.as_str())) {
        module.pop();
    }
    module
}

/// The modules that can be reached by one or more imports.
fn reachable<'a>(
    imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &Module,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = imports[from].iter().copied().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(&imports[module]);
        }
    }
    reached
}

/// The module that an imported path leads to: the path itself, or the module that defines its name.
fn target(
    modules: &BTreeMap<Module, Vec<&PathBuf>>,
    exported: &BTreeMap<String, Module>,
    from: &Module,
    path: &[String],
) -> Option<Module> {
    let mut base = from.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (base, rest) = (Module::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|it| it == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        // A module below the importing one; all other names come from other crates.
        first => {
            base.push(first.to_owned());
            modules.get(&base)?;
            rest = &path[1..];
        }
    }
    base.extend(rest.iter().cloned());
    // The root re-exports names of other modules.
    if let Some(first) = base.first()
        && !modules.contains_key(&base[..1])
        && let Some(of) = exported.get(first)
    {
        base.splice(..1, of.iter().cloned());
    }
    while !modules.contains_key(&base) {
        base.pop();
    }
    Some(base)
}

/// The names that a root re-exports from its modules, with their paths.
fn exports(code: &str) -> Vec<(String, Module)> {
    let mut found = Vec::new();
    for (is_public, tree) in statements(code) {
        for mut path in tree.into_iter().filter(|_| is_public) {
            if ["crate", "self"].contains(&path[0].as_str()) {
                path.remove(0);
            }
            if let Some(name) = path.last() {
                found.push((name.clone(), path));
            }
        }
    }
    found
}

/// All paths that a file uses: in its imports, with or without `pub use`, and spelled out in code.
/// Imports of tests do not count.
fn paths_in(code: &str, with_public: bool) -> Vec<Module> {
    let code = without_tests(code);
    let uses = statements(&code).into_iter().filter(|(is_public, _)| with_public || !is_public);
    let mut found: Vec<Module> = uses.flat_map(|(_, paths)| paths).collect();
    let tokens = code::tokens(&code);
    let is_path = |ix: Option<usize>| {
        ix.and_then(|ix| tokens.get(ix)).is_some_and(|(_, token)| *token == Token::Path)
    };
    let mut is_use = false;
    for (ix, (_, token)) in tokens.iter().enumerate() {
        match token {
            Token::Name("use") => {
                is_use = matches!(tokens.get(ix + 1), Some((_, Token::Name(_))));
            }
            Token::Mark(';') => is_use = false,
            Token::Name(first)
                if !is_use && is_path(Some(ix + 1)) && !is_path(ix.checked_sub(1)) =>
            {
                let mut path = vec![(*first).to_owned()];
                let mut at = ix + 1;
                while let (true, Some((_, Token::Name(next)))) =
                    (is_path(Some(at)), tokens.get(at + 1))
                {
                    path.push((*next).to_owned());
                    at += 2;
                }
                found.push(path);
            }
            _ => {}
        }
    }
    found
}

/// Code without its test modules.
fn without_tests(code: &str) -> String {
    let mut code = code.to_owned();
    while let Some(at) = code.find("#[cfg(test)]\nmod ") {
        let rest = &code[at..];
        let end = match (rest.find('{'), rest.find(';')) {
            (Some(open), end) if end.is_none_or(|end| open < end) => {
                code::end_of_block(&code, at + open)
            }
            (_, Some(end)) => at + end + 1,
            (_, None) => code.len(),
        };
        code.replace_range(at..end, "");
    }
    code
}

/// The `use` statements of a file: whether each is public, and its paths.
fn statements(code: &str) -> Vec<(bool, Vec<Module>)> {
    let tokens: Vec<Token<'_>> = code::tokens(code).into_iter().map(|(_, token)| token).collect();
    let mut found = Vec::new();
    for (ix, _) in tokens.iter().enumerate().filter(|(_, it)| **it == Token::Name("use")) {
        let before = &tokens[..ix];
        let is_public = matches!(before, [.., Token::Name("pub") | Token::Mark(')')]);
        let mut paths = Vec::new();
        tree(&mut tokens[ix + 1..].iter().copied(), &Module::new(), &mut paths);
        paths.retain(|path: &Module| !path.is_empty());
        found.push((is_public, paths));
    }
    found
}

/// Reads a tree of imports up to its closing brace or the end of the statement.
fn tree<'a>(tokens: &mut impl Iterator<Item = Token<'a>>, above: &Module, found: &mut Vec<Module>) {
    let mut path = above.clone();
    // Whether the next name is only an alias, whether the path means the module above, and whether
    // the path was already added.
    let (mut is_alias, mut is_self, mut is_done) = (false, false, false);
    while let Some(token) = tokens.next() {
        match token {
            Token::Name("as") => is_alias = true,
            Token::Name("self") if !path.is_empty() => is_self = true,
            Token::Name(_) if is_alias => is_alias = false,
            Token::Name(name) => path.push(name.to_owned()),
            Token::Path => {}
            Token::Mark('{') => {
                tree(tokens, &path, found);
                is_done = true;
            }
            Token::Mark(mark) => {
                if !is_done && (path != *above || is_self || mark == '*') {
                    found.push(path.clone());
                }
                match mark {
                    '*' => is_done = true,
                    ',' => {
                        path.clone_from(above);
                        (is_self, is_done) = (false, false);
                    }
                    _ => return,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files = files.iter().map(|(path, text)| (PathBuf::from(path), code::only(text)));
        let shown = |circle: &Vec<PathBuf>| {
            circle.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        circles(&files.collect()).iter().map(shown).collect()
    }

    #[test]
    fn the_repository_keeps_its_shape() {
        assert_eq!(violations().expect("the repository can be read"), Vec::<String>::new());
    }

    #[test]
    fn source_folders_are_recognised() {
        assert_eq!(
            source_folder(Path::new("crates/store/src/open.rs")),
            Some(PathBuf::from("crates/store/src"))
        );
        assert_eq!(source_folder(Path::new("crates/store/tests/it/main.rs")), None);
    }

    #[test]
    fn a_long_function_is_named_with_its_line() {
        let body = "    let _ = \"}\";\n".repeat(FUNCTION_LINES_MAX - 2);
        let most = format!("//! Head.\n\n    pub fn f(of: [u8; 4]) {{\n{body}    }}\n");
        assert_eq!(long_functions(&code::only(&most)).count(), 0);
        let longer = most.replace(") {", ")\n{");
        let found: Vec<String> = long_functions(&code::only(&longer)).collect();
        assert_eq!(found, ["3: function f has 71 lines, more than 70"]);
        assert_eq!(long_functions("trait T { fn f(); }\n").count(), 0);
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        for (one, other) in [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use crate::{b::{self, B}, c};", "use super::a::A as It;"),
            ("fn f() -> crate::b::B {}", "use crate::{c, a};"),
            ("use super::b::*;", "pub(crate) use crate::a::A;"),
            ("use crate::B;", "use crate::a::A;"),
        ] {
            let lib = "mod a;\nmod b;\npub use b::{B, C};\n";
            let files = [("lib.rs", lib), ("a.rs", one), ("b.rs", other), ("c.rs", "")];
            assert_eq!(found(&files), [["a.rs", "b.rs"]], "{one} {other}");
        }
    }

    #[test]
    fn a_circle_may_be_long() {
        let files = [
            ("a.rs", "use crate::b::f;"),
            ("b.rs", "use crate::c::d::f;"),
            ("c/d.rs", "use crate::a::f;"),
            ("c/mod.rs", "mod d;"),
            ("e.rs", "use crate::a;"),
        ];
        assert_eq!(found(&files), [["a.rs", "b.rs", "c/d.rs"]]);
    }

    #[test]
    fn a_file_and_the_files_below_it_are_one_module() {
        let above = ("a.rs", "mod b;\nmod c;\nuse b::B;\nuse c::C;");
        let below = ("a/b.rs", "use super::A;\nuse crate::a::c::C;");
        let apart = ("a/c.rs", "use crate::a::A;");
        assert!(found(&[above, below, apart]).is_empty());
        let back = ("a/c.rs", "use super::A;\nuse super::b::B;");
        assert_eq!(found(&[above, below, back]), [["a/b.rs", "a/c.rs"]]);
    }

    #[test]
    fn the_root_may_be_part_of_a_circle() {
        let files = [("lib.rs", "mod a;\nuse a::A;\nstruct R;"), ("a.rs", "use crate::R;")];
        assert_eq!(found(&files), [["lib.rs", "a.rs"]]);
    }

    #[test]
    fn tests_comments_and_other_crates_are_no_imports() {
        let files = [
            ("a.rs", "// use crate::b::B;\nuse b::B;\nuse std::b::B;"),
            ("b.rs", "use crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}"),
            ("c.rs", "use crate::b::B;\n#[cfg(test)]\nmod tests;\nfn f() { g(\"crate::a::A\") }"),
        ];
        assert!(found(&files).is_empty());
    }
}
