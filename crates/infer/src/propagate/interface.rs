//! The element types of inputs and outputs for callers.
//!
//! They are those of the graph, except in models of IR version 10. Programs for such models use
//! half precision only to store a model, and no 64-bit integers. OpenVINO converts at the boundary,
//! and so does irrun: [`docs/formats.md`](../../../docs/formats.md).

use ir::ElementType::{self, Dynamic, F16, F32, I32, I64, String, U32, U64};
use ir::{Graph, Version};

/// The type in which callers give an input that `graph` declares as `declared`.
pub fn input_type(graph: &Graph, declared: ElementType) -> ElementType {
    if converts(graph) && declared == F16 { F32 } else { declared }
}

/// The type in which callers get an output that `graph` computes as `computed`.
pub fn output_type(graph: &Graph, computed: ElementType) -> ElementType {
    match computed {
        _ if !converts(graph) => computed,
        Dynamic | String => computed,
        I32 | U32 | I64 | U64 => I32,
        _ => F32,
    }
}

/// Whether the types for callers differ from those of the graph. Bodies have no callers.
fn converts(graph: &Graph) -> bool {
    graph.version() == Version::V10 && !graph.is_body()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Parts;
    use std::sync::Arc;

    fn graph(version: Version, is_body: bool) -> Graph {
        let parts = Parts { version, is_body, ..Parts::default() };
        Graph::assemble(parts, Arc::default(), Arc::default()).unwrap()
    }

    #[test]
    fn types_of_version_10_are_those_that_openvino_shows() {
        let old = graph(Version::V10, false);
        // Each type at an input and at an output, as OpenVINO 2026.4 shows it.
        for row in [
            "boolean boolean f32",
            "u4 u4 f32",
            "i4 i4 f32",
            "u8 u8 f32",
            "i8 i8 f32",
            "u16 u16 f32",
            "i16 i16 f32",
            "u32 u32 i32",
            "i32 i32 i32",
            "u64 u64 i32",
            "i64 i64 i32",
            "f16 f32 f32",
            "bf16 bf16 f32",
            "f32 f32 f32",
            "f64 f64 f32",
        ] {
            let mut types = row.split(' ').map(|name| ElementType::from_attribute(name).unwrap());
            let of_graph = types.next().unwrap();
            let shown = [input_type(&old, of_graph), output_type(&old, of_graph)];
            assert_eq!(shown[..], types.collect::<Vec<_>>()[..], "{row}");
        }
    }

    #[test]
    fn version_11_and_bodies_show_what_they_compute() {
        for graph in [graph(Version::V11, false), graph(Version::V10, true)] {
            for each in ElementType::all() {
                assert_eq!((input_type(&graph, each), output_type(&graph, each)), (each, each));
            }
        }
    }
}
