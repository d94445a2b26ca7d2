//! Sizes as expressions of other sizes, found from samples: what a rule of an operation does with a
//! number is asked of the rule itself.

use std::fmt;

/// Divisors that are looked for: strides and patches are small or round.
const DIVISORS: [i64; 24] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 48, 56, 64, 96, 112, 128, 256];

/// `factor · ((x + shift) / divisor)^power + rest`, where the quotient is rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// What the quotient is multiplied by.
    pub factor: i64,
    /// What is added before the division.
    pub shift: i64,
    /// What is divided by.
    pub divisor: i64,
    /// 1 or 2.
    pub power: u32,
    /// What is added in the end.
    pub rest: i64,
}

impl Term {
    /// The size itself.
    pub const IDENTITY: Term = Term { factor: 1, shift: 0, divisor: 1, power: 1, rest: 0 };

    /// The value at a size; `None` beyond what 64 bits hold.
    pub fn value(&self, x: i64) -> Option<i64> {
        let quotient = x.checked_add(self.shift)?.div_euclid(self.divisor);
        quotient.checked_pow(self.power)?.checked_mul(self.factor)?.checked_add(self.rest)
    }

    /// The simplest term through all of some points; `None` if there is none, or too few points to
    /// tell.
    pub fn through(points: &[(i64, i64)]) -> Option<Term> {
        let (first, last) = (points.first()?, points.last()?);
        if points.len() < 3 || first.0 == last.0 {
            return None;
        }
        let common = points.iter().fold(0, |gcd, (_, y)| greatest(gcd, (y - first.1).abs()));
        [1u32, 2].into_iter().find_map(|power| {
            DIVISORS.into_iter().find_map(|divisor| {
                let raised = |x: i64| (x as f64 / divisor as f64).powi(power as i32);
                let slope = (last.1 - first.1) as f64 / (raised(last.0) - raised(first.0));
                // What all differences are multiples of is the factor, unless few points hide it.
                let whole = if slope < 0.0 { -common } else { common };
                let near = [whole, slope.round() as i64];
                near.into_iter().find_map(|factor| shifted(points, factor, divisor, power))
            })
        })
    }

    fn text(&self, x: &str) -> String {
        let (mut shift, mut rest) = (self.shift, self.rest);
        if self.divisor == 1 && self.power == 1 {
            (shift, rest) = (0, rest + self.factor * shift);
        }
        let is_ceil = shift == self.divisor - 1 && self.divisor > 1;
        let mut text = match (self.divisor, shift) {
            (1, 0) => x.to_owned(),
            (1, _) => format!("({x}{shift:+})"),
            (d, 0) => format!("{x}/{d}"),
            (d, _) if is_ceil => format!("⌈{x}/{d}⌉"),
            (d, _) => format!("({x}{shift:+})/{d}"),
        };
        if self.power == 2 {
            text = if self.divisor > 1 && !is_ceil {
                format!("({text})²")
            } else {
                format!("{text}²")
            };
        }
        if self.factor != 1 {
            let bare = self.divisor == 1 || is_ceil || self.power == 2;
            text = format!("{}·{}", self.factor, if bare { text } else { format!("({text})") });
        }
        if rest != 0 { format!("{text}{rest:+}") } else { text }
    }
}

/// The greatest common divisor.
fn greatest(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest(b, a % b) }
}

/// A term with these numbers, if some shift makes it go through all points.
fn shifted(points: &[(i64, i64)], factor: i64, divisor: i64, power: u32) -> Option<Term> {
    let (x, y) = *points.first()?;
    if factor == 0 {
        return None;
    }
    // First what rounds down, then what rounds up: those are the shifts there mostly are.
    let others = (1..divisor - 1).chain((divisor > 1).then_some(divisor - 1));
    let mut shifts = [0, divisor - 1].into_iter().chain(others);
    shifts.find_map(|shift| {
        let term = Term { factor, shift, divisor, power, rest: 0 };
        let term = Term { rest: y.checked_sub(term.value(x)?)?, ..term };
        points.iter().all(|(x, y)| term.value(*x) == Some(*y)).then_some(term)
    })
}

/// A size as it follows from named sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A number.
    Number(i64),
    /// The sum of terms of one name each, and a number.
    Sum(Vec<(usize, Term)>, i64),
    /// A number times the product of terms of one name each, plus a number.
    Product(i64, Vec<(usize, Term)>, i64),
    /// It follows from these, in no way that was found.
    Unknown(Vec<usize>),
}

