//! The memory planner: decides before the first run where every value is stored.

use crate::graph::net::{Net, ValueId};
use crate::kernel::Reuse;
use crate::tensor::{Overwrite, packed_len};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

/// A range of steps, both ends included.
type Steps = RangeInclusive<usize>;

/// Alignment of blocks in the arena: a cache line.
const ALIGN: usize = 64;

/// Where a value is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// The caller's tensor for this input.
    Input(usize),
    /// A constant of the plan.
    Constant,
    /// Inside another value, at this byte offset.
    View { of: ValueId, offset: usize },
    /// In the arena of the session.
    Arena { offset: usize, len: usize },
    /// In memory of its own, which the caller receives.
    External,
    /// In memory allocated at run time: the shape is unknown before, or the value may outlive its
    /// last reader.
    Pool,
}

/// How a step uses memory.
pub(crate) struct Use {
    pub(crate) inputs: SmallVec<[ValueId; 4]>,
    pub(crate) outputs: SmallVec<[ValueId; 2]>,
    /// `None` for a deferred kernel.
    pub(crate) reuse: Option<Reuse>,
}

/// The storage of all values, and the steps that run in place.
pub(crate) struct Placement {
    pub(crate) storage: Vec<Storage>,
    /// For each root the values that share its memory.
    pub(crate) inside: Vec<SmallVec<[ValueId; 2]>>,
    /// For each step the (input, output) that share memory.
    pub(crate) in_place: Vec<Option<Overwrite>>,
    /// Bytes of the arena.
    pub(crate) arena: usize,
    /// For each step the pool values whose last use it is.
    pub(crate) last_use: Vec<SmallVec<[ValueId; 2]>>,
}

/// Values that share memory. A class is named by its root value.
#[derive(Clone, Copy)]
struct Class {
    first: usize,
    last: usize,
    len: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Foreign,
    Owned,
    External,
    Pool,
}

/// Places every value of `net`, whose steps use memory as `uses` says. A plan for a single run gets
/// a small arena, since every page of it is touched for the first time. Other plans get one that
/// keeps values in the caches of the threads that write them.
pub(crate) fn place(net: &Net, uses: &[Use], runs_once: bool) -> Placement {
    let mut placer = Placer::new(net);
    placer.define(net, uses);
    placer.lifetimes(net, uses);
    let in_place = placer.in_place(uses);
    let arena = placer.arena(runs_once);
    placer.finish(net, uses, in_place, arena)
}

struct Placer {
    /// For each value its root and its offset there.
    roots: Vec<(ValueId, usize)>,
    /// For each root the values that share its memory.
    inside: Vec<SmallVec<[ValueId; 2]>>,
    lens: Vec<usize>,
    classes: Vec<Class>,
}

impl Placer {
    fn new(net: &Net) -> Placer {
        let len = |fact: &infer::Fact| {
            let sizes = fact.shape.sizes()?;
            packed_len(fact.element_type, &sizes).ok()
        };
        let lens: Vec<usize> = net.values.iter().map(|v| len(&v.fact).unwrap_or(0)).collect();
        let class = |&len: &usize| Class { first: 0, last: 0, len, kind: Kind::Foreign };
        let roots = (0..lens.len()).map(|v| (v, 0)).collect();
        let inside = vec![SmallVec::new(); lens.len()];
        Placer { roots, inside, classes: lens.iter().map(class).collect(), lens }
    }

    fn root(&self, value: ValueId) -> ValueId {
        self.roots[value].0
    }

    fn class(&mut self, value: ValueId) -> &mut Class {
        let root = self.root(value);
        &mut self.classes[root]
    }

    /// Notes the step that makes each value, and which values are views.
    fn define(&mut self, net: &Net, uses: &[Use]) {
        for (step, used) in uses.iter().enumerate() {
            if let Some(Reuse::Views(views)) = &used.reuse {
                for (output, view) in used.outputs.iter().zip(views) {
                    let (root, offset) = self.roots[used.inputs[view.input]];
                    self.roots[*output] = (root, offset + view.offset);
                    self.inside[root].push(*output);
                }
                continue;
            }
            for &output in &used.outputs {
                let fact = &net.values[output].fact;
                let deferred = used.reuse.is_none() || used.reuse == Some(Reuse::Provides);
                let text = fact.element_type == ir::ElementType::String;
                let pool = deferred || text || !fact.is_static();
                let kind = if pool { Kind::Pool } else { Kind::Owned };
                self.classes[output] =
                    Class { first: step, last: step, len: self.lens[output], kind };
            }
        }
    }

