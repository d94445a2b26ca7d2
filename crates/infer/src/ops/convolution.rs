//! Convolution-1, GroupConvolution-1, ConvolutionBackpropData-1 and GroupConvolutionBackpropData-1:
//! convolutions and transposed convolutions over one to three spatial axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/convolution/convolution-1.html>

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::sizes;
use crate::rules::window::{Rounding, Window, Windows, outputs, parse, spatial};

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Convolution: filters are `[outputs, inputs, taps…]`.
    Plain,
    /// GroupConvolution: filters are `[groups, outputs, inputs, taps…]`.
    Grouped,
    /// ConvolutionBackpropData: filters are `[inputs, outputs, taps…]`.
    Backward,
    /// GroupConvolutionBackpropData: filters are `[groups, inputs, outputs, taps…]`.
    GroupedBackward,
}

/// An operation of this file.
#[derive(Debug)]
pub struct Convolution {
    kind: Kind,
    windows: Windows,
    /// Elements added at the end of each output axis, for transposed convolutions.
    extra: Vec<i64>,
}

impl Parse for Convolution {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let windows = parse(attrs, Some("dilations"))?;
        let axes = windows.len();
        if axes > 3 {
            return Err(AttrError::new("strides", format!("{axes} values; there are 1 to 3 axes")));
        }
        let mut extra = Vec::new();
        if kind.is_transposed() {
            extra = attrs.list_opt("output_padding")?.unwrap_or_default();
            if extra.is_empty() {
                extra = vec![0; axes];
            }
            let message = match extra.iter().find(|v| !(0..=1 << 31).contains(*v)) {
                Some(bad) => format!("{bad} is not in 0..=2147483648"),
                None if extra.len() != axes => {
                    format!("holds {} values, strides holds {axes}", extra.len())
                }
                None => String::new(),
            };
            if !message.is_empty() {
                return Err(AttrError::new("output_padding", message));
            }
        }
        Ok(Convolution { kind, windows, extra })
    }
}

impl Kind {
    /// Whether it is a transposed convolution.
    pub fn is_transposed(self) -> bool {
        matches!(self, Kind::Backward | Kind::GroupedBackward)
    }

    /// Whether the filters have a leading axis for groups.
    pub fn is_grouped(self) -> bool {
        matches!(self, Kind::Grouped | Kind::GroupedBackward)
    }
}

/// The dims of the filters.
struct Filters {
    groups: Dim,
    /// Input channels per group.
    inputs: Dim,
    /// Output channels per group.
    outputs: Dim,
    taps: Dims,
}

impl Convolution {
    /// Which operation it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The windows, one per spatial axis.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The padding of each spatial axis, before and after, for known sizes.
    pub fn pads(&self, data: &[i64], kernel: &[i64], output: &[i64]) -> Vec<(i64, i64)> {
        let axes = self.windows.iter().zip(data).zip(kernel).enumerate();
        let pads = |(i, ((window, size), kernel)): (usize, ((&Window, &i64), &i64))| {
            if !self.kind.is_transposed() {
                return window.pads(*size, *kernel);
            }
            let (extra, output) = (self.extra.get(i), output.get(i));
            let extra = extra.copied().unwrap_or(0);
            window.transposed_pads(*size, *kernel, output.copied().unwrap_or(0), extra)
        };
        axes.map(pads).collect()
    }

