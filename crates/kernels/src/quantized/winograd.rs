//! Convolutions of three by three taps with fewer multiplications, on machines that multiply no bytes:
//! Winograd's F(2×2, 3×3), as in [`conv::winograd`](crate::conv), in integers. Filters are transformed
//! to four times what they would be, which is whole, so that the sums are four times those of the
//! convolution, to the last bit.

use super::TERMS;
use super::input::Image;
use super::kernel::{SIDE, WIDTH, multiplies_bytes, multiply_words};
use super::pack::Panels;
use super::requantize::Finish;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::conv::Convolution;
use crate::conv::winograd::{
    self, FEW_CHANNELS, OUT, PATCH, PLACES, TAPS, is_three_by_three, patches,
};
use crate::multiversion;
use std::ops::Range;

/// Columns of a panel whose sums are transformed together.
const LANES: usize = 8;

/// What the sums are multiples of, as a shift.
const FOUR: u32 = 2;

/// Bytes of transformed patches that a thread works on, while the filters pass.
const CACHE: usize = 256 << 10;

/// Patches that a thread works on, at least.
const LEAST: usize = 32;

/// Below so many patches of an image the transformed filters take longer to read than the
/// multiplications that they save.
const FEW_PATCHES: usize = 32;

/// Whether it pays for a convolution, on this machine: the sums are the same. Four times the largest of
/// them fits 32 bits.
pub(super) fn pays(conv: &Convolution) -> bool {
    !multiplies_bytes()
        && is_three_by_three(conv)
        && conv.inputs >= FEW_CHANNELS
        && conv.inputs.is_multiple_of(winograd::LANES)
        && conv.outputs >= FEW_CHANNELS
        && TAPS * conv.inputs <= TERMS >> FOUR
        && patches(conv) >= FEW_PATCHES
}

/// Pairs of words of a panel: those of each place one behind the other.
pub(super) fn panel_pairs(conv: &Convolution) -> usize {
    PLACES * place_pairs(conv)
}

fn place_pairs(conv: &Convolution) -> usize {
    conv.inputs / 2 * WIDTH
}

/// Transforms the filters of a panel, at most [`WIDTH`] of them, given for each input channel, tap by tap:
/// for each place pairs of words, as [`multiply_words`] takes them.
pub(super) fn lay_out(conv: &Convolution, filters: &[i8], panel: &mut [u32]) {
    let each = conv.inputs * TAPS;
    for pair in 0..conv.inputs / 2 {
        let words = [2 * pair, 2 * pair + 1].map(|channel| {
            let mut taps = [[0; WIDTH]; TAPS];
            for (column, filter) in filters.chunks_exact(each).enumerate() {
                for (tap, value) in taps.iter_mut().zip(&filter[channel * TAPS..]) {
                    tap[column] = i16::from(*value);
                }
            }
            filter_places(&taps)
        });
        for place in 0..PLACES {
            let to = &mut panel[place * place_pairs(conv) + pair * WIDTH..][..WIDTH];
            for (j, to) in to.iter_mut().enumerate() {
                let [low, high] = [0, 1].map(|word| u32::from(words[word][place][j] as u16));
                *to = low | high << 16;
            }
        }
    }
}

multiversion! {
    wide if false;
    /// `2G g 2Gᵀ` of the filters of a panel.
    fn filter_places(taps: &[[i16; WIDTH]; TAPS]) -> [[i16; WIDTH]; PLACES] {
        let mut lines = [[[0; WIDTH]; 3]; PATCH];
        for t in 0..3 {
            let line = filter_line([&taps[3 * t], &taps[3 * t + 1], &taps[3 * t + 2]]);
            for s in 0..PATCH {
                lines[s][t] = line[s];
            }
        }
        let mut places = [[0; WIDTH]; PLACES];
        for s in 0..PATCH {
            let column = filter_line([&lines[s][0], &lines[s][1], &lines[s][2]]);
            for r in 0..PATCH {
                places[r * PATCH + s] = column[r];
            }
        }
        places
    }
}

/// `2G g` for a row, or a column, of filters.
#[inline(always)]
fn filter_line(g: [&[i16; WIDTH]; 3]) -> [[i16; WIDTH]; PATCH] {
    let mut line = [[0; WIDTH]; PATCH];
    for l in 0..WIDTH {
        let outer = g[0][l] + g[2][l];
        line[0][l] = 2 * g[0][l];
        line[1][l] = outer + g[1][l];
        line[2][l] = outer - g[1][l];
        line[3][l] = 2 * g[2][l];
    }
    line
}

/// Computes the sums of a convolution that [`pays`], panel by panel, and finishes them; `finish` says how.
pub(super) fn run<'a>(
    conv: &Convolution,
    (threads, scratch): (&Threads, &ScratchPool),
    (image, filters): (&Image<'_>, &Panels),
    finish: impl Fn(usize) -> Finish<'a> + Sync,
) {
    let work = Work { conv, image, filters };
    let patches = conv.batch * patches(conv);
    let (each, sums_each) = (PLACES * conv.inputs, PLACES * WIDTH);
    let most = (CACHE / (each * size_of::<i16>())).max(LEAST);
    let parts = patches.div_ceil(most).next_multiple_of(threads.count());
    let most = patches.div_ceil(parts);
    let mut words = scratch.take::<i16>(each * most * threads.count());
    let mut sums = scratch.take::<i32>(sums_each * most * threads.count());
    let (words, sums) = (Slice::new(&mut words), Slice::new(&mut sums));
    threads.run(patches.div_ceil(most), &|part, worker| {
        let range = part * most..patches.min((part + 1) * most);
        let (count, room) = (range.len(), worker * most);
        // SAFETY: no two threads are the same worker at a time.
        let (words, sums) = unsafe {
            let (words, sums) = (words.at(room * each), sums.at(room * sums_each));
            let words = std::slice::from_raw_parts_mut(words, count * each);
            (words, std::slice::from_raw_parts_mut(sums, count * sums_each))
        };
        work.read(range.clone(), words);
        for panel in 0..filters.count() {
            work.multiply(panel, count, words, sums);
            // SAFETY: patches are disjoint parts of the output.
            unsafe { work.write(range.clone(), sums, &finish(panel)) };
        }
    });
}

