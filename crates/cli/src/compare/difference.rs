//! How far two tensors of one shape are apart, measured in every way that tells something.

use super::{Tolerance, excess, index};
use anyhow::{Result, anyhow};
use ir::ElementType;
use runtime::Tensor;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// How two tensors of one shape differ. `a` is what is judged, `b` what it is judged by.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Difference {
    /// Number of elements.
    pub elements: usize,
    /// Elements that are further apart than allowed.
    pub beyond: usize,
    /// Largest |a − b|.
    pub max_abs: f64,
    /// Mean of |a − b|.
    pub mean_abs: f64,
    /// Largest |a − b| / |b|, where b is not 0.
    pub max_rel: f64,
    /// Most units in the last place between a and b; for real numbers of one type.
    pub max_ulp: Option<u64>,
    /// Cosine of the angle between a and b.
    pub cosine: Option<f64>,
    /// Length of a over length of b.
    pub magnitude_ratio: Option<f64>,
    /// NaNs in a and in b.
    pub nan: [usize; 2],
    /// Infinities in a and in b.
    pub infinite: [usize; 2],
    /// Elements of which one is NaN or infinite and the other is something else. No other number of
    /// this report counts them.
    pub incomparable: usize,
    /// The worst elements, the worst first.
    pub worst: Vec<Element>,
    /// How many elements are how far apart.
    pub histogram: Vec<Bin>,
}

/// One element in both tensors.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Element {
    /// Where it is.
    pub index: Vec<usize>,
    /// Its value in a, as text: JSON has no NaN, and i64 more digits than a number of JSON keeps.
    pub a: String,
    /// Its value in b.
    pub b: String,
    /// |a − b|.
    pub abs: f64,
    /// |a − b| / |b|.
    pub rel: Option<f64>,
    /// Units in the last place between them.
    pub ulp: Option<u64>,
}

/// Elements with `above < |a − b| <= up_to`; the first bin of all holds those that are equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Bin {
    /// Lower bound.
    pub above: f64,
    /// Upper bound.
    pub up_to: f64,
    /// Number of elements.
    pub count: usize,
}

/// The two tensors as numbers.
struct Sides<'t> {
    tensors: [&'t Tensor; 2],
    reals: [Tensor; 2],
    /// For integers, which f64 does not hold all of.
    integers: Option<[Tensor; 2]>,
    /// Bytes of an element, if both are real numbers of one type.
    bytes: Option<usize>,
}

/// What is needed of an element to judge it.
#[derive(Clone, Copy)]
struct Pair {
    a: f64,
    b: f64,
    abs: f64,
    ulp: Option<u64>,
}

impl Difference {
    /// Compares the elements of two tensors of as many, and lists the `worst` worst.
    ///
    /// # Errors
    /// When they are not numbers.
    pub(crate) fn of(
        a: &Tensor,
        b: &Tensor,
        tolerance: Tolerance,
        worst: usize,
    ) -> Result<Difference> {
        let sides = Sides::new(a, b)?;
        let mut sums = Sums::default();
        let mut ranked = Ranked { most: worst, list: Vec::new() };
        for (i, pair) in sides.pairs().enumerate() {
            let over = excess_of(pair, tolerance);
            sums.add(pair, over);
            if pair.abs != 0.0 {
                ranked.add(over, pair.abs, i);
            }
        }
        let element = |&(_, _, i): &(f64, f64, usize)| sides.element(i);
        let worst = ranked.list.iter().map(element).collect();
        Ok(Difference { worst, ..sums.finish(sides.bytes.is_some()) })
    }
}

/// As [`excess`], with the difference of integers beyond 2^53.
fn excess_of(pair: Pair, tolerance: Tolerance) -> f64 {
    if pair.abs.is_finite() && pair.abs > 0.0 && pair.a == pair.b {
        pair.abs - (tolerance.atol + tolerance.rtol * pair.b.abs())
    } else {
        excess(pair.a, pair.b, tolerance)
    }
}

impl<'t> Sides<'t> {
    fn new(a: &'t Tensor, b: &'t Tensor) -> Result<Sides<'t>> {
        let as_type = |to: ElementType| -> Result<[Tensor; 2]> {
            let one = |t: &Tensor| runtime::convert(t, to).map_err(|e| anyhow!("{e}"));
            Ok([one(a)?, one(b)?])
        };
        let types = [a.element_type(), b.element_type()];
        let is_wide = |t: ElementType| t.is_integral() && t.bits() == Some(64);
        let integers = if types.iter().all(|t| t.is_integral()) && types.into_iter().any(is_wide) {
            Some(as_type(types[0])?)
        } else {
            None
        };
        let real = types[0] == types[1] && types[0].is_real();
        let bytes = types[0].byte_size().filter(|_| real);
        Ok(Sides { tensors: [a, b], reals: as_type(ElementType::F64)?, integers, bytes })
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> {
        let [a, b] = self.reals.each_ref().map(|t| t.as_slice::<f64>().unwrap_or_default());
        let pair = |(i, (&a, &b)): (usize, (&f64, &f64))| {
            let exact = self.integers.is_some().then(|| self.integer_distance(i)).flatten();
            Pair { a, b, abs: exact.unwrap_or_else(|| distance(a, b)), ulp: self.ulp(i) }
        };
        a.iter().zip(b).enumerate().map(pair)
    }

