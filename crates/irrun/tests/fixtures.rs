//! The cases of `fixtures/` and `models/`: as written and optimised, on one thread and on two, and
//! with every instruction set the machine has. Values are within the tolerances of the goldens, and
//! the bits are the same for any number of threads and any instruction set.

mod support;

use cli::suite::case::{self, Case};
use cli::suite::schedule::Runner;
use cli::suite::test::Test;
use runtime::{Options, Tensor, Threads};
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

fn cases() -> Vec<(PathBuf, Case)> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let find = |dir| case::find(&root.join(dir)).expect("the directory can be read");
    let dirs = ["fixtures", "models"].into_iter().flat_map(find);
    let open = |dir: PathBuf| {
        let case = Case::open(&dir).unwrap_or_else(|e| panic!("{}: {e:#}", dir.display()));
        (dir, case)
    };
    dirs.map(open).collect()
}

#[track_caller]
fn assert_same(dir: &std::path::Path, a: &[Tensor], b: &[Tensor]) {
    assert_eq!(a.len(), b.len(), "{}", dir.display());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let same = a.sizes() == b.sizes() && a.bytes() == b.bytes();
        assert!(same && a.as_strings() == b.as_strings(), "{}, output {i}", dir.display());
    }
}

#[test]
fn goldens_and_the_same_bits_for_any_number_of_threads() {
    let threads: Vec<_> = [1, 2].into_iter().map(|n| Arc::new(Threads::new(n))).collect();
    let cases = cases();
    assert!(cases.len() > 110);
    for (dir, case) in cases {
        for optimize in [false, true] {
            let run = |threads| {
                let options = Options { optimize, ..Options::default() };
                let outputs = case.compare(&Runner::new(options, Arc::clone(threads)));
                outputs.unwrap_or_else(|e| panic!("{}, {optimize}: {e:#}", dir.display()))
            };
            assert_same(&dir, &run(&threads[0]), &run(&threads[1]));
        }
    }
}

/// The page shows what a run once said; cases are added more often than the page is written.
#[test]
fn the_tour_tells_of_no_more_cases_than_there_are() {
    let page = include_str!("../../../docs/tour.md");
    let (_, output) = page.split_once("irrun test models fixtures\n").expect("an example");
    let (count, rest) = output.split_once(' ').expect("a number");
    assert!(rest.starts_with("passed, 0 failed in "), "{rest}");
    assert!(count.parse::<usize>().expect("a number") <= cases().len(), "{count}");
}

/// In f32 the digests show it. AMX adds rounded operands in an order of its own.
#[test]
fn the_same_bits_in_bf16_with_any_instruction_set() {
    let room = support::Room::new();
    for (dir, _) in cases() {
        let dir = dir.display();
        let count =
            (0..).take_while(|k| room.path(&format!("{dir}/input_{k}.npy")).exists()).count();
        let input = |k| ["-i".to_owned(), format!("{k}={dir}/input_{k}.npy")];
        let mut args: Vec<_> = ["-o", "y.npz", "--precision", "bf16"].map(str::to_owned).into();
        args.push(format!("{dir}/model.xml"));
        args.extend((0..count).flat_map(input));
        let mut written: Vec<Vec<u8>> = Vec::new();
        for isa in ["portable", "avx2", "avx512"] {
            let args = args.iter().map(String::as_str);
            let out = room.irrun_with(&[("IRRUN_ISA", isa)], args);
            if out.report().contains("which the CPU lacks") {
                continue;
            }
            assert_eq!(out.code, 0, "{dir} with {isa}: {}", out.report());
            written.push(room.read("y.npz"));
        }
        assert!(written.windows(2).all(|w| w[0] == w[1]), "{dir}");
    }
}

/// The types of all layers, those of bodies as well, as the table of operations spells them.
fn op_types(graph: &ir::Graph, seen: &mut HashSet<&'static str>) {
    for layer in graph.layers() {
        seen.extend(infer::find(&layer.op_type, &layer.version).ok().map(|row| row.op_type));
        layer.bodies.iter().for_each(|body| op_types(&body.graph, seen));
    }
}

#[test]
fn every_operation_has_a_golden() {
    let mut seen = HashSet::new();
    for (dir, _) in cases() {
        let graph = ir::read(dir.join("model.xml"));
        op_types(&graph.unwrap_or_else(|e| panic!("{}: {e:?}", dir.display())), &mut seen);
    }
    let op_types = infer::ROWS.iter().map(|row| row.op_type);
    let missing: BTreeSet<_> = op_types.filter(|op_type| !seen.contains(op_type)).collect();
    assert!(
        missing.is_empty(),
        "no model of fixtures/ or models/ has {missing:?}: declare a case in fixtures/cases/ and \
         make its folder with `fixtures/make.py NAME`, see step 4 of docs/adding-an-operation.md"
    );
}
