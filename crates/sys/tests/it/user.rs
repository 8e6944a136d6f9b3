//! Accounts and groups from the system's name service.

use gpool_sys::user::{account, account_named, groups};

#[test]
fn root_is_found_by_number_and_by_name_and_unknown_names_are_not() {
    let root = account(0).expect("every system has it");
    assert!(groups(&root).contains(&b"root".to_vec()));
    assert_eq!(account_named("root"), Some(root));
    assert_eq!(account_named("no-such-user-here"), None);
    assert_eq!(account_named(""), None);
    assert_eq!(account_named("a\0b"), None);
}
