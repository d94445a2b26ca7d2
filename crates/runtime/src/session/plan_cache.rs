//! The plan cache: which shapes each plan of a session serves.

use crate::memory::variables::Variables;
use crate::plan::Plan;
use crate::tensor::Tensor;
use infer::{Dim, Fact, InputSpec, Inputs, PartialShape};
use ir::ElementType;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most plans for exact shapes.
const EXACT: usize = 32;

/// The same, if variables grow.
const GROWING: usize = 8;

/// The most plans with dynamic sizes, besides one for any shape.
const OPEN: usize = 8;

/// A run with this many floating-point operations per layer takes longer than compiling a plan.
const HEAVY_PER_LAYER: u64 = 1 << 22;

/// If variables grow, a plan for exact shapes pays once the shapes have come this often. A token of
/// a decoder gains 2 % of its time by it, and prompts of like lengths go through the same lengths.
const OFTEN: u32 = 4;

/// How many shapes are remembered.
const SEEN: usize = 1 << 10;

/// Element type and sizes of a tensor; `None` for a dynamic size.
type Pattern = (ElementType, SmallVec<[Option<usize>; 6]>);

/// The inputs and variables that a plan serves.
#[derive(Hash)]
pub(crate) struct Shapes {
    inputs: Vec<Pattern>,
    /// The variables that have a value, by id.
    variables: Vec<(String, Pattern)>,
}

fn by_name(a: &(String, Pattern), b: &(String, Pattern)) -> Ordering {
    a.0.cmp(&b.0)
}

fn exactly(element_type: ElementType, sizes: &[usize]) -> Pattern {
    (element_type, sizes.iter().map(|size| Some(*size)).collect())
}

fn of_fact(fact: &Fact) -> Option<Pattern> {
    Some(exactly(fact.element_type, &fact.shape.sizes()?))
}

fn covers((own_type, own): &Pattern, element_type: ElementType, sizes: &[usize]) -> bool {
    let fits = |(own, size): (&Option<usize>, &usize)| own.is_none_or(|own| own == *size);
    *own_type == element_type && own.len() == sizes.len() && own.iter().zip(sizes).all(fits)
}

fn shape((_, sizes): &Pattern) -> PartialShape {
    sizes.iter().map(|size| size.map_or_else(Dim::any, Dim::of)).collect()
}

impl Shapes {
    /// The exact shapes of a run.
    fn of(inputs: &[Tensor], variables: &Variables) -> Shapes {
        let variables = variables.iter();
        let named = variables
            .map(|(id, (element_type, sizes))| (id.to_owned(), exactly(element_type, &sizes)));
        let mut variables: Vec<_> = named.collect();
        variables.sort_unstable_by(by_name);
        let inputs = inputs.iter().map(|t| exactly(t.element_type(), t.sizes()));
        Shapes { inputs: inputs.collect(), variables }
    }

    /// The shapes that a plan was made for, if they are known.
    pub(crate) fn of_plan(plan: &Plan) -> Option<Shapes> {
        let inputs = plan.inputs().map(of_fact).collect::<Option<_>>()?;
        let reads =
            |layer: usize| plan.graph.layers().get(layer).is_some_and(|l| l.is("ReadValue"));
        let mut variables = match &plan.variables {
            Some(known) => {
                let named = known.iter().map(|(id, fact)| Some((id.clone(), of_fact(fact)?)));
                named.collect::<Option<Vec<_>>>()?
            }
            None if plan.steps.iter().any(|step| reads(step.layer)) => return None,
            None => Vec::new(),
        };
        variables.sort_unstable_by(by_name);
        Some(Shapes { inputs, variables })
    }

    /// Whether a plan for these shapes serves a run.
    fn serve(&self, inputs: &[Tensor], variables: &Variables) -> bool {
        let named = |(id, pattern): &(String, Pattern)| {
            variables.get(id).is_some_and(|(own, sizes)| covers(pattern, own, &sizes))
        };
        let fits = |(pattern, t): (&Pattern, &Tensor)| covers(pattern, t.element_type(), t.sizes());
        self.inputs.iter().zip(inputs).all(fits)
            && self.variables.len() == variables.len()
            && self.variables.iter().all(named)
    }

