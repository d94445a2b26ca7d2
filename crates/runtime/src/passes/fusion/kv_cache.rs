//! Stateful attention fusion: the KV cache grows in place. ReadValue, Gather of the beams, Concat
//! along axis 2, Assign, repetition of heads (Unsqueeze, Broadcast, Reshape) and
//! ScaledDotProductAttention become one step that appends the new rows to the variable. Otherwise
//! each token would copy the whole cache, up to three times.

use crate::fused::attention::Attention;
use crate::fused::kv_attention::{CacheShape, CachedAttention, First, Growing};
use crate::graph::net::{FusedOp, Net, Node, Operation, ValueId};
use crate::ops::scaled_dot_product_attention::Heads;
use crate::passes::context::PassCx;
use crate::passes::fusion::kv_length::{AXIS, Length, Origins};
use crate::tensor::Sizes;
use infer::ops::broadcast::Broadcast;
use infer::ops::concat::Concat;
use infer::ops::reshape::Reshape;
use infer::ops::scaled_dot_product_attention::ScaledDotProductAttention;
use infer::ops::shape_of::ShapeOf;
use infer::ops::squeeze::Squeeze;
use infer::ops::variable::Variable;
use ir::ElementType;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) fn caches(net: &mut Net, cx: &PassCx<'_>) -> usize {
    let search = Search::new(net, cx);
    let found = (0..net.nodes.len()).filter_map(|index| search.attention(index));
    let edits: Vec<Vec<Edit>> = found.collect();
    let mut nodes: Vec<Option<Node>> = net.nodes.iter().cloned().map(Some).collect();
    let count = edits.len();
    for (index, node) in edits.into_iter().flatten() {
        nodes[index] = node;
    }
    net.nodes = nodes.into_iter().flatten().collect();
    count
}

/// A node index, and what replaces the node.
type Edit = (usize, Option<Node>);

/// The inputs of a node.
type Inputs = SmallVec<[ValueId; 4]>;

/// A variable that a Concat appends rows to.
struct Cache<'n> {
    variable: &'n Variable,
    read: usize,
    assign: usize,
    /// The variable as read, after the Gather of its beams, and after the new rows.
    stages: Vec<ValueId>,
    /// The indices of the Gather of its beams.
    beams: Option<ValueId>,
    new: ValueId,
    /// The shape of the new rows: batch, heads, rows and columns.
    sizes: [usize; 4],
    /// The number of rows that the repetition of heads writes in its shape.
    repeated: Option<Length<'n>>,
}

/// A KV cache as attention reads it.
struct CacheOrigin<'n> {
    /// The output of Concat.
    value: ValueId,
    /// The node that reads it.
    reader: usize,
    repeated: Option<Length<'n>>,
}

struct Search<'n> {
    origins: Origins<'n>,
    /// For each value the nodes that read it. An output of the net has one more reader, an index
    /// past the last node.
    readers: Vec<Vec<usize>>,
    /// For each variable, how many nodes read or assign it.
    uses: HashMap<&'n str, usize>,
    known: Option<&'n HashMap<String, infer::Fact>>,
}

