//! Tensors of different numbers.

use ir::ElementType;
use runtime::Tensor;

/// Special floating-point values.
const SPECIAL: [f32; 8] =
    [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-40, f32::MAX, f32::MIN_POSITIVE];

/// Numbers between -1 and 1, by SplitMix64.
fn noise(count: usize, seed: u64) -> impl Iterator<Item = f32> {
    (0..count as u64).map(move |i| {
        let z = (seed << 32 | i).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    })
}

/// A tensor of this type and shape, from a seed: numbers around 0, for some seeds multiples of 1/8.
/// `None` for types without conversion from numbers.
pub fn tensor(element_type: ElementType, sizes: &[usize], seed: u64) -> Option<Tensor> {
    if element_type == ElementType::String {
        let text = noise(sizes.iter().product(), seed).map(|v| format!("{:.1}", v * 4.0).into());
        return Tensor::strings(sizes, text.collect()).ok();
    }
    let values = Tensor::from_vec(sizes, numbers(element_type, sizes, seed)).ok()?;
    runtime::convert(&values, element_type).ok()
}

/// The same, for some seeds with infinities and other special values, or integers at the limits of
/// the type.
pub fn with_special(element_type: ElementType, sizes: &[usize], seed: u64) -> Option<Tensor> {
    if seed % 16 != 15 || element_type == ElementType::String {
        return tensor(element_type, sizes, seed);
    }
    let mut values = numbers(element_type, sizes, seed);
    let skipped = (seed / 16 % 8) as usize;
    let Some((low, high)) = element_type.integer_range() else {
        let special = SPECIAL.iter().cycle().skip(skipped);
        values.iter_mut().step_by(5).zip(special).for_each(|(v, special)| *v = *special);
        let values = Tensor::from_vec(sizes, values).ok()?;
        return runtime::convert(&values, element_type).ok();
    };
    // Limits beyond i64 become the largest u64.
    let [low, high] = [low, high].map(|limit| i64::try_from(limit).unwrap_or(-1));
    let limits = [high, low, high - 1, low + 1];
    let mut values: Vec<i64> = values.into_iter().map(|v| v as i64).collect();
    let limits = limits.iter().cycle().skip(skipped);
    values.iter_mut().step_by(5).zip(limits).for_each(|(v, limit)| *v = *limit);
    runtime::convert(&Tensor::from_vec(sizes, values).ok()?, element_type).ok()
}

/// Numbers that are in the range of a type.
fn numbers(element_type: ElementType, sizes: &[usize], seed: u64) -> Vec<f32> {
    let scale = [2.0, 0.5, 1.0, 6.0][(seed % 4) as usize];
    let is_unsigned = element_type.integer_range().is_some_and(|(low, _)| low >= 0);
    let number = |v: f32| match element_type {
        ElementType::Boolean => f32::from(v > 0.0),
        _ if is_unsigned => (v * scale * 4.0).floor().abs(),
        t if !t.is_real() => (v * scale * 4.0).floor(),
        _ if seed % 5 == 4 => (v * scale * 8.0).round() / 8.0,
        _ => v * scale,
    };
    noise(sizes.iter().product(), seed).map(number).collect()
}