    /// Notes the last use of each class, and which classes need memory of their own.
    fn lifetimes(&mut self, net: &Net, uses: &[Use]) {
        for (step, used) in uses.iter().enumerate() {
            let keeps = matches!(used.reuse, None | Some(Reuse::Provides));
            for &input in &used.inputs {
                let class = self.class(input);
                class.last = class.last.max(step);
                if keeps && class.kind == Kind::Owned {
                    class.kind = Kind::Pool;
                }
            }
        }
        for &output in &net.outputs {
            let class = self.class(output);
            class.last = usize::MAX;
            if class.kind == Kind::Owned {
                class.kind = Kind::External;
            }
        }
    }

    /// Lets outputs overwrite inputs after their last use.
    fn in_place(&mut self, uses: &[Use]) -> Vec<Option<Overwrite>> {
        uses.iter()
            .enumerate()
            .map(|(step, used)| {
                let Some(Reuse::InPlace(over)) = used.reuse else { return None };
                let output = *used.outputs.first()?;
                let target = self.classes[self.root(output)];
                if !matches!(target.kind, Kind::Owned | Kind::External) || target.len == 0 {
                    return None;
                }
                let fits = |&i: &usize| self.can_overwrite(step, used, i, output);
                let input = (0..used.inputs.len()).filter(|&i| over.contains(i)).find(fits)?;
                let root = self.root(used.inputs[input]);
                self.merge(root, output);
                Some(Overwrite { input, output: 0 })
            })
            .collect()
    }

    fn can_overwrite(&self, step: usize, used: &Use, input: usize, output: ValueId) -> bool {
        let value = used.inputs[input];
        let (root, offset) = self.roots[value];
        let class = self.classes[root];
        let alone = used.inputs.iter().filter(|v| self.root(**v) == root).count() == 1;
        class.kind == Kind::Owned
            && class.last == step
            && alone
            && offset == 0
            && self.lens[value] == class.len
            && self.lens[output] == class.len
    }

    /// Moves the class of `output` into the class of `root`.
    fn merge(&mut self, root: ValueId, output: ValueId) {
        let old = self.root(output);
        let merged = self.classes[old];
        let mut moved = std::mem::take(&mut self.inside[old]);
        moved.push(old);
        for &value in &moved {
            self.roots[value].0 = root;
        }
        self.inside[root].append(&mut moved);
        let class = &mut self.classes[root];
        class.last = class.last.max(merged.last);
        if merged.kind == Kind::External {
            class.kind = Kind::External;
        }
    }

    /// Offsets for the classes in the arena, largest first.
    fn arena(&self, runs_once: bool) -> (Vec<usize>, usize) {
        let is_owned = |&v: &ValueId| self.root(v) == v && self.classes[v].kind == Kind::Owned;
        let mut order: Vec<ValueId> = (0..self.roots.len()).filter(is_owned).collect();
        order.sort_unstable_by_key(|&v| (Reverse(self.classes[v].len), self.classes[v].first, v));
        let mut offsets = vec![0; self.roots.len()];
        let divided = if runs_once { usize::MAX } else { Arena::DIVIDED };
        let mut arena = Arena { divided, ..Arena::default() };
        for value in order {
            offsets[value] = arena.add(self.classes[value]);
        }
        (offsets, arena.len)
    }

    fn finish(
        self,
        net: &Net,
        uses: &[Use],
        in_place: Vec<Option<Overwrite>>,
        (offsets, arena): (Vec<usize>, usize),
    ) -> Placement {
        let own = |v: ValueId| match self.classes[v].kind {
            Kind::Owned => Storage::Arena { offset: offsets[v], len: self.lens[v] },
            Kind::External => Storage::External,
            Kind::Pool => Storage::Pool,
            Kind::Foreign => match net.inputs.iter().position(|i| *i == v) {
                Some(input) => Storage::Input(input),
                None => Storage::Constant,
            },
        };
        let place = |v: ValueId| match self.roots[v] {
            (root, _) if root == v => own(v),
            (of, offset) => Storage::View { of, offset },
        };
        let storage: Vec<Storage> = (0..net.values.len()).map(place).collect();
        let mut last_use = vec![SmallVec::new(); uses.len()];
        for (value, entry) in self.roots.iter().enumerate() {
            let class = self.classes[entry.0];
            if class.kind == Kind::Pool
                && let Some(list) = last_use.get_mut(class.last)
            {
                list.push(value);
            }
        }
        Placement { storage, inside: self.inside, in_place, arena, last_use }
    }
}