    /// Whether no size is dynamic.
    fn is_exact(&self) -> bool {
        let patterns = self.inputs.iter().chain(self.variables.iter().map(|(_, p)| p));
        patterns.into_iter().all(|(_, sizes)| sizes.iter().all(Option::is_some))
    }

    /// Whether the size of a variable is dynamic.
    fn grow(&self) -> bool {
        self.variables.iter().any(|(_, (_, sizes))| sizes.contains(&None))
    }

    /// A hash, to recognise shapes that have run before.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }

    /// Shapes that cover both, dynamic in the sizes that differ, and the number of dynamic sizes.
    /// `None` if they differ in more than sizes.
    fn joined(&self, other: &Shapes) -> Option<(Shapes, usize)> {
        let mut open = 0;
        let mut join = |a: &Pattern, b: &Pattern| {
            let size = |(a, b): (&Option<usize>, &Option<usize>)| a.filter(|_| a == b);
            let sizes: SmallVec<[_; 6]> = a.1.iter().zip(&b.1).map(size).collect();
            open += sizes.iter().filter(|size| size.is_none()).count();
            (a.0 == b.0 && a.1.len() == b.1.len()).then_some((a.0, sizes))
        };
        let inputs = self.inputs.iter().zip(&other.inputs).map(|(a, b)| join(a, b));
        let inputs: Vec<Pattern> = inputs.collect::<Option<_>>()?;
        let both = self.variables.iter().zip(&other.variables);
        let named = both.map(|((a, p), (b, q))| Some((a.clone(), join(p, q).filter(|_| a == b)?)));
        let variables: Vec<_> = named.collect::<Option<_>>()?;
        let same = self.variables.len() == other.variables.len();
        same.then_some((Shapes { inputs, variables }, open))
    }

    /// Inputs for shape inference, for runs that these shapes serve.
    pub(crate) fn inputs(&self) -> Inputs {
        let given = |pattern: &Pattern| InputSpec {
            element_type: Some(pattern.0),
            shape: Some(shape(pattern)),
            ..InputSpec::default()
        };
        let fact =
            |(id, pattern): &(String, Pattern)| (id.clone(), Fact::new(pattern.0, shape(pattern)));
        Inputs {
            parameters: self.inputs.iter().map(given).collect(),
            variables: Some(self.variables.iter().map(fact).collect()),
            ..Inputs::default()
        }
    }
}

/// The shapes that the plans of a session serve. Plans for exact shapes come first.
#[derive(Default)]
pub(crate) struct PlanCache {
    /// `None` for any shape.
    plans: Vec<Option<Shapes>>,
    exact: usize,
    /// How often shapes have run, by hash.
    seen: HashMap<u64, u32>,
}

/// Whether a run of `work` floating-point operations takes longer than compiling a plan.
pub(crate) fn is_heavy(work: u64, layers: usize) -> bool {
    work >= HEAVY_PER_LAYER.saturating_mul(layers as u64)
}

/// The plan for a run.
pub(crate) enum Lookup {
    /// An existing plan, by index.
    Found(usize),
    /// A plan to be compiled for these shapes and inserted at this index.
    New(usize, Option<Shapes>),
}

impl PlanCache {
    /// Chooses the plan for a run. `is_heavy` tells whether the previous run has taken longer than
    /// compiling. The choice is a plan for exactly these shapes. If variables grow, it is a plan
    /// with dynamic sizes, until the shapes have come often or runs are heavy.
    /// `docs/architecture.md` has the measurements.
    pub(crate) fn choose(
        &mut self,
        inputs: &[Tensor],
        variables: &Variables,
        is_heavy: bool,
    ) -> Lookup {
        let serves =
            |plan: &Option<Shapes>| plan.as_ref().is_none_or(|s| s.serve(inputs, variables));
        let found = self.plans.iter().position(serves);
        if let Some(index) = found.filter(|index| *index < self.exact) {
            return Lookup::Found(index);
        }
        let now = Shapes::of(inputs, variables);
        let comes_often = self.note(&now) >= OFTEN;
        let joined = if found.is_none() { self.joined(&now) } else { None };
        let open = found.map_or(joined.as_ref(), |index| self.plans[index].as_ref());
        let most = if !open.is_some_and(Shapes::grow) {
            EXACT
        } else if comes_often || is_heavy {
            GROWING
        } else {
            0
        };
        match found {
            _ if self.exact < most => Lookup::New(self.exact, Some(now)),
            Some(index) => Lookup::Found(index),
            None => Lookup::New(self.plans.len(), joined),
        }
    }

