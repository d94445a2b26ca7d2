//! Sliding windows over spatial axes, as in pooling, convolution, transposed convolution and patch
//! extraction. Each axis has a [`Window`]; its number of taps comes from an attribute or, for
//! convolutions, from the filter.

use crate::lattice::dim::Dim;
use crate::lattice::shape::{Dims, PartialShape};
use crate::rule::attrs::Attrs;
use crate::rule::error::{AttrError, RuleError};
use smallvec::SmallVec;

/// What happens to the remainder if the stride does not divide an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// It is dropped.
    Floor,
    /// It gets one more window, even if that window covers padding only.
    Ceil,
    /// As [`Rounding::Ceil`], but the last window must not begin in the padding at the end.
    CeilTorch,
}

/// The padding of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// These numbers of elements, before and after.
    Explicit(i64, i64),
    /// As many as `ceil(size / stride)` windows need; an odd one is added at the end.
    SameUpper,
    /// As [`Padding::SameUpper`], but an odd one is added at the beginning.
    SameLower,
}

/// A window on one axis, without its number of taps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Distance between windows, at least 1.
    pub stride: i64,
    /// Distance between the taps of a window, at least 1.
    pub dilation: i64,
    /// The padding of the axis.
    pub padding: Padding,
}

/// One window for each spatial axis.
pub type Windows = SmallVec<[Window; 3]>;

/// Attributes up to this cannot overflow sums and products of sizes.
const MAX_VALUE: i64 = 0x7fff_ffff;

/// Reads `strides`, `pads_begin`, `pads_end` and `auto_pad`, and the attribute `dilations` if the
/// operation has one. Only `strides` is required; it gives the number of spatial axes.
///
/// # Errors
/// When one is malformed, out of range, or of another length than `strides`.
pub fn parse(attrs: &mut Attrs<'_>, dilations: Option<&str>) -> Result<Windows, AttrError> {
    parse_or(attrs, dilations, 0)
}

/// As [`parse`], with strides of 1 on `axes` axes by default.
///
/// # Errors
/// As [`parse`].
pub fn parse_or(
    attrs: &mut Attrs<'_>,
    dilations: Option<&str>,
    axes: usize,
) -> Result<Windows, AttrError> {
    let strides = values(attrs, "strides", 1)?.filter(|v| !v.is_empty());
    let strides = strides.unwrap_or_else(|| vec![1; axes]);
    if strides.is_empty() {
        return Err(AttrError::new("strides", "is missing"));
    }
    let axes = strides.len();
    let dilations = match dilations {
        Some(name) => per_axis(attrs, name, 1, axes)?,
        None => vec![1; axes],
    };
    let begin = per_axis(attrs, "pads_begin", 0, axes)?;
    let end = per_axis(attrs, "pads_end", 0, axes)?;
    #[derive(Clone, Copy)]
    enum Auto {
        Explicit,
        Valid,
        Same(Padding),
    }
    let words = [
        ("explicit", Auto::Explicit),
        ("notset", Auto::Explicit),
        ("valid", Auto::Valid),
        ("same_upper", Auto::Same(Padding::SameUpper)),
        ("same_lower", Auto::Same(Padding::SameLower)),
    ];
    let auto = attrs.choice_or("auto_pad", &words, Auto::Explicit)?;
    let pads = begin.into_iter().zip(end);
    let windows = strides.into_iter().zip(dilations).zip(pads);
    let window = |((stride, dilation), (begin, end))| Window {
        stride,
        dilation,
        padding: match auto {
            Auto::Explicit => Padding::Explicit(begin, end),
            Auto::Valid => Padding::Explicit(0, 0),
            Auto::Same(padding) => padding,
        },
    };
    Ok(windows.map(window).collect())
}

/// Reads the number of taps on each axis.
///
/// # Errors
/// When it is missing, out of range, or of another length than `strides`.
pub fn kernel(attrs: &mut Attrs<'_>, name: &str, axes: usize) -> Result<Vec<i64>, AttrError> {
    let kernel = values(attrs, name, 1)?.ok_or_else(|| AttrError::new(name, "is missing"))?;
    same_length(name, kernel, axes)
}

/// Reads `rounding_type`; versions with `has_torch` also know `ceil_torch`.
///
/// # Errors
/// When it is another word.
pub fn rounding(attrs: &mut Attrs<'_>, has_torch: bool) -> Result<Rounding, AttrError> {
    let words =
        [("floor", Rounding::Floor), ("ceil", Rounding::Ceil), ("ceil_torch", Rounding::CeilTorch)];
    let words = if has_torch { &words[..] } else { &words[..2] };
    attrs.choice_or("rounding_type", words, Rounding::Floor)
}

