//! DFT-7, IDFT-7, RDFT-9, IRDFT-9: discrete Fourier transforms along axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/signals/dft-7.html>

use crate::lattice::shape::Dims;
use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::axes;

/// The transforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Complex to complex.
    Dft,
    /// The inverse of [`Kind::Dft`].
    Idft,
    /// Real to complex; only the non-redundant half of the last axis.
    Rdft,
    /// The inverse of [`Kind::Rdft`].
    Irdft,
}

/// A transform.
#[derive(Debug)]
pub struct Fourier {
    kind: Kind,
}

impl Parse for Fourier {
    type Kind = Kind;

    fn parse(kind: Kind, _attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Fourier { kind })
    }
}

impl Fourier {
    /// The transform.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The axes of the transform, for data of this rank. A last axis of complex pairs does not
    /// count.
    ///
    /// # Errors
    /// When one is out of range or named twice.
    pub fn axes(&self, values: &[i64], rank: usize) -> Result<Vec<usize>, RuleError> {
        let rank = if self.kind == Kind::Rdft { rank } else { rank.saturating_sub(1) };
        Ok(axes::normalize_unique(values, rank, 1)?.to_vec())
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let Some(dims) = cx.shape(0).dims() else {
            return Ok(cx.unranked("the rank of the data is unknown"));
        };
        let mut out: Dims = dims.into();
        if self.kind != Kind::Rdft {
            let pair = out.pop().and_then(|last| last.meet(Dim::fixed(2)));
            require!(0; pair.is_some(), "is {}; the last axis must hold pairs", cx.shape(0));
        }
        let named = cx.shape(1).dim(0);
        require!(1; named.min() <= Dim::of(out.len()).min(), "names {named} of {} axes", out.len());
        match cx.ints(1) {
            Some(values) => {
                let axes = self.axes(&values, dims.len())?;
                let sizes = signal_sizes(cx, &axes, &out)?;
                for (i, (axis, size)) in axes.iter().zip(sizes).enumerate() {
                    out[*axis] = self.size(out[*axis], size, i + 1 == axes.len());
                }
            }
            None => {
                cx.because("the axes are known only when running");
                let whole = cx.input_count() < 3;
                out.iter_mut().for_each(|dim| *dim = self.maybe(*dim, whole));
            }
        }
        if self.kind != Kind::Irdft {
            out.push(Dim::fixed(2));
        }
        Ok(PartialShape::Ranked(out))
    }

    /// The size of an axis of `dim` elements that may be transformed or not, over all of its
    /// elements (`whole`) or over another number.
    fn maybe(&self, dim: Dim, whole: bool) -> Dim {
        if whole { dim.join(self.size(dim, None, true)) } else { Dim::any() }
    }

    /// The size of an axis of `dim` elements, transformed over `size` elements or all.
    fn size(&self, dim: Dim, size: Option<Dim>, last: bool) -> Dim {
        match (self.kind, size) {
            (Kind::Rdft, _) if last => {
                let size = size.unwrap_or(dim);
                let half = |n: i64| if n == 0 { 0 } else { n / 2 + 1 };
                let high = if size.is_bounded() { half(size.max()) } else { Dim::INF };
                Dim::range(half(size.min()), high).with_why(size.why())
            }
            (Kind::Irdft, None) if last => dim.offset(-1).scaled(2),
            (_, Some(size)) => size,
            (_, None) => dim,
        }
    }
}

/// The sizes of the transform; `None` for the whole axis.
fn signal_sizes(
    cx: &mut InferCx<'_>,
    axes: &[usize],
    dims: &[Dim],
) -> Result<Vec<Option<Dim>>, RuleError> {
    if cx.input_count() < 3 {
        return Ok(vec![None; axes.len()]);
    }
    let Some(values) = cx.intervals(2) else {
        cx.because("the signal sizes are known only when running");
        return Ok(vec![Some(Dim::any()); axes.len()]);
    };
    let size = |(value, axis): (&Interval, &usize)| {
        require!(2; value.hi >= -1, "holds the size {}", value.hi);
        Ok(match value.value() {
            Some(-1) => None,
            _ if value.lo >= 0 => Some(Dim::from(*value)),
            // -1 is possible and means the whole axis, which IRDFT doubles.
            _ => Some(Dim::from(*value).join(dims[*axis]).join(dims[*axis].scaled(2)).unlabelled()),
        })
    };
    values.iter().zip(axes).map(size).collect()
}