    fn integer(&self, side: usize, i: usize) -> Option<i128> {
        let tensor = &self.integers.as_ref()?[side];
        let signed = || tensor.as_slice::<i64>()?.get(i).map(|v| i128::from(*v));
        let unsigned = || tensor.as_slice::<u64>()?.get(i).map(|v| i128::from(*v));
        signed().or_else(unsigned)
    }

    fn integer_distance(&self, i: usize) -> Option<f64> {
        let (a, b) = (self.integer(0, i)?, self.integer(1, i)?);
        Some((a - b).unsigned_abs() as f64)
    }

    fn ulp(&self, i: usize) -> Option<u64> {
        let size = self.bytes?;
        let [a, b] = self.tensors.map(|t| t.bytes().get(i * size..(i + 1) * size).map(ordered));
        Some((a? - b?).unsigned_abs().try_into().unwrap_or(u64::MAX))
    }

    fn element(&self, i: usize) -> Element {
        let [a, b] = self.reals.each_ref().map(|t| t.as_slice::<f64>().unwrap_or_default()[i]);
        let text = |side: usize, value: f64| match self.integer(side, i) {
            Some(integer) => integer.to_string(),
            None => digits(value, self.tensors[side].element_type()),
        };
        let abs = self.integer_distance(i).unwrap_or_else(|| distance(a, b));
        let is_number = a.is_finite() && b.is_finite();
        Element {
            index: index(i, self.tensors[0].sizes()),
            a: text(0, a),
            b: text(1, b),
            abs,
            rel: (is_number && b != 0.0).then(|| abs / b.abs()),
            ulp: self.ulp(i).filter(|_| is_number),
        }
    }
}

/// |a − b|; 0 for the same infinity and for two NaNs.
fn distance(a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) { 0.0 } else { (a - b).abs() }
}

/// The bits of a real number as an integer that orders them: neighbours differ by 1, and both
/// zeros are 0.
fn ordered(bytes: &[u8]) -> i128 {
    let bits = bytes.iter().rev().fold(0_i128, |bits, byte| bits << 8 | i128::from(*byte));
    let sign = 1_i128 << (8 * bytes.len() - 1);
    if bits & sign == 0 { bits } else { sign - bits }
}

/// A value with the digits that tell it from its neighbours of the type.
fn digits(value: f64, element_type: ElementType) -> String {
    match element_type {
        // The shortest text that is read as the same f32.
        ElementType::F32 | ElementType::F16 | ElementType::BF16 => format!("{}", Short(value)),
        _ => format!("{value}"),
    }
}

struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.0 as f32;
        let plain = value == 0.0 || (1e-4..1e7).contains(&value.abs()) || !value.is_finite();
        if plain { write!(f, "{value}") } else { write!(f, "{value:e}") }
    }
}

/// What is added up over all elements.
#[derive(Default)]
struct Sums {
    difference: Difference,
    compared: usize,
    abs: f64,
    products: f64,
    squares: [f64; 2],
    /// By the exponent of 10 of the upper bound.
    decades: BTreeMap<i32, usize>,
    equal: usize,
}

impl Sums {
    fn add(&mut self, pair: Pair, over: f64) {
        let d = &mut self.difference;
        d.elements += 1;
        d.beyond += usize::from(over > 0.0);
        for (side, value) in [pair.a, pair.b].into_iter().enumerate() {
            d.nan[side] += usize::from(value.is_nan());
            d.infinite[side] += usize::from(value.is_infinite());
        }
        if !pair.abs.is_finite() {
            d.incomparable += 1;
            return;
        }
        self.compared += 1;
        self.abs += pair.abs;
        d.max_abs = d.max_abs.max(pair.abs);
        if pair.abs == 0.0 {
            self.equal += 1;
        } else {
            *self.decades.entry(decade(pair.abs)).or_default() += 1;
        }
        if pair.a.is_finite() && pair.b.is_finite() {
            if pair.b != 0.0 {
                d.max_rel = d.max_rel.max(pair.abs / pair.b.abs());
            }
            d.max_ulp = d.max_ulp.max(pair.ulp);
            self.products += pair.a * pair.b;
            self.squares[0] += pair.a * pair.a;
            self.squares[1] += pair.b * pair.b;
        }
    }