impl Expression {
    /// The value for the sizes that the names stand for; `None` where it is not known.
    pub fn value(&self, sizes: &[i64]) -> Option<i64> {
        let term = |(name, term): &(usize, Term)| term.value(*sizes.get(*name)?);
        match self {
            Expression::Number(n) => Some(*n),
            Expression::Sum(terms, rest) => {
                terms.iter().map(term).try_fold(*rest, |sum, t| sum.checked_add(t?))
            }
            Expression::Product(factor, terms, rest) => {
                let product = terms.iter().map(term).try_fold(*factor, |p, t| p.checked_mul(t?));
                product?.checked_add(*rest)
            }
            Expression::Unknown(_) => None,
        }
    }

    /// The expression in the words of some names.
    pub fn text(&self, names: &[String]) -> String {
        let name = |i: usize| names.get(i).map_or("?", String::as_str);
        match self {
            Expression::Number(n) => n.to_string(),
            Expression::Sum(terms, rest) => {
                let mut text = String::new();
                for (i, term) in terms {
                    let term = term.text(name(*i));
                    let plus = if text.is_empty() || term.starts_with('-') { "" } else { "+" };
                    text.push_str(&format!("{plus}{term}"));
                }
                if *rest != 0 { format!("{text}{rest:+}") } else { text }
            }
            Expression::Product(factor, terms, rest) => {
                let one = |(i, term): &(usize, Term)| {
                    let text = term.text(name(*i));
                    let is_plain = |c: char| c.is_alphanumeric() || "_⌈⌉²/".contains(c);
                    let whole = text.starts_with('⌈') || !text.contains('/');
                    let bare = whole && text.chars().all(is_plain);
                    if bare { text } else { format!("({text})") }
                };
                let mut parts: Vec<String> = terms.iter().map(one).collect();
                if *factor != 1 {
                    parts.insert(0, factor.to_string());
                }
                let text = parts.join("·");
                if *rest != 0 { format!("{text}{rest:+}") } else { text }
            }
            Expression::Unknown(of) => {
                let of: Vec<&str> = of.iter().map(|i| name(*i)).collect();
                format!("f({})", of.join(","))
            }
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text("x"))
    }
}

/// One run: the sizes that the names stood for, and the size that came out.
pub(crate) type Sample = (Vec<i64>, i64);

/// The expression that all samples follow. The first sample is the base: others differ from it in
/// one name, so that each name's own term is found, or in several, by which the terms are put
/// together and tested.
pub(crate) fn find(samples: &[Sample]) -> Expression {
    let Some((base, value)) = samples.first() else { return Expression::Unknown(Vec::new()) };
    let changed = |sizes: &[i64]| -> Vec<usize> {
        (0..base.len()).filter(|i| sizes[*i] != base[*i]).collect()
    };
    let alone: Vec<(usize, Vec<(i64, i64)>)> = (0..base.len())
        .map(|name| {
            let own = samples.iter().filter(|(sizes, _)| changed(sizes) == [name]);
            let mut points: Vec<(i64, i64)> = own.map(|(sizes, y)| (sizes[name], *y)).collect();
            points.push((base[name], *value));
            points.sort_unstable();
            (name, points)
        })
        .filter(|(_, points)| points.iter().any(|(_, y)| y != value))
        .collect();
    let holds = |e: &Expression| samples.iter().all(|(sizes, y)| e.value(sizes) == Some(*y));
    let number = Expression::Number(*value);
    if alone.is_empty() && holds(&number) {
        return number;
    }
    let names: Vec<usize> = alone.iter().map(|(name, _)| *name).collect();
    let terms = |rest: i64| -> Option<Vec<(usize, Term)>> {
        let shifted =
            |points: &[(i64, i64)]| points.iter().map(|(x, y)| (*x, y - rest)).collect::<Vec<_>>();
        alone.iter().map(|(name, points)| Some((*name, Term::through(&shifted(points))?))).collect()
    };
    let sum = terms(0).map(|mut terms| {
        let own: i64 = terms.iter().map(|(name, t)| t.value(base[*name]).unwrap_or(0)).sum();
        let mut rest = value - own;
        for (_, term) in &mut terms {
            rest += std::mem::take(&mut term.rest);
        }
        if let [(_, only)] = terms.as_mut_slice() {
            only.rest = std::mem::take(&mut rest);
        }
        Expression::Sum(terms, rest)
    });
    let products = || {
        let rests = [0].into_iter().chain(offset(samples, &names));
        rests.filter_map(|rest| product(terms(rest)?, base, *value, rest)).collect::<Vec<_>>()
    };
    let found =
        sum.into_iter().filter(|e| holds(e)).chain(products().into_iter().filter(|e| holds(e)));
    found.into_iter().next().unwrap_or(Expression::Unknown(names))
}

