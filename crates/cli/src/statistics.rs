//! What the elements of constants and tensors are.

use infer::PartialShape;
use ir::{ElementType, Graph, Layer, WeightsSlice};
use runtime::Tensor;
use serde::Serialize;

/// Elements that are looked at, of a larger constant in stretches that are spread over all of it.
const LOOKED_AT: usize = 1 << 20;
/// Elements of one stretch: a multiple of what a byte holds.
const STRETCH: usize = 4096;
/// Bars of a histogram.
const BARS: usize = 24;
/// Fewest elements of which statistics say more than the elements themselves.
const FEWEST: usize = 9;

/// Statistics of a constant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Statistics {
    /// Elements that it has.
    pub elements: usize,
    /// Elements that were looked at.
    pub sampled: usize,
    /// The smallest finite element.
    pub min: f64,
    /// The largest finite element.
    pub max: f64,
    /// The mean of the finite elements.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// Elements that are 0.
    pub zeros: usize,
    /// Elements that are no number, or infinite.
    pub not_finite: usize,
    /// How many elements lie in each of some equal ranges from the smallest to the largest.
    pub histogram: Vec<usize>,
}

impl Statistics {
    /// Statistics of a constant layer; `None` where it has few elements, or none that are numbers.
    pub(crate) fn of_constant(graph: &Graph, layer: &Layer) -> Option<Statistics> {
        let constant = Constant::of(graph, layer)?;
        if constant.elements < FEWEST {
            return None;
        }
        let values = constant.sample(LOOKED_AT)?;
        Some(Statistics::of(&values, constant.elements))
    }

    fn of(values: &[f64], elements: usize) -> Statistics {
        let finite = || values.iter().copied().filter(|v| v.is_finite());
        let count = finite().count();
        let mean = finite().sum::<f64>() / count.max(1) as f64;
        let (min, max) = match count {
            0 => (0.0, 0.0),
            _ => (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::MIN, f64::max)),
        };
        let square: f64 = finite().map(|v| (v - mean) * (v - mean)).sum();
        let mut histogram = vec![0; BARS];
        for v in finite() {
            let place = (v - min) / (max - min) * BARS as f64;
            // Of equal elements there is one bar, and the largest is in the last.
            histogram[if place.is_finite() { (place as usize).min(BARS - 1) } else { 0 }] += 1;
        }
        Statistics {
            elements,
            sampled: values.len(),
            min,
            max,
            mean,
            deviation: (square / count.max(1) as f64).sqrt(),
            zeros: finite().filter(|v| *v == 0.0).count(),
            not_finite: values.len() - count,
            histogram,
        }
    }
}

/// A constant and where its bytes are.
pub(crate) struct Constant {
    /// The element type.
    pub element_type: ElementType,
    /// Number of elements.
    pub elements: usize,
    bytes: WeightsSlice,
}

impl Constant {
    /// The constant that a layer is, if its attributes and its bytes are in order.
    pub(crate) fn of(graph: &Graph, layer: &Layer) -> Option<Constant> {
        if !layer.is("Const") {
            return None;
        }
        let element_type = ElementType::from_attribute(layer.attribute("element_type")?.trim())?;
        let shape: PartialShape = layer.attribute("shape")?.parse().ok()?;
        let elements = shape.sizes()?.iter().try_fold(1usize, |n, size| n.checked_mul(*size))?;
        let len = element_type.packed_len(u64::try_from(elements).ok()?)?;
        let offset = match layer.bytes {
            Some(_) => 0,
            None => layer.attribute("offset")?.trim().parse().ok()?,
        };
        let bytes = WeightsSlice::new(&graph.weights_of(layer), offset, len).ok()?;
        Some(Constant { element_type, elements, bytes })
    }

    /// The packed bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// At most `most` of the elements, or a stretch more; `None` for strings.
    pub(crate) fn sample(&self, most: usize) -> Option<Vec<f64>> {
        let every = self.elements.div_ceil(most.max(1)).max(1);
        let mut values = Vec::with_capacity(self.elements.min(most));
        for start in (0..self.elements).step_by(STRETCH * every) {
            let count = STRETCH.min(self.elements - start);
            values.extend(wide(self.element_type, self.bytes(), (start, count))?);
        }
        Some(values)
    }

    /// Hands over all elements, a stretch at a time; none for strings.
    pub(crate) fn stretches(&self, see: impl FnMut(&[f64])) {
        stretches((self.element_type, self.elements), self.bytes(), see);
    }
}

/// Hands over all elements of a tensor, a stretch at a time; none for strings.
pub(crate) fn stretches_of(tensor: &Tensor, see: impl FnMut(&[f64])) {
    stretches((tensor.element_type(), tensor.count()), tensor.bytes(), see);
}

/// The first elements of a tensor; none for strings.
pub(crate) fn first_of(tensor: &Tensor, most: usize) -> Vec<f64> {
    let stretch = (0, tensor.count().min(most));
    wide(tensor.element_type(), tensor.bytes(), stretch).unwrap_or_default()
}

/// Hands over all elements of packed bytes; none for strings. A stretch is converted at a time,
/// which takes little memory.
fn stretches(
    (element_type, elements): (ElementType, usize),
    bytes: &[u8],
    mut see: impl FnMut(&[f64]),
) {
    for start in (0..elements).step_by(STRETCH) {
        let stretch = (start, STRETCH.min(elements - start));
        wide(element_type, bytes, stretch).iter().for_each(|values| see(values));
    }
}

/// So many elements as f64, from one on that begins a byte. `None` for strings.
fn wide(
    element_type: ElementType,
    bytes: &[u8],
    (start, count): (usize, usize),
) -> Option<Vec<f64>> {
    let bits = usize::try_from(element_type.bits()?).ok()?;
    let bytes = bytes.get(start * bits / 8..(start + count).saturating_mul(bits).div_ceil(8))?;
    let part = Tensor::from_bytes(element_type, &[count], bytes).ok()?;
    let converted = runtime::convert(&part, ElementType::F64).ok()?;
    converted.as_slice::<f64>().map(<[f64]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_a_few_numbers() {
        let s = Statistics::of(&[0.0, 1.0, -1.0, 4.0, f64::NAN, f64::INFINITY], 6);
        assert_eq!((s.min, s.max, s.mean), (-1.0, 4.0, 1.0));
        assert_eq!((s.zeros, s.not_finite), (1, 2));
        assert!((s.deviation - 3.5f64.sqrt()).abs() < 1e-12);
        assert_eq!((s.histogram[0], s.histogram[BARS - 1]), (1, 1));
        assert_eq!(s.histogram.iter().sum::<usize>(), 4);
        let same = Statistics::of(&[2.0; 3], 3);
        assert_eq!((same.min, same.max, same.histogram[0]), (2.0, 2.0, 3));
        assert_eq!(Statistics::of(&[], 0).max, 0.0);
    }

    #[test]
    fn a_sample_is_spread_over_a_large_constant() {
        let values: Vec<f32> = (0..40_000).map(|i| i as f32).collect();
        let mut graph = ir::GraphBuilder::new("g");
        let constant = graph.constant_f32(&[40_000], &values);
        graph.result("y", constant);
        let graph = graph.finish().unwrap();
        let constant = Constant::of(&graph, &graph.layers()[0]).unwrap();
        let sample = constant.sample(10_000).unwrap();
        assert!(sample.len() < 15_000 && sample.last().unwrap() > &30_000.0);
        assert_eq!(constant.sample(usize::MAX).unwrap().len(), 40_000);
    }
}
