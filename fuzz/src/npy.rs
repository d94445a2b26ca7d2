//! Array files: `.npy`, `.npz` and `.safetensors`.

use cli::npy::{Cast, from_stream, write};
use cli::npz::Npz;
use ir::ElementType::{self, BF16, Dynamic, F32, I4, I64, String, U1};
use runtime::Tensor;

/// The requested types.
const WANTED: [ElementType; 7] = [Dynamic, F32, I64, BF16, I4, U1, String];
/// The most arrays of an archive that are read.
const MOST: usize = 4;

/// A file is an array or an error, for each requested type. An array is the same after writing and
/// reading it again.
pub fn npy(data: &[u8]) {
    for wanted in WANTED {
        for cast in [Cast::Convert, Cast::Offer, Cast::Keep] {
            if data.starts_with(b"\x93NUMPY") {
                if let Ok(tensor) = from_stream(data.to_vec(), wanted, cast) {
                    comes_back(&tensor);
                }
                continue;
            }
            let archive = if data.starts_with(b"PK") {
                Npz::from_stream(data.to_vec())
            } else {
                Npz::from_safetensors(data.to_vec())
            };
            let Ok(mut archive) = archive else { return };
            for name in archive.names().iter().take(MOST) {
                if let Ok(tensor) = archive.read(name, wanted, cast) {
                    comes_back(&tensor);
                }
            }
        }
    }
}

/// Writing an array and reading it gives the same array.
fn comes_back(tensor: &Tensor) {
    let mut file = Vec::new();
    let written = write(tensor, &mut file);
    written.unwrap_or_else(|error| panic!("{tensor:?} cannot be written: {error:#}"));
    let again = from_stream(file, tensor.element_type(), Cast::Never);
    let again = again.unwrap_or_else(|error| panic!("{tensor:?} cannot be read: {error:#}"));
    assert_eq!(tensor.sizes(), again.sizes());
    assert_eq!(tensor.as_strings(), again.as_strings());
    assert!(tensor.bytes() == again.bytes(), "{tensor:?} comes back as {again:?}");
}
