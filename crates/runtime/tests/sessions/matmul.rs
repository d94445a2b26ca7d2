//! MatMuls whose kernels deviate from the direct form of MatMul-1, against the chain of
//! multiply-adds along k that defines each element.

use infer::Inputs;
use ir::ElementType::F32;
use ir::GraphBuilder;
use irrun_runtime::{Options, Session, Tensor, Threads, compile_with, rayon};
use std::sync::Arc;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// A matrix times a column runs as a row times the matrix, transposed or not.
#[test]
fn matrices_times_columns_are_chains() {
    for (batch, m, k, transposed) in [(5, 20, 33, false), (1, 70, 64, true), (9, 3, 1, false)] {
        let mut g = GraphBuilder::new("columns");
        let (rows, columns) = if transposed { (1, k) } else { (k, 1) };
        let a = g.parameter("a", F32, &format!("{batch},{m},{k}"));
        let b = g.parameter("b", F32, &format!("{batch},{rows},{columns}"));
        let layer = g.layer("MatMul", "opset1").attribute("transpose_b", &transposed.to_string());
        let c = layer.inputs(&[a, b]).output();
        g.result("c", c);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let (a, b) = (numbers(batch * m * k, 1), numbers(batch * k, 2));
        let inputs = [
            Tensor::from_vec(&[batch, m, k], a.clone()).unwrap(),
            Tensor::from_vec(&[batch, rows, columns], b.clone()).unwrap(),
        ];
        let outputs =
            irrun_runtime::compile(&graph, &facts).unwrap().session().run(&inputs).unwrap();
        assert_eq!(outputs[0].sizes(), [batch, m, 1]);
        let chain = |i: usize| {
            let (row, column) = (&a[i * k..][..k], &b[i / m * k..][..k]);
            row.iter().zip(column).fold(0f32, |sum, (a, b)| a.mul_add(*b, sum))
        };
        let expected: Vec<f32> = (0..batch * m).map(chain).collect();
        assert_eq!(outputs[0].as_slice::<f32>(), Some(&expected[..]));
    }
}

/// Sessions share a pool of the program, while its threads also do other work.
#[test]
fn sessions_on_a_shared_pool_have_the_bits_of_one_thread() {
    let [m, k, n] = [256, 128, 192];
    let mut g = GraphBuilder::new("shared");
    let a = g.parameter("a", F32, &format!("{m},{k}"));
    let b = g.parameter("b", F32, &format!("{k},{n}"));
    let c = g.layer("MatMul", "opset1").inputs(&[a, b]).output();
    g.result("c", c);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let run = |mut session: Session| -> Vec<f32> {
        let inputs = [
            Tensor::from_vec(&[m, k], numbers(m * k, 1)).unwrap(),
            Tensor::from_vec(&[k, n], numbers(k * n, 2)).unwrap(),
        ];
        (0..20).for_each(|_| drop(session.run(&inputs).unwrap()));
        session.run(&inputs).unwrap()[0].as_slice().unwrap().to_vec()
    };
    let plan = |options: Options| compile_with(&graph, &facts, &options).unwrap();
    let expected = run(plan(Options::default()).session_on(Arc::new(Threads::new(1))));
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let shared = || run(plan(Options::default().pool(Arc::clone(&pool))).session());
    std::thread::scope(|scope| {
        let both = [scope.spawn(shared), scope.spawn(shared)];
        assert!(both.into_iter().all(|one| one.join().unwrap() == expected));
    });
    // A thread of the pool may run a session too, and the pool is free afterwards.
    assert_eq!(pool.install(shared), expected);
    assert_eq!(pool.broadcast(|cx| cx.index()).len(), 2);
}
