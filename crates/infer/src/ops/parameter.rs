//! Parameter-1: an input of the graph, with its declared type and shape.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/parameter-1.html>

use crate::rule::prelude::*;

/// Parameter-1.
#[derive(Debug)]
pub struct Parameter {
    element_type: ElementType,
    shape: PartialShape,
}

impl Parse for Parameter {
    type Kind = ();

    /// A missing shape is a scalar and a missing type is dynamic, as in OpenVINO.
    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Parameter {
            element_type: attrs.element_type_or("element_type", ElementType::Dynamic)?,
            shape: attrs.shape_opt("shape")?.unwrap_or_else(PartialShape::scalar),
        })
    }
}

impl Parameter {
    /// The declared element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The declared shape.
    pub fn shape(&self) -> &PartialShape {
        &self.shape
    }
}

impl Op for Parameter {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(0..=0)?;
        cx.because("the model leaves it open");
        cx.set(0, self.element_type, self.shape.clone());
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::STATEFUL
    }
}
