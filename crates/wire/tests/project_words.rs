//! The texts of notes about projects.

use gpool_model::{ProjectName, ProjectWarning, ResourceKind};

fn red() -> ProjectName {
    ProjectName::new("red")
}

#[test]
fn what_should_be_known_of_projects_has_words() {
    let kind = ResourceKind::Gpu;
    let all = [
        ProjectWarning::AboveParent {
            project: red(),
            kind: kind.clone(),
            promised: 5000,
            guaranteed: 4000,
        },
        ProjectWarning::AboveCluster { kind: kind.clone(), promised: 9000, capacity: 8000 },
        ProjectWarning::AboveOwnLimit {
            project: red(),
            kind: kind.clone(),
            guaranteed: 2000,
            limit: 1000,
        },
        ProjectWarning::NeverTakenBack { project: red() },
        ProjectWarning::HoldsMore {
            project: red(),
            kind,
            held: 4000,
            guaranteed: 0,
            for_good: 1000,
        },
    ];
    let words = all.map(|it| gpool_wire::project_words::warning(&it));
    assert!(words[0].contains("guaranteed 5 GPUs together, and red has 4 GPUs"), "{words:?}");
    assert!(
        words[1].starts_with("9 GPUs are guaranteed in all, and there are 8 GPUs"),
        "{words:?}"
    );
    assert!(words[2].contains("limited to 1 GPU"), "{words:?}");
    assert!(words[3].ends_with("gpool project edit red --gpus 0"), "{words:?}");
    assert!(words[4].contains("on loan") && words[4].contains("1 GPU can't"), "{words:?}");
}