/// The blocks placed in the arena so far.
#[derive(Default)]
struct Arena {
    /// Blocks of at least this many bytes are centred at a middle.
    divided: usize,
    /// The blocks by the logarithm of their lifetime, then by their first step. So blocks with
    /// overlapping lifetimes are found without visiting all.
    blocks: Vec<BTreeMap<usize, Vec<ArenaBlock>>>,
    /// The middles, each with the lifetimes of its blocks (first step to last step). All blocks of
    /// a middle lie within its first, which is the largest.
    middles: Vec<(usize, BTreeMap<usize, usize>)>,
    len: usize,
}

struct ArenaBlock {
    bytes: Range<usize>,
    steps: Steps,
}

impl Arena {
    /// Threads divide blocks of at least this many bytes. Smaller blocks fill gaps.
    const DIVIDED: usize = 16 << 10;

    /// The offset of a class that is no larger than those added before.
    fn add(&mut self, class: Class) -> usize {
        let len = class.len.next_multiple_of(ALIGN);
        let steps = class.first..=class.last;
        let offset = if len >= self.divided {
            self.around_a_middle(len, &steps)
        } else {
            self.lowest(len, &steps)
        };
        // Too large an arena is an error when it is allocated.
        let bytes = offset..offset.saturating_add(len);
        self.len = self.len.max(bytes.end);
        let age = (class.last - class.first + 1).ilog2() as usize;
        if self.blocks.len() <= age {
            self.blocks.resize_with(age + 1, BTreeMap::new);
        }
        self.blocks[age].entry(class.first).or_default().push(ArenaBlock { bytes, steps });
        offset
    }

    /// Centres the block at the middle of earlier blocks, or else places it above all of them. Two
    /// threads each write one half of a block. With a common middle, each thread overwrites bytes
    /// that are in its own L2.
    fn around_a_middle(&mut self, len: usize, steps: &Steps) -> usize {
        let half = (len / 2).next_multiple_of(ALIGN);
        let is_free = |taken: &BTreeMap<usize, usize>| {
            taken.range(..=steps.end()).next_back().is_none_or(|(_, last)| last < steps.start())
        };
        if let Some((middle, taken)) = self.middles.iter_mut().find(|(_, taken)| is_free(taken)) {
            taken.insert(*steps.start(), *steps.end());
            return middle.saturating_sub(half);
        }
        let taken = BTreeMap::from([(*steps.start(), *steps.end())]);
        self.middles.push((self.len.saturating_add(half), taken));
        self.len
    }

    /// The lowest gap that is free during all these steps.
    fn lowest(&self, len: usize, steps: &Steps) -> usize {
        let mut taken: Vec<&Range<usize>> = self.overlapping(steps).map(|b| &b.bytes).collect();
        taken.sort_unstable_by_key(|bytes| bytes.start);
        let above = |offset: usize, bytes: &Range<usize>| {
            let meets = bytes.start < offset.saturating_add(len) && offset < bytes.end;
            if meets { bytes.end } else { offset }
        };
        taken.into_iter().fold(0, above)
    }

    /// The blocks with overlapping lifetimes.
    fn overlapping(&self, steps: &Steps) -> impl Iterator<Item = &ArenaBlock> {
        let all = self.blocks.iter().enumerate().flat_map(move |(age, blocks)| {
            let oldest =
                steps.start().saturating_sub(usize::MAX >> (usize::BITS as usize - 1 - age));
            blocks.range(oldest..=*steps.end()).flat_map(|(_, blocks)| blocks)
        });
        all.filter(|block| overlaps(&block.steps, steps))
    }
}