impl Op for Fourier {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axes", "signal_size"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=3)?;
        let element_type = cx.expect_type(0, "a real type", ElementType::is_real)?;
        cx.expect_rank(0, if self.kind == Kind::Rdft { 1 } else { 2 }..=usize::MAX)?;
        for input in 1..cx.input_count() {
            cx.expect_index(input)?;
            cx.expect_rank(input, 1..=1)?;
        }
        let (axes, sizes) = (cx.shape(1).dim(0), cx.shape(2).dim(0));
        require!(2; axes.meet(sizes).is_some(), "holds {sizes} sizes for {axes} axes");
        let shape = self.shape(cx)?;
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn run(kind: &'static str, data: &str, more: &[Input], expected: Result<&str, &str>) {
        let version = if kind.contains('R') { "opset9" } else { "opset7" };
        let inputs = [Input::shape(F32, data)].into_iter().chain(more.iter().cloned());
        Case::of(kind, version).inputs(inputs).expect(&[expected]);
    }

    fn i(values: &[i64]) -> Input {
        Input::ints(I64, values)
    }

    #[test]
    fn complex() {
        run("DFT", "?,4,6,2", &[i(&[1, -3])], Ok("f32[?,4,6,2]"));
        run("DFT", "3,4,6,?", &[i(&[2, 0]), i(&[-1, 9])], Ok("f32[9,4,6,2]"));
        run("IDFT", "3,4,2", &[i(&[0]), Input::shape(I64, "1")], Ok("f32[?,4,2]"));
        run("IDFT", "3,4,2", &[i(&[1]), Input::bounds(I64, &[(2, 5)])], Ok("f32[3,2..5,2]"));
        for axes in ["1", "?", "..."].map(|shape| Input::shape(I64, shape)) {
            run("IDFT", "3,4..6,?", std::slice::from_ref(&axes), Ok("f32[3,4..6,2]"));
            run("DFT", "3,4,2", &[axes, i(&[4])], Ok("f32[?,?,2]"));
        }
        for sizes in ["2", "?", "..."].map(|shape| Input::shape(I64, shape)) {
            run("DFT", "3,4,5,2", &[i(&[0, -1]), sizes], Ok("f32[?,4,?,2]"));
        }
        run("DFT", "...", &[i(&[0])], Ok("f32[...]"));
        run("DFT", "3,4,3", &[i(&[0])], Err("input 0 (data): is [3,4,3]; the last axis must"));
        run("DFT", "3,4,2", &[i(&[2])], Err("input 1 (axes): axis 2 is out of range for rank 2"));
        run("DFT", "3,4,2", &[i(&[1, -1])], Err("input 1 (axes): axis 1 is named twice"));
        run("DFT", "3,2", &[i(&[0]), i(&[1, 2])], Err("holds 2 sizes for 1 axes"));
        run("DFT", "...", &[Input::shape(I64, "1"), i(&[1, 2])], Err("holds 2 sizes for 1 axes"));
        run("DFT", "3,2", &[i(&[0]), i(&[-2])], Err("input 2 (signal_size): holds the size -2"));
        run("DFT", "2", &[i(&[0])], Err("input 0 (data): must have rank at least 2, not 1"));
    }

    #[test]
    fn real() {
        run("RDFT", "3,7..8", &[i(&[0, 1])], Ok("f32[3,4..5,2]"));
        run("RDFT", "?,8", &[i(&[1, 0]), i(&[-1, 5])], Ok("f32[3,8,2]"));
        run("RDFT", "3,8", &[i(&[-1]), i(&[0])], Ok("f32[3,0,2]"));
        let late = || Input::shape(I64, "?");
        run("RDFT", "3,8", &[late()], Ok("f32[2..3,5..8,2]"));
        run("IRDFT", "3,5,2", &[late()], Ok("f32[3..4,5..8]"));
        run("RDFT", "3,8", &[i(&[0]), late()], Ok("f32[?,8,2]"));
        run("IRDFT", "3,5,2", &[late(), late()], Ok("f32[?,?]"));
        run("RDFT", "8", &[i(&[0, 1])], Err("input 1 (axes): names 2 of 1 axes"));
        run("IRDFT", "3,5,2", &[i(&[0, 1])], Ok("f32[3,8]"));
        run("IRDFT", "3,?,2", &[i(&[1])], Ok("f32[3,?]"));
        run("IRDFT", "3,5,2", &[i(&[0, 1]), i(&[4, 9])], Ok("f32[4,9]"));
        run("IRDFT", "3,5,2", &[i(&[0]), Input::bounds(I64, &[(-1, 2)])], Ok("f32[..6,5]"));
    }
}
