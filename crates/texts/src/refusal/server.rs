//! Refusals because of the server's own state.

use gpool_model::Refusal;

use crate::problem::Problem;

pub(super) fn text(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: &str| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::KeyReused { key } => {
            problem(&format!("the idempotency key {key:?} belongs to another request"))
                .try_this("send a new key with each new request")
        }
        Refusal::StorageFull { why } => problem("the server can't store more; nothing was changed")
            .because(why.clone())
            .try_this("free space in the state folder (gpool status shows its path)"),
        Refusal::StateGone { why } => {
            problem("the server's state folder was removed or replaced; nothing was changed")
                .because(why.clone())
                .try_this("gpool doctor   (shows the folder)")
        }
        Refusal::Internal { why } => problem("the server failed").because(why.clone()),
        Refusal::ShuttingDown => problem("the server is stopping").try_this("gpool up"),
        _ => return None,
    })
}
