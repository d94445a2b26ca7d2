//! Einsum to MatMul: values by definition, and what other passes make of it.

use super::*;
use std::collections::BTreeMap;

/// The sum over all values of the labels, by definition.
fn by_definition(equation: &str, operands: [(&[f32], &[usize]); 2]) -> Vec<f64> {
    let (left, result) = equation.split_once("->").unwrap();
    let labels: Vec<&str> = left.split(',').collect();
    let mut sizes = BTreeMap::new();
    for (labels, (_, dims)) in labels.iter().zip(operands) {
        sizes.extend(labels.chars().zip(dims.iter().copied()));
    }
    let order: Vec<(char, usize)> = sizes.iter().map(|(l, s)| (*l, *s)).collect();
    let place = |labels: &str, at: &BTreeMap<char, usize>| {
        labels.chars().fold(0, |place, label| place * sizes[&label] + at[&label])
    };
    let count = result.chars().map(|l| sizes[&l]).product();
    let mut sums = vec![0.0; count];
    for index in 0..order.iter().map(|(_, size)| size).product::<usize>() {
        let mut rest = index;
        let at = order.iter().map(|(label, size)| {
            let own = rest % size;
            rest /= size;
            (*label, own)
        });
        let at: BTreeMap<char, usize> = at.collect();
        let [a, b] = [0, 1].map(|i| f64::from(operands[i].0[place(labels[i], &at)]));
        sums[place(result, &at)] += a * b;
    }
    sums
}

#[test]
fn sums_are_products_of_matrices() {
    let cases: [(&str, &[usize], &[usize]); 9] = [
        ("ibh,hnd->ibnd", &[3, 2, 5], &[5, 2, 4]),
        ("ibnd,hnd->ibh", &[3, 2, 2, 4], &[5, 2, 4]),
        ("ibnd,jbnd->bnij", &[3, 2, 2, 4], &[5, 2, 2, 4]),
        ("bnij,jbnd->ibnd", &[2, 2, 3, 5], &[5, 2, 2, 4]),
        ("ab,bc->ca", &[3, 4], &[4, 5]),
        ("ba,cb->ac", &[4, 3], &[5, 4]),
        ("a,b->ba", &[3], &[4]),
        ("ab,ab->b", &[3, 4], &[3, 4]),
        ("ab,ab->", &[3, 4], &[3, 4]),
    ];
    for (equation, left, right) in cases {
        let mut g = GraphBuilder::new("sums");
        let dims =
            |sizes: &[usize]| sizes.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(",");
        let inputs = [("a", left), ("b", right)];
        let inputs =
            inputs.map(|(name, sizes)| g.parameter(name, ir::ElementType::F32, &dims(sizes)));
        let sum = g.layer("Einsum", "opset7").attribute("equation", equation);
        let sum = sum.inputs(&inputs).output();
        g.result("y", sum);
        let graph = g.finish().unwrap();
        let values = [left, right].map(|sizes| numbers(sizes.iter().product(), sizes.len()));
        let tensors = [(left, 0), (right, 1)];
        let tensors = tensors.map(|(sizes, i)| Tensor::from_vec(sizes, values[i].clone()).unwrap());
        let expected = by_definition(equation, [(&values[0], left), (&values[1], right)]);
        let runs = [true, false].map(|optimize| {
            let plan = plan(&graph, optimize);
            let is_sum = plan.explain().iter().any(|line| line.contains(": einsum"));
            assert_eq!(is_sum, !optimize, "{equation}: {:?}", plan.explain());
            let outputs = plan.session().run(&tensors).unwrap();
            outputs[0].as_slice::<f32>().unwrap().to_vec()
        });
        assert_eq!(runs[0], runs[1], "{equation}");
        assert_eq!(runs[0].len(), expected.len(), "{equation}");
        for (found, expected) in runs[0].iter().zip(&expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{equation}: {found} {expected}");
        }
    }
}

/// Diagonals, sums of one operand, broadcast sizes and empty ones are not rewritten.
#[test]
fn other_sums_stay() {
    let cases: [(&str, &str, &str); 4] = [
        ("aab,bc->ac", "3,3,4", "4,5"),
        ("abd,bc->ac", "3,4,2", "4,5"),
        ("ab,bc->ac", "3,1", "4,5"),
        ("ab,bc->ac", "3,0", "0,5"),
    ];
    for (equation, left, right) in cases {
        let mut g = GraphBuilder::new("sums");
        let inputs = [("a", left), ("b", right)];
        let inputs = inputs.map(|(name, dims)| g.parameter(name, ir::ElementType::F32, dims));
        let sum = g.layer("Einsum", "opset7").attribute("equation", equation);
        let sum = sum.inputs(&inputs).output();
        g.result("y", sum);
        let plan = plan(&g.finish().unwrap(), true);
        let is_sum = plan.explain().iter().any(|line| line.contains(": einsum"));
        assert!(is_sum, "{equation}: {:?}", plan.explain());
    }
}

/// Constant weights are not moved at run time.
#[test]
fn weights_are_laid_out_once() {
    let mut g = GraphBuilder::new("dense");
    let x = g.parameter("x", ir::ElementType::F32, "6,8");
    let (weights, bias) = (constant(&mut g, &[8, 2, 16], 3), constant(&mut g, &[2, 16], 4));
    let sum = g.layer("Einsum", "opset7").attribute("equation", "ih,hnd->ind");
    let sum = sum.inputs(&[x, weights]).output();
    let y = binary(&mut g, "Add", sum, bias);
    g.result("y", y);
    check(&g.finish().unwrap(), &[6, 8], 1e-5, &["matmul", "binary"]);
}
