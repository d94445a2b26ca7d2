//! What the rules of a propagation share, and how a rule asks about bodies.

use crate::fact::Fact;
use crate::lattice::dim::Why;
use crate::lattice::symbols::Symbols;
use crate::require;
use crate::rule::error::RuleError;
use ir::Diagnostic;
use std::collections::HashMap;

/// The bodies of a layer, as its rule sees them. The propagation implements it; rules know no
/// graph.
pub(crate) trait Bodies {
    /// Propagates through a body with these Parameters, and returns the facts of its Results;
    /// `None` if the layer has no such body. The facts of the last call are kept.
    fn propagate(
        &mut self,
        body: usize,
        parameters: &[Option<Fact>],
        context: &mut PropagationContext,
    ) -> Option<Vec<Fact>>;

    /// The findings of the last propagation through a body.
    fn findings(&mut self, body: usize) -> &mut [Diagnostic];
}

/// What the rules of one propagation share.
#[derive(Default)]
pub(crate) struct PropagationContext {
    pub(crate) symbols: Symbols,
    pub(crate) variables: Option<HashMap<String, Fact>>,
    /// The declarations of ReadValue layers, by variable id.
    pub(crate) declared: HashMap<String, Fact>,
    pub(crate) nominal: bool,
    pub(crate) reasons: Vec<String>,
    /// How many times bodies have been propagated through.
    pub(crate) bodies: usize,
}

impl PropagationContext {
    /// Counts a propagation through a body. A loop propagates until its shapes settle, and so do
    /// the loops inside: without a limit a small file could take arbitrarily long.
    ///
    /// # Errors
    /// When there have been too many.
    pub(crate) fn enter_body(&mut self) -> Result<(), RuleError> {
        const MAX_WALKS: usize = 50_000;
        self.bodies += 1;
        require!(
            self.bodies <= MAX_WALKS,
            "bodies inside bodies are too many to infer their shapes"
        );
        Ok(())
    }

    /// Stores why something is unknown.
    pub(crate) fn reason(&mut self, text: String) -> Why {
        self.reasons.push(text);
        Why(u32::try_from(self.reasons.len()).unwrap_or(0))
    }
}
