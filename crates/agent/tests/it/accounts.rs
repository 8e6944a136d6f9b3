//! The accounts that run the jobs of a server on another machine.

use gpool_agent::UserRule;
use gpool_model::job::Owner;

/// A user of the server. Every machine has the account `root` with the ID 0.
fn user(name: &str, uid: u32) -> Owner {
    Owner { uid, gid: 77, user: name.into() }
}

fn map(user: &str, account: &str) -> UserRule {
    UserRule::Map([(user.to_owned(), account.to_owned())].into())
}

#[test]
fn a_user_is_the_account_that_the_rule_names() {
    let root = Owner { uid: 0, gid: 0, user: "root".into() };
    for (rule, owner) in [
        (UserRule::Same, user("root", 0)),
        (UserRule::Name, user("root", 5000)),
        (UserRule::Id, user("ana", 0)),
        (map("ana", "root"), user("ana", 5000)),
        (map("ana", "nobody-here"), user("root", 0)),
    ] {
        assert_eq!(rule.resolve(&owner), Ok(root.clone()), "{rule:?} {owner:?}");
    }
    // IDs without a name are their own users.
    let unnamed = user("1234567", 1_234_567);
    assert_eq!(UserRule::Same.resolve(&unnamed), Ok(unnamed.clone()));
    assert_eq!(UserRule::Id.resolve(&unnamed), Ok(unnamed));
}

#[test]
fn another_users_account_is_refused_with_the_way_out() {
    for (rule, owner, says) in [
        (UserRule::Same, user("root", 5000), "has ID 5000 on the server and 0 on this machine"),
        (UserRule::Same, user("root", 5000), "users = \"name\""),
        (UserRule::Same, user("ana-nobody", 5000), "create it with ID 5000, or set users"),
        (UserRule::Name, user("ana-nobody", 0), "no account ana-nobody"),
        (map("ana", "no-such-account"), user("ana", 0), "no account no-such-account, for user ana"),
        (map("ana", "root"), user("root", 5000), "has ID 5000"),
        // A name that is a number is no ID of another user.
        (UserRule::Same, user("0", 5000), "no account 0"),
    ] {
        let why = rule.resolve(&owner).expect_err(says);
        assert!(why.contains(says), "{why}");
    }
}
