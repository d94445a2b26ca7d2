//! What rules share, and how a rule asks for what is inside a layer's bodies.

use crate::fact::Fact;
use crate::lattice::dim::Why;
use crate::lattice::symbols::Symbols;
use crate::require;
use crate::rule::error::RuleError;
use ir::Diagnostic;
use std::collections::HashMap;

/// The bodies of a layer, for its rule. The propagation implements it: a rule knows no graph.
pub(crate) trait Bodies {
    /// Propagates through a body whose Parameters are given, and returns the facts of its Results;
    /// nothing if the layer has no such body. What the last call found is kept.
    fn propagate(
        &mut self,
        body: usize,
        parameters: &[Option<Fact>],
        context: &mut PropagationContext,
    ) -> Option<Vec<Fact>>;

    /// What the last propagation has found wrong in a body.
    fn findings(&mut self, body: usize) -> &mut [Diagnostic];
}

/// What the rules of one propagation share.
#[derive(Default)]
pub(crate) struct PropagationContext {
    pub(crate) symbols: Symbols,
    pub(crate) variables: Option<HashMap<String, Fact>>,
    /// What ReadValue declares, by variable id.
    pub(crate) declared: HashMap<String, Fact>,
    pub(crate) nominal: bool,
    pub(crate) reasons: Vec<String>,
    /// Walks through bodies so far.
    pub(crate) bodies: usize,
}

impl PropagationContext {
    /// Counts a walk through a body. A loop walks its body until shapes settle, and each of these
    /// walks does so with the bodies inside: without a limit a small file could ask for any number.
    ///
    /// # Errors
    /// When there have been too many walks.
    pub(crate) fn enter_body(&mut self) -> Result<(), RuleError> {
        const MAX_WALKS: usize = 50_000;
        self.bodies += 1;
        require!(
            self.bodies <= MAX_WALKS,
            "bodies inside bodies are too many to infer their shapes"
        );
        Ok(())
    }

    /// Keeps why something is unknown.
    pub(crate) fn reason(&mut self, text: String) -> Why {
        self.reasons.push(text);
        Why(u32::try_from(self.reasons.len()).unwrap_or(0))
    }
}
