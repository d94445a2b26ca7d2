//! Strides of row-major arrays.

/// The greatest common divisor; for 0 and a number, the number.
pub fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Strides of a row-major array, in elements.
pub fn dense_strides(sizes: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i] * sizes[i] as isize;
    }
    strides
}
