#!/usr/bin/env python3
"""Operations of PyTorch, converted by OpenVINO, run by irrun, OpenVINO's CPU plugin and PyTorch itself.

    fuzz/torch_ops.py --irrun target/release/irrun --count 100

PyTorch tests its operations with sample inputs (`op_db`, some 700 operations). Up to six samples of each are converted;
what irrun and OpenVINO compute is compared with what PyTorch computed before. A process converts some operations at a
time, since converters can crash. Needs `pip install openvino numpy torch expecttest`; `make torch-ops` runs it."""
import warnings

import converted

SAMPLES = 6
# Larger inputs say no more.
MOST_ELEMENTS = 200_000


def samples(op):
    """Functions of tensors, and their tensors, for each type: names, functions, inputs."""
    import torch
    from torch.utils import _pytree as tree
    for dtype in (t for t in (torch.float32, torch.int64) if t in op.dtypes):
        torch.manual_seed(7)
        made = list(op.sample_inputs("cpu", dtype, requires_grad=False))
        for index in range(0, len(made), max(1, len(made) // SAMPLES))[:SAMPLES]:
            leaves, form = tree.tree_flatten(((made[index].input, *made[index].args), made[index].kwargs))
            places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            tensors = [leaves[i].detach().clone() for i in places]
            if not any(t.is_complex() or t.numel() > MOST_ELEMENTS for t in tensors):
                name = f"{op.name.replace('.', '_')}{op.variant_test_name}_{str(dtype)[6:]}_{index}"
                yield name, module(op.op, leaves, form, places), tensors


def module(function, leaves, form, places):
    """A module that calls the function with tensors at some places of its arguments."""
    import torch
    from torch.utils import _pytree as tree

    class Call(torch.nn.Module):
        def forward(self, *tensors):
            given = list(leaves)
            for place, tensor in zip(places, tensors):
                given[place] = tensor
            arguments, named = tree.tree_unflatten(given, form)
            results = tree.tree_leaves(function(*arguments, **named))
            return tuple(r for r in results if isinstance(r, torch.Tensor))

    return Call().eval()


def judge(call, tensors, irrun):
    """What became of a sample, and the message if irrun refuses it."""
    import openvino as ov
    import torch
    try:
        with torch.no_grad():
            expected = [r.contiguous().numpy() for r in call(*[t.clone() for t in tensors])]
            model = ov.convert_model(call, example_input=tuple(tensors))
    except Exception:
        return "not converted", ""
    return converted.verdict("PyTorch", model, [t.contiguous().numpy() for t in tensors], expected, irrun)


def run(first, irrun):
    """Reports the samples of the operations from `first` on."""
    from torch.testing._internal.common_methods_invocations import op_db
    warnings.filterwarnings("ignore")
    operations = list(enumerate(op_db))[first:]
    converted.report(((number, samples(op)) for number, op in operations), lambda *s: judge(*s, irrun))


if __name__ == "__main__":
    converted.main(__doc__.splitlines()[0], run)
