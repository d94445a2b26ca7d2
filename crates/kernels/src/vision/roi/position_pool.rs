//! Position-sensitive pooling: each bin of a box has its own channels.

use super::{Maps, Sample, corners, each_box};
use crate::base::num::Wide as _;
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};

/// How a bin is pooled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PositionMode {
    /// The mean of the elements of a bin; each bin has its own channel.
    Average,
    /// The mean of one sample for each of several parts of a box, along x and y; each part has its
    /// own channel. Boxes are relative to the size of the maps; samples outside are 0.
    Bilinear(usize, usize),
    /// The mean of the samples of a bin, along x and y; each bin has its own channel. The third
    /// number is the shift of a bin per unit of offset, in sizes of the box.
    Deformable(usize, usize, f64),
}

/// Shifts of the bins: `[boxes, 2 * classes, parts, parts]`.
#[derive(Clone, Copy, Debug)]
pub struct Offsets<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Number of classes: runs of neighbouring output channels with the same shifts.
    pub classes: usize,
    /// Parts of a box along each axis.
    pub parts: usize,
}

/// Pooling of boxes, which are `[batch, x1, y1, x2, y2]`.
#[derive(Clone, Debug)]
pub struct PositionPool {
    /// Channels of the output.
    pub outputs: usize,
    /// Bins along each axis.
    pub group: usize,
    /// Factor from box coordinates to map coordinates.
    pub scale: f64,
    /// How a bin is pooled.
    pub mode: PositionMode,
}

/// One element of the output: a bin of a channel of a box.
#[derive(Clone, Copy)]
struct Bin {
    index: usize,
    channel: usize,
    row: usize,
    column: usize,
}

impl PositionPool {
    /// Pools boxes, one for each element of `batches`; further boxes give zeros.
    ///
    /// # Panics
    /// When the sizes of the slices do not match.
    pub fn run<T: StoredReal>(
        &self,
        threads: &Threads,
        maps: Maps<'_, T>,
        (rois, batches): (&[T], &[usize]),
        offsets: Option<Offsets<'_, T>>,
        to: &mut [T],
    ) {
        let bins = self.group * self.group;
        let reads = match self.mode {
            PositionMode::Average => maps.height * maps.width / bins.max(1),
            PositionMode::Bilinear(x, y) | PositionMode::Deformable(x, y, _) => 4 * x * y,
        };
        each_box(threads, (batches, self.outputs * bins, reads), to, |index, batch, to| {
            let roi = &rois[index * 5 + 1..][..4];
            for (i, to) in to.iter_mut().enumerate() {
                let (row, column) = (i / self.group % self.group, i % self.group);
                let place = Bin { index, channel: i / bins, row, column };
                *to = match self.mode {
                    PositionMode::Average => {
                        self.average(&maps, maps.plane(batch, i), roi, place).narrow()
                    }
                    PositionMode::Bilinear(x, y) => {
                        self.bilinear(&maps, batch, roi, place, (x, y)).narrow()
                    }
                    PositionMode::Deformable(x, y, std) => {
                        let offset = self.offset(offsets.as_ref(), place, std);
                        let plane = maps.plane(batch, i);
                        self.deformable(&maps, plane, roi, place, (x, y), offset).narrow()
                    }
                };
            }
        });
    }

    /// Start and size of a box with rounded coordinates; the size is at least 0.1.
    fn bounds<T: StoredReal>(&self, roi: &[T]) -> [(T::Wide, T::Wide); 2] {
        let of = <T::Wide as Real>::of;
        let [x1, y1, x2, y2] = [0, 1, 2, 3].map(|i| roi[i].widen().round_away());
        let axis = |start: T::Wide, end: T::Wide| {
            let (start, end) = (start * of(self.scale), (end + of(1.0)) * of(self.scale));
            (start, (end - start).greatest(of(0.1)))
        };
        [axis(x1, x2), axis(y1, y2)]
    }

    fn average<T: StoredReal>(
        &self,
        maps: &Maps<'_, T>,
        plane: &[T],
        roi: &[T],
        place: Bin,
    ) -> T::Wide {
        let of = <T::Wide as Real>::of;
        let [x, y] = self.bounds(roi);
        let range = |(start, size): (T::Wide, T::Wide), bin: usize, limit: usize| {
            let each = size / of(self.group as f64);
            let edge = |v: T::Wide| (v.to_f64() as usize).min(limit);
            let first = edge((start + of(bin as f64) * each).floor());
            first..edge((start + of((bin + 1) as f64) * each).ceil())
        };
        let (columns, rows) =
            (range(x, place.column, maps.width), range(y, place.row, maps.height));
        if rows.is_empty() || columns.is_empty() {
            return of(0.0);
        }
        let count = rows.len() * columns.len();
        let lines = rows.map(|row| &plane[row * maps.width..][columns.clone()]);
        lines.flatten().fold(of(0.0), |sum, x| sum + x.widen()) / of(count as f64)
    }