/// Whether two lifetimes overlap.
fn overlaps(a: &Steps, b: &Steps) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::net::Value;
    use crate::kernel::View;
    use infer::InputSet;
    use infer::{Fact, PartialShape};
    use ir::ElementType::F32;
    use smallvec::smallvec;
    use std::collections::BTreeSet;

    /// A net of f32 vectors: value 0 is the input, the last value the output; steps as given.
    fn net(lens: &[usize]) -> Net {
        let fact = |len: &usize| Fact::new(F32, PartialShape::fixed(&[*len]));
        let value = |len| Value::of(fact(len));
        Net {
            values: lens.iter().map(value).collect(),
            inputs: vec![0],
            outputs: vec![lens.len() - 1],
            ..Net::default()
        }
    }

    fn step(inputs: &[ValueId], output: ValueId, reuse: Reuse) -> Use {
        Use { inputs: inputs.into(), outputs: smallvec![output], reuse: Some(reuse) }
    }

    #[test]
    fn memory_is_shared_when_lifetimes_allow() {
        // Values 1 and 2 are alive at the same time; 3 may take the memory of 1.
        let net = net(&[16, 16, 16, 16, 16]);
        let uses = [
            step(&[0], 1, Reuse::None),
            step(&[1], 2, Reuse::None),
            step(&[2], 3, Reuse::None),
            step(&[3], 4, Reuse::None),
        ];
        let p = place(&net, &uses, false);
        assert_eq!(p.arena, 128);
        assert_eq!(p.storage[1], p.storage[3]);
        assert_ne!(p.storage[1], p.storage[2]);
        assert_eq!((&p.storage[0], &p.storage[4]), (&Storage::Input(0), &Storage::External));
    }

    #[test]
    fn blocks_that_are_divided_have_their_middles_in_common() {
        // A chain: each of 1 to 6 is alive together with its neighbours.
        let sizes = [4 << 10, 64 << 10, 16 << 10, 32 << 10, 48 << 10, 64 << 10, 8 << 10, 4];
        let net = net(&sizes);
        let uses: Vec<Use> = (0..7).map(|i| step(&[i], i + 1, Reuse::None)).collect();
        let p = place(&net, &uses, false);
        let block = |value: usize| match p.storage[value] {
            Storage::Arena { offset, len } => offset..offset + len,
            ref place => panic!("{value} is at {place:?}"),
        };
        for value in 1..6 {
            let (a, b) = (block(value), block(value + 1));
            assert!(a.end <= b.start || b.end <= a.start, "{a:?} and {b:?} live together");
        }
        let middles: BTreeSet<usize> =
            (1..=6).map(|v| (block(v).start + block(v).end) / 2).collect();
        assert_eq!(middles.len(), 2);
        assert_eq!(p.arena, block(1).len() + block(4).len());
    }

    #[test]
    fn in_place_only_over_memory_of_our_own_that_nobody_needs() {
        let net = net(&[16, 16, 16, 16, 16]);
        let uses = [
            step(&[0], 1, Reuse::InPlace(InputSet::one(0))), // not over the caller's input
            step(&[1], 2, Reuse::InPlace(InputSet::one(0))), // not while 1 is needed below
            step(&[2, 1], 3, Reuse::InPlace(InputSet::of([0, 1]))),
            step(&[3], 4, Reuse::InPlace(InputSet::one(0))),
        ];
        let p = place(&net, &uses, false);
        let over = Some(Overwrite { input: 0, output: 0 });
        assert_eq!(p.in_place, [None, None, over, over]);
        // Values 2, 3 and 4 are one class, which the caller receives.
        assert_eq!(p.storage[4], Storage::View { of: 2, offset: 0 });
        assert_eq!(p.storage[2], Storage::External);
    }

    #[test]
    fn views_keep_their_base_alive() {
        let net = net(&[8, 8, 4, 8, 4]);
        let view = Reuse::Views(smallvec![View { input: 0, offset: 16 }]);
        let uses = [
            step(&[0], 1, Reuse::None),
            step(&[1], 2, view),
            step(&[0], 3, Reuse::None),
            step(&[2, 3], 4, Reuse::None),
        ];
        let p = place(&net, &uses, false);
        assert_eq!(p.storage[2], Storage::View { of: 1, offset: 16 });
        assert_ne!(p.storage[1], p.storage[3]);
    }
}
