//! Equality labels of dims: a union-find, one per propagation.

use crate::lattice::dim::{Dim, Symbol};

/// Which symbols are known to be equal.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    parents: Vec<u32>,
}

impl Symbols {
    /// A symbol equal to no other yet.
    pub fn fresh(&mut self) -> Symbol {
        let id = u32::try_from(self.parents.len() + 1).unwrap_or(0);
        if id != 0 {
            self.parents.push(id);
        }
        Symbol(id)
    }

    /// The representative of a symbol's class.
    pub fn root(&self, symbol: Symbol) -> Symbol {
        let mut id = symbol.0;
        while let Some(&parent) = self.slot(id).and_then(|i| self.parents.get(i)) {
            if parent == id {
                break;
            }
            id = parent;
        }
        Symbol(id)
    }

    /// Whether two symbols are labels and known to be equal.
    pub fn same(&self, a: Symbol, b: Symbol) -> bool {
        a.is_some() && b.is_some() && self.root(a) == self.root(b)
    }

    /// Records that the dims are equal in every run.
    pub fn unite(&mut self, a: Dim, b: Dim) {
        let (a, b) = (self.root(a.symbol()), self.root(b.symbol()));
        if a.is_some()
            && b.is_some()
            && let Some(place) = self.slot(b.0).and_then(|i| self.parents.get_mut(i))
        {
            *place = a.0;
        }
    }

    fn slot(&self, id: u32) -> Option<usize> {
        usize::try_from(id).ok()?.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn united_symbols_are_the_same() {
        let mut s = Symbols::default();
        let [a, b, c] = [s.fresh(), s.fresh(), s.fresh()];
        let dim = |symbol| Dim::any().with_symbol(symbol);
        s.unite(dim(a), dim(b));
        s.unite(dim(b), dim(Symbol::NONE));
        assert!(s.same(a, b) && s.same(b, a) && s.same(c, c));
        assert!(!s.same(a, c) && !s.same(Symbol::NONE, Symbol::NONE));
        s.unite(dim(c), dim(b));
        assert!(s.same(a, c));
    }
}
