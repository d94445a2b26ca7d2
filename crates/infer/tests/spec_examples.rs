//! The worked examples and the rules of the five documents that Reshape, Roll and StaticReshape
//! follow; each test is named after its document. What Roll does to the values is in the runtime's
//! tests of the same name; `docs/dialects/reshape-and-roll.md` lists rule by rule.

mod support;

use ir::ElementType::{
    self, BF16, Boolean, F8E4M3, F8E5M2, F16, F32, F64, I4, I8, I16, I32, I64, U1, U4, U8, U16, U64,
};
use support::Model;

/// Reshape-1 of f32 data with a constant i64 pattern.
fn reshape(data: &str, pattern: &[i64], special_zero: &str) -> Result<String, String> {
    let mut m = Model::new();
    let inputs = [m.input(F32, data), m.ints(I64, &[pattern.len() as u64], pattern)];
    m.infer("Reshape", "opset1", &[("special_zero", special_zero)], &inputs)
}

/// A layer of a dialect, with f32 data as its only input.
fn dialect(
    kind: &str,
    version: &str,
    data: &str,
    attributes: &[(&str, &str)],
) -> Result<String, String> {
    let mut m = Model::new();
    let data = m.input(F32, data);
    m.infer(kind, version, attributes, &[data])
}

fn onednn(data: &str, shape: &str, special_zero: &str) -> Result<String, String> {
    let attributes = [("shape", shape), ("special_zero", special_zero)];
    dialect("StaticReshape", "onednn", data, &attributes)
}

fn mxnet(data: &str, shape: &str) -> Result<String, String> {
    dialect("Reshape", "mxnet", data, &[("shape", shape)])
}

fn caffe(data: &str, attributes: &[(&str, &str)]) -> Result<String, String> {
    dialect("Reshape", "caffe", data, attributes)
}

/// Roll-7 of f32 data; of shift and axes only type and shape are known.
fn roll(
    data: &str,
    shift: (ElementType, &str),
    axes: (ElementType, &str),
) -> Result<String, String> {
    let mut m = Model::new();
    let inputs = [m.input(F32, data), m.input(shift.0, shift.1), m.input(axes.0, axes.1)];
    m.infer("Roll", "opset7", &[], &inputs)
}

#[track_caller]
fn gives(found: Result<String, String>, expected: &str) {
    assert_eq!(found.as_deref(), Ok(expected));
}

#[track_caller]
fn refuses(found: Result<String, String>, reason: &str) {
    let error = found.expect_err("the rule is broken");
    assert!(error.contains(reason), "{error}");
}

// openvino-reshape-1

#[test]
fn openvino_reshape_1_example_1_empty_tensor() {
    gives(reshape("2,5,5,0", &[0, 4], "false"), "f32[0,4]");
}

#[test]
fn openvino_reshape_1_example_2_copy_infer_fix() {
    gives(reshape("2,5,5,24", &[0, -1, 4], "true"), "f32[2,150,4]");
}

#[test]
fn openvino_reshape_1_example_3_copy_two_fix_infer() {
    gives(reshape("2,2,3", &[0, 0, 1, -1], "true"), "f32[2,2,1,3]");
}

#[test]
fn openvino_reshape_1_example_4_infer_first_copy_second() {
    gives(reshape("3,1,1", &[-1, 0], "true"), "f32[3,1]");
}

#[test]
fn openvino_reshape_1_example_5_copy_first_infer_second() {
    gives(reshape("3,1,1", &[0, -1], "true"), "f32[3,1]");
}

#[test]
fn openvino_reshape_1_volume_is_kept() {
    refuses(reshape("2,3", &[2, 4], "false"), "[2,3] has 6 elements, the requested shape [2,4]");
    // OpenVINO omits this check if special_zero meets a 0.
    refuses(reshape("2,3", &[0, 4], "true"), "[2,3] has 6 elements, the requested shape [2,4]");
}