/// A list of numbers, each at least `least`.
fn values(attrs: &mut Attrs<'_>, name: &str, least: i64) -> Result<Option<Vec<i64>>, AttrError> {
    let values = attrs.list_opt::<i64>(name)?;
    let bad = values.iter().flatten().find(|v| !(least..=MAX_VALUE).contains(v));
    match bad {
        Some(bad) => Err(AttrError::new(name, format!("{bad} is not in {least}..={MAX_VALUE}"))),
        None => Ok(values),
    }
}

/// A list with one number per axis; all are `least` if the list is absent or empty.
fn per_axis(
    attrs: &mut Attrs<'_>,
    name: &str,
    least: i64,
    axes: usize,
) -> Result<Vec<i64>, AttrError> {
    let found = values(attrs, name, least)?.filter(|v| !v.is_empty());
    same_length(name, found.unwrap_or_else(|| vec![least; axes]), axes)
}

fn same_length(name: &str, values: Vec<i64>, axes: usize) -> Result<Vec<i64>, AttrError> {
    if values.len() == axes {
        return Ok(values);
    }
    let message = format!("holds {} values, strides holds {axes}", values.len());
    Err(AttrError::new(name, message))
}

/// The spatial axes, which follow the first two of a shape.
pub fn spatial(shape: &PartialShape, windows: &[Window]) -> Dims {
    (2..windows.len() + 2).map(|axis| shape.dim(axis)).collect()
}

/// The number of windows on each of these spatial axes.
///
/// # Errors
/// When no window fits an axis; the message names the first.
pub fn outputs(
    windows: &[Window],
    spatial: &[Dim],
    kernel: &[Dim],
    rounding: Rounding,
) -> Result<Dims, RuleError> {
    let axes = windows.iter().zip(spatial).zip(kernel).enumerate();
    let count = |(axis, ((window, size), kernel)): (usize, ((&Window, &Dim), &Dim))| {
        let stamp = |e: RuleError| RuleError::new(format!("spatial axis {axis}: {e}"));
        window.output(*size, *kernel, rounding).map_err(stamp)
    };
    axes.map(count).collect()
}

impl Window {
    /// Elements from the first tap of a window to the last, both included.
    pub fn extent(self, kernel: Dim) -> Dim {
        kernel.offset(-1).scaled(self.dilation).offset(1)
    }

    /// The padding before and after, for an axis of known size.
    pub fn pads(self, size: i64, kernel: i64) -> (i64, i64) {
        if let Padding::Explicit(begin, end) = self.padding {
            return (begin, end);
        }
        let last = self.covering(size).saturating_sub(1).saturating_mul(self.stride);
        let extent = self.extent(Dim::fixed(kernel)).min();
        self.halves(last.saturating_add(extent).saturating_sub(size).max(0), Padding::SameLower)
    }

    /// The padding that crops the output of a transposed convolution to `output`, with `extra`
    /// elements at the end. Without a target size there is none.
    pub fn transposed_pads(self, size: i64, kernel: i64, output: i64, extra: i64) -> (i64, i64) {
        if let Padding::Explicit(begin, end) = self.padding {
            return (begin, end);
        }
        let full = self.full(Dim::fixed(size), Dim::fixed(kernel)).min();
        let total = full.saturating_add(extra).saturating_sub(output).max(0);
        self.halves(total, Padding::SameUpper)
    }

    /// The number of windows along an axis.
    ///
    /// # Errors
    /// When no window fits.
    pub fn output(self, size: Dim, kernel: Dim, rounding: Rounding) -> Result<Dim, RuleError> {
        let extent = self.extent(kernel);
        match self.padding {
            Padding::Explicit(begin, end) => self.between(size, extent, (begin, end), rounding),
            _ if rounding == Rounding::Ceil => Ok(bounds(size, extent, |size, extent| {
                // Windows with gaps between them may leave a remainder that the padding ignores.
                let n = self.covering(size);
                let reach = (n - 1).saturating_mul(self.stride).saturating_add(extent);
                n + i64::from(n > 0 && reach < size)
            })),
            _ => Ok(size.div_ceil(self.stride)),
        }
    }

