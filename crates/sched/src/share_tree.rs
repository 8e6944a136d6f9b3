//! The tree of projects and, with shares between users, of their users.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gpool_model::{Project, ProjectName, Quotas};
use gpool_world::{ProjectIx, World};

use crate::fairshare::{Member, Tree};

/// A project or a user with a row of the tree.
pub(crate) struct Holder<'a> {
    /// The project; of a user, a project without guarantee and limit.
    pub project: Cow<'a, Project>,
    pub user: Option<(ProjectIx, u32)>,
}

/// The users with running or pending jobs of a project.
pub(crate) fn users(world: &World) -> impl Iterator<Item = Holder<'_>> {
    let held = world.project_rows().iter().enumerate();
    let held = held.flat_map(|(ix, it)| it.by_user.keys().map(move |uid| (ProjectIx(ix), *uid)));
    let wanted = world.shapes().filter_map(|(_, it)| Some((it.project_ix, it.shape.uid?)));
    let all: BTreeSet<(ProjectIx, u32)> = held.chain(wanted).collect();
    all.into_iter().map(|(ix, uid)| {
        let name = world.project_rows()[ix.0].name.clone();
        let project = Project { quotas: Quotas::default(), ..Project::open(name) };
        Holder { project: Cow::Owned(project), user: Some((ix, uid)) }
    })
}

/// Returns the tree of the projects, which come first and are sorted by name, and their users.
/// `None` if they are no tree, which no command allows.
pub(crate) fn tree(holders: &[Holder<'_>], n_projects: usize) -> Option<Tree> {
    let position = |name: &ProjectName| {
        holders[..n_projects].binary_search_by(|it| it.project.name.cmp(name)).ok()
    };
    let members = holders.iter().map(|Holder { project, user }| {
        let parent = match user {
            Some(_) => Some(&project.name),
            None => project.parent.as_ref(),
        };
        Member {
            parent: parent.and_then(position),
            priority: project.priority,
            created: project.created_at.get(),
            id: (&project.name, user.map(|(_, uid)| uid)),
        }
    });
    Tree::new(&members.collect::<Vec<_>>())
}
