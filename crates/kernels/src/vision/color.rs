//! Conversions between RGB and YUV 4:2:0, with the coefficients of BT.601 in video range.

use crate::base::par::{Slice, Threads};
use crate::math::real::Real;
use crate::multiversion;
use crate::nn::interpolate::Pixel;

/// A batch of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Images {
    /// Number of images.
    pub batch: usize,
    /// Rows, an even number.
    pub height: usize,
    /// Columns, an even number.
    pub width: usize,
    /// Whether blue comes first.
    pub bgr: bool,
}

/// The memory layout of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// The first element.
    pub start: usize,
    /// From one image to the next.
    pub image: usize,
    /// From one row to the next.
    pub row: usize,
    /// From one column to the next.
    pub column: usize,
}

impl Plane {
    fn at(&self, image: usize, row: usize, column: usize) -> usize {
        self.start + image * self.image + row * self.row + column * self.column
    }

    /// Whether all elements are within `len` elements.
    fn fits(&self, PlaneSize { batch, rows, columns }: PlaneSize, len: usize) -> bool {
        batch * rows * columns == 0 || self.at(batch - 1, rows - 1, columns - 1) < len
    }
}

/// The size of a plane, over all images.
#[derive(Clone, Copy)]
struct PlaneSize {
    batch: usize,
    rows: usize,
    columns: usize,
}

/// Elements that are worth a second thread.
const GRAIN: usize = 8 << 10;

#[inline(always)]
fn load<T: Pixel, W: Real>(value: T) -> W {
    W::of(value.load().to_f64())
}

/// Clamped to 0 and 255; NaN becomes 0.
#[inline(always)]
fn save<T: Pixel, W: Real>(value: W) -> T {
    T::save(T::Sum::of(value.greatest(W::of(0.0)).least(W::of(255.0)).to_f64()))
}

impl Images {
    fn luma(&self) -> PlaneSize {
        PlaneSize { batch: self.batch, rows: self.height, columns: self.width }
    }

    fn chroma(&self) -> PlaneSize {
        PlaneSize { batch: self.batch, rows: self.height / 2, columns: self.width / 2 }
    }

    /// RGB from the planes `y`, `u` and `v`, computed in `W`.
    ///
    /// # Panics
    /// When the output has another size, or a plane reaches past its slice.
    pub fn colours<T: Pixel, W: Real>(
        &self,
        threads: &Threads,
        [(y, y_at), (u, u_at), (v, v_at)]: [(&[T], Plane); 3],
        out: &mut [T],
    ) {
        let Images { batch, height, width, bgr } = *self;
        assert_eq!(out.len(), batch * height * width * 3);
        threads.par_chunks_mut(out, 3 * width, GRAIN, |first, rows| {
            for (i, to) in rows.chunks_mut((3 * width).max(1)).enumerate() {
                let (image, row) = ((first + i) / height, (first + i) % height);
                let y = &y[y_at.at(image, row, 0)..][..width];
                let [u, v] = [(u, u_at), (v, v_at)].map(|(of, at)| &of[at.at(image, row / 2, 0)..]);
                colour_row::<T, W>(y, u, v, u_at.column, bgr, to);
            }
        });
    }

    /// The planes of RGB images, computed in `W`. Four pixels share `u` and `v`, computed from
    /// their mean.
    ///
    /// # Panics
    /// When the input has another size, or a plane reaches past its slice.
    pub fn planes<T: Pixel, W: Real>(
        &self,
        threads: &Threads,
        from: &[T],
        (y, y_at): (&mut [T], Plane),
        (uv, u_at): (&mut [T], Plane),
    ) {
        let Images { batch, height, width, bgr } = *self;
        assert_eq!(from.len(), batch * height * width * 3);
        assert!(y_at.fits(self.luma(), y.len()));
        let v_at = Plane { start: u_at.start + 1, ..u_at };
        assert!(v_at.fits(self.chroma(), uv.len()));
        let (y, uv) = (Slice::new(y), Slice::new(uv));
        let grain = GRAIN.div_ceil(2 * width.max(1));
        threads.par_ranges(batch * height / 2, grain, |pairs| {
            for pair in pairs {
                let (image, row) = (pair / (height / 2), pair % (height / 2));
                for x in 0..width / 2 {
                    let mut mean = [W::of(0.0); 3];
                    for (dy, dx) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        let (row, column) = (2 * row + dy, 2 * x + dx);
                        let at = 3 * ((image * height + row) * width + column);
                        let mut rgb: [W; 3] = std::array::from_fn(|c| load(from[at + c]));
                        if bgr {
                            rgb.reverse();
                        }
                        mean = std::array::from_fn(|c| mean[c] + rgb[c] * W::of(0.25));
                        // SAFETY: within the plane, as checked above; each of its elements is
                        // written once.
                        unsafe { *y.at(y_at.at(image, row, column)) = save(luma(rgb)) };
                    }
                    let [u, v] = chroma(mean).map(save);
                    // SAFETY: as above.
                    unsafe {
                        *uv.at(u_at.at(image, row, x)) = u;
                        *uv.at(v_at.at(image, row, x)) = v;
                    }
                }
            }
        });
    }
}

/// Pixels computed at a time; two neighbours share `u` and `v`.
const PIXELS: usize = 64;