#[test]
fn openvino_reshape_1_zero_is_a_size_without_special_zero() {
    gives(reshape("0,3", &[5, 0], "false"), "f32[5,0]");
    refuses(reshape("2,3", &[0, 3], "false"), "6 elements");
}

#[test]
fn openvino_reshape_1_at_most_one_minus_one() {
    refuses(reshape("2,3", &[-1, -1], "true"), "only one can be inferred");
}

#[test]
fn openvino_reshape_1_minus_one_divides_evenly() {
    refuses(reshape("2,3", &[4, -1], "true"), "6 elements do not divide evenly by 4");
}

#[test]
fn openvino_reshape_1_index_of_zero_is_below_the_rank() {
    gives(reshape("2,3", &[2, 0], "true"), "f32[2,3]");
    refuses(reshape("2,3", &[2, 3, 0], "true"), "element 2 is 0, which copies dim 2");
}

#[test]
fn openvino_reshape_1_nothing_below_minus_one() {
    refuses(reshape("2,3", &[-2, 3], "true"), "element 0 is -2");
}

#[test]
fn openvino_reshape_1_shape_is_1d_of_any_integer_type() {
    for (element_type, dims, accepted) in [
        (I32, "1", true),
        (U8, "1", true),
        (U64, "1", true),
        (I64, "1,1", false),
        (F32, "1", false),
        (Boolean, "1", false),
    ] {
        let mut m = Model::new();
        let inputs = [m.input(F32, "6"), m.input(element_type, dims)];
        let found = m.infer("Reshape", "opset1", &[("special_zero", "true")], &inputs);
        assert_eq!(found.is_ok(), accepted, "{element_type}[{dims}]: {found:?}");
    }
}

#[test]
fn openvino_reshape_1_data_is_of_any_type() {
    for element_type in [Boolean, U1, U4, I4, I8, BF16, F64, F8E4M3, ElementType::String] {
        let mut m = Model::new();
        let inputs = [m.input(element_type, "2,3"), m.ints(I64, &[1], &[-1])];
        let found = m.infer("Reshape", "opset1", &[("special_zero", "true")], &inputs);
        gives(found, &format!("{element_type}[6]"));
    }
}

// openvino-roll-7

#[test]
fn openvino_roll_7_examples_1_to_3_keep_the_shape() {
    for (shift, axes) in [("", ""), ("2", "2"), ("3", "3")] {
        gives(roll("4,3", (I64, shift), (I64, axes)), "f32[4,3]");
    }
}

#[test]
fn openvino_roll_7_xml_example_1_one_shift_for_each_axis() {
    gives(roll("3,10,100,200", (I64, "2"), (I64, "2")), "f32[3,10,100,200]");
}

#[test]
fn openvino_roll_7_xml_example_2_one_scalar_shift_for_two_axes() {
    gives(roll("3,10,100,200", (I64, ""), (I64, "2")), "f32[3,10,100,200]");
    // As drawn, the shift has one dim of size 1. So it is no scalar, and by the rule of the
    // document there must be one axis.
    refuses(roll("3,10,100,200", (I64, "1"), (I64, "2")), "is [1], axes are [2]");
}

#[test]
fn openvino_roll_7_shift_and_axes_have_rank_0_or_1() {
    refuses(roll("4", (I64, "1,1"), (I64, "1")), "input 1 (shift): must have rank 0 to 1");
    refuses(roll("4", (I64, ""), (I64, "1,1")), "input 2 (axes): must have rank 0 to 1");
}

#[test]
fn openvino_roll_7_shift_and_axes_are_i32_or_i64() {
    gives(roll("4", (I32, ""), (I64, "")), "f32[4]");
    gives(roll("4", (I64, "1"), (I32, "1")), "f32[4]");
    refuses(roll("4", (I16, ""), (I64, "")), "input 1 (shift): must be i32 or i64, not i16");
    refuses(roll("4", (I64, ""), (F32, "")), "input 2 (axes): must be i32 or i64, not f32");
}

