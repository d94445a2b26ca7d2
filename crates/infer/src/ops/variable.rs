//! ReadValue-3, ReadValue-6, Assign-3, Assign-6: variables that live from run to run.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/read-value-6.html>

use crate::fact::Fact;
use crate::rule::prelude::*;

/// The operations and versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ReadValue-3: type and shape are those of the initial value.
    Read3,
    /// ReadValue-6: type and shape are attributes; without them as in version 3.
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
    /// `None` if not declared.
    shape: Option<PartialShape>,
}

impl Parse for Variable {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let id = attrs.required("variable_id", |text| Ok(text.to_owned()))?;
        let typed = kind == Kind::Read6;
        Ok(Variable {
            kind,
            id,
            element_type: if typed {
                attrs.element_type_or("variable_type", ElementType::Dynamic)?
            } else {
                ElementType::Dynamic
            },
            shape: if typed { attrs.shape_opt("variable_shape")? } else { None },
        })
    }
}

impl Variable {
    /// Whether it reads the variable or sets it.
    pub fn reads(&self) -> bool {
        self.kind != Kind::Assign
    }

    /// The id of the variable.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The declared shape, if there is one.
    pub fn shape(&self) -> Option<&PartialShape> {
        self.shape.as_ref()
    }

    /// The declared type and shape of the variable.
    pub(crate) fn declared(&self) -> Fact {
        let shape = self.shape.clone().unwrap_or_else(PartialShape::unranked);
        Fact::new(self.element_type, shape)
    }

    /// Checks the value of an Assign against the declaration of ReadValue.
    fn check_assigned(&self, cx: &InferCx<'_>) -> Result<(), RuleError> {
        let (Some(declared), id) = (cx.declared_variable(&self.id), &self.id) else {
            return Ok(());
        };
        let (own, found) = (declared.element_type, cx.element_type(0));
        let differ = own.is_static() && found.is_static() && own != found;
        if differ {
            let message = format!("is {found}, but variable \"{id}\" is {own}");
            return Err(RuleError::element_type(0, message));
        }
        let (own, found) = (&declared.shape, cx.shape(0));
        require!(0; own.is_compatible(found), "is {found}, but variable \"{id}\" is {own}");
        Ok(())
    }

    /// The value of the variable at the beginning of a run, if it has none.
    fn first(&self, cx: &InferCx<'_>) -> Result<Fact, RuleError> {
        if cx.input_count() == 1 {
            return Ok(cx.fact(0));
        }
        let dims = self.shape.as_ref().and_then(PartialShape::dims);
        let (true, Some(dims)) = (self.element_type.is_static(), dims) else {
            let id = &self.id;
            return Err(RuleError::new(format!(
                "variable \"{id}\" has no value, and nothing says of what type and rank it is: \
                 give it one with --state"
            )));
        };
        let empty = |d: &Dim| Dim::fixed(d.value().unwrap_or(0));
        Ok(Fact::new(self.element_type, dims.iter().map(empty).collect()))
    }

    /// The facts of the variable that hold in any run.
    fn any(&self, cx: &InferCx<'_>) -> Fact {
        let first = cx.fact(0);
        let (element_type, shape) = (self.element_type, self.shape.clone());
        Fact::new(
            if element_type.is_static() { element_type } else { first.element_type },
            shape.unwrap_or(first.shape),
        )
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
            self.check_assigned(cx)?;
            cx.set_fact(0, Fact { value: None, ..cx.fact(0) });
            return Ok(());
        }
        if cx.input_count() == 1 && self.kind == Kind::Read6 {
            let (shape, id) = (cx.shape(0), &self.id);
            let Fact { element_type, shape: own, .. } = self.declared();
            let fits = |t| !element_type.is_static() || t == element_type;
            cx.expect_type(0, element_type.name(), fits)?;
            let fits = own.is_compatible(shape);
            require!(0; fits, "is {shape}, but variable \"{id}\" is {own}");
        }
        let fact = match cx.variables() {
            // Before a run: the variable has its current value or its initial one.
            Some(known) => match known.get(&self.id) {
                Some(fact) => fact.clone(),
                None => self.first(cx)?,
            },
            None => self.any(cx),
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
        let bare = Case::of("ReadValue", "opset6").attr("variable_id", "v");
        bare.clone().inputs([f("2,?")]).expect(&[Ok("f32[2,?]")]);
        let open = bare.attr("variable_type", "dynamic").attr("variable_shape", "...");
        open.clone().inputs([f("2,?")]).expect(&[Ok("f32[...]")]);
        open.expect(&[Ok("dynamic[...]")]);
        let old = Case::of("ReadValue", "opset3").attr("variable_id", "v");
        old.inputs([f("2,?")]).expect(&[Ok("f32[2,?]")]);
        Case::of("Assign", "opset6").inputs([f("2")]).expect(&[Err("variable_id: is missing")]);
    }
}
