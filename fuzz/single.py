"""Some layers of a graph as a model of their own, which reads what irrun has computed before them."""
import numpy as np
import openvino as ov
from openvino import opset15 as op

import compare
import numpy_ops

# Operations whose second output holds indices, which are open where values are equal: it is not compared.
INDICES = {"TopK", "MaxPool", "AdaptiveMaxPool"}


def cone(layer, depth, passed_over):
    """The names of a layer and of those before it, so many deep."""
    names, edge = [layer.get_friendly_name()], [layer]
    for _ in range(depth - 1):
        before = [p.get_source_output().get_node() for x in edge for p in x.inputs()]
        edge = [x for x in before if x.get_type_name() not in passed_over]
        names += [x.get_friendly_name() for x in edge if x.get_friendly_name() not in names]
    return names


class Part:
    """A model with its inputs, and with what irrun computes."""

    def __init__(self, model, layer, kinds, inputs, constants, wanted):
        self.model, self.layer, self.inputs, self.wanted = model, layer, inputs, wanted
        self.types = [p.element_type.to_string() for p in model.inputs] + [
            c.get_element_type().to_string() for c in constants]
        self.results = [p.element_type.to_string() for p in model.outputs]
        read = list(dict.fromkeys(self.types))
        self.kinds = f"{'+'.join(kinds)}({','.join(read)})→{','.join(dict.fromkeys(self.results))}"
        self.all = [compare.widened(x) for x in inputs] + [np.array(c.data) for c in constants]
        self.traits = self.found_traits()
        self.limits = [compare.tolerance(kinds, self.types + [t], self.all, w.size)
                       for t, w in zip(self.results, wanted)]

    def found_traits(self):
        """What is unusual about the values."""
        special = any(a.dtype.kind == "f" and not np.isfinite(a).all() for a in self.all)
        traits = ["special"] if special else []
        if any(a.size == 0 for a in self.all + self.wanted):
            traits.append("empty")
        if any(a.ndim == 0 for a in self.all[:1]):
            traits.append("scalar")
        ends = [np.iinfo(a.dtype) for a in self.all if a.dtype.kind in "iu" and a.size]
        full = [a for a in self.all if a.dtype.kind in "iu" and a.size]
        if any(a.max() >= e.max - 1 or (e.min < 0 and a.min() <= e.min + 1) for a, e in zip(full, ends)):
            traits.append("limits")
        return traits

    def differences(self, got):
        """A sentence for each output that differs; `where` tells what is special at the places of the first."""
        kind, found, self.where = self.layer.get_type_name(), [], None
        for i, (a, b, limit) in enumerate(zip(got, self.wanted, self.limits)):
            if compare.near(a, b, *limit) or (i == 1 and kind in INDICES):
                continue
            wrong = compare.apart(a, b, *limit)
            if not found:
                self.where = self.special_at(wrong, a, b)
            if wrong is None:
                found.append(f"output {i} is {list(a.shape)}, irrun {list(b.shape)}")
            else:
                at = tuple(int(k) for k in np.argwhere(wrong)[0])
                found.append(f"output {i}: {int(wrong.sum())} of {wrong.size}; at {list(at)} {a[at]}, irrun {b[at]}")
        return found

    def special_at(self, wrong, a, b):
        """What all places that differ have in common: "nan" where either side or an input of that place is
        none, "infinite" where it is that or infinite, else "numbers"; "shape" if shapes differ."""
        if wrong is None:
            return "shape"
        sides = [np.broadcast_to(x, wrong.shape)[wrong] for x in self.all + [a, b] if broadcasts(x, wrong)]
        sides = [x for x in sides if x.dtype.kind == "f"]
        for name, is_special in [("nan", np.isnan), ("infinite", lambda x: ~np.isfinite(x))]:
            if sides and np.logical_or.reduce([is_special(x) for x in sides]).all():
                return name
        return "numbers"

    def numpy(self, got):
        """Whose side NumPy takes."""
        own = numpy_ops.evaluate(self.layer, self.all)
        if own is None or len(self.wanted) != 1:
            return None
        own = np.asarray(own).astype(self.wanted[0].dtype)
        if compare.near(own, self.wanted[0], *self.limits[0]):
            return "numpy as irrun"
        return "numpy as plugin" if compare.near(own, got[0], *self.limits[0]) else "numpy differs from both"


def broadcasts(some, to):
    """Whether an array has the shape of another, or broadcasts to it."""
    pairs = zip(reversed(some.shape), reversed(to.shape))
    return some.ndim <= to.ndim and all(x in (1, y) for x, y in pairs)


def cut(model, names, known, dynamic, held):
    """The layers of those names, of which the outputs of the first are results; None where values are missing."""
    layers = {x.get_friendly_name(): x for x in model.get_ordered_ops()}
    last, inputs, parameters, constants, made = layers[names[0]], [], [], [], {}
    for name in names:
        for port in layers[name].inputs():
            source = port.get_source_output()
            node = source.get_node()
            if node.get_friendly_name() in names:
                continue
            if node.get_type_name() == "Constant":
                constants.append(node)
                continue
            key = f"{node.get_friendly_name()}:{source.get_index()}"
            if key not in known or source.get_element_type().to_string() not in held:
                return None
            if key not in made:
                shape = source.get_partial_shape() if dynamic else ov.PartialShape(list(known[key].shape))
                made[key] = op.parameter(shape, source.get_element_type())
                parameters.append(made[key])
                inputs.append(known[key])
            port.replace_source_output(made[key].output(0))
    outputs = [p for p in last.outputs() if f"{names[0]}:{p.get_index()}" in known]
    if not outputs or any(p.get_element_type().to_string() not in held for p in outputs):
        return None
    wanted = [compare.widened(known[f"{names[0]}:{p.get_index()}"]) for p in outputs]
    part = ov.Model([op.result(p) for p in outputs], parameters, "part")
    if dynamic and all(p.get_partial_shape().is_static for p in parameters):
        return None
    kinds = [layers[name].get_type_name() for name in reversed(names)]
    if any(c.get_element_type().to_string() not in held for c in constants):
        constants = [c for c in constants if c.get_element_type().to_string() in held]
    return Part(part, last, kinds, inputs, constants, wanted)
