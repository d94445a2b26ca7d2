//! Broadcast-1, Broadcast-3, Tile-1: a tensor repeated along axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/broadcast-3.html>

use crate::lattice::shape::Dims;
use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::axes;
use crate::rules::broadcast::{merge, numpy};
use crate::rules::interval::positions;
use crate::rules::sizes;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Modes numpy, explicit and pdpd.
    V1,
    /// With mode bidirectional.
    V3,
}

/// How the data is aligned with the target shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At the last axes; sizes of 1 are broadcast.
    Numpy,
    /// By a list of target axes, one for each axis of the data.
    Explicit,
    /// Both shapes may be broadcast.
    Bidirectional,
    /// From an axis of the target on; -1 for its last axes.
    Pdpd(i64),
}

/// Broadcast-1 and Broadcast-3.
#[derive(Debug)]
pub struct Broadcast {
    mode: Mode,
}

impl Parse for Broadcast {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mut modes = vec![
            ("numpy", Mode::Numpy),
            ("explicit", Mode::Explicit),
            ("none", Mode::Explicit),
            ("pdpd", Mode::Pdpd(-1)),
        ];
        if kind == Kind::V3 {
            modes.push(("bidirectional", Mode::Bidirectional));
        }
        let mode = attrs.choice_or("mode", &modes, Mode::Numpy)?;
        // The name in the specification, and those that OpenVINO's writer uses.
        let mut axis = attrs.int_or("axis", -1)?;
        for name in ["mode.auto_broadcast_axis", "mode.mode.axis"] {
            axis = attrs.int_or(name, axis)?;
        }
        Ok(Broadcast { mode: if mode == Mode::Pdpd(-1) { Mode::Pdpd(axis) } else { mode } })
    }
}

impl Broadcast {
    /// The axis of the target for each axis of the data.
    ///
    /// # Errors
    /// When the data cannot be broadcast to the target.
    pub fn mapping(
        &self,
        rank: usize,
        target: usize,
        explicit: Option<&[i64]>,
    ) -> Result<Vec<usize>, RuleError> {
        let start = match (self.mode, explicit) {
            (Mode::Explicit, Some(list)) => {
                let mapped = axes::normalize_unique(list, target, 2)?;
                // OpenVINO writes an axis for a scalar too, as for one element.
                if rank == 0 && mapped.len() == 1 {
                    return Ok(Vec::new());
                }
                require!(
                    2; mapped.len() == rank,
                    "holds {} axes, but the data has rank {rank}", mapped.len()
                );
                let rising = mapped.windows(2).all(|w| w.first() < w.last());
                require!(2; rising, "the axes {list:?} must rise");
                return Ok(mapped.to_vec());
            }
            (Mode::Pdpd(axis), _) if axis >= 0 => usize::try_from(axis).ok(),
            _ => target.checked_sub(rank),
        };
        let start = start.filter(|s| s + rank <= target);
        require!(start.is_some(), "data of rank {rank} does not fit a target of rank {target}");
        Ok((0..rank).map(|axis| axis + start.unwrap_or(0)).collect())
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let target = sizes::shape(cx, 1, "the target shape is known only when running")?;
        let data = cx.shape(0);
        let (Some(d), Some(t)) = (data.dims(), target.dims()) else {
            return Ok(match self.mode {
                Mode::Bidirectional => PartialShape::unranked(),
                _ => target,
            });
        };
        if self.mode == Mode::Bidirectional {
            return numpy(data, &target, cx.symbols());
        }
        // OpenVINO accepts axes that the mode does not use.
        let explicit = cx.ints(2).filter(|_| self.mode == Mode::Explicit);
        if self.mode == Mode::Explicit && explicit.is_none() {
            return Ok(target);
        }
        let mapping = self.mapping(d.len(), t.len(), explicit.as_deref())?;
        if let (true, Some([axis])) = (d.is_empty(), explicit.as_deref()) {
            let axis = axes::normalize_of(2, *axis, t.len())?;
            let size = target.dim(axis);
            require!(2; size.contains(1), "names axis {axis} of {target} for a scalar: it must be 1");
        }
        let mut out: Dims = t.into();
        for (dim, axis) in d.iter().zip(mapping) {
            let Some(slot) = out.get_mut(axis) else { continue };
            let merged = merge(*dim, *slot, cx.symbols()).filter(|m| m.meet(*slot).is_some());
            let fits = merged.is_some() && (dim.contains(1) || dim.meet(*slot).is_some());
            require!(fits, "data {data} cannot be repeated to {target}: {dim} is not 1 or {slot}");
            // A data size other than 1 determines an unknown target size.
            if !slot.is_static() && !dim.contains(1) {
                *slot = dim.meet(*slot).unwrap_or(*slot);
            }
        }
        Ok(PartialShape::Ranked(out))
    }
}

impl Op for Broadcast {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "target_shape", "axes_mapping"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let inputs = if self.mode == Mode::Explicit { 3 } else { 2 };
        // OpenVINO accepts axes that the mode does not use.
        cx.expect_inputs(inputs..=3)?;
        cx.expect_integer(1)?;
        cx.expect_rank(1, 1..=1)?;
        if cx.input_count() == 3 {
            cx.expect_integer(2)?;
        }
        let shape = self.shape(cx)?;
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0)?;
        let sizes = cx.sizes();
        let mut aligned = vec![1; sizes.len()];
        let explicit = cx.ints(2);
        let mapping = self.mapping(data.sizes.len(), sizes.len(), explicit.as_deref()).ok()?;
        for (size, axis) in data.sizes.iter().zip(mapping) {
            *aligned.get_mut(axis)? = *size;
        }
        data.gathered(&sizes, positions(&sizes, &aligned)?.into_iter())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

