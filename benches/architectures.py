"""Architectures of torchvision and timm with random weights, as OpenVINO converts them."""
import logging
import warnings

import openvino as ov

from common import WORK, guarded
from field import beside_openvino

TORCHVISION = ['alexnet', 'densenet121', 'efficientnet_v2_s', 'googlenet', 'inception_v3', 'maxvit_t', 'mnasnet1_0',
               'mobilenet_v2', 'mobilenet_v3_large', 'regnet_x_800mf', 'regnet_y_400mf', 'resnext50_32x4d',
               'shufflenet_v2_x1_0', 'squeezenet1_1', 'swin_v2_t', 'vgg11_bn', 'vit_b_32']
TIMM = ['botnet26t_256', 'cait_xxs24_224', 'coat_lite_tiny', 'convmixer_768_32', 'crossvit_9_240', 'cspresnet50',
        'davit_tiny', 'deit_tiny_patch16_224', 'dla34', 'eca_nfnet_l0', 'edgenext_small', 'efficientformer_l1',
        'fastvit_t8', 'focalnet_tiny_srf', 'ghostnet_100', 'gmlp_s16_224', 'hardcorenas_a', 'hrnet_w18_small',
        'inception_next_tiny', 'lambda_resnet26t', 'levit_128', 'mixer_b16_224', 'mobilenetv4_conv_small',
        'mobileone_s0', 'mobilevit_s', 'nextvit_small', 'nfnet_l0', 'pit_ti_224', 'poolformer_s12', 'pvt_v2_b0',
        'repvgg_a0', 'res2net50_26w_4s', 'resmlp_12_224', 'rexnet_100', 'seresnet50', 'skresnet18', 'starnet_s1',
        'tinynet_a', 'tiny_vit_5m_224', 'tnt_s_patch16_224', 'vgg13', 'volo_d1_224', 'xcit_tiny_12_p16_224']


def built(name):
    """A model of PyTorch and the side of its pictures."""
    import timm
    import torchvision
    if name in TIMM:
        model = timm.create_model(name)
        return model, model.default_cfg.get('input_size', (3, 224, 224))[-1]
    # These two would warn that their first weights will be others.
    more = {'init_weights': True} if name in ('googlenet', 'inception_v3') else {}
    return torchvision.models.get_model(name, weights=None, **more), 299 if name == 'inception_v3' else 224


def kept(path, make, compress_to_fp16):
    """The file of a model with random weights, made and written when it is not there yet."""
    if path.exists() and path.with_suffix('.bin').exists():
        return path
    import torch
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter('ignore')
        logging.disable(logging.WARNING)
        whole = make()
    ov.save_model(whole, path, compress_to_fp16)
    return path


def converted(name):
    """The file of an architecture."""
    def make():
        import torch
        model, side = built(name)
        shape = (1, 3, side, side)
        return ov.convert_model(model.eval(), example_input=torch.zeros(shape), input=[shape])
    return kept(WORK / 'architectures' / f'{name}.xml', make, compress_to_fp16=False)


def architectures(setup):
    """Two threads, beside OpenVINO in f32. Quick, three of them."""
    names = [*TORCHVISION, *TIMM]

    def compare(name):
        xml = converted(name)
        return {'ms': beside_openvino(setup, name, xml, ov.Core().read_model(xml), divisor=2)}
    return [guarded(name, lambda: compare(name)) for name in (names[:3] if setup.is_quick else names)]
