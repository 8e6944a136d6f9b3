//! Jobs that wait until a node has pulled the image of their container. They hold no devices
//! meanwhile.

use gpool_model::node::ImagePulls;
use gpool_model::{Job, JobId, Lack, NodeLack, NodeName, Phase};

use crate::control::Control;

impl Control {
    /// Handles a job with an image that its node pulls now; its program was not started.
    pub(crate) fn await_image(&mut self, mut job: Job, lack: NodeLack) {
        job.attempt = job.attempt.next();
        job.generation = job.generation.next();
        job.course.tasks.clear();
        job.course.image_pull = Some(lack);
        job.phase = Phase::Waiting { since: self.now };
        self.put_job(job);
    }

    /// Lets jobs go on if a node no longer pulls their image; `before` are the earlier pulls.
    pub(crate) fn pulls_changed(&mut self, name: &NodeName, before: &ImagePulls, is_new: bool) {
        let now = self.world.node(name).map(|row| row.node.facts.images.clone());
        let now = now.unwrap_or_default();
        if is_new || !now.is_like(before) {
            self.pulls_ended(name, &now);
        }
    }

    /// Lets jobs go on that wait for an image on a node, unless the node still pulls it.
    pub(crate) fn pulls_ended(&mut self, name: &NodeName, pulls: &ImagePulls) {
        let image = |job: &Job| match job.course.image_pull.as_ref() {
            Some(NodeLack { node, lack: Lack::Pull(image) }) if node == name => Some(image.clone()),
            _ => None,
        };
        let jobs = self.world.jobs().iter().filter_map(|(id, row)| Some((*id, image(&row.job)?)));
        for (id, image) in jobs.collect::<Vec<(JobId, String)>>() {
            if pulls.running.contains_key(&image) {
                continue;
            }
            let mut job = self.job(id);
            job.course.image_pull = None;
            match pulls.failed.get(&image) {
                Some(why) if matches!(job.phase, Phase::Waiting { .. }) => {
                    let lack = Lack::Image(why.clone());
                    self.avoid(job, NodeLack { node: name.clone(), lack });
                }
                _ => {
                    self.put_job(job);
                    self.go_on(id);
                }
            }
        }
    }
}
