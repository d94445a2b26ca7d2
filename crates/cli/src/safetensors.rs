//! `.safetensors` files: named tensors behind a header of JSON.

use crate::npy::{self, Cast};
use crate::{hint, out};
use ::safetensors::tensor::{Metadata, TensorView};
use ::safetensors::{Dtype, SafeTensors};
use anyhow::{Context, Result, bail};
use ir::{ElementType, Weights, WeightsSlice};
use runtime::Tensor;
use std::path::Path;
use std::sync::Arc;

/// A file opened for reading.
pub(crate) struct SafetensorsFile {
    file: Arc<Weights>,
    /// Where the tensors begin, behind the header.
    data: usize,
    metadata: Metadata,
}

impl SafetensorsFile {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened, or its header does not fit it.
    pub(crate) fn open(path: &Path) -> Result<SafetensorsFile> {
        let shown = path.display();
        std::fs::metadata(path)
            .with_context(|| format!("{shown} cannot be opened{}", hint::file(path)))?;
        let file = Arc::new(Weights::open(path));
        if let Err(e) = file.range(0, 0) {
            bail!("{e}");
        }
        SafetensorsFile::of(file).with_context(|| format!("{shown} is no .safetensors file"))
    }

    /// The tensors in the bytes of a file.
    ///
    /// # Errors
    /// When the header does not fit them.
    pub(crate) fn of(file: Arc<Weights>) -> Result<SafetensorsFile> {
        let (header, metadata) = SafeTensors::read_metadata(file.bytes())?;
        // The length of the header stands before it, in eight bytes.
        Ok(SafetensorsFile { data: header.saturating_add(8), file, metadata })
    }

    /// The names of the tensors, in the order of the file.
    pub(crate) fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// Reads a tensor for a port of type `wanted`; `dynamic` takes the file's own type.
    ///
    /// # Errors
    /// When there is none of that name, or it is of another type than the port.
    pub(crate) fn read(&self, name: &str, wanted: ElementType, cast: Cast) -> Result<Tensor> {
        let info = self.metadata.info(name).with_context(|| format!("there is no \"{name}\""))?;
        let element_type = element_type(info.dtype)
            .with_context(|| format!("\"{name}\" is of type {}, which is not read", info.dtype))?;
        let (begin, end) = info.data_offsets;
        let offset = u64::try_from(self.data.saturating_add(begin))?;
        let len = u64::try_from(end.saturating_sub(begin))?;
        let bytes = WeightsSlice::new(&self.file, offset, len)?;
        let tensor = Tensor::from_weights(element_type, &info.shape, bytes)?;
        let tensor = if tensor.is_aligned() { tensor } else { tensor.to_owned()? };
        npy::as_wanted(tensor, wanted, cast).with_context(|| format!("\"{name}\""))
    }
}

/// Types that both sides have.
const TYPES: [(Dtype, ElementType); 15] = [
    (Dtype::BOOL, ElementType::Boolean),
    (Dtype::U8, ElementType::U8),
    (Dtype::U16, ElementType::U16),
    (Dtype::U32, ElementType::U32),
    (Dtype::U64, ElementType::U64),
    (Dtype::I8, ElementType::I8),
    (Dtype::I16, ElementType::I16),
    (Dtype::I32, ElementType::I32),
    (Dtype::I64, ElementType::I64),
    (Dtype::F16, ElementType::F16),
    (Dtype::BF16, ElementType::BF16),
    (Dtype::F32, ElementType::F32),
    (Dtype::F64, ElementType::F64),
    (Dtype::F8_E4M3, ElementType::F8E4M3),
    (Dtype::F8_E5M2, ElementType::F8E5M2),
];

fn element_type(dtype: Dtype) -> Option<ElementType> {
    TYPES.iter().find(|(own, _)| *own == dtype).map(|(_, element_type)| *element_type)
}

/// Whether a file is called so.
pub(crate) fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors"))
}

/// Writes tensors under their names, whole or not at all.
///
/// # Errors
/// When the format has no such type, or the file cannot be written.
pub(crate) fn write(path: &Path, arrays: &[(String, Tensor)]) -> Result<()> {
    let views = arrays.iter().map(|(name, tensor)| Ok((name, view(name, tensor)?)));
    let bytes = ::safetensors::serialize(views.collect::<Result<Vec<_>>>()?, None)?;
    out::write_whole(path, |file| Ok(file.write_all(&bytes)?))
}

fn view<'t>(name: &str, tensor: &'t Tensor) -> Result<TensorView<'t>> {
    let own = tensor.element_type();
    let known = TYPES.iter().find(|(_, element_type)| *element_type == own);
    let (dtype, _) = known.with_context(|| {
        format!("\"{name}\" is {own}, which .safetensors has no type for; write an .npz")
    })?;
    Ok(TensorView::new(*dtype, tensor.sizes().to_vec(), tensor.bytes())?)
}
