//! Projects, and results of changes to them.

use gpool_model::{ProjectPatch, QuotaPatch};

use gpool_model::quota::Amount;
use gpool_model::{ProjectName, ResourceKind};
use gpool_wire::project_view::changed;

#[test]
fn a_difference_names_settings_as_they_are_written() {
    let before = gpool_model::Project::open(ProjectName::new("default"));
    let gpus = QuotaPatch { guaranteed: Some(Amount::of(2000)), ..QuotaPatch::default() };
    let quotas = vec![(ResourceKind::Gpu, gpus)];
    let after = ProjectPatch { quotas, ..ProjectPatch::default() }.applied_to(&before);
    let it = changed(&gpool_model::ProjectDifference {
        name: before.name.clone(),
        before: Some(before),
        after: Some(after),
    });
    assert_eq!(it.what, "changed");
    let [change] = &it.settings[..] else { panic!("one is otherwise: {it:?}") };
    assert_eq!(change.setting, "gpus");
    assert_eq!(change.before.as_deref(), Some("unlimited"));
    assert_eq!(change.after.as_deref(), Some("2"));
}
