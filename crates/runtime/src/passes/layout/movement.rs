//! Movement fusion. A chain of Transpose, Reshape, Slice … is one index map. MatMul, RoPE and
//! attention read through the map, attention also writes through it, and what is left is one copy.
//! If runs are too short for a map, transposes and reshapes are one strided copy.

use crate::fused::attention::Attention;
use crate::fused::kv_attention::CachedAttention;
use crate::fused::matmul::FusedMatMul;
use crate::fused::rope::RotaryEmbedding;
use crate::fused::through::{IndexedCopy, StridedCopy};
use crate::fused::transpose::{Permute, Reinterpret};
use crate::graph::net::{FusedOp, Net, Node, Operation, ValueId};
use crate::graph::pattern::lowered;
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::{Kernel, Reuse};
use crate::ops::matmul::Shape;
use crate::ops::matmul::Through;
use crate::ops::scaled_dot_product_attention::Heads;
use crate::passes::context::PassCx;
use crate::passes::fusion::attention::heads;
use crate::passes::layout::index_map::Map;
use crate::passes::layout::strided::Strided;
use infer::InputSet;
use infer::ops::interpolate::{Interpolate, Mode};
use infer::ops::matmul::MatMul;
use kernels::attention::AttentionStrides;
use smallvec::smallvec;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) fn compose(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut chains = Chains::default();
    let outputs = net.outputs.clone();
    let changes = GraphRewriter::over(net, |rewriter, node| {
        if !chains.defer(rewriter.net, &node) {
            let node = chains.read_through(rewriter, node);
            for &input in &node.inputs {
                chains.need(rewriter, input);
            }
            rewriter.keep(node);
        }
    });
    let mut left = Vec::new();
    for output in outputs {
        chains.finish(output, &mut left);
    }
    net.nodes.extend(left);
    changes
}

/// Movements whose results no node has needed yet.
#[derive(Default)]
struct Chains {
    maps: HashMap<ValueId, Map>,
    /// The values that are no index maps, but strided views.
    views: HashMap<ValueId, Strided>,
    deferred: HashMap<ValueId, Node>,
}

impl Chains {
    /// Defers a node that only moves f32, until a reader needs its outputs.
    fn defer(&mut self, net: &Net, node: &Node) -> bool {
        let Some(kernel) = moving(net, node) else { return false };
        if let Some(maps) = self.maps_of(net, node, &*kernel) {
            self.maps.extend(node.outputs.iter().copied().zip(maps));
        } else if let Some(views) = self.views_of(net, node, &*kernel) {
            self.views.extend(node.outputs.iter().copied().zip(views));
        } else {
            return false;
        }
        self.deferred.extend(node.outputs.iter().map(|&output| (output, node.clone())));
        true
    }

    fn maps_of(&self, net: &Net, node: &Node, kernel: &dyn Kernel) -> Option<Vec<Map>> {
        let input = node.inputs[0];
        let of = count(net, input).filter(|_| !self.views.contains_key(&input))?;
        let map = self.maps.get(&input).cloned().unwrap_or_else(|| Map::whole(input, of));
        let outputs = node.outputs.iter().enumerate();
        outputs.map(|(i, &v)| map.moved_by(kernel, i, count(net, v)?)).collect()
    }

    fn views_of(&self, net: &Net, node: &Node, kernel: &dyn Kernel) -> Option<Vec<Strided>> {
        let (input, of) = (node.inputs[0], count(net, node.inputs[0])?);
        let view = self.views.get(&input).cloned().unwrap_or_else(|| Strided::whole(input, of));
        let outputs = node.outputs.iter().enumerate();
        outputs.map(|(i, &v)| view.moved_by(kernel, i, count(net, v)?)).collect()
    }

    /// Computes a value that was deferred.
    fn need(&mut self, rewriter: &mut GraphRewriter<'_>, mut value: ValueId) {
        // From the last node to the first: a file may hold any number.
        let mut nodes = Vec::new();
        loop {
            if self.write_through(rewriter, value).is_some() {
                rewriter.changed();
                break;
            }
            let Some((node, is_new)) = self.taken(value) else { break };
            if is_new {
                rewriter.changed();
            }
            value = node.inputs[0];
            nodes.push(node);
        }
        nodes.into_iter().rev().for_each(|node| rewriter.keep(node));
    }

    /// As [`Chains::need`], for an output of the net.
    fn finish(&mut self, mut value: ValueId, to: &mut Vec<Node>) {
        let start = to.len();
        while let Some((node, _)) = self.taken(value) {
            value = node.inputs[0];
            to.push(node);
        }
        to[start..].reverse();
    }

