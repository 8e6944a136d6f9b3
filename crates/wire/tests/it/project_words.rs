//! The texts of notes about projects.

use gpool_model::{ProjectName, ProjectWarning, ResourceKind};

fn red() -> ProjectName {
    ProjectName::new("red")
}

#[test]
fn warnings_about_projects_have_their_numbers() {
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
    assert!(
        words[0].contains("guaranteed 5 GPUs in total, more than the 4 GPUs of red"),
        "{words:?}"
    );
    assert!(
        words[1].starts_with("all projects together are guaranteed 9 GPUs, and the cluster has 8"),
        "{words:?}"
    );
    assert!(words[2].contains("above its limit of 1 GPU"), "{words:?}");
    assert!(words[3].ends_with("gpool project edit red --gpus 0"), "{words:?}");
    assert!(words[4].contains("borrowed") && words[4].contains("1 GPU can't"), "{words:?}");
}
