//! Extensions: operations that a program adds to those of the table.

use crate::rule::op::{Op, Parse};
use crate::table::{self, Row, named};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Operations of the program. They take precedence over those of the table, so a program can
/// replace one. Clones share everything.
///
/// A program that runs models adds operations with `irrun_runtime::register`, which also adds the
/// kernel.
#[derive(Clone, Default)]
pub struct Extensions(Option<Arc<Registered>>);

#[derive(Clone, Default)]
struct Registered {
    rows: Vec<Row>,
    /// What runs each operation, as a type that this crate does not know.
    lowerings: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Extensions {
    /// Adds an operation for layers of this type and version. [`Extensions::lowering`] gives
    /// `lowering` back: whatever is needed to run the operation.
    pub fn register<T: Parse<Kind = ()>>(
        &mut self,
        op_type: &'static str,
        version: &'static str,
        lowering: impl Any + Send + Sync,
    ) {
        let registered = Arc::make_mut(self.0.get_or_insert_default());
        registered.rows.push(Row {
            op_type,
            versions: named(version),
            module: "",
            parse: |attrs| Ok(Arc::new(T::parse((), attrs)?)),
        });
        registered.lowerings.insert(TypeId::of::<T>(), Arc::new(lowering));
    }

    /// What an operation was registered with, if it is an `L`.
    pub fn lowering<L: Any>(&self, op: &dyn Op) -> Option<&L> {
        let op: &dyn Any = op;
        self.0.as_ref()?.lowerings.get(&op.type_id())?.downcast_ref()
    }

    /// Finds the row of a layer, here or in the table.
    ///
    /// # Errors
    /// As [`crate::find`].
    pub(crate) fn find(&self, op_type: &str, version: &str) -> Result<Row, String> {
        let is_meant =
            |row: &&Row| row.op_type.eq_ignore_ascii_case(op_type) && row.versions.has(version);
        let rows = self.0.as_ref().map(|registered| registered.rows.as_slice()).unwrap_or_default();
        // The last registration counts.
        match rows.iter().rfind(is_meant) {
            Some(row) => Ok(*row),
            None => table::find(op_type, version).copied(),
        }
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.0.iter().flat_map(|registered| &registered.rows);
        f.debug_set().entries(rows.map(|row| row.op_type)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::prelude::*;

    #[derive(Debug)]
    struct Twice;

    no_attributes!(Twice);

    impl Op for Twice {
        fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
            cx.set(0, cx.element_type(0), cx.shape(0).clone());
            Ok(())
        }
    }

    #[test]
    fn own_operations_come_before_the_table() {
        let mut extensions = Extensions::default();
        let without = extensions.clone();
        extensions.register::<Twice>("Twice", "extension", 2u8);
        extensions.register::<Twice>("Abs", "opset1", 2u8);
        assert_eq!(extensions.find("twice", "extension").unwrap().op_type, "Twice");
        assert_eq!(extensions.find("Abs", "opset1").unwrap().module, "");
        assert_eq!(extensions.find("Abs", "opset2").unwrap().module, "unary");
        assert_eq!(extensions.find("Twice", "opset1").err(), without.find("Twice", "opset1").err());
        assert!(without.find("Twice", "extension").is_err());
        assert_eq!(extensions.lowering::<u8>(&Twice), Some(&2));
        assert_eq!(extensions.lowering::<u16>(&Twice), None);
        assert_eq!(without.lowering::<u8>(&Twice), None);
    }
}