#[test]
fn openvino_roll_7_axes_lie_within_the_rank() {
    for (axis, accepted) in [(-2, true), (1, true), (-3, false), (2, false)] {
        let mut m = Model::new();
        let inputs = [m.input(F32, "4,3"), m.input(I64, ""), m.ints(I64, &[1], &[axis])];
        let found = m.infer("Roll", "opset7", &[], &inputs);
        assert_eq!(found.is_ok(), accepted, "axis {axis}: {found:?}");
    }
}

#[test]
fn openvino_roll_7_output_has_type_and_shape_of_the_data() {
    for element_type in [Boolean, U1, I4, U16, F16, F64, F8E5M2, ElementType::String] {
        let mut m = Model::new();
        let inputs = [m.input(element_type, "1..4,?,3"), m.input(I64, ""), m.input(I64, "2")];
        let found = m.infer("Roll", "opset7", &[], &inputs);
        gives(found, &format!("{element_type}[1..4,?,3]"));
    }
}

// onednn-staticreshape-1: the document has no worked examples, only rules

#[test]
fn onednn_staticreshape_1_volume_is_kept() {
    gives(onednn("2,8,32", "16,4,8", "false"), "f32[16,4,8]");
    refuses(onednn("2,8,32", "4,6,16", "true"), "512 elements");
    refuses(onednn("2,8", "0,4", "true"), "16 elements");
}

#[test]
fn onednn_staticreshape_1_minus_one_is_inferred_once() {
    gives(onednn("2,8,32", "4,-1", "false"), "f32[4,128]");
    refuses(onednn("2,8,32", "-1,-1,16", "true"), "only one can be inferred");
    refuses(onednn("2,3", "4,-1", "false"), "do not divide evenly");
}

#[test]
fn onednn_staticreshape_1_values_are_no_less_than_minus_one() {
    refuses(onednn("2,8,32", "4,-6,16", "true"), "element 1 is -6");
}

#[test]
fn onednn_staticreshape_1_zero_as_is_without_special_zero() {
    gives(onednn("0,2,8,6", "0,4,7", "false"), "f32[0,4,7]");
    refuses(onednn("2,8,32", "4,0,16", "false"), "512 elements");
}

#[test]
fn onednn_staticreshape_1_zero_and_minus_one_exclude_each_other() {
    refuses(onednn("0,2,8,6", "-1,0", "false"), "-1 cannot be inferred beside a dim of 0");
    // oneDNN's source also rejects a copied 0; a copied size leaves nothing to infer.
    refuses(onednn("0,3", "0,-1", "true"), "-1 cannot be inferred beside a dim of 0");
    gives(onednn("2,3", "0,-1", "true"), "f32[2,3]");
}

#[test]
fn onednn_staticreshape_1_zero_copies_with_special_zero() {
    gives(onednn("2,8,32", "4,0,16", "true"), "f32[4,8,16]");
    refuses(onednn("2,3", "2,3,0", "true"), "copies dim 2");
}

#[test]
fn onednn_staticreshape_1_both_attributes_are_required() {
    let only = |name: &str, value: &str| dialect("StaticReshape", "onednn", "6", &[(name, value)]);
    refuses(only("shape", "6"), "attribute special_zero: is missing");
    refuses(only("special_zero", "true"), "attribute shape: is missing");
}

#[test]
fn onednn_staticreshape_1_types_are_f32_f16_bf16() {
    for (element_type, accepted) in
        [(F32, true), (F16, true), (BF16, true), (F64, false), (I32, false)]
    {
        let mut m = Model::new();
        let data = m.input(element_type, "6");
        let attributes = [("shape", "2,3"), ("special_zero", "false")];
        let found = m.infer("StaticReshape", "onednn", &attributes, &[data]);
        assert_eq!(found.is_ok(), accepted, "{element_type}: {found:?}");
    }
}

// mxnet-reshape

