//! Conversions between RGB and YUV, in f32; f64 in f64.

use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::color::{Color, Kind};
use kernels::color::{Images, Plane};
use kernels::interpolate::Pixel;
use kernels::real::Real;
use std::marker::PhantomData;

impl Lower for Color {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let kind = self.kind();
        let image = if kind.makes_planes() { cx.sizes(0) } else { cx.output_sizes(0)? };
        let [batch, height, width, _] = *image else {
            return Err(RuleError::at(0, format!("is {image:?}, not an image")).into());
        };
        let tensors = if kind.makes_planes() { cx.output_count() } else { cx.input_count() };
        let images = Images { batch, height, width, bgr: kind.is_bgr() };
        let planes = planes(&images, kind, tensors);
        let element_type = cx.element_type(0);
        Ok(match element_type {
            ElementType::U8 => kernel::<u8, f32>(images, kind, planes),
            ElementType::F64 => kernel::<f64, f64>(images, kind, planes),
            _ => with_type!(element_type, float T => kernel::<T, f32>(images, kind, planes))
                .ok_or_else(|| LowerError::element_type(0, element_type))?,
        })
    }
}

/// The tensor of a plane, and its position there.
type PlaneOf = (usize, Plane);

/// The planes y, u and v, in one, two or three tensors.
fn planes(images: &Images, kind: Kind, tensors: usize) -> [PlaneOf; 3] {
    let Images { height, width, .. } = *images;
    let (luma, quarter) = (height * width, height * width / 4);
    let single = tensors == 1;
    let image = if single { luma + 2 * quarter } else { luma };
    let y = (0, Plane { start: 0, image, row: width, column: 1 });
    let offset = if single { luma } else { 0 };
    if kind.is_interleaved() {
        let image = if single { image } else { 2 * quarter };
        let u = Plane { start: offset, image, row: width, column: 2 };
        let tensor = usize::from(!single);
        return [y, (tensor, u), (tensor, Plane { start: offset + 1, ..u })];
    }
    let image = if single { image } else { quarter };
    let u = Plane { start: offset, image, row: width / 2, column: 1 };
    if single {
        [y, (0, u), (0, Plane { start: offset + quarter, ..u })]
    } else {
        [y, (1, u), (2, u)]
    }
}

fn kernel<T: Pixel, W: Real>(images: Images, kind: Kind, planes: [PlaneOf; 3]) -> Box<dyn Kernel> {
    if kind.makes_planes() {
        Box::new(ToPlanes::<T, W> { images, planes, of: PhantomData })
    } else {
        Box::new(ToColours::<T, W> { images, planes, of: PhantomData })
    }
}

struct ToColours<T, W> {
    images: Images,
    planes: [PlaneOf; 3],
    of: PhantomData<(T, W)>,
}

impl<T: Pixel, W: Real> Kernel for ToColours<T, W> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let output = cx.output(0);
        let planes = self.planes.map(|(input, plane)| (cx.input::<T>(input), plane));
        self.images.colours::<T, W>(cx.threads(), planes, output);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "color"
    }
}

struct ToPlanes<T, W> {
    images: Images,
    planes: [PlaneOf; 3],
    of: PhantomData<(T, W)>,
}

impl<T: Pixel, W: Real> Kernel for ToPlanes<T, W> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let [(_, y), (tensor, mut u), _] = self.planes;
        let (threads, from) = (cx.threads(), cx.input::<T>(0));
        let first = cx.output::<T>(0);
        if tensor == 1 {
            let second = cx.output(1);
            self.images.planes::<T, W>(threads, from, (first, y), (second, u));
            return Ok(());
        }
        // Luma and chroma alternate, image by image.
        let one = Images { batch: 1, ..self.images };
        let (whole, pixels) = (y.image, u.start);
        u.start = 0;
        if whole > 0 {
            let images = from.chunks_exact(3 * pixels).zip(first.chunks_exact_mut(whole));
            for (from, to) in images {
                let (luma, chroma) = to.split_at_mut(pixels);
                one.planes::<T, W>(threads, from, (luma, y), (chroma, u));
            }
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "color"
    }
}
