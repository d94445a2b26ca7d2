//! `irrun bench --html`: the plan as a page, its steps coloured by their times.

use super::picture::Picture;
use super::{heat, html, planned};
use anyhow::Result;
use ir::Graph;
use runtime::{Plan, StepTime};

/// A plan whose times are not known yet.
pub(crate) struct ProfilePage(Picture);

impl ProfilePage {
    /// Of a plan.
    pub(crate) fn new(graph: &Graph, plan: &Plan) -> ProfilePage {
        ProfilePage(planned::picture(graph, plan))
    }

    /// The page, with what the steps took in one of some runs.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn html(mut self, steps: &[StepTime], runs: u32) -> Result<String> {
        let mut times = heat::Times::default();
        for step in steps {
            times.add(&step.layer, crate::profile::ms(step.time / runs.max(1)));
        }
        let scale = heat::color_times(&mut self.0, &times);
        Ok(html::html(&self.0, scale.as_deref())?)
    }
}