#[test]
fn mxnet_reshape_plain_sizes() {
    gives(mxnet("4", "(2,2)"), "f32[2,2]");
    refuses(mxnet("2,3,5", "(2,3)"), "30 elements");
}

#[test]
fn mxnet_reshape_0_copies() {
    gives(mxnet("2,3,4", "(4,0,2)"), "f32[4,3,2]");
    gives(mxnet("2,3,4", "(2,0,0)"), "f32[2,3,4]");
    refuses(mxnet("2,3", "(0,0,0)"), "0 copies a dim");
}

#[test]
fn mxnet_reshape_minus_1_infers() {
    gives(mxnet("2,3,4", "(6,1,-1)"), "f32[6,1,4]");
    gives(mxnet("2,3,4", "(3,-1,8)"), "f32[3,1,8]");
    gives(mxnet("2,3,4", "(-1,)"), "f32[24]");
    refuses(mxnet("2,3,4", "(-1,-1)"), "only one can be inferred");
    refuses(mxnet("2,3,4", "(5,-1)"), "24 elements do not divide evenly by 5");
}

#[test]
fn mxnet_reshape_minus_2_copies_the_rest() {
    gives(mxnet("2,3,4", "(-2,)"), "f32[2,3,4]");
    gives(mxnet("2,3,4", "(2,-2)"), "f32[2,3,4]");
    gives(mxnet("2,3,4", "(-2,1,1)"), "f32[2,3,4,1,1]");
    // MXNet puts the inferred dim at the position of its code, which -2 has moved.
    gives(mxnet("2,3", "(-2,-1)"), "f32[2,3,1]");
}

#[test]
fn mxnet_reshape_minus_3_merges_two() {
    gives(mxnet("2,3,4", "(-3,4)"), "f32[6,4]");
    gives(mxnet("2,3,4,5", "(-3,-3)"), "f32[6,20]");
    gives(mxnet("2,3,4", "(0,-3)"), "f32[2,12]");
    gives(mxnet("2,3,4", "(-3,-2)"), "f32[6,4]");
    refuses(mxnet("2,3", "(0,-3)"), "-3 merges two dims");
    refuses(mxnet("", "(-3,)"), "-3 merges two dims");
}

#[test]
fn mxnet_reshape_minus_4_splits_one() {
    gives(mxnet("2,3,4", "(-4,1,2,-2)"), "f32[1,2,3,4]");
    gives(mxnet("2,3,4", "(2,-4,-1,3,-2)"), "f32[2,1,3,4]");
    refuses(mxnet("6", "(-4,2)"), "needs two sizes after it");
    refuses(mxnet("6", "(-4,-1,-1)"), "cannot infer both sizes");
    refuses(mxnet("6", "(-4,4,2)"), "cannot split 6 into 4 times 2");
    refuses(mxnet("6", "(-4,0,6)"), "-4 is followed by 0");
}

#[test]
fn mxnet_reshape_reverse_reads_from_the_right() {
    gives(mxnet("10,5,4", "(-1,0)"), "f32[40,5]");
    let reversed = |data: &str, shape: &str| {
        dialect("Reshape", "mxnet", data, &[("shape", shape), ("reverse", "1")])
    };
    gives(reversed("10,5,4", "(-1,0)"), "f32[50,4]");
    // A split then has its -4 last.
    gives(reversed("64", "(16,4,-4)"), "f32[16,4]");
    refuses(reversed("64", "(-4,16,4)"), "needs two sizes after it");
}

#[test]
fn mxnet_reshape_deprecated_target_shape_and_keep_highest() {
    gives(dialect("Reshape", "mxnet", "2,3,5,5", &[("target_shape", "(2,0)")]), "f32[2,75]");
    let keep = [("target_shape", "(7,0)"), ("keep_highest", "True")];
    gives(dialect("Reshape", "mxnet", "2,3,5,5", &keep), "f32[2,75]");
}

// caffe-reshape

