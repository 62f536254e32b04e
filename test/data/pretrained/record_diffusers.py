"""Records a tiny Wan transformer as diffusers saves it, with its output on inputs by a formula.

python -m pip install torch==2.13.0 diffusers==0.42.1 && python test/data/pretrained/record_diffusers.py

With a folder, it prints the largest difference of that folder's output from the recorded one:
python test/data/pretrained/record_diffusers.py saved
"""

import json
import os
import sys

import diffusers
import torch
from diffusers import WanTransformer3DModel

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "recorded-diffusers.json")
LATENTS, TEXT, TIMESTEPS = [2, 3, 2, 4, 6], [2, 5, 6], [17.0, 803.0]


def waves(shape, speed):
    """Returns sin(speed · i) for the i-th element."""
    count = torch.Size(shape).numel()
    return torch.sin(speed * torch.arange(count, dtype=torch.float64)).float().reshape(shape)


def output_of(model):
    with torch.no_grad():
        return model.eval()(waves(LATENTS, 0.7), torch.tensor(TIMESTEPS), waves(TEXT, 0.3)).sample


def main():
    if len(sys.argv) > 1:
        with open(RECORDED) as file:
            recorded = torch.tensor(json.load(file)["output"])
        output = output_of(WanTransformer3DModel.from_pretrained(sys.argv[1]))
        print((output.flatten() - recorded).abs().max().item())
        return
    torch.manual_seed(7)
    model = WanTransformer3DModel(
        num_attention_heads=2, attention_head_dim=6, in_channels=3, out_channels=2, text_dim=6, freq_dim=8, ffn_dim=20,
        num_layers=2, rope_max_seq_len=32, eps=1e-5,
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    # Several files, as large models have.
    model.save_pretrained(os.path.join(HERE, "diffusers"), max_shard_size="20KB")
    output = output_of(model)
    recorded = {
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "shape": list(output.shape),
        "output": output.flatten().tolist(),
    }
    with open(RECORDED, "w") as file:
        file.write(json.dumps(recorded) + "\n")


main()