    /// How many windows fit an axis with its padding.
    fn between(
        self,
        size: Dim,
        extent: Dim,
        (begin, end): (i64, i64),
        rounding: Rounding,
    ) -> Result<Dim, RuleError> {
        // An unknown size is assumed to fit at least one window.
        let least = extent.min().saturating_sub(begin + end);
        let Some(size) = size.meet(Dim::range(least, Dim::INF)) else {
            return Err(RuleError::new(format!(
                "a window over {extent} elements does not fit into {size}, padded by {begin} and {end}"
            )));
        };
        if self.stride == 1 && extent.value() == Some(begin + end + 1) {
            return Ok(size);
        }
        Ok(bounds(size, extent, |size, extent| {
            let padded = size.saturating_add(begin + end);
            let rest = padded.saturating_sub(extent).max(0);
            let ceil = div_ceil(rest, self.stride);
            match rounding {
                Rounding::Floor => rest / self.stride + 1,
                Rounding::Ceil => ceil + 1,
                Rounding::CeilTorch => {
                    let inside = ceil.saturating_mul(self.stride) < size.saturating_add(begin);
                    ceil + i64::from(inside)
                }
            }
        }))
    }

    /// The output size of a transposed convolution, with `extra` elements more than its windows
    /// cover.
    pub fn transposed(self, size: Dim, kernel: Dim, extra: i64) -> Dim {
        let pads = match self.padding {
            Padding::Explicit(begin, end) => begin + end,
            _ => 0,
        };
        self.full(size, kernel).offset(extra - pads)
    }

    /// The size that the windows of a transposed convolution cover. An input without elements
    /// counts as one with one element.
    fn full(self, size: Dim, kernel: Dim) -> Dim {
        size.offset(-1).scaled(self.stride).plus(self.extent(kernel))
    }

    /// How many windows begin within `size` elements.
    fn covering(self, size: i64) -> i64 {
        div_ceil(size, self.stride)
    }

    /// A number of elements in two halves. If the padding is `odd`, the first is the larger.
    fn halves(self, total: i64, odd: Padding) -> (i64, i64) {
        let (small, large) = (total / 2, total - total / 2);
        if self.padding == odd { (large, small) } else { (small, large) }
    }
}

/// The interval of a count that grows with the size and shrinks with the extent.
fn bounds(size: Dim, extent: Dim, count: impl Fn(i64, i64) -> i64) -> Dim {
    let high = if size.is_bounded() { count(size.max(), extent.min()) } else { Dim::INF };
    Dim::range(count(size.min(), extent.max()), high).with_why(size.why().or(extent.why()))
}