#[test]
fn caffe_reshape_0_copies_and_minus_1_infers() {
    for dim in ["2,2,4", "0,2,4", "0,2,-1", "0,-1,4"] {
        gives(caffe("2,8", &[("dim", dim)]), "f32[2,2,4]");
    }
    refuses(caffe("2,8", &[("dim", "-1,-1")]), "only one can be inferred");
    refuses(caffe("2,8", &[("dim", "2,8,0")]), "dim 2 is 0, which copies axis 2");
}

#[test]
fn caffe_reshape_as_flatten() {
    gives(caffe("2,3,4,5", &[("dim", "0,-1")]), "f32[2,60]");
}

#[test]
fn caffe_reshape_axis_keeps_the_beginning() {
    gives(caffe("2,8", &[("dim", "2,2,4")]), "f32[2,2,4]");
    gives(caffe("2,8", &[("dim", "2,4"), ("axis", "1")]), "f32[2,2,4]");
    // "-1 to begin the reshape after the last axis, -2 to include only the last axis".
    gives(caffe("2,8", &[("dim", "1"), ("axis", "-1")]), "f32[2,8,1]");
    gives(caffe("2,8", &[("dim", "2,4"), ("axis", "-2")]), "f32[2,2,4]");
    refuses(caffe("2,8", &[("dim", "1"), ("axis", "3")]), "axis 3 is out of range");
}

#[test]
fn caffe_reshape_axis_minus_3_as_documented_does_not_work() {
    // The document claims 2x2x4. By its own rule -3 is axis 0, and the layer reads it so.
    let example = caffe("2,8", &[("dim", "2,4"), ("axis", "-3")]);
    refuses(example, "[2,8] has 16 elements, the requested shape [2,4] has 8");
}

#[test]
fn caffe_reshape_num_axes_limits_the_extent() {
    gives(caffe("2,8", &[("dim", "1,2,8")]), "f32[1,2,8]");
    gives(caffe("2,8", &[("dim", "1,2"), ("num_axes", "1")]), "f32[1,2,8]");
    gives(caffe("2,8", &[("dim", "1"), ("num_axes", "0")]), "f32[1,2,8]");
    refuses(caffe("2,8", &[("dim", "16"), ("num_axes", "3")]), "reach beyond the 2 axes");
    refuses(caffe("2,8", &[("dim", "16"), ("num_axes", "-2")]), "attribute num_axes");
}

#[test]
fn caffe_reshape_axis_and_num_axes_insert_between() {
    gives(caffe("2,8", &[("dim", "2,1,8")]), "f32[2,1,8]");
    gives(caffe("2,8", &[("dim", "1"), ("axis", "1"), ("num_axes", "0")]), "f32[2,1,8]");
}

#[test]
fn caffe_reshape_count_is_kept() {
    refuses(caffe("2,8", &[("dim", "2,4")]), "16 elements");
    gives(caffe("1,1", &[]), "f32[]");
    refuses(caffe("2,8", &[]), "16 elements");
}

/// The page and the tests name each other.
#[test]
fn the_page_lists_every_test() {
    let page = include_str!("../../../docs/dialects/reshape-and-roll.md");
    let tests = [
        include_str!("spec_examples.rs"),
        include_str!("../../runtime/tests/sessions/spec_examples.rs"),
    ];
    let documents = ["openvino_", "onednn_", "mxnet_reshape_", "caffe_"];
    let is_name = |word: &&str| documents.iter().any(|d| word.starts_with(d));
    let words = |text: &'static str| text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let functions = tests.iter().flat_map(|text| text.split("#[test]\nfn ").skip(1));
    let functions: Vec<&str> =
        functions.filter_map(|f| f.split('(').next()).filter(is_name).collect();
    for name in &functions {
        assert!(words(page).any(|word| word == *name), "the page does not list {name}");
    }
    for name in words(page).filter(is_name).filter(|name| !page.contains(&format!("{name}.rs"))) {
        assert!(functions.contains(&name), "there is no test {name}");
    }
    assert!(functions.len() > 40, "{}", functions.len());
}
