//! Prior boxes: boxes around every cell of a grid.

use super::boxes::Rect;

/// One of the boxes of a cell, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Offset of its centre from that of the cell.
    pub shift: (f32, f32),
    /// Half its width and half its height.
    pub half: (f32, f32),
    /// Whether it is clipped to the image.
    pub inside: bool,
}

/// A grid of cells over an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Rows and columns.
    pub cells: (usize, usize),
    /// Height and width of the image.
    pub image: (f32, f32),
    /// Horizontal and vertical distance of the centres.
    pub step: (f32, f32),
    /// Position of the first centre, in steps.
    pub offset: f32,
}

impl Grid {
    /// Fills `out` with the boxes of all cells, relative to the image, row by row; the rest with
    /// zeros.
    pub fn run(&self, priors: &[Prior], clip: bool, out: &mut [f32]) {
        let (rows, columns) = self.cells;
        let centre = |i: usize, step: f32| (i as f32 + self.offset) * step;
        let cells = (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y)));
        let boxes = cells.flat_map(|(x, y)| {
            let (x, y) = (centre(x, self.step.0), centre(y, self.step.1));
            priors.iter().map(move |prior| self.place(x, y, prior, clip).corners())
        });
        out.fill(0.0);
        for (to, corners) in out.chunks_exact_mut(4).zip(boxes) {
            to.copy_from_slice(&corners);
        }
    }

    fn place(&self, x: f32, y: f32, prior: &Prior, clip: bool) -> Rect {
        let (x, y) = (x + prior.shift.0, y + prior.shift.1);
        let ((w, h), (height, width)) = (prior.half, self.image);
        let mut r = Rect::new((x - w) / width, (y - h) / height, (x + w) / width, (y + h) / height);
        if prior.inside {
            r = Rect::new(r.x0.max(0.0), r.y0.max(0.0), r.x1.min(1.0), r.y1.min(1.0));
        }
        if clip { r.clipped(1.0, 1.0) } else { r }
    }
}

/// Repeats one or four variances to fill `out`.
pub fn repeat(variances: &[f32], out: &mut [f32]) {
    for (to, variance) in out.iter_mut().zip(variances.iter().cycle()) {
        *to = *variance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_surround_the_centres() {
        let grid = Grid { cells: (1, 2), image: (8.0, 16.0), step: (8.0, 8.0), offset: 0.5 };
        let prior = Prior { shift: (0.0, 0.0), half: (8.0, 4.0), inside: false };
        let mut out = [9.0; 12];
        grid.run(&[prior], false, &mut out);
        assert_eq!(out, [-0.25, 0.0, 0.75, 1.0, 0.25, 0.0, 1.25, 1.0, 0.0, 0.0, 0.0, 0.0]);
        grid.run(&[prior], true, &mut out);
        assert_eq!(out[..8], [0.0, 0.0, 0.75, 1.0, 0.25, 0.0, 1.0, 1.0]);
        grid.run(&[Prior { inside: true, shift: (4.0, 0.0), ..prior }], false, &mut out[..4]);
        assert_eq!(out[..4], [0.0, 0.0, 1.0, 1.0]);
        repeat(&[1.0, 2.0, 3.0, 4.0], &mut out[..5]);
        assert_eq!(out[..5], [1.0, 2.0, 3.0, 4.0, 1.0]);
    }
}
