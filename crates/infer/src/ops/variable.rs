//! ReadValue-3, ReadValue-6, Assign-3, Assign-6: variables that live from run to run.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/read-value-6.html>

use crate::fact::Fact;
use crate::prelude::*;

/// The operations and versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ReadValue-3: type and shape are those of the initial value.
    Read3,
    /// ReadValue-6: type and shape are attributes.
    Read6,
    /// Assign of either version.
    Assign,
}

/// ReadValue and Assign.
#[derive(Debug)]
pub struct Variable {
    kind: Kind,
    id: String,
    element_type: ElementType,
    shape: PartialShape,
}

impl Parse for Variable {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let id = attrs.required("variable_id", |text| Ok(text.to_owned()))?;
        let typed = kind == Kind::Read6;
        Ok(Variable {
            kind,
            id,
            element_type: match typed {
                true => attrs.element_type_or("variable_type", ElementType::Dynamic)?,
                false => ElementType::Dynamic,
            },
            shape: match typed {
                true => attrs.shape_opt("variable_shape")?.unwrap_or_else(PartialShape::unranked),
                false => PartialShape::unranked(),
            },
        })
    }
}

impl Variable {
    /// Whether it reads the variable or sets it.
    pub fn reads(&self) -> bool {
        self.kind != Kind::Assign
    }

    /// The variable.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The declared shape; that of the initial value for version 3.
    pub fn shape(&self) -> &PartialShape {
        &self.shape
    }
}

impl Op for Variable {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Assign => &["new_value"],
            _ => &["init_value"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let least = if self.kind == Kind::Read6 { 0 } else { 1 };
        cx.expect_inputs(least..=1)?;
        if self.kind == Kind::Assign {
            cx.set_fact(0, Fact { value: None, ..cx.fact(0) });
            return Ok(());
        }
        if cx.input_count() == 1 && self.kind == Kind::Read6 {
            let (shape, id) = (cx.shape(0), &self.id);
            let element_type = self.element_type;
            let any = element_type == ElementType::Dynamic;
            cx.expect_type(0, element_type.name(), |t| any || t == element_type)?;
            let fits = self.shape.is_compatible(shape);
            require!(0; fits, "is {shape}, but variable \"{id}\" is {}", self.shape);
        }
        let fact = match cx.variables() {
            // A run is about to begin: the variable is what it is, or what it begins with.
            Some(known) => match known.get(&self.id) {
                Some(fact) => fact.clone(),
                None if cx.input_count() == 1 => cx.fact(0),
                None => {
                    let empty = |d: &Dim| Dim::fixed(d.value().unwrap_or(0));
                    let dims = self.shape.dims().unwrap_or_default();
                    Fact::new(self.element_type, dims.iter().map(empty).collect())
                }
            },
            None if self.kind == Kind::Read3 => cx.fact(0),
            // A variable of any type is of that which it begins with.
            None if self.element_type == ElementType::Dynamic => {
                Fact::new(cx.element_type(0), self.shape.clone())
            }
            None => Fact::new(self.element_type, self.shape.clone()),
        };
        cx.because(format!("variable \"{}\" may hold any such value", self.id));
        cx.set_fact(0, Fact { value: None, ..fact });
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::STATEFUL
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let read = Case::of("ReadValue", "opset6")
            .attr("variable_id", "v")
            .attr("variable_type", "f32")
            .attr("variable_shape", "1,?");
        let f = |s| Input::shape(F32, s);
        read.clone().inputs([f("1,0")]).expect(&[Ok("f32[1,?]")]);
        read.clone().expect(&[Ok("f32[1,?]")]);
        read.clone().inputs([f("2,0")]).expect(&[Err("is [2,0], but variable \"v\" is [1,?]")]);
        read.inputs([Input::shape(I64, "1,0")]).expect(&[Err("must be f32, not i64")]);
        let open = Case::of("ReadValue", "opset6").attr("variable_id", "v");
        open.clone().attr("variable_type", "dynamic").inputs([f("2")]).expect(&[Ok("f32[...]")]);
        open.inputs([f("2")]).expect(&[Ok("f32[...]")]);
        let old = Case::of("ReadValue", "opset3").attr("variable_id", "v");
        old.inputs([f("2,?")]).expect(&[Ok("f32[2,?]")]);
        Case::of("Assign", "opset6").inputs([f("2")]).expect(&[Err("variable_id: is missing")]);
    }
}
