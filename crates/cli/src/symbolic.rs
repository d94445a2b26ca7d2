//! Names for the open sizes of inputs: `--shape 'x[N,3,H,W]'`, `--set N=4`, and shapes of all
//! layers as expressions of such names.

use crate::bind::Declared;
use crate::expression::{Expression, Sample, find};
use crate::finding::Finding;
use crate::text::nearest;
use anyhow::{Result, bail, ensure};
use infer::{Dim, Facts, Inputs, PartialShape};
use ir::{Graph, OutputRef, Severity};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// What `irrun check --symbolic --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// The layers that are listed.
    pub layers: Vec<LayerReport>,
    /// With how many choices of sizes the shapes were tested.
    pub tested: usize,
    /// Choices of sizes that were tried and do not work, such as `H=9, W=224`: of these the
    /// expressions say nothing.
    pub refused: Vec<String>,
    /// What is wrong whatever the sizes are; with an error no layers are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) findings: Vec<Finding>,
}

/// A layer with its shapes as expressions.
#[derive(Serialize, JsonSchema)]
pub struct LayerReport {
    /// Its id.
    pub layer: u64,
    /// Its type and opset.
    #[serde(rename = "type")]
    pub op_type: String,
    /// Its name.
    pub name: String,
    /// Type and shape of each output, such as `f32[N,4·M]`.
    pub outputs: Vec<String>,
}

impl LayerReport {
    /// A row of the table.
    pub fn row(self) -> Vec<String> {
        vec![self.layer.to_string(), self.op_type, self.name, self.outputs.join("  ")]
    }
}

/// Sizes that are tried for a name, the first that work as the base.
const BASES: [i64; 9] = [224, 128, 64, 32, 16, 8, 4, 2, 1];
/// Sizes that are tried beside the base: neighbours, which tell how a quotient is rounded, and
/// multiples of what models divide by.
const STEPS: [i64; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 32, 49, 64, 96, 128, 224];
/// Runs in which several sizes differ.
const SIZES_TRIED: usize = 6;