    fn filters(&self, shape: &PartialShape) -> Filters {
        let spatial = self.windows.len();
        let Some(dims) = shape.dims() else {
            let taps = self.windows.iter().map(|_| Dim::any()).collect();
            let groups = if self.kind.is_grouped() { Dim::any() } else { Dim::fixed(1) };
            return Filters { groups, inputs: Dim::any(), outputs: Dim::any(), taps };
        };
        let (head, taps) = dims.split_at(dims.len() - spatial);
        let (groups, pair) = match head {
            [groups, pair @ ..] if self.kind.is_grouped() => (*groups, pair),
            pair => (Dim::fixed(1), pair),
        };
        let (inputs, outputs) =
            if self.kind.is_transposed() { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
        Filters { groups, inputs, outputs, taps: taps.into() }
    }

    /// The number of groups: from the filters, or else from the channels of the data.
    fn groups(&self, filters: &Filters, channels: Dim) -> Dim {
        match (filters.groups.value(), channels.value(), filters.inputs.value()) {
            (None, Some(channels), Some(each)) if each > 0 && channels % each == 0 => {
                filters.groups.meet(Dim::fixed(channels / each)).unwrap_or(filters.groups)
            }
            _ => filters.groups,
        }
    }

    /// The spatial sizes of the output that an input gives.
    fn demanded(&self, cx: &mut InferCx<'_>) -> Result<Option<Dims>, RuleError> {
        if !self.kind.is_transposed() || cx.input_count() < 3 {
            return Ok(None);
        }
        cx.expect_type(2, "an integral type", |t| t.is_integral())?;
        cx.expect_rank(2, 1..=1)?;
        let axes = self.windows.len();
        let count = cx.shape(2).dim(0);
        require!(2; count.contains(Dim::of(axes).min()), "holds {count} sizes for {axes} axes");
        let Some(values) = cx.intervals(2) else {
            cx.because("the value of output_shape is unknown");
            return Ok(Some(std::iter::repeat_n(Dim::any(), axes).collect()));
        };
        values.iter().map(|v| sizes::size(2, *v)).collect::<Result<Dims, _>>().map(Some)
    }

    /// The shape of the output.
    pub(crate) fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let axes = self.windows.len();
        cx.expect_rank(0, axes + 2..=axes + 2)?;
        let head = if self.kind.is_grouped() { 3 } else { 2 };
        cx.expect_rank(1, axes + head..=axes + head)?;
        let (data, filters) = (cx.shape(0), self.filters(cx.shape(1)));
        let channels = data.dim(1);
        let groups = self.groups(&filters, channels);
        let expected = groups.times(filters.inputs);
        require!(
            0;
            expected.meet(channels).is_some(),
            "has {channels} channels, the filters are for {expected}"
        );
        // Any number of groups makes a multiple of the channels of one group.
        if let Some(each) = filters.inputs.value().filter(|each| *each > 0) {
            let fits = channels.div_exact(each).is_some();
            require!(0; fits, "has {channels} channels, not a multiple of the filters' {each}");
        }
        let spatial = spatial(data, &self.windows);
        let sizes = match (self.demanded(cx)?, self.kind.is_transposed()) {
            (Some(demanded), _) => demanded,
            (None, false) => outputs(&self.windows, &spatial, &filters.taps, Rounding::Floor)?,
            (None, true) => self.way_back(&spatial, &filters.taps)?,
        };
        let head = [data.dim(0), groups.times(filters.outputs)];
        Ok(head.into_iter().chain(sizes).collect())
    }

    fn way_back(&self, spatial: &Dims, taps: &Dims) -> Result<Dims, RuleError> {
        let axes = self.windows.iter().zip(spatial).zip(taps).zip(&self.extra);
        axes.map(|(((window, size), taps), extra)| {
            let out = window.transposed(*size, *taps, *extra);
            require!(out.max() >= 0, "padding leaves nothing of an axis of {size}");
            Ok(out)
        })
        .collect()
    }
}