    /// The node that is to make a deferred value, and whether it replaces the node of the chain.
    fn taken(&mut self, value: ValueId) -> Option<(Node, bool)> {
        let (node, made) = self.made(value)?;
        if let Some(made) = made {
            return Some((made, true));
        }
        node.outputs.iter().for_each(|output| drop(self.deferred.remove(output)));
        Some((node, false))
    }

    /// The deferred node, and a copy from the start of the chain if that saves one.
    fn made(&mut self, value: ValueId) -> Option<(Node, Option<Node>)> {
        let node = self.deferred.remove(&value)?;
        let made = self.indexed(value, &node).or_else(|| self.strided(value));
        let made = made.map(|(operation, source)| Node {
            operation: Operation::Fused(operation),
            inputs: smallvec![source],
            outputs: smallvec![value],
            layer: node.layer,
        });
        Some((node, made))
    }

    fn indexed(&self, value: ValueId, node: &Node) -> Option<(Arc<dyn FusedOp>, ValueId)> {
        let map = self.maps.get(&value).filter(|map| map.copies > 1 || node.outputs.len() > 1)?;
        let map = map.longest();
        Some((Arc::new(IndexedCopy { runs: map.runs.into(), run: map.run }), map.source))
    }

    fn strided(&self, value: ValueId) -> Option<(Arc<dyn FusedOp>, ValueId)> {
        let view = self.views.get(&value).filter(|view| view.copies > 1)?;
        Some((Arc::new(StridedCopy { plan: view.plan()? }), view.source))
    }

    /// Lets a node read its operands at the source of their movements.
    fn read_through(&self, rewriter: &mut GraphRewriter<'_>, node: Node) -> Node {
        let rewritten = self
            .product(rewriter.net, &node)
            .or_else(|| self.attention(rewriter.net, &node))
            .or_else(|| self.rotary(&node));
        match rewritten {
            Some(rewritten) => {
                rewriter.changed();
                rewritten
            }
            None => node,
        }
    }

    fn product(&self, net: &Net, node: &Node) -> Option<Node> {
        let matmul = node.is::<MatMul>()?;
        let &[a, b] = &node.inputs[..] else { return None };
        let (sizes, other) = (net.sizes(a)?, net.sizes(b)?);
        let map = self.maps.get(&a).filter(|m| m.copies > 0)?;
        if sizes.len() < 2 || other.len() < 2 || !net.is_f32(b) {
            return None;
        }
        let transposed = matmul.transposed(sizes.len(), other.len());
        let shape = Shape::new(&sizes, &other, transposed.0, transposed.1);
        if !shape.reads_through() {
            return None;
        }
        let run = kernels::copy::gcd(map.longest().run, shape.terms());
        let map = map.in_runs(run)?;
        let through = Some(Through { sizes, runs: map.runs.into(), run });
        let matmul = FusedMatMul { transposed, post_ops: Vec::new(), through, weights: None };
        let operation = Operation::Fused(Arc::new(matmul));
        Some(Node { operation, inputs: smallvec![map.source, b], ..node.clone() })
    }

    fn attention(&self, net: &Net, node: &Node) -> Option<Node> {
        let mut inputs = node.inputs.clone();
        let operation: Arc<dyn FusedOp> = match node.fused::<CachedAttention>() {
            Some(cached) => {
                let mut cached = cached.clone();
                self.operands(&mut cached.heads, cached.rows, &mut inputs);
                Arc::new(cached)
            }
            None => {
                let mut heads = heads(net, node)?;
                let keys = heads.attention.keys;
                self.operands(&mut heads, keys, &mut inputs);
                Arc::new(Attention { heads })
            }
        };
        Some(Node { operation: Operation::Fused(operation), inputs, ..node.clone() })
    }

    /// Lets heads read query, key and value at the source of their movements. Keys and values have
    /// `keys` rows.
    fn operands(&self, heads: &mut Heads, keys: usize, inputs: &mut [ValueId]) {
        let Heads { attention, at, .. } = heads;
        let AttentionStrides { query, key, value, .. } = &mut attention.strides;
        let matrices = [
            (attention.rows, attention.depth, query),
            (keys, attention.depth, key),
            (keys, attention.width, value),
        ];
        for (i, (rows, columns, own)) in matrices.into_iter().enumerate() {
            let map = self.maps.get(&inputs[i]).filter(|m| m.copies > 0);
            // All heads share one row (stride 0), which a strided map cannot express.
            let one = *own == 0 && rows > 1;
            let Some(map) = map.filter(|_| !one) else { continue };
            let Some((starts, stride)) = placed(map, &at[i], rows, columns) else { continue };
            (at[i], *own) = (starts, stride);
            inputs[i] = map.source;
        }
    }