impl<'n> Search<'n> {
    fn new(net: &'n Net, cx: &PassCx<'n>) -> Search<'n> {
        let mut readers = vec![Vec::new(); net.values.len()];
        let mut uses = HashMap::new();
        for (index, node) in net.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|input| readers[*input].push(index));
            if let Some(variable) = node.is::<Variable>() {
                *uses.entry(variable.id()).or_insert(0) += 1;
            }
        }
        net.outputs.iter().for_each(|output| readers[*output].push(net.nodes.len()));
        Search { origins: Origins::new(net), readers, uses, known: cx.variables }
    }

    fn net(&self) -> &'n Net {
        self.origins.net
    }

    fn node(&self, index: usize) -> Option<&'n Node> {
        self.net().nodes.get(index)
    }

    /// The shape of an f32 value of rank 4.
    fn sizes(&self, value: ValueId) -> Option<[usize; 4]> {
        let sizes = self.net().sizes(value).filter(|_| self.net().is_f32(value))?;
        sizes[..].try_into().ok()
    }

    /// The edits that let the caches of an attention grow in place.
    fn attention(&self, index: usize) -> Option<Vec<Edit>> {
        let node = self.node(index)?;
        let causal = match (node.is::<ScaledDotProductAttention>(), node.fused::<Attention>()) {
            (Some(rule), _) => rule.causal(),
            (None, Some(made)) => made.heads.attention.causal,
            (None, None) => return None,
        };
        let (&[query, key, value], &output) =
            (node.inputs.get(..3)?.try_into().ok()?, node.outputs.first()?);
        let (asked, result) = (self.sizes(query)?, self.sizes(output)?);
        if node.inputs.len() > 5 || asked[..3] != result[..3] {
            return None;
        }
        let both = [self.cache(key, index)?, self.cache(value, index)?];
        let [keys, values] = &both;
        let fits = |cache: &Cache<'_>| {
            let [batch, heads, ..] = cache.sizes;
            batch == result[0] && result[1].checked_rem(heads) == Some(0)
        };
        let alike = keys.sizes[..3] == values.sizes[..3] && keys.beams == values.beams;
        let columns = keys.sizes[3] == asked[3] && values.sizes[3] == result[3];
        let apart = keys.variable.id() != values.variable.id();
        if !(fits(keys) && fits(values) && alike && columns && apart && self.agree(&both)) {
            return None;
        }
        let mut edits = vec![(index, Some(self.fused(node, causal, &both)?))];
        edits.extend(both.iter().flat_map(|cache| self.edits(cache)));
        Some(edits)
    }

    /// Whether the repetition of heads names as many rows as the caches will have. The step itself
    /// checks that both caches have equally many.
    fn agree(&self, both: &[Cache<'_>; 2]) -> bool {
        let own = |id: &str| both.iter().any(|cache| cache.variable.id() == id);
        both.iter().all(|cache| {
            let fits = |l: Length<'_>| l.id.is_some_and(own) && l.more == cache.sizes[AXIS];
            cache.repeated.is_none_or(fits)
        })
    }

    /// Goes back from the input of attention to the rows before the repetition of heads, if there
    /// is one.
    fn source(&self, value: ValueId, reader: usize) -> Option<CacheOrigin<'n>> {
        let Some((reshape, last)) =
            self.only(value, reader).filter(|(_, n)| n.is::<Reshape>().is_some())
        else {
            return Some(CacheOrigin { value, reader, repeated: None });
        };
        let (broadcast, middle) = self.only(*last.inputs.first()?, reshape)?;
        let (unsqueeze, first) = self.only(*middle.inputs.first()?, broadcast)?;
        let is_chain = middle.is::<Broadcast>().is_some() && first.is::<Squeeze>().is_some();
        let &[own, axes] = &first.inputs[..] else { return None };
        let &[_, target] = &middle.inputs[..] else { return None };
        let net = self.net();
        let dims = |v: ValueId| net.values[v].fact.shape.dims();
        let (from, to, merged) = (dims(own)?, dims(*middle.outputs.first()?)?, dims(value)?);
        let axis = net.values[axes].fact.value.as_deref()?.i64s()?;
        if !is_chain || from.len() != 4 || to.len() != 5 || merged.len() != 4 || axis != [2] {
            return None;
        }
        let size = |dims: &[infer::Dim], axis: usize| dims.get(axis)?.size();
        let [batch, heads, columns] = [size(from, 0)?, size(from, 1)?, size(from, 3)?];
        let group = size(to, 2)?;
        let kept = size(to, 0)? == batch && size(to, 1)? == heads && size(to, 4)? == columns;
        let all = size(merged, 0)? == batch
            && size(merged, 1)? == heads * group
            && size(merged, 3)? == columns;
        if !kept || !all {
            return None;
        }
        let repeated = match (size(from, AXIS), size(to, AXIS + 1)) {
            (Some(rows), Some(result)) if rows == result => None,
            (None, None) => Some(self.origins.element(target, AXIS + 1)?),
            _ => return None,
        };
        Some(CacheOrigin { value: own, reader: unsqueeze, repeated })
    }

    /// The node that makes a value, if only `reader` reads the value.
    fn only(&self, value: ValueId, reader: usize) -> Option<(usize, &'n Node)> {
        (self.readers[value] == [reader]).then_some(())?;
        self.origins.maker(value)
    }

    /// The KV cache that attention reads through `value`.
    fn cache(&self, value: ValueId, reader: usize) -> Option<Cache<'n>> {
        let CacheOrigin { value, reader, repeated } = self.source(value, reader)?;
        let (concat, node) = self.origins.maker(value)?;
        let &[past, new] = &node.inputs[..] else { return None };
        let sizes = self.sizes(new)?;
        if node.is::<Concat>()?.axis(sizes.len()).ok()? != AXIS {
            return None;
        }
        let (read, gather) = self.origins.variable(past)?;
        let variable = self.node(read)?.is::<Variable>()?;
        if self.uses.get(variable.id()) != Some(&2) {
            return None;
        }
        let held = *self.node(read)?.outputs.first()?;
        let assign = self.assign(value, variable.id())?;
        let mut stages = vec![(held, [gather.unwrap_or(concat); 2])];
        let mut beams = None;
        if let Some(gather) = gather {
            stages.push((past, [concat; 2]));
            beams = Some(*self.node(gather)?.inputs.get(1)?);
        }
        stages.push((value, [assign, reader]));
        let all = beams.is_none_or(|v| self.net().sizes(v).as_deref() == Some(&sizes[..1]));
        let fits = self.net().values[held].fact.element_type == ElementType::F32
            && self.matrices(held) == Some([sizes[0], sizes[1], sizes[3]]);
        if !all || !fits || !stages.iter().all(|(stage, own)| self.is_private(*stage, own)) {
            return None;
        }
        let stages = stages.into_iter().map(|(stage, _)| stage).collect();
        Some(Cache { variable, read, assign, stages, beams, new, sizes, repeated })
    }

    /// Whether only these nodes read a value. Readers of its shape get the shape by other means.
    fn is_private(&self, value: ValueId, own: &[usize]) -> bool {
        let shape = |r: usize| self.node(r).is_some_and(|n| n.is::<ShapeOf>().is_some());
        self.readers[value].iter().all(|r| own.contains(r) || shape(*r))
    }

    /// Batch, heads and columns of a value.
    fn matrices(&self, value: ValueId) -> Option<[usize; 3]> {
        let dims = self.net().values[value].fact.shape.dims()?;
        let &[batch, heads, _, columns] = dims else { return None };
        Some([batch.size()?, heads.size()?, columns.size()?])
    }

    /// The Assign of variable `id` that stores a value, if nothing reads its output.
    fn assign(&self, value: ValueId, id: &str) -> Option<usize> {
        let assigns = |r: &&usize| {
            let node = self.node(**r);
            node.and_then(|n| n.is::<Variable>()).is_some_and(|v| !v.reads() && v.id() == id)
        };
        let &assign = self.readers[value].iter().find(assigns)?;
        let unread = |output: &ValueId| self.readers[*output].is_empty();
        self.node(assign)?.outputs.iter().all(unread).then_some(assign)
    }

    /// The variable of a cache. Its initial value, if one is needed, is added to the inputs.
    fn growing(&self, cache: &Cache<'n>, inputs: &mut Inputs) -> Option<Growing> {
        let [batch, heads, _, columns] = cache.sizes;
        let id = cache.variable.id().to_owned();
        let is_set = self.known.is_some_and(|known| known.contains_key(&id));
        let first = match self.node(cache.read)?.inputs.first() {
            _ if is_set => First::Unneeded,
            Some(&input) => {
                inputs.push(input);
                First::Input(inputs.len() - 1)
            }
            None => First::Zeros(self.net().sizes(cache.stages[0])?),
        };
        Some(Growing { id, matrices: [batch, heads, columns], first })
    }

    /// The attention and its two caches as one node.
    fn fused(&self, node: &Node, causal: bool, both: &[Cache<'n>; 2]) -> Option<Node> {
        let net = self.net();
        let result = self.sizes(node.outputs[0])?;
        let query = self.sizes(node.inputs[0])?;
        let [keys, values] = both;
        let mut heads = Heads::over_caches([&query, &keys.sizes, &values.sizes], &result);
        heads.attention.causal = causal;
        let mut inputs = node.inputs.clone();
        (inputs[1], inputs[2]) = (keys.new, values.new);
        let rank = |v: ValueId| net.values[v].fact.shape.rank();
        let mask = match inputs.get(3).filter(|_| !causal) {
            Some(&mask) if rank(mask)? > 0 => {
                Some(net.values[mask].fact.element_type == ElementType::Boolean)
            }
            _ => None,
        };
        let has_scale = inputs.len() > 4;
        let beams = keys.beams.map(|beams| {
            inputs.push(beams);
            inputs.len() - 1
        });
        let caches = [self.growing(keys, &mut inputs)?, self.growing(values, &mut inputs)?];
        let (sizes, rows) = (Sizes::from_slice(&result), keys.sizes[AXIS]);
        let made = CachedAttention { heads, rows, caches, sizes, beams, mask, has_scale };
        Some(Node { operation: Operation::Fused(Arc::new(made)), inputs, ..node.clone() })
    }

    /// The edits of the other nodes of a cache. Dead code elimination removes those in between.
    fn edits(&self, cache: &Cache<'n>) -> Vec<Edit> {
        let mut edits = vec![(cache.read, None), (cache.assign, None)];
        for &stage in &cache.stages {
            let is_grown = Some(&stage) == cache.stages.last();
            let rows = if is_grown { cache.sizes[AXIS] } else { 0 };
            for &reader in &self.readers[stage] {
                let shape = self.node(reader).filter(|node| node.is::<ShapeOf>().is_some());
                let told = shape.and_then(|node| self.told(node, cache, rows));
                edits.extend(told.map(|node| (reader, Some(node))));
            }
        }
        edits
    }

    /// The shape of a variable with `rows` more rows.
    fn told(&self, node: &Node, cache: &Cache<'n>, rows: usize) -> Option<Node> {
        let mut inputs = Inputs::new();
        let cache = self.growing(cache, &mut inputs)?;
        let made: Arc<dyn FusedOp> = Arc::new(CacheShape { cache, rows });
        Some(Node { operation: Operation::Fused(made), inputs, ..node.clone() })
    }
}
