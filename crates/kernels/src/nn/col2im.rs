//! Col2Im: adds the windows of an image back to the image. Overlapping windows are summed.

use crate::base::num::{Stored, Wide};
use crate::base::par::Threads;
use crate::gemm::Window;
use crate::math::arithmetic::Arithmetic;

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Adds windows to the planes of `to`. `from` holds for each plane, tap by tap, that tap of all
/// windows in row-major order. Sums are computed in the wide type, in the order of the taps, and
/// rounded once; integers wrap.
///
/// # Panics
/// When the slices do not hold equally many planes.
pub fn col2im<T: Stored>(threads: &Threads, axes: &[Window; 2], from: &[T], to: &mut [T])
where
    T::Wide: Arithmetic,
{
    let [rows, columns] = axes;
    let (image, windows) = (rows.input * columns.input, rows.output * columns.output);
    if to.is_empty() {
        return;
    }
    let taps = rows.taps * columns.taps;
    assert_eq!(to.len() / image * taps * windows, from.len(), "as many planes");
    threads.par_chunks_mut(
        to,
        image,
        GRAIN.min(GRAIN * image / (taps * windows).max(1)),
        |first, part| {
            let mut sums = vec![T::Wide::default(); image];
            for (i, to) in part.chunks_exact_mut(image).enumerate() {
                sums.fill(T::Wide::default());
                for tap in 0..taps {
                    let from = &from[((first + i) * taps + tap) * windows..][..windows];
                    add(axes, tap, from, &mut sums);
                }
                to.iter_mut().zip(&sums).for_each(|(to, sum)| *to = sum.narrow());
            }
        },
    );
}

/// Adds one tap of all windows to a plane.
fn add<T: Stored>([rows, columns]: &[Window; 2], tap: usize, from: &[T], to: &mut [T::Wide])
where
    T::Wide: Arithmetic,
{
    let (ky, kx) = (tap / columns.taps, tap % columns.taps);
    let across = columns.outputs_within(kx);
    let Some(x) = columns.position(across.start, kx) else { return };
    for row in rows.outputs_within(ky) {
        let Some(y) = rows.position(row, ky) else { continue };
        let from = &from[row * columns.output..][across.clone()];
        let line = &mut to[y * columns.input..][..columns.input];
        for (to, x) in line[x..].iter_mut().step_by(columns.stride).zip(from) {
            *to = to.add(x.widen());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_added_where_they_lie() {
        let axis = |input, output, taps, stride, dilation, start| Window {
            input,
            output,
            taps,
            stride,
            dilation,
            start,
        };
        for axes in [
            [axis(5, 4, 2, 1, 1, 0), axis(6, 3, 2, 2, 1, 0)],
            [axis(4, 3, 2, 2, 3, -2), axis(7, 3, 3, 2, 2, -1)],
            [axis(1, 1, 1, 1, 1, 0), axis(3, 5, 2, 3, 1, -6)],
        ] {
            let [rows, columns] = axes;
            let (planes, windows) = (3, rows.output * columns.output);
            let (taps, image) = (rows.taps * columns.taps, rows.input * columns.input);
            let from: Vec<i16> =
                (0..planes * taps * windows).map(|i| (i * i % 97) as i16).collect();
            let (mut to, mut expected) = (vec![7; planes * image], vec![0; planes * image]);
            for (i, value) in from.iter().enumerate() {
                let (window, tap) = (i % windows, i / windows % taps);
                let y = rows.position(window / columns.output, tap / columns.taps);
                let x = columns.position(window % columns.output, tap % columns.taps);
                if let (Some(y), Some(x)) = (y, x) {
                    expected[i / windows / taps * image + y * columns.input + x] += value;
                }
            }
            col2im(&Threads::new(2), &axes, &from, &mut to);
            assert_eq!(to, expected);
        }
    }
}