/// What is convolved.
struct Work<'a> {
    conv: &'a Convolution,
    image: &'a Image<'a>,
    filters: &'a Panels,
}

impl Work<'_> {
    /// The line of patches, over the whole batch, that a patch is on, and its place there.
    fn place(&self, patch: usize) -> (usize, usize) {
        let across = self.conv.axes[2].output.div_ceil(OUT);
        (patch / across, patch % across)
    }

    /// Batch and number of a line of patches.
    fn line(&self, line: usize) -> (usize, usize) {
        let down = self.conv.axes[1].output.div_ceil(OUT);
        (line / down, line % down)
    }

    /// Transforms some patches: a matrix for each place, with a row for each patch.
    fn read(&self, patches: Range<usize>, words: &mut [i16]) {
        let channels = self.conv.inputs;
        let step = patches.len() * channels;
        for (i, patch) in patches.enumerate() {
            let (line, x) = self.place(patch);
            let (batch, y) = self.line(line);
            let positions = std::array::from_fn(|p| {
                self.image.position(batch, OUT * y + p / PATCH, OUT * x + p % PATCH)
            });
            winograd::transform_patch(&positions, channels, &mut words[i * channels..], step);
        }
    }

    /// Multiplies the channels at each place by those of a panel.
    fn multiply(&self, panel: usize, count: usize, words: &[i16], sums: &mut [i32]) {
        let own = self.filters.words(panel).chunks_exact(place_pairs(self.conv));
        let rows = words.chunks_exact(count * self.conv.inputs);
        for ((own, rows), sums) in own.zip(rows).zip(sums.chunks_exact_mut(count * WIDTH)) {
            multiply_words(rows, self.conv.inputs, own, sums);
        }
    }

    /// Writes the outputs of some patches.
    ///
    /// # Safety
    /// No other task uses these columns of them.
    unsafe fn write(&self, patches: Range<usize>, sums: &[i32], finish: &Finish<'_>) {
        let [_, height, width] = self.conv.axes;
        let step = patches.len() * WIDTH;
        let mut patch = patches.start;
        while patch < patches.end {
            let (line, x) = self.place(patch);
            let (batch, y) = self.line(line);
            // Patches side by side, whose outputs are finished together.
            let left = (width.output.div_ceil(OUT) - x).min(patches.end - patch);
            let count = left.min(SIDE / OUT);
            let mut outputs = [[[0; WIDTH]; SIDE]; OUT];
            for i in 0..count {
                let own = &sums[(patch - patches.start + i) * WIDTH..];
                let [above, below] = transform_sums(own, step);
                outputs[0][OUT * i..][..OUT].copy_from_slice(&above);
                outputs[1][OUT * i..][..OUT].copy_from_slice(&below);
            }
            let columns = OUT * x..width.output.min(OUT * (x + count));
            for (side, outputs) in outputs.iter().enumerate() {
                let y = OUT * y + side;
                if y < height.output {
                    let row = (batch * height.output + y) * width.output + columns.start;
                    // SAFETY: these are within the output; the caller's promise.
                    unsafe { finish.write(&outputs[..columns.len()], row) };
                }
            }
            patch += count;
        }
    }
}

multiversion! {
    wide if false;
    /// A quarter of `Aᵀ m A` of the sums of a patch, of which place `p` begins at `p * step`: two lines of
    /// two outputs.
    fn transform_sums(sums: &[i32], step: usize) -> [[[i32; WIDTH]; OUT]; OUT] {
        let mut outputs = [[[0; WIDTH]; OUT]; OUT];
        for c in (0..WIDTH).step_by(LANES) {
            let mut lines = [[[0; LANES]; OUT]; PATCH];
            for r in 0..PATCH {
                let m: [[i32; LANES]; PATCH] = std::array::from_fn(|s| {
                    let mut m = [0; LANES];
                    m.copy_from_slice(&sums[(r * PATCH + s) * step + c..][..LANES]);
                    m
                });
                lines[r] = sum_line([&m[0], &m[1], &m[2], &m[3]]);
            }
            for x in 0..OUT {
                let column = sum_line([&lines[0][x], &lines[1][x], &lines[2][x], &lines[3][x]]);
                for y in 0..OUT {
                    for l in 0..LANES {
                        outputs[y][x][c + l] = column[y][l] >> FOUR;
                    }
                }
            }
        }
        outputs
    }
}

/// `Aᵀ m` for a row, or a column, of sums, which may wrap on the way to what fits.
#[inline(always)]
fn sum_line(m: [&[i32; LANES]; PATCH]) -> [[i32; LANES]; OUT] {
    let mut line = [[0; LANES]; OUT];
    for l in 0..LANES {
        line[0][l] = m[0][l].wrapping_add(m[1][l]).wrapping_add(m[2][l]);
        line[1][l] = m[1][l].wrapping_sub(m[2][l]).wrapping_sub(m[3][l]);
    }
    line
}