multiversion! {
    vectors if size_of::<W>() == size_of::<f32>();
    /// A row of pixels; `u` and `v` are `step` elements apart.
    fn colour_row<T: Pixel, W: Real>(
        y: &[T],
        u: &[T],
        v: &[T],
        step: usize,
        bgr: bool,
        to: &mut [T],
    ) {
        // A loop for each step, which the compiler vectorises.
        let mut yuv = [[W::of(0.0); PIXELS]; 3];
        let mut rgb = [[T::default(); PIXELS]; 3];
        for (i, to) in to.chunks_mut(3 * PIXELS).enumerate() {
            let (count, pair) = (to.len() / 3, i * PIXELS / 2);
            let [luma, u_of, v_of] = &mut yuv;
            for (to, y) in luma.iter_mut().zip(&y[i * PIXELS..][..count]) {
                *to = load(*y);
            }
            for (from, to) in [(u, u_of), (v, v_of)] {
                let to = to[..count].as_chunks_mut().0.iter_mut();
                for (to, value) in to.zip(from[pair * step..].iter().step_by(step)) {
                    *to = [load(*value); 2];
                }
            }
            for k in 0..PIXELS {
                let [r, g, b] = colour(yuv[0][k], yuv[1][k], yuv[2][k]);
                (yuv[0][k], yuv[1][k], yuv[2][k]) = (r, g, b);
            }
            for (from, to) in yuv.iter().zip(&mut rgb) {
                for k in 0..PIXELS {
                    to[k] = save(from[k]);
                }
            }
            let order = if bgr { [2, 1, 0] } else { [0, 1, 2] };
            let [first, second, third] = order.map(|c: usize| &rgb[c]);
            for (k, to) in to.as_chunks_mut().0.iter_mut().enumerate() {
                *to = [first[k], second[k], third[k]];
            }
        }
    }
}

#[inline(always)]
fn colour<W: Real>(y: W, u: W, v: W) -> [W; 3] {
    let c = W::of;
    let (y, u, v) = (c(1.164) * (y - c(16.0)), u - c(128.0), v - c(128.0));
    [y + c(1.596) * v, y - c(0.391) * u - c(0.813) * v, y + c(2.018) * u]
}

fn luma<W: Real>([r, g, b]: [W; 3]) -> W {
    let c = W::of;
    c(0.257) * r + c(0.504) * g + c(0.098) * b + c(16.0)
}

fn chroma<W: Real>([r, g, b]: [W; 3]) -> [W; 2] {
    let c = W::of;
    let u = c(-0.148) * r - c(0.291) * g + c(0.439) * b + c(128.0);
    [u, c(0.439) * r - c(0.368) * g - c(0.071) * b + c(128.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_stays_and_colours_come_back() {
        let images = Images { batch: 2, height: 2, width: 4, bgr: true };
        let luma = Plane { start: 0, image: 12, row: 4, column: 1 };
        let u = Plane { start: 8, image: 12, row: 4, column: 2 };
        let v = Plane { start: 9, ..u };
        // One colour for each square of four pixels.
        let colours = [[0u8, 0, 0], [255, 255, 255], [200, 30, 90], [10, 120, 240]];
        let image: Vec<u8> = (0..16).flat_map(|i| colours[i / 8 * 2 + i % 4 / 2]).collect();
        let mut planes = [7; 24];
        let (mut y, mut uv) = (vec![0; 24], vec![0; 24]);
        images.planes::<u8, f32>(Threads::single(), &image, (&mut y, luma), (&mut uv, u));
        for i in 0..24 {
            planes[i] = if i % 12 < 8 { y[i] } else { uv[i] };
        }
        assert_eq!(planes[..12], [16, 16, 235, 235, 16, 16, 235, 235, 128, 128, 128, 128]);
        let mut back = vec![0; 48];
        let planes = [(&planes[..], luma), (&planes[..], u), (&planes[..], v)];
        images.colours::<u8, f32>(&Threads::new(2), planes, &mut back);
        assert!(image.iter().zip(&back).all(|(a, b)| a.abs_diff(*b) <= 2), "{back:?}");
    }

    /// Rows longer than a block, in both layouts of the planes, pixel by pixel.
    #[test]
    fn long_rows() {
        let images = Images { batch: 1, height: 2, width: 150, bgr: false };
        let byte = |i: usize| (i * 7919 % 256) as u8;
        let planes: Vec<u8> = (0..450).map(byte).collect();
        let luma = Plane { start: 0, image: 450, row: 150, column: 1 };
        for (first, second, column) in [(300, 301, 2), (300, 375, 1)] {
            let at = |start| Plane { start, image: 450, row: 150, column };
            let mut found = vec![0; 900];
            let all = [luma, at(first), at(second)].map(|plane| (&planes[..], plane));
            images.colours::<u8, f32>(Threads::single(), all, &mut found);
            for (i, found) in found.chunks_exact(3).enumerate() {
                let pair = i % 150 / 2 * column;
                let of = |at: usize| f32::from(planes[at]);
                let expected = colour(of(i), of(first + pair), of(second + pair));
                let expected = expected.map(|x| x.clamp(0.0, 255.0).round_ties_even() as u8);
                assert_eq!(found, expected, "pixel {i}, columns {column}");
            }
        }
    }
}
