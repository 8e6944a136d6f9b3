//! The table of routes over the network: each route with no token, and with a token of each scope.

use gpool_api::routes::{Least, ROUTES, Role};
use gpool_wire::Scope;

use crate::network::Network;
use crate::rig::OWNER;

/// Whether an answer comes from the check of the token, before the handler.
fn is_refused(status: u16, body: &str) -> bool {
    status == 401 || (status == 403 && (body.contains("GP0532") || body.contains("GP0533")))
}

#[test]
fn each_route_follows_the_table_for_each_scope() {
    let mut net = Network::new();
    let tokens = Scope::ALL.map(|scope| (Some(scope), Some(net.token(OWNER, scope, None).1)));
    let mut n_cells = 0;
    for row in ROUTES.iter() {
        // Nothing of these names exists, so no answer changes the cluster.
        let path = row.path.replace("{id}", "999").replace("{name}", "nothing");
        let path = path.replace("{token}", "nothing");
        // These work without a name.
        let is_done = path.ends_with("/shutdown") || path.ends_with("/events");
        for (scope, token) in [(None, None)].iter().chain(&tokens) {
            let allowed = match (row.least, scope) {
                (Least::Anyone, _) => true,
                (Least::Local, _) | (_, None) => false,
                (Least::Scope(least), Some(scope)) => *scope >= least,
            };
            if is_done && allowed {
                continue;
            }
            let bearer = token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n"));
            let bearer = bearer.unwrap_or_default();
            let (status, _, body) = net.ask(&format!("{} {path}", row.method), &bearer, "");
            assert_ne!(is_refused(status, &body), allowed, "{row:?} {scope:?}: {status} {body}");
            assert_ne!(status, 0, "{row:?} {scope:?} is not answered");
            n_cells += 1;
        }
    }
    assert!(n_cells > ROUTES.len() * 5, "{n_cells}");
}

#[test]
fn scopes_in_the_table_fit_the_roles() {
    for row in ROUTES.iter() {
        let Least::Scope(least) = row.least else { continue };
        match row.role {
            Role::Admin => assert_eq!(least, Scope::Admin, "{row:?}"),
            Role::AdminOfProject if row.method == "GET" => {
                assert_eq!(least, Scope::Viewer, "{row:?}");
            }
            Role::ProjectAdmin | Role::AdminOfProject => {
                assert_eq!(least, Scope::ProjectAdmin, "{row:?}");
            }
            Role::Owner | Role::OwnerAlone | Role::Everybody if row.method != "GET" => {
                assert_eq!(least, Scope::User, "{row:?}");
            }
            Role::Owner | Role::OwnerAlone | Role::Everybody => {
                assert!(least <= Scope::User, "{row:?}");
            }
        }
    }
}
