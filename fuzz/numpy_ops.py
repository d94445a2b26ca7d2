"""What NumPy computes for single operations, where it has the function: in f64, or in integers that wrap."""
import numpy as np

UNARY = {
    "Abs": np.abs, "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Asinh": np.arcsinh, "Atan": np.arctan,
    "Atanh": np.arctanh, "Ceiling": np.ceil, "Cos": np.cos, "Cosh": np.cosh, "Exp": np.exp, "Floor": np.floor,
    "Log": np.log, "Negative": np.negative, "Sign": np.sign, "Sin": np.sin, "Sinh": np.sinh, "Sqrt": np.sqrt,
    "Tan": np.tan, "Tanh": np.tanh, "IsFinite": np.isfinite, "IsNaN": np.isnan, "LogicalNot": np.logical_not,
    "BitwiseNot": np.bitwise_not, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "SoftPlus": lambda x: np.logaddexp(x, 0),
    "SoftSign": lambda x: x / (1 + np.abs(x)), "Identity": lambda x: x,
}
BINARY = {
    "Add": np.add, "Subtract": np.subtract, "Multiply": np.multiply, "Maximum": np.maximum, "Minimum": np.minimum,
    "Mod": np.fmod, "FloorMod": np.mod, "Power": np.power, "SquaredDifference": lambda a, b: (a - b) ** 2,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "Equal": np.equal,
    "NotEqual": np.not_equal, "Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater,
    "GreaterEqual": np.greater_equal, "LogicalAnd": np.logical_and, "LogicalOr": np.logical_or,
    "LogicalXor": np.logical_xor,
}
REDUCTIONS = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
    "ReduceLogicalAnd": np.all, "ReduceLogicalOr": np.any,
}


def evaluate(layer, inputs):
    """The only output of a layer, or None."""
    kind, attributes = layer.get_type_name(), layer.get_attributes()
    inputs = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    try:
        with np.errstate(all="ignore"):
            if kind in UNARY and len(inputs) == 1:
                return UNARY[kind](inputs[0])
            if kind in BINARY and len(inputs) == 2:
                return BINARY[kind](*inputs)
            if kind in REDUCTIONS and len(inputs) == 2:
                axes = tuple(int(a) for a in inputs[1].ravel())
                dtype = {"dtype": inputs[0].dtype} if kind in ("ReduceSum", "ReduceProd") else {}
                return REDUCTIONS[kind](inputs[0], axis=axes, keepdims=bool(attributes["keep_dims"]), **dtype)
            return moved(kind, attributes, inputs)
    except Exception:
        return None


def moved(kind, attributes, inputs):
    """Operations that move elements."""
    if kind == "Transpose":
        return np.transpose(inputs[0], inputs[1] if inputs[1].size else None)
    if kind == "Concat":
        return np.concatenate(inputs, axis=int(attributes["axis"]))
    if kind == "Tile":
        return np.tile(inputs[0], inputs[1])
    if kind == "Reverse":
        return np.flip(inputs[0], tuple(int(a) for a in inputs[1].ravel()))
    if kind == "Gather" and not attributes.get("batch_dims"):
        return np.take(inputs[0], inputs[1], axis=int(inputs[2]))
    if kind == "Select":
        return np.where(*inputs)
    if kind == "MatMul" and not attributes["transpose_a"] and not attributes["transpose_b"]:
        return np.matmul(*inputs)
    if kind == "CumSum" and not attributes["exclusive"] and not attributes["reverse"]:
        return np.cumsum(inputs[0], axis=int(inputs[1]), dtype=inputs[0].dtype)
    return None
