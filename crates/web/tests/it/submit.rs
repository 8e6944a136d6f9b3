//! The form that submits a job.

use gpool_web::{Frame, Submit, SubmitForm};
use gpool_wire::JobCreate;

use crate::minute;

fn page(form: &SubmitForm) -> String {
    let frame = Frame::default();
    let projects = [];
    let (forecast, refused) = (None, &[][..]);
    Submit { frame, form, projects: &projects, forecast, refused, now: minute(0) }.page()
}

#[test]
fn each_example_of_the_form_is_a_valid_request() {
    let page = page(&SubmitForm::default());
    let examples = |name: &str| {
        let field = page.split(&format!("name=\"{name}\"")).nth(1).unwrap();
        let text = field.split("placeholder=\"").nth(1).unwrap().split('"').next().unwrap();
        text.split(", ").map(str::to_owned).collect::<Vec<_>>()
    };
    let job = |change: &dyn Fn(&mut JobCreate)| {
        let mut job = JobCreate { command: vec!["true".to_owned()], ..JobCreate::default() };
        change(&mut job);
        job.check("/home/ana").map(drop).map_err(|refusal| format!("{refusal:?}"))
    };
    for gpus in examples("gpus") {
        assert_eq!(job(&|job| job.gpus = Some(gpus.clone())), Ok(()), "{gpus}");
    }
    for time in examples("time") {
        assert_eq!(job(&|job| job.time = Some(time.clone().into())), Ok(()), "{time}");
    }
    for variable in examples("variables") {
        let asked = SubmitForm { variables: variable, ..SubmitForm::default() };
        assert_eq!(asked.environment().unwrap().len(), 1);
    }
}

#[test]
fn variables_are_lines_and_a_wrong_one_is_named() {
    let asked = SubmitForm {
        command: "train".to_owned(),
        variables: "A=1\r\n\r\nB=x y=z\r\n".to_owned(),
        ..SubmitForm::default()
    };
    let job = asked.job();
    let expected = [("A", "1"), ("B", "x y=z")].map(|(name, value)| (name.into(), value.into()));
    assert_eq!(job.environment, expected.into());
    let command = "gpool submit -e A=1 -e &#39;B=x y=z&#39; -- sh -c train";
    assert!(page(&asked).contains(command), "{}", page(&asked));
    for wrong in ["A", "=1", "A B=1"] {
        let asked = SubmitForm { variables: wrong.to_owned(), ..SubmitForm::default() };
        assert_eq!(asked.environment(), Err(wrong));
    }
}

#[test]
fn valohais_variable_is_the_number_of_gpus() {
    let gpus = |gpus: &str, variables: &str| {
        let (gpus, variables) = (gpus.to_owned(), variables.to_owned());
        SubmitForm { gpus, variables, ..SubmitForm::default() }.job().gpus
    };
    assert_eq!(gpus("", "A=1\nVH_GPUS=2").as_deref(), Some("2"));
    assert_eq!(gpus("4", "VH_GPUS=2").as_deref(), Some("4"));
    assert_eq!(gpus("", "VH_GPUS="), None);
}
