//! The table of verbs. Each verb is a file here, with its arguments and a function that runs it.

use gpool::verbs::VERBS;

#[test]
fn each_name_means_one_verb() {
    let names = VERBS.iter().flat_map(|verb| {
        std::iter::once(&verb.name).chain(verb.aliases).chain(verb.hidden_aliases)
    });
    let mut names: Vec<&str> = names.copied().collect();
    let n_names = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n_names);
}