impl Op for Convolution {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "filters", "output_shape"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(if self.kind.is_transposed() { 2..=3 } else { 2..=2 })?;
        let element_type = cx.same_number(0..2)?;
        let shape = self.shape(cx)?;
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(kind: &'static str, attrs: &[(&str, &str)]) -> Case {
        let given = |name: &str| attrs.iter().any(|(n, _)| *n == name);
        let mut case = Case::of(kind, "opset1");
        for (name, value) in
            [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "0,0"), ("pads_end", "0,0")]
        {
            if !given(name) {
                case = case.attr(name, value);
            }
        }
        attrs.iter().fold(case, |case, (name, value)| case.attr(name, value))
    }

    fn f(shape: &str) -> Input {
        Input::shape(F32, shape)
    }

    #[test]
    fn forward() {
        let plain = |attrs: &[(&str, &str)], data: &str, filters: &str, expected| {
            case("Convolution", attrs).inputs([f(data), f(filters)]).expect(&[expected]);
        };
        plain(&[], "1,3,224,224", "64,3,5,5", Ok("f32[1,64,220,220]"));
        plain(
            &[("strides", "2,1"), ("dilations", "1,2")],
            "?,3,9,9",
            "4,3,3,3",
            Ok("f32[?,4,4,5]"),
        );
        plain(
            &[("auto_pad", "same_upper"), ("strides", "2,2")],
            "1,?,9,?",
            "4,3,3,3",
            Ok("f32[1,4,5,?]"),
        );
        plain(&[("pads_begin", "1,1")], "1,3,4..8,?", "?,?,3,3", Ok("f32[1,?,3..7,1..]"));
        plain(&[], "...", "4,3,3,3", Ok("f32[?,4,1..,1..]"));
        plain(&[], "1,3,8,8", "...", Ok("f32[1,?,1..8,1..8]"));
        plain(
            &[],
            "1,3,8,8",
            "4,2,3,3",
            Err("input 0 (data): has 3 channels, the filters are for 2"),
        );
        plain(&[], "1,3,8", "4,2,3,3", Err("input 0 (data): must have rank 4, not 3"));
        plain(&[], "1,3,2,2", "4,3,3,3", Err("spatial axis 0: a window over 3 elements"));
        let grouped = |data: &str, filters: &str, expected| {
            case("GroupConvolution", &[]).inputs([f(data), f(filters)]).expect(&[expected]);
        };
        grouped("1,12,8,8", "4,2,3,5,5", Ok("f32[1,8,4,4]"));
        grouped("1,12,8,8", "?,2,3,5,5", Ok("f32[1,8,4,4]"));
        grouped("1,12,8,8", "4,2,2,5,5", Err("has 12 channels, the filters are for 8"));
        let odd = "has 11 channels, not a multiple of the filters' 2";
        grouped("1,11,8,8", "?,2,2,5,5", Err(odd));
        grouped("1,11..13,8,8", "?,2,2,5,5", Ok("f32[1,?,4,4]"));
    }

    #[test]
    fn backward() {
        let kind = "ConvolutionBackpropData";
        let back = |attrs: &[(&str, &str)], data: &str, expected| {
            case(kind, attrs).inputs([f(data), f("20,10,3,3")]).expect(&[expected]);
        };
        back(&[("strides", "2,2")], "1,20,224,224", Ok("f32[1,10,449,449]"));
        back(
            &[
                ("strides", "2,2"),
                ("pads_begin", "1,1"),
                ("pads_end", "1,1"),
                ("output_padding", "1,1"),
            ],
            "1,20,2,2",
            Ok("f32[1,10,4,4]"),
        );
        back(&[], "?,20,2..5,?", Ok("f32[?,10,4..7,3..]"));
        back(&[("output_padding", "1")], "1,20,2,2", Err("output_padding: holds 1 values"));
        let sized = |shape: Input, expected| {
            case(kind, &[("auto_pad", "same_lower"), ("strides", "2,2")])
                .inputs([f("1,20,224,224"), f("20,10,3,3"), shape])
                .expect(&[expected]);
        };
        sized(Input::ints(I64, &[450, 448]), Ok("f32[1,10,450,448]"));
        sized(Input::shape(I64, "2"), Ok("f32[1,10,?,?]"));
        sized(Input::bounds(I64, &[(3, 9), (-1, 8)]), Ok("f32[1,10,3..9,..8]"));
        sized(Input::ints(I64, &[4]), Err("input 2 (output_shape): holds 1 sizes for 2 axes"));
        case("GroupConvolutionBackpropData", &[("strides", "2,2")])
            .inputs([f("1,20,5,5"), f("4,5,2,3,3")])
            .expect(&[Ok("f32[1,8,11,11]")]);
    }
}