fn div_ceil(a: i64, b: i64) -> i64 {
    Dim::fixed(a).div_ceil(b).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn explicit(stride: i64, dilation: i64, begin: i64, end: i64) -> Window {
        Window { stride, dilation, padding: Padding::Explicit(begin, end) }
    }

    fn window() -> impl Strategy<Value = Window> {
        let padding = prop_oneof![
            (0i64..4, 0i64..4).prop_map(|(begin, end)| Padding::Explicit(begin, end)),
            Just(Padding::SameUpper),
            Just(Padding::SameLower),
        ];
        (1i64..5, 1i64..4, padding).prop_map(|(stride, dilation, padding)| Window {
            stride,
            dilation,
            padding,
        })
    }

    fn any_rounding() -> impl Strategy<Value = Rounding> {
        prop_oneof![Just(Rounding::Floor), Just(Rounding::Ceil), Just(Rounding::CeilTorch)]
    }

    /// Places one window after the other.
    fn placed(w: Window, size: i64, kernel: i64, rounding: Rounding) -> i64 {
        let (begin, end) = w.pads(size, kernel);
        let (padded, extent) = (size + begin + end, (kernel - 1) * w.dilation + 1);
        let mut n = 0;
        let mut covered = 0;
        while n * w.stride + extent <= padded {
            covered = n * w.stride + extent;
            n += 1;
        }
        let ceil = n + i64::from(covered < padded);
        match rounding {
            Rounding::Floor => n,
            Rounding::Ceil => ceil,
            Rounding::CeilTorch => ceil - i64::from((ceil - 1) * w.stride >= size + begin),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4000, ..ProptestConfig::default() })]

        #[test]
        fn counts_are_those_of_windows_placed_one_by_one(
            w in window(), size in 1i64..16, kernel in 1i64..5, r in any_rounding(),
        ) {
            match w.output(Dim::fixed(size), Dim::fixed(kernel), r) {
                Ok(count) => prop_assert_eq!(count, Dim::fixed(placed(w, size, kernel, r))),
                Err(_) => prop_assert_eq!(placed(w, size, kernel, Rounding::Floor), 0),
            }
        }

        /// Intervals of sizes give all results that their sizes give.
        #[test]
        fn intervals_are_sound(
            w in window(), r in any_rounding(), open: bool,
            (low, extra) in (0i64..9, 0i64..6), (small, more) in (1i64..4, 0i64..3),
        ) {
            let high = if open { Dim::INF } else { low + extra };
            let all = w.output(Dim::range(low, high), Dim::range(small, small + more), r);
            let wide = w.transposed(Dim::range(low, high), Dim::range(small, small + more), 1);
            for size in low..=low + extra {
                for kernel in small..=small + more {
                    let (size, kernel) = (Dim::fixed(size), Dim::fixed(kernel));
                    if let Ok(one) = w.output(size, kernel, r) {
                        prop_assert!(all.as_ref().unwrap().covers(one), "{all:?} {one} {size}");
                    }
                    prop_assert!(wide.covers(w.transposed(size, kernel, 1)));
                }
            }
        }

        /// A transposed convolution restores the size of the input of its convolution.
        #[test]
        fn transposition_is_the_way_back(
            w in window(), size in 1i64..16, kernel in 1i64..5,
        ) {
            let (one, taps) = (Dim::fixed(size), Dim::fixed(kernel));
            if let Ok(count) = w.output(one, taps, Rounding::Floor) {
                let (begin, end) = w.pads(size, kernel);
                let own = explicit(w.stride, w.dilation, begin, end);
                let rest = size - own.transposed(count, taps, 0).min();
                prop_assert!((0..w.stride).contains(&rest) || own.transposed(count, taps, 0).min() == 0);
                if let (Padding::SameUpper, 0) = (w.padding, rest) {
                    let back = w.transposed_pads(count.min(), kernel, size, 0);
                    prop_assert_eq!(back, (end, begin));
                }
            }
        }
    }

    #[test]
    fn dims() {
        let dim = |text: &str| text.parse::<PartialShape>().unwrap().dim(0);
        let run =
            |w: Window, size, kernel, r| w.output(dim(size), dim(kernel), r).unwrap().to_string();
        use Rounding::*;
        let (tight, loose) = (explicit(2, 1, 0, 0), explicit(2, 1, 1, 1));
        for (size, floor, ceil, torch) in [
            ("4..9", "2..5", "3..5", "3..5"),
            ("3..", "2..", "2..", "2.."),
            ("?", "1..", "1..", "1.."),
            ("2", "1", "2", "2"),
        ] {
            let found = [Floor, Ceil, CeilTorch].map(|r| run(loose, size, "3", r));
            assert_eq!(found, [floor, ceil, torch], "{size}");
        }
        assert_eq!(run(tight, "0..3", "3", Floor), "1");
        assert_eq!(run(tight, "6", "?", Floor), "1..3");
        let same = Window { stride: 2, dilation: 1, padding: Padding::SameUpper };
        assert_eq!(run(same, "4..9", "3", Floor), "2..5");
        assert_eq!(run(Window { stride: 3, ..same }, "8", "1", Ceil), "4");
        assert_eq!(explicit(3, 1, 1, 1).output(dim("5"), dim("2"), CeilTorch).unwrap(), dim("2"));
        assert_eq!((same.pads(6, 3), same.transposed_pads(3, 3, 6, 0)), ((0, 1), (1, 0)));
        let wrong = tight.output(dim("..2"), dim("3"), Floor).unwrap_err().to_string();
        assert_eq!(wrong, "a window over 3 elements does not fit into ..2, padded by 0 and 0");
        for (size, kernel, full) in [("5", "3", "10"), ("0..3", "2..4", "1..7"), ("?", "?", "?")] {
            assert_eq!(loose.transposed(dim(size), dim(kernel), 1), dim(full), "{size} {kernel}");
        }
    }

    #[test]
    fn a_window_that_keeps_the_size_keeps_the_label() {
        let label = crate::Symbol(7);
        let size = Dim::any().with_symbol(label);
        let kept = explicit(1, 2, 2, 2).output(size, Dim::fixed(3), Rounding::Floor).unwrap();
        assert_eq!((kept, kept.symbol()), (Dim::range(1, Dim::INF), label));
    }
}