/// Puts the sizes that `--set` gives in the place of names in shapes.
///
/// # Errors
/// When a name has no size, or a size no name.
pub fn substituted(shapes: &[String], sets: &[String]) -> Result<Vec<String>> {
    let mut sizes: HashMap<&str, (&str, bool)> = HashMap::new();
    for set in sets {
        let Some((name, size)) = set.split_once('=') else {
            bail!("--set {set} is not of the form N=4");
        };
        let (name, size) = (name.trim(), size.trim());
        ensure!(is_name(name), "--set {set}: \"{name}\" is no name; it begins with a letter");
        ensure!(size.parse::<u64>().is_ok(), "--set {set}: \"{size}\" is no size");
        ensure!(sizes.insert(name, (size, false)).is_none(), "--set: {name} is given twice");
    }
    let mut out = Vec::with_capacity(shapes.len());
    for shape in shapes {
        out.push(replaced(shape, |name| {
            let known: Vec<&str> = sizes.keys().copied().collect();
            match sizes.get_mut(name) {
                Some((size, used)) => {
                    *used = true;
                    Ok((*size).to_owned())
                }
                None => match nearest(name, known.iter().copied()) {
                    Some(near) => bail!("{shape}: {name} has no size; did you mean {near}?"),
                    None => bail!("{shape}: {name} has no size; give --set {name}=…"),
                },
            }
        })?);
    }
    if let Some((name, _)) = sizes.iter().find(|(_, (_, used))| !used) {
        bail!("--set {name}: no --shape names {name}; write --shape 'INPUT[{name},…]'");
    }
    Ok(out)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A flag of shapes in which each name between brackets has been replaced.
fn replaced(shape: &str, mut size: impl FnMut(&str) -> Result<String>) -> Result<String> {
    let mut out = String::new();
    let mut rest = shape;
    while let Some(open) = rest.find('[') {
        let close = rest[open..].find(']').map_or(rest.len(), |i| open + i);
        out.push_str(&rest[..=open]);
        for (i, dim) in rest[open + 1..close].split(',').enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let dim = dim.trim();
            let dim = if is_name(dim) { size(dim)? } else { dim.to_owned() };
            out.push_str(&format!("{comma}{dim}"));
        }
        rest = &rest[close..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Shapes of flags in which each name is any size.
///
/// # Errors
/// As those of other flags.
pub fn opened(shapes: &[String]) -> Result<Vec<String>> {
    shapes.iter().map(|shape| replaced(shape, |_| Ok("?".to_owned()))).collect()
}

/// The names in the shapes of flags, each once, in order.
fn names_in(shapes: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for shape in shapes {
        let _ = replaced(shape, |name| {
            if !names.iter().any(|n| n == name) {
                names.push(name.to_owned());
            }
            Ok(String::new())
        });
    }
    names
}

/// Choices of sizes that were tried, one size for each name.
#[derive(Default)]
pub struct Runs {
    /// Those that work, with what is known there.
    pub working: Vec<(Vec<i64>, Facts)>,
    /// Those that do not.
    pub refused: Vec<Vec<i64>>,
}

/// The inputs of a model with names for their open sizes.
pub struct Symbols {
    /// The names.
    pub names: Vec<String>,
    /// For each input the shape, and for each name the places where it stands.
    shapes: Vec<PartialShape>,
    places: Vec<Vec<(usize, usize)>>,
}

impl Symbols {
    /// Names from flags, where they have any; else a letter for each open size: N for the first,
    /// then H and W of images, L of sequences.
    ///
    /// # Errors
    /// When a flag is not of its form.
    pub fn new(graph: &Graph, shapes: &[String]) -> Result<Symbols, crate::exit::Failure> {
        use crate::exit::{Exit, OrExit};
        let names = names_in(shapes);
        // Each name by a size of its own, which is found again in the shapes.
        let mark = |name: usize| i64::MAX / 2 + i64::try_from(name).unwrap_or(0);
        let marked: Result<Vec<String>> = shapes
            .iter()
            .map(|shape| {
                replaced(shape, |name| {
                    let at = names.iter().position(|n| n == name).unwrap_or(0);
                    Ok(mark(at).to_string())
                })
            })
            .collect();
        let declared = Declared::new(graph, &marked.or_exit(Exit::Usage)?)?;
        let mut symbols = Symbols {
            places: vec![Vec::new(); names.len()],
            names,
            shapes: declared.shapes.clone(),
        };
        for (input, shape) in declared.shapes.iter().enumerate() {
            let dims = shape.dims().unwrap_or_default();
            for (axis, dim) in dims.iter().enumerate() {
                let known = (0..symbols.names.len()).find(|i| dim.value() == Some(mark(*i)));
                let name = match (known, dim.is_static()) {
                    (Some(name), _) => name,
                    (None, true) => continue,
                    (None, false) => symbols.name(axis, dims.len()),
                };
                symbols.places[name].push((input, axis));
            }
        }
        Ok(symbols)
    }

    fn name(&mut self, axis: usize, rank: usize) -> usize {
        let name = match (axis, rank) {
            (0, _) => "N".to_owned(),
            (1, 2 | 3) => "L".to_owned(),
            (2, 4) => "H".to_owned(),
            (3, 4) => "W".to_owned(),
            _ => format!("D{axis}"),
        };
        if let Some(known) = self.names.iter().position(|n| *n == name) {
            return known;
        }
        self.names.push(name);
        self.places.push(Vec::new());
        self.names.len() - 1
    }

    /// Sizes for the names as people read them: `H=9, W=224`.
    pub fn text(&self, sizes: &[i64]) -> String {
        let pairs = self.names.iter().zip(sizes);
        pairs.map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(", ")
    }

    /// What inputs are when the names stand for these sizes.
    pub fn shapes(&self, sizes: &[i64]) -> Vec<PartialShape> {
        let mut shapes = self.shapes.clone();
        for (places, size) in self.places.iter().zip(sizes) {
            for &(input, axis) in places {
                let shape = std::mem::replace(&mut shapes[input], PartialShape::scalar());
                shapes[input] = shape.with_dim(axis, Dim::fixed(*size));
            }
        }
        shapes
    }

    /// What is known of a graph at these sizes; `None` where they break a rule.
    fn facts(&self, graph: &Graph, sizes: &[i64]) -> Option<Facts> {
        let analysis = infer::analyse(graph, &Inputs::shapes(self.shapes(sizes)));
        let errors = analysis.findings.iter().any(|f| f.severity == Severity::Error);
        (!errors).then_some(analysis.facts)
    }

    /// Whether an open dim of the model allows a size.
    fn allows(&self, name: usize, size: i64) -> bool {
        self.places[name].iter().all(|&(input, axis)| {
            let dim = self.shapes[input].dim(axis);
            dim.is_static() || dim.contains(size)
        })
    }

    /// Sizes that were tried: those at which the graph works with what is known there, the base
    /// first, and those at which it does not.
    pub fn runs(&self, graph: &Graph) -> Runs {
        let bounded = |base: i64| -> Vec<i64> {
            let size = |name| (1..=base).rev().find(|size| self.allows(name, *size));
            (0..self.names.len()).map(|name| size(name).unwrap_or(base)).collect()
        };
        let base = BASES.into_iter().map(bounded).find_map(|b| Some((self.facts(graph, &b)?, b)));
        let Some((facts, base)) = base else { return Runs::default() };
        let mut runs = Runs { working: vec![(base.clone(), facts)], refused: Vec::new() };
        let mut works: Vec<Vec<i64>> = vec![Vec::new(); self.names.len()];
        for name in 0..self.names.len() {
            for size in STEPS.iter().flat_map(|step| [base[name] + step, base[name] - step]) {
                let mut sizes = base.clone();
                sizes[name] = size;
                if size < 1 || !self.allows(name, size) {
                    continue;
                }
                match self.facts(graph, &sizes) {
                    Some(facts) => {
                        works[name].push(size);
                        runs.working.push((sizes, facts));
                    }
                    None => runs.refused.push(sizes),
                }
            }
        }
        for k in 0..SIZES_TRIED {
            let size = |name: usize| match works[name].len() {
                0 => base[name],
                n => works[name][(k * 5 + name * 3) % n],
            };
            let sizes: Vec<i64> = (0..self.names.len()).map(size).collect();
            if runs.working.iter().any(|(known, _)| *known == sizes) {
                continue;
            }
            match self.facts(graph, &sizes) {
                Some(facts) => runs.working.push((sizes, facts)),
                None => runs.refused.push(sizes),
            }
        }
        runs
    }
}

/// The shape of a tensor as expressions: `f32[N,(H/4)·(W/4),96]`. What has no size in every run is
/// `?`.
pub fn shape(runs: &[(Vec<i64>, Facts)], tensor: OutputRef, names: &[String]) -> String {
    let Some(fact) = runs.first().and_then(|(_, facts)| facts.output(tensor)) else {
        return "?".to_owned();
    };
    let Some(rank) = fact.shape.rank() else { return fact.to_string() };
    let dim = |axis: usize| match expression(runs, tensor, axis) {
        Some(expression) => expression.text(names),
        None => "?".to_owned(),
    };
    let dims: Vec<String> = (0..rank).map(dim).collect();
    format!("{}[{}]", fact.element_type, dims.join(","))
}

/// The expression of one dim; `None` where it is not known in every run.
pub fn expression(
    runs: &[(Vec<i64>, Facts)],
    tensor: OutputRef,
    axis: usize,
) -> Option<Expression> {
    let sample = |(sizes, facts): &(Vec<i64>, Facts)| -> Option<Sample> {
        let dim = facts.output(tensor)?.shape.dims()?.get(axis)?.value()?;
        Some((sizes.clone(), dim))
    };
    Some(find(&runs.iter().map(sample).collect::<Option<Vec<_>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|t| (*t).to_owned()).collect()
    }

    #[test]
    fn names_are_replaced_by_their_sizes() {
        let out = substituted(&texts(&["x[N,3,H,2..8],y[N]"]), &texts(&["N=4", "H=7"])).unwrap();
        assert_eq!(out, ["x[4,3,7,2..8],y[4]"]);
        for (shape, set, message) in [
            ("x[N]", "M=4", "x[N]: N has no size; give --set N=…"),
            ("x[Batch]", "Batc=4", "x[Batch]: Batch has no size; did you mean Batc?"),
            ("x[1]", "N=4", "--set N: no --shape names N; write --shape 'INPUT[N,…]'"),
            ("x[N]", "N=a", "--set N=a: \"a\" is no size"),
            ("x[N]", "4", "--set 4 is not of the form N=4"),
        ] {
            let error = substituted(&texts(&[shape]), &texts(&[set])).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn shapes_of_a_small_graph() {
        let mut g = ir::GraphBuilder::new("g");
        let x = g.parameter("x", ir::ElementType::F32, "?,3,?,?");
        let y = g
            .layer("MaxPool", "opset1")
            .attributes(&[
                ("kernel", "3,3"),
                ("strides", "2,2"),
                ("pads_begin", "1,1"),
                ("pads_end", "1,1"),
                ("rounding_type", "floor"),
            ])
            .inputs(&[x])
            .output();
        let pattern = g.constant_i64(&[0, 3, -1]);
        let z = g
            .layer("Reshape", "opset1")
            .attribute("special_zero", "true")
            .inputs(&[y, pattern])
            .output();
        g.result("z", z);
        let graph = g.finish().unwrap();
        let symbols = Symbols::new(&graph, &[]).unwrap();
        assert_eq!(symbols.names, ["N", "H", "W"]);
        let Runs { working: runs, refused } = symbols.runs(&graph);
        assert!(refused.is_empty());
        assert_eq!(shape(&runs, y, &symbols.names), "f32[N,3,⌈H/2⌉,⌈W/2⌉]");
        assert_eq!(shape(&runs, z, &symbols.names), "f32[N,3,⌈H/2⌉·⌈W/2⌉]");
        // Sizes that no run has had.
        let facts = symbols.facts(&graph, &[5, 77, 90]).unwrap();
        let expression = expression(&runs, z, 2).unwrap();
        let dim = facts.output(z).unwrap().shape.dim(2).value();
        assert_eq!(expression.value(&[5, 77, 90]), dim);
    }
}
