//! Tokens and the system users of network users, as stored and as the API shows them.

use gpool_client::Error;
use gpool_listen::testing::{Access, CreateError, FILE, Provided, Subject, TOKENS_MAX, TokenRow};
use gpool_model::{Millis, Timestamp};
use gpool_wire::{MapUser, Scope, TokenCreate};

use crate::rig::{ANA, BO, OWNER, Rig};

const NOW: Timestamp = Timestamp::new(1_000_000);

fn row(user: &str, expires_at: Option<Timestamp>) -> TokenRow {
    let subject = Subject::System { uid: ANA, user: user.into() };
    TokenRow::new(("laptop".to_owned(), subject, Scope::User), ("ana".into(), NOW), expires_at)
}

fn asked(scope: Scope) -> TokenCreate {
    TokenCreate { name: "laptop".to_owned(), scope, expires: None, user: None }
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().problem().code
}

#[test]
fn a_token_outlives_the_server_and_only_its_hash_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    let (row, secret) = access.create(row("ana", None), NOW).unwrap();
    assert!(secret.starts_with("gp_") && secret.len() > 40, "{secret}");
    let again = Access::open(folder.path()).unwrap();
    assert_eq!(again.find(&secret, NOW), Some(row.clone()));
    assert_eq!(again.find(&secret[..secret.len() - 1], NOW), None);
    let path = folder.path().join(FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(&row.id) && !text.contains(&secret) && !text.contains(&secret[3..]));
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    again.revoke(&row.id).unwrap();
    assert_eq!(again.find(&secret, NOW), None);
    assert_eq!(Access::open(folder.path()).unwrap().find(&secret, NOW), None);
}

#[test]
fn an_expired_token_is_refused_and_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    let end = NOW.after(Millis::from_secs(60));
    let (first, secret) = access.create(row("ana", Some(end)), NOW).unwrap();
    for _ in 1..TOKENS_MAX {
        access.create(row("ana", None), NOW).unwrap();
    }
    assert!(matches!(access.create(row("ana", None), NOW), Err(CreateError::TooMany)));
    assert!(access.find(&secret, NOW).is_some() && access.find(&secret, end).is_none());
    assert!(access.by_id(&first.id, end).is_none());
    access.create(row("ana", None), end).unwrap();
}

#[test]
fn a_sign_in_at_the_provider_takes_lost_groups_and_rights_from_earlier_ones() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::open(folder.path()).unwrap();
    let signs_in = |user: &str, scope, groups: &[&str]| {
        let subject = Subject::Network(user.into());
        let row = TokenRow::new(("browser".to_owned(), subject, scope), (user.into(), NOW), None);
        let groups = groups.iter().map(ToString::to_string).collect();
        let is_admin = scope == Scope::Admin;
        let row = row.provided(Provided { groups, is_admin, ..Provided::default() });
        access.create(row, NOW).unwrap().1
    };
    let first = signs_in("ana@lab", Scope::Admin, &["admins", "leads"]);
    let other = signs_in("bo@lab", Scope::Admin, &["admins"]);
    let what = ("laptop".to_owned(), Subject::Network("ana@lab".into()), Scope::User);
    let (_, own) = access.create(TokenRow::new(what, ("root".into(), NOW), None), NOW).unwrap();
    let last = signs_in("ana@lab", Scope::ProjectAdmin, &["leads"]);
    let rights = |secret: &str| {
        let row = access.find(secret, NOW).unwrap();
        (row.scope, row.provided.map(|it| (it.is_admin, it.groups.join(" "))))
    };
    let now = (Scope::ProjectAdmin, Some((false, "leads".to_owned())));
    assert_eq!((rights(&first), rights(&last)), (now.clone(), now));
    assert_eq!(rights(&other), (Scope::Admin, Some((true, "admins".to_owned()))));
    assert_eq!(rights(&own), (Scope::User, None));
    // More rights need a sign-in of their own.
    signs_in("ana@lab", Scope::Admin, &["admins"]);
    assert_eq!(rights(&first).0, Scope::ProjectAdmin);
}

#[test]
fn a_damaged_file_is_not_taken_for_one_without_tokens() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), "{\"tokens\": [").unwrap();
    let refused = Access::open(folder.path()).err().unwrap();
    assert!(format!("{refused:#}").contains("damaged"), "{refused:#}");
}

#[test]
fn users_manage_their_own_tokens_and_admins_all() {
    let mut rig = Rig::new();
    let (ana, bo, olga) = (rig.client(ANA), rig.client(BO), rig.client(OWNER));
    let token = ana.create_token(&asked(Scope::User)).unwrap();
    assert_eq!((token.token.user.as_str(), token.token.created_by.as_str()), ("ana", "ana"));
    let only = std::slice::from_ref(&token.token);
    assert_eq!(ana.tokens().unwrap().items, only);
    assert_eq!(bo.tokens().unwrap().items, []);
    assert_eq!(olga.tokens().unwrap().items, only);
    assert_eq!(code(bo.revoke_token(&token.token.id)), "GP0501");
    assert_eq!(ana.revoke_token(&token.token.id).unwrap(), token.token);
    assert_eq!(code(ana.revoke_token(&token.token.id)), "GP0607");
    assert_eq!(code(ana.create_token(&asked(Scope::Admin))), "GP0501");
    assert_eq!(olga.create_token(&asked(Scope::Admin)).unwrap().token.user, "olga");
    let forever = |scope| TokenCreate { expires: Some("never".to_owned()), ..asked(scope) };
    assert_eq!(code(ana.create_token(&forever(Scope::Viewer))), "GP0501");
    assert_eq!(ana.create_token(&forever(Scope::Metrics)).unwrap().token.expires_at, None);
    let long = TokenCreate { expires: Some("400d".to_owned()), ..asked(Scope::Viewer) };
    assert_eq!(code(ana.create_token(&long)), "GP0101");
}

#[test]
fn only_admins_create_tokens_for_others_and_map_network_users() {
    let mut rig = Rig::new();
    let (ana, olga) = (rig.client(ANA), rig.client(OWNER));
    let named = |name: &str| TokenCreate { user: Some(name.to_owned()), ..asked(Scope::User) };
    assert_eq!(code(ana.create_token(&named("1002"))), "GP0501");
    assert_eq!(code(ana.create_token(&named("ana@lab.org"))), "GP0501");
    assert_eq!(code(olga.create_token(&named("nobody-of-that-name"))), "GP0101");
    assert_eq!(olga.create_token(&named("ana@lab.org")).unwrap().token.user, "ana@lab.org");
    let map = MapUser { user: Some("1001".to_owned()) };
    assert_eq!(code(ana.map_user("ana@lab.org", &map)), "GP0501");
    assert_eq!(olga.map_user("ana@lab.org", &map).unwrap().user.as_deref(), Some("1001"));
    assert_eq!(olga.network_users().unwrap().items.len(), 1);
    olga.map_user("ana@lab.org", &MapUser { user: None }).unwrap();
    assert_eq!(olga.network_users().unwrap().items.len(), 0);
}
