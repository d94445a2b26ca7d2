//! ConvertPromoteTypes-14: converts each input that does not have the common type.

use crate::kernel::lanes::conversion_of;
use crate::prelude::*;
use crate::tensor::convert::Conversion;
use infer::ops::convert_promote_types::ConvertPromoteTypes;
use smallvec::smallvec;

impl Lower for ConvertPromoteTypes {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let conversion = |i: usize| {
            let (from, to) = (cx.element_type(i), cx.output_type(i));
            if from == to { Ok(None) } else { conversion_of(i, from, to).map(Some) }
        };
        Ok(Box::new(Promotion { conversions: [conversion(0)?, conversion(1)?] }))
    }
}

struct Promotion {
    /// `None` for an input that has the common type.
    conversions: [Option<Conversion>; 2],
}

impl Kernel for Promotion {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        for (i, conversion) in self.conversions.iter().enumerate() {
            let (count, from, to) = (cx.tensor(i).count(), cx.input_bytes(i), cx.output_bytes(i));
            match conversion {
                Some(conversion) => conversion.run(cx.threads(), count, from, to),
                None => to.copy_from_slice(from),
            }
        }
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        match self.conversions {
            [None, None] => {
                let view = |input| View { input, offset: 0 };
                Reuse::Views(smallvec![view(0), view(1)])
            }
            _ => Reuse::None,
        }
    }

    fn name(&self) -> &'static str {
        "convert"
    }
}