    fn bilinear<T: StoredReal>(
        &self,
        maps: &Maps<'_, T>,
        batch: usize,
        roi: &[T],
        place: Bin,
        parts: (usize, usize),
    ) -> T::Wide {
        let of = <T::Wide as Real>::of;
        let [x1, y1, x2, y2] = corners(roi, self.scale);
        let axis = |(start, end), bin: usize, (part, parts): (usize, usize), size: usize| {
            let last = of(size as f64 - 1.0);
            let each: T::Wide = (end - start) / of(parts as f64);
            let first: T::Wide = start + of(part as f64) * each;
            match self.group {
                1 => (first + first + each) * last / of(2.0),
                bins => of(bin as f64) * (each * last / of(bins as f64 - 1.0)) + first * last,
            }
        };
        let mut sum = of(0.0);
        for part in 0..parts.0 * parts.1 {
            let plane = maps.plane(batch, part * self.outputs + place.channel);
            let (left, top) = ((part % parts.0, parts.0), (part / parts.0, parts.1));
            let x = axis((x1, x2), place.column, left, maps.width);
            let y = axis((y1, y2), place.row, top, maps.height);
            let sample = Sample::new(maps, (x, y), 0.0);
            sum = sum + sample.map_or(of(0.0), |sample| sample.value(plane));
        }
        sum / of((parts.0 * parts.1).max(1) as f64)
    }

    /// The shift of a bin along x and y, in sizes of the box.
    fn offset<T: StoredReal>(
        &self,
        offsets: Option<&Offsets<'_, T>>,
        place: Bin,
        std: f64,
    ) -> (T::Wide, T::Wide) {
        let of = <T::Wide as Real>::of;
        let Some(offsets) = offsets else { return (of(0.0), of(0.0)) };
        let class = place.channel / (self.outputs / offsets.classes).max(1);
        let part = |bin: usize| bin * offsets.parts / self.group;
        let first = 2 * (place.index * offsets.classes + class);
        let value = |axis: usize| {
            let row = (first + axis) * offsets.parts + part(place.row);
            offsets.data[row * offsets.parts + part(place.column)].widen() * of(std)
        };
        (value(0), value(1))
    }

    fn deformable<T: StoredReal>(
        &self,
        maps: &Maps<'_, T>,
        plane: &[T],
        roi: &[T],
        place: Bin,
        samples: (usize, usize),
        offset: (T::Wide, T::Wide),
    ) -> T::Wide {
        let of = <T::Wide as Real>::of;
        let [x, y] = self.bounds(roi);
        let axis =
            |(start, size): (T::Wide, T::Wide), bin: usize, count: usize, offset: T::Wide| {
                let each = size / of(self.group as f64);
                let first = start - of(0.5) + of(bin as f64) * each + offset * size;
                (first, each / of(count as f64))
            };
        let (x, y) =
            (axis(x, place.column, samples.0, offset.0), axis(y, place.row, samples.1, offset.1));
        let (mut sum, mut count) = (of(0.0), 0u32);
        for i in 0..samples.0 * samples.1 {
            let (column, row) = (i % samples.0, i / samples.0);
            let point = (x.0 + of(column as f64) * x.1, y.0 + of(row as f64) * y.1);
            if let Some(sample) = Sample::new(maps, point, 0.5) {
                sum = sum + sample.value(plane);
                count += 1;
            }
        }
        sum / of(f64::from(count.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planes with the value `x + 10 y + 100 channel`.
    fn run(pool: &PositionPool, channels: usize, roi: [f64; 4], offsets: &[f64]) -> Vec<f64> {
        let value = |i: usize| (i % 8 + i / 8 % 6 * 10 + i / 48 * 100) as f64;
        let data: Vec<f64> = (0..48 * channels).map(value).collect();
        let maps = Maps { data: &data, channels, height: 6, width: 8 };
        let [x1, y1, x2, y2] = roi;
        let mut to = vec![7.0; pool.outputs * pool.group * pool.group];
        let offsets =
            (!offsets.is_empty()).then_some(Offsets { data: offsets, classes: 1, parts: 1 });
        pool.run(Threads::single(), maps, (&[0., x1, y1, x2, y2], &[0]), offsets, &mut to);
        to
    }

    #[test]
    fn each_mode() {
        let mut pool =
            PositionPool { outputs: 2, group: 2, scale: 1.0, mode: PositionMode::Average };
        let found = run(&pool, 8, [1., 1., 4., 4.], &[]);
        assert_eq!(found, [16.5, 118.5, 236.5, 338.5, 416.5, 518.5, 636.5, 738.5]);
        assert_eq!(run(&pool, 8, [9., 1., 12., 4.], &[]), [0.0; 8]);
        // A box of size 0 is a point.
        assert_eq!(run(&pool, 8, [3., 2., 1., 1.], &[])[0], 23.0);
        pool.mode = PositionMode::Deformable(2, 1, 0.5);
        let found = run(&pool, 8, [1., 1., 4., 4.], &[]);
        assert_eq!(found[..4], [6.0, 108.0, 226.0, 328.0]);
        let found = run(&pool, 8, [1., 1., 4., 4.], &[0.25, 0.5]);
        assert_eq!(found[..4], [16.5, 118.5, 236.5, 338.5]);
        let pool = PositionPool { mode: PositionMode::Bilinear(2, 1), ..pool };
        let found = run(&pool, 4, [0., 0., 1., 1.], &[]);
        assert_eq!(found[..4], [101.75, 105.25, 151.75, 155.25]);
    }
}