    /// Notes a run; how often its shapes have come, 0 if they are not remembered.
    fn note(&mut self, shapes: &Shapes) -> u32 {
        let hash = shapes.hash();
        if !self.seen.contains_key(&hash) && self.seen.len() == SEEN {
            return 0;
        }
        let times = self.seen.entry(hash).or_default();
        *times = times.saturating_add(1);
        *times
    }

    /// The shapes of the nearest plan, dynamic where they differ from `now`. `None` (any shape) if
    /// there are many plans or none is near.
    fn joined(&self, now: &Shapes) -> Option<Shapes> {
        let joined = self.plans.iter().flatten().filter_map(|shapes| shapes.joined(now));
        let (nearest, _) = joined.min_by_key(|(_, open)| *open)?;
        (self.plans.len() < self.exact + OPEN).then_some(nearest)
    }

    /// Notes the shapes of a new plan.
    pub(crate) fn insert(&mut self, at: usize, shapes: Option<Shapes>) {
        self.exact += usize::from(shapes.as_ref().is_some_and(Shapes::is_exact));
        self.plans.insert(at, shapes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plans chosen for a series of runs with a variable of these sizes: `=` for exact shapes,
    /// `~` for dynamic sizes, `*` for any shape; a `+` before it means that the plan is compiled
    /// for the run.
    fn chosen(runs: &[&[usize]], is_heavy: bool) -> String {
        let mut served = PlanCache::default();
        let mut variables = Variables::default();
        let mut text = String::new();
        for sizes in runs {
            variables.set("v", Tensor::zeros(ElementType::F32, sizes).unwrap());
            let index = match served.choose(&[], &variables, is_heavy) {
                Lookup::Found(index) => index,
                Lookup::New(at, shapes) => {
                    served.insert(at, shapes);
                    text.push('+');
                    at
                }
            };
            text.push(match &served.plans[index] {
                None => '*',
                Some(shapes) if shapes.is_exact() => '=',
                Some(_) => '~',
            });
        }
        text
    }

    #[test]
    fn what_grows_is_served_by_one_plan() {
        let runs: [&[usize]; 6] = [&[1, 10], &[1, 11], &[1, 12], &[1, 13], &[1, 14], &[1, 15]];
        assert_eq!(chosen(&runs, false), "+=+~~~~~");
    }

    #[test]
    fn what_comes_often_gets_a_plan_of_its_own() {
        let runs: [&[usize]; 9] = [&[1], &[2], &[3], &[4], &[3], &[4], &[3], &[3], &[3]];
        assert_eq!(chosen(&runs, false), "+=+~~~~~~+==");
    }

    /// A token of a decoder of a billion weights in some 5000 layers, and its prompt of 64 tokens.
    #[test]
    fn what_is_heavy_depends_on_the_layers() {
        assert!(!is_heavy(2 << 30, 5000));
        assert!(is_heavy(64 << 31, 5000));
        assert!(is_heavy(1 << 30, 256));
    }

    #[test]
    fn where_runs_are_long_each_length_gets_one_up_to_eight() {
        let runs: Vec<Vec<usize>> = (1..=10).map(|size| vec![size]).collect();
        let runs: Vec<&[usize]> = runs.iter().map(|sizes| &sizes[..]).collect();
        assert_eq!(chosen(&runs, true), format!("{}+~~", "+=".repeat(8)));
    }

    #[test]
    fn other_ranks_get_plans_of_their_own() {
        assert_eq!(chosen(&[&[1], &[1, 1], &[1, 1, 1], &[1, 1, 1, 1]], false), "+=+=+=+=");
    }
}