    fn finish(self, has_ulp: bool) -> Difference {
        let [a, b] = self.squares.map(f64::sqrt);
        let mut histogram = Vec::new();
        if self.equal > 0 {
            histogram.push(Bin { above: -0.0, up_to: 0.0, count: self.equal });
        }
        let (low, high) = (self.decades.keys().next(), self.decades.keys().next_back());
        if let (Some(&low), Some(&high)) = (low, high) {
            let bound = |exponent: i32| 10_f64.powi(exponent);
            histogram.extend((low..=high).map(|e| {
                let count = self.decades.get(&e).copied().unwrap_or(0);
                Bin { above: bound(e - 1), up_to: bound(e), count }
            }));
        }
        Difference {
            mean_abs: self.abs / self.compared.max(1) as f64,
            max_ulp: self.difference.max_ulp.filter(|_| has_ulp),
            cosine: (a > 0.0 && b > 0.0).then(|| (self.products / (a * b)).clamp(-1.0, 1.0)),
            magnitude_ratio: (b > 0.0).then_some(a / b),
            histogram,
            ..self.difference
        }
    }
}

/// The exponent of the smallest power of ten that is not below a number.
fn decade(value: f64) -> i32 {
    let guess = value.log10().ceil() as i32;
    // The logarithm of a power may be rounded to either side.
    match () {
        () if value > 10_f64.powi(guess) => guess + 1,
        () if value <= 10_f64.powi(guess - 1) => guess - 1,
        () => guess,
    }
}

/// The worst elements so far: by how far they are beyond what is allowed, then by distance.
struct Ranked {
    most: usize,
    list: Vec<(f64, f64, usize)>,
}

impl Ranked {
    fn add(&mut self, over: f64, abs: f64, i: usize) {
        // NaN is as far away as can be.
        let abs = if abs.is_nan() { f64::INFINITY } else { abs };
        let is_worse = |other: &(f64, f64, usize)| {
            over.max(0.0).total_cmp(&other.0.max(0.0)).then(abs.total_cmp(&other.1)).is_gt()
        };
        if self.list.len() == self.most && !self.list.last().is_some_and(is_worse) {
            return;
        }
        let at = self.list.iter().position(is_worse).unwrap_or(self.list.len());
        self.list.insert(at, (over, abs, i));
        self.list.truncate(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Tolerance = Tolerance { rtol: 0.0, atol: 0.0 };

    fn reals(values: &[f32]) -> Tensor {
        Tensor::from_vec(&[values.len()], values.to_vec()).unwrap()
    }

    #[test]
    fn numbers_of_a_small_pair() {
        let next = f32::from_bits(2.0_f32.to_bits() + 3);
        let d = Difference::of(&reals(&[3., 0., next]), &reals(&[3., 4., 2.]), EXACT, 5).unwrap();
        assert_eq!((d.elements, d.beyond, d.max_abs, d.max_rel), (3, 2, 4.0, 1.0));
        assert_eq!(d.worst[0].index, [1]);
        assert_eq!(d.worst[1].ulp, Some(3));
        assert!((d.magnitude_ratio.unwrap() - (13.0_f64 / 29.0).sqrt()).abs() < 1e-6);
        assert!((d.cosine.unwrap() - 13.0 / (13.0_f64 * 29.0).sqrt()).abs() < 1e-6);
        let bins: Vec<_> = d.histogram.iter().filter(|b| b.count > 0).map(|b| b.up_to).collect();
        assert_eq!(bins, [0.0, 1e-6, 10.0]);
    }

    #[test]
    fn units_in_the_last_place_go_through_zero() {
        let tiny = f32::from_bits(1);
        let d = Difference::of(&reals(&[-tiny, -0.0]), &reals(&[tiny, 0.0]), EXACT, 5).unwrap();
        assert_eq!((d.max_ulp, d.beyond), (Some(2), 1));
    }

    #[test]
    fn what_is_not_finite_is_counted_and_spoils_nothing() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let (a, b) = (reals(&[nan, nan, inf, -inf, 1.]), reals(&[nan, 1., inf, inf, 1.5]));
        let d = Difference::of(&a, &b, EXACT, 5).unwrap();
        assert_eq!((d.nan, d.infinite, d.incomparable, d.beyond), ([2, 1], [2, 2], 2, 3));
        assert_eq!((d.max_abs, d.max_rel), (0.5, 1.0 / 3.0));
        assert_eq!(d.worst[0].index, [1]);
    }

    #[test]
    fn integers_keep_all_their_digits() {
        let ints = |v: &[i64]| Tensor::from_vec(&[v.len()], v.to_vec()).unwrap();
        let d = Difference::of(&ints(&[i64::MAX, 7]), &ints(&[i64::MAX - 1, 7]), EXACT, 5).unwrap();
        assert_eq!((d.beyond, d.max_abs, d.max_ulp), (1, 1.0, None));
        assert_eq!(
            (&*d.worst[0].a, &*d.worst[0].b),
            ("9223372036854775807", "9223372036854775806")
        );
    }

    #[test]
    fn the_worst_is_beyond_by_most() {
        let tolerance = Tolerance { rtol: 0.1, atol: 0.0 };
        let d = Difference::of(&reals(&[105., 2., 1.]), &reals(&[100., 1., 0.9]), tolerance, 2);
        let indices: Vec<_> = d.unwrap().worst.iter().map(|w| w.index[0]).collect();
        assert_eq!(indices, [1, 2]);
    }
}