/// A product of terms: what each multiplies the others by is taken out of it.
fn product(terms: Vec<(usize, Term)>, base: &[i64], value: i64, rest: i64) -> Option<Expression> {
    let mut factors = Vec::new();
    let mut own = 1i64;
    for (name, term) in terms {
        // a·x + b is a·(x + b/a).
        let shift =
            if term.rest % term.factor == 0 { term.rest / term.factor } else { return None };
        let term = match (term.divisor, term.power) {
            (1, 1) => Term { factor: 1, shift: term.shift + shift, rest: 0, ..term },
            _ => Term { factor: 1, rest: shift, ..term },
        };
        own = own.checked_mul(term.value(*base.get(name)?)?)?;
        factors.push((name, term));
    }
    let whole = value - rest;
    (own != 0 && whole % own == 0).then(|| Expression::Product(whole / own, factors, rest))
}

/// What is added to a product of two sizes, from four samples in which they differ.
fn offset(samples: &[Sample], names: &[usize]) -> Option<i64> {
    let [a, b, ..] = names else { return None };
    let (base, f00) = samples.first()?;
    let both = |(sizes, _): &&Sample| {
        (0..base.len()).all(|i| (sizes[i] != base[i]) == (i == *a || i == *b))
    };
    samples.iter().filter(both).find_map(|(far, f11)| {
        let with = |name: usize| {
            let mut sizes = base.clone();
            sizes[name] = far[name];
            samples.iter().find(|(s, _)| *s == sizes).map(|(_, y)| *y)
        };
        let (f10, f01) = (with(*a)?, with(*b)?);
        let below = f11 + f00 - f10 - f01;
        let above = f11.checked_mul(*f00)?.checked_sub(f10.checked_mul(f01)?)?;
        (below != 0 && above % below == 0).then(|| above / below).filter(|rest| *rest != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(sizes: usize, f: impl Fn(&[i64]) -> i64) -> Vec<Sample> {
        let base = vec![64; sizes];
        let mut all = vec![base.clone()];
        for name in 0..sizes {
            for x in [65, 66, 67, 68, 71, 77, 96, 100, 131, 200] {
                let mut one = base.clone();
                one[name] = x;
                all.push(one);
            }
        }
        all.push((0..sizes).map(|i| 65 + i64::try_from(i).unwrap()).collect());
        all.push((0..sizes).map(|i| 131 - 31 * i64::try_from(i).unwrap()).collect());
        all.into_iter()
            .map(|s| {
                let y = f(&s);
                (s, y)
            })
            .collect()
    }

    #[test]
    fn expressions_are_found_and_named() {
        let names: Vec<String> = ["H", "W"].map(str::to_owned).to_vec();
        type F = fn(&[i64]) -> i64;
        let cases: [(F, &str); 13] = [
            (|_| 7, "7"),
            (|s| s[0], "H"),
            (|s| 3 * s[0] + 2, "3·H+2"),
            (|s| s[1] / 4, "W/4"),
            (|s| (s[0] + 3) / 4, "⌈H/4⌉"),
            (|s| (s[0] - 7) / 2 + 1, "⌈H/2⌉-3"),
            (|s| (s[0] - 4) / 5 + 1, "(H+1)/5"),
            (|s| 2 * (s[0] / 8), "2·(H/8)"),
            (|s| s[0] * s[1], "H·W"),
            (|s| (s[0] / 4) * (s[1] / 4), "(H/4)·(W/4)"),
            (|s| (s[0] / 16) * (s[1] / 16) + 1, "(H/16)·(W/16)+1"),
            (|s| s[0] + s[1] + 5, "H+W+5"),
            (|s| s[0] * s[0] % 17 + s[1], "f(H,W)"),
        ];
        for (f, text) in cases {
            let found = find(&samples(2, f));
            assert_eq!(found.text(&names), text);
            if !matches!(found, Expression::Unknown(_)) {
                for sizes in [[70, 81], [90, 64], [129, 333]] {
                    assert_eq!(found.value(&sizes), Some(f(&sizes)), "{text} at {sizes:?}");
                }
            }
        }
    }

    #[test]
    fn a_square_is_found() {
        let found = find(&samples(1, |s| (s[0] / 2) * (s[0] / 2)));
        assert_eq!(found.value(&[90]), Some(2025));
    }
}