/// Tile-1: repeats each axis a number of times.
///
/// <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/tile-1.html>
#[derive(Debug)]
pub struct Tile;

no_attributes!(Tile);

impl Op for Tile {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "repeats"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_whole(1)?;
        cx.expect_rank(1, 0..=1)?;
        let repeats = cx.intervals(1);
        let count = cx.shape(1).volume().size();
        let shape = match (cx.shape(0).dims(), repeats, count) {
            (Some(dims), Some(repeats), _) => {
                let rank = dims.len().max(repeats.len());
                let one = Interval::exact(1);
                let dim = |axis: usize| {
                    let data = axis.checked_sub(rank - dims.len()).and_then(|i| dims.get(i));
                    let times = axis.checked_sub(rank - repeats.len()).and_then(|i| repeats.get(i));
                    let times = times.copied().unwrap_or(one);
                    // A negative number of repeats gives an empty axis, as in OpenVINO.
                    let times = if times.hi < 0 { Dim::fixed(0) } else { Dim::from(times) };
                    data.copied().unwrap_or(Dim::fixed(1)).times(times)
                };
                (0..rank).map(dim).collect()
            }
            (Some(dims), None, Some(count)) => {
                cx.because("the repeats are known only when running");
                PartialShape::of_rank(dims.len().max(count))
            }
            _ => cx.unranked("the rank of the result is known only when running"),
        };
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0)?;
        let [size] = cx.sizes()[..] else { return None };
        let len = data.len().max(1);
        data.gathered(&[size], (0..size).map(|i| i % len))
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn broadcast() {
        let i = |v: &[i64]| Input::ints(I64, v);
        let case = |mode: &str, shape, target: Input| {
            let inputs = [Input::shape(F32, shape), target];
            Case::of("Broadcast", "opset3").attr("mode", mode).inputs(inputs)
        };
        for (mode, shape, target, expected) in [
            ("numpy", "3,1", i(&[2, 3, 4]), Ok("f32[2,3,4]")),
            ("numpy", "3", i(&[2, 4]), Err("data [3] cannot be repeated to [2,4]: 3 is not 1")),
            ("numpy", "2,3", i(&[3]), Err("data of rank 2 does not fit a target of rank 1")),
            ("numpy", "1", i(&[-2]), Err("input 1 (target_shape): -2 is not a size")),
            ("numpy", "1,2", Input::shape(I64, "3"), Ok("f32[?,?,2]")),
            ("bidirectional", "3,1", i(&[1, 4]), Ok("f32[3,4]")),
            ("bidirectional", "...", i(&[1, 4]), Ok("f32[...]")),
            ("pdpd", "3,4", i(&[2, 3, 4]), Ok("f32[2,3,4]")),
        ] {
            case(mode, shape, target).expect(&[expected]);
        }
        let explicit = |mapping: &[i64]| {
            let inputs = [Input::shape(F32, "3,1"), i(&[3, 5, 4]), i(mapping)];
            Case::of("Broadcast", "opset1").attr("mode", "explicit").inputs(inputs)
        };
        let scalar = |target: &[i64], mapping: &[i64]| {
            let inputs = [Input::shape(F32, "[]"), i(target), i(mapping)];
            Case::of("Broadcast", "opset3").attr("mode", "explicit").inputs(inputs)
        };
        scalar(&[3, 2], &[]).expect(&[Ok("f32[3,2]")]);
        scalar(&[1, 2], &[0]).expect(&[Ok("f32[1,2]")]);
        scalar(&[3, 2], &[0]).expect(&[Err("axis 0 of [3,2] for a scalar: it must be 1")]);
        let unused = [Input::shape(F32, "[]"), i(&[3, 2]), i(&[0])];
        Case::of("Broadcast", "opset1").inputs(unused).expect(&[Ok("f32[3,2]")]);
        scalar(&[1, 1], &[0, 1]).expect(&[Err("holds 2 axes, but the data has rank 0")]);
        let pdpd = [Input::shape(F32, "3,1"), i(&[2, 3, 6])];
        for (version, axis) in
            [("opset1", "mode.auto_broadcast_axis"), ("opset3", "mode.mode.axis")]
        {
            let case = Case::of("Broadcast", version).attr("mode", "pdpd").attr(axis, "1");
            case.inputs(pdpd.clone()).expect(&[Ok("f32[2,3,6]")]);
        }
        explicit(&[0, 2]).expect(&[Ok("f32[3,5,4]")]);
        explicit(&[2, 0]).expect(&[Err("the axes [2, 0] must rise")]);
        explicit(&[0]).expect(&[Err("holds 1 axes, but the data has rank 2")]);
    }

    #[test]
    fn tile() {
        let case = |shape, repeats: Input| {
            Case::of("Tile", "opset1").inputs([Input::shape(F32, shape), repeats])
        };
        case("2,?", Input::ints(I64, &[3, 1])).expect(&[Ok("f32[6,?]")]);
        case("2", Input::ints(I64, &[2, 3])).expect(&[Ok("f32[2,6]")]);
        case("2,3", Input::bounds(I64, &[(1, 4)])).expect(&[Ok("f32[2,3..12]")]);
        case("2,3", Input::shape(I64, "3")).expect(&[Ok("f32[?,?,?]")]);
    }
}
