//! Tests of `project`.

use gpool_model::id::ProjectName;
use gpool_model::project::Project;
use gpool_model::quota::Amount;
use gpool_model::resource::ResourceKind;

#[test]
fn a_project_of_an_old_store_is_unlimited() {
    let old: Project = serde_json::from_str(r#"{"name":"default"}"#).unwrap();
    assert_eq!(old, Project::open(ProjectName::new("default")));
    let gpu = old.quota(&ResourceKind::Gpu);
    assert_eq!(gpu.guaranteed, Some(Amount::UNLIMITED));
    assert!(gpu.limit.is_unlimited());
}

#[test]
fn gpus_have_no_default_guarantee_and_other_resources_an_unlimited_one() {
    let project: Project = serde_json::from_str(r#"{"name":"red","quotas":[]}"#).unwrap();
    assert_eq!(project.quota(&ResourceKind::Gpu).guaranteed, None);
    assert_eq!(project.quota(&ResourceKind::Cpu).guaranteed, Some(Amount::UNLIMITED));
    assert!(!project.is_open());
    let text = serde_json::to_string(&project).unwrap();
    assert_eq!(serde_json::from_str::<Project>(&text).unwrap(), project);
}
