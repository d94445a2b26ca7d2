"""The first token of a prompt, as a process: genai_first.py DIR BACKEND PROMPT. Without arguments, the import alone."""
import sys

import openvino_genai

if len(sys.argv) > 1:
    directory, backend, prompt = sys.argv[1:]
    hints = {'INFERENCE_PRECISION_HINT': 'f32', 'KV_CACHE_PRECISION': 'f32', 'DYNAMIC_QUANTIZATION_GROUP_SIZE': '0',
             'INFERENCE_NUM_THREADS': '2'}
    pipeline = openvino_genai.LLMPipeline(directory, 'CPU', ATTENTION_BACKEND=backend, **hints)
    print(pipeline.generate(prompt, max_new_tokens=1, ignore_eos=True))
