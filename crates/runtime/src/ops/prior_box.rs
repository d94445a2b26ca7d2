//! All versions of PriorBox.

use crate::kernel::produce::{Inputs, Produced, Values, fill_up, produce};
use crate::prelude::*;
use infer::ops::prior_box::PriorBox;
use kernels::detection::priors::{Grid, Prior, repeat};

impl Lower for PriorBox {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (rule, row) = (self.clone(), cx.output_sizes(0)?[1]);
        Ok(produce(cx, "prior box", move |inputs| {
            let Areas { cells, image } = areas(inputs)?;
            let (grid, min_size) = grid(&rule, cells, image);
            let priors: Vec<Prior> = priors(&rule, &min_size, row / 4);
            output(&grid, &priors, rule.clip, &rule.variance, row)
        }))
    }
}

/// What the boxes are laid out over.
pub(super) struct Areas {
    /// Rows and columns of the grid.
    pub(super) cells: (usize, usize),
    /// Height and width of the image.
    pub(super) image: (f32, f32),
}

/// The areas given by the inputs.
pub(super) fn areas(inputs: &Inputs<'_, '_>) -> Result<Areas, KernelError> {
    let pair = |input: usize| match inputs.ints(input)[..] {
        [height, width] => Ok((height, width)),
        _ => Err(KernelError::at(input, "must hold a height and a width")),
    };
    let (cells, image) = (pair(0)?, pair(1)?);
    let size = |v: i64| usize::try_from(v).unwrap_or(0);
    let cells = (size(cells.0), size(cells.1));
    Ok(Areas { cells, image: (image.0 as f32, image.1 as f32) })
}

/// The boxes in one row and their variances in another.
pub(super) fn output(
    grid: &Grid,
    priors: &[Prior],
    clip: bool,
    variances: &[f32],
    row: usize,
) -> Result<Vec<Produced>, KernelError> {
    let mut out = Vec::new();
    fill_up(&mut out, &[2, row])?;
    let (boxes, rest) = out.split_at_mut(row);
    grid.run(priors, clip, boxes);
    repeat(variances, rest);
    Ok(vec![(vec![2, row], Values::Floats(out))])
}

/// The grid, and the minimum sizes in pixels. Without `scale_all_sizes`, step and sizes are
/// fractions of the image height.
fn grid(rule: &PriorBox, cells: (usize, usize), image: (f32, f32)) -> (Grid, Vec<f32>) {
    let (rows, columns) = (cells.0 as f32, cells.1 as f32);
    let (mut step, mut min_size) = (rule.step, rule.min_size.clone());
    if !rule.scale_all_sizes {
        step = if step == -1.0 { image.0 / rows } else { step * image.0 };
        min_size.iter_mut().for_each(|size| *size *= image.0);
    }
    let (step, offset) = if step == 0.0 {
        ((image.1 / columns, image.0 / rows), 0.5)
    } else {
        ((step, step), rule.offset)
    };
    (Grid { cells, image, step, offset }, min_size)
}

/// The boxes of a cell, at most `limit`.
fn priors(rule: &PriorBox, min_size: &[f32], limit: usize) -> Vec<Prior> {
    let ratios = rule.ratios();
    let fixed = if rule.fixed_ratio.is_empty() { &ratios } else { &rule.fixed_ratio };
    let sizes = rule.fixed_size.iter().zip(&rule.density);
    let dense = sizes.flat_map(|(size, density)| {
        fixed.iter().flat_map(move |ratio| spread(*size, *ratio, *density))
    });
    let plain = (0..min_size.len()).flat_map(|i| around(rule, &ratios[1..], min_size, i));
    dense.chain(plain).take(limit).collect()
}

fn centred(side: f32, ratio: f32) -> Prior {
    let (half, root) = (side * 0.5, ratio.sqrt());
    Prior { shift: (0.0, 0.0), half: (half * root, half / root), inside: false }
}

/// The boxes of a fixed size: `density` per direction, spread over it.
fn spread(size: f32, ratio: f32, density: i64) -> impl Iterator<Item = Prior> {
    // In whole pixels, as in the original implementation.
    let (half, shift) = ((size.trunc() / 2.0).trunc(), (size / density as f32).trunc());
    let at = move |i: i64| shift / 2.0 - half + i as f32 * shift;
    let cells = (0..density).flat_map(move |y| (0..density).map(move |x| (x, y)));
    cells.map(move |(x, y)| Prior { shift: (at(x), at(y)), inside: true, ..centred(size, ratio) })
}

/// The boxes of one minimum size: the square, the one of the maximum size, the other ratios.
fn around(rule: &PriorBox, ratios: &[f32], min_size: &[f32], i: usize) -> Vec<Prior> {
    let last = i + 1 == min_size.len();
    // Without scale_all_sizes, the ratios apply to the first size, and once.
    let side = if rule.scale_all_sizes { min_size[i] } else { min_size[0] };
    let ratios = if rule.scale_all_sizes || last { ratios } else { &[] };
    let ratios = ratios.iter().map(|ratio| centred(side, *ratio));
    let largest = rule.max_size.get(i).map(|max| centred((min_size[i] * max).sqrt(), 1.0));
    let square = std::iter::once(centred(min_size[i], 1.0));
    if rule.max_before_ratios {
        square.chain(largest).chain(ratios).collect()
    } else {
        square.chain(ratios).chain(largest).collect()
    }
}