    fn rotary(&self, node: &Node) -> Option<Node> {
        let rotary = node.fused::<RotaryEmbedding>()?;
        let map = self.maps.get(node.inputs.first()?).filter(|m| m.copies > 0)?;
        let rows = map.in_runs(*rotary.sizes.last()?)?.runs;
        let through = Some(rows.into());
        let operation = Operation::Fused(Arc::new(RotaryEmbedding { through, ..rotary.clone() }));
        let mut node = Node { operation, ..node.clone() };
        *node.inputs.first_mut()? = map.source;
        Some(node)
    }

    /// Lets attention write its result to the end of a chain, if nothing else reads the result.
    fn write_through(&mut self, rewriter: &mut GraphRewriter<'_>, value: ValueId) -> Option<()> {
        let map = self.maps.get(&value).filter(|m| m.copies > 0)?;
        let mut link = value;
        while link != map.source {
            link = *self.deferred.get(&link)?.inputs.first()?;
            if rewriter.uses(link) != 1 {
                return None;
            }
        }
        let maker = rewriter.only_for(map.source)?;
        let cached = maker.fused::<CachedAttention>().cloned();
        let own = || Some(maker.fused::<Attention>()?.heads.clone());
        let mut heads = cached.as_ref().map(|cached| cached.heads.clone()).or_else(own)?;
        let (rows, width) = (heads.attention.rows, heads.attention.width);
        let inverse = map.inverse(rows * width * heads.to.len())?;
        (heads.to, heads.attention.strides.output) = placed(&inverse, &heads.to, rows, width)?;
        let mut node = rewriter.take(map.source)?;
        node.operation = Operation::Fused(match cached {
            Some(cached) => Arc::new(CachedAttention { heads, ..cached }),
            None => Arc::new(Attention { heads }),
        });
        node.outputs = smallvec![value];
        rewriter.keep(node);
        self.deferred.remove(&value);
        self.maps.remove(&value);
        Some(())
    }
}

/// The kernel of a node whose output consists of f32 elements of its input and of zeros.
fn moving(net: &Net, node: &Node) -> Option<Box<dyn Kernel>> {
    let moves = match node.op() {
        Some(op) => op.traits().pure && op.traits().moves == InputSet::one(0),
        None => node.fused::<Permute>().is_some() || node.fused::<Reinterpret>().is_some(),
    };
    let is_f32 = |v: &ValueId| net.is_f32(*v);
    let all = node.outputs.iter().all(is_f32) && node.inputs.first().is_some_and(is_f32);
    if moves && all { lowered(net, node) } else { None }
}

/// Whether a node moves elements of f32 and does nothing else. Each element of its outputs is one
/// of its input: none is inserted.
pub(crate) fn is_movement(net: &Net, node: &Node) -> bool {
    moving(net, node).is_some_and(|kernel| {
        kernel.movement().is_some() || matches!(kernel.reuse(), Reuse::Views(_))
    })
}

/// Whether a node repeats or drops elements of f32, as the nearest mode of Interpolate does, and
/// inserts none.
pub(crate) fn is_nearest(net: &Net, node: &Node) -> bool {
    let Some(rule) = node.is::<Interpolate>() else { return false };
    let rank = node.inputs.first().and_then(|v| net.sizes(*v)).map_or(0, |sizes| sizes.len());
    let is_padded = (0..rank).any(|axis| rule.pads(axis) != (0, 0));
    rule.mode() == Mode::Nearest
        && !is_padded
        && node.inputs.first().is_some_and(|v| net.is_f32(*v))
}

/// The elements of a value, if there are any.
fn count(net: &Net, value: ValueId) -> Option<usize> {
    net.sizes(value).map(|sizes| sizes.iter().product()).filter(|count| *count > 0)
}

/// The starts in the source of matrices that begin at `starts`, and the row stride they share.
fn placed(map: &Map, starts: &[usize], rows: usize, columns: usize) -> Option<(Vec<usize>, usize)> {
    if rows * columns == 0 {
        return None;
    }
    let stride = map.stride(*starts.first()?, rows, columns)?;
    let even = |s: &usize| rows < 2 || map.stride(*s, rows, columns) == Some(stride);
    let whole = |s: &usize| map.stride(*s, 1, columns).is_some();
    let all = starts.iter().all(|s| even(s) && whole(s));
    all.then(|| (starts.iter().map(|s| map.at(*s)).collect(), stride))
}
