#!/usr/bin/env python3
"""Makes models/tiny_llama: a language model of random weights with a tokenizer trained on the
README, as optimum-intel exports it, and what OpenVINO GenAI generates with it in f32.

Needs `pip install optimum-intel[openvino] openvino-genai`; irrun itself needs neither."""
import json
import pathlib
import shutil
import tempfile

import openvino_genai as genai
import torch
from optimum.exporters.openvino import main_export
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parent
HERE = ROOT / "tiny_llama"
KEPT = ["openvino_model", "openvino_tokenizer", "openvino_detokenizer"]
SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>", "<s>"]
CHAT = """{{ bos_token }}{% for message in messages %}
<|{{ message['role'] }}|>{{ message['content'] | trim }}<|end|>
{% endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""
CASES = [
    {"prompt": "The model reads a file"},
    {"prompt": "Größe 你好 😀"},
    {"prompt": "What is a layer?", "chat": True},
    {"prompt": "irrun", "repetition_penalty": 1.3},
    {"prompt": "The", "max_new_tokens": 100},
    {"prompt": "The model reads a file", "stop_token_ids": [24]},
    {"prompt": "The model reads a file", "stop_strings": ["never", "ne! s"]},
]
F32 = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}


def tokenizer():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet)
    text = (ROOT.parent / "README.md").read_text().splitlines()
    made.train_from_iterator(text + ["Größe 你好世界 😀🚀 привет мир"] * 20, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", SPECIAL.index("<s>"))])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="<|end|>", pad_token="<|end|>")
    fast.chat_template = CHAT
    return fast


def export(directory):
    torch.manual_seed(3)
    tokens = tokenizer()
    # Weights large enough that no two tokens are about as probable.
    config = LlamaConfig(
        vocab_size=len(tokens), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        initializer_range=0.3, bos_token_id=tokens.bos_token_id, eos_token_id=tokens.eos_token_id,
        pad_token_id=tokens.pad_token_id)
    source = directory / "source"
    LlamaForCausalLM(config).save_pretrained(source)
    tokens.save_pretrained(source)
    settings = GenerationConfig(bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id)
    settings.save_pretrained(source)
    main_export(source, directory / "ir", task="text-generation-with-past", convert_tokenizer=True)
    return directory / "ir"


def answer(pipeline, case):
    tokens = pipeline.get_tokenizer()
    prompt = case["prompt"]
    if case.get("chat"):
        messages = [{"role": "user", "content": prompt}]
        prompt = tokens.apply_chat_template(messages, add_generation_prompt=True)
    ids = tokens.encode(prompt, add_special_tokens=not case.get("chat"))
    config = pipeline.get_generation_config()
    config.max_new_tokens = case.get("max_new_tokens", 24)
    config.repetition_penalty = case.get("repetition_penalty", 1.0)
    config.stop_strings = set(case.get("stop_strings", []))
    config.stop_token_ids = config.stop_token_ids | set(case.get("stop_token_ids", []))
    new = list(pipeline.generate(ids, config).tokens[0])
    prompt_tokens = ids.input_ids.data.tolist()[0]
    return {**case, "prompt_tokens": prompt_tokens, "tokens": new, "text": tokens.decode(new)}


def main():
    with tempfile.TemporaryDirectory() as directory:
        made = export(pathlib.Path(directory))
        shutil.rmtree(HERE, ignore_errors=True)
        HERE.mkdir()
        files = [f"{name}.{end}" for name in KEPT for end in ("xml", "bin")]
        for file in files + ["config.json", "generation_config.json", "tokenizer_config.json",
                             "chat_template.jinja"]:
            shutil.copy(made / file, HERE / file)
    pipeline = genai.LLMPipeline(HERE, "CPU", **F32)
    golden = [answer(pipeline, case) for case in CASES]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in golden)
    (HERE / "golden.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
