"""The same architectures as ONNX, for the peers that read nothing else. Weights are random in both."""
import warnings

from common import WORK

TIMM = {'swin_tiny': 'swin_tiny_patch4_window7_224', 'vit_tiny': 'vit_tiny_patch16_224', 'resnet50': 'resnet50',
        'convnext_tiny': 'convnext_tiny', 'mobilenetv3_small': 'mobilenetv3_small_100',
        'efficientnet_b0': 'efficientnet_b0'}


def export(name):
    """The file of a model, written when it is not there yet; None where there is none."""
    if name not in TIMM:
        return None
    path = WORK / 'onnx' / f'{name}.onnx'
    if path.exists():
        return path
    import timm
    import torch
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    model = timm.create_model(TIMM[name]).eval()
    unfinished = path.with_suffix('.new')
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter('ignore')
        torch.onnx.export(model, torch.zeros(1, 3, 224, 224), str(unfinished), dynamo=False, opset_version=17,
                          input_names=['x'], output_names=['y'])
    unfinished.rename(path)
    return path


def session(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Its threads would go on spinning while the next peer is measured.
    options.add_session_config_entry('session.force_spinning_stop', '1')
    return onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
